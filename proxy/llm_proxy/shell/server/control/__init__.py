"""The control pages under `/_proxy/`: `pages` and `fault_page`.

GET  /_proxy/health                    that the proxy serves, and its mode
GET  /_proxy/journal                   the requests and responses of this run
GET  /_proxy/verdict                   the verdict on the clients' behaviour after each fault
GET  /_proxy/misses                    the requests that were not answered, and why
GET  /_proxy/unsuccessful              sessions that did not do as their scenarios expect, and why
GET  /_proxy/pace                      the pace of responses
PUT  /_proxy/pace                      set it: {"pace": "50tps"}, and for one session {"session": …}
DELETE /_proxy/pace                    restore the pace that the run was started with
GET  /_proxy/faults                    the fault rules, and how often each was injected
PUT  /_proxy/faults                    set the runtime rules: {"faults": ["reset,after=3"]}
DELETE /_proxy/faults                  remove the runtime rules
POST /_proxy/sessions/NAME/reset       restart a session
PUT  /_proxy/sessions/NAME/scenario    choose a session's scenario: {"scenario": "ID"}
DELETE /_proxy/sessions/NAME/scenario  remove the choice, as {"scenario": ""} does
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiohttp import web

from llm_proxy.exchange import ResponseHead
from llm_proxy.shell.server.response_writer import ResponseWriter

PageResponse = tuple[int, Mapping[str, Any]]
"""The status, and the document that is sent as JSON."""

READ_METHODS: Final = ("GET", "HEAD")
"""The methods of pages that only show something."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a control page."""

    method: str
    path: str
    body: bytes


ControlPage = Callable[[PageRequest], Awaitable[PageResponse | None]]
"""One control page, or several; its response is None if the request is for another page."""


class ControlPages:
    """Responds to requests for control pages."""

    def __init__(self, pages: Sequence[ControlPage]) -> None:
        self._pages = tuple(pages)

    async def respond(
        self, request: web.BaseRequest, request_body: bytes, writer: ResponseWriter
    ) -> None:
        """Send the JSON document of the page that `request` names, or of a 404.

        `request_body` is the body of `request`, which has been read already.
        """
        page_request = PageRequest(request.method, request.path, request_body)
        response: PageResponse | None = None
        for page in self._pages:
            response = response or await page(page_request)
        error = f"there is no {request.method} {request.path}; see docs/server.md"
        status, document = response or (404, {"error": error})
        if any(isinstance(value, list) for value in document.values()):  # it may be long
            response_body = await asyncio.to_thread(_serialize_document, document)
        else:
            response_body = _serialize_document(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await writer.send_response(
            ResponseHead(status, "llm-proxy", headers, "length", len(response_body)), response_body
        )


def _serialize_document(document: Mapping[str, Any]) -> bytes:
    """The document as JSON; list elements one by one, because orjson holds the GIL in each call."""
    fragments = {
        name: [orjson.Fragment(orjson.dumps(element)) for element in value]
        if isinstance(value, list)
        else value
        for name, value in document.items()
    }
    return orjson.dumps(fragments, option=orjson.OPT_APPEND_NEWLINE)
