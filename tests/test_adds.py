"""Which messages of a stream add to what was said: what a pace is kept by."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from corpus_readings import response
from llm_proxy import dialects
from llm_proxy.dialects import OPAQUE, find
from llm_proxy.dialects.bedrock import frames
from llm_proxy.dialects.delivery import Delivery, pieces
from llm_proxy.errors import CannotSay
from llm_proxy.framing.sse import event
from llm_proxy.turns import Part, Reasoning, Text, ToolCall, Turn
from reframed import as_sent
from speaking import MANNERS, Manner

WORDS: Final = "It is warm in Rome, and it will stay so."
THOUGHT: Final = "Let me look at the weather."

Cut = Callable[[str], Iterable[str]]


def whole(text: str) -> tuple[str, ...]:
    return (text,)


STREAMS: Final = [it for it in MANNERS if it.dialect.streams(it.request)]


def told(manner: Manner, parts: tuple[Part, ...], cut: Cut) -> tuple[list[bool], Turn]:
    """Of each message of the stream whether it adds, and the turn as it was told."""
    delivery = replace(manner.delivery, cut=cut)
    answer = manner.dialect.speak(manner.request, [Turn(parts)], delivery)
    [turn] = manner.dialect.turns(answer)
    return [manner.dialect.adds(answer.codec, it) for it in answer.messages], turn


def words(turn: Turn) -> list[str]:
    return [it.text for it in turn.parts if isinstance(it, Text | Reasoning)]


@pytest.mark.parametrize("cut", [whole, pieces], ids=["one piece", "several"])
@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_as_many_messages_add_as_there_are_pieces(manner: Manner, cut: Cut) -> None:
    adds, turn = told(manner, (Reasoning(THOUGHT, "c2VhbA=="), Text(WORDS)), cut)

    assert words(turn) in ([THOUGHT, WORDS], [WORDS])
    assert sum(adds) == sum(len(list(cut(text))) for text in words(turn))


@pytest.mark.parametrize("name", dialects.speakers())
def test_as_many_messages_of_a_typical_stream_add_as_there_are_pieces(name: str) -> None:
    dialect = dialects.named(name)
    asked = dialect.typical("us.anthropic.claude-sonnet-5", stream=True)

    answer = dialect.speak(asked, [Turn((Text(WORDS),))], Delivery("s", 0))

    assert sum(dialect.adds(answer.codec, it) for it in answer.messages) == len(pieces(WORDS))


@settings(max_examples=5)
@given(texts=st.lists(st.text("ab 🌊\n", min_size=1, max_size=9), min_size=1, max_size=3))
@pytest.mark.parametrize("manner", STREAMS[:1], ids=lambda it: it.name)
def test_so_they_do_for_any_text(manner: Manner, texts: list[str]) -> None:
    adds, turn = told(manner, tuple(map(Text, texts)), pieces)

    assert sum(adds) == sum(len(pieces(text)) for text in words(turn))


@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_a_call_adds_and_a_stream_that_says_nothing_does_not(manner: Manner) -> None:
    silent, _ = told(manner, (), pieces)
    try:
        called, turn = told(manner, (ToolCall("c1", "weather", '{"city":"Rome"}'),), pieces)
    except CannotSay:
        called, turn = [], Turn(())

    assert not any(silent)
    assert any(called) == any(isinstance(it, ToolCall) for it in turn.parts)


@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_what_is_no_stream_adds_nothing_and_what_cannot_be_read_adds_nothing(
    manner: Manner,
) -> None:
    dialect = manner.dialect
    answer = dialect.speak(manner.request, [Turn((Text(WORDS),))], manner.delivery)
    unreadable = (b"", b"\n", b": keep-alive\n\n", b"\xff\xfe", b"[]", b"data: [DONE]\n\n", b"nul")

    assert not any(dialect.adds("whole", it) for it in answer.messages)
    assert not any(dialect.adds(answer.codec, it) for it in unreadable)
    assert not any(dialect.adds(answer.codec, it[: len(it) // 2]) for it in answer.messages)
    assert not any(OPAQUE.adds(answer.codec, it) for it in answer.messages)


def sse(**document: Any) -> bytes:
    return event(json.dumps(document).encode())


def choice(**delta: Any) -> bytes:
    return sse(choices=[{"index": 0, "delta": delta}])


def block(**delta: Any) -> bytes:
    return sse(type="content_block_delta", index=0, delta=delta)


def part(**fields: Any) -> bytes:
    return sse(candidates=[{"content": {"parts": [fields]}, "finishReason": "STOP"}])


def line(**document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


ADD: Final = {
    "openai-chat": [
        choice(content="a"),
        choice(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]),
        choice(reasoning_content="a"),
        choice(reasoning="a"),
        choice(reasoning_details=[{"type": "reasoning.text", "text": "a"}]),
        choice(refusal="a"),
        choice(audio={"data": "aGk="}),
        choice(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]),
        choice(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}]),
    ],
    "openai-completions": [sse(choices=[{"text": "a"}]), sse(value="a")],
    "openai-responses": [
        sse(type="response.output_text.delta", delta="a"),
        sse(type="response.function_call_arguments.delta", delta="{"),
        sse(type="response.image_generation_call.partial_image", partial_image_b64="aGk="),
    ],
    "openai-audio": [sse(type="transcript.text.delta", delta="a")],
    "openai-assistants": [event(b"{}", "thread.message.delta")],
    "anthropic": [
        block(type="text_delta", text="a"),
        block(type="thinking_delta", thinking="a"),
        block(type="input_json_delta", partial_json=""),
        sse(type="completion", completion="a"),
    ],
    "gemini": [
        part(text="a"),
        part(text="a", thought=True),
        part(functionCall={"name": "f"}),
        part(inlineData={"mimeType": "image/png", "data": "aGk="}),
    ],
    "gemini-interactions": [
        sse(event_type="step.delta", delta={"type": "text", "text": "a"}),
        sse(event_type="step.delta", delta={"type": "arguments_delta", "arguments": "{"}),
    ],
    "cohere": [
        sse(type="content-delta", delta={"message": {"content": {"text": "a"}}}),
        sse(type="content-delta", delta={"message": {"content": {"thinking": "a"}}}),
        sse(type="tool-plan-delta", delta={"message": {"tool_plan": "a"}}),
        sse(type="tool-call-delta", delta={"message": {"tool_calls": {"function": {}}}}),
        sse(event_type="text-generation", text="a", is_finished=False),
    ],
}
NOTHING: Final = {
    "openai-chat": [
        choice(role="assistant", content=""),
        choice(),
        choice(annotations=[{"type": "url_citation"}]),
        choice(reasoning_details=[{"type": "reasoning.encrypted", "data": "xyz"}]),
        sse(choices=[], usage={"prompt_tokens": 1}),
        sse(error={"message": "no"}),
    ],
    "openai-completions": [sse(choices=[{"text": "", "finish_reason": "stop"}])],
    "openai-responses": [
        sse(type="response.created", response={}),
        sse(type="response.output_item.added", item={"type": "function_call"}),
        sse(type="response.output_text.done", text="a"),
        sse(type="response.output_text.annotation.added", annotation={}),
        sse(type=5),
    ],
    "openai-audio": [sse(type="transcript.text.done", text="a")],
    "anthropic": [
        block(type="signature_delta", signature="xyz"),
        sse(type="content_block_start", content_block={"type": "tool_use"}),
        sse(type="message_delta", delta={"stop_reason": "end_turn"}),
        sse(type="ping"),
        sse(type="error", error={"message": "no"}),
    ],
    "gemini": [part(text=""), part(text="", thoughtSignature="c2Vh"), sse(candidates=[{}])],
    "gemini-interactions": [
        sse(event_type="step.start", step={"type": "model_output"}),
        sse(event_type="step.delta", delta={"type": "thought_signature", "signature": "c2Vh"}),
        sse(event_type="step.delta", delta={"type": "text_annotation_delta"}),
    ],
    "cohere": [
        sse(type="content-start", delta={"message": {"content": {"type": "text", "text": ""}}}),
        sse(type="citation-start", delta={"message": {"citations": {}}}),
        sse(event_type="stream-end", is_finished=True, response={"text": "a"}),
        sse(event_type="citation-generation", citations=[]),
    ],
}


@pytest.mark.parametrize("name", ADD)
def test_what_says_something_adds(name: str) -> None:
    assert [dialects.named(name).adds("sse", it) for it in ADD[name]] == [True] * len(ADD[name])


@pytest.mark.parametrize("name", NOTHING)
def test_what_stands_around_it_adds_nothing(name: str) -> None:
    added = [it for it in NOTHING[name] if dialects.named(name).adds("sse", it)]

    assert not added


def test_lines_of_ollamas_add_what_they_say() -> None:
    adds = dialects.named("ollama").adds
    calls = [{"function": {"name": "f", "arguments": {}}}]

    assert adds("ndjson", line(message={"content": "a"}, done=False))
    assert adds("ndjson", line(message={"content": "", "thinking": "a"}, done=False))
    assert adds("ndjson", line(message={"content": "", "tool_calls": calls}, done=False))
    assert adds("ndjson", line(response="a", done=False))
    assert not adds("ndjson", line(message={"content": ""}, done=True))
    assert not adds("ndjson", line(status="pulling", completed=5))


def test_frames_of_bedrocks_add_what_they_hold() -> None:
    adds = dialects.named("bedrock").adds
    sealed = {"reasoningContent": {"signature": "xyz"}}
    native = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    broken = frames.event("chunk", {"bytes": base64.b64encode(b"nothing").decode()})

    assert adds("eventstream", frames.event("contentBlockDelta", {"delta": {"text": "a"}}))
    assert adds("eventstream", frames.chunk(native))
    assert adds("eventstream", frames.chunk({"contentBlockDelta": {"delta": {"text": "a"}}}))
    assert adds("eventstream", frames.chunk({"outputText": "a"}))
    assert not adds("eventstream", frames.event("contentBlockDelta", {"delta": sealed}))
    assert not adds("eventstream", frames.event("contentBlockStart", {"start": {"toolUse": {}}}))
    assert not adds("eventstream", frames.event("messageStop", {"stopReason": "end_turn"}))
    assert not adds("eventstream", broken)


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_stream_that_says_something_has_a_message_that_adds() -> None:
    silent = []
    for row in corpus.rows():
        dialect, answer = find(row.request), response(as_sent(row))
        said = [it for turn in dialect.turns(answer) for it in turn.parts]
        spoken = any(isinstance(it, Text | Reasoning) and it.text for it in said)
        streamed = answer.codec != "whole" and row.streaming
        if (
            streamed
            and spoken
            and not any(dialect.adds(answer.codec, it) for it in answer.messages)
        ):
            silent.append((row.wire, row.id))

    assert not silent
