"""How `gemini` is spoken, beyond what holds for every dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from dialect_manners import DELIVERY, asking
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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

DIALECT: Final = Gemini()
FLASH: Final = "/v1beta/models/gemini-3-flash"
STREAM: Final = asking(f"{FLASH}:streamGenerateContent", query="alt=sse")
ARRAY: Final = asking(f"{FLASH}:streamGenerateContent")
WHOLE: Final = asking(f"{FLASH}:generateContent")

WEATHER: Final = ToolCall("", "get_weather", '{"city":"Rome"}')
SEAL: Final = (("thoughtSignature", "c2VhbA=="),)
USAGE: Final = Usage(input=9, output=4, total=16, reasoning=3)


def told(
    turn: Turn, request: Request = STREAM, delivery: EncodeContext = DELIVERY
) -> DialectResponse:
    return DIALECT.encode(request, (turn,), delivery)


def chunks(response: DialectResponse) -> list[dict[str, Any]]:
    """The documents of a stream of events."""
    return [json.loads(parse_event(message).data or b"") for message in response.messages]


def document(response: DialectResponse) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(b"".join(response.messages))
    return said


def read(response: DialectResponse) -> Turn:
    (turn,) = DIALECT.decode(response)
    return turn


def parts_of(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = chunk["candidates"][0]["content"]["parts"]
    return parts


COUNT: Final = st.none() | st.integers(0, 50)


@given(st.builds(Usage, input=st.integers(0, 50), output=COUNT, total=COUNT, reasoning=COUNT))
def test_the_total_grows_up_to_the_one_of_the_last_chunk(usage: Usage) -> None:
    said = chunks(told(Turn((Text("Hello, how are you?"),), usage=usage)))

    totals = [item["usageMetadata"]["totalTokenCount"] for item in said]
    assert len(totals) > 1
    assert totals == sorted(totals)


def test_each_chunk_is_a_document_with_the_counts_up_to_there() -> None:
    turn = Turn((Reasoning("I greet."), Text("Hello")), usage=USAGE, id="r-1")
    by_four = replace(
        DELIVERY, split_text=lambda it: (it[at : at + 4] for at in range(0, len(it), 4))
    )

    said = chunks(told(turn, delivery=by_four))

    def candidate(part: dict[str, Any], **ended: str) -> dict[str, Any]:
        return {"content": {"parts": [part], "role": "model"}, **ended, "index": 0}

    def counts(output: int, total: int) -> dict[str, int]:
        return {
            "promptTokenCount": 9,
            "candidatesTokenCount": output,
            "totalTokenCount": total,
            "thoughtsTokenCount": 3,
        }

    about = {"modelVersion": "gemini-3-flash", "responseId": "r-1"}
    growth: list[tuple[dict[str, Any], dict[str, int]]] = [
        (candidate({"text": "I gr", "thought": True}), counts(1, 13)),
        (candidate({"text": "eet.", "thought": True}), counts(2, 14)),
        (candidate({"text": "Hell"}), counts(3, 15)),
        (candidate({"text": "o"}, finishReason="STOP"), counts(4, 16)),
    ]
    assert said == [{"candidates": [it], "usageMetadata": usage, **about} for it, usage in growth]


def test_a_stream_of_events_has_lines_of_data_alone_and_no_terminator() -> None:
    response = told(Turn((Text("Hi\u2028there"),)))

    assert all(
        message.startswith(b"data: {") and message.endswith(b"}\r\n\r\n")
        for message in response.messages
    )
    assert b"[DONE]" not in response.messages[-1]
    assert "\u2028".encode() not in b"".join(response.messages)


def test_without_alt_sse_the_same_chunks_are_the_elements_of_one_array() -> None:
    turn = Turn((Text("Hello there"),), usage=USAGE)
    response = told(turn, ARRAY)

    assert json.loads(b"".join(response.messages)) == chunks(told(turn))
    assert [message[:2] for message in response.messages] == [b"[{", b",\r", b"\n]"]
    assert response.head.headers == (("Content-Type", "application/json; charset=UTF-8"),)


def test_calls_that_are_asked_for_at_once_share_a_chunk_before_the_one_that_finishes() -> None:
    calls = (replace(WEATHER, metadata=SEAL), replace(WEATHER, id="b", arguments=""))
    first, last = chunks(told(Turn(calls)))

    assert parts_of(first) == [
        {
            "functionCall": {"name": "get_weather", "args": {"city": "Rome"}},
            "thoughtSignature": "c2VhbA==",
        },
        {"functionCall": {"id": "b", "name": "get_weather", "args": {}}},
    ]
    assert parts_of(last) == [{"text": ""}]
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert read(told(Turn(calls))).finish is Finish.TOOL_CALLS


def test_a_seal_ends_its_part_and_only_that_one() -> None:
    turn = Turn((Text("a", metadata=SEAL), Text("b "), Text("c"), Text("", metadata=SEAL)))
    fits = DIALECT.convert(STREAM, (turn,), DELIVERY)

    assert fits.losses == ()
    assert fits.turns[0].parts == (Text("a", metadata=SEAL), Text("b c", metadata=SEAL))
    assert [parts_of(chunk)[0].get("thoughtSignature") for chunk in chunks(told(turn))] == [
        "c2VhbA==", None, "c2VhbA==",
    ]  # fmt: skip


def test_a_signature_that_is_no_base64_is_left_out_since_clients_refuse_it() -> None:
    turn = Turn((Reasoning("mm", "§"), ToolCall("", "f", "{}", (("thoughtSignature", "§"),))))
    fits = DIALECT.convert(STREAM, (turn,), DELIVERY)

    assert fits.turns[0].parts == (Reasoning("mm"), ToolCall("", "f", "{}"))
    assert fits.losses == ("signature of reasoning", "metadata thoughtSignature of a tool call")


def test_arguments_keep_their_spelling_and_what_is_no_object_is_refused() -> None:
    call = ToolCall("", "f", '{"b":1.0,"a":[12345678901234567890,"é"]}')
    assert b'"args":{"b":1.0,"a":[' in told(Turn((call,)), WHOLE).messages[0]

    with pytest.raises(NotRepresentable, match="the arguments of a call"):
        told(Turn((replace(call, arguments="[1]"),)))
    with pytest.raises(NotRepresentable, match="told exactly"):
        told(Turn((replace(call, arguments='{"id":123456789012345678901234567890}'),)))


def test_sources_are_grounding_and_passages_are_in_bytes() -> None:
    cited = (
        Citation("https://a", "A", span=(0, 5), metadata=(("domain", "a"),)),
        Citation("f", "F", "said", (0, 5), (("type", "retrievedContext"),)),
        Citation("https://c"),
        Citation("https://d", span=(2, 4), metadata=(("license", "mit"),)),
    )
    (candidate,) = document(told(Turn((Text("Grüße!", cited),)), WHOLE))["candidates"]

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
    recited = [{"startIndex": 2, "endIndex": 6, "uri": "https://d", "license": "mit"}]
    assert candidate["citationMetadata"] == {"citationSources": recited}


def test_a_source_without_a_passage_rests_on_its_text_or_on_the_last_one() -> None:
    source = Citation("https://a")
    turn = Turn((Text("", (source,)), Text("one", (source,)), WEATHER, Text("two")))

    (fitted,) = DIALECT.convert(STREAM, (turn,), DELIVERY).turns

    one, _, two = fitted.parts
    assert one == Text("one", (replace(source, span=(0, 3)),))
    assert two == Text("two", (source,))


def test_what_grounding_says_beside_its_sources_is_told_with_them() -> None:
    said: Json = {"webSearchQueries": ["q"]}
    turn = Turn((Text("Hi", (Citation("https://a"),)),), metadata=(("groundingMetadata", said),))
    (candidate,) = document(told(turn, WHOLE))["candidates"]

    assert candidate["groundingMetadata"] == {
        "groundingChunks": [{"web": {"uri": "https://a"}}],
        "webSearchQueries": ["q"],
    }


def test_the_tools_of_a_provider_are_calls_and_results_of_google() -> None:
    code = ToolCall("x", "code_execution", '{"language":"PYTHON","code":"1/0"}')
    turn = Turn(
        (
            code, ToolResult("x", "no", "code_execution", failed=True),
            ToolCall("y", "web_search", '{"q":"a"}'), ToolResult("y", "found", "web_search"),
            ToolCall("z", "FILE_SEARCH", "{}"), ToolResult("z", '{"a": 1}', "FILE_SEARCH"),
        ),
    )  # fmt: skip
    (candidate,) = document(told(turn, WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"executableCode": {"id": "x", "language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"id": "x", "outcome": "OUTCOME_FAILED", "output": "no"}},
        {"toolCall": {"id": "y", "toolType": "web_search", "args": {"q": "a"}}},
        {"toolResponse": {"id": "y", "toolType": "web_search", "response": {"result": "found"}}},
        {"toolCall": {"id": "z", "toolType": "FILE_SEARCH", "args": {}}},
        {"toolResponse": {"id": "z", "toolType": "FILE_SEARCH", "response": {"a": 1}}},
    ]
    assert read(told(turn, WHOLE)).finish is Finish.STOP


def test_a_call_without_an_id_is_not_taken_for_one_that_another_result_answers() -> None:
    run = ToolCall("", "code_execution", "{}", (("type", "executableCode"),))
    turn = Turn((run, ToolResult("", "2", "code_execution"), WEATHER))

    assert DIALECT.convert(STREAM, (turn,), DELIVERY).turns[0].parts[2] == WEATHER


def test_media_are_inline_or_by_reference_and_pieces_of_a_sound_are_one() -> None:
    turn = Turn(
        (
            Media("audio/wav", base64="AAE="), Media("image/png", base64="AAA="),
            Media("audio/wav", base64="AgM="), Media("video/mp4", url="gs://b/v"),
        )
    )  # fmt: skip
    (candidate,) = document(told(turn, WHOLE))["candidates"]

    assert candidate["content"]["parts"] == [
        {"inlineData": {"mimeType": "audio/wav", "data": "AAECAw=="}},
        {"inlineData": {"mimeType": "image/png", "data": "AAA="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}},
    ]
    with pytest.raises(NotRepresentable, match="media"):
        told(Turn((Media("audio/wav", transcript="Hi"),)))


@pytest.mark.parametrize(
    ("finish", "raw", "content"),
    [
        (Finish.STOP, "STOP", {"role": "model"}),
        (Finish.STOP_SEQUENCE, "STOP", {"role": "model"}),
        (Finish.LENGTH, "MAX_TOKENS", {"role": "model"}),
        (Finish.CONTEXT_FULL, "MAX_TOKENS", {"role": "model"}),
        (Finish.CONTENT_FILTER, "SAFETY", None),
        (Finish.REFUSAL, "SAFETY", None),
        (Finish.PAUSED, "CONTINUATION", {"role": "model"}),
        (Finish.ERROR, "MALFORMED_RESPONSE", None),
        (Finish.OTHER, "OTHER", {"role": "model"}),
    ],
)
def test_an_answer_without_words_says_why_it_finished(
    finish: Finish, raw: str, content: Json
) -> None:
    for response in (told(Turn((), finish)), told(Turn((), finish), WHOLE)):
        said = chunks(response)[0] if response.codec == "sse" else document(response)
        (candidate,) = said["candidates"]
        assert (candidate["finishReason"], candidate.get("content")) == (raw, content)


def test_a_finish_in_numbers_is_told_in_numbers() -> None:
    turn = Turn((Text("Hi"),), Finish.LENGTH, "2")

    assert chunks(told(turn))[-1]["candidates"][0]["finishReason"] == 2


def test_a_refusal_is_told_as_text() -> None:
    fits = DIALECT.convert(
        STREAM, (Turn((Text("No: "), Refusal("I won't.")), Finish.STOP),), DELIVERY
    )

    assert fits.turns[0].parts == (Text("No: I won't."),)
    assert fits.losses == ("that a refusal is one",)


@pytest.mark.parametrize("request_", [STREAM, ARRAY, WHOLE], ids=["events", "array", "document"])
def test_a_blocked_prompt_has_no_candidate(request_: Request) -> None:
    feedback: Json = {"blockReason": "OTHER"}
    blocked = Turn(
        (), Finish.CONTENT_FILTER, "OTHER", Usage(input=9, total=9), id="r", model="m",
        metadata=(("promptFeedback", feedback),),
    )  # fmt: skip
    response = told(blocked, request_)

    said = json.loads(b"".join(response.messages).removeprefix(b"data: ").strip(b"[]"))
    assert said == {
        "promptFeedback": feedback,
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
        "modelVersion": "m",
        "responseId": "r",
    }
    assert read(response) == blocked


def test_several_turns_are_candidates_that_grow_side_by_side() -> None:
    turns = (Turn((Text("a b"),), usage=USAGE), Turn((Text("c d e"),), Finish.LENGTH))
    said = chunks(DIALECT.encode(STREAM, turns, DELIVERY))

    assert [[candidate["index"] for candidate in chunk["candidates"]] for chunk in said] == [
        [0, 1],
        [0, 1],
        [1],
    ]
    finishes = [
        (candidate["index"], candidate["finishReason"])
        for chunk in said
        for candidate in chunk["candidates"]
        if "finishReason" in candidate
    ]
    assert finishes == [(0, "STOP"), (1, "MAX_TOKENS")]


def test_code_assist_wraps_each_document_and_vertex_names_recitals_in_its_own_way() -> None:
    turn = Turn((Text("Hi", (Citation("u", metadata=(("license", "mit"),)),)),))
    assist = asking("/v1internal:streamGenerateContent", query="alt=sse", model="gemini-3")
    vertex = asking("/v1/projects/p/locations/l/publishers/google/models/m:generateContent")

    (wrapped,) = chunks(told(turn, assist))
    (candidate,) = document(told(turn, vertex))["candidates"]

    assert wrapped["response"]["modelVersion"] == "gemini-3"
    assert candidate["citationMetadata"] == {"citations": [{"uri": "u", "license": "mit"}]}


OVERLOADED: Final = Failure("The model is overloaded.", "UNAVAILABLE", "503")


def test_an_error_amid_a_stream_comes_behind_what_was_said_by_then() -> None:
    turn = Turn((Text("Hel", (Citation("https://a"),)),), usage=USAGE, failure=OVERLOADED)
    response = told(turn)

    assert response.messages[-1].startswith(b'data: {"error":')  # what clients look for
    assert "finishReason" not in chunks(response)[0]["candidates"][0]
    heard = read(response)
    assert (heard.parts, heard.usage, heard.failure) == ((Text("Hel"),), USAGE, OVERLOADED)
    assert DIALECT.completeness(response).reason == "in-band error: The model is overloaded."
    assert json.loads(b"".join(told(turn, ARRAY).messages))[-1] == chunks(response)[-1]


@pytest.mark.parametrize(
    ("failure", "status", "word"),
    [
        (OVERLOADED, 503, "UNAVAILABLE"),
        (Failure("No.", "PERMISSION_DENIED"), 403, "PERMISSION_DENIED"),
        (Failure("No.", code="404"), 404, "NOT_FOUND"),
        (Failure("", "overloaded_error"), 500, "overloaded_error"),
        (Failure(""), 500, "INTERNAL"),
    ],
)
def test_an_error_in_place_of_an_answer_has_its_status(
    failure: Failure, status: int, word: str
) -> None:
    response = told(Turn((), failure=failure), WHOLE)

    error = document(response)["error"]
    assert (response.head.status, error["code"], error["status"]) == (status, status, word)
    assert error["message"]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"), (409, "ABORTED"), (418, "INVALID_ARGUMENT"), (499, "CANCELLED"),
        (500, "INTERNAL"), (501, "UNIMPLEMENTED"), (502, "INTERNAL"), (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)  # fmt: skip
def test_each_status_has_its_word(status: int, word: str) -> None:
    response = DIALECT.error_response(status, Failure("No."), DELIVERY)

    assert response.head.status == status
    assert document(response) == {"error": {"code": status, "message": "No.", "status": word}}
    assert read(response) == Turn((), failure=Failure("No.", word, str(status)))


GUIDE: Final = "https://developers.generativeai.google/guide/troubleshooting"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Request contains an invalid argument."),
        (401, "Request had invalid authentication credentials."),
        (418, "Request contains an invalid argument."),
        (502, f"An internal error has occurred. Please retry or report in {GUIDE}"),
        (503, "The model is overloaded. Please try again later."),
        (504, "The request timed out. Please try again."),
    ],
)  # fmt: skip
def test_a_status_that_comes_without_words_has_googles(status: int, message: str) -> None:
    response = DIALECT.error_response(status, Failure(""), DELIVERY)
    (broken,) = DIALECT.decode(told(Turn((), failure=Failure("", code=str(status)))))

    assert document(response)["error"]["message"] == message
    assert broken.failure is not None
    assert broken.failure.message == message


def test_a_code_that_is_no_status_stands_in_place_of_words() -> None:
    error = document(told(Turn((), failure=Failure("", code="slow")), WHOLE))["error"]

    assert error == {"code": 500, "message": "slow", "status": "INTERNAL"}


def test_a_quota_and_when_to_ask_again_are_details() -> None:
    limit = RateLimitWindow(limit=15, remaining=0, reset=36.5)
    delivery = replace(DELIVERY, quota=AccountLimits(limit, limit))

    error = document(DIALECT.error_response(429, Failure("Slow."), delivery, 36.5))["error"]

    quota, retry = error["details"]
    assert error["status"] == "RESOURCE_EXHAUSTED"
    assert quota["@type"] == "type.googleapis.com/google.rpc.QuotaFailure"
    assert [violation["quotaValue"] for violation in quota["violations"]] == ["15"]
    assert retry == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}


def aside(request: Request, delivery: EncodeContext = DELIVERY) -> Any:
    response = DIALECT.auxiliary_response(request, delivery)
    assert response is not None
    return document(response)


def listed(path: str) -> Request:
    return Request("GET", path, "", (), b"")


def test_models_are_those_that_the_delivery_names() -> None:
    names = [model["name"] for model in aside(listed("/v1beta/models"))["models"]]
    vertex = aside(listed("/v1beta1/publishers/google/models"))["publisherModels"]

    assert names == ["models/small", "models/large"]
    assert vertex[0]["name"] == "publishers/google/models/small"
    assert aside(listed("/v1beta/models/small"))["name"] == "models/small"
    error = aside(listed("/v1beta/models/none"))["error"]
    assert error["status"] == "NOT_FOUND"
    assert error["message"] == (
        "models/none is not found for API version v1beta, or is not supported for generateContent."
        " Call ModelService.ListModels to see the list of available models and their supported"
        " methods."
    )
    anything = replace(DELIVERY, models=())
    assert aside(listed("/v1beta/models/none"), anything)["name"] == "models/none"


def test_tokens_are_counted_in_what_the_model_reads() -> None:
    contents = [{"role": "user", "parts": [{"text": "a" * 7}, {"inlineData": {"data": "xx"}}]}]
    system = {"parts": [{"text": "b" * 2}]}
    plain = asking(f"{FLASH}:countTokens", contents=contents, systemInstruction=system)
    inner = {"contents": contents, "systemInstruction": system}

    assert aside(plain)["totalTokens"] == 3
    assert aside(asking(f"{FLASH}:countTokens", generateContentRequest=inner)) == aside(plain)


def test_the_same_text_has_the_same_embedding_of_length_one() -> None:
    def content(text: str) -> dict[str, Any]:
        return {"content": {"parts": [{"text": text}]}}

    one = aside(asking(f"{FLASH}:embedContent", **content("a"), outputDimensionality=8))
    both = aside(asking(f"{FLASH}:batchEmbedContents", requests=[content("a"), content("b")]))[
        "embeddings"
    ]
    vertex = aside(
        asking(
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
def test_what_is_neither_a_turn_nor_beside_one_is_refused(operation: str) -> None:
    request = asking(f"{FLASH}:{operation}")

    assert DIALECT.auxiliary_response(request, DELIVERY) is None
    with pytest.raises(NotRepresentable, match=operation):
        told(Turn((Text("Hi"),)), request)


def test_a_turn_is_no_side_answer_and_a_typical_request_asks_for_one() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("tuned/a b", stream=stream)
        assert DIALECT.matches(request)
        assert DIALECT.model(request) == "tuned/a b"
        assert DIALECT.streams(request) is stream
        assert DIALECT.auxiliary_response(request, DELIVERY) is None
        assert told(Turn((Text("Hi"),)), request).codec == ("sse" if stream else "whole")
    (said,) = chunks(told(Turn((Text("Hi"),)), DIALECT.sample_request("", stream=True)))
    assert "modelVersion" not in said


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
    lambda it: tuple(it.items())
)
SHORT = st.sampled_from(["", "a", "ü 🌊 b"])
SPANS = st.none() | st.tuples(st.integers(0, 5), st.integers(0, 9))
TEXTS = st.builds(
    Text,
    SHORT,
    st.lists(st.builds(Citation, SHORT, SHORT, SHORT, SPANS, METADATA), max_size=3).map(tuple),
    METADATA,
)
CALLED = st.sampled_from(["", "f", "code_execution"])
PARTS = (
    TEXTS
    | st.builds(Reasoning, SHORT, st.sampled_from([None, "c2ln", "§"]), metadata=METADATA)
    | st.builds(ToolCall, SHORT, CALLED, st.sampled_from(["", '{"id":1}']), METADATA)
    | st.builds(ToolResult, SHORT, SHORT, CALLED, st.booleans(), METADATA)
    | st.builds(Media, st.sampled_from(["image/png", "audio/wav"]), SHORT, st.just("AAE="),
                metadata=METADATA)
)  # fmt: skip
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=5).map(tuple),
    finish=st.none() | st.sampled_from(Finish),
    finish_raw=st.sampled_from(["", "OTHER", "SAFETY", "0", "2", "FINISH_REASON_UNSPECIFIED"]),
    failure=st.none() | st.just(OVERLOADED),
    metadata=METADATA,
)


@settings(max_examples=150)
@given(st.lists(TURNS, min_size=1, max_size=2), st.sampled_from([STREAM, ARRAY, WHOLE]))
def test_googles_own_words_are_told_and_read_as_they_fit(
    turns: Sequence[Turn], request: Request
) -> None:
    fits = DIALECT.convert(request, turns, DELIVERY)
    response = DIALECT.encode(request, turns, DELIVERY)

    assert DIALECT.decode(response) == fits.turns
    assert DIALECT.convert(request, fits.turns, DELIVERY) == ConvertedTurns(fits.turns, ())
    assert framing.split_messages(response.codec, b"".join(response.messages)) == list(
        response.messages
    )
    assert DIALECT.completeness(response).is_complete


RETOLD: Final = {
    "29cf02695c801610": "it says no finish: a turn that does not, finished",
    "5cc1567995f0a984": "an error amid the stream, with the verdict that came before it",
    "a0efc1b9c454f8e9": "predictions of Imagen, whose reasons no candidate has",
    "aa2b7335722e4990": "passages that its text does not have, so that sources repeat",
    "ef1f84d03657a688": "the same, with sources that name nothing",
}
"""Rows of which more is made, or less is left, than an id and a model."""
LOST: Final = {"a0efc1b9c454f8e9": ("metadata raiFilteredReason",)}
NO_TURN: Final = "aa3a5fc1b8d663cf"
"""A batch that has begun."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_answer_can_be_told_again_and_says_the_same() -> None:
    wires = ("gemini.sse", "gemini.json", "gemini.json-array", "gemini.payload")
    rows = [item for item in corpus.rows() if item.wire in wires and item.id != NO_TURN]
    otherwise: set[str] = set()
    for row in rows:
        turns = _recorded(row)
        fits = DIALECT.convert(row.request, turns, DELIVERY)
        assert fits.losses == LOST.get(row.id, ()), row.id
        assert DIALECT.decode(DIALECT.encode(row.request, turns, DELIVERY)) == fits.turns, row.id
        if tuple(map(_unnamed, fits.turns)) != tuple(map(_unnamed, turns)):
            otherwise.add(row.id)
    assert len(rows) == 193
    assert otherwise == RETOLD.keys()


def _recorded(row: corpus.Row) -> tuple[Turn, ...]:
    if row.wire == "gemini.payload":
        events = [b"data: " + line + b"\n\n" for line in row.body.splitlines() if line]
        return DIALECT.decode(DialectResponse(row.head, "sse", events))
    codec = DIALECT.codec(row.request, row.head)
    return DIALECT.decode(DialectResponse(row.head, codec, framing.split_messages(codec, row.body)))


def _unnamed(turn: Turn) -> Turn:
    return replace(turn, id="", model="")
