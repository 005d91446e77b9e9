"""Answers that are made up: lorem and an echo, or what a block of instructions asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_manners import MANNERS, Manner, asking
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import DialectResponse, find_dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.scenario.scripted_response import SendTurns
from llm_proxy.synthesis import lorem
from llm_proxy.synthesis.message_layout import Telling, message_layout_of
from llm_proxy.synthesis.response import SynthesizedResponse, synthesize_response
from llm_proxy.turns import Finish, Media, Reasoning, Text, ToolCall, Turn, Usage

DELIVERY: Final = EncodeContext("seed", 1_700_000_000, provider="test-llm")
ID: Final = DELIVERY.identifier("gen-1700000000-", length=16)
CALLS: Final = tuple(DELIVERY.identifier("call_", item) for item in range(3))


def asked(message: str) -> Conversation:
    return Conversation((RequestMessage("user", (Text(message),)),))


def made(message: str, how: Telling = "choices") -> SynthesizedResponse:
    return synthesize_response(asked(message), DELIVERY, how, "m")


def instructed(text: str = "", /, **fields: Any) -> str:
    """A message with instructions between other words."""
    block = text or json.dumps(fields)
    return f"Hi <|instruction_start|>{block}<|instruction_end|>\nReason: none"


def words(message: str) -> str:
    """The lorem of a message, made up here once more."""
    number = 5 + int.from_bytes(sha256(message.encode()).digest()[:8], "big") % 496
    return lorem.lorem_words(number)


def echoed(message: str) -> str:
    """All that is said to a message without instructions."""
    return f"{words(message)} {message}"


def spoken(
    say: SendTurns, *, provider: str = "test-llm", stream: bool = True, **body: Any
) -> DialectResponse:
    request = asking("/v1/chat/completions", model="m", stream=stream, **body)
    delivery = replace(
        DELIVERY,
        provider=provider,
        split_text=say.split_text,
        turns_are_successive=say.turns_are_successive,
    )
    return find_dialect(request).encode(request, say.turns, delivery)


def chunks(say: SendTurns) -> list[dict[str, Any]]:
    *events, last = spoken(say).messages
    assert last == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ").removesuffix(b"\n\n")) for event in events]


# Lorem and echo (001-13 … 001-20, 001-37 … 001-40)


@pytest.mark.shows("001-38")
@pytest.mark.parametrize(
    ("message", "count"), [("", 361), ("Hello", 138), ("Grüße 🌊", 487), ("\ud801", 256)]
)
def test_the_count_of_words_is_the_same_on_every_machine(message: str, count: int) -> None:
    assert lorem.word_count(message) == count


@pytest.mark.shows("001-38", "001-39")
@given(message=st.text())
def test_there_are_5_to_500_words(message: str) -> None:
    assert 5 <= lorem.word_count(message) <= 500


@pytest.mark.shows("001-37")
def test_the_words_are_one_list_again_and_again() -> None:
    said = lorem.lorem_words(500).split(" ")

    assert said[:5] == ["lorem", "ipsum", "dolor", "sit", "amet"]
    assert said[69:] == said[:431]
    assert (len(said), lorem.lorem_words(0)) == (500, "")


@pytest.mark.shows("001-20", "001-39")
@settings(max_examples=50)
@given(message=st.text(min_size=1))
def test_an_answer_is_lorem_and_the_message_verbatim(message: str) -> None:
    assert made(message).say.turns[0].text == echoed(message)


def test_without_any_words_of_a_user_there_is_nothing_to_echo() -> None:
    nobody = synthesize_response(Conversation(()), DELIVERY, "choices")

    assert nobody.say.turns[0].parts == (Text(words("")),)
    assert nobody.say.turns[0].model == "synthesis"


@pytest.mark.shows("001-13", "001-14")
def test_the_latest_message_counts_its_texts_joined_and_nothing_else_of_it() -> None:
    latest = RequestMessage(
        "user", (Text("Look:"), Media("image/png", base64="aGk="), Text("nice?"))
    )
    others = (RequestMessage("user", (Text("Hi"),)), RequestMessage("assistant", (Text("Hello"),)))
    made_up = synthesize_response(Conversation((*others, latest)), DELIVERY, "choices")

    assert made_up.say.turns[0].text == echoed("Look:\nnice?")


MESSAGE: Final = "one two\n three  four five six \n"
ECHO: Final = [" one two\n three  four five", " six \n"]


@pytest.mark.shows("001-17", "001-20")
def test_lorem_and_echo_are_cut_each_by_itself_five_words_a_piece() -> None:
    say = made(MESSAGE).say
    pieces = list(say.split_text(say.turns[0].text))

    *full, last = pieces[:-2]
    assert "".join([*full, last]) == words(MESSAGE)
    assert {len(item.split()) for item in full} == {5}
    assert len(last.split()) in range(1, 6)
    assert pieces[-2:] == ECHO


@pytest.mark.shows("001-15", "001-19", "001-20", "001-38")
def test_a_reason_on_a_line_of_its_own_asks_for_reasoning_first() -> None:
    message = "Why?\nReason: so"
    said = echoed(message)

    made_up = made(message)

    assert made_up.mode == "reasoning"
    assert made_up.say.turns[0].parts == (Reasoning(said), Text(said))


@pytest.mark.shows("001-15", "001-40")
@pytest.mark.parametrize(
    "message", ["Reason: so", "Why?\nreason: so", "Why? Reason:", "\n Reason:"]
)
def test_any_other_reason_is_none(message: str) -> None:
    made_up = made(message)

    assert made_up.mode == "text"
    assert made_up.say.turns[0].parts == (Text(echoed(message)),)


@pytest.mark.shows("001-18")
def test_a_piece_comes_100_ms_after_the_other() -> None:
    gap = made("Hi").say.timing.gap_ms
    assert gap is not None
    assert [gap(k) for k in (1, 2, 100)] == [100.0] * 3
    assert made("Hi").say.timing.thinking_ms == 0


@pytest.mark.shows("001-01")
def test_the_same_conversation_is_answered_the_same_and_another_seed_changes_but_the_id() -> None:
    other = synthesize_response(asked("Hi"), replace(DELIVERY, seed="other"), "choices", "m")

    assert made("Hi") == made("Hi") != other
    [turn], [same] = other.say.turns, made("Hi").say.turns
    assert replace(turn, id=ID) == same


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    conversation = Conversation(
        (RequestMessage("user", (Text("12345"),)), RequestMessage("assistant", (Text("6789"),))),
        system="0",
    )
    within = Conversation(
        (RequestMessage("system", (Text("0"),)), RequestMessage("user", (Text("123456789"),))),
        system="0",
    )
    [turn] = synthesize_response(conversation, DELIVERY, "choices").say.turns

    assert turn.usage == Usage(3, -(-len(turn.text) // 4))
    [turn] = synthesize_response(within, DELIVERY, "choices").say.turns
    assert turn.usage is not None
    assert turn.usage.input == 3


# On the wire (001-16 … 001-25)


@pytest.mark.shows("001-19", "001-21", "001-22", "001-23", "001-24")
def test_each_chunk_has_the_shape_of_document_001() -> None:
    message = "Hi\nReason: so"
    events = chunks(made(message).say)

    around = {
        "id": ID, "object": "chat.completion.chunk", "model": "m", "created": 1_700_000_000,
    }  # fmt: skip
    assert all(event.items() >= around.items() for event in events)
    assert all(len(event["choices"]) == 1 for event in events)
    first, *said, last = [event["choices"][0] for event in events]
    assert (first["index"], first["delta"]["role"]) == (0, "assistant")
    kinds = [list(item["delta"]) for item in said]
    half = len(said) // 2
    assert kinds == [["reasoning"]] * half + [["content"]] * half
    assert [item["delta"].get("reasoning", "") for item in said[:half]] == [
        item["delta"].get("content", "") for item in said[half:]
    ]
    assert said[0]["delta"] == {"reasoning": "lorem ipsum dolor sit amet"}
    assert said[-1]["delta"] == {"content": " Hi\nReason: so"}
    assert (last["index"], last["delta"], last["finish_reason"]) == (0, {}, "stop")


@pytest.mark.shows("001-16", "001-21", "001-25")
def test_each_event_is_one_line_of_data_in_utf_8() -> None:
    response = spoken(made("Grüße 🌊").say)

    assert ("Content-Type", "text/event-stream; charset=utf-8") in response.head.headers
    assert response.head.framing == "chunked"
    assert " Grüße 🌊".encode() in response.messages[-3]
    assert all(
        message.startswith(b"data: ") and message.endswith(b"\n\n") and message.count(b"\n") == 2
        for message in response.messages
    )


@pytest.mark.shows("001-04")
def test_a_whole_answer_is_the_text_of_the_stream() -> None:
    say = made("Hi\nReason: so").say
    document = json.loads(spoken(say, stream=False).messages[0])

    [choice] = document["choices"]
    said = echoed("Hi\nReason: so")
    assert (document["id"], choice["finish_reason"]) == (ID, "stop")
    assert choice["message"]["content"] == choice["message"]["reasoning"] == said
    assert document["usage"]["prompt_tokens"] == 4


# The instruction block (001-26 … 001-36)

BLOCK: Final = instructed(
    id_message="no. 7",
    reasoning={"length": 6},
    messages=[
        {"text_message": {"length": 7}},
        {"tool_call": [{"name": "f", "args": {"city": "Zürich"}}, {"name": "g", "args": {}}]},
        {"text_message": {"length": 0}},
    ],
)
THOUGHT: Final = "no. 7 lorem ipsum dolor sit amet consectetur no. 7"
SAID: Final = "no. 7 lorem ipsum dolor sit amet consectetur adipiscing no. 7"


@pytest.mark.shows("001-26", "001-27", "001-28", "001-29", "001-30", "001-31", "001-32", "001-35")
def test_each_message_of_an_instruction_is_a_choice_of_its_own() -> None:
    first = ToolCall(CALLS[0], "f", '{"city":"Zürich"}')
    messages = (
        (Reasoning(THOUGHT), Text(SAID)),
        (first, ToolCall(CALLS[1], "g", "{}")),
        (Reasoning(THOUGHT), Text("no. 7 no. 7")),
    )
    made_up = made(BLOCK)

    assert (made_up.mode, made_up.warnings, made_up.say.turns_are_successive) == (
        "instruction",
        (),
        True,
    )
    usage = made_up.say.turns[0].usage
    assert made_up.say.turns == tuple(
        Turn(message, Finish.STOP, "", usage, None, ID, "m") for message in messages
    )


@pytest.mark.shows("001-31", "001-34")
def test_choices_come_one_after_the_other_and_finish_once() -> None:
    events = [chunk["choices"][0] for chunk in chunks(made(BLOCK).say)]

    order = [event["index"] for event in events]
    assert order == [*sorted(order[:-1]), 0]
    assert [event["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert events[-1]["delta"] == {}
    roles = [event["index"] for event in events if "role" in event["delta"]]
    assert roles == [0, 1, 2]


@pytest.mark.shows("001-27", "001-32")
def test_the_mark_of_a_message_is_cut_by_itself() -> None:
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(made(BLOCK).say)]

    assert deltas[1:9] == [
        {"reasoning": "no. 7"},
        {"reasoning": " lorem ipsum dolor sit amet"},
        {"reasoning": " consectetur"},
        {"reasoning": " no. 7"},
        {"content": "no. 7"},
        {"content": " lorem ipsum dolor sit amet"},
        {"content": " consectetur adipiscing"},
        {"content": " no. 7"},
    ]


@pytest.mark.shows("001-33")
def test_a_call_gives_its_id_and_name_first_and_then_its_arguments_in_pieces() -> None:
    events = [chunk["choices"][0] for chunk in chunks(made(BLOCK).say)]
    calls = [event["delta"]["tool_calls"][0] for event in events if "tool_calls" in event["delta"]]

    assert calls == [
        {
            "index": 0,
            "id": CALLS[0],
            "type": "function",
            "function": {"name": "f", "arguments": ""},
        },
        {"index": 0, "function": {"arguments": '{"city":"Zür'}},
        {"index": 0, "function": {"arguments": 'ich"}'}},
        {
            "index": 1,
            "id": CALLS[1],
            "type": "function",
            "function": {"name": "g", "arguments": ""},
        },
        {"index": 1, "function": {"arguments": "{}"}},
    ]


@pytest.mark.shows("001-31", "001-34")
def test_a_whole_answer_to_an_instruction_has_a_choice_a_message() -> None:
    document = json.loads(spoken(made(BLOCK).say, stream=False).messages[0])

    first, second, third = document["choices"]
    assert (first["message"]["reasoning"], first["message"]["content"]) == (THOUGHT, SAID)
    assert [tool_call["function"]["name"] for tool_call in second["message"]["tool_calls"]] == [
        "f",
        "g",
    ]
    assert third["message"]["content"] == "no. 7 no. 7"
    assert [choice["index"] for choice in document["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in document["choices"]} == {"stop"}


@pytest.mark.shows("001-29")
def test_without_a_mark_or_reasoning_there_are_but_words() -> None:
    made_up = made(instructed(messages=[{"text_message": {"length": 3}}]))

    assert made_up.say.turns[0].parts == (Text("lorem ipsum dolor"),)
    assert not made_up.say.turns_are_successive


def test_a_field_that_means_nothing_is_ignored_and_named() -> None:
    made_up = made(instructed(messages=[{"text_message": {"length": 3}}], reasonning={"length": 1}))

    assert (made_up.mode, made_up.say.turns[0].text) == ("instruction", "lorem ipsum dolor")
    [warning] = made_up.warnings
    assert warning == (
        "The instruction in the user's message has a field `reasonning`, which means nothing "
        "there and is ignored. Its fields are id_message, reasoning and messages."
    )


ONE_WORD: Final = {"text_message": {"length": 1}}


def _messages(entry: Any) -> str:
    return instructed(messages=[entry])


@pytest.mark.shows("001-36")
@pytest.mark.parametrize(
    ("message", "why"),
    [
        (instructed("{"), "Input data was truncated"),
        (instructed("{]"), "JSON is malformed"),
        (instructed("[]"), "Expected `object`, got `array`"),
        (instructed("{}"), "missing required field `messages`"),
        (instructed(messages=[]), "`array` of length >= 1 - at `$.messages`"),
        (_messages({}), "`$.messages[0]` needs one of text_message and tool_call"),
        (_messages({"image": {}}), "`$.messages[0]` needs one of text_message and tool_call"),
        (
            _messages({"text_message": {"length": 1}, "tool_call": [{"name": "f"}]}),
            "`$.messages[0]` needs one of text_message and tool_call",
        ),
        (_messages({"text_message": {"length": -1}}), "`int` >= 0"),
        (_messages({"text_message": {"length": 1.5}}), "`int`, got `float`"),
        (_messages({"text_message": {"length": "7"}}), "`int`, got `str`"),
        (_messages({"text_message": {"length": 10**30}}), "`int` <= 200000"),
        (_messages({"tool_call": []}), "length >= 1 - at `$.messages[0].tool_call`"),
        (_messages({"tool_call": [{"args": {}}]}), "missing required field `name`"),
        (_messages({"tool_call": [{"name": "f", "args": []}]}), "`object`, got `array`"),
        (instructed(id_message=1, messages=[]), "`str`, got `int` - at `$.id_message`"),
        (instructed(id_message="x" * 1001, messages=[]), "length <= 1000 - at `$.id_message`"),
        (instructed(messages=[{"text_message": {"length": 0}}] * 1001), "length <= 1000"),
        (
            instructed(reasoning={"length": 150_000}, messages=[ONE_WORD] * 2),
            "it asks for 300002 words, and 200000 are the most",
        ),
        (_messages({"tool_call": [{"name": "f", "args": {"a": None}}]}).replace(
            "null", "[" * 10_000 + "]" * 10_000), "it is nested too deeply"),
        ("<|instruction_start|>{}\nReason: so", "<|instruction_end|> is missing"),
    ],
)  # fmt: skip
def test_an_instruction_that_cannot_be_followed_is_a_message_like_any_other(
    message: str, why: str
) -> None:
    said = echoed(message)
    made_up = made(message)

    assert made_up.mode == "reasoning"
    assert made_up.say.turns[0].parts == (Reasoning(said), Text(said))
    [warning] = made_up.warnings
    assert why in warning
    assert warning.startswith("The instruction in the user's message cannot be followed")
    assert warning.endswith("between <|instruction_start|> and <|instruction_end|>.")


def test_an_end_without_a_start_is_no_block() -> None:
    assert made("{}<|instruction_end|>").warnings == ()


@pytest.mark.shows("001-27", "001-28", "001-29", "001-32")
@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    thought=st.none() | st.integers(0, 9),
    mark=st.text(max_size=6),
)
@settings(max_examples=50)
def test_each_stream_has_its_words_between_its_marks(
    lengths: list[int], thought: int | None, mark: str
) -> None:
    entries = [{"text_message": {"length": item}} for item in lengths]
    thinking = {} if thought is None else {"reasoning": {"length": thought}}

    say = made(instructed(id_message=mark, messages=entries, **thinking)).say

    def stream(count: int) -> str:
        return " ".join(filter(None, (mark, lorem.lorem_words(count), mark)))

    for turn, length in zip(say.turns, lengths, strict=True):
        expected = [] if thought is None else [Reasoning(stream(thought))]
        assert turn.parts == (*expected, Text(stream(length)))
        assert "".join(say.split_text(turn.text)) == turn.text


# Every dialect


def told(manner: Manner, message: str) -> tuple[Turn, ...]:
    """What a client of this manner hears."""
    dialect, request = manner.dialect, manner.request
    how = message_layout_of(dialect, request, manner.delivery)
    say = synthesize_response(asked(message), manner.delivery, how, "m").say
    delivery = replace(
        manner.delivery, split_text=say.split_text, turns_are_successive=say.turns_are_successive
    )
    return dialect.decode(dialect.encode(request, say.turns, delivery))


each_manner = pytest.mark.parametrize(
    "manner",
    [
        item for item in MANNERS if item.name != "openai-responses compacted"
    ],  # has no word for a finish
    ids=lambda it: it.name.replace(" ", "-"),
)


@pytest.mark.shows("001-10", "001-21")
@each_manner
def test_every_dialect_tells_the_same_words(manner: Manner) -> None:
    message = "Grüße\n\nReason:  so \n"
    [turn] = told(manner, message)

    said = echoed(message)
    assert turn.text == said
    assert [part.text for part in turn.parts if isinstance(part, Reasoning)] in ([], [said])
    assert turn.finish in (Finish.STOP, Finish.STOP_SEQUENCE)


def _texts(turns: tuple[Turn, ...]) -> Iterator[str]:
    return (part.text for turn in turns for part in turn.parts if isinstance(part, Text))


@pytest.mark.shows("001-31")
@each_manner
def test_every_dialect_tells_the_messages_of_an_instruction_in_its_own_way(manner: Manner) -> None:
    entries = [{"text_message": {"length": item}} for item in (1, 2)]
    turns = told(manner, instructed(id_message="#", messages=entries))

    how = message_layout_of(manner.dialect, manner.request, manner.delivery)
    assert len(turns) == (2 if how == "choices" else 1)
    separate = ["# lorem #", "# lorem ipsum #"]
    assert list(_texts(turns)) == ([" ".join(separate)] if how == "text" else separate)


@pytest.mark.shows("001-34")
@each_manner
def test_every_dialect_with_a_word_for_calls_waits_for_them(manner: Manner) -> None:
    entries = [{"text_message": {"length": 1}}, {"tool_call": [{"name": "f", "args": {"a": 1}}]}]
    try:
        turns = told(manner, instructed(messages=entries))
    except NotRepresentable:
        return
    [call] = [part for turn in turns for part in turn.parts if isinstance(part, ToolCall)]

    assert (call.name, json.loads(call.arguments)) == ("f", {"a": 1})
    stops = manner.name.startswith("openai-chat")
    assert turns[0].finish is (Finish.STOP if stops else Finish.TOOL_CALLS)


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/v1/chat/completions", "choices"),
        ("/v1/completions", "choices"),
        ("/v1/responses", "parts"),
        ("/v1/messages", "parts"),
        ("/v1beta/models/gemini-3-flash:generateContent", "text"),
        ("/api/chat", "text"),
        ("/model/meta.llama3-1-8b-instruct-v1%3A0/invoke", "text"),
    ],
)
def test_messages_are_told_as_choices_as_parts_or_as_one_text(path: str, how: Telling) -> None:
    request: Request = asking(path, ("anthropic-version", "2026-10-21"), model="m")

    assert message_layout_of(find_dialect(request), request, DELIVERY) == how


# OpenAI's own client


def client(response: DialectResponse) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        body = b"".join(response.messages)
        return httpx2.Response(response.head.status, headers=[*response.head.headers], content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )


@pytest.mark.shows("001-31", "001-33", "001-34")
def test_the_sdk_hears_each_message_by_its_index() -> None:
    heard: dict[int, str] = {}
    arguments: dict[str, str] = {}
    with client(spoken(made(BLOCK).say)) as sdk:
        stream = sdk.chat.completions.create(model="m", messages=[], stream=True)
        each = [chunk.choices[0] for chunk in stream]
    for choice in each:
        heard[choice.index] = heard.get(choice.index, "") + (choice.delta.content or "")
        for call in choice.delta.tool_calls or ():
            assert call.function is not None
            name = str(call.index)
            arguments[name] = arguments.get(name, "") + (call.function.arguments or "")

    assert heard == {0: SAID, 1: "", 2: "no. 7 no. 7"}
    assert arguments == {"0": '{"city":"Zürich"}', "1": "{}"}
    assert [item.finish_reason for item in each if item.finish_reason] == ["stop"]


def test_the_sdk_gathers_a_stream_into_the_whole_answer() -> None:
    say = made("Hi\nReason: so").say
    with client(spoken(say)) as sdk:
        with sdk.chat.completions.stream(model="m", messages=[]) as stream:
            gathered = stream.get_final_completion()
    with client(spoken(say, stream=False)) as sdk:
        whole = sdk.chat.completions.create(model="m", messages=[])

    assert gathered.choices[0].message.content == whole.choices[0].message.content
    assert gathered.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"
    assert gathered.id == whole.id == ID
