"""Compare decoding with the official SDK, on golden streams and on every recorded one."""

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
    TEXT_STREAM,
    TOOLS_STREAM,
    sse_event,
    sse_response,
)
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    FinishReason,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough


def _client(status: int, content_type: str, body: bytes) -> anthropic.Anthropic:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return anthropic.Anthropic(
        api_key="none",
        base_url="http://127.0.0.1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
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


ComparableMessage = dict[str, object]
"""The properties by which a turn is compared with a message of the SDK."""


def _comparable_turn(turn: Turn) -> ComparableMessage:
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


def _comparable_sdk_message(message: dict[str, Any]) -> ComparableMessage:
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
        "usage": _sdk_usage(message["usage"]),
        "message": (message["id"], message["model"]),
    }


def _sdk_usage(usage: dict[str, Any]) -> Usage:
    return Usage(
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cache_read=usage.get("cache_read_input_tokens"),
        cache_write=usage.get("cache_creation_input_tokens"),
        reasoning=(usage.get("output_tokens_details") or {}).get("thinking_tokens"),
    )


def _sdk_message(body: bytes, *, stream: bool) -> dict[str, Any]:
    """Return the message that the SDK accumulates from the body."""
    with _client(200, "text/event-stream" if stream else "application/json", body) as client:
        messages_api = client.beta.messages
        if not stream:
            return messages_api.create(model="m", max_tokens=1, messages=[]).to_dict()
        with messages_api.stream(model="m", max_tokens=1, messages=[]) as message_stream:
            return message_stream.get_final_message().to_dict()


@pytest.mark.parametrize("body", [TEXT_STREAM, TOOLS_STREAM], ids=["text", "tools"])
def test_the_sdk_decodes_the_golden_streams_identically(body: bytes) -> None:
    (turn,) = DIALECT.decode_response(sse_response(body))
    assert _comparable_turn(turn) == _comparable_sdk_message(_sdk_message(body, stream=True))


MESSAGES = ("anthropic.messages.sse", "anthropic.messages.json", "anthropic.messages.payload")
STREAMS = ("anthropic.messages.sse", "anthropic.messages.payload", "anthropic.complete.sse")
needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def _rows() -> list[corpus.Row]:
    return [row for row in corpus.rows() if row.wire.startswith("anthropic.")]


def _wire_body(row: corpus.Row) -> bytes:
    """Return the body with its framing, which recordings of payloads lack."""
    if row.wire != "anthropic.messages.payload":
        return row.body
    payloads = [line for line in row.body.splitlines() if line.strip()]
    return b"".join(sse_event(**_event_arguments(json.loads(payload))) for payload in payloads)


def _event_arguments(payload: dict[str, Any]) -> dict[str, Any]:
    return {"event_type": payload.pop("type"), **payload}


def _response(row: corpus.Row) -> DialectResponse:
    is_payload = row.wire == "anthropic.messages.payload"
    name = "sse" if is_payload else DIALECT.codec_name(row.request, row.head)
    return DialectResponse(row.head, name, framing.split_messages(name, _wire_body(row)))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_matched_and_complete() -> None:
    rows = _rows()
    assert len(rows) == 232
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        response = _response(row)
        assert response.codec_name == ("sse" if row.wire in STREAMS else "whole"), row.id
        assert DIALECT.completeness(response).is_complete, row.id
        assert DIALECT.model(row.request) or not row.request_body, row.id
        assert (
            DIALECT.streams(row.request) or not row.request_body or response.codec_name == "whole"
        )


@pytest.mark.corpus
@needs_corpus
def test_real_streams_end_in_message_stop_and_legacy_ones_in_a_stop_reason() -> None:
    reasons = {
        (row.wire, DIALECT.completeness(_response(row)).reason)
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
def test_no_recorded_stream_is_complete_before_its_stop_reason() -> None:
    for row in _rows():
        if row.wire in STREAMS:
            response = _response(row)
            *messages, last = response.framed_messages
            while not _has_stop_reason(last):
                *messages, last = messages
            assert not DIALECT.completeness(
                DialectResponse(response.head, "sse", messages)
            ).is_complete, row.id


def _has_stop_reason(message: bytes) -> bool:
    payload = json.loads(parse_event(message).data or b"{}")
    return bool(payload.get("delta", payload).get("stop_reason"))


KNOWN_TYPES = {
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
    event_count = 0
    for row in _rows():
        response = _response(row)
        assert not any(
            "other_blocks" in dict(turn.metadata) for turn in DIALECT.decode_response(response)
        )
        if row.wire in STREAMS:
            event_count += len(response.framed_messages)
            assert set(_event_types(response)) <= KNOWN_TYPES, row.id
    assert event_count > 4500


def _event_types(response: DialectResponse) -> Iterator[str]:
    for message in response.framed_messages:
        payload = json.loads(parse_event(message).data or b"{}")
        yield payload["type"]
        if payload["type"] == "content_block_delta":
            yield payload["delta"]["type"]


SEVERAL_MESSAGES = {
    "4e98d3417e7c108f": 15,  # responses to one question, recorded one after the other
    "ab068f9420ec7f19": 2,  # a stream that starts again in the middle of a call
}
"""Rows of more than one message, which the SDK joins or drops."""


@pytest.mark.corpus
@needs_corpus
def test_the_sdk_decodes_every_recorded_message_identically() -> None:
    compared = 0
    multi_message_rows = {}
    for row in corpus.short_rows():
        if row.wire not in MESSAGES or row.status != 200:
            continue
        response = _response(row)
        turns = DIALECT.decode_response(response)
        if len(turns) > 1:
            multi_message_rows[row.id] = len(turns)
            continue
        sdk_message = _sdk_message(_wire_body(row), stream=response.codec_name == "sse")
        assert _comparable_turn(turns[0]) == _comparable_sdk_message(sdk_message), row.id
        compared += 1
    short_rows = {row.id for row in corpus.short_rows()}
    assert multi_message_rows == {
        row: count for row, count in SEVERAL_MESSAGES.items() if row in short_rows
    }
    assert compared == quick_or_thorough(159, 188)


@pytest.mark.corpus
@needs_corpus
def test_responses_that_the_sdk_cannot_parse_are_decoded() -> None:
    rows = {row.id: row for row in _rows()}
    cut, spliced = DIALECT.decode_response(_response(rows["ab068f9420ec7f19"]))
    assert cut.parts[-1] == ToolCall("toolu_first", "test-tool", '{"value":"Spark')
    assert spliced.parts[-1] == ToolCall("toolu_second", "test-tool", '{"value":"Sparkle Day"}')
    assert (cut.finish, spliced.finish) == (None, FinishReason.TOOL_CALLS)
    turns = DIALECT.decode_response(_response(rows["4e98d3417e7c108f"]))
    assert [turn.finish for turn in turns] == [FinishReason.TOOL_CALLS] * 14 + [FinishReason.STOP]
    assert {
        part.name for turn in turns[1:14] for part in turn.parts if isinstance(part, ToolCall)
    } == {"rollDie"}


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_error_has_a_type() -> None:
    error_turns = [
        DIALECT.decode_response(_response(row))[0] for row in _rows() if row.status != 200
    ]
    assert len(error_turns) == 25
    assert all(turn.failure and turn.failure.type.endswith("_error") for turn in error_turns)
    assert all(dict(turn.metadata)["request_id"] for turn in error_turns)


@pytest.mark.corpus
@needs_corpus
def test_token_counts_have_no_turn() -> None:
    counts = [row for row in _rows() if "count_tokens" in row.wire and row.status == 200]
    assert [DIALECT.decode_response(_response(row)) for row in counts] == [()] * 8
