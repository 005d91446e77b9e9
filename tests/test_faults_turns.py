"""Faults of what is said: errors amid an answer, early ends, refusals, bad calls of tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_manners import DELIVERY, MANNERS, Manner, asking
from fault_injection import TURN, asked, body, burst_of, call_of, cut, live, struck
from fault_injection import answer_of as answered
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import chat_dialects
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable, UsageError
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.faults import message_contents
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import split_messages
from llm_proxy.turns import Failure, Finish, Reasoning, Refusal, Text, ToolCall, Turn, Usage

FAILED: Final = "The server had an error while processing your request."
SORRY: Final = "I'm sorry, but I can't help with that."
CITY: Final = {
    "type": "object",
    "properties": {"unit": {"type": "string"}, "city": {"type": "string"}},
    "required": ["city"],
}
CALLS: Final = Turn(
    (
        Reasoning("I should look."),
        Text("Let me look."),
        ToolCall("call_1", "weather", '{"unit":"C","city":"Rome"}'),
    ),
    finish=Finish.TOOL_CALLS,
    usage=Usage(input=5, output=12),
)
SAYS: Final = replace(TURN, model="")
FEW: Final = settings(max_examples=20)


def spoken(manner: Manner, turn: Turn) -> DialectResponse | None:
    """What is answered in this manner; None where it has no words for the turn."""
    try:
        return manner.dialect.encode(manner.request, (turn,), manner.delivery)
    except NotRepresentable:
        return None


def read(
    request: Request, answer: DialectResponse, gone: Sequence[Action]
) -> tuple[DialectResponse, Turn]:
    """What went out, and what it says."""
    head = next(item.head for item in gone if isinstance(item, Begin))
    told = DialectResponse(head, answer.codec, split_messages(answer.codec, body(gone)))
    turns = call_of(request).dialect.decode(told)
    assert turns
    return told, turns[0]


STREAMS: Final = [
    pytest.param(manner, answer, id=manner.name)
    for manner in MANNERS
    if manner.dialect.streams(manner.request)
    if (answer := spoken(manner, CALLS) or spoken(manner, SAYS)) is not None
]
"""Streams of all that a manner can say."""
WHOLE: Final = [
    pytest.param(manner, answer, id=manner.name)
    for manner in MANNERS
    if not manner.dialect.streams(manner.request) and "compacted" not in manner.name
    if (answer := spoken(manner, SAYS)) is not None
]


def so_far(manner: Manner, answer: DialectResponse, after: int) -> Turn | None:
    """What a stream has said by then; None where it cannot be ended any more, or not yet."""
    turns = manner.dialect.decode(replace(answer, messages=answer.messages[:after]))
    if any(turn.finish or turn.failure for turn in turns):
        return None
    return turns[0] if turns else None


def places(answer: DialectResponse) -> list[int]:
    """Some places of a stream: where it opens, amid its words, and where it closes."""
    size = len(answer.messages)
    return sorted({item for item in (1, size // 3, size // 2, size - 4) if 0 < item < size})


def texts(turn: Turn) -> list[str]:
    """What was said, however it is told."""
    return [
        part.text
        for part in turn.parts
        if isinstance(part, Text | Reasoning | Refusal) and part.text
    ]


def check_ending(manner: Manner, answer: DialectResponse, rule: str, after: int) -> Turn | None:
    """What a stream says that ends so there; None where it cannot."""
    before = so_far(manner, answer, after)
    gone, injected = struck(manner.request, burst_of(answer), f"{rule},after={after}")
    if before is None or injected.records[0].skipped:
        return None
    told, turn = read(manner.request, answer, gone)
    assert tuple(told.messages[:after]) == tuple(answer.messages[:after])
    assert texts(turn) == texts(before)
    assert (turn.id, turn.model) in ((before.id, before.model), (turn.id, ""))
    assert manner.dialect.completeness(told).is_complete
    check_closed_once(manner, told)
    return turn


def check_closed_once(manner: Manner, told: DialectResponse) -> None:
    """Numbers go on by one, and nothing but words is told twice of one part."""
    documents = [message_contents.message_object(told.codec, item) for item in told.messages]
    numbers = [item["sequence_number"] for item in documents if "sequence_number" in item]
    assert numbers == list(range(len(numbers)))
    parts = [
        (
            message_contents.message_types(told.codec, message),
            *(item for item in document.items() if "ndex" in item[0]),
        )
        for message, document in zip(told.messages, documents, strict=True)
        if not manner.dialect.output_chars(told.codec, message)
    ]
    closed = [part for part in parts if len(part) > 1]
    assert len(set(map(str, closed))) == len(closed)


@pytest.mark.parametrize(("manner", "answer"), STREAMS)
def test_a_stream_fails_anywhere_in_its_providers_own_words(
    manner: Manner, answer: DialectResponse
) -> None:
    for after in places(answer):
        turn = check_ending(manner, answer, "error-event", after)
        if turn is not None:
            assert turn.failure is not None
            assert turn.failure.message == FAILED
            assert turn.finish in (None, Finish.ERROR)


@pytest.mark.parametrize(("manner", "answer"), STREAMS)
def test_a_stream_ends_anywhere_at_its_longest_length(
    manner: Manner, answer: DialectResponse
) -> None:
    ended = 0
    for after in places(answer):
        turn = check_ending(manner, answer, "finish-length", after)
        if turn is not None:
            ended += 1
            assert (turn.finish, turn.failure) == (Finish.LENGTH, None)
    assert ended or len(answer.messages) == 1


@pytest.mark.parametrize(("manner", "answer"), WHOLE)
def test_a_whole_body_that_ends_early_says_half_of_its_text(
    manner: Manner, answer: DialectResponse
) -> None:
    gone, injected = struck(manner.request, burst_of(answer), "finish-length")
    told, turn = read(manner.request, answer, gone)
    assert injected.records[0].skipped == ""
    assert (turn.text, turn.finish) == ("The quick brown fox ju", Finish.LENGTH)
    assert told.head.length == len(body(gone))


FILTERED: Final = {
    "openai-chat": "content_filter",
    "openai-completions": "content_filter",
    "openai-responses": "content_filter",
    "anthropic": "refusal",
    "gemini": "SAFETY",
    "bedrock": "content_filtered",
    "cohere": "ERROR",
}
"""The provider's own word; the others have none."""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", sorted(chat_dialects()))
def test_a_filter_has_its_providers_own_word(dialect: str, stream: bool) -> None:
    request = asked(dialect, stream=stream)
    answer = answered(request)
    rule = "content-filter,after=6" if stream else "content-filter"
    gone, injected = struck(request, burst_of(answer), rule)
    if dialect not in FILTERED:
        assert gone == burst_of(answer)
        why = f"{dialect} has no word for an answer that ends so"
        assert injected.records[0].skipped == why
        return
    _, turn = read(request, answer, gone)
    assert turn.finish_raw == FILTERED[dialect]
    assert TURN.text.startswith(turn.text)
    assert turn.text not in ("", TURN.text) or dialect == "openai-responses"


def test_what_an_early_end_cost_is_counted_anew() -> None:
    request = replace(
        asked(),
        body=json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": "What does a fox do?"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode(),
    )
    answer = answered(request)
    gone, _ = struck(request, burst_of(answer), "finish-length,after=3")
    _, turn = read(request, answer, gone)
    assert (turn.text, turn.usage) == ("The quick", Usage(input=5, output=3, total=8))


def test_an_early_end_comes_when_the_next_message_was_due() -> None:
    request = asked()
    answer = answered(request)
    gone, injected = struck(request, burst_of(answer), "finish-length,after=2")
    first, second, *rest = gone[2:][1::2][:2] + tuple(
        item for item in gone[6:] if isinstance(item, Wait)
    )
    assert [first, second] == [Send(message) for message in answer.messages[:2]]
    assert rest == [Wait(40.0)]
    assert injected.records[0].at_ms == 40.0


def test_an_end_is_told_but_once() -> None:
    request = asked()
    answer = answered(request)
    for rule in ("error-event", "finish-length", "content-filter"):
        after = len(answer.messages) - 1
        gone, injected = struck(request, burst_of(answer), f"{rule},after={after}")
        assert gone == burst_of(answer)
        assert injected.records[0].skipped == "the answer had told why it ends"


@pytest.mark.parametrize("rule", ["error-event", "finish-length", "content-filter", "refusal"])
def test_an_error_is_left_as_it_is(rule: str) -> None:
    request = asked()
    refused = call_of(request).dialect.error_response(429, Failure("Slow down."), DELIVERY)
    gone, _ = struck(request, burst_of(refused), rule)
    assert gone == burst_of(refused)


def test_an_error_says_what_its_rule_says() -> None:
    request = asked("anthropic")
    answer = answered(request)
    rule = 'error-event,after=4,type=overloaded_error,message="Overloaded, sorry"'
    gone, injected = struck(request, burst_of(answer), rule)
    _, turn = read(request, answer, gone)
    assert turn.failure == Failure("Overloaded, sorry", type="overloaded_error")
    assert injected.records[0].effect is FaultEffect.FAILED
    assert gone[-1] == Send(b"".join(split_messages("sse", body(gone))[-1:]))


REFUSED: Final = {
    "openai-chat": ((Refusal(SORRY),), "stop"),
    "openai-completions": ((), "content_filter"),
    "openai-responses": ((Refusal(SORRY),), "completed"),
    "anthropic": ((Refusal(SORRY),), "refusal"),
    "gemini": ((), "SAFETY"),
    "gemini-interactions": ((Text(SORRY),), "completed"),
    "ollama": ((Text(SORRY),), "stop"),
    "cohere": ((Text(SORRY),), "COMPLETE"),
    "bedrock": ((Text(SORRY),), "refusal"),
}
"""How each provider tells a refusal."""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", sorted(REFUSED))
def test_a_refusal_is_told_as_its_provider_tells_one(dialect: str, stream: bool) -> None:
    request = asked(dialect, stream=stream)
    answer = answered(request)
    (was,) = call_of(request).dialect.decode(answer)
    gone, injected = struck(request, burst_of(answer), "refusal")
    told, turn = read(request, answer, gone)
    bare = tuple(replace(part, metadata=()) for part in turn.parts)
    assert (bare, turn.finish_raw) == REFUSED[dialect]
    assert (turn.id, turn.model, turn.usage) == (was.id, was.model, was.usage)
    assert injected.records[0].effect is FaultEffect.ALTERED
    assert told.head.length in (None, len(body(gone)))


def test_every_dialect_that_speaks_refuses() -> None:
    assert set(REFUSED) == set(chat_dialects())


@pytest.mark.parametrize(("manner", "answer"), [*STREAMS, *WHOLE])
def test_a_refusal_is_whole_in_every_manner(manner: Manner, answer: DialectResponse) -> None:
    gone, injected = struck(manner.request, burst_of(answer), "refusal,message=No.")
    told, turn = read(manner.request, answer, gone)
    assert injected.records[0].skipped == ""
    assert "".join(texts(turn)) in ("No.", "")
    assert manner.dialect.completeness(told).is_complete


def test_an_answer_told_anew_takes_as_long_as_the_real_one() -> None:
    request = asked()
    answer = answered(request)
    gone, injected = struck(request, burst_of(answer), "refusal,message=No")
    head, *sent = (item for item in gone if not isinstance(item, Wait))
    dues = [item.due for item in gone if isinstance(item, Wait)]
    assert isinstance(head, Begin)
    assert dues == [10.0 * n for n in range(1, len(sent) + 2)]
    assert injected.records[0].at_ms == 20.0


def test_what_is_told_in_more_messages_ends_with_the_last_one() -> None:
    request = asked()
    answer = answered(request)
    gone, _ = struck(request, burst_of(answer), f'refusal,message="{"no " * 50}"')
    dues = [item.due for item in gone if isinstance(item, Wait)]
    assert dues == [10.0 * n for n in range(1, len(answer.messages) + 2)]
    assert sum(isinstance(item, Send) for item in gone) > len(answer.messages)


@FEW
@given(
    st.sampled_from(
        ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "bedrock"]
    ),
    st.lists(st.integers(0, 4000), max_size=10),
    st.sampled_from(["refusal", "error-event,after=3", "finish-length,after=4"]),
)
def test_live_answers_say_the_same_however_they_arrive(
    dialect: str, cuts: list[int], rule: str
) -> None:
    request = asked(dialect)
    answer = answered(request)
    pieces = cut(b"".join(answer.messages), cuts)
    recorded, _ = struck(request, burst_of(answer), rule)
    told, _ = live(request, burst_of(answer, pieces), rule)
    assert body(told) == body(recorded)


def offering(dialect: str, schema: object = CITY) -> dict[str, object]:
    """The fields of a request that offer a tool."""
    match dialect:
        case "anthropic":
            return {"tools": [{"name": "weather", "input_schema": schema}]}
        case "openai-responses":
            return {"tools": [{"type": "function", "name": "weather", "parameters": schema}]}
        case "gemini":
            declared = {"name": "weather", "parametersJsonSchema": schema}
            return {"tools": [{"functionDeclarations": [declared]}]}
        case "bedrock":
            spec = {"name": "weather", "inputSchema": {"json": schema}}
            return {"toolConfig": {"tools": [{"toolSpec": spec}]}}
        case "gemini-interactions":
            return {"tools": [{"type": "function", "name": "weather", "parameters": schema}]}
        case _:
            function = {"name": "weather", "parameters": schema}
            return {"tools": [{"type": "function", "function": function}]}


def with_tools(dialect: str, *, stream: bool = True, schema: object = CITY) -> Request:
    """A request that offers a tool."""
    request = asked(dialect, stream=stream)
    return replace(
        request, body=json.dumps(json.loads(request.body) | offering(dialect, schema)).encode()
    )


CALLERS: Final = sorted(set(chat_dialects()) - {"openai-completions"})
HOWS: Final = {
    "name": ("weather_v2", {"unit": "C", "city": "Rome"}),
    "missing": ("weather", {"unit": "C"}),
}
MADE_UP: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "name": ("weather_v2", {}),
    "missing": ("weather", {}),
}


def call(turn: Turn) -> ToolCall:
    """The call of an answer."""
    (found,) = (part for part in turn.parts if isinstance(part, ToolCall))
    return found


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("how", sorted(HOWS))
@pytest.mark.parametrize("dialect", CALLERS)
def test_a_call_cannot_be_carried_out(dialect: str, how: str, stream: bool) -> None:
    request = with_tools(dialect, stream=stream)
    answer = answered(request, CALLS)
    (was,) = call_of(request).dialect.decode(answer)
    gone, injected = struck(request, burst_of(answer), f"bad-tool-call,how={how}")
    told, turn = read(request, answer, gone)
    assert (call(turn).name, json.loads(call(turn).arguments)) == HOWS[how]
    assert texts(turn) == texts(was)
    assert (turn.id, turn.model, turn.usage, turn.finish) == (
        was.id, was.model, was.usage, Finish.TOOL_CALLS
    )  # fmt: skip
    assert injected.records[0].effect is FaultEffect.ALTERED
    assert told.head.length in (None, len(body(gone)))


@pytest.mark.parametrize("how", sorted(MADE_UP))
@pytest.mark.parametrize("dialect", CALLERS)
def test_an_answer_without_a_call_calls_the_tool_that_is_offered(dialect: str, how: str) -> None:
    request = with_tools(dialect)
    answer = answered(request)
    gone, _ = struck(request, burst_of(answer), f"bad-tool-call,how={how}")
    _, turn = read(request, answer, gone)
    assert (call(turn).name, json.loads(call(turn).arguments)) == MADE_UP[how]
    assert (turn.text, turn.finish) == ("", Finish.TOOL_CALLS)


WORDED: Final = ("openai-chat", "openai-responses", "anthropic", "bedrock", "cohere",
                 "gemini-interactions")  # fmt: skip
"""The dialects whose streams hold arguments as text."""


@pytest.mark.parametrize("dialect", CALLERS)
def test_arguments_are_no_json_where_the_wire_holds_them_as_text(dialect: str) -> None:
    request = with_tools(dialect)
    answer = answered(request, CALLS)
    gone, injected = struck(request, burst_of(answer), "bad-tool-call")
    if dialect not in WORDED:
        assert gone == burst_of(answer)
        why = f"{dialect} tells arguments as an object, which is JSON"
        assert injected.records[0].skipped == why
        return
    _, turn = read(request, answer, gone)
    assert call(turn).arguments == '{"unit":"C","'
    assert turn.finish is Finish.TOOL_CALLS


@pytest.mark.parametrize("schema", [{"type": "object"}, {"required": [7, []]}])
def test_nothing_is_left_out_where_nothing_must_be_there(schema: object) -> None:
    request = with_tools("openai-chat", schema=schema)
    answer = answered(request, CALLS)
    gone, injected = struck(request, burst_of(answer), "bad-tool-call,how=missing")
    assert gone == burst_of(answer)
    why = "the tool weather has no argument that must be there"
    assert injected.records[0].skipped == why


def test_a_name_that_is_not_offered_is_found() -> None:
    request = with_tools("openai-chat")
    named = json.loads(request.body)
    more = [{"type": "function", "function": {"name": f"weather_v{n}"}} for n in (2, 3)]
    request = replace(request, body=json.dumps(named | {"tools": named["tools"] + more}).encode())
    answer = answered(request, CALLS)
    gone, _ = struck(request, burst_of(answer), "bad-tool-call,how=name")
    assert call(read(request, answer, gone)[1]).name == "weather_v4"


def test_nothing_is_held_back_where_no_tool_is_offered() -> None:
    request = asked()
    answer = answered(request)
    gone, injected = live(request, burst_of(answer), "bad-tool-call")
    assert tuple(gone) == burst_of(answer)
    assert injected.records[0].skipped == "the request offers no tool"


def test_what_was_taken_for_nothing_comes_as_it_was() -> None:
    request = with_tools("openai-chat", schema={"type": "object"})
    answer = answered(request)
    burst = burst_of(answer, cut(b"".join(answer.messages), range(0, 4000, 37)))
    for strike in (struck, live):
        gone, injected = strike(request, burst, "bad-tool-call,how=missing")
        assert tuple(gone) == burst
        assert injected.records[0].skipped != ""


def test_what_is_no_turn_is_left_as_it_is() -> None:
    request = asking("/v1/embeddings", model="m", input="Hi")
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", 2)
    burst: Burst = (Begin(head), Send(b"{}"))
    for rule in ("refusal", "finish-length", "content-filter", "bad-tool-call"):
        gone, injected = struck(request, burst, rule)
        assert gone == burst
        why = "answers of openai-embeddings hold no turns, so none can be told as one"
        assert injected.records[0].skipped == why


def test_a_way_to_be_bad_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        parse_rule("bad-tool-call,how=late")
    assert str(error.value) == (
        "fault 'bad-tool-call,how=late': how=late is not one of json, name, missing"
    )
