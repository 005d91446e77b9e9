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
from corpus_framing import with_framing
from dialect_manners import ENCODE_CONTEXT, json_request
from llm_proxy import dialects, framing
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
USAGE: Final = Usage(input=9, output=4, total=16, reasoning=3)


def encode(turn: Turn, request: Request = STREAM) -> DialectResponse:
    return DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT)


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


def test_a_stream_of_events_has_lines_of_data_alone_and_no_terminator() -> None:
    response = encode(Turn((Text("Hi\u2028there"),)))

    assert all(
        message.startswith(b"data: {") and message.endswith(b"}\r\n\r\n")
        for message in response.framed_messages
    )
    assert b"[DONE]" not in response.framed_messages[-1]
    assert "\u2028".encode() not in b"".join(response.framed_messages)


def test_without_alt_sse_each_chunk_is_a_message_of_an_array() -> None:
    response = encode(Turn((Text("Hello there"),), usage=USAGE), ARRAY)

    assert [message[:2] for message in response.framed_messages] == [b"[{", b",\r", b"\n]"]
    assert response.head.headers == (("Content-Type", "application/json; charset=UTF-8"),)


def test_texts_are_merged_up_to_a_signature() -> None:
    signed = Text("", metadata=(("thoughtSignature", "c2VhbA=="),))
    turn = Turn((replace(signed, text="a"), Text("b "), Text("c"), signed))
    converted = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT)

    assert converted.losses == ()
    assert converted.turns[0].parts == (replace(signed, text="a"), replace(signed, text="b c"))


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
    (first, _) = chunks(encode(Turn((replace(call, arguments=""),))))
    assert parts_of(first) == [{"functionCall": {"name": "f", "args": {}}}]

    with pytest.raises(NotRepresentable, match="the arguments of f are not"):
        encode(Turn((replace(call, arguments="[1]"),)))
    for number in ("123456789012345678901234567890", "1e400", "-Infinity"):
        with pytest.raises(NotRepresentable, match="exceeds 64 bits"):
            encode(Turn((replace(call, arguments=f'{{"id":{number}}}'),)))


def test_a_citation_without_a_span_covers_its_text_or_the_last_one() -> None:
    source = Citation("https://a")
    turn = Turn((Text("", (source,)), Text("one", (source,)), WEATHER, Text("two")))

    (converted_turn,) = DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT).turns

    one, _, two = converted_turn.parts
    assert one == Text("one", (replace(source, span=(0, 3)),))
    assert two == Text("two", (source,))
    (alone,) = DIALECT.representable_turns(STREAM, (Turn(turn.parts[:1]),), ENCODE_CONTEXT).turns
    assert alone.parts == (Text("", (source,)),)


def test_tools_of_another_provider_are_encoded_as_googles() -> None:
    turn = Turn(
        (
            ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1"}'),
            ToolResult("x", "no", "code_execution", failed=True),
            ToolResult("x", "1", "code_execution"),
            ToolCall("y", "web_search", '{"q":"a"}'), ToolResult("y", "found", "web_search"),
            ToolResult("y", "gone", "web_search", failed=True),
            ToolResult("z", '{"a": 1}', "FILE_SEARCH"),
        ),
    )  # fmt: skip
    (candidate,) = document(encode(turn, WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"executableCode": {"id": "x", "language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}},
        {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_OK", "output": "1"}},
        {"toolCall": {"id": "y", "toolType": "web_search", "args": {"q": "a"}}},
        {"toolResponse": {"id": "y", "toolType": "web_search", "response": {"result": "found"}}},
        {"toolResponse": {"id": "y", "toolType": "web_search", "response": {"error": "gone"}}},
        {"toolResponse": {"id": "z", "toolType": "FILE_SEARCH", "response": {"a": 1}}},
    ]
    assert candidate["finishReason"] == "STOP"


def test_a_call_without_an_id_is_not_taken_for_one_that_another_result_answers() -> None:
    code_call = ToolCall("", "code_execution", "{}", (("type", "executableCode"),))
    turn = Turn((code_call, ToolResult("", "2", "code_execution"), WEATHER))

    assert DIALECT.representable_turns(STREAM, (turn,), ENCODE_CONTEXT).turns[0].parts[2] == WEATHER


def test_audio_is_joined_and_media_without_data_are_refused() -> None:
    pieces = (Media("audio/wav", base64="AAE="), Media("audio/wav", base64="AgM="))
    (candidate,) = document(encode(Turn(pieces), WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"inlineData": {"mimeType": "audio/wav", "data": "AAECAw=="}}
    ]
    with pytest.raises(NotRepresentable, match="media"):
        encode(Turn((Media("audio/wav", transcript="Hi"),)))


OVERLOADED: Final = Failure("The model is overloaded.", "UNAVAILABLE", "503")


def test_an_error_amid_a_stream_has_no_sources_and_the_prefix_that_clients_look_for() -> None:
    response = encode(Turn((Text("Hel", (Citation("https://a"),)),), failure=OVERLOADED))

    assert response.framed_messages[-1].startswith(b'data: {"error":')
    assert decode(response).parts == (Text("Hel"),)


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
        response = encode(Turn((Text("Hi"),)), request)
        assert response.codec_name == ("sse" if stream else "whole")
        assert decode(response).model == "tuned/a b"
    (chunk,) = chunks(encode(Turn((Text("Hi"),)), DIALECT.sample_request("", stream=True)))
    assert "modelVersion" not in chunk


NAMES = st.sampled_from([
    *("type", "license", "domain", "placeId", "sourceUri", "thoughtSignature", "outcome"),
    *("displayName", "thought", "promptFeedback", "groundingMetadata", "createTime"),
    *("trafficType", "finishMessage", "toolUsePromptTokenCount", "partMetadata"),
])  # fmt: skip
VALUES: st.SearchStrategy[Json] = st.sampled_from([
    *("executableCode", "toolCall", "codeExecutionResult", "toolResponse", "functionResponse"),
    *("maps", "retrievedContext", "image", "web", "c2ln", "§", "OUTCOME_OK", True, 1, {}),
    *({"blockReason": "OTHER"}, {"blockReason": "SAFETY"}, {"groundingChunks": [1], "a": 1}),
])  # fmt: skip
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


CODECS: Final = {
    "gemini.sse": "sse", "gemini.payload": "sse", "gemini.json": "whole",
    "gemini.json-array": "json-array",
}  # fmt: skip
REASONS: Final = (
    "every candidate finished", "prompt blocked", "in-band error", "JSON body", "HTTP",
)  # fmt: skip
CHANGED_ROWS: Final = {
    "29cf02695c801610": "it says no finish: a turn that does not, finished",
    "5cc1567995f0a984": "an error amid the stream, with the verdict that came before it",
    "a0efc1b9c454f8e9": "predictions of Imagen, whose reasons no candidate has",
    "aa2b7335722e4990": "passages that its text does not have, so that sources repeat",
    "ef1f84d03657a688": "the same, with sources that name nothing",
}
"""Rows that the round trip changes in more than id and model."""
LOSSES_BY_ROW: Final = {"a0efc1b9c454f8e9": ("metadata raiFilteredReason",)}
INCOMPLETE_ROW_ID: Final = "29cf02695c801610"
"""A hand-made mock without a finishReason."""
BATCH_ROW_ID: Final = "aa3a5fc1b8d663cf"
"""A started batch job, which is no turn."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_answer_is_matched_and_complete_and_round_trips() -> None:
    rows = [with_framing(row) for row in corpus.rows() if row.wire in CODECS]
    assert len(rows) == 194
    changed_rows: set[str] = set()
    for row in rows:
        request, codec = row.request, DIALECT.codec_name(row.request, row.head)
        response = DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        completeness = DIALECT.completeness(response)
        turns = DIALECT.decode_response(response)
        assert dialects.dialect_of_request(request).name == "gemini", row.id
        assert DIALECT.model(request), row.id
        assert codec == CODECS[row.wire], row.id
        assert completeness.is_complete is (row.id != INCOMPLETE_ROW_ID), row.id
        assert completeness.reason.startswith(REASONS) is completeness.is_complete, row.id
        assert bool(turns) is (row.id != BATCH_ROW_ID), row.id
        if turns:
            converted = DIALECT.representable_turns(request, turns, ENCODE_CONTEXT)
            encoded = DIALECT.encode_response(request, turns, ENCODE_CONTEXT)
            assert converted.losses == LOSSES_BY_ROW.get(row.id, ()), row.id
            assert DIALECT.decode_response(encoded) == converted.turns, row.id
            if [*map(_without_identity, converted.turns)] != [*map(_without_identity, turns)]:
                changed_rows.add(row.id)
    assert changed_rows == CHANGED_ROWS.keys()


def _without_identity(turn: Turn) -> Turn:
    return replace(turn, id="", model="")
