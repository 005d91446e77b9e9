"""Parses the JSON instruction that a message may contain to control the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

START: Final = "<|instruction_start|>"
END: Final = "<|instruction_end|>"

_MOST_WORDS: Final = 200_000
"""Of lorem in an answer: a short request must not fill the memory."""
_LARGEST: Final = 1024 * 1024
"""Characters of a block."""
_MOST_MESSAGES: Final = 1_000
_LONGEST_ID: Final = 1_000
"""Characters: each stands in the answer up to four times a message."""


class WordCount(Struct, frozen=True, kw_only=True):
    """How long a stream of words is."""

    length: Annotated[int, Meta(ge=0, le=_MOST_WORDS)]


class InstructedCall(Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    name: Annotated[str, Meta(min_length=1)]
    args: Mapping[str, Any] = {}


class InstructedMessage(Struct, frozen=True, kw_only=True):
    """A message of the answer: words, or calls; just one of them is set."""

    text_message: WordCount | UnsetType = UNSET
    tool_call: Annotated[tuple[InstructedCall, ...], Meta(min_length=1)] | UnsetType = UNSET


class Instruction(Struct, frozen=True, kw_only=True):
    """What the answer is to be."""

    messages: Annotated[
        tuple[InstructedMessage, ...], Meta(min_length=1, max_length=_MOST_MESSAGES)
    ]
    id_message: Annotated[str, Meta(max_length=_LONGEST_ID)] = ""
    """What stands around each stream of words, and is not counted as one of them."""
    reasoning: WordCount | None = None
    """How much is thought before each message of words."""


@dataclass(frozen=True, slots=True)
class ParsedInstruction:
    """An instruction, and the names in it that mean nothing."""

    instruction: Instruction
    ignored_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableInstruction:
    """An instruction that cannot be followed."""

    reason: str


def parse_instruction(message: str) -> ParsedInstruction | UnreadableInstruction | None:
    """The instruction in a message: of several blocks the first; None where there is no block."""
    _, start, rest = message.partition(START)
    block, end, _ = rest.partition(END)
    if not start:
        return None
    if not end:
        return UnreadableInstruction(f"{END} is missing")
    if len(block) > _LARGEST:
        return UnreadableInstruction(f"it has {len(block)} characters, and {_LARGEST} are the most")
    data = block.encode("utf-8", "replace")
    try:
        instruction = msgspec.json.decode(data, type=Instruction)
        names = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        return UnreadableInstruction(str(error))
    except RecursionError:
        return UnreadableInstruction("it is nested too deeply")
    ignored = (name for name in names if name not in Instruction.__struct_fields__)
    return _semantic_mistake(instruction) or ParsedInstruction(instruction, tuple(ignored))


def _semantic_mistake(instruction: Instruction) -> UnreadableInstruction | None:
    for at, entry in enumerate(instruction.messages):
        if (entry.text_message is UNSET) == (entry.tool_call is UNSET):
            return UnreadableInstruction(
                f"`$.messages[{at}]` needs one of text_message and tool_call"
            )
    thought = instruction.reasoning.length if instruction.reasoning else 0
    texts = (message.text_message for message in instruction.messages)
    spoken = [text.length for text in texts if isinstance(text, WordCount)]
    number = sum(spoken) + thought * len(spoken)
    if number > _MOST_WORDS:
        return UnreadableInstruction(f"it asks for {number} words, and {_MOST_WORDS} are the most")
    calls = sum(len(message.tool_call) for message in instruction.messages if message.tool_call)
    if calls > _MOST_MESSAGES:
        return UnreadableInstruction(
            f"it asks for {calls} calls, and {_MOST_MESSAGES} are the most"
        )
    return None
