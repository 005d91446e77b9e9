"""Anthropic's SDK against both directions, and both directions on every recorded answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import anthropic
import httpx2
import pytest

import corpus
from anthropic_events import (
    DIALECT,
    STREAM_REQUEST,
    TEXT_STREAM,
    TOOLS_STREAM,
    WHOLE_REQUEST,
    anthropic_request,
    json_response,
)
from case_tables import each_row
from conformance_cases import CASES, Case
from corpus_framing import with_framing
from dialect_manners import ENCODE_CONTEXT
from dialect_responses import stream_response, whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import is_thorough, quick_or_thorough

Responder = Callable[[Request], DialectResponse]


def client(respond: Responder) -> anthropic.Anthropic:
    """The SDK with `respond` as its server and without retries."""

    def handle(sdk_request: httpx2.Request) -> httpx2.Response:
        url = sdk_request.url
        request = Request(
            sdk_request.method,
            url.path,
            url.query.decode(),
            tuple(sdk_request.headers.items()),
            sdk_request.content,
        )
        assert dialects.dialect_of_request(request) is dialects.dialect_named("anthropic")
        response = respond(request)
        body = b"".join(response.framed_messages)
        return httpx2.Response(
            response.head.status, headers=list(response.head.headers), content=body
        )

    transport = httpx2.Client(transport=httpx2.MockTransport(handle))
    return anthropic.Anthropic(
        api_key="none", base_url="http://127.0.0.1", max_retries=0, http_client=transport
    )


def respond_with(turn: Turn) -> Responder:
    return lambda request: (
        DIALECT.auxiliary_response(request, ENCODE_CONTEXT)
        or DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT)
    )


def respond_as(response: DialectResponse) -> Responder:
    return lambda _: response


def sdk_message(respond: Responder, *, stream: bool) -> dict[str, Any]:
    """The message that the SDK makes of the response."""
    with client(respond) as sdk:
        messages = sdk.beta.messages
        if not stream:
            return messages.create(model="claude-sonnet-5", max_tokens=9, messages=[]).to_dict()
        with messages.stream(model="claude-sonnet-5", max_tokens=9, messages=[]) as events:
            return events.get_final_message().to_dict()


SEARCH: Final = ToolCall("s", "web_search", '{"query":"q"}', (("type", "server_tool_use"),))
SEARCH_RESULT: Final = ToolResult(
    "s",
    '[{"encrypted_content":"e","title":"t","type":"web_search_result","url":"u"}]',
    metadata=(("type", "web_search_tool_result"),),
)
EXTRA_CASES: Final = (
    Case("tool of the provider", Turn((SEARCH, SEARCH_RESULT, Text("It is.")), FinishReason.STOP)),
    Case("paused", Turn((SEARCH, SEARCH_RESULT), FinishReason.PAUSED)),
    Case("tool of another", Turn((ToolCall("c", "f", "{}"), ToolResult("c", "5"), Text("Five.")))),
)
CASES_WITHOUT_FAILURE: Final = [
    case
    for case in (*CASES, *EXTRA_CASES)
    if case.turn.failure is None and (case.name != "long" or is_thorough())
]
each_case = each_row("case", CASES_WITHOUT_FAILURE)


@each_case
@each_row("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_receives_the_encoded_turn(case: Case, stream: bool) -> None:
    message = sdk_message(respond_with(case.turn), stream=stream)
    (received,) = DIALECT.decode_response(json_response(**message))
    (expected,) = DIALECT.representable_turns(WHOLE_REQUEST, (case.turn,), ENCODE_CONTEXT).turns

    assert _with_sorted_metadata(received) == _with_sorted_metadata(expected)


def test_the_sdk_raises_the_error_that_ends_a_stream() -> None:
    turn = Turn((Text("Hello"),), failure=Failure("Overloaded", "overloaded_error"))
    with (
        client(respond_with(turn)) as sdk,
        sdk.messages.stream(model="m", max_tokens=9, messages=[]) as events,
        pytest.raises(anthropic.APIStatusError, match="Overloaded") as raised,
    ):
        events.until_done()

    (block,) = events.current_message_snapshot.content
    assert block.type == "text"
    assert block.text == "Hello"
    assert raised.value.status_code == 200
    assert raised.value.type == "overloaded_error"


@each_row(
    ("status", "kind", "message", "exception_type"),
    [
        (400, "invalid_request_error", "Invalid request", anthropic.BadRequestError),
        (401, "authentication_error", "invalid x-api-key", anthropic.AuthenticationError),
        (402, "billing_error", "Billing error", anthropic.APIStatusError),
        (403, "permission_error", "Permission denied", anthropic.PermissionDeniedError),
        (404, "not_found_error", "Not found", anthropic.NotFoundError),
        (408, "timeout_error", "Request timed out", anthropic.APIStatusError),
        (409, "conflict_error", "Conflict", anthropic.ConflictError),
        (413, "request_too_large", "Request exceeds the maximum size", anthropic.APIStatusError),
        (422, "invalid_request_error", "Invalid request", anthropic.UnprocessableEntityError),
        (429, "rate_limit_error", "Rate limited", anthropic.RateLimitError),
        (500, "api_error", "Internal server error", anthropic.InternalServerError),
        (502, "api_error", "Internal server error", anthropic.InternalServerError),
        (503, "api_error", "Service unavailable", anthropic.APIStatusError),
        (504, "timeout_error", "Request timed out", anthropic.APIStatusError),
        (529, "overloaded_error", "Overloaded", anthropic.APIStatusError),
    ],
)
def test_each_status_has_its_own_default_message_and_exception_of_the_sdk(
    status: int, kind: str, message: str, exception_type: type[anthropic.APIStatusError]
) -> None:
    response = DIALECT.error_response(status, Failure(""), ENCODE_CONTEXT, 7)
    request_id = ENCODE_CONTEXT.fake_identifier("req_")
    body = {
        "type": "error", "error": {"type": kind, "message": message}, "request_id": request_id,
    }  # fmt: skip

    assert json.loads(response.framed_messages[0]) == body
    assert DIALECT.decode_response(response)[0].failure == Failure(message, kind)
    for stream in (True, False):
        with client(respond_as(response)) as sdk, pytest.raises(exception_type) as raised:
            sdk.messages.create(model="m", max_tokens=9, messages=[], stream=stream)
        assert (raised.value.status_code, raised.value.body) == (status, body)
        assert message in str(raised.value)
        assert raised.value.request_id == request_id
        assert raised.value.response.headers["retry-after"] == "7"


def test_the_sdk_lists_models_and_counts_tokens() -> None:
    with client(respond_with(Turn(()))) as sdk:
        assert [item.id for item in sdk.models.list(limit=1)] == ["small", "large"]
        assert sdk.models.retrieve("small").created_at.year == 2023
        with pytest.raises(anthropic.NotFoundError, match="model: other"):
            sdk.models.retrieve("other")
        count = sdk.messages.count_tokens(
            model="m", messages=[{"role": "user", "content": "12345678"}]
        )
    assert count.input_tokens == 2


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette for this request")
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": "cassette_not_found", "message": "no cassette for this request"},
    }
    with client(respond_as(whole_response(body, 424))) as sdk:
        with pytest.raises(
            anthropic.APIStatusError, match="no cassette for this request"
        ) as raised:
            sdk.messages.create(model="m", max_tokens=1, messages=[])
        with pytest.raises(anthropic.APIStatusError, match="no cassette for this request"):
            sdk.models.list()
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


def test_the_sdk_decodes_the_golden_streams_identically() -> None:
    for body in (TEXT_STREAM, TOOLS_STREAM):
        response = stream_response(body)
        (turn,) = DIALECT.decode_response(response)
        message = sdk_message(respond_as(response), stream=True)
        assert _comparable_turn(turn) == _comparable_sdk_message(message)


MESSAGES = ("anthropic.messages.sse", "anthropic.messages.json", "anthropic.messages.payload")
STREAMS = ("anthropic.messages.sse", "anthropic.messages.payload", "anthropic.complete.sse")
needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def _rows() -> list[corpus.Row]:
    return [with_framing(row) for row in corpus.rows() if row.wire.startswith("anthropic.")]


def _response(row: corpus.Row) -> DialectResponse:
    name = DIALECT.codec_name(row.request, row.head)
    return DialectResponse(row.head, name, framing.split_messages(name, row.body))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_matched_and_complete_but_not_before_its_stop_reason() -> None:
    rows = _rows()
    assert len(rows) == 232
    reasons = set()
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        response = _response(row)
        completeness = DIALECT.completeness(response)
        assert response.codec_name == ("sse" if row.wire in STREAMS else "whole"), row.id
        assert completeness.is_complete, row.id
        assert DIALECT.model(row.request) or not row.request_body, row.id
        if row.wire not in STREAMS:
            continue
        assert DIALECT.streams(row.request) or not row.request_body, row.id
        reasons.add((row.wire, completeness.reason))
        *messages, last = response.framed_messages
        while not _has_stop_reason(last):
            *messages, last = messages
        cut = DialectResponse(response.head, "sse", messages)
        assert not DIALECT.completeness(cut).is_complete, row.id
    assert reasons == {
        ("anthropic.messages.sse", "message_stop"),
        ("anthropic.messages.payload", "message_stop"),
        ("anthropic.complete.sse", "stop_reason: max_tokens"),
    }


def _has_stop_reason(message: bytes) -> bool:
    payload = json.loads(parse_event(message).data or b"{}")
    return bool(payload.get("delta", payload).get("stop_reason"))


KNOWN_TYPES = {
    "message_start", "message_delta", "message_stop", "content_block_start",
    "content_block_delta", "content_block_stop", "completion", "ping", "text_delta",
    "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "compaction_delta",
}  # fmt: skip


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
    for row in map(with_framing, corpus.short_rows()):
        if row.wire not in MESSAGES or row.status != 200:
            continue
        response = _response(row)
        turns = DIALECT.decode_response(response)
        if len(turns) > 1:
            multi_message_rows[row.id] = len(turns)
            continue
        message = sdk_message(respond_as(response), stream=response.codec_name == "sse")
        assert _comparable_turn(turns[0]) == _comparable_sdk_message(message), row.id
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
def test_every_recorded_error_has_a_type_and_token_counts_have_no_turn() -> None:
    errors = [DIALECT.decode_response(_response(row))[0] for row in _rows() if row.status != 200]
    counts = [row for row in _rows() if "count_tokens" in row.wire and row.status == 200]

    assert len(errors) == 25
    assert all(turn.failure and turn.failure.type.endswith("_error") for turn in errors)
    assert all(dict(turn.metadata)["request_id"] for turn in errors)
    assert [DIALECT.decode_response(_response(row)) for row in counts] == [()] * 8


SPLICED_ROW_ID: Final = "ab068f9420ec7f19"
"""The row that was spliced: its first message ends inside a call's arguments."""


def _with_sorted_metadata(turn: Turn) -> Turn:
    """The turn with all metadata sorted by key, so that its order does not matter."""

    def sorted_part(part: Part) -> Part:
        if isinstance(part, Text):
            citations = (
                replace(citation, metadata=_sort_metadata(citation.metadata))
                for citation in part.citations
            )
            part = replace(part, citations=tuple(citations))
        return replace(part, metadata=_sort_metadata(part.metadata))

    return replace(
        turn, parts=tuple(map(sorted_part, turn.parts)), metadata=_sort_metadata(turn.metadata)
    )


def _sort_metadata(metadata: Metadata) -> Metadata:
    return tuple(sorted(metadata, key=lambda pair: pair[0]))


def _round_trip(turn: Turn, request: Request) -> Turn:
    """The turn encoded and decoded; asserts that nothing is lost."""
    converted = DIALECT.representable_turns(request, (turn,), ENCODE_CONTEXT)
    assert converted.losses == ()
    assert (
        DIALECT.decode_response(DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT))
        == converted.turns
    )
    return converted.turns[0]


def _with_compact_arguments(turn: Turn) -> Turn:
    """The turn with its calls' arguments formatted as in a document."""

    def representable(part: Part) -> Part:
        turns = DIALECT.representable_turns(WHOLE_REQUEST, (Turn((part,)),), ENCODE_CONTEXT).turns
        return turns[0].parts[0]

    parts = (representable(part) if isinstance(part, ToolCall) else part for part in turn.parts)
    return replace(turn, parts=tuple(parts))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_answer_round_trips() -> None:
    counts: Counter[str] = Counter()
    stream, whole = STREAM_REQUEST, replace(STREAM_REQUEST, body=b"{}")
    completion = anthropic_request("/v1/complete", model="claude-2.1", stream=True)
    for row in _rows():
        for turn in DIALECT.decode_response(_response(row)):
            counts["turns"] += 1
            if turn.failure:
                counts["errors"] += 1
                assert _round_trip(turn, whole) == turn, row.id
            elif "complete" in row.wire:
                counts["legacy"] += 1
                with pytest.raises(NotRepresentable, match="/v1/complete; use /v1/messages"):
                    DIALECT.encode_response(completion, (turn,), ENCODE_CONTEXT)
            elif turn.finish is None:
                counts["cut"] += 1
                expected = replace(turn, finish=FinishReason.TOOL_CALLS, finish_raw="tool_use")
                assert (_round_trip(turn, stream), row.id) == (expected, SPLICED_ROW_ID)
                message = "the arguments of test-tool are not a JSON object"
                with pytest.raises(NotRepresentable, match=message):
                    DIALECT.representable_turns(whole, (turn,), ENCODE_CONTEXT)
            else:
                assert _with_sorted_metadata(_round_trip(turn, stream)) == _with_sorted_metadata(
                    turn
                ), row.id
                assert _with_sorted_metadata(_round_trip(turn, whole)) == _with_sorted_metadata(
                    _with_compact_arguments(turn)
                ), row.id
    assert counts == {"turns": 239, "errors": 25, "legacy": 9, "cut": 1}
