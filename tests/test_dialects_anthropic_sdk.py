"""The official SDK as a judge, of golden streams and of every real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest

import corpus
from anthropic_events import (
    DIALECT,
    TEXT,
    TOOLS,
    event,
    streamed,
)
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Finish,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)


def _client(status: int, content_type: str, body: bytes) -> anthropic.Anthropic:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return anthropic.Anthropic(
        api_key="none",
        base_url="http://127.0.0.1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette for this request")
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": "cassette_not_found", "message": "no cassette for this request"},
    }
    with _client(424, "application/json", body) as client:
        with pytest.raises(
            anthropic.APIStatusError, match="no cassette for this request"
        ) as raised:
            client.messages.create(model="m", max_tokens=1, messages=[])
        with pytest.raises(anthropic.APIStatusError, match="no cassette for this request"):
            client.models.list()
    assert (raised.value.status_code, raised.value.body) == (424, json.loads(body))


Said = dict[str, object]
"""What a turn and the SDK's message can be compared by."""


def _of_turn(turn: Turn) -> Said:
    texts = [part for part in turn.parts if isinstance(part, Text)]
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    thoughts = [part for part in turn.parts if isinstance(part, Reasoning)]
    return {
        "texts": [(text.text, len(text.citations)) for text in texts],
        "thoughts": [
            (thought.text, thought.signature or "", thought.redacted or "") for thought in thoughts
        ],
        "calls": [(item.id, item.name, json.loads(item.arguments)) for item in calls],
        "results": [part.call_id for part in turn.parts if isinstance(part, ToolResult)],
        "finish": turn.finish_raw,
        "usage": turn.usage,
        "message": (turn.id, turn.model),
    }


def _of_sdk(message: dict[str, Any]) -> Said:
    blocks: list[dict[str, Any]] = message["content"]
    thoughts = [block for block in blocks if block["type"].endswith("thinking")]
    compacted = [block for block in blocks if block["type"] == "compaction"]
    calls = [block for block in blocks if block["type"].endswith("tool_use")]
    return {
        "texts": [
            (block["text"], len(block.get("citations") or ()))
            for block in blocks
            if block["type"] == "text"
        ],
        "thoughts": [
            *(
                (thought.get("thinking", ""), thought.get("signature", ""), thought.get("data", ""))
                for thought in thoughts
            ),
            *((item["content"], "", "") for item in compacted),
        ],
        "calls": [(item["id"], item["name"], item["input"]) for item in calls],
        "results": [
            block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")
        ],
        "finish": message["stop_reason"],
        "usage": _usage_of_sdk(message["usage"]),
        "message": (message["id"], message["model"]),
    }


def _usage_of_sdk(usage: dict[str, Any]) -> Usage:
    return Usage(
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cache_read=usage.get("cache_read_input_tokens"),
        cache_write=usage.get("cache_creation_input_tokens"),
        reasoning=(usage.get("output_tokens_details") or {}).get("thinking_tokens"),
    )


def _read_by_sdk(body: bytes, *, stream: bool) -> dict[str, Any]:
    """The message that the SDK's own accumulation makes of it."""
    with _client(200, "text/event-stream" if stream else "application/json", body) as client:
        messages = client.beta.messages
        if not stream:
            return messages.create(model="m", max_tokens=1, messages=[]).to_dict()
        with messages.stream(model="m", max_tokens=1, messages=[]) as events:
            return events.get_final_message().to_dict()


@pytest.mark.parametrize("body", [TEXT, TOOLS], ids=["text", "tools"])
def test_the_sdk_reads_the_golden_streams_alike(body: bytes) -> None:
    (turn,) = DIALECT.decode(streamed(body))
    assert _of_turn(turn) == _of_sdk(_read_by_sdk(body, stream=True))


MESSAGES = ("anthropic.messages.sse", "anthropic.messages.json", "anthropic.messages.payload")
STREAMS = ("anthropic.messages.sse", "anthropic.messages.payload", "anthropic.complete.sse")
needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def _rows() -> list[corpus.Row]:
    return [row for row in corpus.rows() if row.wire.startswith("anthropic.")]


def _body(row: corpus.Row) -> bytes:
    """The body as it came: recordings of payloads have lost their framing."""
    if row.wire != "anthropic.messages.payload":
        return row.body
    payloads = [line for line in row.body.splitlines() if line.strip()]
    return b"".join(event(**_arguments(json.loads(payload))) for payload in payloads)


def _arguments(payload: dict[str, Any]) -> dict[str, Any]:
    return {"kind": payload.pop("type"), **payload}


def _answer(row: corpus.Row) -> DialectResponse:
    is_payload = row.wire == "anthropic.messages.payload"
    name = "sse" if is_payload else DIALECT.codec(row.request, row.head)
    return DialectResponse(row.head, name, framing.split_messages(name, _body(row)))


@pytest.mark.corpus
@needs_corpus
def test_every_real_answer_is_claimed_and_judged_whole() -> None:
    rows = _rows()
    assert len(rows) == 232
    for row in rows:
        assert dialects.find_dialect(row.request).name == DIALECT.name, row.id
        answer = _answer(row)
        assert answer.codec == ("sse" if row.wire in STREAMS else "whole"), row.id
        assert DIALECT.completeness(answer).is_complete, row.id
        assert DIALECT.model(row.request) or not row.request_body, row.id
        assert DIALECT.streams(row.request) or not row.request_body or answer.codec == "whole"


@pytest.mark.corpus
@needs_corpus
def test_real_streams_end_in_message_stop_and_legacy_ones_in_a_stop_reason() -> None:
    reasons = {
        (row.wire, DIALECT.completeness(_answer(row)).reason)
        for row in _rows()
        if row.wire in STREAMS
    }
    assert reasons == {
        ("anthropic.messages.sse", "message_stop"),
        ("anthropic.messages.payload", "message_stop"),
        ("anthropic.complete.sse", "stop_reason: max_tokens"),
    }


@pytest.mark.corpus
@needs_corpus
def test_no_real_stream_is_whole_before_it_says_why_it_stops() -> None:
    for row in _rows():
        if row.wire in STREAMS:
            answer = _answer(row)
            *said, last = answer.messages
            while not _stops(last):
                *said, last = said
            assert not DIALECT.completeness(
                DialectResponse(answer.head, "sse", said)
            ).is_complete, row.id


def _stops(message: bytes) -> bool:
    said = json.loads(parse_event(message).data or b"{}")
    return bool(said.get("delta", said).get("stop_reason"))


KNOWN = {
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "completion",
    "ping",
    "text_delta",
    "thinking_delta",
    "signature_delta",
    "input_json_delta",
    "citations_delta",
    "compaction_delta",
}


@pytest.mark.corpus
@needs_corpus
def test_no_event_or_delta_or_block_of_a_real_answer_is_unknown() -> None:
    events = 0
    for row in _rows():
        answer = _answer(row)
        assert not any("other_blocks" in dict(turn.metadata) for turn in DIALECT.decode(answer))
        if row.wire in STREAMS:
            events += len(answer.messages)
            assert set(_types(answer)) <= KNOWN, row.id
    assert events > 4500


def _types(answer: DialectResponse) -> Iterator[str]:
    for message in answer.messages:
        said = json.loads(parse_event(message).data or b"{}")
        yield said["type"]
        if said["type"] == "content_block_delta":
            yield said["delta"]["type"]


SEVERAL_MESSAGES = {
    "4e98d3417e7c108f": 15,  # answers to one question, recorded one after the other
    "ab068f9420ec7f19": 2,  # a stream that begins anew in the middle of a call
}
"""Rows of more than one message, which the SDK runs together or loses."""


@pytest.mark.corpus
@needs_corpus
def test_the_sdk_understands_every_real_message_as_we_do() -> None:
    compared = 0
    several = {}
    for row in _rows():
        if row.wire not in MESSAGES or row.status != 200:
            continue
        answer = _answer(row)
        turns = DIALECT.decode(answer)
        if len(turns) > 1:
            several[row.id] = len(turns)
            continue
        theirs = _read_by_sdk(_body(row), stream=answer.codec == "sse")
        assert _of_turn(turns[0]) == _of_sdk(theirs), row.id
        compared += 1
    assert several == SEVERAL_MESSAGES
    assert compared == 188


@pytest.mark.corpus
@needs_corpus
def test_what_the_sdk_cannot_read_is_read_here() -> None:
    rows = {row.id: row for row in _rows()}
    cut, spliced = DIALECT.decode(_answer(rows["ab068f9420ec7f19"]))
    assert cut.parts[-1] == ToolCall("toolu_first", "test-tool", '{"value":"Spark')
    assert spliced.parts[-1] == ToolCall("toolu_second", "test-tool", '{"value":"Sparkle Day"}')
    assert (cut.finish, spliced.finish) == (None, Finish.TOOL_CALLS)
    rolls = DIALECT.decode(_answer(rows["4e98d3417e7c108f"]))
    assert [roll.finish for roll in rolls] == [Finish.TOOL_CALLS] * 14 + [Finish.STOP]
    assert {
        part.name for turn in rolls[1:14] for part in turn.parts if isinstance(part, ToolCall)
    } == {"rollDie"}


@pytest.mark.corpus
@needs_corpus
def test_every_real_error_says_what_it_is() -> None:
    failures = [DIALECT.decode(_answer(row))[0] for row in _rows() if row.status != 200]
    assert len(failures) == 25
    assert all(failure.failure and failure.failure.type.endswith("_error") for failure in failures)
    assert all(dict(failure.metadata)["request_id"] for failure in failures)


@pytest.mark.corpus
@needs_corpus
def test_token_counts_say_nothing() -> None:
    counts = [row for row in _rows() if "count_tokens" in row.wire and row.status == 200]
    assert [DIALECT.decode(_answer(row)) for row in counts] == [()] * 8
