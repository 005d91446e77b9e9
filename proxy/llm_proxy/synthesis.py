r"""Synthesizes a response that depends only on the conversation, on every platform.

It is lorem ipsum, with a word count from the hash of the latest user message, followed by that
message.  `"\nReason:"` in the message requests reasoning, of the same words, before the text.  A
block of JSON in it, an instruction, overrides all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import cycle, islice
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encoding import EncodeContext, token_pieces
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.exchange import Request
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns, split_words
from llm_proxy.turns import FinishReason, Part, Reasoning, Text, ToolCall, Turn, Usage

DEFAULT_MODEL: Final = "synthesis"
"""The model of the response if the request names none."""
MessageLayout = Literal["choices", "parts", "text"]
"""How several messages of one instruction are represented: as choices of one response; as parts of
one turn; or as parts of one turn joined to one text."""

_TWO_PART_TURN: Final = Turn((Text("a"), Text("b")))
_REASONING_MARKER: Final = "\nReason:"
_WORDS_PER_PIECE: Final = 5
"""Words per piece of a stream."""
_PIECE_GAP_MS: Final = 100.0
"""The time from one piece to the next: about 50 words per second."""
_INSTRUCTION_START: Final = "<|instruction_start|>"
_INSTRUCTION_END: Final = "<|instruction_end|>"
_MAX_WORDS: Final = 200_000
"""The most words of lorem in a response: a short request must not exhaust memory."""
_MAX_BLOCK_CHARS: Final = 1024 * 1024
"""The most characters of an instruction block."""
_MAX_MESSAGES: Final = 1_000
"""The most messages of an instruction, and the most calls in all of them."""
_MAX_ID_CHARS: Final = 1_000
"""The most characters of `id_message`, which a response has up to four times per message."""
_WORDS: Final = tuple(
    """
    lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut
    labore et dolore magna aliqua ut enim ad minim veniam quis nostrud exercitation ullamco laboris
    nisi ut aliquip ex ea commodo consequat duis aute irure dolor in reprehenderit in voluptate
    velit esse cillum dolore eu fugiat nulla pariatur excepteur sint occaecat cupidatat non
    proident sunt in culpa qui officia deserunt mollit anim id est laborum
    """.split()  # noqa: SIM905 # a text of words, one a line would hide it
)
_MIN_WORDS: Final = 5
_DISTINCT_COUNTS: Final = 496
"""Number of possible word counts: 5 to 500."""


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


def message_layout_of(
    dialect: Dialect, request: Request, encode_context: EncodeContext, user_text: str
) -> MessageLayout:
    """How this dialect represents the messages of a response to a user's text."""
    if dialect.sends_messages_as_choices:
        return "choices"
    if _INSTRUCTION_START not in user_text:
        return "parts"  # there is one message: spare the encoding of two
    [turn] = dialect.representable_turns(request, (_TWO_PART_TURN,), encode_context).turns
    return "parts" if len(turn.parts) > 1 else "text"


def synthesize_response(
    conversation: Conversation,
    encode_context: EncodeContext,
    message_layout: MessageLayout,
    model: str = "",
) -> ScriptedResponse:
    """Synthesize the response to a conversation; `encode_context` generates its ids."""
    message = conversation.last_user_text
    instruction, warnings = _find_instruction(message)
    composer = _PartComposer(encode_context, needs_space=message_layout == "text")
    if instruction is None:
        messages = [composer.compose_plain_parts(message)]
    else:
        messages = list(composer.compose_instructed_parts(instruction))
    all_parts = tuple(part for parts in messages for part in parts)
    usage = _estimate_usage(conversation, all_parts)
    turn = Turn(all_parts, usage=usage, model=model or DEFAULT_MODEL)
    turns = [turn]
    if message_layout == "choices":
        # A choice has the id of document 001 and stops even after calls.
        id_prefix = f"gen-{encode_context.created_unix_s}-"
        response_id = encode_context.fake_identifier(id_prefix, length=16)
        turns = [
            Turn(parts, FinishReason.STOP, usage=usage, id=response_id, model=turn.model)
            for parts in messages
        ]
    send_turns = SendTurns(
        tuple(turns),
        lambda text: composer.pieces_by_text.get(text) or split_words(text, _WORDS_PER_PIECE),
        gap_ms=lambda _: _PIECE_GAP_MS,
        turns_are_successive=len(turns) > 1,
    )
    content_kind = "reasoning" if _REASONING_MARKER in message else "text"
    return ScriptedResponse(
        send_turns,
        f"synthesis: {content_kind if instruction is None else 'instruction'}",
        warnings=warnings,
        is_synthesized=True,
    )


def hash_based_word_count(message: str) -> int:
    """The number of words in the response to a message: 5 plus the message's hash modulo 496.

    The hash is the same on every platform: the first 8 bytes of the SHA-256 of the message in
    UTF-8, as an unsigned big-endian number.
    """
    digest = sha256(message.encode("utf-8", "surrogatepass")).digest()
    return _MIN_WORDS + int.from_bytes(digest[:8], "big") % _DISTINCT_COUNTS


def lorem_words(count: int) -> str:
    """The first `count` words, separated by single spaces; repeats the list as needed."""
    return " ".join(islice(cycle(_WORDS), count))


def _find_instruction(message: str) -> tuple[Instruction | None, tuple[str, ...]]:
    """The instruction in the first block of a message, and warnings; None if none is valid."""
    _, start, after_start = message.partition(_INSTRUCTION_START)
    if not start:
        return None, ()
    try:
        instruction, names = _parse_block(*after_start.partition(_INSTRUCTION_END)[:2])
    except (ValueError, msgspec.MsgspecError) as error:
        warning = (
            f"ignored the instruction in the user message: {error}; fix the JSON between "
            f"{_INSTRUCTION_START} and {_INSTRUCTION_END}"
        )
        return None, (warning,)
    return instruction, tuple(
        f"ignored the unknown field '{name}' of the instruction in the user message; "
        "known fields: id_message, reasoning, messages"
        for name in names
        if name not in Instruction.__struct_fields__
    )


def _parse_block(block: str, end: str) -> tuple[Instruction, Iterable[str]]:
    """An instruction, and the names of its fields.

    Raises `ValueError` or `MsgspecError` if it is malformed or exceeds a limit.
    """
    if not end:
        raise ValueError(f"{_INSTRUCTION_END} is missing")
    if len(block) > _MAX_BLOCK_CHARS:
        raise ValueError(
            f"the instruction has {len(block)} characters (maximum {_MAX_BLOCK_CHARS})"
        )
    block_bytes = block.encode("utf-8", "replace")
    try:
        instruction = msgspec.json.decode(block_bytes, type=Instruction)
        names = msgspec.json.decode(block_bytes, type=dict[str, msgspec.Raw])
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    reasoning_words = instruction.reasoning.length if instruction.reasoning else 0
    total_words = call_count = 0
    for index, message in enumerate(instruction.messages):
        if (message.text_message is UNSET) == (message.tool_call is UNSET):
            raise ValueError(f"`$.messages[{index}]` must contain either text_message or tool_call")
        if message.text_message:
            total_words += message.text_message.length + reasoning_words
        call_count += len(message.tool_call or ())
    if total_words > _MAX_WORDS:
        raise ValueError(f"it requests {total_words} words (maximum {_MAX_WORDS})")
    if call_count > _MAX_MESSAGES:
        raise ValueError(f"it requests {call_count} calls (maximum {_MAX_MESSAGES})")
    return instruction, names


class _PartComposer:
    """Writes the parts of a response, and records the pieces of each text."""

    def __init__(self, encode_context: EncodeContext, *, needs_space: bool) -> None:
        self._encode_context = encode_context
        self._needs_space = needs_space
        """Whether messages become one text, so that a space must separate them."""
        self._is_started: set[type[Part]] = set()
        self._call_count = 0
        self.pieces_by_text: dict[str, tuple[str, ...]] = {}

    def compose_plain_parts(self, message: str) -> tuple[Part, ...]:
        """Lorem and the echo of the message: as reasoning, if requested, and as text."""
        segments = (lorem_words(hash_based_word_count(message)), message)
        kinds = (Reasoning, Text) if _REASONING_MARKER in message else (Text,)
        return tuple(self._compose_part(kind, segments) for kind in kinds)

    def compose_instructed_parts(self, instruction: Instruction) -> Iterator[tuple[Part, ...]]:
        """The parts of each message of an instruction."""
        mark = instruction.id_message
        for message in instruction.messages:
            if message.text_message:
                word_counts = ((Reasoning, instruction.reasoning), (Text, message.text_message))
                yield tuple(
                    self._compose_part(kind, (mark, lorem_words(word_count.length), mark))
                    for kind, word_count in word_counts
                    if word_count
                )
            else:
                yield tuple(map(self._make_tool_call, message.tool_call or ()))

    def _compose_part(self, kind: type[Text | Reasoning], segments: Iterable[str]) -> Part:
        space = " " if self._needs_space and kind in self._is_started else ""
        pieces: list[str] = []
        for segment in filter(None, segments):
            pieces += split_words(space + segment, _WORDS_PER_PIECE)
            space = " "
        self._is_started.add(kind)
        text = "".join(pieces)
        self.pieces_by_text[text] = tuple(pieces)
        return kind(text)

    def _make_tool_call(self, call: InstructedToolCall) -> ToolCall:
        call_id = self._encode_context.fake_identifier("call_", self._call_count)
        self._call_count += 1
        arguments = compact_json(dict(call.args))
        self.pieces_by_text[arguments] = tuple(token_pieces(arguments))
        return ToolCall(call_id, call.name, arguments)


def _estimate_usage(conversation: Conversation, parts: Iterable[Part]) -> Usage:
    """Estimated tokens of all messages and the system prompt, and of the response."""
    texts = [message.text for message in conversation.messages]
    if not any(
        message.role == "system" and message.text == conversation.system
        for message in conversation.messages
    ):
        texts.append(conversation.system)
    output = "".join(
        part.arguments if isinstance(part, ToolCall) else part.text
        for part in parts
        if isinstance(part, Text | Reasoning | ToolCall)
    )
    return Usage(
        estimates_and_fakes.estimated_token_count("".join(texts)),
        estimates_and_fakes.estimated_token_count(output),
    )
