"""The whole corpus as decoded by the official clients, and as decoded by our dialects.

A stub serves each row to the client of its wire format; the client's result is compared with the
turn that our dialect decodes from the same bytes, in every field that the client exposes.
`tests/corpus_differences.json` lists where they differ, and why.
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
from corpus_framing import with_framing
from judge_runner import JudgeRequest, JudgeResponse, SendRequests
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.turns import Part, ToolCall, Turn
from stub_upstream import Connection, upstream

DIFFERENCES: Final = Path(__file__).with_name("corpus_differences.json")
"""Where a client and our dialect differ: judge, then wire, then row id, then the reason."""

_ROW: Final = re.compile(rb"row ([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class ClientReading:
    """The rows that one client decodes, and the dialect of its requests."""

    judge: str
    dialect: str
    wires: tuple[str, ...]
    path_pattern: str
    """A regex that must match within the path: the operation that the client calls."""
    provider: str = ""
    """Only rows of this provider, where others share the wire format; empty: any."""
    provider_tools: frozenset[str] | None = None
    """The types of provider-run tools whose calls the client reports; None: all."""

    def rows(self) -> list[Row]:
        """The selected rows of this run, framed as they were sent."""
        selected = [row for row in corpus.rows() if self.selects(row)]
        return [with_framing(row) for row in corpus.daily_rows(selected)]

    def selects(self, row: Row) -> bool:
        """Whether a row is one of these."""
        ours = row.wire in self.wires and self.provider in ("", row.provider)
        return ours and re.search(self.path_pattern, row.request.path) is not None

    def decoded_turn(self, row: Row) -> Turn:
        """Our first turn of a row, without provider-run calls that the client does not report."""
        turn = next(iter(decode_row(row)), Turn(()))
        return replace(turn, parts=tuple(part for part in turn.parts if self._is_compared(part)))

    def _is_compared(self, part: Part) -> bool:
        tool_kind = isinstance(part, ToolCall) and dict(part.metadata).get("type")
        return self.provider_tools is None or not tool_kind or tool_kind in self.provider_tools


def _wires(prefix: str, *framings: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{framing}" for framing in framings)


READINGS: Final = (
    ClientReading("openai", "openai-chat", _wires("openai.chat", "sse", "json", "payload"), ""),
    ClientReading(
        "openai",
        "openai-completions",
        _wires("openai.completions", "sse", "json", "payload"),
        "",
    ),
    ClientReading(
        "openai",
        "openai-responses",
        _wires("openai.responses", "sse", "json", "payload"),
        "",
        provider_tools=frozenset(("custom_tool_call", "mcp_call")),
    ),
    ClientReading(
        "anthropic", "anthropic", _wires("anthropic.messages", "sse", "json", "payload"), ""
    ),
    ClientReading("ollama", "ollama", _wires("ollama", "ndjson", "json"), "/api/chat$"),
    ClientReading(
        "ollama", "ollama-generate", _wires("ollama", "ndjson", "json"), "/api/generate$"
    ),
    ClientReading(
        "google-genai", "gemini", _wires("gemini", "sse", "json", "payload"), "enerateContent$"
    ),
    ClientReading("google-genai", "gemini-interactions", ("gemini.interactions.payload",), ""),
    ClientReading("cohere", "cohere", _wires("cohere.v2", "sse", "json", "payload"), "/v2/chat$"),
    ClientReading("cohere", "cohere-v1", _wires("cohere.v1", "ndjson", "json"), "/v1/chat$"),
    ClientReading(
        "boto3", "bedrock", _wires("bedrock.converse", "eventstream", "json", "payload"), ""
    ),
    ClientReading(
        "boto3",
        "bedrock-invoke",
        _wires("bedrock.invoke", "eventstream", "json"),
        "/model/[^/]*(anthropic|claude)",
    ),
    ClientReading(
        "mistralai",
        "openai-chat",
        _wires("openai.chat", "sse", "json", "payload"),
        "",
        provider="mistral",
    ),
    ClientReading(
        "groq", "openai-chat", _wires("openai.chat", "sse", "json", "payload"), "", provider="groq"
    ),
)

JUDGES: Final = tuple(dict.fromkeys(reading.judge for reading in READINGS))
"""The clients that decode the corpus."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row, decoded by a client and by our dialect."""

    row: Row
    client_answer: JudgeResponse
    our_turn: Turn
    """Our first turn, as `ClientReading.decoded_turn` gives it; empty where there is none."""
    comparable_fields: tuple[str, ...]
    """The fields that the client exposes."""

    def differences(self) -> list[str]:
        """The fields in which client and dialect differ."""
        differing = response_differences.differing_fields(
            self.client_answer, self.our_turn, self.comparable_fields
        )
        status = (self.client_answer.error or {}).get("status")
        return differing + ["status"] * (self.row.status >= 400 and status != self.row.status)


async def compare(judge: str) -> list[tuple[ClientReading, list[Comparison]]]:
    """Decode the rows of each reading of a client with the client and with our dialect."""
    async with judge_runner.running_judge(judge) as send:
        return [
            (reading, await _compare_rows(reading, send))
            for reading in READINGS
            if reading.judge == judge
        ]


async def _compare_rows(reading: ClientReading, send: SendRequests) -> list[Comparison]:
    rows = {row.id: row for row in reading.rows()}
    requests = [
        JudgeRequest(row.id, reading.dialect, "m", f"row {row.id}", row.streaming)
        for row in rows.values()
    ]

    async def serve(connection: Connection) -> None:
        match = _ROW.search(connection.body)
        assert match is not None
        await _send_row(connection, rows[match[1].decode()])

    async with upstream(serve) as server:
        answers = await send(server.url, requests)
    abilities = judge_runner.load_abilities(reading.judge)[reading.dialect]
    return [
        Comparison(
            row,
            answer,
            reading.decoded_turn(row),
            tuple(abilities["stream" if row.streaming else "whole"]),
        )
        for row, answer in zip(rows.values(), answers, strict=True)
    ]


async def _send_row(connection: Connection, row: Row) -> None:
    fields = [f"{name}: {value}" for name, value in row.head.headers]
    lines = [f"HTTP/1.1 {row.status} Recorded", *fields, f"Content-Length: {len(row.body)}"]
    await connection.send("\r\n".join([*lines, "", ""]).encode("latin-1") + row.body)


def decode_row(row: Row) -> tuple[Turn, ...]:
    """The turns that our dialect decodes from a row."""
    dialect = dialects.dialect_of_request(row.request)
    return dialect.decode_response(row_response(row))


def row_response(row: Row) -> DialectResponse:
    """A row's response as the input of a dialect."""
    label = dialects.dialect_of_request(row.request).codec_name(row.request, row.head)
    codec = framing.codec_name_for_body(label, row.body)
    return DialectResponse(row.head, codec, framing.split_messages(codec, row.body))


def differing_rows(
    reading: ClientReading, comparisons: Sequence[Comparison]
) -> dict[tuple[str, str], str]:
    """The rows that differ, by wire and id: the fields, and the reason if it is listed."""
    listed = json.loads(DIFFERENCES.read_bytes()).get(reading.judge, {})
    differing: dict[tuple[str, str], str] = {}
    for comparison in comparisons:
        if fields := ", ".join(comparison.differences()):
            _, _, why = (
                listed.get(comparison.row.wire, {}).get(comparison.row.id, "").partition(": ")
            )
            differing[comparison.row.wire, comparison.row.id] = f"{fields}: {why or 'NOT LISTED'}"
    return differing
