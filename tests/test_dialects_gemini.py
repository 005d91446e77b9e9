from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import SPLIT_CONTEXT, typed
from dialect_responses import head, stream_response, whole_response
from linear_time import assert_linear
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.dialects.google.gemini_parts import PART_KINDS
from llm_proxy.exchange import Headers, Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

DIALECT = Gemini()

TEXT = b"""\
data: {"candidates": [{"content": {"parts": [{"text": "Hm.","thought": true}],\
"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 12,\
"thoughtsTokenCount": 3,"cachedContentTokenCount": 4},"modelVersion": "gemini-3-flash",\
"responseId": "r-1"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": "Hel"}],"role": "model"},"index": 0}],\
"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 1,"totalTokenCount": 13,\
"thoughtsTokenCount": 3,"cachedContentTokenCount": 4},"modelVersion": "gemini-3-flash",\
"responseId": "r-1"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": "lo"}],"role": "model"},\
"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 9,\
"candidatesTokenCount": 2,"totalTokenCount": 14,"thoughtsTokenCount": 3,\
"cachedContentTokenCount": 4},"modelVersion": "gemini-3-flash","responseId": "r-1"}\r\n\r\n"""
"""A minimal text stream."""

HELLO = Turn(
    (Reasoning("Hm."), Text("Hello")), FinishReason.STOP, "STOP",
    Usage(input=9, output=2, total=14, cache_read=4, reasoning=3), id="r-1", model="gemini-3-flash",
)  # fmt: skip
GENERATE = "/v1beta/models/gemini-3-flash:generateContent"
STREAM = "/v1beta/models/gemini-3-flash:streamGenerateContent"
ERROR = b'{"error": {"code": 503,"message": "The model is overloaded.","status": "UNAVAILABLE"}}'
OVERLOADED = Failure("The model is overloaded.", "UNAVAILABLE", "503")


def make_request(
    path: str = STREAM,
    query: str = "alt=sse",
    method: str = "POST",
    headers: Headers = (),
    **body: object,
) -> Request:
    return Request(method, path, query, headers, json.dumps(body).encode())


def array_response(body: bytes) -> DialectResponse:
    return DialectResponse(
        head(content_type="application/json"),
        "json-array",
        framing.split_messages("json-array", body),
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


PRETTY_ERROR = b'{\n  "error": {\n    "code": 499,\n    "message": "Cancelled."\n  }\n}\n'
HI = parts_chunk({"text": "Hi"})
FINISHED = parts_chunk({"text": "a"}, finish="STOP")


@each_row(
    ("response", "reason"),
    [
        (stream_response(TEXT), "every candidate finished"),
        (stream_response(TEXT.rstrip()), "every candidate finished"),
        (stream_response(TEXT + b": keepalive\r\n\r\n"), "every candidate finished"),
        (stream_response(TEXT + b"data: [DONE]\n\n"), "every candidate finished"),
        (
            stream_response(chunk(promptFeedback={"blockReason": "SAFETY"})),
            "prompt blocked: SAFETY",
        ),
        (
            stream_response(HI + b"data: " + ERROR + b"\n\n"),
            "in-band error: The model is overloaded.",
        ),
        (stream_response(HI + PRETTY_ERROR), "in-band error: Cancelled."),
        (array_response(as_array(TEXT)), "JSON body"),
        (
            array_response(b'[{"candidates":[]}\r\n,\r\n' + ERROR + b"]"),
            "in-band error: The model is overloaded.",
        ),
        (array_response(b'{"candidates":[]}'), "JSON body"),
        (whole_response(b'{"totalTokens":7}'), "JSON body"),
        (whole_response(b"<html>", 502), "HTTP 502"),
    ],
    ids=["text", "no blank line", "a comment", "a gateway's DONE", "a blocked prompt",
         "an error event", "no event", "an array", "an error in an array",
         "a document for an array", "counted tokens", "a gateway's page"],
)  # fmt: skip
def test_a_response_with_an_end_marker_is_complete(response: DialectResponse, reason: str) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (True, reason)


@each_row(
    ("response", "reason"),
    [
        (stream_response(b""), "empty stream"),
        (stream_response(b": hi\n\n"), "no candidate"),
        (stream_response(b"<html></html>"), "cut inside an event"),
        (stream_response(HI), "candidate 0 unfinished"),
        (
            stream_response(parts_chunk({"text": "Hi"}, finish="FINISH_REASON_UNSPECIFIED")),
            "candidate 0 unfinished",
        ),
        (
            stream_response(FINISHED + chunk({"index": 1}, {"index": 2})),
            "candidate 1, 2 unfinished",
        ),
        (stream_response(FINISHED + b'data: {"usageMe'), "cut inside an event"),
        (stream_response(FINISHED + b"dat"), "cut inside an event"),
        (array_response(as_array(TEXT)[:-3]), "array not closed"),
        (array_response(b""), "empty stream"),
        (whole_response(b'{"candid'), "body is not JSON"),
    ],
    ids=["nothing", "comments only", "a page", "cut", "unspecified", "one of three finished",
         "cut after a finish", "half a field name", "an open array", "no array", "a cut document"],
)  # fmt: skip
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


STREAM_REQUEST = make_request()
WHOLE_REQUEST = make_request(GENERATE, "")


def response_documents(response: DialectResponse) -> list[Any]:
    """The chunks of a stream, or the one document."""
    if response.codec_name == "sse":
        return [json.loads(parse_event(event).data or b"") for event in response.framed_messages]
    document = json.loads(b"".join(response.framed_messages))
    return document if response.codec_name == "json-array" else [document]


def candidate(*parts: dict[str, Any], index: int = 0, **fields: object) -> dict[str, Any]:
    return {"content": {"parts": [*parts], "role": "model"}, "index": index, **fields}


def last(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return candidate(*parts, finishReason="STOP", **fields)


def document(*candidates: dict[str, Any], **fields: object) -> dict[str, Any]:
    """A chunk, or a whole response."""
    identity = {"modelVersion": "gemini-3-flash", "responseId": "r-1"}
    return {**({"candidates": [*candidates]} if candidates else {}), **identity, **fields}


def ended(*parts: Part, **metadata: Json) -> Turn:
    return replace(HELLO, parts=parts, usage=None, metadata=tuple(metadata.items()))


SIGNED: Metadata = (("thoughtSignature", "c2ln"),)


@each_row(
    ("part", "wire"),
    [
        (Text("b", metadata=SIGNED), {"text": "b", "thoughtSignature": "c2ln"}),
        (Text("", metadata=SIGNED), {"text": "", "thoughtSignature": "c2ln"}),
        (Reasoning("Hm.", "c2ln"), {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}),
        (ToolCall("", "f", "{}"), {"functionCall": {"name": "f", "args": {}}}),
        (
            ToolCall("a1", "f", '{"city":"Oslo"}', SIGNED),
            {"functionCall": {"id": "a1", "name": "f", "args": {"city": "Oslo"}},
             "thoughtSignature": "c2ln"},
        ),
        (
            ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1/0"}',
                     typed("executableCode")),
            {"executableCode": {"id": "x", "language": "PYTHON", "code": "1/0"}},
        ),
        (
            ToolResult("x", "no", "code_execution", failed=True,
                       metadata=typed("codeExecutionResult", outcome="OUTCOME_FAILED")),
            {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}},
        ),
        (
            ToolCall("y", "FILE_SEARCH", '{"q":1}', typed("toolCall")),
            {"toolCall": {"id": "y", "toolType": "FILE_SEARCH", "args": {"q": 1}}},
        ),
        (
            ToolResult("y", '{"r":2}', "FILE_SEARCH", metadata=typed("toolResponse")),
            {"toolResponse": {"id": "y", "toolType": "FILE_SEARCH", "response": {"r": 2}}},
        ),
        (
            ToolResult("z", '{"r":3}', "f", metadata=typed("functionResponse")),
            {"functionResponse": {"id": "z", "name": "f", "response": {"r": 3}}},
        ),
        (
            Media("image/png", base64="AAA=", metadata=(("thought", True),)),
            {"inlineData": {"mimeType": "image/png", "data": "AAA="}, "thought": True},
        ),
        (
            Media("audio/wav", base64="AAE=", metadata=(("displayName", "b"),)),
            {"inlineData": {"mimeType": "audio/wav", "data": "AAE=", "displayName": "b"}},
        ),
        (
            Media("video/mp4", url="gs://b/v"),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}},
        ),
    ],
)  # fmt: skip
def test_parts_and_wire_parts_convert_in_both_directions(part: Part, wire: dict[str, Any]) -> None:
    turn = ended(part, Text("c"))
    if "functionCall" in wire:
        turn = replace(turn, finish=FinishReason.TOOL_CALLS)
    whole = [document(last(wire, {"text": "c"}))]
    stream = [document(candidate(wire)), document(last({"text": "c"}))]

    for request, documents in ((WHOLE_REQUEST, whole), (STREAM_REQUEST, stream)):
        response = DIALECT.encode_response(request, (turn,), SPLIT_CONTEXT)
        assert response_documents(response) == documents
        assert DIALECT.decode_response(response) == (turn,)


FEEDBACK: dict[str, Json] = {"blockReason": "SAFETY", "safetyRatings": [{"blocked": True}]}
BLOCKED = replace(
    ended(promptFeedback=FEEDBACK), finish=FinishReason.CONTENT_FILTER, finish_raw="SAFETY",
    usage=Usage(input=9, total=9),
)  # fmt: skip
BLOCKED_USAGE = {"promptTokenCount": 9, "totalTokenCount": 9}
LICENSED = Citation("u", span=(2, 4), metadata=(("license", "mit"),))
PAGE = Citation("https://a", "A", span=(0, 5), metadata=(("domain", "a"),))
PASSAGE = Citation("f", "F", "said", (0, 5), typed("retrievedContext"))
PLACE = Citation("https://m", metadata=typed("maps", placeId="p"))
SOURCES = {
    "groundingChunks": [
        {"web": {"uri": "https://a", "title": "A", "domain": "a"}},
        {"retrievedContext": {"uri": "f", "title": "F", "text": "said"}},
        {"maps": {"uri": "https://m", "placeId": "p"}},
    ],
    "groundingSupports": [
        {"segment": {"endIndex": 7, "text": "Grüße"}, "groundingChunkIndices": [0, 1]},
        {"segment": {"startIndex": 8, "endIndex": 10, "text": "du"}, "groundingChunkIndices": [0]},
    ],
    "webSearchQueries": ["q"],
}


@each_row(
    ("request_", "turns", "documents"),
    [
        (
            STREAM_REQUEST, (HELLO,),
            [json.loads(event[6:]) for event in TEXT.decode().split("\r\n\r\n") if event],
        ),
        (
            STREAM_REQUEST,
            (
                replace(
                    ended(Text("Well,", metadata=SIGNED), Text("so"),
                          ToolCall("", "f", "{}"), ToolCall("a1", "f", "{}", SIGNED)),
                    finish=FinishReason.TOOL_CALLS,
                ),
            ),
            [
                document(candidate({"text": "Wel"})),
                document(candidate({"text": "l,", "thoughtSignature": "c2ln"})),
                document(candidate({"text": "so"})),
                document(
                    candidate(
                        {"functionCall": {"name": "f", "args": {}}},
                        {"functionCall": {"id": "a1", "name": "f", "args": {}},
                         "thoughtSignature": "c2ln"},
                    )
                ),
                document(last({"text": ""})),
            ],
        ),
        (
            STREAM_REQUEST,
            (
                ended(Text("Hi")),
                replace(ended(Text("Hello")), finish=FinishReason.LENGTH, finish_raw="MAX_TOKENS"),
            ),
            [
                document(last({"text": "Hi"}), candidate({"text": "Hel"}, index=1)),
                document(candidate({"text": "lo"}, index=1, finishReason="MAX_TOKENS")),
            ],
        ),
        (
            STREAM_REQUEST,
            (replace(BLOCKED, parts=(Text("Hi"),), finish=None, finish_raw="", metadata=(),
                     failure=OVERLOADED),),
            [document(candidate({"text": "Hi"}), usageMetadata=BLOCKED_USAGE), json.loads(ERROR)],
        ),
        (
            STREAM_REQUEST, (BLOCKED,),
            [document(promptFeedback=FEEDBACK, usageMetadata=BLOCKED_USAGE)],
        ),
        (
            WHOLE_REQUEST, (BLOCKED,),
            [document(promptFeedback=FEEDBACK, usageMetadata=BLOCKED_USAGE)],
        ),
        (
            make_request("/v1internal:streamGenerateContent", model="m"), (ended(Text("Hi")),),
            [{"response": document(last({"text": "Hi"}))}],
        ),
        (
            make_request("/v1/projects/p/locations/l/publishers/google/models/m:generateContent"),
            (ended(Text("abcd", (LICENSED,))),),
            [
                document(
                    last({"text": "abcd"}, citationMetadata={"citations": [
                        {"startIndex": 2, "endIndex": 4, "uri": "u", "license": "mit"}
                    ]})
                )
            ],
        ),
        (
            WHOLE_REQUEST,
            (
                ended(
                    Text("Grüße", (LICENSED, PAGE, PASSAGE)),
                    ToolCall("", "code_execution", '{"code":"1"}', typed("executableCode")),
                    Text(" du!", (replace(PAGE, span=(1, 3)), PLACE)),
                    groundingMetadata={"webSearchQueries": ["q"]},
                ),
            ),
            [
                document(
                    last(
                        {"text": "Grüße"}, {"executableCode": {"code": "1"}}, {"text": " du!"},
                        citationMetadata={"citationSources": [
                            {"startIndex": 2, "endIndex": 6, "uri": "u", "license": "mit"}
                        ]},
                        groundingMetadata=SOURCES,
                    )
                )
            ],
        ),
        (
            WHOLE_REQUEST,
            (
                ended(
                    Text("Hi"), toolUsePromptTokenCount=3, trafficType="ON_DEMAND", createTime="t",
                    finishMessage="m", safetyRatings=[{"blocked": True}], avgLogprobs=-0.5,
                ),
            ),
            [
                document(
                    last({"text": "Hi"}, finishMessage="m", safetyRatings=[{"blocked": True}],
                         avgLogprobs=-0.5),
                    usageMetadata={"toolUsePromptTokenCount": 3, "trafficType": "ON_DEMAND"},
                    createTime="t",
                )
            ],
        ),
    ],
    ids=["text, with the counts up to there",
         "parallel calls in one chunk, and a signature at the end of its part",
         "interleaved candidates", "an error amid a stream", "a blocked stream",
         "a blocked document", "Code Assist, which wraps each chunk",
         "Vertex, which has another field of sources", "sources, with their spans in bytes",
         "metadata"],
)  # fmt: skip
def test_turns_and_documents_convert_in_both_directions(
    request_: Request, turns: tuple[Turn, ...], documents: list[Any]
) -> None:
    queries = ["alt=sse", ""] if DIALECT.streams(request_) else [""]  # as events, and as an array
    for query in queries:
        request = replace(request_, query=query)
        response = DIALECT.encode_response(request, turns, SPLIT_CONTEXT)
        assert response_documents(response) == documents
        assert DIALECT.decode_response(response) == turns


@each_row(
    ("raw", "finish", "has_content"),
    [
        ("STOP", FinishReason.STOP, True),
        ("MAX_TOKENS", FinishReason.LENGTH, True),
        ("SAFETY", FinishReason.CONTENT_FILTER, False),
        ("RECITATION", FinishReason.CONTENT_FILTER, False),
        ("IMAGE_SAFETY", FinishReason.CONTENT_FILTER, False),
        ("MALFORMED_FUNCTION_CALL", FinishReason.ERROR, False),
        ("UNEXPECTED_TOOL_CALL", FinishReason.ERROR, False),
        ("CONTINUATION", FinishReason.PAUSED, True),
        ("LANGUAGE", FinishReason.OTHER, True),
        (1, FinishReason.STOP, True),
        (2, FinishReason.LENGTH, True),
        (3, FinishReason.CONTENT_FILTER, False),
    ],
)
def test_finish_reasons_and_finishes_convert_in_both_directions(
    raw: str | int, finish: FinishReason, has_content: bool
) -> None:
    turn = replace(ended(), finish=finish, finish_raw=str(raw))
    content = {"content": {"role": "model"}} if has_content else {}
    expected = document({**content, "finishReason": raw, "index": 0})

    for request in (STREAM_REQUEST, WHOLE_REQUEST):
        response = DIALECT.encode_response(request, (turn,), SPLIT_CONTEXT)
        assert response_documents(response) == [expected]
        assert DIALECT.decode_response(response) == (turn,)


# What Google sends and the encoder does not.


def test_text_becomes_a_turn_in_each_framing() -> None:
    assert DIALECT.decode_response(stream_response(TEXT)) == (HELLO,)
    assert DIALECT.decode_response(array_response(as_array(TEXT))) == (HELLO,)
    assert DIALECT.decode_response(whole_response(as_array(TEXT))) == (HELLO,)


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


def test_sound_is_joined_while_images_are_whole_and_an_empty_text_is_no_part() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AAA="}}
    audio_type = "audio/L16;rate=24000"
    turn = turn_of(
        parts_chunk(image, image),
        parts_chunk({"inlineData": {"mimeType": audio_type, "data": "AAE="}}, {"text": ""}),
        parts_chunk({"inlineData": {"mimeType": audio_type, "data": "AgM="}}),
    )
    picture = Media("image/png", base64="AAA=")
    assert turn.parts == (picture, picture, Media(audio_type, base64="AAECAw=="))


def test_an_image_longer_than_a_message_may_be_is_read() -> None:
    data = "A" * (framing.MAX_MESSAGE_BYTES + 4)
    image = parts_chunk({"inlineData": {"mimeType": "image/png", "data": data}}, finish="STOP")
    for response in (stream_response(image), array_response(as_array(image))):
        assert len(response.framed_messages) > 1
        assert DIALECT.completeness(response).is_complete
        (turn,) = DIALECT.decode_response(response)
        assert turn.parts == (Media("image/png", base64=data),)


def test_a_passage_outside_of_its_text_has_no_span_and_an_unknown_source_is_ignored() -> None:
    grounding = {
        "groundingChunks": [{"web": {"uri": uri}} for uri in ("https://a", "https://b")],
        "groundingSupports": [
            {"segment": {"startIndex": 7, "endIndex": 99}, "groundingChunkIndices": [1, 9]},
            {"segment": {"startIndex": 7, "endIndex": 9}, "groundingChunkIndices": [0]},
        ],
    }
    turn = turn_of(
        parts_chunk({"text": "Grüß"}),
        parts_chunk({"executableCode": {"code": "1"}}),
        parts_chunk({"text": " du!"}, finish="STOP", groundingMetadata=grounding),
        chunk({"groundingMetadata": grounding}),
    )
    first, _, last = turn.parts
    assert first == Text("Grüß")
    assert last == Text(" du!", (Citation("https://b"), Citation("https://a", span=(1, 3))))
    assert turn.metadata == ()


def test_passages_name_sources_that_came_in_an_earlier_chunk() -> None:
    def grounded(**fields: object) -> bytes:
        return chunk({"groundingMetadata": fields})

    support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [1]}
    turn = turn_of(
        HI,
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


def test_a_source_that_is_cited_twice_is_one_citation() -> None:
    source = {"startIndex": 2, "endIndex": 4, "uri": "u", "license": "mit"}
    turn = turn_of(
        parts_chunk({"text": "abcd"}, citationMetadata={"citationSources": [source, source]})
    )
    assert turn.parts == (Text("abcd", (LICENSED,)),)


def test_sources_without_any_text_are_kept() -> None:
    grounding = {"groundingChunks": [{"maps": {"uri": "https://m", "placeId": "p"}}]}
    assert turn_of(chunk({"groundingMetadata": grounding})).parts == (Text("", (PLACE,)),)


def test_the_last_finish_reason_counts_where_every_chunk_has_one() -> None:
    turn = turn_of(parts_chunk({"text": "a"}, finish="STOP"), chunk({"finishReason": "RECITATION"}))
    assert turn.finish is FinishReason.CONTENT_FILTER


def test_candidates_are_turns_in_the_order_of_their_index() -> None:
    body = chunk(candidate({"text": "b"}, index=1), candidate({"text": "a"})) + chunk(
        last({"text": "a"}),
        candidate({"text": "b"}, index=1, finishReason="MAX_TOKENS"),
    )
    assert [
        (turn.text, turn.finish) for turn in DIALECT.decode_response(stream_response(body))
    ] == [("aa", FinishReason.STOP), ("bb", FinishReason.LENGTH)]


def test_code_assist_may_have_fields_beside_each_chunk() -> None:
    inner = document(last({"text": "Hi"}))
    body = b"data: " + json.dumps({"response": inner, "traceId": "t"}).encode() + b"\n\n"
    assert turn_of(body) == ended(Text("Hi"))
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


def test_an_error_may_stand_alone_and_have_no_event() -> None:
    assert turn_of(b"data: " + ERROR + b"\n\n") == Turn((), failure=OVERLOADED)
    turn = turn_of(HI, PRETTY_ERROR)
    assert turn == Turn((Text("Hi"),), failure=Failure("Cancelled.", code="499"))


@each_row(
    ("body", "failure"),
    [
        (b"[" + ERROR + b"]", OVERLOADED),
        (b"<html></html>", Failure("HTTP 502 Bad Gateway")),
        (b"", Failure("HTTP 502 Bad Gateway")),
    ],
    ids=["in an array", "a page", "nothing"],
)
def test_an_http_error_is_one_turn_with_a_failure(body: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(whole_response(body, 502)) == (Turn((), failure=failure),)


def test_an_error_has_googles_shape() -> None:
    assert json.loads(DIALECT.error_body(424, "cassette_not_found", "text")) == {
        "error": {"code": 424, "message": "text", "status": "cassette_not_found"}
    }


KEYS = st.sampled_from([
    *(*PART_KINDS, "thought", "thoughtSignature", "name", "args", "id", "willContinue", "data"),
    *("partialArgs", "jsonPath", "stringValue", "numberValue", "mimeType", "outcome", "web"),
    *("segment", "startIndex", "endIndex", "groundingChunkIndices", "uri", "parts", "\ud800"),
])  # fmt: skip
PATHS = st.sampled_from(["$.a", "$.a[0]", "$.a.b", "$[1]", "$['a']", "a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | PATHS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
PARTS = st.dictionaries(KEYS, VALUES, max_size=3)
PART_LISTS = st.lists(PARTS, max_size=2)
GROUNDING = st.fixed_dictionaries(
    {}, optional={"groundingChunks": PART_LISTS, "groundingSupports": PART_LISTS}
)
CANDIDATES = st.fixed_dictionaries(
    {"content": st.fixed_dictionaries({"parts": st.lists(PARTS, max_size=4)})},
    optional={
        "index": VALUES, "finishReason": VALUES, "citationMetadata": VALUES,
        "groundingMetadata": GROUNDING,
    },
)  # fmt: skip
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
