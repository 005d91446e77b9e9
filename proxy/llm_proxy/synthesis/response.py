r"""The made-up answer to a conversation: the same one for the same conversation, everywhere.

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
from llm_proxy.dialects.encode_context import Delivery, pieces
from llm_proxy.scenario.render import text_splitting
from llm_proxy.scenario.scripted_response import Say, Timing
from llm_proxy.synthesis import instruction, lorem
from llm_proxy.synthesis.instruction import END, START, Call, Found, Instruction, Length
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
class Synthesis:
    """An answer that was made up."""

    say: Say
    mode: Literal["text", "reasoning", "instruction"]
    """What decided what it holds."""
    warnings: tuple[str, ...] = ()
    """What was asked for in vain."""


def synthesise(
    conversation: Conversation, delivery: Delivery, telling: Telling, model: str = ""
) -> Synthesis:
    """The answer of this model to a conversation; `delivery` gives its identifiers."""
    message = conversation.last_user_text
    asked = instruction.read(message)
    writing = _Writing(delivery, spaced=telling == "text")
    if isinstance(asked, Found):
        messages = [*writing.instructed(asked.instruction)]
    else:
        messages = [writing.plain(message)]
    if telling != "choices":
        messages = [tuple(part for parts in messages for part in parts)]
    usage = _usage(conversation, [part for parts in messages for part in parts])
    turns = tuple(_turn(parts, usage, delivery, telling, model or MODEL) for parts in messages)
    say = Say(turns, _Cut(writing.pieces), Timing(gap=_gap), successive=len(turns) > 1)
    match asked:
        case Found(ignored=ignored):
            return Synthesis(say, "instruction", tuple(map(_ignored, ignored)))
        case _:
            warnings = (_unreadable(asked.why),) if asked else ()
            return Synthesis(say, "reasoning" if _REASON in message else "text", warnings)


def _ignored(name: str) -> str:
    return (
        f"The instruction in the user's message has a field `{name}`, which means nothing there "
        "and is ignored. Its fields are id_message, reasoning and messages."
    )


def _unreadable(why: str) -> str:
    return (
        "The instruction in the user's message cannot be followed, so the message is answered "
        f"like one without: {why}. Mend the JSON between {START} and {END}."
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts what was written where it was put together; anything else by words."""

    known: Mapping[str, tuple[str, ...]]

    def __call__(self, text: str) -> Iterable[str]:
        return self.known.get(text) or text_splitting.words(text, _CHUNK)


def _gap(_piece: int) -> float:
    return _GAP


class _Writing:
    """The parts of an answer as they are written, and where each is to be cut."""

    def __init__(self, delivery: Delivery, *, spaced: bool) -> None:
        self._delivery = delivery
        self._spaced = spaced
        """Whether messages become one text, so that a space must part them."""
        self._begun: set[type[Part]] = set()
        self._calls = 0
        self.pieces: dict[str, tuple[str, ...]] = {}

    def plain(self, message: str) -> tuple[Part, ...]:
        """Lorem and the echo of the message: as reasoning, if it asks for it, and as text."""
        said = (lorem.words(lorem.count(message)), message)
        reasoning = [self._stream(Reasoning, said)] if _REASON in message else []
        return (*reasoning, self._stream(Text, said))

    def instructed(self, asked: Instruction) -> Iterable[tuple[Part, ...]]:
        """The parts of each message that an instruction asks for."""
        mark = asked.id_message
        for entry in asked.messages:
            if isinstance(entry.text_message, Length):
                wanted = ((Reasoning, asked.reasoning), (Text, entry.text_message))
                streams = ((kind, lorem.words(it.length)) for kind, it in wanted if it)
                yield tuple(self._stream(kind, (mark, said, mark)) for kind, said in streams)
            else:
                yield tuple(map(self._call, entry.tool_call or ()))

    def _stream(self, kind: type[Text | Reasoning], segments: Iterable[str]) -> Part:
        """Segments with a space between them, each cut by itself."""
        space = " " if self._spaced and kind in self._begun else ""
        cut: list[str] = []
        for segment in filter(None, segments):
            cut += text_splitting.words(space + segment, _CHUNK)
            space = " "
        self._begun.add(kind)
        text = "".join(cut)
        self.pieces[text] = tuple(cut)
        return kind(text)

    def _call(self, call: Call) -> ToolCall:
        call_id = self._delivery.identifier("call_", self._calls)
        self._calls += 1
        arguments = lenient_json.compact(dict(call.args))
        self.pieces[arguments] = tuple(pieces(arguments))
        return ToolCall(call_id, call.name, arguments)


def _turn(
    parts: tuple[Part, ...], usage: Usage, delivery: Delivery, telling: Telling, model: str
) -> Turn:
    """One message; in choices it has the id of document 001, and stops even after calls."""
    if telling != "choices":
        return Turn(parts, usage=usage, model=model)
    answer = delivery.identifier(f"gen-{delivery.created}-", length=16)
    return Turn(parts, Finish.STOP, usage=usage, id=answer, model=model)


def _usage(conversation: Conversation, parts: Iterable[Part]) -> Usage:
    """Tokens, as a rule of thumb counts them: of all that was said to the model, and by it."""
    heard = [it.text for it in conversation.messages]
    if not any(
        it.role == "system" and it.text == conversation.system for it in conversation.messages
    ):
        heard.append(conversation.system)
    return Usage(fakes.tokens("".join(heard)), fakes.tokens("".join(map(_words, parts))))


def _words(part: Part) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""
