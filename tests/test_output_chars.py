"""How much each message of a stream says: what a pace is kept by."""

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
from corpus_comparison import response
from corpus_framing import as_sent
from dialect_manners import MANNERS, Manner
from llm_proxy import dialects
from llm_proxy.dialects import OPAQUE, find_dialect
from llm_proxy.dialects.bedrock import frames
from llm_proxy.dialects.encode_context import EncodeContext, token_pieces
from llm_proxy.errors import NotRepresentable
from llm_proxy.framing.sse import encode_event
from llm_proxy.turns import Part, Reasoning, Text, ToolCall, Turn

WORDS: Final = "It is warm in Rome, and it will stay so."
THOUGHT: Final = "Let me look at the weather."

Cut = Callable[[str], Iterable[str]]


def whole(text: str) -> tuple[str, ...]:
    return (text,)


STREAMS: Final = [item for item in MANNERS if item.dialect.streams(item.request)]


def told(manner: Manner, parts: tuple[Part, ...], cut: Cut) -> tuple[list[int], Turn]:
    """What each message of the stream says, of those that do, and the turn as it was told."""
    delivery = replace(manner.delivery, split_text=cut)
    answer = manner.dialect.encode(manner.request, [Turn(parts)], delivery)
    [turn] = manner.dialect.decode(answer)
    return [
        *filter(
            None,
            (manner.dialect.output_chars(answer.codec, message) for message in answer.messages),
        )
    ], turn


def words(turn: Turn) -> list[str]:
    return [item.text for item in turn.parts if isinstance(item, Text | Reasoning)]


@pytest.mark.parametrize("cut", [whole, token_pieces], ids=["one piece", "several"])
@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_a_message_says_the_piece_that_it_tells(manner: Manner, cut: Cut) -> None:
    said, turn = told(manner, (Reasoning(THOUGHT, "c2VhbA=="), Text(WORDS)), cut)

    assert words(turn) in ([THOUGHT, WORDS], [WORDS])
    assert said == [len(piece) for text in words(turn) for piece in cut(text)]


@pytest.mark.parametrize("name", dialects.chat_dialects())
def test_a_message_of_a_typical_stream_says_its_piece(name: str) -> None:
    dialect = dialects.dialect_named(name)
    asked = dialect.sample_request("us.anthropic.claude-sonnet-5", stream=True)

    answer = dialect.encode(asked, [Turn((Text(WORDS),))], EncodeContext("s", 0))

    said = [dialect.output_chars(answer.codec, message) for message in answer.messages]
    assert [*filter(None, said)] == list(map(len, token_pieces(WORDS)))


@settings(max_examples=5)
@given(texts=st.lists(st.text("ab 🌊\n", min_size=1, max_size=9), min_size=1, max_size=3))
@pytest.mark.parametrize("manner", STREAMS[:1], ids=lambda it: it.name)
def test_so_they_do_for_any_text(manner: Manner, texts: list[str]) -> None:
    said, turn = told(manner, tuple(map(Text, texts)), token_pieces)

    assert said == [len(piece) for text in words(turn) for piece in token_pieces(text)]


@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_a_call_says_something_and_an_empty_answer_nothing(manner: Manner) -> None:
    silent, _ = told(manner, (), token_pieces)
    try:
        called, turn = told(manner, (ToolCall("c1", "weather", '{"city":"Rome"}'),), token_pieces)
    except NotRepresentable:
        called, turn = [], Turn(())

    calls = any(isinstance(item, ToolCall) for item in turn.parts)
    assert silent == []
    assert sum(called) >= (len('{"city":"Rome"}') if calls else 0)


@pytest.mark.parametrize("manner", STREAMS, ids=lambda it: it.name)
def test_what_is_no_stream_says_nothing_and_what_cannot_be_read_says_nothing(
    manner: Manner,
) -> None:
    dialect = manner.dialect
    answer = dialect.encode(manner.request, [Turn((Text(WORDS),))], manner.delivery)
    unreadable = (b"", b"\n", b": keep-alive\n\n", b"\xff\xfe", b"[]", b"data: [DONE]\n\n", b"nul")

    assert not any(dialect.output_chars("whole", message) for message in answer.messages)
    assert not any(dialect.output_chars(answer.codec, item) for item in unreadable)
    assert not any(
        dialect.output_chars(answer.codec, message[: len(message) // 2])
        for message in answer.messages
    )
    assert not any(OPAQUE.output_chars(answer.codec, message) for message in answer.messages)


def sse(**document: Any) -> bytes:
    return encode_event(json.dumps(document).encode())


def choice(**delta: Any) -> bytes:
    return sse(choices=[{"index": 0, "delta": delta}])


def block(**delta: Any) -> bytes:
    return sse(type="content_block_delta", index=0, delta=delta)


def part(**fields: Any) -> bytes:
    return sse(candidates=[{"content": {"parts": [fields]}, "finishReason": "STOP"}])


def line(**document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


SOME: Final[dict[str, list[tuple[bytes, int]]]] = {
    "openai-chat": [
        (choice(content="abc"), 3),
        (choice(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "ab"}]}]), 2),
        (choice(reasoning_content="ab"), 2),
        (choice(reasoning="ab"), 2),
        (choice(reasoning_details=[{"type": "reasoning.text", "text": "ab"}]), 2),
        (choice(refusal="ab"), 2),
        (choice(audio={"data": "aGk="}), 1),
        (choice(audio={"transcript": "Hi."}), 3),
        (choice(tool_calls=[{"index": 0, "function": {"name": "look", "arguments": ""}}]), 4),
        (choice(tool_calls=[{"index": 0, "function": {"arguments": '{"a'}}]), 3),
        (choice(tool_calls=[{"index": 0, "id": "c", "function": {"arguments": ""}}]), 1),
        (choice(images=[{"type": "image_url", "image_url": {"url": "data:;base64,aGk="}}]), 1),
        (sse(choices=[{"delta": {"content": "ab"}}, {"delta": {"content": "c"}}]), 3),
    ],
    "openai-completions": [(sse(choices=[{"text": "ab"}, {"text": "c"}]), 3), (sse(value="a"), 1)],
    "openai-responses": [
        (sse(type="response.output_text.delta", delta="ab"), 2),
        (sse(type="response.function_call_arguments.delta", delta='{"a'), 3),
        (sse(type="response.audio.delta", delta="aGkgdGhlcmU="), 1),
        (sse(type="response.audio.transcript.delta", delta="Hi."), 3),
        (sse(type="response.image_generation_call.partial_image", partial_image_b64="aGk="), 1),
    ],
    "openai-audio": [
        (sse(type="transcript.text.delta", delta="ab"), 2),
        (sse(type="transcription.text.delta", text="abc"), 3),
        (sse(type="speech.audio.delta", audio="aGkgdGhlcmU="), 1),
    ],
    "openai-assistants": [
        (encode_event(b"{}", "thread.message.delta"), 1),
        (
            encode_event(
                b'{"delta":{"content":[{"text":{"value":"ab"}}]}}', "thread.message.delta"
            ),
            2,
        ),
    ],
    "anthropic": [
        (block(type="text_delta", text="ab"), 2),
        (block(type="thinking_delta", thinking="ab"), 2),
        (block(type="input_json_delta", partial_json=""), 1),
        (block(type="input_json_delta", partial_json='{"a'), 3),
        (block(type="compaction_delta", content="abc"), 3),
        (sse(type="completion", completion="ab"), 2),
    ],
    "gemini": [
        (part(text="ab"), 2),
        (part(text="ab", thought=True), 2),
        (part(functionCall={}), 1),
        (part(functionCall={"name": "look", "args": {"a": 1}}), 11),
        (part(executableCode={"language": "PYTHON", "code": "1 + 1"}), 5),
        (part(inlineData={"mimeType": "image/png", "data": "aGk="}), 1),
    ],
    "gemini-interactions": [
        (sse(event_type="step.delta", delta={"type": "text", "text": "ab"}), 2),
        (sse(event_type="step.delta", delta={"type": "arguments_delta", "arguments": "{"}), 1),
        (sse(event_type="step.delta", delta={"type": "thought_summary", "content": {"text": "ab"}}),
         2),
        (sse(event_type="step.delta", delta={"type": "image", "data": "aGkgdGhlcmU="}), 1),
    ],
    "cohere": [
        (sse(type="content-delta", delta={"message": {"content": {"text": "ab"}}}), 2),
        (sse(type="content-delta", delta={"message": {"content": {"thinking": "ab"}}}), 2),
        (sse(type="tool-plan-delta", delta={"message": {"tool_plan": "ab"}}), 2),
        (sse(type="tool-call-delta", delta={"message": {"tool_calls": {"function": {}}}}), 1),
        (sse(event_type="text-generation", text="ab", is_finished=False), 2),
        (sse(event_type="tool-calls-chunk", tool_call_delta={"name": "look"}), 4),
        (sse(event_type="tool-calls-chunk", tool_call_delta={"index": 0}), 1),
    ],
}  # fmt: skip
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
        block(type="citations_delta", citation={"cited_text": "a"}),
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


@pytest.mark.parametrize("name", SOME)
def test_a_message_counts_by_its_characters_and_what_has_none_as_one(name: str) -> None:
    said = [(it, dialects.dialect_named(name).output_chars("sse", it)) for it, _ in SOME[name]]

    assert said == SOME[name]


@pytest.mark.parametrize("name", NOTHING)
def test_what_stands_around_it_says_nothing(name: str) -> None:
    said = [
        (item, dialects.dialect_named(name).output_chars("sse", item)) for item in NOTHING[name]
    ]

    assert said == [(item, 0) for item in NOTHING[name]]


def test_lines_of_ollamas_say_what_they_hold() -> None:
    says = dialects.dialect_named("ollama").output_chars
    calls = [{"function": {"name": "look", "arguments": {"a": 1}}}]
    lines = [
        (line(message={"content": "ab"}, done=False), 2),
        (line(message={"content": "ab", "thinking": "c"}, done=False), 3),
        (line(message={"content": "", "tool_calls": calls}, done=False), 11),
        (line(response="ab", done=False), 2),
        (line(message={"content": ""}, done=True), 0),
        (line(status="pulling", completed=5), 0),
    ]

    assert [(it, says("ndjson", it)) for it, _ in lines] == lines


def test_frames_of_bedrocks_say_what_they_hold() -> None:
    says = dialects.dialect_named("bedrock").output_chars
    sealed = {"reasoningContent": {"signature": "xyz"}}
    native = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ab"}}
    broken = frames.encode_event_frame("chunk", {"bytes": base64.b64encode(b"nothing").decode()})
    told = [
        (frames.encode_event_frame("contentBlockDelta", {"delta": {"text": "ab"}}), 2),
        (frames.encode_chunk_frame(native), 2),
        (frames.encode_chunk_frame({"contentBlockDelta": {"delta": {"text": "ab"}}}), 2),
        (frames.encode_chunk_frame({"outputText": "ab"}), 2),
        (frames.encode_event_frame("contentBlockDelta", {"delta": sealed}), 0),
        (frames.encode_event_frame("contentBlockStart", {"start": {"toolUse": {}}}), 0),
        (frames.encode_event_frame("messageStop", {"stopReason": "end_turn"}), 0),
        (broken, 0),
    ]

    assert [(it, says("eventstream", it)) for it, _ in told] == told


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_stream_that_says_something_has_a_message_that_does() -> None:
    silent = []
    for row in corpus.rows():
        dialect, answer = find_dialect(row.request), response(as_sent(row))
        said = [item for turn in dialect.decode(answer) for item in turn.parts]
        spoken = any(isinstance(item, Text | Reasoning) and item.text for item in said)
        streamed = answer.codec != "whole" and row.streaming
        if (
            streamed
            and spoken
            and not any(dialect.output_chars(answer.codec, message) for message in answer.messages)
        ):
            silent.append((row.wire, row.id))

    assert not silent
