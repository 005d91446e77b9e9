from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from dialect_responses import head, stream_response, whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import Completeness
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openai.types.responses import Response as SdkResponse

DIALECT = OpenAIResponses()
Fields = dict[str, Any]


def make_request(
    path: str = "/v1/responses", method: str = "POST", query: str = "", **body: object
) -> Request:
    return Request(method, path, query, (), json.dumps(body).encode())


def document(**fields: object) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def text_delta(piece: str) -> bytes:
    return event("response.output_text.delta", output_index=0, content_index=0, delta=piece)


def status_event(status: str, **response: Any) -> bytes:
    return event(f"response.{status}", response={"status": status, **response})


def message(text: str = "Hi") -> Fields:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def call(kind: str = "function_call", call_id: str = "a", **fields: Any) -> Fields:
    return {"type": kind, "call_id": call_id, "name": "f", **fields}


def response(status: str, *output: Fields, **fields: Any) -> Fields:
    """A response with every field; those of the request have OpenAI's defaults."""
    return {
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status,
        "completed_at": 1_700_000_000 if status == "completed" else None, "error": None,
        "incomplete_details": None, "model": "gpt-5", "output": output, "background": False,
        "frequency_penalty": 0.0, "instructions": None, "max_output_tokens": None,
        "max_tool_calls": None, "metadata": {}, "parallel_tool_calls": True,
        "presence_penalty": 0.0, "previous_response_id": None, "prompt_cache_key": None,
        "prompt_cache_retention": None, "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None, "store": True, "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto",
        "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": None,
        "usage": None, **fields,
    }  # fmt: skip


def stream(*events: tuple[str, Fields], **fields: Any) -> list[bytes]:
    """The messages of events, which begin with a response that has these fields."""
    first = {"response": response("in_progress", **fields)}
    return [
        event(kind if kind == "error" else f"response.{kind}", sequence_number=number, **rest)
        for number, (kind, rest) in enumerate([("created", first), ("in_progress", first), *events])
    ]


def completed(*output: Fields, **fields: Any) -> tuple[str, Fields]:
    """The last event of a stream."""
    return "completed", {"response": response("completed", *output, **fields) | {"usage": COUNTS}}


def item_at(index: int, item: Fields, **fields: Any) -> Fields:
    """An event's fields for an item, in which these replace the item's."""
    return {"output_index": index, "item": {**item, **fields}}


def call_events(index: int, item: Fields, *pieces: str) -> list[tuple[str, Fields]]:
    """The events of a function call, whose arguments come in these pieces."""
    kind, place = "function_call_arguments", {"output_index": index, "item_id": item["id"]}
    return [
        ("output_item.added", item_at(index, item, status="in_progress", arguments="")),
        *((f"{kind}.delta", {**place, "delta": piece}) for piece in pieces),
        (f"{kind}.done", {**place, "name": item["name"], "arguments": item["arguments"]}),
        ("output_item.done", item_at(index, item)),
    ]


COUNTS = {
    "input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 14,
}  # fmt: skip
SUMMARY = {"type": "summary_text", "text": "Thinking."}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [SUMMARY]}
AT_SUMMARY = {"output_index": 0, "item_id": "rs_1", "summary_index": 0}
CITATION = {
    "type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://a.b", "title": "A"
}  # fmt: skip
FILE = {"type": "file_citation", "file_id": "f", "index": 0, "filename": "a.pdf"}
CITATIONS = (
    Citation("https://a.b", "A", span=(0, 5)),
    Citation(title="a.pdf", metadata=(("type", "file_citation"), ("file_id", "f"), ("index", 0))),
)
HELLO = {
    "type": "output_text", "text": "Hello there", "annotations": [CITATION, FILE], "logprobs": [],
}  # fmt: skip
NO = {"type": "refusal", "refusal": "No."}
MESSAGE = {
    "id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
    "content": [HELLO, NO],
}  # fmt: skip
AT_TEXT, AT_REFUSAL = (
    {"output_index": 1, "item_id": "msg_1", "content_index": index} for index in range(2)
)

ROME, OSLO = (
    {
        "id": f"fc_{city}", "type": "function_call", "status": "completed",
        "call_id": f"call_{city}", "name": "get", "arguments": f'{{"city": "{city}"}}',
    }
    for city in ("Rome", "Oslo")
)  # fmt: skip
CUT_CALL = {**OSLO, "status": "incomplete"}
CALL_EVENTS = [
    *call_events(0, ROME, '{"city":', ' "Rome"}'),
    *call_events(1, OSLO, '{"city":', ' "Oslo"}'),
]
ROME_CALL, OSLO_CALL = (
    ToolCall(f"call_{city}", "get", f'{{"city": "{city}"}}', (("id", f"fc_{city}"),))
    for city in ("Rome", "Oslo")
)

ECHOED: Fields = {
    "instructions": "Be brief.", "metadata": {"run": "7"},
    "previous_response_id": "resp_0", "reasoning": {"effort": "low", "summary": None},
    "store": False, "temperature": 0.5, "tool_choice": "required",
    "tools": [{"type": "function", "name": "f", "parameters": {}}],
}  # fmt: skip
UNMAPPED: Fields = {
    "service_tier": "flex", "conversation": {"id": "conv_1"}, "moderation": {"flagged": False},
    "content_filters": [{"blocked": False}], "tool_usage": {"web_search": {"num_requests": 1}},
}  # fmt: skip

TURN = Turn(
    (), FinishReason.STOP, "completed", Usage(9, 5, 14, 4, 3, 2), id="resp_1", model="gpt-5"
)
ERROR = {"code": "c", "message": "Oh no"}
Row = tuple[Fields, list[bytes], Turn]
WHOLE: dict[str, Row] = {
    "a summary, a text with citations, and a refusal": (
        {},
        stream(
            ("output_item.added", item_at(0, THOUGHT, summary=[])),
            ("reasoning_summary_part.added", {**AT_SUMMARY, "part": {**SUMMARY, "text": ""}}),
            ("reasoning_summary_text.delta", {**AT_SUMMARY, "delta": "Thinking."}),
            ("reasoning_summary_text.done", {**AT_SUMMARY, "text": "Thinking."}),
            ("reasoning_summary_part.done", {**AT_SUMMARY, "part": SUMMARY}),
            ("output_item.done", item_at(0, THOUGHT)),
            ("output_item.added", item_at(1, MESSAGE, status="in_progress", content=[])),
            ("content_part.added", {**AT_TEXT, "part": {**HELLO, "text": "", "annotations": []}}),
            ("output_text.delta", {**AT_TEXT, "delta": "Hello", "logprobs": []}),
            ("output_text.delta", {**AT_TEXT, "delta": " there", "logprobs": []}),
            (
                "output_text.annotation.added",
                {**AT_TEXT, "annotation_index": 0, "annotation": CITATION},
            ),
            (
                "output_text.annotation.added",
                {**AT_TEXT, "annotation_index": 1, "annotation": FILE},
            ),
            ("output_text.done", {**AT_TEXT, "text": "Hello there", "logprobs": []}),
            ("content_part.done", {**AT_TEXT, "part": HELLO}),
            ("content_part.added", {**AT_REFUSAL, "part": {**NO, "refusal": ""}}),
            ("refusal.delta", {**AT_REFUSAL, "delta": "No."}),
            ("refusal.done", {**AT_REFUSAL, "refusal": "No."}),
            ("content_part.done", {**AT_REFUSAL, "part": NO}),
            ("output_item.done", item_at(1, MESSAGE)),
            completed(THOUGHT, MESSAGE),
        ),
        replace(
            TURN,
            parts=(
                Reasoning("Thinking.", metadata=(("id", "rs_1"), ("type", "summary_text"))),
                Text("Hello there", CITATIONS, (("id", "msg_1"),)),
                Refusal("No.", (("id", "msg_1"),)),
            ),
        ),
    ),
    "parallel calls": (
        {},
        stream(*CALL_EVENTS, completed(ROME, OSLO)),
        replace(TURN, parts=(ROME_CALL, OSLO_CALL), finish=FinishReason.TOOL_CALLS),
    ),
    "fields of the request, and some that are metadata of the turn": (
        ECHOED | {"reasoning": {"effort": "low"}},
        stream(completed(**ECHOED, **UNMAPPED), **ECHOED, **UNMAPPED),
        replace(
            TURN,
            metadata=(
                ("service_tier", "flex"), ("previous_response_id", "resp_0"),
                *list(UNMAPPED.items())[1:],
            ),
        ),
    ),
}  # fmt: skip
"""Fields of a request, the stream and the turn; the last event holds the same as a document."""

STREAMS: dict[str, Row] = {
    "an error, which leaves the last item open": (
        {},
        stream(
            *CALL_EVENTS[:-2],
            ("error", {"error": {"message": "Oh no", "type": "t", "param": None, "code": "c"}}),
            ("failed", {"response": response("failed", ROME, CUT_CALL, error=ERROR)}),
        ),
        replace(
            TURN,
            parts=(
                ROME_CALL,
                replace(OSLO_CALL, metadata=(*OSLO_CALL.metadata, ("status", "incomplete"))),
            ),
            finish=FinishReason.ERROR, finish_raw="failed", usage=None,
            failure=Failure("Oh no", "t", "c"),
        ),
    ),
    "audio": (
        {},
        stream(
            ("audio.delta", {"delta": "aGk="}),
            ("audio.done", {}),
            ("audio.transcript.delta", {"delta": "Hello"}),
            ("audio.transcript.delta", {"delta": " there"}),
            ("audio.transcript.done", {}),
            completed(),
        ),
        replace(TURN, parts=(Media("audio/*", base64="aGk=", transcript="Hello there"),)),
    ),
}  # fmt: skip
"""What no document holds."""

TEXT_TURN = WHOLE["a summary, a text with citations, and a refusal"][2]
TEXT = b"".join(WHOLE["a summary, a text with citations, and a refusal"][1])
FLAT_ERROR = event("error", sequence_number=1, code="c", message="m", param=None)
LAST = TEXT.rstrip().rpartition(b"data: ")[2]
"""The data of the last event."""


@each_row(
    ("body", "messages", "turn"), [*WHOLE.values(), *STREAMS.values()], ids=[*WHOLE, *STREAMS]
)
def test_turns_and_streams_convert_in_both_directions(
    body: Fields, messages: list[bytes], turn: Turn
) -> None:
    encoded = DIALECT.encode_response(make_request(stream=True, **body), [turn], ENCODE_CONTEXT)

    assert list(encoded.framed_messages) == messages
    assert DIALECT.decode_response(stream_response(b"".join(messages))) == (turn,)


@each_row(("body", "messages", "turn"), WHOLE.values(), ids=WHOLE)
def test_turns_and_documents_convert_in_both_directions(
    body: Fields, messages: list[bytes], turn: Turn
) -> None:
    data = orjson.dumps(orjson.loads(messages[-1].partition(b"data: ")[2])["response"])

    assert DIALECT.encode_response(make_request(**body), [turn], ENCODE_CONTEXT).body == data
    assert DIALECT.decode_response(whole_response(data)) == (turn,)


@each_row(
    "body",
    [
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.rstrip(),
        TEXT + b"data: [DONE]\n\n",
        TEXT[TEXT.index(b"event: response.output_text.delta") :],
        LAST,
        orjson.dumps(orjson.loads(LAST)["response"]),
    ],
    ids=["CRLF", "the last event not ended", "OpenRouter's DONE", "the beginning missing",
         "the last event alone, no SSE", "a bare response"],
)  # fmt: skip
def test_other_forms_of_a_stream_are_complete_and_decoded(body: bytes) -> None:
    assert DIALECT.completeness(stream_response(body)).reason == "response.completed"
    assert DIALECT.decode_response(stream_response(body)) == (TEXT_TURN,)


@each_row(
    ("method", "path", "name"),
    [
        ("POST", "/v1/responses", "openai-responses"),
        ("POST", "/responses", "openai-responses"),
        ("POST", "/api/v1/responses", "openai-responses"),
        ("POST", "/openai/v1/responses", "openai-responses"),
        ("POST", "/openai/responses", "openai-responses"),
        ("POST", "/openai/deployments/gpt-5/responses", "openai-responses"),
        ("POST", "/v1/responses/compact", "openai-responses"),
        ("POST", "/v1/responses/resp_1/cancel", "openai-responses"),
        ("POST", "/openai/responses/resp_1/cancel", "openai-responses"),
        ("GET", "/v1/responses/resp_1", "openai-responses"),
        ("GET", "/responses/2f1e0c", "openai-responses"),
        ("GET", "/v1/responses", "opaque"),
        ("GET", "/v1/responses/resp_1/input_items", "openai-responses"),
        ("DELETE", "/v1/responses/resp_1", "openai-responses"),
        ("POST", "/v1/responses/input_tokens", "openai-responses"),
        ("GET", "/v1/responses/resp_1/cancel", "opaque"),
        ("POST", "/v1/myresponses", "opaque"),
        ("POST", "/v1/chat/completions", "openai-chat"),
        ("GET", "/v1/chat/completions/chatcmpl-1", "opaque"),
        ("POST", "/v1/completions", "openai-completions"),
        ("POST", "/openai/deployments/d/completions", "openai-completions"),
        ("POST", "/openai/deployments/d/chat/completions", "openai-chat"),
        ("POST", "/api/chat", "ollama"),
        ("POST", "/api/generate", "ollama"),
    ],
)
def test_each_request_is_matched_by_its_own_dialect_alone(
    method: str, path: str, name: str
) -> None:
    request = make_request(path, method)
    compared_dialects = ("openai-chat", "openai-completions", "openai-responses", "ollama")
    claimed = [
        dialect.name
        for dialect in dialects.DIALECTS
        if dialect.name in compared_dialects and dialect.matches(request)
    ]
    assert claimed == ([] if name == "opaque" else [name])


@each_row(
    ("request_", "model"),
    [
        pytest.param(make_request(model="gpt-5"), "gpt-5", id="in the body"),
        pytest.param(
            make_request("/openai/deployments/my%20gpt/responses"), "my gpt", id="deployment"
        ),
        pytest.param(make_request("/v1/responses/resp_1", "GET"), "", id="none"),
    ],
)
def test_the_model_is_found(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@each_row(
    ("request_", "streams"),
    [
        (make_request(stream=True), True),
        (make_request(stream=False), False),
        (make_request(), False),
        (make_request(query="stream=true"), False),
        (make_request("/v1/responses/resp_1", "GET", "stream=true&starting_after=7"), True),
        (make_request("/v1/responses/resp_1", "GET", "stream=false"), False),
        (make_request("/v1/responses/resp_1", "GET"), False),
    ],
)
def test_a_request_streams_when_its_body_or_its_query_says_so(
    request_: Request, streams: bool
) -> None:
    assert DIALECT.streams(request_) is streams


COMPLETE = {
    "completed": (TEXT, "response.completed"),
    "incomplete": (text_delta("a") + status_event("incomplete"), "response.incomplete"),
    "cancelled": (text_delta("a") + status_event("cancelled"), "response.cancelled"),
    "failed without a reason": (status_event("failed"), "response.failed"),
    "Bedrock's order of lines": (
        b'data: {"type":"response.completed"}\nevent: response.completed\n\n',
        "response.completed",
    ),
    "a type that only the event's name tells": (
        b'event: response.completed\ndata: {"response":{}}\n\n', "response.completed"
    ),
    "a bare response": (b'{"object":"response","status":"completed"}', "response.completed"),
}  # fmt: skip


@each_row(("body", "reason"), COMPLETE.values(), ids=COMPLETE)
def test_a_stream_with_an_end_marker_is_complete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert completeness == Completeness(is_complete=True, reason=reason, is_proven=True)


STREAM_ERRORS = {
    "flat": (FLAT_ERROR, Failure("m", code="c"), None),
    "flat, without a name": (
        b'data: {"type":"error","code":"c","message":"m"}\n\n', Failure("m", code="c"), None
    ),
    "flat, without a message": (
        b'event: error\ndata: {"code":"c"}\n\n', Failure('{"code":"c"}', code="c"), None
    ),
    "nested": (
        event("error", error={"type": "t", "code": "c", "message": "m", "param": None}),
        Failure("m", "t", "c"), None,
    ),
    "bare": (b'data: {"error":{"message":"m"}}\n\n', Failure("m"), None),
    "no SSE at all": (b'{"error":{"message":"m"}}', Failure("m"), None),
    "a response that failed": (
        status_event("failed", error={"code": "c", "message": "Oh\nno"}),
        Failure("Oh\nno", code="c"), FinishReason.ERROR,
    ),
}  # fmt: skip


@each_row(("body", "failure", "finish"), STREAM_ERRORS.values(), ids=STREAM_ERRORS)
def test_an_error_completes_a_stream_which_keeps_the_preceding_content(
    body: bytes, failure: Failure, finish: FinishReason | None
) -> None:
    response = stream_response(text_delta("Hi") + body)

    reason = f"in-band error: {' '.join(failure.message.split())}"
    completeness = Completeness(is_complete=True, reason=reason, is_error=True)
    assert DIALECT.completeness(response) == completeness
    (turn,) = DIALECT.decode_response(response)
    assert (turn.text, turn.failure, turn.finish) == ("Hi", failure, finish)


def test_the_first_of_two_errors_counts() -> None:
    body = event("error", error={"type": "t", "message": "first"}) + status_event(
        "failed", error={"message": "second"}
    )
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert (turn.failure, turn.finish) == (Failure("first", "t"), FinishReason.ERROR)


AFTER_TEXT = "no response.completed after response.output_text.delta"
INCOMPLETE = {
    "nothing": (b"", "empty stream"),
    "blank lines": (b"\n\n", "empty stream"),
    "comments only": (b": OPENROUTER PROCESSING\n\n", "no event"),
    "a page": (b"<html>busy</html>", "no event"),
    "DONE proves nothing": (b"data: [DONE]\n\n", "no event"),
    "cut": (text_delta("response.completed"), AFTER_TEXT),
    "cut, and DONE": (text_delta("a") + b"data: [DONE]\n\n", AFTER_TEXT),
    "cut inside the end": (text_delta("a") + status_event("completed")[:-9], AFTER_TEXT),
    "in progress": (
        status_event("in_progress", error=None), "no response.completed after response.in_progress"
    ),
    "a bare response that waits": (
        b'{"object":"response","status":"queued"}', "no response.completed after response.queued"
    ),
    "an event without a type": (b'data: {"hello":"' + b"x" * 99 + b'"}\n\n', "no event"),
    "a very long type": (event("x" * 99), f"no response.completed after {'x' * 60}"),
}  # fmt: skip


@each_row(("body", "reason"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@given(st.integers(0, len(TEXT)))
def test_a_truncated_stream_is_incomplete_and_decodes_to_a_prefix_without_a_finish(
    cut: int,
) -> None:
    response = stream_response(TEXT[:cut])
    is_complete = cut >= len(TEXT.rstrip())

    assert DIALECT.completeness(response).is_complete is is_complete
    for turn in DIALECT.decode_response(response):
        assert "Hello there".startswith(turn.text)
        assert "Thinking.".startswith(reasoning_text(turn))
        assert turn.finish is (FinishReason.STOP if is_complete else None)


def reasoning_text(turn: Turn) -> str:
    return "".join(part.text for part in turn.parts if isinstance(part, Reasoning))


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(whole_response(b'{"output":[]}'), True, "JSON body", id="a document"),
        pytest.param(whole_response(b'{"ty'), False, "body is not JSON", id="a cut document"),
        pytest.param(whole_response(b""), False, "empty body", id="nothing"),
        pytest.param(whole_response(b"<html>", 502), True, "HTTP 502", id="a gateway's page"),
        pytest.param(DialectResponse(head(500), "sse", []), True, "HTTP 500", id="an error, cut"),
    ],
)
def test_a_body_that_parses_or_reports_an_error_is_complete(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_an_end_without_output_keeps_the_streamed_items() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(text_delta("Hel") + text_delta("lo") + status_event("completed", output=[]))
    )
    assert (turn.text, turn.finish) == ("Hello", FinishReason.STOP)


def test_a_text_refusal_and_annotations_of_a_truncated_stream_are_decoded() -> None:
    annotation = {"type": "url_citation", "url": "u"}
    place = {"output_index": 0, "content_index": 0}
    (turn,) = DIALECT.decode_response(
        stream_response(
            text_delta("Hi")
            + event("response.output_text.annotation.added", annotation=annotation, **place)
            + event("response.refusal.delta", output_index=1, content_index=0, delta="No.")
        )
    )
    assert turn == Turn((Text("Hi", (Citation("u"),)), Refusal("No.")))


@each_row(
    ("finish", "raw", "status", "reason", "sent_raws"),
    [
        (FinishReason.STOP, "completed", "completed", "", ["completed", ""]),
        (
            FinishReason.LENGTH, "max_output_tokens", "incomplete", "max_output_tokens",
            ["max_output_tokens", ""],
        ),
        (
            FinishReason.CONTENT_FILTER, "content_filter", "incomplete", "content_filter",
            ["content_filter", ""],
        ),
        (FinishReason.ERROR, "failed", "failed", "", ["failed", ""]),
        (FinishReason.OTHER, "cancelled", "cancelled", "", ["cancelled"]),
        (FinishReason.OTHER, "incomplete", "incomplete", "", ["incomplete"]),
        (FinishReason.OTHER, "tired", "incomplete", "tired", ["tired"]),
    ],
)  # fmt: skip
def test_finish_values_and_statuses_convert_in_both_directions(
    finish: FinishReason, raw: str, status: str, reason: str, sent_raws: list[str]
) -> None:
    expected = response(
        status, incomplete_details={"reason": reason} if reason else None, usage=COUNTS
    )
    (turn,) = DIALECT.decode_response(document(**expected))
    assert (turn.finish, turn.finish_raw) == (finish, raw)

    for sent_raw in sent_raws:
        encoded = replace(turn, finish_raw=sent_raw)
        (*_, last) = DIALECT.encode_response(
            make_request(stream=True), [encoded], ENCODE_CONTEXT
        ).framed_messages
        assert last == event(f"response.{status}", sequence_number=2, response=expected)


@each_row(
    ("status", "reason", "finish", "raw"),
    [
        ("completed", "max_output_tokens", FinishReason.STOP, "completed"),
        ("queued", "", FinishReason.PAUSED, "queued"),
        ("in_progress", "", FinishReason.PAUSED, "in_progress"),
        ("", "", None, ""),
    ],
)
def test_other_statuses_are_decoded(
    status: str, reason: str, finish: FinishReason | None, raw: str
) -> None:
    details = {"reason": reason}
    (turn,) = DIALECT.decode_response(
        document(output=[], status=status, incomplete_details=details)
    )
    assert (turn.finish, turn.finish_raw) == (finish, raw)


def test_a_truncated_stream_has_no_finish() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(status_event("in_progress", id="resp_1") + text_delta("Hi"))
    )
    assert (turn.finish, turn.finish_raw, turn.id) == (None, "", "resp_1")


OUTPUTS = {
    "a message": ([message()], FinishReason.STOP),
    "a function": ([call()], FinishReason.TOOL_CALLS),
    "a function before a message": ([call(), message()], FinishReason.TOOL_CALLS),
    "a function that has its output": (
        [call(), {"type": "function_call_output", "call_id": "a"}],
        FinishReason.STOP,
    ),
    "a custom tool": ([message(), call("custom_tool_call")], FinishReason.TOOL_CALLS),
    "a tool that xAI ran itself": ([call("custom_tool_call"), message()], FinishReason.STOP),
    "a computer": ([call("computer_call")], FinishReason.TOOL_CALLS),
    "a local shell": ([call("local_shell_call")], FinishReason.TOOL_CALLS),
    "a shell of the caller": ([call("shell_call")], FinishReason.TOOL_CALLS),
    "a shell of a container": (
        [call("shell_call"), {"type": "shell_call_output", "call_id": "a"}],
        FinishReason.STOP,
    ),
    "a search that the provider ran": (
        [call("tool_search_call", ""), {"type": "tool_search_output", "call_id": None}],
        FinishReason.STOP,
    ),
    "an approval": ([call("mcp_approval_request")], FinishReason.TOOL_CALLS),
    "a web search": ([call("web_search_call")], FinishReason.STOP),
}


@each_row(("output", "finish"), OUTPUTS.values(), ids=OUTPUTS)
def test_a_response_with_pending_calls_finishes_with_tool_calls(
    output: list[Fields], finish: FinishReason
) -> None:
    (turn,) = DIALECT.decode_response(document(status="completed", output=output))
    assert turn.finish is finish


def test_calls_that_were_cut_short_end_by_length() -> None:
    reason = {"reason": "max_output_tokens"}
    (turn,) = DIALECT.decode_response(
        document(status="incomplete", incomplete_details=reason, output=[call()])
    )
    assert turn.finish is FinishReason.LENGTH


@each_row(
    ("counts", "usage"),
    [
        pytest.param({"input_tokens": 9, "cost": 0.1}, Usage(input=9), id="one count"),
        pytest.param(None, None, id="null"),
        pytest.param([], None, id="not an object"),
    ],
)
def test_other_forms_of_usage_are_read(counts: object, usage: Usage | None) -> None:
    assert DIALECT.decode_response(document(output=[], usage=counts))[0].usage == usage
    assert (
        DIALECT.decode_response(stream_response(status_event("completed", usage=counts)))[0].usage
        == usage
    )


def test_a_failed_response_document_has_a_failure() -> None:
    assert DIALECT.decode_response(document(**response("failed", error=ERROR))) == (
        replace(
            TURN, finish=FinishReason.ERROR, finish_raw="failed", usage=None,
            failure=Failure("Oh no", code="c"),
        ),
    )  # fmt: skip


def test_an_http_error_is_one_turn_with_a_failure() -> None:
    body = b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}'
    assert DIALECT.decode_response(whole_response(body, 400)) == (
        Turn((), failure=Failure("m", "t", "c")),
    )
    assert DIALECT.decode_response(whole_response(b"", 502)) == (
        Turn((), failure=Failure("HTTP 502 Bad Gateway")),
    )


@each_row("body", [b"", b"null", b"[]", b'{"hello":1}', b"<", b'{"error":null}'])
def test_other_bodies_have_no_turn(body: bytes) -> None:
    assert (
        DIALECT.decode_response(whole_response(body))
        == DIALECT.decode_response(stream_response(body))
        == ()
    )


def test_an_unparsable_event_is_skipped() -> None:
    body = (
        text_delta("a")
        + b'data: {"type":"response.outp\n\n'
        + b"data: \xff\n\n: hi\n\n"
        + text_delta("b")
    )
    assert DIALECT.decode_response(stream_response(body))[0].text == "ab"


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
TYPES = st.sampled_from(
    """message reasoning function_call custom_tool_call computer_call shell_call_output compaction
    image_generation_call mcp_call output_text refusal url_citation error
    completed incomplete""".split()  # noqa: SIM905 # readable
)
KEYS = st.sampled_from(
    """type content text refusal annotations summary encrypted_content call_id id name arguments
    input action operation commands diff queries code outputs output results tools result error
    status annotation start_index end_index url reason output_format \ud800""".split()  # noqa: SIM905 # readable
)
VALUES = st.recursive(
    LEAVES | TYPES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
RESPONSES = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["object", "id", "model", "status", "incomplete_details", "error", "usage"], VALUES
    )
    | {"output": st.lists(st.dictionaries(KEYS, VALUES, max_size=5), max_size=2) | VALUES},
)
KINDS = st.sampled_from(
    [
        *(f"response.{entry}" for entry in ("created", "completed", "incomplete", "failed")),
        *(
            f"response.{entry}.{step}"
            for step in ("added", "delta", "done")
            for entry in (
                "output_item", "output_text", "refusal", "reasoning_summary_text",
                "function_call_arguments", "shell_call_command", "shell_call_output_content",
                "apply_patch_call_operation_diff", "output_text.annotation", "audio",
            )
        ),
        "response.image_generation_call.partial_image",
        "error",
        "keepalive",
    ]
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"type": KINDS | VALUES},
    optional={
        "response": RESPONSES | VALUES,
        "item": st.dictionaries(KEYS, VALUES, max_size=4) | VALUES,
        **dict.fromkeys(
            """output_index content_index item_id delta text annotation error message output
            partial_image_b64 command""".split(),  # noqa: SIM905 # readable
            VALUES,
        ),
    },
)


@given(st.lists(EVENTS, min_size=1, max_size=4), RESPONSES, st.sampled_from([200, 400]))
def test_events_and_documents_of_any_shape_decode_to_serialisable_turns(
    events: list[Fields], whole: Fields, status: int
) -> None:
    messages = [b"data: " + json.dumps(item).encode() + b"\n\n" for item in events]
    for response in (
        stream_response(b"".join(messages)),
        whole_response(json.dumps(whole).encode(), status),
    ):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


def _client(status: int, content_type: str, body: bytes) -> openai.OpenAI:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


def _sdk_response(status: int, body: bytes, *, streams: bool) -> SdkResponse:
    """Return the response that the SDK parses: in a stream, the last one."""
    content_type = "text/event-stream" if streams else "application/json"
    with _client(status, content_type, body) as client:
        if not streams:
            return client.responses.create(model="m", input="i")
        events: list[Any] = list(client.responses.create(model="m", input="i", stream=True))
        response: SdkResponse = next(
            item.response for item in reversed(events) if getattr(item, "response", None)
        )
        return response


@each_row(("body", "messages", "turn"), WHOLE.values(), ids=WHOLE)
def test_the_sdk_decodes_the_golden_streams_identically(
    body: Fields, messages: list[bytes], turn: Turn
) -> None:
    sdk_response = _sdk_response(200, b"".join(messages), streams=True)
    assert _comparable_turn(turn) == _comparable_sdk_response(sdk_response)


ComparableResponse = dict[str, object]
"""The properties by which a turn is compared with a response of the SDK."""


def _comparable_turn(turn: Turn) -> ComparableResponse:
    texts = [part for part in turn.parts if isinstance(part, Text)]
    counts = turn.usage or Usage()
    return {
        "text": turn.text,
        "thoughts": reasoning_text(turn),
        "sealed": [
            part.redacted for part in turn.parts if isinstance(part, Reasoning) and part.redacted
        ],
        "calls": [
            (part.id, part.name, part.arguments)
            for part in turn.parts
            if isinstance(part, ToolCall)
            and dict(part.metadata).get("type") in (None, "custom_tool_call", "mcp_call")
        ],
        "cited": [citation.url for text in texts for citation in text.citations],
        "finish": turn.finish_raw,
        "usage": (counts.input, counts.output, counts.total, counts.cache_read, counts.reasoning),
        "id": (turn.id, turn.model),
    }


def _comparable_sdk_response(response: SdkResponse) -> ComparableResponse:
    output: list[Any] = list(response.output)
    counts: Any = response.usage
    reasoning = [item for item in output if item.type == "reasoning"]
    return {
        "text": response.output_text,
        "thoughts": "".join(
            block.text
            for item in reasoning
            for block in [*(item.summary or []), *(item.content or [])]
        ),
        "sealed": [item.encrypted_content for item in reasoning if item.encrypted_content],
        "calls": list(_calls(output)),
        "cited": [
            getattr(annotation, "url", None) or ""
            for item in output
            if item.type == "message"
            for block in item.content
            for annotation in getattr(block, "annotations", None) or ()
        ],
        "finish": response.status,
        "usage": counts
        and (
            counts.input_tokens,
            counts.output_tokens,
            counts.total_tokens,
            counts.input_tokens_details.cached_tokens,
            counts.output_tokens_details.reasoning_tokens,
        ),
        "id": (response.id, response.model),
    }


def _calls(output: list[Any]) -> Iterator[tuple[str, str, str]]:
    for item in output:
        if item.type == "function_call":
            yield item.call_id, item.name, item.arguments
        elif item.type == "custom_tool_call":
            yield item.call_id, item.name, item.input
        elif item.type == "mcp_call":
            yield item.id, item.name, item.arguments


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)

FAILED_STREAM_ROW = "d9347beed9e0ecaf"
"""The only recorded stream that ends in an error, which the SDK raises."""

XAI_ERROR_ROW = "03354a21a50d6ac8"
"""An error of xAI: a string, which the SDK does not print."""


def _rows(rows: Iterable[corpus.Row] = ()) -> list[corpus.Row]:
    return [row for row in rows or corpus.rows() if row.wire.startswith("openai.responses.")]


def _response(row: corpus.Row) -> DialectResponse:
    """Return the row as a response; payload lines are framed as events again."""
    if row.fidelity != "payload-lines":
        name = DIALECT.codec_name(row.request, row.head)
        return DialectResponse(row.head, name, framing.split_messages(name, row.body))
    events = [b"data: " + line + b"\n\n" for line in row.body.splitlines() if line.strip()]
    return DialectResponse(replace(row.head, headers=head().headers), "sse", events)


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_matched_and_complete() -> None:
    rows = _rows()
    assert (len(rows), sum(row.fidelity == "exact" for row in rows)) == (224, 162)
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        response = _response(row)
        assert response.codec_name == ("whole" if row.wire.endswith(".json") else "sse"), row.id
        assert DIALECT.completeness(response).is_complete, row.id


@pytest.mark.corpus
@needs_corpus
def test_the_sdk_decodes_every_recorded_response_identically_and_no_item_is_ignored() -> None:
    compared = item_count = 0
    for row in _rows(corpus.short_rows()):
        response = _response(row)
        (turn,) = DIALECT.decode_response(response)
        if row.status != 200 or row.id == FAILED_STREAM_ROW:
            _compare_failure(row, turn)
            continue
        streams = response.codec_name == "sse"
        sdk_response = _sdk_response(
            row.status, b"".join(response.framed_messages), streams=streams
        )
        assert _comparable_turn(turn) == _comparable_sdk_response(sdk_response), row.id
        compared += 1
        for output_item in sdk_response.output:
            item: Any = output_item.to_dict(mode="json")
            is_empty = item["type"] == "message" and item["content"][0].get("text") == ""
            assert bool(list(output_items.decode_item(item))) is not is_empty, row.id
            item_count += 1
    assert (compared, item_count) == quick_or_thorough((137, 211), (206, 386))


def _compare_failure(row: corpus.Row, turn: Turn) -> None:
    assert turn.failure is not None
    body = b"".join(_response(row).framed_messages)
    with pytest.raises(openai.APIError) as raised:
        _sdk_response(row.status, body, streams=row.id == FAILED_STREAM_ROW)
    assert row.id == XAI_ERROR_ROW or turn.failure.message in str(raised.value), row.id


LOSSES_BY_ROW = {
    # A server on Bedrock put fields of an event into the item of the event.
    "e965a3a827b833e1": ("metadata item_id of a tool call", "metadata output_index of a tool call")
}
RENAMED_PARTS_BY_ROW = {"afdd2d375d41f9d5": 1}
"""How many parts of a row get another id: xAI gave one id to two items."""


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_answer_round_trips() -> None:
    losses_by_row, renamed_by_row = {}, {}
    rows = [row for row in _rows() if row.status == 200]
    assert len(rows) == 207
    for row in rows:
        response = _response(row)
        [turn] = DIALECT.decode_response(response)
        request = DIALECT.sample_request(turn.model, stream=response.codec_name == "sse")
        converted = DIALECT.representable_turns(request, [turn], ENCODE_CONTEXT)
        [decoded] = DIALECT.decode_response(
            DIALECT.encode_response(request, [turn], ENCODE_CONTEXT)
        )

        assert (decoded,) == converted.turns, row.id
        assert (decoded.finish_raw, decoded.id, decoded.model, dict(decoded.metadata)) == (
            turn.finish_raw, turn.id, turn.model, dict(turn.metadata),
        ), row.id  # fmt: skip
        pairs = zip(turn.parts, decoded.parts, strict=True)
        changed = [pair for pair in pairs if _unordered(pair[0]) != _unordered(pair[1])]
        if converted.losses:
            losses_by_row[row.id] = converted.losses
        elif changed:
            renamed_by_row[row.id] = len(changed)
    assert (losses_by_row, renamed_by_row) == (LOSSES_BY_ROW, RENAMED_PARTS_BY_ROW)


def _unordered(part: Part) -> Part:
    return replace(part, metadata=tuple(sorted(dict(part.metadata).items(), key=str)))


DECODED_EVENTS = frozenset(
    """response.created response.queued response.in_progress response.completed response.failed
    response.output_item.added response.output_item.done
    response.output_text.delta response.output_text.done response.output_text.annotation.added
    response.reasoning_summary_text.delta response.reasoning_summary_text.done
    response.reasoning_text.delta response.reasoning_text.done
    response.function_call_arguments.delta response.function_call_arguments.done
    response.custom_tool_call_input.delta response.custom_tool_call_input.done
    response.mcp_call_arguments.delta response.mcp_call_arguments.done
    response.code_interpreter_call_code.delta response.code_interpreter_call_code.done
    response.shell_call_command.delta response.shell_call_command.done
    response.shell_call_output_content.done
    response.image_generation_call.partial_image error""".split()  # noqa: SIM905 # readable
)
"""Events that are decoded."""

EVENTS_WITHOUT_CONTENT = frozenset(
    """keepalive response.content_part.added response.content_part.done
    response.reasoning_part.added response.reasoning_part.done
    response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.shell_call_command.added""".split()  # noqa: SIM905 # readable
)
"""Events without content, or whose content is repeated in other events."""

UNDECODED_EVENTS = {"response.shell_call_output_content.delta": 1}
"""Lost only if a stream is cut before its `.done` event: the delta is an object, not text."""


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_event_is_known() -> None:
    undecoded: dict[str, int] = {}
    for row in _rows():
        response = _response(row)
        for sse_event in response.framed_messages if response.codec_name == "sse" else ():
            kind = _event_type(sse_event)
            progress = kind.rpartition(".")[0].endswith(("_call", "_list_tools"))
            if not (kind in DECODED_EVENTS | EVENTS_WITHOUT_CONTENT or progress):
                undecoded[kind] = undecoded.get(kind, 0) + 1
    assert undecoded == UNDECODED_EVENTS


def _event_type(message: bytes) -> str:
    """Return the type of an event; `keepalive` for comments and `[DONE]`, which have none."""
    data = next(
        (splitline for splitline in message.splitlines() if splitline.startswith(b"data: {")), None
    )
    return str(json.loads(data[6:])["type"]) if data else "keepalive"
