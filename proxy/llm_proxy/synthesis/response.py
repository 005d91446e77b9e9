r"""Synthesizes a response that is the same for the same conversation, everywhere.

It is lorem ipsum, as many words as a hash of the latest user message says, and then that message.
`"\nReason:"` in the message asks for reasoning, of the same words, before the text.  A block of
instructions in it decides everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import fakes, lenient_json
from llm_proxy.dialects.encode_context import EncodeContext, token_pieces
from llm_proxy.scenario.render import text_splitting
from llm_proxy.scenario.scripted_response import ResponseTiming, SendTurns
from llm_proxy.synthesis import instruction, lorem
from llm_proxy.synthesis.instruction import (
    END,
    START,
    InstructedCall,
    Instruction,
    ParsedInstruction,
    WordCount,
)
from llm_proxy.synthesis.message_layout import Telling
from llm_proxy.turns import Finish, Part, Reasoning, Text, ToolCall, Turn, Usage

MODEL: Final = "synthesis"
"""The model that answers where the request names none."""

_REASON: Final = "\nReason:"
_CHUNK: Final = 5
"""Words a piece."""
_GAP: Final = 100.0
"""Milliseconds from a piece to the next: about 50 words a second."""


@dataclass(frozen=True, slots=True)
class SynthesizedResponse:
    """An answer that was made up."""

    say: SendTurns
    mode: Literal["text", "reasoning", "instruction"]
    """What decided what it holds."""
    warnings: tuple[str, ...] = ()
    """What was asked for in vain."""


def synthesize_response(
    conversation: Conversation, delivery: EncodeContext, message_layout: Telling, model: str = ""
) -> SynthesizedResponse:
    """The answer of this model to a conversation; `delivery` gives its identifiers."""
    message = conversation.last_user_text
    parsed_instruction = instruction.parse_instruction(message)
    writing = _ResponseWriter(delivery, spaced=message_layout == "text")
    if isinstance(parsed_instruction, ParsedInstruction):
        messages = [*writing.write_instructed(parsed_instruction.instruction)]
    else:
        messages = [writing.write_plain(message)]
    if message_layout != "choices":
        messages = [tuple(part for parts in messages for part in parts)]
    usage = _estimate_usage(conversation, [part for parts in messages for part in parts])
    turns = tuple(
        _make_turn(parts, usage, delivery, message_layout, model or MODEL) for parts in messages
    )
    say = SendTurns(
        turns,
        _PieceSplitter(writing.pieces),
        ResponseTiming(gap_ms=_no_gap),
        turns_are_successive=len(turns) > 1,
    )
    match parsed_instruction:
        case ParsedInstruction(ignored_names=ignored):
            return SynthesizedResponse(
                say, "instruction", tuple(map(_ignored_name_warning, ignored))
            )
        case _:
            warnings = (
                (_unreadable_warning(parsed_instruction.reason),) if parsed_instruction else ()
            )
            return SynthesizedResponse(say, "reasoning" if _REASON in message else "text", warnings)


def _ignored_name_warning(name: str) -> str:
    return (
        f"The instruction in the user's message has a field `{name}`, which means nothing there "
        "and is ignored. Its fields are id_message, reasoning and messages."
    )


def _unreadable_warning(why: str) -> str:
    return (
        "The instruction in the user's message cannot be followed, so the message is answered "
        f"like one without: {why}. Mend the JSON between {START} and {END}."
    )


@dataclass(frozen=True, slots=True)
class _PieceSplitter:
    """Cuts what was written where it was put together; anything else by words."""

    known: Mapping[str, tuple[str, ...]]

    def __call__(self, text: str) -> Iterable[str]:
        return self.known.get(text) or text_splitting.split_words(text, _CHUNK)


def _no_gap(_piece: int) -> float:
    return _GAP


class _ResponseWriter:
    """The parts of an answer as they are written, and where each is to be cut."""

    def __init__(self, delivery: EncodeContext, *, spaced: bool) -> None:
        self._delivery = delivery
        self._needs_space = spaced
        """Whether messages become one text, so that a space must part them."""
        self._is_started: set[type[Part]] = set()
        self._calls = 0
        self.pieces: dict[str, tuple[str, ...]] = {}

    def write_plain(self, message: str) -> tuple[Part, ...]:
        """Lorem and the echo of the message: as reasoning, if it asks for it, and as text."""
        values = (lorem.lorem_words(lorem.word_count(message)), message)
        reasoning = [self._write_segments(Reasoning, values)] if _REASON in message else []
        return (*reasoning, self._write_segments(Text, values))

    def write_instructed(self, asked: Instruction) -> Iterable[tuple[Part, ...]]:
        """The parts of each message that an instruction asks for."""
        mark = asked.id_message
        for entry in asked.messages:
            if isinstance(entry.text_message, WordCount):
                wanted = ((Reasoning, asked.reasoning), (Text, entry.text_message))
                streams = (
                    (kind, lorem.lorem_words(word_count.length))
                    for kind, word_count in wanted
                    if word_count
                )
                yield tuple(
                    self._write_segments(kind, (mark, text, mark)) for kind, text in streams
                )
            else:
                yield tuple(map(self._make_tool_call, entry.tool_call or ()))

    def _write_segments(self, kind: type[Text | Reasoning], segments: Iterable[str]) -> Part:
        space = " " if self._needs_space and kind in self._is_started else ""
        cut: list[str] = []
        for segment in filter(None, segments):
            cut += text_splitting.split_words(space + segment, _CHUNK)
            space = " "
        self._is_started.add(kind)
        text = "".join(cut)
        self.pieces[text] = tuple(cut)
        return kind(text)

    def _make_tool_call(self, call: InstructedCall) -> ToolCall:
        call_id = self._delivery.identifier("call_", self._calls)
        self._calls += 1
        arguments = lenient_json.compact_json(dict(call.args))
        self.pieces[arguments] = tuple(token_pieces(arguments))
        return ToolCall(call_id, call.name, arguments)


def _make_turn(
    parts: tuple[Part, ...],
    usage: Usage,
    delivery: EncodeContext,
    message_layout: Telling,
    model: str,
) -> Turn:
    """One message; in choices it has the id of document 001, and stops even after calls."""
    if message_layout != "choices":
        return Turn(parts, usage=usage, model=model)
    answer = delivery.identifier(f"gen-{delivery.created}-", length=16)
    return Turn(parts, Finish.STOP, usage=usage, id=answer, model=model)


def _estimate_usage(conversation: Conversation, parts: Iterable[Part]) -> Usage:
    """Tokens, as a rule of thumb counts them: of all that was said to the model, and by it."""
    items = [message.text for message in conversation.messages]
    if not any(
        message.role == "system" and message.text == conversation.system
        for message in conversation.messages
    ):
        items.append(conversation.system)
    return Usage(
        fakes.estimated_tokens("".join(items)),
        fakes.estimated_tokens("".join(map(_part_text, parts))),
    )


def _part_text(part: Part) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""
