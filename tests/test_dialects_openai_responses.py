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
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Media,
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

TEXT = b"""\
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1",\
"object":"response","created_at":1700000000,"status":"in_progress","error":null,\
"incomplete_details":null,"instructions":null,"model":"gpt-5","output":[],\
"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1",\
"object":"response","created_at":1700000000,"status":"in_progress","error":null,\
"incomplete_details":null,"instructions":null,"model":"gpt-5","output":[],\
"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null,"metadata":{}}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,\
"item":{"id":"rs_1","type":"reasoning","summary":[]}}

event: response.reasoning_summary_part.added
data: {"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_1",\
"output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_1",\
"output_index":0,"summary_index":0,"delta":"Thinking."}

event: response.reasoning_summary_text.done
data: {"type":"response.reasoning_summary_text.done","sequence_number":5,"item_id":"rs_1",\
"output_index":0,"summary_index":0,"text":"Thinking."}

event: response.reasoning_summary_part.done
data: {"type":"response.reasoning_summary_part.done","sequence_number":6,"item_id":"rs_1",\
"output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Thinking."}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,\
"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Thinking."}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,\
"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_1",\
"output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],\
"logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1",\
"output_index":1,"content_index":0,"delta":"Hel","logprobs":[]}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_1",\
"output_index":1,"content_index":0,"delta":"lo","logprobs":[]}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":12,"item_id":"msg_1",\
"output_index":1,"content_index":0,"text":"Hello","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":13,"item_id":"msg_1",\
"output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hello","annotations":[],\
"logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":14,"output_index":1,\
"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant",\
"content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}}

event: response.completed
data: {"type":"response.completed","sequence_number":15,"response":{"id":"resp_1",\
"object":"response","created_at":1700000000,"status":"completed","error":null,\
"incomplete_details":null,"instructions":null,"model":"gpt-5","output":[{"id":"rs_1",\
"type":"reasoning","summary":[{"type":"summary_text","text":"Thinking."}]},{"id":"msg_1",\
"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text",\
"text":"Hello","annotations":[],"logprobs":[]}]}],"parallel_tool_calls":true,\
"tool_choice":"auto","tools":[],"usage":{"input_tokens":9,\
"input_tokens_details":{"cached_tokens":0},"output_tokens":4,\
"output_tokens_details":{"reasoning_tokens":2},"total_tokens":13},"metadata":{}}}

"""
"""A summary and a text, each sent three times: as deltas, as done events, in the response."""

TOOLS = b"""\
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_2",\
"object":"response","created_at":1700000000,"status":"in_progress","model":"gpt-5","output":[],\
"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_2",\
"object":"response","created_at":1700000000,"status":"in_progress","model":"gpt-5","output":[],\
"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,\
"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_a",\
"name":"get_weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_1",\
"output_index":0,"delta":"{\\"city\\":"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_1",\
"output_index":0,"delta":"\\"Rome\\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":5,"item_id":"fc_1",\
"output_index":0,"name":"get_weather","arguments":"{\\"city\\":\\"Rome\\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":6,"output_index":0,\
"item":{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_a",\
"name":"get_weather","arguments":"{\\"city\\":\\"Rome\\"}"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":7,"output_index":1,\
"item":{"id":"fc_2","type":"function_call","status":"in_progress","call_id":"call_b",\
"name":"get_weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":8,"item_id":"fc_2",\
"output_index":1,"delta":"{\\"city\\":\\"Oslo\\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":9,"item_id":"fc_2",\
"output_index":1,"name":"get_weather","arguments":"{\\"city\\":\\"Oslo\\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":10,"output_index":1,\
"item":{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_b",\
"name":"get_weather","arguments":"{\\"city\\":\\"Oslo\\"}"}}

event: response.completed
data: {"type":"response.completed","sequence_number":11,"response":{"id":"resp_2",\
"object":"response","created_at":1700000000,"status":"completed","model":"gpt-5",\
"output":[{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_a",\
"name":"get_weather","arguments":"{\\"city\\":\\"Rome\\"}"},{"id":"fc_2","type":"function_call",\
"status":"completed","call_id":"call_b","name":"get_weather",\
"arguments":"{\\"city\\":\\"Oslo\\"}"}],"parallel_tool_calls":true,"tool_choice":"auto",\
"tools":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0},\
"output_tokens":16,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":25}}}

"""
"""Two parallel calls."""

ERROR = b"""\
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_3",\
"object":"response","created_at":1700000000,"status":"in_progress","model":"gpt-5","output":[],\
"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}}

event: error
data: {"type":"error","sequence_number":1,"code":"server_error",\
"message":"The server had an error","param":null}

"""
"""A flat error in the middle of a stream."""


def make_request(
    path: str = "/v1/responses", method: str = "POST", query: str = "", **body: object
) -> Request:
    return Request(method, path, query, (), json.dumps(body).encode())


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "Bad Gateway" if status == 502 else "", headers, "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "sse", framing.split_messages("sse", body))


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def document(**fields: object) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def text_delta(piece: str) -> bytes:
    return event("response.output_text.delta", output_index=0, content_index=0, delta=piece)


def status_event(status: str, **response: Any) -> bytes:
    return event(f"response.{status}", response={"status": status, **response})


def message(text: str = "Hi") -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def call(kind: str = "function_call", call_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "name": "f", **fields}


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


@each_row(
    ("body", "reason"),
    [
        pytest.param(TEXT, "response.completed", id="completed"),
        pytest.param(TEXT.replace(b"\n", b"\r\n"), "response.completed", id="CRLF"),
        pytest.param(TEXT.rstrip(), "response.completed", id="the last event not ended"),
        pytest.param(TEXT + b"data: [DONE]\n\n", "response.completed", id="OpenRouter's DONE"),
        pytest.param(
            text_delta("a") + status_event("incomplete"), "response.incomplete", id="incomplete"
        ),
        pytest.param(
            text_delta("a") + status_event("cancelled"), "response.cancelled", id="cancelled"
        ),
        pytest.param(status_event("failed"), "response.failed", id="failed without a reason"),
        pytest.param(
            text_delta("a")
            + status_event("failed", error={"code": "server_error", "message": "Oh\nno"}),
            "in-band error: Oh no",
            id="failed",
        ),
        pytest.param(ERROR, "in-band error: The server had an error", id="a flat error"),
        pytest.param(
            event("error", error={"type": "server_error", "message": "no"}),
            "in-band error: no",
            id="a nested error",
        ),
        pytest.param(
            b'data: {"type":"error","code":"c","message":"no"}\n\n',
            "in-band error: no",
            id="a flat error without a name",
        ),
        pytest.param(
            b'data: {"error":{"message":"no"}}\n\n', "in-band error: no", id="a bare error"
        ),
        pytest.param(
            b'event: error\ndata: {"code":"c"}\n\n',
            'in-band error: {"code":"c"}',
            id="an error without a message",
        ),
        pytest.param(b'{"error":{"message":"no"}}', "in-band error: no", id="no SSE at all"),
        pytest.param(
            b'data: {"type":"response.completed"}\nevent: response.completed\n\n',
            "response.completed",
            id="Bedrock's order of lines",
        ),
        pytest.param(
            b'event: response.completed\ndata: {"response":{}}\n\n',
            "response.completed",
            id="a type that only the event's name tells",
        ),
        pytest.param(
            b'{"object":"response","status":"completed"}',
            "response.completed",
            id="a bare response",
        ),
    ],
)
def test_a_stream_with_an_end_marker_is_complete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason, completeness.is_proven) == (
        True,
        reason,
        True,
    )


@each_row(
    ("body", "reason"),
    [
        pytest.param(b"", "empty stream", id="nothing"),
        pytest.param(b"\n\n", "empty stream", id="blank lines"),
        pytest.param(b": OPENROUTER PROCESSING\n\n", "no event", id="comments only"),
        pytest.param(b"<html>busy</html>", "no event", id="a page"),
        pytest.param(b"data: [DONE]\n\n", "no event", id="DONE proves nothing"),
        pytest.param(
            text_delta("response.completed"),
            "no response.completed after response.output_text.delta",
            id="cut",
        ),
        pytest.param(
            text_delta("a") + b"data: [DONE]\n\n",
            "no response.completed after response.output_text.delta",
            id="cut, and DONE",
        ),
        pytest.param(
            text_delta("a") + status_event("completed")[:-9],
            "no response.completed after response.output_text.delta",
            id="cut inside the end",
        ),
        pytest.param(
            status_event("in_progress", error=None),
            "no response.completed after response.in_progress",
            id="in progress",
        ),
        pytest.param(
            b'{"object":"response","status":"queued"}',
            "no response.completed after response.queued",
            id="a bare response that waits",
        ),
        pytest.param(
            b'data: {"hello":"' + b"x" * 99 + b'"}\n\n', "no event", id="an event without a type"
        ),
        pytest.param(
            event("x" * 99), f"no response.completed after {'x' * 60}", id="a very long type"
        ),
    ],
)
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@given(st.integers(0, len(TEXT)))
def test_a_truncated_stream_is_incomplete(cut: int) -> None:
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (
        cut >= len(TEXT.rstrip())
    )


@given(st.integers(0, len(TEXT)))
def test_a_truncated_stream_decodes_to_a_prefix_without_a_finish(cut: int) -> None:
    is_complete = cut >= len(TEXT.rstrip())
    for turn in DIALECT.decode_response(stream_response(TEXT[:cut])):
        assert "Hello".startswith(turn.text)
        assert "Thinking.".startswith(reasoning_text(turn))
        assert turn.finish is (FinishReason.STOP if is_complete else None)


def reasoning_text(turn: Turn) -> str:
    return "".join(part.text for part in turn.parts if isinstance(part, Reasoning))


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(whole_response(b'{"output":[]}'), True, "JSON body", id="a document"),
        pytest.param(
            whole_response(b'{"output":[{"ty'), False, "body is not JSON", id="a cut document"
        ),
        pytest.param(whole_response(b""), False, "empty body", id="nothing"),
        pytest.param(
            whole_response(b"<html></html>", 502), True, "HTTP 502", id="a gateway's page"
        ),
        pytest.param(DialectResponse(head(500), "sse", []), True, "HTTP 500", id="an error, cut"),
    ],
)
def test_a_body_that_parses_or_reports_an_error_is_complete(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_a_text_stream_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(TEXT)) == (
        Turn(
            parts=(
                Reasoning("Thinking.", metadata=(("id", "rs_1"), ("type", "summary_text"))),
                Text("Hello", metadata=(("id", "msg_1"),)),
            ),
            finish=FinishReason.STOP,
            finish_raw="completed",
            usage=Usage(input=9, output=4, total=13, cache_read=0, reasoning=2),
            id="resp_1",
            model="gpt-5",
        ),
    )


def test_a_stream_of_parallel_calls_becomes_a_turn() -> None:
    assert DIALECT.decode_response(stream_response(TOOLS)) == (
        Turn(
            parts=(
                ToolCall("call_a", "get_weather", '{"city":"Rome"}', (("id", "fc_1"),)),
                ToolCall("call_b", "get_weather", '{"city":"Oslo"}', (("id", "fc_2"),)),
            ),
            finish=FinishReason.TOOL_CALLS,
            finish_raw="completed",
            usage=Usage(input=9, output=16, total=25, cache_read=0, reasoning=0),
            id="resp_2",
            model="gpt-5",
        ),
    )


def test_a_document_decodes_like_the_last_event_of_a_stream() -> None:
    last = TEXT.rstrip().rpartition(b"data: ")[2]
    response = json.loads(last)["response"]
    assert DIALECT.decode_response(document(**response)) == DIALECT.decode_response(
        stream_response(TEXT)
    )
    assert DIALECT.decode_response(stream_response(last)) == DIALECT.decode_response(
        stream_response(TEXT)
    )
    assert DIALECT.decode_response(
        stream_response(json.dumps(response).encode())
    ) == DIALECT.decode_response(stream_response(TEXT))


def test_an_end_without_output_keeps_the_streamed_items() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(text_delta("Hel") + text_delta("lo") + status_event("completed", output=[]))
    )
    assert (turn.text, turn.finish) == ("Hello", FinishReason.STOP)


def test_a_stream_without_its_beginning_is_decoded() -> None:
    middle = TEXT[TEXT.index(b"event: response.output_text.delta") :]
    assert DIALECT.decode_response(stream_response(middle)) == DIALECT.decode_response(
        stream_response(TEXT)
    )
    cut = middle[: middle.index(b"event: response.output_text.done")]
    assert DIALECT.decode_response(stream_response(cut)) == (Turn((Text("Hello"),)),)


def test_annotations_and_refusals_of_a_truncated_stream_are_decoded() -> None:
    annotation = {
        "type": "url_citation",
        "url": "u",
        "title": "t",
        "start_index": 0,
        "end_index": 2,
    }
    body = (
        text_delta("Hi")
        + event(
            "response.output_text.annotation.added",
            output_index=0,
            content_index=0,
            annotation=annotation,
        )
        + event("response.refusal.delta", output_index=1, content_index=0, delta="No.")
    )
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert turn.parts == (Text("Hi", citations=(Citation("u", "t", span=(0, 2)),)), Refusal("No."))


def test_audio_deltas_become_media() -> None:
    body = b"".join(
        event(f"response.audio.{kind}", delta=piece)
        for kind, piece in [("delta", "aGk="), ("transcript.delta", "H"), ("transcript.delta", "i")]
    )
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert turn.parts == (Media("audio/*", base64="aGk=", transcript="Hi"),)


def test_unmapped_fields_are_kept_as_metadata() -> None:
    metadata = {
        "service_tier": "flex",
        "previous_response_id": "resp_0",
        "conversation": {"id": "conv_1"},
        "moderation": {"flagged": False},
        "content_filters": [{"blocked": False}],
        "tool_usage": {"web_search": {"num_requests": 1}},
    }
    (turn,) = DIALECT.decode_response(document(output=[], temperature=1.0, **metadata))
    assert dict(turn.metadata) == metadata


@each_row(
    ("response", "finish", "raw"),
    [
        pytest.param({"status": "completed"}, FinishReason.STOP, "completed", id="completed"),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            FinishReason.LENGTH,
            "max_output_tokens",
            id="too long",
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            FinishReason.CONTENT_FILTER,
            "content_filter",
            id="filtered",
        ),
        pytest.param(
            {"status": "incomplete", "incomplete_details": None},
            FinishReason.OTHER,
            "incomplete",
            id="incomplete, nobody knows why",
        ),
        pytest.param(
            {"status": "completed", "incomplete_details": {"reason": "max_output_tokens"}},
            FinishReason.STOP,
            "completed",
            id="a reason for nothing",
        ),
        pytest.param({"status": "failed"}, FinishReason.ERROR, "failed", id="failed"),
        pytest.param({"status": "cancelled"}, FinishReason.OTHER, "cancelled", id="cancelled"),
        pytest.param({"status": "queued"}, FinishReason.PAUSED, "queued", id="in the background"),
        pytest.param({"status": "in_progress"}, FinishReason.PAUSED, "in_progress", id="running"),
        pytest.param({"status": ""}, None, "", id="a server that says no status"),
    ],
)
def test_statuses_map_to_finish_values(
    response: dict[str, Any], finish: FinishReason, raw: str
) -> None:
    (turn,) = DIALECT.decode_response(document(output=[], **response))
    assert (turn.finish, turn.finish_raw) == (finish, raw)


def test_a_truncated_stream_has_no_finish() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(status_event("in_progress", id="resp_1") + text_delta("Hi"))
    )
    assert (turn.finish, turn.finish_raw, turn.id) == (None, "", "resp_1")


@each_row(
    ("output", "finish"),
    [
        pytest.param([message()], FinishReason.STOP, id="a message"),
        pytest.param([call()], FinishReason.TOOL_CALLS, id="a function"),
        pytest.param(
            [call(), message()], FinishReason.TOOL_CALLS, id="a function before a message"
        ),
        pytest.param(
            [call(), {"type": "function_call_output", "call_id": "a"}],
            FinishReason.STOP,
            id="a function that has its output",
        ),
        pytest.param(
            [message(), call("custom_tool_call")], FinishReason.TOOL_CALLS, id="a custom tool"
        ),
        pytest.param(
            [call("custom_tool_call"), message()],
            FinishReason.STOP,
            id="a tool that xAI ran itself",
        ),
        pytest.param([call("computer_call")], FinishReason.TOOL_CALLS, id="a computer"),
        pytest.param([call("local_shell_call")], FinishReason.TOOL_CALLS, id="a local shell"),
        pytest.param([call("shell_call")], FinishReason.TOOL_CALLS, id="a shell of the caller"),
        pytest.param(
            [call("shell_call"), {"type": "shell_call_output", "call_id": "a"}],
            FinishReason.STOP,
            id="a shell of a container",
        ),
        pytest.param(
            [call("tool_search_call", ""), {"type": "tool_search_output", "call_id": None}],
            FinishReason.STOP,
            id="a search that the provider ran",
        ),
        pytest.param([call("mcp_approval_request")], FinishReason.TOOL_CALLS, id="an approval"),
        pytest.param([call("web_search_call")], FinishReason.STOP, id="a web search"),
    ],
)
def test_a_response_with_pending_calls_finishes_with_tool_calls(
    output: list[dict[str, Any]], finish: FinishReason
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
        pytest.param(
            {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "output_tokens": 2,
                "output_tokens_details": {"reasoning_tokens": 1},
                "total_tokens": 11,
            },
            Usage(input=9, output=2, total=11, cache_read=4, cache_write=3, reasoning=1),
            id="every count",
        ),
        pytest.param({"input_tokens": 9, "cost": 0.1}, Usage(input=9), id="one count"),
        pytest.param(None, None, id="null"),
        pytest.param([], None, id="not an object"),
    ],
)
def test_usage_is_read(counts: object, usage: Usage | None) -> None:
    assert DIALECT.decode_response(document(output=[], usage=counts))[0].usage == usage
    assert (
        DIALECT.decode_response(stream_response(status_event("completed", usage=counts)))[0].usage
        == usage
    )


@each_row(
    ("body", "failure", "finish"),
    [
        pytest.param(
            ERROR, Failure("The server had an error", code="server_error"), None, id="flat"
        ),
        pytest.param(
            b'data: {"type":"error","code":"c","message":"m"}\n\n',
            Failure("m", code="c"),
            None,
            id="flat, without a name",
        ),
        pytest.param(
            event("error", error={"type": "t", "code": "c", "message": "m", "param": None}),
            Failure("m", "t", "c"),
            None,
            id="nested",
        ),
        pytest.param(
            status_event("failed", error={"code": "c", "message": "m"}),
            Failure("m", code="c"),
            FinishReason.ERROR,
            id="a response that failed",
        ),
        pytest.param(
            event("error", error={"type": "t", "message": "first"})
            + status_event("failed", error={"message": "second"}),
            Failure("first", "t"),
            FinishReason.ERROR,
            id="both, of which the first counts",
        ),
    ],
)
def test_an_error_in_the_stream_keeps_the_preceding_content(
    body: bytes, failure: Failure, finish: FinishReason | None
) -> None:
    (turn,) = DIALECT.decode_response(stream_response(text_delta("Hi") + body))
    assert (turn.text, turn.failure, turn.finish) == ("Hi", failure, finish)


def test_a_failed_response_document_has_a_failure() -> None:
    error = {"code": "server_error", "message": "no"}
    (turn,) = DIALECT.decode_response(
        document(object="response", status="failed", output=[], error=error)
    )
    assert (turn.finish, turn.failure) == (FinishReason.ERROR, Failure("no", code="server_error"))


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


@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_events_of_any_shape_decode_to_serialisable_turns(
    events: list[dict[str, Any]],
) -> None:
    response = stream_response(
        b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in events)
    )
    assert DIALECT.completeness(response).reason
    assert orjson.dumps(DIALECT.decode_response(response))


@given(RESPONSES, st.sampled_from([200, 400]))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    response: dict[str, Any], status: int
) -> None:
    for dialect_response in (
        whole_response(json.dumps(response).encode(), status),
        stream_response(status_event("completed")),
    ):
        assert DIALECT.completeness(dialect_response).reason
        assert orjson.dumps(DIALECT.decode_response(dialect_response))


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


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette for this request")
    for streams in (True, False):
        with pytest.raises(openai.APIError, match="no cassette for this request") as raised:
            _sdk_response(424, body, streams=streams)
        assert (raised.value.type, raised.value.code) == ("cassette_not_found",) * 2


@pytest.mark.parametrize("body", [TEXT, TOOLS], ids=["text", "tools"])
def test_the_sdk_decodes_the_golden_streams_identically(body: bytes) -> None:
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert _comparable_turn(turn) == _comparable_sdk_response(
        _sdk_response(200, body, streams=True)
    )


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
            for annotation in block.annotations or ()
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
