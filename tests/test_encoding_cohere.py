"""What Cohere's dialect tells, held against real events, and every real answer."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import corpus
from cohere_streams import CHAT, DONE, OPENING, TEXT, TOOLS, call, content, ending, event
from dialect_manners import DELIVERY, asking
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.cohere import tokens
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import AccountLimits, RateLimitWindow
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

DIALECT = Cohere()
TOLD = replace(DELIVERY, split_text=lambda text: [text])
PLAN = (("type", "tool_plan"),)
SDK = ("X-Fern-SDK-Name", "cohere")
NEW, OLD = "/v2/chat", "/v1/chat"


def asked(path: str = NEW, **body: Any) -> Request:
    return asking(path, **{"model": "command-a", "message": "Hi", **body})


def said(response: DialectResponse) -> list[Any]:
    """The documents of an answer, without `[DONE]`."""
    found = (message.rpartition(b"data: ")[2] for message in response.messages)
    return [json.loads(item) for item in found if item.strip() != b"[DONE]"]


def told(turn: Turn, path: str = NEW, **body: Any) -> list[Any]:
    return said(DIALECT.encode(asked(path, **body), [turn], TOLD))


def read(body: bytes, codec: str = "sse") -> Turn:
    request = asked(NEW if codec == "sse" else OLD, stream=True)
    head = DIALECT.encode(request, [Turn(())], TOLD).head
    [turn] = DIALECT.decode(DialectResponse(head, codec, framing.split_messages(codec, body)))
    return turn


@pytest.mark.parametrize("stream", [TEXT, TOOLS], ids=["thoughts and text", "a plan and calls"])
def test_a_real_stream_is_told_again_event_by_event(stream: bytes) -> None:
    turn = read(stream)
    pieces = {"Hello": ["Hel", "lo"], '{"city":"Rome"}': ['{"city":', '"Rome"}'], "{}": []}
    pieces["I will check."] = ["I will ", "check."]
    delivery = replace(DELIVERY, split_text=lambda text: pieces.get(text, [text]))

    response = DIALECT.encode(asked(stream=True), [turn], delivery)

    assert b"".join(response.messages) == stream + DONE
    assert response.head.headers[0] == ("Content-Type", "text/event-stream")
    assert response.messages[0].startswith(b"event: message-start\ndata: {")


def test_the_same_turn_as_a_document() -> None:
    assert told(read(TEXT)) == [
        {
            "id": "co-1",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I should greet."},
                    {"type": "text", "text": "Hello"},
                ],
            },
            "finish_reason": "COMPLETE",
            "usage": {
                "billed_units": {"input_tokens": 9, "output_tokens": 5},
                "tokens": {"input_tokens": 9, "output_tokens": 5},
            },
        }
    ]


def test_a_document_has_its_plan_and_its_calls_in_places_of_their_own() -> None:
    [document] = told(read(TOOLS))

    message = document["message"]
    assert list(message) == ["role", "tool_plan", "tool_calls"]
    assert message["tool_plan"] == "I will check."
    functions = [tool_call["function"] for tool_call in message["tool_calls"]]
    assert functions == [
        {"name": "weather", "arguments": '{"city":"Rome"}'},
        {"name": "clock", "arguments": "{}"},
    ]


def test_an_answer_of_nothing_has_a_text_of_nothing() -> None:
    [document] = told(Turn(()))

    assert document["message"]["content"] == [{"type": "text", "text": ""}]
    assert document["usage"]["tokens"] == {"input_tokens": 0, "output_tokens": 0}


def test_all_counts_are_told_where_they_belong() -> None:
    usage = Usage(input=500, output=20, cache_read=448, reasoning=7)
    beside: Json = {"input_tokens": 12, "output_tokens": 13}
    metadata: Metadata = (("billed_units", beside), ("warnings", ["old"]), ("image_tokens", 259))
    turn = Turn((Text("a"),), usage=usage, metadata=metadata)

    [document] = told(turn)

    assert document["usage"] == {
        "billed_units": beside,
        "warnings": ["old"],
        "tokens": {
            "input_tokens": 500, "output_tokens": 20, "reasoning_tokens": 7, "image_tokens": 259,
        },
        "cached_tokens": 448,
    }  # fmt: skip


def _cited(name: str, at: int, **more: Any) -> Citation:
    beside: Any = (("source", name), ("source_type", "document"))
    return Citation(quoted="Ruby is a gem.", span=(at, at + 4), metadata=beside, **more)


def test_citations_stand_in_the_block_that_they_are_of() -> None:
    two = (_cited("doc:0", 0), _cited("doc:1", 0, url="https://a.example"), _cited("doc:0", 8))
    turn = Turn((Reasoning("Hm."), Text("Ruby is Ruby", citations=two)))
    source = {"type": "document", "id": "doc:0", "document": {"text": "Ruby is a gem."}}
    other = {"url": "https://a.example", "text": "Ruby is a gem."}
    first = {
        "start": 0, "end": 4, "text": "Ruby", "type": "TEXT_CONTENT", "content_index": 1,
        "sources": [source, {"type": "document", "id": "doc:1", "document": other}],
    }  # fmt: skip
    second = {**first, "start": 8, "end": 12, "sources": [source]}

    events = told(turn, stream=True)

    assert events[-6:-1] == [
        event("citation-start", 0, {"citations": first}),
        event("citation-end", 0),
        event("citation-start", 1, {"citations": second}),
        event("citation-end", 1),
        content("end", 1),
    ]
    assert told(turn)[0]["message"]["citations"] == [first, second]


def test_what_a_tool_gave_is_cited_as_that() -> None:
    beside = (("source", "t:0"), ("source_type", "tool"))
    cited = (Citation(quoted="15 °C", span=(0, 2), metadata=beside), Citation(span=(3, 5)))

    [document] = told(Turn((Text("15 °C", citations=cited),)))

    assert [citation["sources"] for citation in document["message"]["citations"]] == [
        [{"type": "tool", "id": "t:0", "tool_output": {"content": "15 °C"}}],
        [],
    ]


def test_citations_of_a_plan_are_told_as_they_were() -> None:
    of_plan: Json = [{"start": 0, "end": 1, "text": "I", "type": "PLAN", "sources": [{"id": "d"}]}]
    metadata = (("citations", of_plan),)
    turn = Turn((Reasoning("I look.", metadata=PLAN),), metadata=metadata)

    events = told(turn, stream=True)

    assert isinstance(of_plan, list)
    assert event("citation-start", 0, {"citations": of_plan[0]}) in events
    assert told(turn)[0]["message"]["citations"] == of_plan
    not_of_it = replace(turn, metadata=(("citations", [{"start": 0}, 7, {"type": 7}]),))
    assert "citations" not in told(not_of_it)[0]["message"]


def test_an_error_amid_a_stream_is_its_last_event() -> None:
    failure = Failure("invalid tool generation", "INVALID_TOOL_GENERATION", "422")
    turn = Turn(
        (Reasoning("I will", metadata=PLAN),), usage=Usage(1, 2), failure=failure, id="co-1"
    )
    why = {"error": failure.message, "error_type": failure.type}

    response = DIALECT.encode(asked(stream=True), [turn], TOLD)

    ended = {"type": "message-end", "delta": {"finish_reason": "ERROR", "usage": {}, **why}}
    plan = event("tool-plan-delta", message={"tool_plan": "I will"})
    assert said(response) == [OPENING, plan, ended]
    assert response.messages[-1] == DONE


def test_the_older_chat_is_told_in_lines_that_the_last_one_repeats() -> None:
    turn = replace(read(CHAT, "ndjson"), usage=Usage(69, 2))
    delivery = replace(DELIVERY, split_text=lambda _: ["Hel", "lo"])

    response = DIALECT.encode(asked(OLD, stream=True), [turn], delivery)

    history = {"role": "CHATBOT", "message": "Hello"}
    expected = CHAT.decode().replace(
        '"USER","message":"Hi"}]', f'"USER","message":"Hi"}},{json.dumps(history)}]'
    )
    assert said(response) == [json.loads(splitline) for splitline in expected.splitlines()]
    assert response.codec == "ndjson"
    assert response.head.headers[0] == ("Content-Type", "application/stream+json")
    whole = DIALECT.encode(asked(OLD), [turn], delivery)
    assert said(whole) == [said(response)[-1]["response"]]


def test_the_older_chat_comes_as_events_to_those_who_want_them() -> None:
    request = asking(OLD, ("Accepts", "text/event-stream"), stream=True, message="Hi")

    response = DIALECT.encode(request, [Turn((Text("Hello"),))], TOLD)

    assert response.messages[0].startswith(b"event: stream-start\ndata: {")
    assert response.head.headers[0] == ("Content-Type", "text/event-stream")
    assert DIALECT.completeness(response).is_complete


def test_the_older_chat_tells_calls_in_pieces_and_then_whole() -> None:
    calls = (ToolCall("a", "f", '{"city": "Rome"}'), ToolCall("b", "g", ""))
    whole = [{"name": "f", "parameters": {"city": "Rome"}}, {"name": "g", "parameters": {}}]

    start, *events, end = told(Turn((Text("I look."), *calls)), OLD, stream=True)

    assert start["event_type"] == "stream-start"
    kinds = [item["event_type"] for item in events]
    assert kinds == ["text-generation", *["tool-calls-chunk"] * 4, "tool-calls-generation"]
    assert events[1]["tool_call_delta"] == {"name": "f", "index": 0}
    assert events[2]["tool_call_delta"] == {"index": 0, "parameters": '{"city":"Rome"}'}
    assert (events[-1]["text"], events[-1]["tool_calls"]) == ("I look.", whole)
    assert (end["finish_reason"], end["response"]["tool_calls"]) == ("COMPLETE", whole)
    assert end["response"]["chat_history"][-1]["tool_calls"] == whole


def test_the_older_chat_names_documents_and_tells_them_first() -> None:
    known: Json = [{"id": "d0", "title": "Facts", "snippet": "A gem."}]
    cited = (
        Citation(title="Facts", quoted="A gem.", span=(0, 4), metadata=(("source", "d0"),)),
        Citation(url="https://a.example", span=(0, 4)),
        Citation(title="Other", span=(8, 12), metadata=(("source", "d0"),)),
        Citation(span=(8, 12), metadata=(("source", "d0"),)),
        Citation(span=(5, 7)),
    )
    turn = Turn((Text("Ruby is Ruby", citations=cited),), metadata=(("documents", known),))

    _, results, *_, citations, end = told(turn, OLD, stream=True)

    assert results["event_type"] == "search-results"
    documents = results["documents"]
    assert documents == end["response"]["documents"]
    assert [document["id"] for document in documents] == ["d0", "doc_0", "doc_1"]
    assert documents[1:] == [
        {"id": "doc_0", "url": "https://a.example"},
        {"id": "doc_1", "title": "Other"},
    ]
    assert [
        (citation["text"], citation["document_ids"]) for citation in citations["citations"]
    ] == [
        ("Ruby", ["d0", "doc_0"]),
        ("Ruby", ["doc_1", "d0"]),
        ("is", []),
    ]


def test_the_older_chat_tells_its_searches() -> None:
    queries: Json = [{"text": "ruby", "generation_id": "g"}]
    metadata = (("search_queries", queries), ("is_search_required", True))

    _, searched, *_, end = told(Turn((), metadata=metadata), OLD, stream=True)

    assert searched == {
        "is_finished": False,
        "event_type": "search-queries-generation",
        "search_queries": queries,
    }
    assert end["response"]["is_search_required"] is True


def test_the_older_chat_hands_back_the_conversation() -> None:
    before = [{"role": "SYSTEM", "message": "Be brief."}]

    [document] = told(Turn((Text("Hello"),)), OLD, chat_history=before)

    assert document["chat_history"] == [
        *before,
        {"role": "USER", "message": "Hi"},
        {"role": "CHATBOT", "message": "Hello"},
    ]


@pytest.mark.parametrize("path", [NEW, OLD])
@pytest.mark.parametrize(
    ("finish", "of_new", "of_old"),
    [
        (Finish.STOP, "COMPLETE", "COMPLETE"),
        (Finish.STOP_SEQUENCE, "STOP_SEQUENCE", "STOP_SEQUENCE"),
        (Finish.LENGTH, "MAX_TOKENS", "MAX_TOKENS"),
        (Finish.TOOL_CALLS, "TOOL_CALL", "COMPLETE"),
        (Finish.CONTENT_FILTER, "ERROR", "ERROR_TOXIC"),
        (Finish.REFUSAL, "ERROR", "ERROR_TOXIC"),
        (Finish.CONTEXT_FULL, "MAX_TOKENS", "ERROR_LIMIT"),
        (Finish.ERROR, "ERROR", "ERROR"),
        (Finish.PAUSED, "COMPLETE", "COMPLETE"),
    ],
)
def test_each_finish_has_a_word(path: str, finish: Finish, of_new: str, of_old: str) -> None:
    [document] = told(Turn((Text("a"),), finish), path)

    assert document["finish_reason"] == (of_new if path == NEW else of_old)


@pytest.mark.parametrize(
    ("turn", "path", "why"),
    [
        (Turn((Media("image/png", base64="AAAA"),)), NEW, "media"),
        (Turn((Media("image/png", base64="AAAA"),)), OLD, "media"),
        (Turn((ToolCall("", "f", '{"a":'),)), OLD, "the arguments of a call"),
        (Turn((Text("Hello"),)), "/v1/generate", "no turn on /v1/generate"),
        (Turn((Text("Hello"),)), "/v2/embed", "no turn on /v2/embed"),
    ],
    ids=["an image", "an image of old", "broken JSON", "a completion", "embeddings"],
)
def test_what_would_be_another_answer_is_refused(turn: Turn, path: str, why: str) -> None:
    with pytest.raises(NotRepresentable, match=why):
        DIALECT.encode(asked(path), [turn], TOLD)


def test_broken_arguments_are_told_as_they_are() -> None:
    [*_, start, delta, _, _] = told(Turn((ToolCall("a", "f", '{"a":'),)), stream=True)

    function = {"name": "f", "arguments": ""}
    assert start == call("start", 0, id="a", type="function", function=function)
    assert delta == call("delta", 0, function={"arguments": '{"a":'})


def test_what_has_no_word_is_left_out_and_named() -> None:
    parts: tuple[Part, ...] = (Reasoning("Hm.", signature="c2VhbA=="), Refusal("No."))
    turn = Turn(parts, Finish.REFUSAL, usage=Usage(1, 2, total=3))

    fits = DIALECT.convert(asked(), [turn], TOLD)

    assert fits.turns[0].parts == (Reasoning("Hm."), Text("No."))
    assert fits.losses == (
        "signature of reasoning",
        "that a refusal is one",
        "finish refusal (told as ERROR, which means error)",
        "usage total",
    )
    assert "reasoning" in DIALECT.convert(asked(OLD), [turn], TOLD).losses


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 418, 422, 429, 498, 499, 500, 501, 502, 503, 504, 529]
)
def test_a_status_has_words(status: int) -> None:
    response = DIALECT.error_response(status, Failure(""), TOLD)

    [body] = said(response)
    assert list(body) == ["id", "message"]
    assert body["message"]
    assert (response.head.status, response.codec) == (status, "whole")
    assert DIALECT.decode(response) == (Turn((), failure=Failure(body["message"])),)


def test_an_error_tells_its_type_the_limits_and_when_to_ask_again() -> None:
    window = RateLimitWindow(limit=40, remaining=39, reset=1.5)
    limited = replace(TOLD, quota=AccountLimits(window, window))

    response = DIALECT.error_response(429, Failure("slow down", "RATE"), limited, retry_after=1.2)

    assert said(response)[0]["error_type"] == "RATE"
    headers = dict(response.head.headers)
    assert len(headers.pop("X-Debug-Trace-Id")) == 32
    assert headers == {
        "Content-Type": "application/json",
        "X-Trial-Endpoint-Call-Limit": "40",
        "X-Trial-Endpoint-Call-Remaining": "39",
        "Retry-After": "2",
        "Retry-After-Ms": "1200",
    }


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure("x", code="429"), 429),
        (Failure("x", "TOO_MANY_TOKENS"), 400),
        (Failure("x", "server_error", "busy"), 500),
    ],
)
@pytest.mark.parametrize("path", [NEW, OLD])
def test_an_error_stands_in_place_of_an_answer(path: str, failure: Failure, status: int) -> None:
    response = DIALECT.encode(asked(path), [Turn((Text("a"),), failure=failure)], TOLD)

    assert response.head.status == status
    assert DIALECT.decode(response) == (Turn((), failure=Failure("x", failure.type)),)


def _beside(path: str, *headers: tuple[str, str], **body: Any) -> dict[str, Any]:
    request = Request("POST", path, "", headers, json.dumps(body).encode())
    assert DIALECT.matches(request)
    response = DIALECT.auxiliary_response(request, DELIVERY)
    assert response is not None
    assert DIALECT.completeness(response).is_complete
    assert DIALECT.decode(response) == ()
    [document] = said(response)
    found: dict[str, Any] = document
    return found


def test_texts_have_a_vector_each() -> None:
    old = _beside("/v1/embed", texts=["one", "two", "one"], model="embed-english-v3.0")
    new = _beside("/v2/embed", texts=["one", "two", "one"], model="embed-v4.0")

    one, two, again = old["embeddings"]
    assert one == again != two
    assert (len(one), old["texts"]) == (1024, ["one", "two", "one"])
    assert old["meta"] == {"api_version": {"version": "1"}, "billed_units": {"input_tokens": 3}}
    assert list(new["embeddings"]) == ["float"]
    assert [len(item) for item in new["embeddings"]["float"]] == [1536] * 3
    light = _beside("/v1/embed", texts=["a"], model="embed-english-light-v3.0")
    assert len(light["embeddings"][0]) == 384


def test_vectors_are_of_the_types_that_are_asked_for() -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64", "unheard_of"]
    found = _beside(
        "/v2/embed", inputs=[{"content": []}], embedding_types=types, output_dimension=16
    )

    by_type = {name: vectors[0] for name, vectors in found["embeddings"].items()}
    assert list(by_type) == types[:-1]
    numbers = by_type["float"]
    assert len(numbers) == len(by_type["int8"]) == len(by_type["uint8"]) == 16
    assert max(map(abs, by_type["int8"])) == 127
    assert [item + 128 for item in by_type["int8"]] == by_type["uint8"]
    signs = "".join(f"{item:08b}" for item in by_type["ubinary"])
    assert [sign == "1" for sign in signs] == [number > 0 for number in numbers]
    assert [item + 128 for item in by_type["binary"]] == by_type["ubinary"]
    unpacked = struct.unpack("<16f", base64.b64decode(by_type["base64"]))
    assert unpacked == pytest.approx(numbers)


def test_images_are_embedded_too() -> None:
    found = _beside("/v2/embed", images=["data:image/png;base64,AAAA"])

    assert len(found["embeddings"]["float"]) == 1
    assert found["meta"]["billed_units"] == {"input_tokens": 0, "images": 1}


def test_documents_rank_by_the_words_that_they_share_with_the_query() -> None:
    documents: Any = ["gold and silver", {"text": "Who made Ruby?"}, "Matz made the language Ruby"]
    found = _beside("/v2/rerank", SDK, query="who made ruby", documents=documents)

    assert [result["index"] for result in found["results"]] == [1, 2, 0]
    scores = [result["relevance_score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    first = _beside(
        "/v1/rerank",
        SDK,
        query="who made ruby",
        documents=documents,
        top_n=1,
        return_documents=True,
    )
    assert [result["document"] for result in first["results"]] == [{"text": "Who made Ruby?"}]


def test_tokens_are_of_a_text_and_become_it_again() -> None:
    found = _beside("/v1/tokenize", SDK, text="Grüße, 🌊!")

    assert "".join(found["token_strings"]) == "Grüße, 🌊!"
    assert _beside("/v1/detokenize", SDK, tokens=found["tokens"])["text"] == "Grüße, 🌊!"
    assert _beside("/v1/detokenize", SDK, tokens=["a", -1, 2**40, 0xD800])["text"] == "\ufffd" * 4


@given(st.text())
def test_any_text_has_tokens_that_become_it_again(text: str) -> None:
    numbers = [tokens.token_number(token_string) for token_string in tokens.token_strings(text)]

    assert tokens.text_of_tokens(numbers) == text
    assert all(0 <= number < 2**31 for number in numbers)


@given(st.lists(st.integers()))
def test_any_numbers_are_tokens_of_something(numbers: list[int]) -> None:
    assert len(tokens.text_of_tokens(numbers).encode()) >= len(numbers)


def test_the_models_are_those_that_are_listed() -> None:
    headers: Headers = (SDK,)
    every = DIALECT.auxiliary_response(Request("GET", "/v1/models", "", headers, b""), DELIVERY)
    one = DIALECT.auxiliary_response(Request("GET", "/v1/models/small", "", headers, b""), DELIVERY)
    none = DIALECT.auxiliary_response(Request("GET", "/v1/models/tiny", "", headers, b""), DELIVERY)

    assert every is not None
    assert one is not None
    assert none is not None
    assert [model["name"] for model in said(every)[0]["models"]] == ["small", "large"]
    assert said(one)[0]["name"] == "small"
    assert none.head.status == 404
    rest = "not found, make sure the correct model ID was used and that you have access to the"
    assert said(none)[0]["message"] == f"model 'tiny' {rest} model."
    assert (
        said(DIALECT.error_response(404, Failure(""), DELIVERY))[0]["message"]
        == f"model {rest} model."
    )


@pytest.mark.parametrize("path", ["/v1/classify", "/v1/summarize"])
def test_what_is_not_answered_says_so(path: str) -> None:
    response = DIALECT.auxiliary_response(asking(path, SDK), DELIVERY)

    assert response is not None
    assert response.head.status == 501
    assert path in said(response)[0]["message"]


@pytest.mark.parametrize("path", [NEW, OLD, "/v1/generate", "/cohere/v2/chat"])
def test_chats_and_completions_ask_for_turns(path: str) -> None:
    assert DIALECT.auxiliary_response(asked(path), DELIVERY) is None


def test_a_gateway_is_answered_as_cohere_is() -> None:
    [*_, end] = told(Turn((Text("Hello"),)), "/cohere/v2/chat", stream=True)

    assert end == ending("COMPLETE") | {"delta": end["delta"]}


def test_the_typical_request_asks_for_a_chat_of_the_model() -> None:
    for stream in (True, False):
        request = DIALECT.sample_request("command-a", stream=stream)
        assert DIALECT.matches(request)
        assert (DIALECT.model(request), DIALECT.streams(request)) == ("command-a", stream)
        assert DIALECT.auxiliary_response(request, DELIVERY) is None


NAMES = st.sampled_from(["", "d0", "d1", "doc_0"])
FACTS = st.sampled_from(["", "a", "b"])
CITATIONS = st.builds(
    lambda url, quoted, span, name, kind: Citation(
        url=url,
        quoted=quoted,
        span=span,
        metadata=(("source", name), ("source_type", kind), ("type", "PLAN"), ("text", 7)),
    ),
    FACTS,
    FACTS,
    st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    NAMES,
    st.sampled_from(["tool", "document", "other"]),
)
TEXTS = st.builds(Text, st.sampled_from(["", "abc"]), st.lists(CITATIONS, max_size=4).map(tuple))
PLANS = st.builds(Reasoning, FACTS, metadata=st.sampled_from([PLAN, ()]))
DOCUMENTS = st.lists(
    st.fixed_dictionaries({"id": NAMES | st.integers(0, 1), "snippet": FACTS, "url": FACTS})
    | st.just(7),
    max_size=3,
)
ELSEWHERE = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["PLAN", "", 7]), "text": FACTS}), max_size=2
)
CITING = st.builds(
    lambda parts, documents, elsewhere, failure: Turn(
        tuple(parts),
        failure=failure,
        metadata=(("documents", documents), ("citations", elsewhere), ("billed_units", 7)),
    ),
    st.lists(TEXTS | PLANS | st.just(ToolCall("", "f", "{}")), max_size=5),
    DOCUMENTS,
    ELSEWHERE,
    st.none() | st.just(Failure("busy", "BUSY")),
)


@given(CITING, st.sampled_from([NEW, OLD]), st.booleans())
def test_plans_citations_and_documents_of_any_kind_are_read_as_they_were_told(
    turn: Turn, path: str, stream: bool
) -> None:
    assume(stream or turn.failure is None)
    request = asked(path, stream=stream)

    fits = DIALECT.convert(request, [turn], DELIVERY)

    assert DIALECT.decode(DIALECT.encode(request, [turn], DELIVERY)) == fits.turns
    assert DIALECT.convert(request, fits.turns, DELIVERY) == ConvertedTurns(fits.turns, ())


UNSAID = {"25bc6fa7337466f1": "no turn on /v1/generate", "04a4871ad0942d40": "no turn on /v2/embed"}
"""Real answers that cannot be told: a completion, which Cohere has no more, and an HTTP error."""

OTHERWISE = {
    "7828c10ab59cd82e": "arguments of nothing are {}",
    "baa6e2d042e69594": "arguments of nothing are {}",
    "0e962fad50a79f5c": "arguments of nothing are {}",
    "09471e76eb4d47eb": "a citation says that it is of the text",
}
"""Real answers that are told with something more."""


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_answer_is_told_again_as_it_was() -> None:
    told = 0
    for row in corpus.rows():
        if row.provider != "cohere":
            continue
        turns = _turns(row)
        if row.id in UNSAID:
            with pytest.raises(NotRepresentable, match=UNSAID[row.id]):
                DIALECT.convert(row.request, turns, DELIVERY)
        elif turns:
            request = replace(row.request, body=row.request.body or b'{"stream": true}')
            fits = DIALECT.convert(request, turns, DELIVERY)
            assert fits.losses == (), row.id
            assert (fits.turns == turns) is (row.id not in OTHERWISE), row.id
            response = DIALECT.encode(request, turns, DELIVERY)
            assert DIALECT.decode(response) == fits.turns, row.id
            told += 1
    assert told == 85


def _turns(row: corpus.Row) -> tuple[Turn, ...]:
    codec = DIALECT.codec(row.request, row.head)
    codec = "ndjson" if row.wire.endswith("payload") else codec
    return DIALECT.decode(DialectResponse(row.head, codec, framing.split_messages(codec, row.body)))
