"""Our own pages, under `/_proxy/`, one kind of them a file.

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

from llm_proxy.exchange import Head
from llm_proxy.shell.server.control.page import Asked, Page
from llm_proxy.shell.server.response_writer import Wire


def is_ours(path: str) -> bool:
    """Whether a request for this path is answered by us, in every mode."""
    return path == "/_proxy" or path.startswith("/_proxy/")


class Control:
    """Answers requests for our own pages."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self._pages = tuple(pages)

    async def answer(self, request: web.BaseRequest, sent: bytes, wire: Wire) -> None:
        """Answer one of them, whose body is what was `sent`, with JSON."""
        status, document = await self._document(Asked(request.method, request.path, sent))
        body = await _written(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await wire.whole(Head(status, "llm-proxy", headers, "length", len(body)), body)

    async def _document(self, asked: Asked) -> tuple[int, Mapping[str, Any]]:
        for page in self._pages:
            if (found := await page(asked)) is not None:
                return found
        return 404, {"error": f"there is no {asked.method} {asked.path}; see docs/server.md"}


async def _written(document: Mapping[str, Any]) -> bytes:
    """The document as JSON.  Its lists may be long: a thread writes them."""
    if any(isinstance(value, list) for value in document.values()):
        return await asyncio.to_thread(_dump, document)
    return _dump(document)


def _dump(document: Mapping[str, Any]) -> bytes:
    """The document as JSON; its lists one by one, for each is written with the GIL held."""
    parts = {
        name: [orjson.Fragment(orjson.dumps(it)) for it in value]
        if isinstance(value, list)
        else value
        for name, value in document.items()
    }
    return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)
