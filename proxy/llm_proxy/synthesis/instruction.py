"""Parses the JSON instruction that a message may contain to control the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

INSTRUCTION_START: Final = "<|instruction_start|>"
INSTRUCTION_END: Final = "<|instruction_end|>"

_MAX_WORDS: Final = 200_000
"""The most words of lorem in a response: a short request must not exhaust memory."""
_MAX_BLOCK_CHARS: Final = 1024 * 1024
"""The most characters of an instruction block."""
_MAX_MESSAGES: Final = 1_000
_MAX_ID_CHARS: Final = 1_000
"""The most characters of `id_message`, which a response has up to four times per message."""


class WordCount(Struct, frozen=True, kw_only=True):
    """The length of a run of words."""

    length: Annotated[int, Meta(ge=0, le=_MAX_WORDS)]


class InstructedToolCall(Struct, frozen=True, kw_only=True):
    """A tool call of an instruction."""

    name: Annotated[str, Meta(min_length=1)]
    args: Mapping[str, Any] = {}


class InstructedMessage(Struct, frozen=True, kw_only=True):
    """A message of the response: words or tool calls; exactly one is set."""

    text_message: WordCount | UnsetType = UNSET
    tool_call: Annotated[tuple[InstructedToolCall, ...], Meta(min_length=1)] | UnsetType = UNSET


class Instruction(Struct, frozen=True, kw_only=True):
    """What the response must contain."""

    messages: Annotated[tuple[InstructedMessage, ...], Meta(min_length=1, max_length=_MAX_MESSAGES)]
    id_message: Annotated[str, Meta(max_length=_MAX_ID_CHARS)] = ""
    """Put before and after each run of words; not counted as a word."""
    reasoning: WordCount | None = None
    """Words of reasoning before each message of words."""


@dataclass(frozen=True, slots=True)
class ParsedInstruction:
    """An instruction, and its unknown names."""

    instruction: Instruction
    ignored_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidInstruction:
    """An instruction that is malformed or exceeds a limit."""

    reason: str


def parse_instruction(message: str) -> ParsedInstruction | InvalidInstruction | None:
    """The instruction in the first block of a message; None if there is no block."""
    _, start, after_start = message.partition(INSTRUCTION_START)
    block, end, _ = after_start.partition(INSTRUCTION_END)
    if not start:
        return None
    if not end:
        return InvalidInstruction(f"{INSTRUCTION_END} is missing")
    if len(block) > _MAX_BLOCK_CHARS:
        return InvalidInstruction(
            f"it has {len(block)} characters, and {_MAX_BLOCK_CHARS} are the most"
        )
    block_bytes = block.encode("utf-8", "replace")
    try:
        instruction = msgspec.json.decode(block_bytes, type=Instruction)
        names = msgspec.json.decode(block_bytes, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        return InvalidInstruction(str(error))
    except RecursionError:
        return InvalidInstruction("it is nested too deeply")
    ignored_names = (name for name in names if name not in Instruction.__struct_fields__)
    return _find_semantic_error(instruction) or ParsedInstruction(instruction, tuple(ignored_names))


def _find_semantic_error(instruction: Instruction) -> InvalidInstruction | None:
    for index, message in enumerate(instruction.messages):
        if (message.text_message is UNSET) == (message.tool_call is UNSET):
            return InvalidInstruction(
                f"`$.messages[{index}]` needs one of text_message and tool_call"
            )
    reasoning_words = instruction.reasoning.length if instruction.reasoning else 0
    texts = (message.text_message for message in instruction.messages)
    text_lengths = [text.length for text in texts if isinstance(text, WordCount)]
    total_words = sum(text_lengths) + reasoning_words * len(text_lengths)
    if total_words > _MAX_WORDS:
        return InvalidInstruction(f"it asks for {total_words} words, and {_MAX_WORDS} are the most")
    call_count = sum(
        len(message.tool_call) for message in instruction.messages if message.tool_call
    )
    if call_count > _MAX_MESSAGES:
        return InvalidInstruction(
            f"it asks for {call_count} calls, and {_MAX_MESSAGES} are the most"
        )
    return None
