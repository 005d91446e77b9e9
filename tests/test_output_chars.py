"""The number of output characters of each stream message, by which a pace is computed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from corpus_comparison import row_response
from corpus_framing import with_framing
from dialect_manners import MANNERS, Manner
from llm_proxy import dialects
from llm_proxy.dialects import OPAQUE, dialect_of_request
from llm_proxy.dialects.bedrock import frames
from llm_proxy.dialects.encoding import EncodeContext, token_pieces
from llm_proxy.errors import NotRepresentable
from llm_proxy.framing.sse import encode_event
from llm_proxy.turns import Part, Reasoning, Text, ToolCall, Turn

ANSWER_TEXT: Final = "It is warm in Rome, and it will stay so."
REASONING_TEXT: Final = "Let me look at the weather."

SplitText = Callable[[str], Iterable[str]]


def whole(text: str) -> tuple[str, ...]:
    return (text,)


STREAMS: Final = [item for item in MANNERS if item.dialect.streams(item.request)]


def encode_and_count(
    manner: Manner, parts: tuple[Part, ...], split_text: SplitText
) -> tuple[list[int], Turn]:
    """The non-zero counts of the stream's messages, and the encoded turn as it is decoded."""
    context = replace(manner.context, split_text=split_text)
    response_body = manner.dialect.encode_response(manner.request, [Turn(parts)], context)
    [turn] = manner.dialect.decode_response(response_body)
    return [
        *filter(
            None,
            (
                manner.dialect.output_chars(response_body.codec_name, message)
                for message in response_body.framed_messages
            ),
        )
    ], turn


def texts_of(turn: Turn) -> list[str]:
    return [item.text for item in turn.parts if isinstance(item, Text | Reasoning)]


@each_row("split_text", [whole, token_pieces], ids=["one piece", "several"])
@each_row("manner", STREAMS)
def test_a_message_counts_the_characters_of_its_piece(
    manner: Manner, split_text: SplitText
) -> None:
    counts, turn = encode_and_count(
        manner, (Reasoning(REASONING_TEXT, "c2VhbA=="), Text(ANSWER_TEXT)), split_text
    )

    assert texts_of(turn) in ([REASONING_TEXT, ANSWER_TEXT], [ANSWER_TEXT])
    assert counts == [len(piece) for text in texts_of(turn) for piece in split_text(text)]


@each_row("name", dialects.chat_dialects())
def test_a_message_of_a_typical_stream_counts_its_piece(name: str) -> None:
    dialect = dialects.dialect_named(name)
    request = dialect.sample_request("us.anthropic.claude-sonnet-5", stream=True)

    answer = dialect.encode_response(request, [Turn((Text(ANSWER_TEXT),))], EncodeContext("s", 0))

    counts = [
        dialect.output_chars(answer.codec_name, message) for message in answer.framed_messages
    ]
    assert [*filter(None, counts)] == list(map(len, token_pieces(ANSWER_TEXT)))


@given(texts=st.lists(st.text("ab 🌊\n", min_size=1, max_size=9), min_size=1, max_size=3))
def test_messages_count_their_pieces_for_any_text(texts: list[str]) -> None:
    counts, turn = encode_and_count(STREAMS[0], tuple(map(Text, texts)), token_pieces)

    assert counts == [len(piece) for text in texts_of(turn) for piece in token_pieces(text)]


@each_row("manner", STREAMS)
def test_a_tool_call_counts_and_an_empty_response_does_not(manner: Manner) -> None:
    empty_counts, _ = encode_and_count(manner, (), token_pieces)
    try:
        call_counts, turn = encode_and_count(
            manner, (ToolCall("c1", "weather", '{"city":"Rome"}'),), token_pieces
        )
    except NotRepresentable:
        call_counts, turn = [], Turn(())

    has_call = any(isinstance(item, ToolCall) for item in turn.parts)
    assert empty_counts == []
    assert sum(call_counts) >= (len('{"city":"Rome"}') if has_call else 0)


@each_row("manner", STREAMS)
def test_documents_and_unreadable_messages_count_nothing(
    manner: Manner,
) -> None:
    dialect = manner.dialect
    answer = dialect.encode_response(manner.request, [Turn((Text(ANSWER_TEXT),))], manner.context)
    unreadable = (b"", b"\n", b": keep-alive\n\n", b"\xff\xfe", b"[]", b"data: [DONE]\n\n", b"nul")

    assert not any(dialect.output_chars("whole", message) for message in answer.framed_messages)
    assert not any(dialect.output_chars(answer.codec_name, item) for item in unreadable)
    assert not any(
        dialect.output_chars(answer.codec_name, message[: len(message) // 2])
        for message in answer.framed_messages
    )
    assert not any(
        OPAQUE.output_chars(answer.codec_name, message) for message in answer.framed_messages
    )


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


COUNTED: Final[dict[str, list[tuple[bytes, int]]]] = {
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
UNCOUNTED: Final = {
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


@each_row("name", COUNTED)
def test_a_message_counts_its_characters_or_one_without_text(name: str) -> None:
    counted = [
        (message, dialects.dialect_named(name).output_chars("sse", message))
        for message, _ in COUNTED[name]
    ]

    assert counted == COUNTED[name]


@each_row("name", UNCOUNTED)
def test_messages_without_output_count_nothing(name: str) -> None:
    counted = [
        (item, dialects.dialect_named(name).output_chars("sse", item)) for item in UNCOUNTED[name]
    ]

    assert counted == [(item, 0) for item in UNCOUNTED[name]]


def test_ollama_lines_count_their_content() -> None:
    output_chars = dialects.dialect_named("ollama").output_chars
    calls = [{"function": {"name": "look", "arguments": {"a": 1}}}]
    lines = [
        (line(message={"content": "ab"}, done=False), 2),
        (line(message={"content": "ab", "thinking": "c"}, done=False), 3),
        (line(message={"content": "", "tool_calls": calls}, done=False), 11),
        (line(response="ab", done=False), 2),
        (line(message={"content": ""}, done=True), 0),
        (line(status="pulling", completed=5), 0),
    ]

    assert [(message, output_chars("ndjson", message)) for message, _ in lines] == lines


def test_bedrock_frames_count_their_content() -> None:
    output_chars = dialects.dialect_named("bedrock").output_chars
    signature_delta = {"reasoningContent": {"signature": "xyz"}}
    native = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ab"}}
    broken = frames.encode_event_frame("chunk", {"bytes": base64.b64encode(b"nothing").decode()})
    counted_frames = [
        (frames.encode_event_frame("contentBlockDelta", {"delta": {"text": "ab"}}), 2),
        (frames.encode_chunk_frame(native), 2),
        (frames.encode_chunk_frame({"contentBlockDelta": {"delta": {"text": "ab"}}}), 2),
        (frames.encode_chunk_frame({"outputText": "ab"}), 2),
        (frames.encode_event_frame("contentBlockDelta", {"delta": signature_delta}), 0),
        (frames.encode_event_frame("contentBlockStart", {"start": {"toolUse": {}}}), 0),
        (frames.encode_event_frame("messageStop", {"stopReason": "end_turn"}), 0),
        (broken, 0),
    ]

    assert [
        (frame, output_chars("eventstream", frame)) for frame, _ in counted_frames
    ] == counted_frames


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_stream_with_text_has_a_message_that_counts() -> None:
    silent = []
    for row in corpus.short_rows():
        dialect, answer = dialect_of_request(row.request), row_response(with_framing(row))
        parts = [item for turn in dialect.decode_response(answer) for item in turn.parts]
        has_text = any(isinstance(item, Text | Reasoning) and item.text for item in parts)
        is_stream = answer.codec_name != "whole" and row.streaming
        if (
            is_stream
            and has_text
            and not any(
                dialect.output_chars(answer.codec_name, message)
                for message in answer.framed_messages
            )
        ):
            silent.append((row.wire, row.id))

    assert not silent
