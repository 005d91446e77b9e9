"""Every fault on every source and framing: requested over raw sockets, once for all tests."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from in_process_proxy import load_cassettes, proxy
from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule
from llm_proxy.journal_document import JournalEntry
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import FAULT_HEADER, SESSION_HEADER
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import ModeName
from raw_http import build_http_request, send_request
from stub_upstream import Connection, Upstream, upstream
from waiting import wait_until
from wire_capture import WireCapture, capture_response

SOURCES: Final[tuple[ModeName, ...]] = ("record", "auto", "replay", "simulate")
"""Live and recorded again, live where there is no recording, replayed, simulated."""
LIVE_SOURCES: Final[tuple[ModeName, ...]] = ("record", "auto")
SILENCE_MS: Final = 300.0
"""The longest silence, in ms."""
REPLY: Final = "The quick brown fox jumps over the lazy dög, and höw."
_MAX_CONCURRENT: Final = 16
"""Concurrent requests: with many more, delays hide the pauses under test."""
_UPSTREAM_SESSION_HEADER: Final = "x-of-the-session"
"""The header that passes the session to the provider."""
_PIECE_BYTES: Final = 41
"""Bytes of each piece of a live response: pieces end inside messages and characters."""

_SCHEMA: Final = {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
}  # fmt: skip
_TOOLS: Final = [{"type": "function", "function": {"name": "look", "parameters": _SCHEMA}}]
_MESSAGES: Final = [{"role": "user", "content": "Hello"}]


def _json_request(path: str, body: dict[str, Any], *headers: tuple[str, str]) -> Request:
    all_headers = (("Content-Type", "application/json"), *headers)
    return Request("POST", path, "", all_headers, json.dumps(body).encode())


def _chat_request(*, stream: bool) -> Request:
    body = {"model": "m", "stream": stream, "messages": _MESSAGES, "tools": _TOOLS}
    return _json_request("/v1/chat/completions", body)


REQUESTS: Final[Mapping[str, Request]] = {
    "sse": _chat_request(stream=True),
    "events": _json_request(
        "/v1/messages",
        {
            "model": "m", "max_tokens": 500, "stream": True, "messages": _MESSAGES,
            "tools": [{"name": "look", "input_schema": _SCHEMA}],
        },
        ("anthropic-version", "2023-06-01"),
    ),
    "ndjson": _json_request(
        "/api/chat", {"model": "m", "stream": True, "messages": _MESSAGES, "tools": _TOOLS}
    ),
    "eventstream": _json_request(
        "/model/m/converse-stream",
        {
            "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": _SCHEMA}}}]
            },
        },
    ),
    "whole": _chat_request(stream=False),
}  # fmt: skip
"""A request for each framing of a response; `events` is SSE with event names."""


Combination = tuple[ModeName, str, str]
"""A source, a framing and a rule."""


def codec_of(framing_name: str) -> str:
    """The codec of a framing."""
    return "sse" if framing_name == "events" else framing_name


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault on one response."""

    source: ModeName
    framing: str
    rule: FaultRule
    unfaulted: WireCapture
    """The same response without a fault."""
    wire: WireCapture
    entry: JournalEntry
    upstream_request_count: int
    """The number of requests that the provider received."""

    def __str__(self) -> str:
        return f"{self.rule.text} on {self.framing} of {self.source}"

    @property
    def request(self) -> Request:
        return REQUESTS[self.framing]

    @property
    def codec(self) -> str:
        return codec_of(self.framing)

    @property
    def fault_record(self) -> FaultRecord:
        [record] = self.entry.faults
        return record

    @property
    def messages(self) -> tuple[bytes, ...]:
        """The messages of the response without a fault."""
        return tuple(framing.split_messages(self.codec, self.unfaulted.body))

    def response(self, body: bytes, head_wire: WireCapture | None = None) -> DialectResponse:
        """A response with this body, as its dialect decodes it; `head_wire` gives another head."""
        wire = head_wire or self.wire
        framed: Framing = "chunked" if wire.is_chunked else "length"
        head = ResponseHead(wire.status, "", wire.headers, framed, len(body))
        dialect = dialects.dialect_of_request(self.request)
        codec = dialect.codec_name(self.request, head)
        return DialectResponse(head, codec, tuple(framing.split_messages(codec, body)))

    @property
    def dialect(self) -> dialects.Dialect:
        return dialects.dialect_of_request(self.request)


@dataclass(frozen=True, slots=True)
class MatrixResults:
    """All cells, and the cassettes that they left."""

    cells: tuple[Cell, ...]
    recorded_cassettes: Mapping[str, Mapping[str, list[Cassette]]]
    """The cassettes of live sources, by source and session."""


def session_name(framing_name: str, rule: str) -> str:
    """The session name of a cell."""
    return re.sub("[^a-z0-9.-]+", "-", f"{framing_name}-{rule}".lower())[:100]


def all_combinations(rules: Iterable[str]) -> Iterator[Combination]:
    """Every rule on every source and framing."""
    return itertools.product(SOURCES, REQUESTS, rules)


async def run_matrix(folder: Path, combinations: Iterable[Combination]) -> MatrixResults:
    """Run these combinations."""
    proxy_options: dict[str, Any] = {
        "fault_header": True,
        "pace": InstantPace(),
        "mock": json.dumps({"reply": REPLY, "chunk_delay_ms": 0}),
        "silence": SILENCE_MS / 1000,
    }
    by_source: dict[ModeName, list[tuple[str, str]]] = {source: [] for source in SOURCES}
    for source, framing_name, rule in combinations:
        by_source[source].append((framing_name, rule))
    cells: list[Cell] = []
    recorded: dict[str, dict[str, list[Cassette]]] = {}
    async with proxy("simulate", folder / "simulate", **proxy_options) as server:
        unfaulted = {
            name: await capture_response(server.url, request) for name, request in REQUESTS.items()
        }
        cells += await _run_cells("simulate", server, by_source["simulate"], None, {})
    async with _recorded_provider(unfaulted) as provider:
        async with proxy("record", folder / "shelf", provider.url, **proxy_options) as server:
            for request in REQUESTS.values():
                await capture_response(server.url, request)
        async with proxy("replay", folder / "shelf", **proxy_options) as server:
            cells += await _run_cells("replay", server, by_source["replay"], None, unfaulted)
        for mode in LIVE_SOURCES:
            async with proxy(mode, folder / mode, provider.url, **proxy_options) as server:
                cells += await _run_cells(mode, server, by_source[mode], provider, unfaulted)
                await wait_until(lambda server=server: not server.active_stream_count())  # type: ignore[misc] # mypy infers no lambda's default
            recorded[mode] = {}
            for cassette in load_cassettes(folder / mode):
                recorded[mode].setdefault(cassette.meta.session, []).append(cassette)
    return MatrixResults(tuple(cells), recorded)


async def _run_cells(
    mode: ModeName,
    server: RunningProxy,
    combinations: Iterable[tuple[str, str]],
    provider: Upstream | None,
    unfaulted: Mapping[str, WireCapture],
) -> list[Cell]:
    """Run these framings and rules on one source, concurrently."""
    first_index = len(provider.requests) if provider is not None else 0

    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def limited_cell(framing_name: str, rule: str) -> Cell:
        async with semaphore:
            return await run_cell(framing_name, rule)

    async def run_cell(framing_name: str, rule: str) -> Cell:
        session, request = session_name(framing_name, rule), REQUESTS[framing_name]
        session_headers = ((SESSION_HEADER, session), (_UPSTREAM_SESSION_HEADER, session))
        unfaulted_wire = unfaulted.get(framing_name)
        if unfaulted_wire is None:  # generated ids depend on the session
            unfaulted_wire = await capture_response(server.url, request, *session_headers)
            await send_request(
                server.url, build_http_request(f"/_proxy/sessions/{session}/reset", b"")
            )
        faulted_wire = await capture_response(
            server.url, request, *session_headers, (FAULT_HEADER, rule)
        )
        await wait_until(lambda: not _is_open(server, session))
        entry = [item for item in server.journal.entries if item.session == session][-1]
        upstream_requests = provider.requests[first_index:] if provider is not None else []
        request_count = sum(
            f"{_UPSTREAM_SESSION_HEADER}: {session}\r".encode() in head.lower()
            for head, _ in upstream_requests
        )
        return Cell(
            mode, framing_name, parse_rule(rule), unfaulted_wire, faulted_wire, entry, request_count
        )

    return list(await asyncio.gather(*(limited_cell(*combination) for combination in combinations)))


def _is_open(server: RunningProxy, session: str) -> bool:
    """Whether a request of the session is unfinished."""
    return any(
        entry.session == session and not (entry.ending or entry.status)
        for entry in server.journal.entries
    )


@asynccontextmanager
async def _recorded_provider(answers: Mapping[str, WireCapture]) -> AsyncIterator[Upstream]:
    """A provider that sends these responses, in pieces that ignore message boundaries."""
    by_request = {
        _request_key(REQUESTS[name]): answer_wire for name, answer_wire in answers.items()
    }

    async def script(connection: Connection) -> None:
        path = connection.head.split(b" ", 2)[1].decode()
        answer = by_request[path, connection.body]
        content_type = answer.header("content-type") or ""
        body = answer.body
        if not answer.is_chunked:
            await connection.begin(f"Content-Length: {len(body)}", content_type=content_type)
            await connection.send(body)
            return
        await connection.begin(content_type=content_type)
        for begin in range(0, len(body), _PIECE_BYTES):
            await connection.chunk(body[begin : begin + _PIECE_BYTES])
        await connection.finish()

    async with upstream(script) as provider:
        yield provider


def _request_key(request: Request) -> tuple[str, bytes]:
    return request.path, request.body


def rules_of_kinds(variants: Mapping[str, Iterable[str]]) -> list[str]:
    """The example rule of each fault, and its variants."""
    return [
        rule
        for name, kind in FAULT_KINDS.items()
        for rule in dict.fromkeys((kind.example, *variants.get(name, ())))
    ]
