from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from linear_time import assert_linear
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.dialects.google.gemini_parts import PART_KINDS
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

DIALECT = Gemini()

TEXT = b"""\
data: {"candidates": [{"content": {"parts": [{"text": "I should greet.","thought": true}],\
"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 12,\
"thoughtsTokenCount": 3},"modelVersion": "gemini-3-flash","responseId": "r-1"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": "Hel"}],"role": "model"},"index": 0}],\
"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 1,"totalTokenCount": 13,\
"thoughtsTokenCount": 3},"modelVersion": "gemini-3-flash","responseId": "r-1"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": "lo"}],"role": "model"},\
"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 9,\
"candidatesTokenCount": 2,"totalTokenCount": 14,"thoughtsTokenCount": 3,\
"cachedContentTokenCount": 4},"modelVersion": "gemini-3-flash","responseId": "r-1"}\r\n\r\n"""
"""A minimal text stream."""

TOOLS = b"""\
data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "get_weather","args": \
{"city": "Rome"}},"thoughtSignature": "c2lnbmF0dXJl"},{"functionCall": {"name": "get_weather",\
"args": {"city": "Oslo"},"id": "a1"}}],"role": "model"},"index": 0}],\
"modelVersion": "gemini-3-flash","responseId": "r-2"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},\
"finishReason": "STOP","index": 0}],"modelVersion": "gemini-3-flash","responseId": "r-2"}\r\n\r\n"""
"""A minimal stream of two parallel calls."""

HELLO = Turn(
    parts=(Reasoning("I should greet."), Text("Hello")),
    finish=FinishReason.STOP,
    finish_raw="STOP",
    usage=Usage(input=9, output=2, total=14, cache_read=4, reasoning=3),
    id="r-1",
    model="gemini-3-flash",
)
GENERATE = "/v1beta/models/gemini-3-flash:generateContent"
STREAM = "/v1beta/models/gemini-3-flash:streamGenerateContent"


def make_request(
    path: str = STREAM,
    query: str = "alt=sse",
    method: str = "POST",
    headers: Headers = (),
    **body: object,
) -> Request:
    return Request(method, path, query, headers, json.dumps(body).encode())


def head(status: int = 200, content_type: str = "text/event-stream") -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "Bad Gateway" if status == 502 else "", headers, "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "sse", framing.split_messages("sse", body))


def array_response(body: bytes) -> DialectResponse:
    return DialectResponse(
        head(content_type="application/json"),
        "json-array",
        framing.split_messages("json-array", body),
    )


def whole_response(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def chunk(*candidates: dict[str, Any], **fields: object) -> bytes:
    return b"data: " + json.dumps({"candidates": candidates, **fields}).encode() + b"\r\n\r\n"


def parts_chunk(*parts: dict[str, Any], finish: str | None = None, **fields: object) -> bytes:
    finish_fields = {"finishReason": finish} if finish else {}
    return chunk({"content": {"parts": list(parts)}, **finish_fields, **fields})


def turn_of(*chunks: bytes) -> Turn:
    (turn,) = DIALECT.decode_response(stream_response(b"".join(chunks)))
    return turn


def as_array(stream: bytes) -> bytes:
    """Return the chunks of a stream as the JSON array that is sent without `alt=sse`."""
    chunks = [parse_event(event).data or b"" for event in re.split(rb"\r\n\r\n", stream) if event]
    return b"[" + b"\r\n,\r\n".join(chunks) + b"\r\n]\r\n"


API_KEY_HEADER = (("X-Goog-Api-Key", "k"),)


@each_row(
    ("request_", "name"),
    [
        (make_request(STREAM), "gemini"),
        (make_request(GENERATE, ""), "gemini"),
        (make_request("/v1/models/gemini-3-flash:generateContent", ""), "gemini"),
        (make_request("/v1alpha/models/gemini-3-flash%3AgenerateContent", ""), "gemini"),
        (make_request("/v1beta/tunedModels/mine-1:generateContent", ""), "gemini"),
        (make_request("/models/gemini-3-flash:generateContent", ""), "gemini"),
        (
            make_request("/google-vertex/v1beta1/publishers/google/models/m:generateContent"),
            "gemini",
        ),
        (
            make_request(
                "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent"
            ),
            "gemini",
        ),
        (make_request("/v1/projects/p/locations/l/publishers/google/models/m:predict"), "gemini"),
        (make_request("/v1/projects/p/locations/l/endpoints/7:generateContent"), "gemini"),
        (make_request("/v1internal:streamGenerateContent"), "gemini"),
        (make_request("/v1beta/models/m:countTokens"), "gemini"),
        (make_request("/v1beta/models/m:embedContent"), "gemini"),
        (make_request("/v1beta/models/m:batchEmbedContents"), "gemini"),
        (make_request("/v1beta/models/imagen-4:predict"), "gemini"),
        (make_request("/v1beta/models", "", "GET"), "gemini"),
        (make_request("/v1beta/models/gemini-3-flash", "", "GET"), "gemini"),
        (make_request("/v1beta1/publishers/google/models", "", "GET"), "gemini"),
        (make_request("/v1/models", "", "GET", API_KEY_HEADER), "gemini"),
        (make_request("/v1/models", "key=k", "GET"), "gemini"),
        (make_request("/v1beta/interactions", ""), "gemini-interactions"),
        (make_request("/v1beta/interactions/i1", "stream=true", "GET"), "gemini-interactions"),
        (make_request("/v1beta/openai/chat/completions", ""), "openai-chat"),
        (make_request("/v1/chat/completions", ""), "openai-chat"),
        (make_request("/api/chat", ""), "ollama"),
    ],
)
def test_each_request_is_matched_by_its_own_dialect(request_: Request, name: str) -> None:
    assert dialects.dialect_of_request(request_).name == name


@each_row(
    "request_",
    [
        pytest.param(make_request("/v1/models", "", "GET"), id="OpenAI's models"),
        pytest.param(
            make_request("/v1beta/openai/models", "", "GET", API_KEY_HEADER),
            id="OpenAI's, at Google",
        ),
        pytest.param(make_request(GENERATE, "", "GET"), id="an operation that is only read"),
        pytest.param(make_request("/v1/models/m:predict"), id="a KServe model"),
        pytest.param(make_request("/v1beta/files", "", "GET"), id="files"),
        pytest.param(make_request("/v1beta/models/m:generateContent/x"), id="below an operation"),
        pytest.param(
            make_request(
                "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict"
            ),
            id="another publisher",
        ),
        pytest.param(
            make_request("/v1/projects/p/locations/l/publishers/x/models/m:generateContent"),
            id="another publisher's operation of this name",
        ),
    ],
)
def test_other_requests_are_not_matched(request_: Request) -> None:
    assert not DIALECT.matches(request_)


@each_row(
    ("request_", "model"),
    [
        (make_request(GENERATE), "gemini-3-flash"),
        (make_request("/v1beta/models/my%20model%3AgenerateContent"), "my model"),
        (make_request("/v1beta/models/qwen3:8b:generateContent"), "qwen3:8b"),
        (make_request("/models/google/gemini-3:generateContent"), "google/gemini-3"),
        (make_request("/v1beta/models/imagen-4:predict"), "imagen-4"),
        (make_request("/v1beta/models/gemini-3-flash", "", "GET"), "gemini-3-flash"),
        (make_request("/v1beta/models", "", "GET"), ""),
        (make_request("/v1internal:generateContent", "", model="models/gemini-3"), "gemini-3"),
        (make_request("/elsewhere", "", "PUT"), ""),
    ],
)
def test_the_model_is_found_in_the_path(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@each_row(
    ("path", "query", "status", "content_type", "expected"),
    [
        pytest.param(STREAM, "alt=sse", 200, "text/event-stream", "sse", id="events"),
        pytest.param(STREAM, "alt=sse", 200, "", "sse", id="events without a type"),
        pytest.param(STREAM, "%24alt=sse", 200, "text/plain", "sse", id="events as text"),
        pytest.param(STREAM, "", 200, "application/json; charset=UTF-8", "json-array", id="array"),
        pytest.param(
            STREAM, "%24alt=json%3Benum-encoding%3Dint", 200, "", "json-array", id="no type"
        ),
        pytest.param(
            STREAM, "alt=sse", 200, "application/json", "json-array", id="JSON in place of events"
        ),
        pytest.param(STREAM, "", 200, "text/event-stream", "sse", id="events in place of JSON"),
        pytest.param(STREAM, "alt=sse", 404, "text/event-stream", "whole", id="a labelled error"),
        pytest.param(GENERATE, "", 200, "application/json", "whole", id="a document"),
        pytest.param(GENERATE, "alt=sse", 200, "application/json", "whole", id="alt without use"),
    ],
)
def test_path_query_status_and_type_choose_the_framing(
    path: str, query: str, status: int, content_type: str, expected: str
) -> None:
    request = make_request(path, query)
    assert DIALECT.codec_name(request, head(status, content_type)) == expected
    assert DIALECT.streams(request) is (path == STREAM)


ERROR = b'{"error": {"code": 503,"message": "The model is overloaded.","status": "UNAVAILABLE"}}'
PRETTY_ERROR = b'{\n  "error": {\n    "code": 499,\n    "message": "Cancelled."\n  }\n}\n'


@each_row(
    ("response", "reason"),
    [
        pytest.param(stream_response(TEXT), "every candidate finished", id="text"),
        pytest.param(
            stream_response(TEXT.rstrip()), "every candidate finished", id="no blank line"
        ),
        pytest.param(
            stream_response(TEXT + b": keepalive\r\n\r\n"),
            "every candidate finished",
            id="a comment",
        ),
        pytest.param(
            stream_response(TEXT + b"data: [DONE]\n\n"),
            "every candidate finished",
            id="a gateway's DONE",
        ),
        pytest.param(
            stream_response(chunk(promptFeedback={"blockReason": "SAFETY"})),
            "prompt blocked: SAFETY",
            id="a blocked prompt",
        ),
        pytest.param(
            stream_response(parts_chunk({"text": "Hi"}) + b"data: " + ERROR + b"\n\n"),
            "in-band error: The model is overloaded.",
            id="an error event",
        ),
        pytest.param(
            stream_response(parts_chunk({"text": "Hi"}) + PRETTY_ERROR),
            "in-band error: Cancelled.",
            id="no event",
        ),
        pytest.param(array_response(as_array(TEXT)), "JSON body", id="an array"),
        pytest.param(
            array_response(b'[{"candidates":[]}\r\n,\r\n' + ERROR + b"]"),
            "in-band error: The model is overloaded.",
            id="an error in an array",
        ),
        pytest.param(
            array_response(b'{"candidates":[]}'), "JSON body", id="a document for an array"
        ),
        pytest.param(whole_response(b'{"totalTokens":7}'), "JSON body", id="counted tokens"),
        pytest.param(whole_response(b"<html>", 502), "HTTP 502", id="a gateway's page"),
    ],
)
def test_a_response_with_an_end_marker_is_complete(response: DialectResponse, reason: str) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (True, reason)


FINISHED = parts_chunk({"text": "a"}, finish="STOP")


@each_row(
    ("response", "reason"),
    [
        pytest.param(stream_response(b""), "empty stream", id="nothing"),
        pytest.param(stream_response(b": hi\n\n"), "no candidate", id="comments only"),
        pytest.param(stream_response(b"<html></html>"), "cut inside an event", id="a page"),
        pytest.param(
            stream_response(parts_chunk({"text": "Hi"})), "candidate 0 unfinished", id="cut"
        ),
        pytest.param(
            stream_response(parts_chunk({"text": "Hi"}, finish="FINISH_REASON_UNSPECIFIED")),
            "candidate 0 unfinished",
            id="unspecified",
        ),
        pytest.param(
            stream_response(FINISHED + chunk({"index": 1}, {"index": 2})),
            "candidate 1, 2 unfinished",
            id="one of three finished",
        ),
        pytest.param(
            stream_response(FINISHED + b'data: {"usageMe'),
            "cut inside an event",
            id="cut after a finish",
        ),
        pytest.param(
            stream_response(FINISHED + b"dat"), "cut inside an event", id="half a field name"
        ),
        pytest.param(array_response(as_array(TEXT)[:-3]), "array not closed", id="an open array"),
        pytest.param(array_response(b""), "empty stream", id="no array"),
        pytest.param(whole_response(b'{"candid'), "body is not JSON", id="a cut document"),
    ],
)
def test_a_response_without_an_end_marker_is_incomplete(
    response: DialectResponse, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@given(st.integers(0, len(TEXT) - 1))
def test_a_stream_cut_before_its_last_event_is_incomplete(cut: int) -> None:
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (
        cut >= len(TEXT.rstrip())
    )


@given(st.integers(0, len(as_array(TEXT)) - 1))
def test_an_array_cut_before_its_end_is_incomplete(cut: int) -> None:
    body = as_array(TEXT)
    assert DIALECT.completeness(array_response(body[:cut])).is_complete is (
        cut >= len(body.rstrip())
    )


def test_text_becomes_a_turn_in_each_framing() -> None:
    assert DIALECT.decode_response(stream_response(TEXT)) == (HELLO,)
    assert DIALECT.decode_response(array_response(as_array(TEXT))) == (HELLO,)
    assert DIALECT.decode_response(whole_response(as_array(TEXT))) == (HELLO,)


def test_parallel_calls_become_a_turn_that_finishes_with_tool_calls() -> None:
    turn = turn_of(TOOLS)
    assert turn.parts == (
        ToolCall("", "get_weather", '{"city":"Rome"}', (("thoughtSignature", "c2lnbmF0dXJl"),)),
        ToolCall("a1", "get_weather", '{"city":"Oslo"}'),
    )
    assert (turn.finish, turn.finish_raw) == (FinishReason.TOOL_CALLS, "STOP")


def test_streamed_arguments_are_assembled_into_an_object() -> None:
    def call(*partial: dict[str, Any], more: bool = True, **fields: str) -> bytes:
        call_fields = fields | ({"partialArgs": partial} if partial else {})
        return parts_chunk({"functionCall": call_fields | ({"willContinue": True} if more else {})})

    turn = turn_of(
        parts_chunk({"functionCall": {"name": "now"}}),
        call(name="plan", id="c1"),
        call({"jsonPath": "$.city", "stringValue": "Ro", "willContinue": True}),
        call({"jsonPath": "$.city", "stringValue": "me"}),
        call({"jsonPath": "$.days[1]['a b']", "numberValue": 2}),
        call({"jsonPath": '$.days[0]["x"]', "boolValue": True}),
        call({"jsonPath": "$.none", "nullValue": "NULL_VALUE"}, {"jsonPath": "nonsense"}),
        call(more=False),
        call({"jsonPath": "$.a", "numberValue": 0.5}, name="last", more=False),
        call({"jsonPath": "$.a", "stringValue": "cu"}, name="cut"),
    )
    city = '{"city":"Rome","days":[{"x":true},{"a b":2}],"none":null}'
    assert turn.parts == (
        ToolCall("", "now", "{}"),
        ToolCall("c1", "plan", city),
        ToolCall("", "last", '{"a":0.5}'),
        ToolCall("", "cut", '{"a":"cu"}'),
    )


@each_row("path", ["$" + "[0]" * 101, "$" + ".a" * 200_000, "$[9999999999]", "$", ""])
def test_a_too_deep_path_is_ignored(path: str) -> None:
    partial = [{"jsonPath": path, "stringValue": "x"}]
    (call,) = turn_of(parts_chunk({"functionCall": {"name": "f", "partialArgs": partial}})).parts
    assert call == ToolCall("", "f", "{}")


def test_a_large_index_allocates_no_memory() -> None:
    partial = [{"jsonPath": "$.a[999999999]", "stringValue": "x"}]
    (call,) = turn_of(parts_chunk({"functionCall": {"name": "f", "partialArgs": partial}})).parts
    assert call == ToolCall("", "f", '{"a":["x"]}')


def test_a_signature_ends_the_part_that_it_signs() -> None:
    turn = turn_of(
        parts_chunk({"text": "a"}),
        parts_chunk({"text": "b", "thoughtSignature": "s1"}),
        parts_chunk({"text": "c"}),
        parts_chunk({"functionCall": {"name": "f", "args": {}}}),
        parts_chunk({"text": "", "thoughtSignature": "s2"}),
        parts_chunk({"text": "mm", "thought": True, "thoughtSignature": "s3"}),
        parts_chunk({"text": ""}),
    )
    assert turn.parts == (
        Text("ab", metadata=(("thoughtSignature", "s1"),)),
        Text("c"),
        ToolCall("", "f", "{}"),
        Text("", metadata=(("thoughtSignature", "s2"),)),
        Reasoning("mm", "s3"),
    )


def test_tools_that_google_runs_are_calls_and_results() -> None:
    turn = turn_of(
        parts_chunk({"executableCode": {"id": "x", "language": "PYTHON", "code": "1/0"}}),
        parts_chunk(
            {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}}
        ),
        parts_chunk({"toolCall": {"id": "y", "toolType": "FILE_SEARCH", "args": {"q": 1}}}),
        parts_chunk({"toolResponse": {"id": "y", "toolType": "FILE_SEARCH", "response": {"r": 2}}}),
        parts_chunk(
            {"functionResponse": {"id": "z", "name": "f", "response": {"r": 3}}}, finish="STOP"
        ),
    )
    outcome = (("type", "codeExecutionResult"), ("outcome", "OUTCOME_FAILED"))
    code = '{"language":"PYTHON","code":"1/0"}'
    assert turn.parts == (
        ToolCall("x", "code_execution", code, (("type", "executableCode"),)),
        ToolResult("x", "no", "code_execution", failed=True, metadata=outcome),
        ToolCall("y", "FILE_SEARCH", '{"q":1}', (("type", "toolCall"),)),
        ToolResult("y", '{"r":2}', "FILE_SEARCH", metadata=(("type", "toolResponse"),)),
        ToolResult("z", '{"r":3}', "f", metadata=(("type", "functionResponse"),)),
    )
    assert turn.finish is FinishReason.STOP


def test_images_are_whole_and_sound_is_joined() -> None:
    audio_type = "audio/L16;rate=24000"
    turn = turn_of(
        parts_chunk({"inlineData": {"mimeType": "image/png", "data": "AAA="}, "thought": True}),
        parts_chunk({"inlineData": {"mimeType": "image/png", "data": "BBB="}}),
        parts_chunk({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}}),
        parts_chunk({"inlineData": {"mimeType": audio_type, "data": "AAE="}}),
        parts_chunk({"inlineData": {"mimeType": audio_type, "data": "AgM="}}),
    )
    assert turn.parts == (
        Media("image/png", base64="AAA=", metadata=(("thought", True),)),
        Media("image/png", base64="BBB="),
        Media("video/mp4", url="gs://b/v"),
        Media(audio_type, base64="AAECAw=="),
    )


def test_an_image_longer_than_a_message_may_be_is_read() -> None:
    data = "A" * (framing.MAX_MESSAGE_BYTES + 4)
    image = parts_chunk({"inlineData": {"mimeType": "image/png", "data": data}}, finish="STOP")
    for response in (stream_response(image), array_response(as_array(image))):
        assert len(response.framed_messages) > 1
        assert DIALECT.completeness(response).is_complete
        (turn,) = DIALECT.decode_response(response)
        assert turn.parts == (Media("image/png", base64=data),)


def test_grounding_becomes_citations_with_character_spans() -> None:
    grounding = {
        "groundingChunks": [
            {"web": {"uri": "https://a", "title": "A", "domain": "a"}},
            {"retrievedContext": {"uri": "https://b", "title": "B", "text": "the passage"}},
            {"web": {"uri": "https://c"}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 6, "text": "Grüß"}, "groundingChunkIndices": [0, 1, 9]},
            {"segment": {"startIndex": 7, "endIndex": 9}, "groundingChunkIndices": [0]},
            {"segment": {"startIndex": 7, "endIndex": 99}, "groundingChunkIndices": [1]},
        ],
        "webSearchQueries": ["greeting"],
    }
    turn = turn_of(
        parts_chunk({"text": "Grüß"}),
        parts_chunk({"executableCode": {"code": "1"}}),
        parts_chunk({"text": " du!"}, finish="STOP", groundingMetadata=grounding),
        chunk({"groundingMetadata": grounding}),
    )
    a = Citation("https://a", "A", metadata=(("domain", "a"),))
    b = Citation("https://b", "B", "the passage", metadata=(("type", "retrievedContext"),))
    first, _, last = turn.parts
    assert first == Text("Grüß", (_with_span(a, 0, 4), _with_span(b, 0, 4)))
    assert last == Text(" du!", (_with_span(a, 1, 3), b, Citation("https://c")))
    assert dict(turn.metadata)["groundingMetadata"] == {"webSearchQueries": ["greeting"]}


def _with_span(citation: Citation, start: int, end: int) -> Citation:
    return Citation(citation.url, citation.title, citation.quoted, (start, end), citation.metadata)


def test_passages_name_sources_that_came_in_an_earlier_chunk() -> None:
    def grounded(**fields: object) -> bytes:
        return chunk({"groundingMetadata": fields})

    support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [1]}
    turn = turn_of(
        parts_chunk({"text": "Hi"}),
        grounded(groundingChunks=[{"web": {"uri": "https://a"}}, {"web": {"uri": "https://b"}}]),
        grounded(groundingSupports=[support]),
    )
    assert turn.parts == (Text("Hi", (Citation("https://b", span=(0, 2)), Citation("https://a"))),)


def test_the_time_of_a_passage_is_the_same_however_many_sources_there_are() -> None:
    def cite(sources: int, passages: int) -> int:
        chunks = [{"web": {"uri": f"https://{at}"}} for at in range(sources)]
        support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [sources - 1]}
        turn = turn_of(
            parts_chunk({"text": "Hi"}, groundingMetadata={"groundingChunks": chunks}),
            chunk({"groundingMetadata": {"groundingSupports": [support]}}) * passages,
        )
        (text,) = turn.parts
        assert isinstance(text, Text)
        return len(text.citations)

    assert cite(400, 100) == 400
    assert_linear(lambda size: cite(size, size), 2000)


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_citation_metadata_becomes_one_citation_per_source(key: str) -> None:
    source = {"startIndex": 1, "endIndex": 3, "uri": "https://a", "license": "mit"}
    turn = turn_of(parts_chunk({"text": "abcd"}, citationMetadata={key: [source, source]}))
    citation = Citation("https://a", span=(1, 3), metadata=(("license", "mit"),))
    assert turn.parts == (Text("abcd", (citation,)),)


def test_sources_without_any_text_are_kept() -> None:
    grounding = {"groundingChunks": [{"maps": {"uri": "https://m", "placeId": "p"}}]}
    turn = turn_of(chunk({"groundingMetadata": grounding}))
    metadata = (("type", "maps"), ("placeId", "p"))
    assert turn.parts == (Text("", (Citation("https://m", metadata=metadata),)),)


@each_row(
    ("raw", "finish"),
    [
        ("STOP", FinishReason.STOP),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.CONTENT_FILTER),
        ("RECITATION", FinishReason.CONTENT_FILTER),
        ("IMAGE_SAFETY", FinishReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", FinishReason.ERROR),
        ("UNEXPECTED_TOOL_CALL", FinishReason.ERROR),
        ("CONTINUATION", FinishReason.PAUSED),
        ("LANGUAGE", FinishReason.OTHER),
        (1, FinishReason.STOP),
        (2, FinishReason.LENGTH),
        (3, FinishReason.CONTENT_FILTER),
    ],
)
def test_finish_reasons_map_to_finish_values(raw: str | int, finish: FinishReason) -> None:
    turn = turn_of(chunk({"finishReason": raw}))
    assert (turn.finish, turn.finish_raw) == (finish, str(raw))


def test_the_last_finish_reason_counts_where_every_chunk_has_one() -> None:
    turn = turn_of(parts_chunk({"text": "a"}, finish="STOP"), chunk({"finishReason": "RECITATION"}))
    assert turn.finish is FinishReason.CONTENT_FILTER


def test_a_blocked_prompt_is_a_turn_of_its_own() -> None:
    feedback: dict[str, Json] = {
        "blockReason": "SAFETY",
        "safetyRatings": [{"probability": "HIGH"}],
    }
    document = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}}
    assert DIALECT.decode_response(whole_response(json.dumps(document).encode())) == (
        Turn(
            (),
            finish=FinishReason.CONTENT_FILTER,
            finish_raw="SAFETY",
            usage=Usage(input=9),
            metadata=(("promptFeedback", feedback),),
        ),
    )


def test_each_candidate_is_a_turn() -> None:
    def candidate(index: int, text: str, **fields: str) -> dict[str, Any]:
        return {"index": index, "content": {"parts": [{"text": text}]}, **fields}

    body = chunk(candidate(1, "b"), candidate(0, "a")) + chunk(
        candidate(0, "a", finishReason="STOP"), candidate(1, "b", finishReason="MAX_TOKENS")
    )
    assert [
        (item.text, item.finish) for item in DIALECT.decode_response(stream_response(body))
    ] == [
        ("aa", FinishReason.STOP),
        ("bb", FinishReason.LENGTH),
    ]


def test_unmapped_fields_are_kept_as_metadata() -> None:
    metadata = {"finishMessage": "m", "avgLogprobs": -0.5, "safetyRatings": [{"blocked": True}]}
    usage = {"trafficType": "ON_DEMAND", "toolUsePromptTokenCount": 3}
    turn = turn_of(chunk(metadata, createTime="t", usageMetadata=usage))
    assert dict(turn.metadata) == metadata | usage | {"createTime": "t"}
    assert turn.usage is None


def test_code_assist_wraps_each_chunk() -> None:
    inner = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    body = b"data: " + json.dumps({"response": inner, "traceId": "t"}).encode() + b"\n\n"
    assert turn_of(body).text == "Hi"
    assert DIALECT.completeness(stream_response(body)).is_complete


def test_images_of_imagen_are_turns() -> None:
    document = {
        "predictions": [
            {"mimeType": "image/png", "bytesBase64Encoded": "AAA="},
            {"raiFilteredReason": "Filtered out."},
        ]
    }
    image, filtered = DIALECT.decode_response(whole_response(json.dumps(document).encode()))
    assert image.parts == (Media("image/png", base64="AAA="),)
    assert (filtered.parts, filtered.finish) == ((), FinishReason.CONTENT_FILTER)
    assert filtered.metadata == (("raiFilteredReason", "Filtered out."),)


@each_row(
    "body",
    [
        b'{"totalTokens":7}',
        b'{"embedding":{"values":[0.5]}}',
        b'{"models":[{"name":"models/m"}]}',
        b'{"predictions":[{"embeddings":{}}]}',
        b"null",
        b"<",
    ],
)
def test_a_response_without_content_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()


def test_an_error_in_the_stream_keeps_the_preceding_content() -> None:
    overloaded = Failure("The model is overloaded.", "UNAVAILABLE", "503")
    turn = turn_of(parts_chunk({"text": "Hi"}), b"data: " + ERROR + b"\n\n")
    assert (turn.text, turn.finish, turn.failure) == ("Hi", None, overloaded)
    assert turn_of(b"data: " + ERROR + b"\n\n") == Turn((), failure=overloaded)
    assert turn_of(parts_chunk({"text": "Hi"}), PRETTY_ERROR).failure == Failure(
        "Cancelled.", code="499"
    )


@each_row(
    ("body", "failure"),
    [
        (ERROR, Failure("The model is overloaded.", "UNAVAILABLE", "503")),
        (b"[" + ERROR + b"]", Failure("The model is overloaded.", "UNAVAILABLE", "503")),
        (b"<html></html>", Failure("HTTP 502 Bad Gateway")),
        (b"", Failure("HTTP 502 Bad Gateway")),
    ],
    ids=["a document", "in an array", "a page", "nothing"],
)
def test_an_http_error_is_one_turn_with_a_failure(body: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(whole_response(body, 502)) == (Turn((), failure=failure),)


def test_an_error_has_googles_shape() -> None:
    assert json.loads(DIALECT.error_body(424, "cassette_not_found", "text")) == {
        "error": {"code": 424, "message": "text", "status": "cassette_not_found"}
    }


KEYS = st.sampled_from(
    [
        *(*PART_KINDS, "thought", "thoughtSignature", "name", "args", "id", "willContinue", "data"),
        *("partialArgs", "jsonPath", "stringValue", "numberValue", "mimeType", "outcome", "web"),
        *("segment", "startIndex", "endIndex", "groundingChunkIndices", "uri", "parts", "\ud800"),
    ]
)
PATHS = st.sampled_from(["$.a", "$.a[0]", "$.a.b", "$[1]", "$['a']", "a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | PATHS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
PARTS = st.dictionaries(KEYS, VALUES, max_size=3)
GROUNDING = st.fixed_dictionaries(
    {},
    optional={
        "groundingChunks": st.lists(PARTS, max_size=2),
        "groundingSupports": st.lists(PARTS, max_size=2),
    },
)
CANDIDATES = st.fixed_dictionaries(
    {"content": st.fixed_dictionaries({"parts": st.lists(PARTS, max_size=4)})},
    optional={
        "index": VALUES,
        "finishReason": VALUES,
        "citationMetadata": VALUES,
        "groundingMetadata": GROUNDING,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {"candidates": st.lists(CANDIDATES, max_size=2)},
    optional=dict.fromkeys(
        ["promptFeedback", "usageMetadata", "error", "responseId", "response", "predictions"],
        VALUES,
    ),
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.sampled_from([200, 400]))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    documents: list[dict[str, Any]], status: int
) -> None:
    encoded = [json.dumps(document).encode() for document in documents]
    events = b"".join(b"data: " + item + b"\n\n" for item in encoded)
    array = b"[" + b",".join(encoded) + b"]"
    for response in (
        stream_response(events),
        array_response(array),
        whole_response(array, status),
        whole_response(encoded[0]),
    ):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


INCOMPLETE_ROWS = {"29cf02695c801610": "a hand-made mock without a finishReason"}
ROWS_WITHOUT_TURN = {"aa3a5fc1b8d663cf": "a batch that has begun"}
REASONS = ("every candidate finished", "prompt blocked", "in-band error", "JSON body", "HTTP")


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_response_is_matched_complete_and_decoded() -> None:
    codecs = {"gemini.sse": "sse", "gemini.json": "whole", "gemini.json-array": "json-array"}
    rows = [row for row in corpus.rows() if row.wire in codecs]
    assert len(rows) == 185
    incomplete, without_turn = set(), set()
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == "gemini", row.id
        name = DIALECT.codec_name(row.request, row.head)
        assert name == codecs[row.wire], row.id
        response = DialectResponse(row.head, name, framing.split_messages(name, row.body))
        completeness = DIALECT.completeness(response)
        if not completeness.is_complete:
            incomplete.add(row.id)
        else:
            assert completeness.reason.startswith(REASONS), row.id
        if not DIALECT.decode_response(response):
            without_turn.add(row.id)
        assert DIALECT.model(row.request), row.id
    assert incomplete == INCOMPLETE_ROWS.keys()
    assert without_turn == ROWS_WITHOUT_TURN.keys()


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_no_recorded_part_is_of_an_unknown_kind() -> None:
    kinds: set[str] = set()
    for row in corpus.rows():
        if row.wire in ("gemini.sse", "gemini.payload"):
            for message in row.body.splitlines():
                payload = message.removeprefix(b"data: ")
                if payload.startswith(b"{") and len(payload) > 1:
                    for candidate in json.loads(payload).get("candidates", ()):
                        for part in candidate.get("content", {}).get("parts", ()):
                            assert any(name in PART_KINDS for name in part), (row.id, part)
                            kinds.update(part)
    assert {"text", "functionCall", "executableCode", "toolCall"} < kinds


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_arguments_streamed_in_recordings_are_joined() -> None:
    (row,) = (row for row in corpus.rows() if row.id == "d0afc7200cbb0ce6")
    turn = turn_of(*(b"data: " + line + b"\n\n" for line in row.body.splitlines()))
    assert [part.arguments for part in turn.parts if isinstance(part, ToolCall)] == [
        '{"location":"Boston"}',
        '{"location":"San Francisco"}',
    ]
