r"""Synthesizes a response that depends only on the conversation, on every platform.

It is lorem ipsum, with a word count from the hash of the latest user message, followed by that
message.  `"\nReason:"` in the message requests reasoning, of the same words, before the text.  An
instruction block in it overrides all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes, lenient_json
from llm_proxy.dialects.encode_context import EncodeContext, token_pieces
from llm_proxy.scenario.render import text_splitting
from llm_proxy.scenario.scripted_response import ResponseTiming, SendTurns
from llm_proxy.synthesis import instruction, lorem
from llm_proxy.synthesis.instruction import (
    INSTRUCTION_END,
    INSTRUCTION_START,
    InstructedToolCall,
    Instruction,
    ParsedInstruction,
    WordCount,
)
from llm_proxy.synthesis.message_layout import MessageLayout
from llm_proxy.turns import FinishReason, Part, Reasoning, Text, ToolCall, Turn, Usage

DEFAULT_MODEL: Final = "synthesis"
"""The model of the response if the request names none."""

_REASONING_MARKER: Final = "\nReason:"
_WORDS_PER_PIECE: Final = 5
"""Words per piece of a stream."""
_PIECE_GAP_MS: Final = 100.0
"""The time from one piece to the next: about 50 words per second."""


@dataclass(frozen=True, slots=True)
class SynthesizedResponse:
    """A synthesized response, and what determined it."""

    send_turns: SendTurns
    content_kind: Literal["text", "reasoning", "instruction"]
    """What determined its content."""
    warnings: tuple[str, ...] = ()
    """Sentences about unknown or invalid parts of an instruction."""


def synthesize_response(
    conversation: Conversation,
    encode_context: EncodeContext,
    message_layout: MessageLayout,
    model: str = "",
) -> SynthesizedResponse:
    """Synthesize the response to a conversation; `encode_context` generates its ids."""
    message = conversation.last_user_text
    parsed_instruction = instruction.parse_instruction(message)
    writer = _PartComposer(encode_context, needs_space=message_layout == "text")
    if isinstance(parsed_instruction, ParsedInstruction):
        messages = [*writer.compose_instructed_parts(parsed_instruction.instruction)]
    else:
        messages = [writer.compose_plain_parts(message)]
    if message_layout != "choices":
        messages = [tuple(part for parts in messages for part in parts)]
    usage = _estimate_usage(conversation, [part for parts in messages for part in parts])
    turns = tuple(
        _make_turn(parts, usage, encode_context, message_layout, model or DEFAULT_MODEL)
        for parts in messages
    )
    send_turns = SendTurns(
        turns,
        _PieceSplitter(writer.pieces_by_text),
        ResponseTiming(compute_gap_ms=_piece_gap_ms),
        turns_are_successive=len(turns) > 1,
    )
    match parsed_instruction:
        case ParsedInstruction(ignored_names=ignored):
            return SynthesizedResponse(
                send_turns, "instruction", tuple(map(_ignored_name_warning, ignored))
            )
        case _:
            warnings = (
                (_invalid_instruction_warning(parsed_instruction.reason),)
                if parsed_instruction
                else ()
            )
            return SynthesizedResponse(
                send_turns, "reasoning" if _REASONING_MARKER in message else "text", warnings
            )


def _ignored_name_warning(name: str) -> str:
    return (
        f"The instruction in the user's message has a field `{name}`, which means nothing there "
        "and is ignored. Its fields are id_message, reasoning and messages."
    )


def _invalid_instruction_warning(reason: str) -> str:
    return (
        "The instruction in the user's message cannot be followed, so the message is answered "
        f"like one without: {reason}. Mend the JSON between {INSTRUCTION_START} and "
        f"{INSTRUCTION_END}."
    )


@dataclass(frozen=True, slots=True)
class _PieceSplitter:
    """Splits a known text into the pieces it was written in; any other text by words."""

    pieces_by_text: Mapping[str, tuple[str, ...]]

    def __call__(self, text: str) -> Iterable[str]:
        return self.pieces_by_text.get(text) or text_splitting.split_words(text, _WORDS_PER_PIECE)


def _piece_gap_ms(_piece: int) -> float:
    return _PIECE_GAP_MS


class _PartComposer:
    """Writes the parts of a response, and records the pieces of each text."""

    def __init__(self, encode_context: EncodeContext, *, needs_space: bool) -> None:
        self._delivery = encode_context
        self._needs_space = needs_space
        """Whether messages become one text, so that a space must separate them."""
        self._is_started: set[type[Part]] = set()
        self._call_count = 0
        self.pieces_by_text: dict[str, tuple[str, ...]] = {}

    def compose_plain_parts(self, message: str) -> tuple[Part, ...]:
        """Lorem and the echo of the message: as reasoning, if requested, and as text."""
        segments = (lorem.lorem_words(lorem.hash_based_word_count(message)), message)
        reasoning = (
            [self._compose_part(Reasoning, segments)] if _REASONING_MARKER in message else []
        )
        return (*reasoning, self._compose_part(Text, segments))

    def compose_instructed_parts(self, instructed: Instruction) -> Iterable[tuple[Part, ...]]:
        """The parts of each message of an instruction."""
        id_message = instructed.id_message
        for message in instructed.messages:
            if isinstance(message.text_message, WordCount):
                word_counts = ((Reasoning, instructed.reasoning), (Text, message.text_message))
                streams = (
                    (kind, lorem.lorem_words(word_count.length))
                    for kind, word_count in word_counts
                    if word_count
                )
                yield tuple(
                    self._compose_part(kind, (id_message, text, id_message))
                    for kind, text in streams
                )
            else:
                yield tuple(map(self._make_tool_call, message.tool_call or ()))

    def _compose_part(self, kind: type[Text | Reasoning], segments: Iterable[str]) -> Part:
        space = " " if self._needs_space and kind in self._is_started else ""
        pieces: list[str] = []
        for segment in filter(None, segments):
            pieces += text_splitting.split_words(space + segment, _WORDS_PER_PIECE)
            space = " "
        self._is_started.add(kind)
        text = "".join(pieces)
        self.pieces_by_text[text] = tuple(pieces)
        return kind(text)

    def _make_tool_call(self, call: InstructedToolCall) -> ToolCall:
        call_id = self._delivery.fake_identifier("call_", self._call_count)
        self._call_count += 1
        arguments = lenient_json.compact_json(dict(call.args))
        self.pieces_by_text[arguments] = tuple(token_pieces(arguments))
        return ToolCall(call_id, call.name, arguments)


def _make_turn(
    parts: tuple[Part, ...],
    usage: Usage,
    encode_context: EncodeContext,
    message_layout: MessageLayout,
    model: str,
) -> Turn:
    """One message; as a choice it has the id of document 001 and stops even after calls."""
    if message_layout != "choices":
        return Turn(parts, usage=usage, model=model)
    response_id = encode_context.fake_identifier(f"gen-{encode_context.created_unix_s}-", length=16)
    return Turn(parts, FinishReason.STOP, usage=usage, id=response_id, model=model)


def _estimate_usage(conversation: Conversation, parts: Iterable[Part]) -> Usage:
    """Estimated tokens of all messages and the system prompt, and of the response."""
    texts = [message.text for message in conversation.messages]
    if not any(
        message.role == "system" and message.text == conversation.system
        for message in conversation.messages
    ):
        texts.append(conversation.system)
    return Usage(
        estimates_and_fakes.estimated_token_count("".join(texts)),
        estimates_and_fakes.estimated_token_count("".join(map(_part_text, parts))),
    )


def _part_text(part: Part) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""
