from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.google.content_decoder import KNOWN
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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
"""The minimal text stream."""

TOOLS = b"""\
data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "get_weather","args": \
{"city": "Rome"}},"thoughtSignature": "c2lnbmF0dXJl"},{"functionCall": {"name": "get_weather",\
"args": {"city": "Oslo"},"id": "a1"}}],"role": "model"},"index": 0}],\
"modelVersion": "gemini-3-flash","responseId": "r-2"}\r\n\r\n\
data: {"candidates": [{"content": {"parts": [{"text": ""}],"role": "model"},\
"finishReason": "STOP","index": 0}],"modelVersion": "gemini-3-flash","responseId": "r-2"}\r\n\r\n"""
"""The minimal stream of two parallel calls."""

HELLO = Turn(
    parts=(Reasoning("I should greet."), Text("Hello")),
    finish=Finish.STOP,
    finish_raw="STOP",
    usage=Usage(input=9, output=2, total=14, cache_read=4, reasoning=3),
    id="r-1",
    model="gemini-3-flash",
)
GENERATE = "/v1beta/models/gemini-3-flash:generateContent"
STREAM = "/v1beta/models/gemini-3-flash:streamGenerateContent"


def asked(
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


def streamed(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "sse", framing.split_messages("sse", body))


def listed(body: bytes) -> DialectResponse:
    return DialectResponse(
        head(content_type="application/json"),
        "json-array",
        framing.split_messages("json-array", body),
    )


def whole(body: bytes, status: int = 200) -> DialectResponse:
    return DialectResponse(
        head(status, "application/json"), "whole", framing.split_messages("whole", body)
    )


def chunk(*candidates: dict[str, Any], **fields: object) -> bytes:
    return b"data: " + json.dumps({"candidates": candidates, **fields}).encode() + b"\r\n\r\n"


def says(*parts: dict[str, Any], finish: str | None = None, **fields: object) -> bytes:
    about = {"finishReason": finish} if finish else {}
    return chunk({"content": {"parts": list(parts)}, **about, **fields})


def turn_of(*chunks: bytes) -> Turn:
    (turn,) = DIALECT.decode(streamed(b"".join(chunks)))
    return turn


def as_array(stream: bytes) -> bytes:
    """The chunks of a stream, as they come without `alt=sse`."""
    chunks = [parse_event(event).data or b"" for event in re.split(rb"\r\n\r\n", stream) if event]
    return b"[" + b"\r\n,\r\n".join(chunks) + b"\r\n]\r\n"


def test_the_dialect_is_found_under_its_name() -> None:
    assert dialects.dialect_named("gemini").name == "gemini"


GOOGLE = (("X-Goog-Api-Key", "k"),)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (asked(STREAM), "gemini"),
        (asked(GENERATE, ""), "gemini"),
        (asked("/v1/models/gemini-3-flash:generateContent", ""), "gemini"),
        (asked("/v1alpha/models/gemini-3-flash%3AgenerateContent", ""), "gemini"),
        (asked("/v1beta/tunedModels/mine-1:generateContent", ""), "gemini"),
        (asked("/models/gemini-3-flash:generateContent", ""), "gemini"),
        (asked("/google-vertex/v1beta1/publishers/google/models/m:generateContent"), "gemini"),
        (
            asked("/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent"),
            "gemini",
        ),
        (asked("/v1/projects/p/locations/l/publishers/google/models/m:predict"), "gemini"),
        (asked("/v1/projects/p/locations/l/endpoints/7:generateContent"), "gemini"),
        (asked("/v1internal:streamGenerateContent"), "gemini"),
        (asked("/v1beta/models/m:countTokens"), "gemini"),
        (asked("/v1beta/models/m:embedContent"), "gemini"),
        (asked("/v1beta/models/m:batchEmbedContents"), "gemini"),
        (asked("/v1beta/models/imagen-4:predict"), "gemini"),
        (asked("/v1beta/models", "", "GET"), "gemini"),
        (asked("/v1beta/models/gemini-3-flash", "", "GET"), "gemini"),
        (asked("/v1beta1/publishers/google/models", "", "GET"), "gemini"),
        (asked("/v1/models", "", "GET", GOOGLE), "gemini"),
        (asked("/v1/models", "key=k", "GET"), "gemini"),
        (asked("/v1beta/interactions", ""), "gemini-interactions"),
        (asked("/v1beta/interactions/i1", "stream=true", "GET"), "gemini-interactions"),
        (asked("/v1beta/openai/chat/completions", ""), "openai-chat"),
        (asked("/v1/chat/completions", ""), "openai-chat"),
        (asked("/api/chat", ""), "ollama"),
    ],
)
def test_among_all_dialects_each_request_finds_its_own(request_: Request, name: str) -> None:
    assert dialects.find_dialect(request_).name == name


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked("/v1/models", "", "GET"), id="OpenAI's models"),
        pytest.param(asked("/v1beta/openai/models", "", "GET", GOOGLE), id="OpenAI's, at Google"),
        pytest.param(asked(GENERATE, "", "GET"), id="an operation that is only read"),
        pytest.param(asked("/v1/models/m:predict"), id="a KServe model"),
        pytest.param(asked("/v1beta/files", "", "GET"), id="files"),
        pytest.param(asked("/v1beta/models/m:generateContent/x"), id="below an operation"),
        pytest.param(
            asked("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict"),
            id="another publisher",
        ),
        pytest.param(
            asked("/v1/projects/p/locations/l/publishers/x/models/m:generateContent"),
            id="another publisher's operation of this name",
        ),
    ],
)
def test_what_is_not_geminis_is_left_to_others(request_: Request) -> None:
    assert not DIALECT.matches(request_)


@pytest.mark.parametrize(
    ("request_", "model"),
    [
        (asked(GENERATE), "gemini-3-flash"),
        (asked("/v1beta/models/my%20model%3AgenerateContent"), "my model"),
        (asked("/v1beta/models/qwen3:8b:generateContent"), "qwen3:8b"),
        (asked("/models/google/gemini-3:generateContent"), "google/gemini-3"),
        (asked("/v1beta/models/imagen-4:predict"), "imagen-4"),
        (asked("/v1beta/models/gemini-3-flash", "", "GET"), "gemini-3-flash"),
        (asked("/v1beta/models", "", "GET"), ""),
        (asked("/v1internal:generateContent", "", model="models/gemini-3"), "gemini-3"),
        (asked("/elsewhere", "", "PUT"), ""),
    ],
)
def test_the_model_is_found_in_the_path(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@pytest.mark.parametrize(
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
    request = asked(path, query)
    assert DIALECT.codec(request, head(status, content_type)) == expected
    assert DIALECT.streams(request) is (path == STREAM)


ERROR = b'{"error": {"code": 503,"message": "The model is overloaded.","status": "UNAVAILABLE"}}'
PRETTY = b'{\n  "error": {\n    "code": 499,\n    "message": "Cancelled."\n  }\n}\n'


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(streamed(TEXT), "every candidate finished", id="text"),
        pytest.param(streamed(TEXT.rstrip()), "every candidate finished", id="no blank line"),
        pytest.param(
            streamed(TEXT + b": keepalive\r\n\r\n"), "every candidate finished", id="a comment"
        ),
        pytest.param(
            streamed(TEXT + b"data: [DONE]\n\n"), "every candidate finished", id="a gateway's DONE"
        ),
        pytest.param(
            streamed(chunk(promptFeedback={"blockReason": "SAFETY"})),
            "prompt blocked: SAFETY",
            id="a blocked prompt",
        ),
        pytest.param(
            streamed(says({"text": "Hi"}) + b"data: " + ERROR + b"\n\n"),
            "in-band error: The model is overloaded.",
            id="an error event",
        ),
        pytest.param(
            streamed(says({"text": "Hi"}) + PRETTY), "in-band error: Cancelled.", id="no event"
        ),
        pytest.param(listed(as_array(TEXT)), "JSON body", id="an array"),
        pytest.param(
            listed(b'[{"candidates":[]}\r\n,\r\n' + ERROR + b"]"),
            "in-band error: The model is overloaded.",
            id="an error in an array",
        ),
        pytest.param(listed(b'{"candidates":[]}'), "JSON body", id="a document for an array"),
        pytest.param(whole(b'{"totalTokens":7}'), "JSON body", id="counted tokens"),
        pytest.param(whole(b"<html>", 502), "HTTP 502", id="a gateway's page"),
    ],
)
def test_a_response_is_whole_by_its_own_words(answer: DialectResponse, reason: str) -> None:
    judgement = DIALECT.completeness(answer)
    assert (judgement.is_complete, judgement.reason) == (True, reason)


FINISHED = says({"text": "a"}, finish="STOP")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(streamed(b""), "empty stream", id="nothing"),
        pytest.param(streamed(b": hi\n\n"), "no candidate", id="comments only"),
        pytest.param(streamed(b"<html></html>"), "cut inside an event", id="a page"),
        pytest.param(streamed(says({"text": "Hi"})), "candidate 0 unfinished", id="cut"),
        pytest.param(
            streamed(says({"text": "Hi"}, finish="FINISH_REASON_UNSPECIFIED")),
            "candidate 0 unfinished",
            id="unspecified",
        ),
        pytest.param(
            streamed(FINISHED + chunk({"index": 1}, {"index": 2})),
            "candidate 1, 2 unfinished",
            id="one of three finished",
        ),
        pytest.param(
            streamed(FINISHED + b'data: {"usageMe'), "cut inside an event", id="cut after a finish"
        ),
        pytest.param(streamed(FINISHED + b"dat"), "cut inside an event", id="half a field name"),
        pytest.param(listed(as_array(TEXT)[:-3]), "array not closed", id="an open array"),
        pytest.param(listed(b""), "empty stream", id="no array"),
        pytest.param(whole(b'{"candid'), "body is not JSON", id="a cut document"),
    ],
)
def test_a_response_without_an_end_is_not_whole(answer: DialectResponse, reason: str) -> None:
    judgement = DIALECT.completeness(answer)
    assert (judgement.is_complete, judgement.reason) == (False, reason)


@given(st.integers(0, len(TEXT) - 1))
def test_no_cut_before_the_last_event_is_called_whole(cut: int) -> None:
    assert DIALECT.completeness(streamed(TEXT[:cut])).is_complete is (cut >= len(TEXT.rstrip()))


@given(st.integers(0, len(as_array(TEXT)) - 1))
def test_no_cut_before_the_arrays_end_is_called_whole(cut: int) -> None:
    body = as_array(TEXT)
    assert DIALECT.completeness(listed(body[:cut])).is_complete is (cut >= len(body.rstrip()))


def test_text_becomes_a_turn_however_it_comes() -> None:
    assert DIALECT.decode(streamed(TEXT)) == (HELLO,)
    assert DIALECT.decode(listed(as_array(TEXT))) == (HELLO,)
    assert DIALECT.decode(whole(as_array(TEXT))) == (HELLO,)


def test_parallel_calls_become_a_turn_that_waits_for_tools() -> None:
    turn = turn_of(TOOLS)
    assert turn.parts == (
        ToolCall("", "get_weather", '{"city":"Rome"}', (("thoughtSignature", "c2lnbmF0dXJl"),)),
        ToolCall("a1", "get_weather", '{"city":"Oslo"}'),
    )
    assert (turn.finish, turn.finish_raw) == (Finish.TOOL_CALLS, "STOP")


def test_arguments_that_are_streamed_grow_into_an_object() -> None:
    def call(*partial: dict[str, Any], more: bool = True, **fields: str) -> bytes:
        called = fields | ({"partialArgs": partial} if partial else {})
        return says({"functionCall": called | ({"willContinue": True} if more else {})})

    turn = turn_of(
        says({"functionCall": {"name": "now"}}),
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


@pytest.mark.parametrize(
    "path", ["$" + "[0]" * 101, "$" + ".a" * 200_000, "$[9999999999]", "$", ""]
)
def test_a_path_that_leads_too_far_is_not_followed(path: str) -> None:
    partial = [{"jsonPath": path, "stringValue": "x"}]
    (call,) = turn_of(says({"functionCall": {"name": "f", "partialArgs": partial}})).parts
    assert call == ToolCall("", "f", "{}")


def test_a_far_index_takes_no_room() -> None:
    partial = [{"jsonPath": "$.a[999999999]", "stringValue": "x"}]
    (call,) = turn_of(says({"functionCall": {"name": "f", "partialArgs": partial}})).parts
    assert call == ToolCall("", "f", '{"a":["x"]}')


def test_a_signature_ends_the_part_that_it_seals() -> None:
    turn = turn_of(
        says({"text": "a"}),
        says({"text": "b", "thoughtSignature": "s1"}),
        says({"text": "c"}),
        says({"functionCall": {"name": "f", "args": {}}}),
        says({"text": "", "thoughtSignature": "s2"}),
        says({"text": "mm", "thought": True, "thoughtSignature": "s3"}),
        says({"text": ""}),
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
        says({"executableCode": {"id": "x", "language": "PYTHON", "code": "1/0"}}),
        says({"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}}),
        says({"toolCall": {"id": "y", "toolType": "FILE_SEARCH", "args": {"q": 1}}}),
        says({"toolResponse": {"id": "y", "toolType": "FILE_SEARCH", "response": {"r": 2}}}),
        says({"functionResponse": {"id": "z", "name": "f", "response": {"r": 3}}}, finish="STOP"),
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
    assert turn.finish is Finish.STOP


def test_images_are_whole_and_sound_is_joined() -> None:
    sound = "audio/L16;rate=24000"
    turn = turn_of(
        says({"inlineData": {"mimeType": "image/png", "data": "AAA="}, "thought": True}),
        says({"inlineData": {"mimeType": "image/png", "data": "BBB="}}),
        says({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}}),
        says({"inlineData": {"mimeType": sound, "data": "AAE="}}),
        says({"inlineData": {"mimeType": sound, "data": "AgM="}}),
    )
    assert turn.parts == (
        Media("image/png", base64="AAA=", metadata=(("thought", True),)),
        Media("image/png", base64="BBB="),
        Media("video/mp4", url="gs://b/v"),
        Media(sound, base64="AAECAw=="),
    )


def test_an_image_longer_than_a_message_may_be_is_read() -> None:
    data = "A" * (framing.MESSAGE_LIMIT + 4)
    image = says({"inlineData": {"mimeType": "image/png", "data": data}}, finish="STOP")
    for answer in (streamed(image), listed(as_array(image))):
        assert len(answer.messages) > 1
        assert DIALECT.completeness(answer).is_complete
        (turn,) = DIALECT.decode(answer)
        assert turn.parts == (Media("image/png", base64=data),)


def test_grounding_becomes_citations_with_places_in_characters() -> None:
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
        says({"text": "Grüß"}),
        says({"executableCode": {"code": "1"}}),
        says({"text": " du!"}, finish="STOP", groundingMetadata=grounding),
        chunk({"groundingMetadata": grounding}),
    )
    a = Citation("https://a", "A", metadata=(("domain", "a"),))
    b = Citation("https://b", "B", "the passage", metadata=(("type", "retrievedContext"),))
    first, _, last = turn.parts
    assert first == Text("Grüß", (_at(a, 0, 4), _at(b, 0, 4)))
    assert last == Text(" du!", (_at(a, 1, 3), b, Citation("https://c")))
    assert dict(turn.metadata)["groundingMetadata"] == {"webSearchQueries": ["greeting"]}


def _at(it: Citation, start: int, end: int) -> Citation:
    return Citation(it.url, it.title, it.quoted, (start, end), it.metadata)


def test_passages_name_sources_that_came_in_an_earlier_chunk() -> None:
    def grounded(**fields: object) -> bytes:
        return chunk({"groundingMetadata": fields})

    support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [1]}
    turn = turn_of(
        says({"text": "Hi"}),
        grounded(groundingChunks=[{"web": {"uri": "https://a"}}, {"web": {"uri": "https://b"}}]),
        grounded(groundingSupports=[support]),
    )
    assert turn.parts == (Text("Hi", (Citation("https://b", span=(0, 2)), Citation("https://a"))),)


@pytest.mark.timeout(30)
def test_time_is_linear_in_what_is_cited() -> None:
    count = 20_000
    chunks = [{"web": {"uri": f"https://{at}"}} for at in range(count)]
    support = {"segment": {"endIndex": 2}, "groundingChunkIndices": [count - 1]}
    turn = turn_of(
        says({"text": "Hi"}, groundingMetadata={"groundingChunks": chunks}),
        chunk({"groundingMetadata": {"groundingSupports": [support]}}) * count,
    )  # a reader that went over all sources for each passage would take minutes
    (text,) = turn.parts
    assert isinstance(text, Text)
    assert len(text.citations) == count


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_text_that_repeats_a_source_cites_it(key: str) -> None:
    source = {"startIndex": 1, "endIndex": 3, "uri": "https://a", "license": "mit"}
    turn = turn_of(says({"text": "abcd"}, citationMetadata={key: [source, source]}))
    cited = Citation("https://a", span=(1, 3), metadata=(("license", "mit"),))
    assert turn.parts == (Text("abcd", (cited,)),)


def test_sources_without_any_text_are_kept() -> None:
    grounding = {"groundingChunks": [{"maps": {"uri": "https://m", "placeId": "p"}}]}
    turn = turn_of(chunk({"groundingMetadata": grounding}))
    about = (("type", "maps"), ("placeId", "p"))
    assert turn.parts == (Text("", (Citation("https://m", metadata=about),)),)


@pytest.mark.parametrize(
    ("raw", "finish"),
    [
        ("STOP", Finish.STOP),
        ("MAX_TOKENS", Finish.LENGTH),
        ("SAFETY", Finish.CONTENT_FILTER),
        ("RECITATION", Finish.CONTENT_FILTER),
        ("IMAGE_SAFETY", Finish.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", Finish.ERROR),
        ("UNEXPECTED_TOOL_CALL", Finish.ERROR),
        ("CONTINUATION", Finish.PAUSED),
        ("LANGUAGE", Finish.OTHER),
        (1, Finish.STOP),
        (2, Finish.LENGTH),
        (3, Finish.CONTENT_FILTER),
    ],
)
def test_finish_reasons_have_common_words(raw: str | int, finish: Finish) -> None:
    turn = turn_of(chunk({"finishReason": raw}))
    assert (turn.finish, turn.finish_raw) == (finish, str(raw))


def test_the_last_finish_reason_counts_where_every_chunk_has_one() -> None:
    turn = turn_of(says({"text": "a"}, finish="STOP"), chunk({"finishReason": "RECITATION"}))
    assert turn.finish is Finish.CONTENT_FILTER


def test_a_blocked_prompt_is_a_turn_of_its_own() -> None:
    feedback: dict[str, Json] = {
        "blockReason": "SAFETY",
        "safetyRatings": [{"probability": "HIGH"}],
    }
    said = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}}
    assert DIALECT.decode(whole(json.dumps(said).encode())) == (
        Turn(
            (),
            finish=Finish.CONTENT_FILTER,
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
    assert [(item.text, item.finish) for item in DIALECT.decode(streamed(body))] == [
        ("aa", Finish.STOP),
        ("bb", Finish.LENGTH),
    ]


def test_what_has_no_word_of_its_own_is_kept_beside_the_turn() -> None:
    about = {"finishMessage": "m", "avgLogprobs": -0.5, "safetyRatings": [{"blocked": True}]}
    usage = {"trafficType": "ON_DEMAND", "toolUsePromptTokenCount": 3}
    turn = turn_of(chunk(about, createTime="t", usageMetadata=usage))
    assert dict(turn.metadata) == about | usage | {"createTime": "t"}
    assert turn.usage is None


def test_code_assist_wraps_each_chunk() -> None:
    inner = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    body = b"data: " + json.dumps({"response": inner, "traceId": "t"}).encode() + b"\n\n"
    assert turn_of(body).text == "Hi"
    assert DIALECT.completeness(streamed(body)).is_complete


def test_images_of_imagen_are_turns() -> None:
    said = {
        "predictions": [
            {"mimeType": "image/png", "bytesBase64Encoded": "AAA="},
            {"raiFilteredReason": "Filtered out."},
        ]
    }
    image, filtered = DIALECT.decode(whole(json.dumps(said).encode()))
    assert image.parts == (Media("image/png", base64="AAA="),)
    assert (filtered.parts, filtered.finish) == ((), Finish.CONTENT_FILTER)
    assert filtered.metadata == (("raiFilteredReason", "Filtered out."),)


@pytest.mark.parametrize(
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
def test_an_answer_in_which_nothing_is_said_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode(whole(body)) == ()


def test_an_error_in_the_stream_keeps_what_was_said_before() -> None:
    overloaded = Failure("The model is overloaded.", "UNAVAILABLE", "503")
    turn = turn_of(says({"text": "Hi"}), b"data: " + ERROR + b"\n\n")
    assert (turn.text, turn.finish, turn.failure) == ("Hi", None, overloaded)
    assert turn_of(b"data: " + ERROR + b"\n\n") == Turn((), failure=overloaded)
    assert turn_of(says({"text": "Hi"}), PRETTY).failure == Failure("Cancelled.", code="499")


@pytest.mark.parametrize(
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
    assert DIALECT.decode(whole(body, 502)) == (Turn((), failure=failure),)


def test_an_error_has_googles_shape() -> None:
    assert json.loads(DIALECT.error_body(424, "cassette_not_found", "text")) == {
        "error": {"code": 424, "message": "text", "status": "cassette_not_found"}
    }


KEYS = st.sampled_from(
    [
        *(*KNOWN, "thought", "thoughtSignature", "name", "args", "id", "willContinue", "data"),
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
def test_documents_of_any_shape_are_judged_and_read_into_turns_that_can_be_written(
    documents: list[dict[str, Any]], status: int
) -> None:
    spelled = [json.dumps(document).encode() for document in documents]
    events = b"".join(b"data: " + item + b"\n\n" for item in spelled)
    array = b"[" + b",".join(spelled) + b"]"
    for answer in (streamed(events), listed(array), whole(array, status), whole(spelled[0])):
        assert DIALECT.completeness(answer).reason
        assert orjson.dumps(DIALECT.decode(answer))


@given(st.lists(st.binary()), st.sampled_from(["sse", "json-array", "whole", "ndjson"]))
def test_any_bytes_are_judged_and_read(messages: list[bytes], name: str) -> None:
    answer = DialectResponse(head(), name, messages)
    assert DIALECT.completeness(answer).reason
    assert all(isinstance(turn, Turn) for turn in DIALECT.decode(answer))


NOT_WHOLE = {"29cf02695c801610": "a hand-made mock without a finishReason"}
SAYS_NOTHING = {"aa3a5fc1b8d663cf": "a batch that has begun"}
REASONS = ("every candidate finished", "prompt blocked", "in-band error", "JSON body", "HTTP")


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_answer_is_claimed_judged_and_read() -> None:
    codecs = {"gemini.sse": "sse", "gemini.json": "whole", "gemini.json-array": "json-array"}
    rows = [row for row in corpus.rows() if row.wire in codecs]
    assert len(rows) == 185
    partial, silent = set(), set()
    for row in rows:
        assert dialects.find_dialect(row.request).name == "gemini", row.id
        name = DIALECT.codec(row.request, row.head)
        assert name == codecs[row.wire], row.id
        answer = DialectResponse(row.head, name, framing.split_messages(name, row.body))
        judgement = DIALECT.completeness(answer)
        if not judgement.is_complete:
            partial.add(row.id)
        else:
            assert judgement.reason.startswith(REASONS), row.id
        if not DIALECT.decode(answer):
            silent.add(row.id)
        assert DIALECT.model(row.request), row.id
    assert partial == NOT_WHOLE.keys()
    assert silent == SAYS_NOTHING.keys()


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_no_real_part_is_of_an_unknown_kind() -> None:
    kinds: set[str] = set()
    for row in corpus.rows():
        if row.wire in ("gemini.sse", "gemini.payload"):
            for message in row.body.splitlines():
                said = message.removeprefix(b"data: ")
                if said.startswith(b"{") and len(said) > 1:
                    for candidate in json.loads(said).get("candidates", ()):
                        for part in candidate.get("content", {}).get("parts", ()):
                            assert any(name in KNOWN for name in part), (row.id, part)
                            kinds.update(part)
    assert {"text", "functionCall", "executableCode", "toolCall"} < kinds


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_arguments_that_real_models_stream_are_joined() -> None:
    (row,) = (row for row in corpus.rows() if row.id == "d0afc7200cbb0ce6")
    turn = turn_of(*(b"data: " + line + b"\n\n" for line in row.body.splitlines()))
    assert [part.arguments for part in turn.parts if isinstance(part, ToolCall)] == [
        '{"location":"Boston"}',
        '{"location":"San Francisco"}',
    ]
