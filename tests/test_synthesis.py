"""Synthesized responses: lorem ipsum and an echo, or what an instruction block describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from dialect_manners import MANNERS, Manner, json_request
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import DialectResponse, dialect_of_request
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.synthesis import (
    MessageLayout,
    hash_based_word_count,
    lorem_words,
    message_layout_of,
    synthesize_response,
)
from llm_proxy.turns import FinishReason, Media, Reasoning, Text, ToolCall, Turn, Usage

CONTEXT: Final = EncodeContext("seed", 1_700_000_000, provider="test-llm")
RESPONSE_ID: Final = CONTEXT.fake_identifier("gen-1700000000-", length=16)
CALL_IDS: Final = tuple(CONTEXT.fake_identifier("call_", item) for item in range(3))


def user_conversation(message: str) -> Conversation:
    return Conversation((RequestMessage("user", (Text(message),)),))


def synthesize(message: str, layout: MessageLayout = "choices") -> ScriptedResponse:
    return synthesize_response(user_conversation(message), CONTEXT, layout, "m")


def sent(response: ScriptedResponse) -> SendTurns:
    assert isinstance(response.scripted_action, SendTurns)
    return response.scripted_action


def content_of(response: ScriptedResponse) -> tuple[Any, ...]:
    """All of a response but its functions, with the pieces of its texts."""
    turns = sent(response).response_turns
    pieces = [tuple(sent(response).split_text(turn.text)) for turn in turns]
    return response.origin, response.warnings, turns, pieces, sent(response).turns_are_successive


def instruction_message(text: str = "", /, **fields: Any) -> str:
    """A message with an instruction block between other text."""
    block = text or json.dumps(fields)
    return f"Hi <|instruction_start|>{block}<|instruction_end|>\nReason: none"


def lorem_of(message: str) -> str:
    """The lorem ipsum for a message, computed independently."""
    number = 5 + int.from_bytes(sha256(message.encode()).digest()[:8], "big") % 496
    return lorem_words(number)


def lorem_and_echo(message: str) -> str:
    """The text of the response to a message without instructions."""
    return f"{lorem_of(message)} {message}"


def encode_action(
    action: SendTurns, *, provider: str = "test-llm", stream: bool = True, **body: Any
) -> DialectResponse:
    request = json_request("/v1/chat/completions", model="m", stream=stream, **body)
    context = replace(
        CONTEXT,
        provider=provider,
        split_text=action.split_text,
        choices_are_successive=action.turns_are_successive,
    )
    return dialect_of_request(request).encode_response(request, action.response_turns, context)


def stream_chunks(action: SendTurns) -> list[dict[str, Any]]:
    *events, last = encode_action(action).framed_messages
    assert last == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ").removesuffix(b"\n\n")) for event in events]


# Lorem and echo (001-13 … 001-20, 001-37 … 001-40)


@pytest.mark.shows("001-38")
@each_row(("message", "count"), [("", 361), ("Hello", 138), ("Grüße 🌊", 487), ("\ud801", 256)])
def test_the_count_of_words_is_the_same_on_every_machine(message: str, count: int) -> None:
    assert hash_based_word_count(message) == count


@pytest.mark.shows("001-38", "001-39")
@given(message=st.text())
def test_there_are_5_to_500_words(message: str) -> None:
    assert 5 <= hash_based_word_count(message) <= 500


@pytest.mark.shows("001-37")
def test_the_words_are_one_list_again_and_again() -> None:
    word_list = lorem_words(500).split(" ")

    assert word_list[:5] == ["lorem", "ipsum", "dolor", "sit", "amet"]
    assert word_list[69:] == word_list[:431]
    assert (len(word_list), lorem_words(0)) == (500, "")


@pytest.mark.shows("001-20", "001-39")
@given(message=st.text(min_size=1))
def test_an_answer_is_lorem_and_the_message_verbatim(message: str) -> None:
    assert sent(synthesize(message)).response_turns[0].text == lorem_and_echo(message)


def test_without_a_user_message_there_is_nothing_to_echo() -> None:
    response = synthesize_response(Conversation(()), CONTEXT, "choices")

    assert sent(response).response_turns[0].parts == (Text(lorem_of("")),)
    assert sent(response).response_turns[0].model == "synthesis"


@pytest.mark.shows("001-13", "001-14")
def test_the_latest_message_counts_its_texts_joined_and_nothing_else_of_it() -> None:
    latest = RequestMessage(
        "user", (Text("Look:"), Media("image/png", base64="aGk="), Text("nice?"))
    )
    others = (RequestMessage("user", (Text("Hi"),)), RequestMessage("assistant", (Text("Hello"),)))
    response = synthesize_response(Conversation((*others, latest)), CONTEXT, "choices")

    assert sent(response).response_turns[0].text == lorem_and_echo("Look:\nnice?")


MESSAGE: Final = "one two\n three  four five six \n"
ECHO_PIECES: Final = [" one two\n three  four five", " six \n"]


@pytest.mark.shows("001-17", "001-20")
def test_lorem_and_echo_are_cut_each_by_itself_five_words_a_piece() -> None:
    action = sent(synthesize(MESSAGE))
    pieces = list(action.split_text(action.response_turns[0].text))

    *full, last = pieces[:-2]
    assert "".join([*full, last]) == lorem_of(MESSAGE)
    assert {len(item.split()) for item in full} == {5}
    assert len(last.split()) in range(1, 6)
    assert pieces[-2:] == ECHO_PIECES


@pytest.mark.shows("001-15", "001-19", "001-20", "001-38")
def test_a_reason_on_a_line_of_its_own_asks_for_reasoning_first() -> None:
    message = "Why?\nReason: so"
    expected_text = lorem_and_echo(message)

    response = synthesize(message)

    assert response.origin == "synthesis: reasoning"
    assert sent(response).response_turns[0].parts == (
        Reasoning(expected_text),
        Text(expected_text),
    )


@pytest.mark.shows("001-15", "001-40")
@each_row("message", ["Reason: so", "Why?\nreason: so", "Why? Reason:", "\n Reason:"])
def test_any_other_reason_asks_for_no_reasoning(message: str) -> None:
    response = synthesize(message)

    assert response.origin == "synthesis: text"
    assert sent(response).response_turns[0].parts == (Text(lorem_and_echo(message)),)


@pytest.mark.shows("001-18")
def test_pieces_are_100_ms_apart() -> None:
    gap = sent(synthesize("Hi")).gap_ms
    assert gap is not None
    assert [gap(k) for k in (1, 2, 100)] == [100.0] * 3
    assert sent(synthesize("Hi")).thinking_ms == 0


@pytest.mark.shows("001-01")
def test_the_same_conversation_is_answered_the_same_and_another_seed_changes_but_the_id() -> None:
    other = synthesize_response(
        user_conversation("Hi"), replace(CONTEXT, seed="other"), "choices", "m"
    )

    assert content_of(synthesize("Hi")) == content_of(synthesize("Hi")) != content_of(other)
    [turn], [same] = (
        sent(other).response_turns,
        sent(synthesize("Hi")).response_turns,
    )
    assert replace(turn, id=RESPONSE_ID) == same


def test_tokens_are_a_quarter_of_the_characters_rounded_up() -> None:
    conversation = Conversation(
        (RequestMessage("user", (Text("12345"),)), RequestMessage("assistant", (Text("6789"),))),
        system="0",
    )
    inline_system = Conversation(
        (RequestMessage("system", (Text("0"),)), RequestMessage("user", (Text("123456789"),))),
        system="0",
    )
    [turn] = sent(synthesize_response(conversation, CONTEXT, "choices")).response_turns

    assert turn.usage == Usage(3, -(-len(turn.text) // 4))
    [turn] = sent(synthesize_response(inline_system, CONTEXT, "choices")).response_turns
    assert turn.usage is not None
    assert turn.usage.input == 3


# On the wire (001-16 … 001-25)


@pytest.mark.shows("001-19", "001-21", "001-22", "001-23", "001-24")
def test_each_chunk_has_the_shape_of_document_001() -> None:
    message = "Hi\nReason: so"
    events = stream_chunks(sent(synthesize(message)))

    common_fields = {
        "id": RESPONSE_ID,
        "object": "chat.completion.chunk",
        "model": "m",
        "created": 1_700_000_000,
    }
    assert all(event.items() >= common_fields.items() for event in events)
    assert all(len(event["choices"]) == 1 for event in events)
    first, *content_choices, last = [event["choices"][0] for event in events]
    assert (first["index"], first["delta"]["role"]) == (0, "assistant")
    kinds = [list(item["delta"]) for item in content_choices]
    half = len(content_choices) // 2
    assert kinds == [["reasoning"]] * half + [["content"]] * half
    assert [item["delta"].get("reasoning", "") for item in content_choices[:half]] == [
        item["delta"].get("content", "") for item in content_choices[half:]
    ]
    assert content_choices[0]["delta"] == {"reasoning": "lorem ipsum dolor sit amet"}
    assert content_choices[-1]["delta"] == {"content": " Hi\nReason: so"}
    assert (last["index"], last["delta"], last["finish_reason"]) == (0, {}, "stop")


@pytest.mark.shows("001-16", "001-21", "001-25")
def test_each_event_is_one_line_of_data_in_utf_8() -> None:
    response = encode_action(sent(synthesize("Grüße 🌊")))

    assert ("Content-Type", "text/event-stream; charset=utf-8") in response.head.headers
    assert response.head.framing == "chunked"
    assert " Grüße 🌊".encode() in response.framed_messages[-3]
    assert all(
        message.startswith(b"data: ") and message.endswith(b"\n\n") and message.count(b"\n") == 2
        for message in response.framed_messages
    )


@pytest.mark.shows("001-04")
def test_a_whole_answer_is_the_text_of_the_stream() -> None:
    action = sent(synthesize("Hi\nReason: so"))
    document = json.loads(encode_action(action, stream=False).framed_messages[0])

    [choice] = document["choices"]
    expected_text = lorem_and_echo("Hi\nReason: so")
    assert (document["id"], choice["finish_reason"]) == (RESPONSE_ID, "stop")
    assert choice["message"]["content"] == choice["message"]["reasoning"] == expected_text
    assert document["usage"]["prompt_tokens"] == 4


# The instruction block (001-26 … 001-36)

INSTRUCTION: Final = instruction_message(
    id_message="no. 7",
    reasoning={"length": 6},
    messages=[
        {"text_message": {"length": 7}},
        {"tool_call": [{"name": "f", "args": {"city": "Zürich"}}, {"name": "g", "args": {}}]},
        {"text_message": {"length": 0}},
    ],
)
REASONING_TEXT: Final = "no. 7 lorem ipsum dolor sit amet consectetur no. 7"
MESSAGE_TEXT: Final = "no. 7 lorem ipsum dolor sit amet consectetur adipiscing no. 7"


@pytest.mark.shows("001-26", "001-27", "001-28", "001-29", "001-30", "001-31", "001-32", "001-35")
def test_each_message_of_an_instruction_is_a_choice_of_its_own() -> None:
    first = ToolCall(CALL_IDS[0], "f", '{"city":"Zürich"}')
    messages = (
        (Reasoning(REASONING_TEXT), Text(MESSAGE_TEXT)),
        (first, ToolCall(CALL_IDS[1], "g", "{}")),
        (Reasoning(REASONING_TEXT), Text("no. 7 no. 7")),
    )
    response = synthesize(INSTRUCTION)

    assert (response.origin, response.warnings, sent(response).turns_are_successive) == (
        "synthesis: instruction",
        (),
        True,
    )
    usage = sent(response).response_turns[0].usage
    assert sent(response).response_turns == tuple(
        Turn(message, FinishReason.STOP, "", usage, None, RESPONSE_ID, "m") for message in messages
    )


@pytest.mark.shows("001-31", "001-34")
def test_choices_come_one_after_the_other_and_finish_once() -> None:
    events = [chunk["choices"][0] for chunk in stream_chunks(sent(synthesize(INSTRUCTION)))]

    order = [event["index"] for event in events]
    assert order == [*sorted(order[:-1]), 0]
    assert [event["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert events[-1]["delta"] == {}
    roles = [event["index"] for event in events if "role" in event["delta"]]
    assert roles == [0, 1, 2]


@pytest.mark.shows("001-27", "001-32")
def test_the_mark_of_a_message_is_cut_by_itself() -> None:
    deltas = [
        chunk["choices"][0]["delta"] for chunk in stream_chunks(sent(synthesize(INSTRUCTION)))
    ]

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
    events = [chunk["choices"][0] for chunk in stream_chunks(sent(synthesize(INSTRUCTION)))]
    calls = [event["delta"]["tool_calls"][0] for event in events if "tool_calls" in event["delta"]]

    assert calls == [
        {
            "index": 0,
            "id": CALL_IDS[0],
            "type": "function",
            "function": {"name": "f", "arguments": ""},
        },
        {"index": 0, "function": {"arguments": '{"city":"Zür'}},
        {"index": 0, "function": {"arguments": 'ich"}'}},
        {
            "index": 1,
            "id": CALL_IDS[1],
            "type": "function",
            "function": {"name": "g", "arguments": ""},
        },
        {"index": 1, "function": {"arguments": "{}"}},
    ]


@pytest.mark.shows("001-31", "001-34")
def test_a_whole_answer_to_an_instruction_has_a_choice_a_message() -> None:
    document = json.loads(
        encode_action(sent(synthesize(INSTRUCTION)), stream=False).framed_messages[0]
    )

    first, second, third = document["choices"]
    assert (first["message"]["reasoning"], first["message"]["content"]) == (
        REASONING_TEXT,
        MESSAGE_TEXT,
    )
    assert [tool_call["function"]["name"] for tool_call in second["message"]["tool_calls"]] == [
        "f",
        "g",
    ]
    assert third["message"]["content"] == "no. 7 no. 7"
    assert [choice["index"] for choice in document["choices"]] == [0, 1, 2]
    assert {choice["finish_reason"] for choice in document["choices"]} == {"stop"}


@pytest.mark.shows("001-29")
def test_without_a_mark_or_reasoning_there_are_only_words() -> None:
    response = synthesize(instruction_message(messages=[{"text_message": {"length": 3}}]))

    assert sent(response).response_turns[0].parts == (Text("lorem ipsum dolor"),)
    assert not sent(response).turns_are_successive


def test_an_unknown_field_is_ignored_and_named() -> None:
    response = synthesize(
        instruction_message(messages=[{"text_message": {"length": 3}}], reasonning={"length": 1})
    )

    assert (response.origin, sent(response).response_turns[0].text) == (
        "synthesis: instruction",
        "lorem ipsum dolor",
    )
    [warning] = response.warnings
    assert warning == (
        "ignored the unknown field 'reasonning' of the instruction in the user message; "
        "known fields: id_message, reasoning, messages"
    )


ONE_WORD: Final = {"text_message": {"length": 1}}


def _messages(entry: Any) -> str:
    return instruction_message(messages=[entry])


@pytest.mark.shows("001-36")
@each_row(
    ("message", "reason"),
    [
        (instruction_message("{"), "Input data was truncated"),
        (instruction_message("{]"), "JSON is malformed"),
        (instruction_message("[]"), "Expected `object`, got `array`"),
        (instruction_message("{}"), "missing required field `messages`"),
        (instruction_message(messages=[]), "`array` of length >= 1 - at `$.messages`"),
        (_messages({}), "`$.messages[0]` must contain either text_message or tool_call"),
        (_messages({"image": {}}), "`$.messages[0]` must contain either text_message or tool_call"),
        (
            _messages({"text_message": {"length": 1}, "tool_call": [{"name": "f"}]}),
            "`$.messages[0]` must contain either text_message or tool_call",
        ),
        (_messages({"text_message": {"length": -1}}), "`int` >= 0"),
        (_messages({"text_message": {"length": 1.5}}), "`int`, got `float`"),
        (_messages({"text_message": {"length": "7"}}), "`int`, got `str`"),
        (_messages({"text_message": {"length": 10**30}}), "`int` <= 200000"),
        (_messages({"tool_call": []}), "length >= 1 - at `$.messages[0].tool_call`"),
        (_messages({"tool_call": [{"args": {}}]}), "missing required field `name`"),
        (_messages({"tool_call": [{"name": "f", "args": []}]}), "`object`, got `array`"),
        (instruction_message(id_message=1, messages=[]), "`str`, got `int` - at `$.id_message`"),
        (
            instruction_message(id_message="x" * 1001, messages=[]),
            "length <= 1000 - at `$.id_message`",
        ),
        (instruction_message(messages=[{"text_message": {"length": 0}}] * 1001), "length <= 1000"),
        (
            instruction_message(reasoning={"length": 150_000}, messages=[ONE_WORD] * 2),
            "it requests 300002 words (maximum 200000)",
        ),
        (
            _messages({"tool_call": [{"name": "f", "args": {"a": None}}]}).replace(
                "null", "[" * 10_000 + "]" * 10_000
            ),
            "it is nested too deeply",
        ),
        ("<|instruction_start|>{}\nReason: so", "<|instruction_end|> is missing"),
    ],
)
def test_an_instruction_that_cannot_be_followed_is_a_message_like_any_other(
    message: str, reason: str
) -> None:
    expected_text = lorem_and_echo(message)
    response = synthesize(message)

    assert response.origin == "synthesis: reasoning"
    assert sent(response).response_turns[0].parts == (
        Reasoning(expected_text),
        Text(expected_text),
    )
    [warning] = response.warnings
    assert reason in warning
    assert warning.startswith("ignored the instruction in the user message")
    assert warning.endswith("between <|instruction_start|> and <|instruction_end|>")


def test_an_end_without_a_start_is_no_block() -> None:
    assert synthesize("{}<|instruction_end|>").warnings == ()


@pytest.mark.shows("001-27", "001-28", "001-29", "001-32")
@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    thought=st.none() | st.integers(0, 9),
    mark=st.text(max_size=6),
)
def test_each_stream_has_its_words_between_its_marks(
    lengths: list[int], thought: int | None, mark: str
) -> None:
    entries = [{"text_message": {"length": item}} for item in lengths]
    thinking = {} if thought is None else {"reasoning": {"length": thought}}

    action = sent(synthesize(instruction_message(id_message=mark, messages=entries, **thinking)))

    def stream(count: int) -> str:
        return " ".join(filter(None, (mark, lorem_words(count), mark)))

    for turn, length in zip(action.response_turns, lengths, strict=True):
        expected = [] if thought is None else [Reasoning(stream(thought))]
        assert turn.parts == (*expected, Text(stream(length)))
        assert "".join(action.split_text(turn.text)) == turn.text


# Every dialect


def decoded_turns(variant: Manner, message: str) -> tuple[Turn, ...]:
    """The turns that a client of this variant decodes."""
    dialect, request = variant.dialect, variant.request
    layout = message_layout_of(dialect, request, variant.context, message)
    action = sent(synthesize_response(user_conversation(message), variant.context, layout, "m"))
    context = replace(
        variant.context,
        split_text=action.split_text,
        choices_are_successive=action.turns_are_successive,
    )
    return dialect.decode_response(dialect.encode_response(request, action.response_turns, context))


each_variant = each_row("variant", MANNERS, ids=(variant.name for variant in MANNERS))


@pytest.mark.shows("001-10", "001-21")
@each_variant
def test_every_dialect_encodes_the_same_text(variant: Manner) -> None:
    message = "Grüße\n\nReason:  so \n"
    [turn] = decoded_turns(variant, message)

    expected_text = lorem_and_echo(message)
    assert turn.text == expected_text
    assert [part.text for part in turn.parts if isinstance(part, Reasoning)] in (
        [],
        [expected_text],
    )
    assert turn.finish in map(
        variant.decoded_finish, (FinishReason.STOP, FinishReason.STOP_SEQUENCE)
    )


def _texts(turns: tuple[Turn, ...]) -> Iterator[str]:
    return (part.text for turn in turns for part in turn.parts if isinstance(part, Text))


@pytest.mark.shows("001-31")
@each_variant
def test_every_dialect_encodes_the_messages_of_an_instruction_in_its_layout(
    variant: Manner,
) -> None:
    entries = [{"text_message": {"length": item}} for item in (1, 2)]
    message = instruction_message(id_message="#", messages=entries)
    turns = decoded_turns(variant, message)

    layout = message_layout_of(variant.dialect, variant.request, variant.context, message)
    assert len(turns) == (2 if layout == "choices" else 1)
    expected_texts = ["# lorem #", "# lorem ipsum #"]
    assert list(_texts(turns)) == (
        [" ".join(expected_texts)] if layout == "text" else expected_texts
    )


@pytest.mark.shows("001-34")
@each_variant
def test_every_dialect_with_tool_calls_encodes_those_of_an_instruction(variant: Manner) -> None:
    entries = [{"text_message": {"length": 1}}, {"tool_call": [{"name": "f", "args": {"a": 1}}]}]
    try:
        turns = decoded_turns(variant, instruction_message(messages=entries))
    except NotRepresentable:
        return
    [call] = [part for turn in turns for part in turn.parts if isinstance(part, ToolCall)]

    assert (call.name, json.loads(call.arguments)) == ("f", {"a": 1})
    stops = variant.name.startswith("openai-chat")
    assert turns[0].finish is variant.decoded_finish(
        FinishReason.STOP if stops else FinishReason.TOOL_CALLS
    )


@each_row(
    ("path", "layout"),
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
def test_messages_are_laid_out_as_choices_as_parts_or_as_one_text(
    path: str, layout: MessageLayout
) -> None:
    request: Request = json_request(path, ("anthropic-version", "2026-10-21"), model="m")

    dialect, instruction = dialect_of_request(request), instruction_message(messages=[])

    assert message_layout_of(dialect, request, CONTEXT, instruction) == layout
    if layout != "choices":
        assert message_layout_of(dialect, request, CONTEXT, "Hi") == "parts"


# OpenAI's own client


def client(response: DialectResponse) -> openai.OpenAI:
    def respond(_: httpx2.Request) -> httpx2.Response:
        body = b"".join(response.framed_messages)
        return httpx2.Response(response.head.status, headers=[*response.head.headers], content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


@pytest.mark.shows("001-31", "001-33", "001-34")
def test_the_sdk_receives_each_message_by_its_index() -> None:
    texts: dict[int, str] = {}
    arguments: dict[str, str] = {}
    with client(encode_action(sent(synthesize(INSTRUCTION)))) as sdk:
        stream = sdk.chat.completions.create(model="m", messages=[], stream=True)
        choices = [chunk.choices[0] for chunk in stream]
    for choice in choices:
        texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
        for call in choice.delta.tool_calls or ():
            assert call.function is not None
            name = str(call.index)
            arguments[name] = arguments.get(name, "") + (call.function.arguments or "")

    assert texts == {0: MESSAGE_TEXT, 1: "", 2: "no. 7 no. 7"}
    assert arguments == {"0": '{"city":"Zürich"}', "1": "{}"}
    assert [item.finish_reason for item in choices if item.finish_reason] == ["stop"]


def test_the_sdk_accumulates_a_stream_into_the_whole_answer() -> None:
    action = sent(synthesize("Hi\nReason: so"))
    with client(encode_action(action)) as sdk:
        with sdk.chat.completions.stream(model="m", messages=[]) as stream:
            accumulated = stream.get_final_completion()
    with client(encode_action(action, stream=False)) as sdk:
        whole = sdk.chat.completions.create(model="m", messages=[])

    assert accumulated.choices[0].message.content == whole.choices[0].message.content
    assert accumulated.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"
    assert accumulated.id == whole.id == RESPONSE_ID
