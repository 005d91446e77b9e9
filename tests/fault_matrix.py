"""Every fault on every source and framing: asked over raw sockets, once for all tests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from in_process_proxy import cassettes, proxy
from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import FaultRule
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import FAULT_HEADER, SESSION_HEADER
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server.journal import JournalEntry
from raw_http import ask, post
from stub_upstream import Connection, Upstream, upstream
from waiting import until
from wire_capture import Wire, wire

SOURCES: Final[tuple[ModeName, ...]] = ("record", "auto", "replay", "simulate")
"""Live and recorded anew, live where there is no recording, recorded, simulated."""
LIVE: Final = ("record", "auto")
SILENCE: Final = 300.0
"""The longest silence, in ms."""
SAID: Final = "The quick brown fox jumps over the lazy dög, and höw."
_AT_ONCE: Final = 16
"""Requests under way: with many more, all is so late that pauses cannot be seen."""
_TOLD: Final = "x-of-the-session"
"""The header by which the provider is told the session."""
_PIECE: Final = 41
"""Bytes of the pieces in which live answers come: they fall inside messages and characters."""

_SCHEMA: Final = {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
}  # fmt: skip
_FUNCTIONS: Final = [{"type": "function", "function": {"name": "look", "parameters": _SCHEMA}}]
_ASKED: Final = [{"role": "user", "content": "Hello"}]


def _post(path: str, body: dict[str, Any], *headers: tuple[str, str]) -> Request:
    named = (("Content-Type", "application/json"), *headers)
    return Request("POST", path, "", named, json.dumps(body).encode())


def _chat(*, stream: bool) -> Request:
    body = {"model": "m", "stream": stream, "messages": _ASKED, "tools": _FUNCTIONS}
    return _post("/v1/chat/completions", body)


REQUESTS: Final[Mapping[str, Request]] = {
    "sse": _chat(stream=True),
    "events": _post(
        "/v1/messages",
        {
            "model": "m", "max_tokens": 500, "stream": True, "messages": _ASKED,
            "tools": [{"name": "look", "input_schema": _SCHEMA}],
        },
        ("anthropic-version", "2023-06-01"),
    ),
    "ndjson": _post(
        "/api/chat", {"model": "m", "stream": True, "messages": _ASKED, "tools": _FUNCTIONS}
    ),
    "eventstream": _post(
        "/model/m/converse-stream",
        {
            "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": _SCHEMA}}}]
            },
        },
    ),
    "whole": _chat(stream=False),
}  # fmt: skip
"""A request by the framing of its answer; `events` are server-sent ones with names."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault on one answer."""

    source: ModeName
    framing: str
    rule: FaultRule
    truth: Wire
    """The same answer as it comes without a fault."""
    wire: Wire
    entry: JournalEntry
    asked: int
    """How often the provider was asked."""

    def __str__(self) -> str:
        return f"{self.rule.text} on {self.framing} of {self.source}"

    @property
    def request(self) -> Request:
        return REQUESTS[self.framing]

    @property
    def codec(self) -> str:
        return "sse" if self.framing == "events" else self.framing

    @property
    def injected(self) -> FaultRecord:
        [injected] = self.entry.faults
        return injected

    @property
    def messages(self) -> tuple[bytes, ...]:
        """Those of the answer as it comes without a fault."""
        return tuple(framing.split_messages(self.codec, self.truth.body))

    def response(self, body: bytes, head: Wire | None = None) -> DialectResponse:
        """An answer as its dialect reads it; with the head that came, or with another's."""
        wire = head or self.wire
        framed: Framing = "chunked" if wire.is_chunked else "length"
        it = ResponseHead(wire.status, "", wire.headers, framed, len(body))
        dialect = dialects.find_dialect(self.request)
        codec = dialect.codec(self.request, it)
        return DialectResponse(it, codec, tuple(framing.split_messages(codec, body)))

    @property
    def dialect(self) -> dialects.Dialect:
        return dialects.find_dialect(self.request)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it all."""

    cells: tuple[Cell, ...]
    recorded: Mapping[str, Mapping[str, list[Cassette]]]
    """The cassettes of live sources, by session."""


def session_of(framed: str, rule: str) -> str:
    """The session of a cell."""
    return re.sub("[^a-z0-9.-]+", "-", f"{framed}-{rule}".lower())[:100]


def play(folder: Path, rules: Iterable[str]) -> Played:
    """Every rule on every source and framing."""
    return asyncio.run(_play(folder, tuple(rules)))


async def _play(folder: Path, rules: tuple[str, ...]) -> Played:
    how: dict[str, Any] = {
        "fault_header": True,
        "pace": InstantPace(),
        "simulating": SimulationOptions(
            mock=json.dumps({"reply": SAID, "chunk_delay_ms": 0}), silence=SILENCE / 1000
        ),
    }
    cells: list[Cell] = []
    recorded: dict[str, dict[str, list[Cassette]]] = {}
    async with proxy("simulate", folder / "simulate", **how) as server:
        truths = {name: await wire(server.url, it) for name, it in REQUESTS.items()}
        cells += await _cells("simulate", server, rules, None, {})
    async with _provider(truths) as provider:
        async with proxy("record", folder / "shelf", provider.url, **how) as server:
            for request in REQUESTS.values():
                await wire(server.url, request)
        async with proxy("replay", folder / "shelf", **how) as server:
            cells += await _cells("replay", server, rules, None, truths)
        for mode in LIVE:
            name: ModeName = "record" if mode == "record" else "auto"
            async with proxy(name, folder / mode, provider.url, **how) as server:
                cells += await _cells(name, server, rules, provider, truths)
                await until(lambda server=server: not server.active_streams())  # type: ignore[misc] # mypy infers no lambda's default
            recorded[mode] = {}
            for it in cassettes(folder / mode):
                recorded[mode].setdefault(it.meta.session, []).append(it)
    return Played(tuple(cells), recorded)


async def _cells(
    mode: ModeName,
    server: RunningProxy,
    rules: tuple[str, ...],
    provider: Upstream | None,
    truths: Mapping[str, Wire],
) -> list[Cell]:
    """Every rule on every framing of one source, all at once."""
    before = len(provider.requests) if provider is not None else 0

    at_once = asyncio.Semaphore(_AT_ONCE)

    async def cell(framed: str, rule: str) -> Cell:
        async with at_once:
            return await asked(framed, rule)

    async def asked(framed: str, rule: str) -> Cell:
        session, request = session_of(framed, rule), REQUESTS[framed]
        ours = ((SESSION_HEADER, session), (_TOLD, session))
        truth = truths.get(framed)
        if truth is None:  # made-up ids are those of the session
            truth = await wire(server.url, request, *ours)
            await ask(server.url, post(f"/_proxy/sessions/{session}/reset", b""))
        heard = await wire(server.url, request, *ours, (FAULT_HEADER, rule))
        await until(lambda: not _open(server, session))
        entry = [item for item in server.journal.entries if item.session == session][-1]
        heads = provider.requests[before:] if provider is not None else []
        times = sum(f"{_TOLD}: {session}\r".encode() in head.lower() for head, _ in heads)
        return Cell(mode, framed, parse_rule(rule), truth, heard, entry, times)

    wanted = [(framed, rule) for rule in rules for framed in REQUESTS]
    return list(await asyncio.gather(*(cell(*item) for item in wanted)))


def _open(server: RunningProxy, session: str) -> bool:
    """Whether a request of the session is under way."""
    return any(
        entry.session == session and not (entry.ending or entry.status)
        for entry in server.journal.entries
    )


@asynccontextmanager
async def _provider(answers: Mapping[str, Wire]) -> AsyncIterator[Upstream]:
    """A provider that gives these answers, in pieces that fall anywhere."""
    by_request = {_target(REQUESTS[name]): it for name, it in answers.items()}

    async def script(connection: Connection) -> None:
        path = connection.head.split(b" ", 2)[1].decode()
        answer = by_request[path, connection.body]
        kind = answer.header("content-type") or ""
        body = answer.body
        if not answer.is_chunked:
            await connection.begin(f"Content-Length: {len(body)}", content_type=kind)
            await connection.send(body)
            return
        await connection.begin(content_type=kind)
        for begin in range(0, len(body), _PIECE):
            await connection.chunk(body[begin : begin + _PIECE])
        await connection.finish()

    async with upstream(script) as provider:
        yield provider


def _target(request: Request) -> tuple[str, bytes]:
    return request.path, request.body


def rules_of_kinds(variants: Mapping[str, Iterable[str]]) -> list[str]:
    """The example of each fault, and its variants."""
    return [
        rule
        for name, kind in KINDS.items()
        for rule in dict.fromkeys((kind.example, *variants.get(name, ())))
    ]
