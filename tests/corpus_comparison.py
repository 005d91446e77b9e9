"""The whole corpus as read by the official clients, and as read by our dialects.

A stub serves each row to the client that its wire is made for; what that client hears is held
against the turn that our dialect computes from the same bytes, in every field that the client can
tell.  `tests/corpus_differences.json` lists where they differ, and why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import corpus
import judge_runner
import response_differences
from corpus import Row
from corpus_framing import as_sent
from judge_runner import Answer, Ask
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.turns import Part, ToolCall, Turn
from stub_upstream import Connection, upstream

DIFFERENCES: Final = Path(__file__).with_name("corpus_differences.json")
"""Where a client and we read differently: judge, then wire, then id, then the reason."""

_ROW: Final = re.compile(rb"row ([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that one client reads, and the dialect in which it asks for them."""

    judge: str
    dialect: str
    wires: tuple[str, ...]
    paths: str
    """Which paths are of the operation that the client asks for: a pattern that must be found."""
    provider: str = ""
    """Only the rows of this one, where others speak the wire too."""
    tools: frozenset[str] | None = None
    """The kinds of tools run by the provider whose calls the client is asked for; None: all."""

    def rows(self) -> list[Row]:
        """The rows, framed as they were sent."""
        return [as_sent(row) for row in corpus.rows() if self.reads(row)]

    def reads(self, row: Row) -> bool:
        """Whether a row is one of them."""
        ours = row.wire in self.wires and self.provider in ("", row.provider)
        return ours and re.search(self.paths, row.request.path) is not None

    def read(self, row: Row) -> Turn:
        """What we read of a row, as far as the client is asked for it."""
        turn = next(iter(turns(row)), Turn(()))
        return replace(turn, parts=tuple(part for part in turn.parts if self._asks_for(part)))

    def _asks_for(self, part: Part) -> bool:
        kind = isinstance(part, ToolCall) and dict(part.metadata).get("type")
        return self.tools is None or not kind or kind in self.tools


def _wires(prefix: str, *framings: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{framing}" for framing in framings)


READINGS: Final = (
    Reading("openai", "openai-chat", _wires("openai.chat", "sse", "json", "payload"), ""),
    Reading(
        "openai",
        "openai-completions",
        _wires("openai.completions", "sse", "json", "payload"),
        "",
    ),
    Reading(
        "openai",
        "openai-responses",
        _wires("openai.responses", "sse", "json", "payload"),
        "",
        tools=frozenset(("custom_tool_call", "mcp_call")),
    ),
    Reading("anthropic", "anthropic", _wires("anthropic.messages", "sse", "json", "payload"), ""),
    Reading("ollama", "ollama", _wires("ollama", "ndjson", "json"), "/api/chat$"),
    Reading("ollama", "ollama-generate", _wires("ollama", "ndjson", "json"), "/api/generate$"),
    Reading(
        "google-genai", "gemini", _wires("gemini", "sse", "json", "payload"), "enerateContent$"
    ),
    Reading("google-genai", "gemini-interactions", ("gemini.interactions.payload",), ""),
    Reading("cohere", "cohere", _wires("cohere.v2", "sse", "json", "payload"), "/v2/chat$"),
    Reading("cohere", "cohere-v1", _wires("cohere.v1", "ndjson", "json"), "/v1/chat$"),
    Reading("boto3", "bedrock", _wires("bedrock.converse", "eventstream", "json", "payload"), ""),
    Reading(
        "boto3",
        "bedrock-invoke",
        _wires("bedrock.invoke", "eventstream", "json"),
        "/model/[^/]*(anthropic|claude)",
    ),
    Reading(
        "mistralai",
        "openai-chat",
        _wires("openai.chat", "sse", "json", "payload"),
        "",
        provider="mistral",
    ),
    Reading(
        "groq", "openai-chat", _wires("openai.chat", "sse", "json", "payload"), "", provider="groq"
    ),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One row, read by a client and by us."""

    row: Row
    theirs: Answer
    ours: Turn
    """Our first turn, with the calls that the client is asked for; empty where we read none."""
    fields: tuple[str, ...]
    """What the client can tell."""

    def differences(self) -> list[str]:
        """The fields in which the readings differ."""
        told = response_differences.differences(self.theirs, self.ours, self.fields)
        status = (self.theirs.error or {}).get("status")
        return told + ["status"] * (self.row.status >= 400 and status != self.row.status)


async def compare(reading: Reading) -> list[Compared]:
    """Every row of a reading, read by both."""
    rows = {row.id: row for row in reading.rows()}
    asks = [
        Ask(row.id, reading.dialect, "m", f"row {row.id}", row.streaming) for row in rows.values()
    ]

    async def serve(connection: Connection) -> None:
        found = _ROW.search(connection.body)
        assert found is not None
        await _answer(connection, rows[found[1].decode()])

    async with upstream(serve) as live:
        answers = await judge_runner.ask(reading.judge, live.url, asks)
    told = judge_runner.abilities(reading.judge)[reading.dialect]
    return [
        Compared(
            row, answer, reading.read(row), tuple(told["stream" if row.streaming else "whole"])
        )
        for row, answer in zip(rows.values(), answers, strict=True)
    ]


async def _answer(connection: Connection, row: Row) -> None:
    fields = [f"{name}: {value}" for name, value in row.head.headers]
    lines = [f"HTTP/1.1 {row.status} Recorded", *fields, f"Content-Length: {len(row.body)}"]
    await connection.send("\r\n".join([*lines, "", ""]).encode("latin-1") + row.body)


def turns(row: Row) -> tuple[Turn, ...]:
    """What our dialect reads of a row."""
    dialect = dialects.find_dialect(row.request)
    return dialect.decode(response(row))


def response(row: Row) -> DialectResponse:
    """A row as a dialect sees it."""
    label = dialects.find_dialect(row.request).codec(row.request, row.head)
    name = framing.codec_of_bytes(label, row.body)
    return DialectResponse(row.head, name, framing.split_messages(name, row.body))


def apart(reading: Reading, compared: Sequence[Compared]) -> dict[tuple[str, str], str]:
    """The rows that are read differently, by wire and id: in which fields, and why if listed."""
    listed = json.loads(DIFFERENCES.read_bytes()).get(reading.judge, {})
    found: dict[tuple[str, str], str] = {}
    for it in compared:
        if fields := ", ".join(it.differences()):
            _, _, why = listed.get(it.row.wire, {}).get(it.row.id, "").partition(": ")
            found[it.row.wire, it.row.id] = f"{fields}: {why or 'NOT LISTED'}"
    return found
