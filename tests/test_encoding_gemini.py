"""`gemini` encoding, beyond what holds for every dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough

DIALECT: Final = Gemini()
FLASH: Final = "/v1beta/models/gemini-3-flash"
STREAM: Final = json_request(f"{FLASH}:streamGenerateContent", query="alt=sse")
ARRAY: Final = json_request(f"{FLASH}:streamGenerateContent")
WHOLE: Final = json_request(f"{FLASH}:generateContent")

WEATHER: Final = ToolCall("", "get_weather", '{"city":"Rome"}')
SIGNATURE_METADATA: Final = (("thoughtSignature", "c2VhbA=="),)
USAGE: Final = Usage(input=9, output=4, total=16, reasoning=3)


def encode(
    turn: Turn, request: Request = STREAM, context: EncodeContext = ENCODE_CONTEXT
) -> DialectResponse:
    return DIALECT.encode_response(request, (turn,), context)


def chunks(response: DialectResponse) -> list[dict[str, Any]]:
    """The documents of a stream of events."""
    return [json.loads(parse_event(message).data or b"") for message in response.framed_messages]


def document(response: DialectResponse) -> dict[str, Any]:
    document_fields: dict[str, Any] = json.loads(b"".join(response.framed_messages))
    return document_fields


def decode(response: DialectResponse) -> Turn:
    (turn,) = DIALECT.decode_response(response)
    return turn


def parts_of(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = chunk["candidates"][0]["content"]["parts"]
    return parts


COUNT: Final = st.none() | st.integers(0, 50)


@given(st.builds(Usage, input=st.integers(0, 50), output=COUNT, total=COUNT, reasoning=COUNT))
def test_the_total_grows_up_to_the_one_of_the_last_chunk(usage: Usage) -> None:
    stream_chunks = chunks(encode(Turn((Text("Hello, how are you?"),), usage=usage)))

    totals = [item["usageMetadata"]["totalTokenCount"] for item in stream_chunks]
    assert len(totals) > 1
    assert totals == sorted(totals)


def test_each_chunk_is_a_document_with_the_counts_up_to_there() -> None:
    turn = Turn((Reasoning("I greet."), Text("Hello")), usage=USAGE, id="r-1")
    four_char_context = replace(
        ENCODE_CONTEXT, split_text=lambda text: (text[at : at + 4] for at in range(0, len(text), 4))
    )

    stream_chunks = chunks(encode(turn, context=four_char_context))

    def candidate(part: dict[str, Any], **finish: str) -> dict[str, Any]:
        return {"content": {"parts": [part], "role": "model"}, **finish, "index": 0}

    def counts(output: int, total: int) -> dict[str, int]:
        return {
            "promptTokenCount": 9,
            "candidatesTokenCount": output,
            "totalTokenCount": total,
            "thoughtsTokenCount": 3,
        }

    identity = {"modelVersion": "gemini-3-flash", "responseId": "r-1"}
    expected_chunks: list[tuple[dict[str, Any], dict[str, int]]] = [
        (candidate({"text": "I gr", "thought": True}), counts(1, 13)),
        (candidate({"text": "eet.", "thought": True}), counts(2, 14)),
        (candidate({"text": "Hell"}), counts(3, 15)),
        (candidate({"text": "o"}, finishReason="STOP"), counts(4, 16)),
    ]
    assert stream_chunks == [
        {"candidates": [text], "usageMetadata": usage, **identity}
        for text, usage in expected_chunks
    ]


def test_a_stream_of_events_has_lines_of_data_alone_and_no_terminator() -> None:
    response = encode(Turn((Text("Hi\u2028there"),)))

    assert all(
        message.startswith(b"data: {") and message.endswith(b"}\r\n\r\n")
        for message in response.framed_messages
    )
    assert b"[DONE]" not in response.framed_messages[-1]
    assert "\u2028".encode() not in b"".join(response.framed_messages)


def test_without_alt_sse_the_same_chunks_are_the_elements_of_one_array() -> None:
    turn = Turn((Text("Hello there"),), usage=USAGE)
    response = encode(turn, ARRAY)

    assert json.loads(b"".join(response.framed_messages)) == chunks(encode(turn))
    assert [message[:2] for message in response.framed_messages] == [b"[{", b",\r", b"\n]"]
    assert response.head.headers == (("Content-Type", "application/json; charset=UTF-8"),)


def test_parallel_calls_share_a_chunk_before_the_finish() -> None:
    calls = (replace(WEATHER, metadata=SIGNATURE_METADATA), replace(WEATHER, id="b", arguments=""))
    first, last = chunks(encode(Turn(calls)))

    assert parts_of(first) == [
        {
            "functionCall": {"name": "get_weather", "args": {"city": "Rome"}},
            "thoughtSignature": "c2VhbA==",
        },
        {"functionCall": {"id": "b", "name": "get_weather", "args": {}}},
    ]
    assert parts_of(last) == [{"text": ""}]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert decode(encode(Turn(calls))).finish is FinishReason.TOOL_CALLS


def test_a_thought_signature_ends_its_part() -> None:
    turn = Turn(
        (
            Text("a", metadata=SIGNATURE_METADATA),
            Text("b "),
            Text("c"),
            Text("", metadata=SIGNATURE_METADATA),
        )
    )
    converted = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT)

    assert converted.losses == ()
    assert converted.turns[0].parts == (
        Text("a", metadata=SIGNATURE_METADATA),
        Text("b c", metadata=SIGNATURE_METADATA),
    )
    assert [parts_of(chunk)[0].get("thoughtSignature") for chunk in chunks(encode(turn))] == [
        "c2VhbA==", None, "c2VhbA==",
    ]  # fmt: skip


def test_a_signature_that_is_no_base64_is_left_out_since_clients_refuse_it() -> None:
    turn = Turn((Reasoning("mm", "§"), ToolCall("", "f", "{}", (("thoughtSignature", "§"),))))
    converted = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT)

    assert converted.turns[0].parts == (Reasoning("mm"), ToolCall("", "f", "{}"))
    assert converted.losses == (
        "signature of reasoning",
        "metadata thoughtSignature of a tool call",
    )


def test_arguments_keep_their_exact_json_and_non_objects_are_refused() -> None:
    call = ToolCall("", "f", '{"b":1.0,"a":[12345678901234567890,"é"]}')
    assert b'"args":{"b":1.0,"a":[' in encode(Turn((call,)), WHOLE).framed_messages[0]

    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        encode(Turn((replace(call, arguments="[1]"),)))
    for number in ("123456789012345678901234567890", "1e400", "-Infinity"):
        with pytest.raises(NotRepresentable, match="told exactly"):
            encode(Turn((replace(call, arguments=f'{{"id":{number}}}'),)))


def test_citations_become_grounding_metadata_with_byte_offsets() -> None:
    citations = (
        Citation("https://a", "A", span=(0, 5), metadata=(("domain", "a"),)),
        Citation("f", "F", "said", (0, 5), (("type", "retrievedContext"),)),
        Citation("https://c"),
        Citation("https://d", span=(2, 4), metadata=(("license", "mit"),)),
    )
    (candidate,) = document(encode(Turn((Text("Grüße!", citations),)), WHOLE))["candidates"]

    assert candidate["groundingMetadata"] == {
        "groundingChunks": [
            {"web": {"uri": "https://a", "title": "A", "domain": "a"}},
            {"retrievedContext": {"uri": "f", "title": "F", "text": "said"}},
            {"web": {"uri": "https://c"}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 7, "text": "Grüße"}, "groundingChunkIndices": [0, 1]}
        ],
    }
    citation_sources = [{"startIndex": 2, "endIndex": 6, "uri": "https://d", "license": "mit"}]
    assert candidate["citationMetadata"] == {"citationSources": citation_sources}


def test_a_citation_without_a_span_covers_its_text_or_the_last_one() -> None:
    source = Citation("https://a")
    turn = Turn((Text("", (source,)), Text("one", (source,)), WEATHER, Text("two")))

    (converted_turn,) = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT).turns

    one, _, two = converted_turn.parts
    assert one == Text("one", (replace(source, span=(0, 3)),))
    assert two == Text("two", (source,))


def test_other_grounding_metadata_is_kept() -> None:
    queries: Json = {"webSearchQueries": ["q"]}
    turn = Turn((Text("Hi", (Citation("https://a"),)),), metadata=(("groundingMetadata", queries),))
    (candidate,) = document(encode(turn, WHOLE))["candidates"]

    assert candidate["groundingMetadata"] == {
        "groundingChunks": [{"web": {"uri": "https://a"}}],
        "webSearchQueries": ["q"],
    }


def test_provider_tools_are_encoded_as_google_tool_parts() -> None:
    code = ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1/0"}')
    turn = Turn(
        (
            code, ToolResult("x", "no", "code_execution", failed=True),
            ToolCall("y", "web_search", '{"q":"a"}'), ToolResult("y", "found", "web_search"),
            ToolCall("z", "FILE_SEARCH", "{}"), ToolResult("z", '{"a": 1}', "FILE_SEARCH"),
        ),
    )  # fmt: skip
    (candidate,) = document(encode(turn, WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"executableCode": {"id": "x", "language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}},
        {"toolCall": {"id": "y", "toolType": "web_search", "args": {"q": "a"}}},
        {"toolResponse": {"id": "y", "toolType": "web_search", "response": {"result": "found"}}},
        {"toolCall": {"id": "z", "toolType": "FILE_SEARCH", "args": {}}},
        {"toolResponse": {"id": "z", "toolType": "FILE_SEARCH", "response": {"a": 1}}},
    ]
    assert decode(encode(turn, WHOLE)).finish is FinishReason.STOP


def test_a_call_without_an_id_is_not_taken_for_one_that_another_result_answers() -> None:
    code_call = ToolCall("", "code_execution", "{}", (("type", "executableCode"),))
    turn = Turn((code_call, ToolResult("", "2", "code_execution"), WEATHER))

    assert DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT).turns[0].parts[2] == WEATHER


def test_media_are_inline_or_by_uri_and_audio_pieces_are_joined() -> None:
    turn = Turn(
        (
            Media("audio/wav", base64="AAE="), Media("image/png", base64="AAA="),
            Media("audio/wav", base64="AgM="), Media("video/mp4", url="gs://b/v"),
        )
    )  # fmt: skip
    (candidate,) = document(encode(turn, WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"inlineData": {"mimeType": "audio/wav", "data": "AAECAw=="}},
        {"inlineData": {"mimeType": "image/png", "data": "AAA="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}},
    ]
    with pytest.raises(NotRepresentable, match="media"):
        encode(Turn((Media("audio/wav", transcript="Hi"),)))


@each_row(
    ("finish", "raw", "content"),
    [
        (FinishReason.STOP, "STOP", {"role": "model"}),
        (FinishReason.STOP_SEQUENCE, "STOP", {"role": "model"}),
        (FinishReason.LENGTH, "MAX_TOKENS", {"role": "model"}),
        (FinishReason.CONTEXT_FULL, "MAX_TOKENS", {"role": "model"}),
        (FinishReason.CONTENT_FILTER, "SAFETY", None),
        (FinishReason.REFUSAL, "SAFETY", None),
        (FinishReason.PAUSED, "CONTINUATION", {"role": "model"}),
        (FinishReason.ERROR, "MALFORMED_RESPONSE", None),
        (FinishReason.OTHER, "OTHER", {"role": "model"}),
    ],
)
def test_an_empty_answer_has_its_finish_reason(
    finish: FinishReason, raw: str, content: Json
) -> None:
    for response in (encode(Turn((), finish)), encode(Turn((), finish), WHOLE)):
        response_document = (
            chunks(response)[0] if response.codec_name == "sse" else document(response)
        )
        (candidate,) = response_document["candidates"]
        assert (candidate["finishReason"], candidate.get("content")) == (raw, content)


def test_a_numeric_finish_reason_stays_numeric() -> None:
    turn = Turn((Text("Hi"),), FinishReason.LENGTH, "2")

    assert chunks(encode(turn))[-1]["candidates"][0]["finishReason"] == 2


def test_a_refusal_is_encoded_as_text() -> None:
    converted = DIALECT.representable_turns(
        STREAM, (Turn((Text("No: "), Refusal("I won't.")), FinishReason.STOP),), ENCODE_CONTEXT
    )

    assert converted.turns[0].parts == (Text("No: I won't."),)
    assert converted.losses == ("that a refusal is one",)


@each_row("request_", [STREAM, ARRAY, WHOLE], ids=["events", "array", "document"])
def test_a_blocked_prompt_has_no_candidate(request_: Request) -> None:
    feedback: Json = {"blockReason": "OTHER"}
    blocked = Turn(
        (), FinishReason.CONTENT_FILTER, "OTHER", Usage(input=9, total=9), id="r", model="m",
        metadata=(("promptFeedback", feedback),),
    )  # fmt: skip
    response = encode(blocked, request_)

    response_document = json.loads(
        b"".join(response.framed_messages).removeprefix(b"data: ").strip(b"[]")
    )
    assert response_document == {
        "promptFeedback": feedback,
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        "modelVersion": "m",
        "responseId": "r",
    }
    assert decode(response) == blocked


def test_several_turns_are_streamed_as_interleaved_candidates() -> None:
    turns = (Turn((Text("a b"),), usage=USAGE), Turn((Text("c d e"),), FinishReason.LENGTH))
    stream_chunks = chunks(DIALECT.encode_response(STREAM, turns, ENCODE_CONTEXT))

    assert [
        [candidate["index"] for candidate in chunk["candidates"]] for chunk in stream_chunks
    ] == [
        [0, 1],
        [0, 1],
        [1],
    ]
    finishes = [
        (candidate["index"], candidate["finishReason"])
        for chunk in stream_chunks
        for candidate in chunk["candidates"]
        if "finishReason" in candidate
    ]
    assert finishes == [(0, "STOP"), (1, "MAX_TOKENS")]


def test_code_assist_wraps_each_document_and_vertex_has_its_own_citations_field() -> None:
    turn = Turn((Text("Hi", (Citation("u", metadata=(("license", "mit"),)),)),))
    assist_request = json_request(
        "/v1internal:streamGenerateContent", query="alt=sse", model="gemini-3"
    )
    vertex_request = json_request(
        "/v1/projects/p/locations/l/publishers/google/models/m:generateContent"
    )

    (wrapped,) = chunks(encode(turn, assist_request))
    (candidate,) = document(encode(turn, vertex_request))["candidates"]

    assert wrapped["response"]["modelVersion"] == "gemini-3"
    assert candidate["citationMetadata"] == {"citations": [{"uri": "u", "license": "mit"}]}


OVERLOADED: Final = Failure("The model is overloaded.", "UNAVAILABLE", "503")


def test_an_error_amid_a_stream_follows_the_content_so_far() -> None:
    turn = Turn((Text("Hel", (Citation("https://a"),)),), usage=USAGE, failure=OVERLOADED)
    response = encode(turn)

    assert response.framed_messages[-1].startswith(
        b'data: {"error":'
    )  # the prefix that clients look for
    assert "finishReason" not in chunks(response)[0]["candidates"][0]
    decoded = decode(response)
    assert (decoded.parts, decoded.usage, decoded.failure) == ((Text("Hel"),), USAGE, OVERLOADED)
    assert DIALECT.completeness(response).reason == "in-band error: The model is overloaded."
    assert json.loads(b"".join(encode(turn, ARRAY).framed_messages))[-1] == chunks(response)[-1]


@each_row(
    ("failure", "status", "error_status"),
    [
        (OVERLOADED, 503, "UNAVAILABLE"),
        (Failure("No.", "PERMISSION_DENIED"), 403, "PERMISSION_DENIED"),
        (Failure("No.", code="404"), 404, "NOT_FOUND"),
        (Failure("", "overloaded_error"), 500, "overloaded_error"),
        (Failure(""), 500, "INTERNAL"),
    ],
)
def test_an_error_in_place_of_an_answer_has_its_status(
    failure: Failure, status: int, error_status: str
) -> None:
    response = encode(Turn((), failure=failure), WHOLE)

    error = document(response)["error"]
    assert (response.head.status, error["code"], error["status"]) == (status, status, error_status)
    assert error["message"]


@each_row(
    ("status", "error_status"),
    [
        (400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"), (409, "ABORTED"), (418, "INVALID_ARGUMENT"), (499, "CANCELLED"),
        (500, "INTERNAL"), (501, "UNIMPLEMENTED"), (502, "INTERNAL"), (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)  # fmt: skip
def test_each_http_status_has_its_error_status(status: int, error_status: str) -> None:
    response = DIALECT.error_response(status, Failure("No."), ENCODE_CONTEXT)

    assert response.head.status == status
    assert document(response) == {
        "error": {"code": status, "message": "No.", "status": error_status}
    }
    assert decode(response) == Turn((), failure=Failure("No.", error_status, str(status)))


TROUBLESHOOTING_URL: Final = "https://developers.generativeai.google/guide/troubleshooting"


@each_row(
    ("status", "message"),
    [
        (400, "Request contains an invalid argument."),
        (401, "Request had invalid authentication credentials."),
        (418, "Request contains an invalid argument."),
        (502, f"An internal error has occurred. Please retry or report in {TROUBLESHOOTING_URL}"),
        (503, "The model is overloaded. Please try again later."),
        (504, "The request timed out. Please try again."),
    ],
)  # fmt: skip
def test_an_error_without_a_message_has_googles(status: int, message: str) -> None:
    response = DIALECT.error_response(status, Failure(""), ENCODE_CONTEXT)
    (decoded,) = DIALECT.decode_response(encode(Turn((), failure=Failure("", code=str(status)))))

    assert document(response)["error"]["message"] == message
    assert decoded.failure is not None
    assert decoded.failure.message == message


def test_a_code_that_is_no_status_is_the_message() -> None:
    error = document(encode(Turn((), failure=Failure("", code="slow")), WHOLE))["error"]

    assert error == {"code": 500, "message": "slow", "status": "INTERNAL"}


def test_quota_and_retry_delay_are_error_details() -> None:
    limit = RateLimitWindow(limit=15, remaining=0, reset_s=36.5)
    context = replace(ENCODE_CONTEXT, account_limits=AccountLimits(limit, limit))

    error = document(DIALECT.error_response(429, Failure("Slow."), context, 36.5))["error"]

    quota, retry = error["details"]
    assert error["status"] == "RESOURCE_EXHAUSTED"
    assert quota["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    assert [violation["quotaValue"] for violation in quota["violations"]] == ["15"]
    assert retry == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}


def auxiliary_document(request: Request, context: EncodeContext = ENCODE_CONTEXT) -> Any:
    response = DIALECT.auxiliary_response(request, context)
    assert response is not None
    return document(response)


def get_request(path: str) -> Request:
    return Request("GET", path, "", (), b"")


def test_models_are_those_of_the_encode_context() -> None:
    names = [model["name"] for model in auxiliary_document(get_request("/v1beta/models"))["models"]]
    vertex_models = auxiliary_document(get_request("/v1beta1/publishers/google/models"))[
        "publisherModels"
    ]

    assert names == ["models/small", "models/large"]
    assert vertex_models[0]["name"] == "publishers/google/models/small"
    assert auxiliary_document(get_request("/v1beta/models/small"))["name"] == "models/small"
    error = auxiliary_document(get_request("/v1beta/models/none"))["error"]
    assert error["status"] == "NOT_FOUND"
    assert error["message"] == (
        "models/none is not found for API version v1beta, or is not supported for generateContent."
        " Call ModelService.ListModels to see the list of available models and their supported"
        " methods."
    )
    any_model_context = replace(ENCODE_CONTEXT, models=())
    assert (
        auxiliary_document(get_request("/v1beta/models/none"), any_model_context)["name"]
        == "models/none"
    )


def test_tokens_are_counted_in_what_the_model_reads() -> None:
    contents = [{"role": "user", "parts": [{"text": "a" * 7}, {"inlineData": {"data": "xx"}}]}]
    system = {"parts": [{"text": "b" * 2}]}
    plain = json_request(f"{FLASH}:countTokens", contents=contents, systemInstruction=system)
    inner = {"contents": contents, "systemInstruction": system}

    assert auxiliary_document(plain)["totalTokens"] == 3
    assert auxiliary_document(
        json_request(f"{FLASH}:countTokens", generateContentRequest=inner)
    ) == auxiliary_document(plain)


def test_the_same_text_has_the_same_embedding_of_length_one() -> None:
    def content(text: str) -> dict[str, Any]:
        return {"content": {"parts": [{"text": text}]}}

    one = auxiliary_document(
        json_request(f"{FLASH}:embedContent", **content("a"), outputDimensionality=8)
    )
    both = auxiliary_document(
        json_request(f"{FLASH}:batchEmbedContents", requests=[content("a"), content("b")])
    )["embeddings"]
    vertex = auxiliary_document(
        json_request(
            "/v1/projects/p/locations/l/publishers/google/models/m:predict",
            instances=[{"content": "a"}], parameters={"outputDimensionality": 8},
        )
    )  # fmt: skip

    values = one["embedding"]["values"]
    assert sum(value * value for value in values) == pytest.approx(1)
    assert [len(item["values"]) for item in both] == [768, 768]
    assert both[0] != both[1]
    assert vertex["predictions"][0]["embeddings"]["values"] == values


@pytest.mark.parametrize("operation", ["batchGenerateContent", "asyncBatchEmbedContent"])
def test_unsupported_operations_are_refused(operation: str) -> None:
    request = json_request(f"{FLASH}:{operation}")

    assert DIALECT.auxiliary_response(request, ENCODE_CONTEXT) is None
    with pytest.raises(NotRepresentable, match=operation):
        encode(Turn((Text("Hi"),)), request)


def test_the_sample_request_asks_for_a_turn_not_an_auxiliary_response() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("tuned/a b", stream=stream)
        assert DIALECT.matches(request)
        assert DIALECT.model(request) == "tuned/a b"
        assert DIALECT.streams(request) is stream
        assert DIALECT.auxiliary_response(request, ENCODE_CONTEXT) is None
        assert encode(Turn((Text("Hi"),)), request).codec_name == ("sse" if stream else "whole")
    (chunk,) = chunks(encode(Turn((Text("Hi"),)), DIALECT.sample_request("", stream=True)))
    assert "modelVersion" not in chunk


NAMES = st.sampled_from(
    [
        *("type", "license", "domain", "placeId", "sourceUri", "thoughtSignature", "outcome"),
        *("displayName", "thought", "promptFeedback", "groundingMetadata", "createTime"),
        *("trafficType", "finishMessage", "toolUsePromptTokenCount", "partMetadata"),
    ]
)
VALUES: st.SearchStrategy[Json] = st.sampled_from(
    [
        *("executableCode", "toolCall", "codeExecutionResult", "toolResponse", "functionResponse"),
        *("maps", "retrievedContext", "image", "web", "c2ln", "§", "OUTCOME_OK", True, 1, {}),
        *({"blockReason": "OTHER"}, {"blockReason": "SAFETY"}, {"groundingChunks": [1], "a": 1}),
    ]
)
METADATA: st.SearchStrategy[Metadata] = st.dictionaries(NAMES, VALUES, max_size=3).map(
    lambda items: tuple(items.items())
)
SHORT = st.sampled_from(["", "a", "ü 🌊 b"])
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 9))
TEXTS = st.builds(
    Text,
    SHORT,
    st.lists(st.builds(Citation, SHORT, SHORT, SHORT, SPANS, METADATA), max_size=3).map(tuple),
    METADATA,
)
TOOL_NAMES = st.sampled_from(["", "f", "code_execution"])
PARTS = (
    TEXTS
    | st.builds(Reasoning, SHORT, st.sampled_from([None, "c2ln", "§"]), metadata=METADATA)
    | st.builds(ToolCall, SHORT, TOOL_NAMES, st.sampled_from(["", '{"id":1}']), METADATA)
    | st.builds(ToolResult, SHORT, SHORT, TOOL_NAMES, st.booleans(), METADATA)
    | st.builds(Media, st.sampled_from(["image/png", "audio/wav"]), SHORT, st.just("AAE="),
                metadata=METADATA)
)  # fmt: skip
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=5).map(tuple),
    finish=st.none() | st.sampled_from(FinishReason),
    finish_raw=st.sampled_from(["", "OTHER", "SAFETY", "0", "2", "FINISH_REASON_UNSPECIFIED"]),
    failure=st.none() | st.just(OVERLOADED),
    metadata=METADATA,
)


UNNAMED_CODE_RESULT: Final = Turn(
    (
        ToolCall("", "code_execution", ""),
        ToolResult("", "", metadata=(("type", "codeExecutionResult"),)),
    )
)
"""A result that answers no call: as a result of code it would answer this one once decoded."""


@settings(max_examples=quick_or_thorough(40, 200))
@given(st.lists(TURNS, min_size=1, max_size=2), st.sampled_from([STREAM, ARRAY, WHOLE]))
@example([UNNAMED_CODE_RESULT], STREAM)
def test_any_google_metadata_decodes_as_it_was_converted(
    turns: Sequence[Turn], request: Request
) -> None:
    converted = DIALECT.representable_turns(request, turns, ENCODE_CONTEXT)
    response = DIALECT.encode_response(request, turns, ENCODE_CONTEXT)

    assert DIALECT.decode_response(response) == converted.turns
    assert DIALECT.representable_turns(
        request, converted.turns, ENCODE_CONTEXT
    ) == ConvertedResponseTurns(converted.turns, ())
    assert framing.split_messages(response.codec_name, b"".join(response.framed_messages)) == list(
        response.framed_messages
    )
    assert DIALECT.completeness(response).is_complete


CHANGED_ROWS: Final = {
    "29cf02695c801610": "it says no finish: a turn that does not, finished",
    "5cc1567995f0a984": "an error amid the stream, with the verdict that came before it",
    "a0efc1b9c454f8e9": "predictions of Imagen, whose reasons no candidate has",
    "aa2b7335722e4990": "passages that its text does not have, so that sources repeat",
    "ef1f84d03657a688": "the same, with sources that name nothing",
}
"""Rows that the round trip changes in more than id and model."""
LOSSES_BY_ROW: Final = {"a0efc1b9c454f8e9": ("metadata raiFilteredReason",)}
BATCH_ROW_ID: Final = "aa3a5fc1b8d663cf"
"""A started batch job, which is no turn."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_answer_round_trips() -> None:
    wires = ("gemini.sse", "gemini.json", "gemini.json-array", "gemini.payload")
    rows = [item for item in corpus.rows() if item.wire in wires and item.id != BATCH_ROW_ID]
    changed_rows: set[str] = set()
    for row in rows:
        turns = _decode_row(row)
        converted = DIALECT.representable_turns(row.request, turns, ENCODE_CONTEXT)
        assert converted.losses == LOSSES_BY_ROW.get(row.id, ()), row.id
        assert (
            DIALECT.decode_response(DIALECT.encode_response(row.request, turns, ENCODE_CONTEXT))
            == converted.turns
        ), row.id
        if tuple(map(_without_identity, converted.turns)) != tuple(map(_without_identity, turns)):
            changed_rows.add(row.id)
    assert len(rows) == 193
    assert changed_rows == CHANGED_ROWS.keys()


def _decode_row(row: corpus.Row) -> tuple[Turn, ...]:
    if row.wire == "gemini.payload":
        events = [b"data: " + line + b"\n\n" for line in row.body.splitlines() if line]
        return DIALECT.decode_response(DialectResponse(row.head, "sse", events))
    codec = DIALECT.codec_name(row.request, row.head)
    return DIALECT.decode_response(
        DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
    )


def _without_identity(turn: Turn) -> Turn:
    return replace(turn, id="", model="")
