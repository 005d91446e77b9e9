"""Our own pages, under `/_proxy/`.

GET  /_proxy/health                    whether we serve, in which mode
GET  /_proxy/journal                   what was asked and answered in this run
GET  /_proxy/misses                    what was not answered, and why
GET  /_proxy/unsuccessful              sessions that were not as their scenarios expect, and why
POST /_proxy/sessions/NAME/reset       begin a session again
PUT  /_proxy/sessions/NAME/scenario    have a scenario answer a session: {"scenario": "ID"}
DELETE /_proxy/sessions/NAME/scenario  take that back, as {"scenario": ""} does
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from aiohttp import web

from llm_proxy.dialects import reading
from llm_proxy.errors import printable
from llm_proxy.exchange import Head
from llm_proxy.modes import Mode
from llm_proxy.routing import is_name
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.wire import Wire
from llm_proxy.turns import Json
from llm_proxy.version import __version__

Choose = Callable[[str, str], Awaitable[bool]]
"""Has a session, named first, answered by the scenario of that id, or by what it asks for where
the id is empty; gives whether there is such a scenario now."""

_RESET: Final = re.compile(r"/_proxy/sessions/([^/]+)/reset")
_SHOWN: Final = 80
"""Characters of a name in a message."""
_SCENARIO: Final = re.compile(r"/_proxy/sessions/([^/]+)/scenario")


def is_ours(path: str) -> bool:
    """Whether a request for this path is answered by us, in every mode."""
    return path == "/_proxy" or path.startswith("/_proxy/")


class Control:
    """Answers requests for our own pages."""

    def __init__(self, mode: Mode, journal: Journal, choose: Choose | None = None) -> None:
        self._mode = mode
        self._journal = journal
        self._choose = choose

    async def answer(self, request: web.BaseRequest, sent: bytes, wire: Wire) -> None:
        """Answer one of them, whose body is what was `sent`, with JSON."""
        status, document = await self._document(request.method, request.path, sent)
        body = await _written(document)
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        await wire.whole(Head(status, "llm-proxy", headers, "length", len(body)), body)

    async def _document(self, method: str, path: str, sent: bytes) -> tuple[int, dict[str, Any]]:
        reset, scenario = _RESET.fullmatch(path), _SCENARIO.fullmatch(path)
        match method, path:
            case "GET" | "HEAD", "/_proxy/health":
                return 200, {"ok": True, "mode": self._mode.name, "version": __version__}
            case "GET" | "HEAD", "/_proxy/journal":
                # Those that are not over change under the hands of the thread that writes them.
                entries = [it if it.status else replace(it) for it in self._journal.entries]
                return 200, {"requests": self._journal.requests, "entries": entries}
            case "GET" | "HEAD", "/_proxy/misses":
                return 200, {"misses": self._journal.misses}
            case "GET" | "HEAD", "/_proxy/unsuccessful":
                return 200, {"unsuccessful": self._journal.unsuccessful}
            case "PUT", _ if scenario is not None:
                return await self._chosen(scenario[1], reading.document(sent).get("scenario"))
            case "DELETE", _ if scenario is not None:
                return await self._chosen(scenario[1], "")
            case "POST", _ if reset is not None:
                self._mode.reset(reset[1])
                return 200, {"session": reset[1], "reset": True}
            case _:
                return 404, {"error": f"there is no {method} {path}; see docs/server.md"}

    async def _chosen(self, session: str, scenario: Json) -> tuple[int, dict[str, Any]]:
        """Have a session answered by the scenario of that id; an empty one takes it back."""
        if self._choose is None:
            return 409, {"error": f"{self._mode.name} plays no scenarios; start llm-proxy simulate"}
        if not is_name(session):
            return 400, {
                "error": f"'{printable(session, _SHOWN)}' is no session name: use letters, digits, "
                "dot, dash and underscore, a letter or a digit first, at most 100 of them"
            }
        if not isinstance(scenario, str):
            return 400, {"error": 'name a scenario: {"scenario": "ID"}; "" takes the choice back'}
        name = scenario.strip()
        answer = {"session": session, "scenario": name}
        if not await self._choose(session, name):
            answer["warning"] = (
                f"no scenario {printable(name, _SHOWN)} is loaded now; it is chosen all the same, "
                "and answers once it is there: llm-proxy scenario ls lists all ids"
            )
        return 200, answer


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
