"""The control pages under `/_proxy/`, one kind per file.

GET  /_proxy/health                    whether we serve, in which mode
GET  /_proxy/journal                   what was asked and answered in this run
GET  /_proxy/verdict                   what the journal says of the clients, after each fault
GET  /_proxy/misses                    what was not answered, and why
GET  /_proxy/unsuccessful              sessions that were not as their scenarios expect, and why
GET  /_proxy/pace                      at which pace answers go out
PUT  /_proxy/pace                      set it: {"pace": "50tps"}, and for one session {"session": …}
DELETE /_proxy/pace                    go back to the pace that the run was started with
GET  /_proxy/faults                    the fault rules, and how often each struck
PUT  /_proxy/faults                    have others hold from now on: {"faults": ["reset,after=3"]}
DELETE /_proxy/faults                  take those back
POST /_proxy/sessions/NAME/reset       begin a session again
PUT  /_proxy/sessions/NAME/scenario    have a scenario answer a session: {"scenario": "ID"}
DELETE /_proxy/sessions/NAME/scenario  take that back, as {"scenario": ""} does
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from llm_proxy.exchange import ResponseHead
from llm_proxy.shell.server.control.page import ControlPage, PageRequest
from llm_proxy.shell.server.response_writer import ResponseWriter


def is_control_path(path: str) -> bool:
    """Whether a request for this path is answered by us, in every mode."""
    return path == "/_proxy" or path.startswith("/_proxy/")


class ControlPages:
    """Answers requests for our own pages."""

    def __init__(self, pages: Sequence[ControlPage]) -> None:
        self._pages = tuple(pages)

    async def respond(self, request: web.BaseRequest, sent: bytes, wire: ResponseWriter) -> None:
        """Answer one of them, whose body is what was `sent`, with JSON."""
        status, document = await self._respond_document(
            PageRequest(request.method, request.path, sent)
        )
        body = await _serialize(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await wire.send_response(
            ResponseHead(status, "llm-proxy", headers, "length", len(body)), body
        )

    async def _respond_document(self, page_request: PageRequest) -> tuple[int, Mapping[str, Any]]:
        for page in self._pages:
            if (found := await page(page_request)) is not None:
                return found
        return 404, {
            "error": f"there is no {page_request.method} {page_request.path}; see docs/server.md"
        }


async def _serialize(document: Mapping[str, Any]) -> bytes:
    """The document as JSON.  Its lists may be long: a thread writes them."""
    if any(isinstance(value, list) for value in document.values()):
        return await asyncio.to_thread(_serialize_lists, document)
    return _serialize_lists(document)


def _serialize_lists(document: Mapping[str, Any]) -> bytes:
    """The document as JSON; its lists one by one, for each is written with the GIL held."""
    parts = {
        name: [orjson.Fragment(orjson.dumps(content)) for content in value]
        if isinstance(value, list)
        else value
        for name, value in document.items()
    }
    return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)
