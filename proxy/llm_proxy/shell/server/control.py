"""Our own pages, under `/_proxy/`.

GET  /_proxy/health                    whether we serve, in which mode
GET  /_proxy/journal                   what was asked and answered in this run
GET  /_proxy/misses                    what was not answered, and why
POST /_proxy/sessions/NAME/reset       begin a session again
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from llm_proxy.exchange import Head
from llm_proxy.modes import Mode
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.wire import Wire
from llm_proxy.version import __version__

_RESET: Final = re.compile(r"/_proxy/sessions/([^/]+)/reset")


def is_ours(path: str) -> bool:
    """Whether a request for this path is answered by us, in every mode."""
    return path == "/_proxy" or path.startswith("/_proxy/")


class Control:
    """Answers requests for our own pages."""

    def __init__(self, mode: Mode, journal: Journal) -> None:
        self._mode = mode
        self._journal = journal

    async def answer(self, request: web.BaseRequest, wire: Wire) -> None:
        """Answer one of them, with JSON."""
        status, document = self._document(request.method, request.path)
        body = await _written(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await wire.whole(Head(status, "llm-proxy", headers, "length", len(body)), body)

    def _document(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        reset = _RESET.fullmatch(path)
        match method, path:
            case "GET" | "HEAD", "/_proxy/health":
                return 200, {"ok": True, "mode": self._mode.name, "version": __version__}
            case "GET" | "HEAD", "/_proxy/journal":
                # Those that are not over change under the hands of the thread that writes them.
                entries = [it if it.status else replace(it) for it in self._journal.entries]
                return 200, {"requests": self._journal.requests, "entries": entries}
            case "GET" | "HEAD", "/_proxy/misses":
                return 200, {"misses": self._journal.misses}
            case "POST", _ if reset is not None:
                self._mode.reset(reset[1])
                return 200, {"session": reset[1], "reset": True}
            case _:
                return 404, {"error": f"there is no {method} {path}; see docs/server.md"}


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
