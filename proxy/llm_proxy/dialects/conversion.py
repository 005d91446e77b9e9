"""What a wire cannot say of a turn, and what becomes of it: one set of rules for all dialects.

* Text, tool calls and media are what an application acts on: a wire without a word for one of
  them refuses the turn.
* A refusal is told as text where there is no word for it.
* Reasoning, signatures, citations, what a provider's own tools were asked and gave, counts of
  tokens, and metadata are left out where there is no word for them.
* A reason to finish is told by the nearest word.  A turn that does not say why it finished,
  finished.
* Parts that say nothing are left out; neighbours that nothing on the wire parts become one; where
  the wire has one place for each kind, parts stand in its order.
* What the wire must have and the turn lacks is made: ids, the model that was asked for, `{}` for
  the arguments of a call without any, counts of zero.  Half a character is told as U+FFFD.
* An answer that fails amid its stream says what it said until then, and no reason to finish; one
  that does not stream says nothing but its error.

A turn that has been through this once comes through it unchanged, and is read as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from llm_proxy.dialects import part_merging
from llm_proxy.dialects.capabilities import Vocabulary, is_silent, kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.surrogates import mended
from llm_proxy.errors import CannotSay
from llm_proxy.turns import (
    Finish,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_NEAREST: Final = {
    Finish.STOP_SEQUENCE: Finish.STOP,
    Finish.TOOL_CALLS: Finish.STOP,
    Finish.CONTEXT_FULL: Finish.LENGTH,
    Finish.LENGTH: Finish.STOP,
    Finish.REFUSAL: Finish.CONTENT_FILTER,
    Finish.CONTENT_FILTER: Finish.STOP,
    Finish.PAUSED: Finish.STOP,
    Finish.ERROR: Finish.OTHER,
    Finish.OTHER: Finish.STOP,
}
"""What is said instead, where a wire has no word; every wire has one for `STOP`."""

_WHAT: Final = {
    Text: "text",
    Reasoning: "reasoning",
    Refusal: "a refusal",
    ToolCall: "a tool call",
    ToolResult: "the result of a tool",
    Media: "media",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Turns as a wire can tell them."""

    turns: tuple[Turn, ...]
    lost: tuple[str, ...]
    """What the wire has no word for, each a few words: `reasoning`, `metadata provider`."""


def fit(turns: Sequence[Turn], vocabulary: Vocabulary, model: str, delivery: Delivery) -> Fitted:
    """The turns as the wire can tell them; `model` is the one that was asked for.

    Raises `CannotSay` for what would not be the same answer without what is missing.
    """
    if not turns or (len(turns) > 1 and not vocabulary.choices):
        raise CannotSay(f"{vocabulary.dialect} answers in one turn, and this is {len(turns)}")
    turns = list(map(mended, turns))
    failure = next((turn.failure for turn in turns if turn.failure), None)
    if failure and not vocabulary.streams:
        about = next(turn.metadata for turn in turns if turn.failure)
        error = Turn((), failure=vocabulary.failure(failure), metadata=about)
        said = any(turn.parts for turn in turns)
        return Fitted((vocabulary.refused(error),), ("what was said before it failed",) * said)
    fitting = _Fitting(vocabulary, delivery, model)
    first, *rest = (fitting.turn(replace(turn, failure=failure)) for turn in turns)
    if delivery.successive and vocabulary.successive:
        each = zip(rest, turns[1:], strict=True)
        rest = [fitting.unended(told, turn.finish, first) for told, turn in each]
    alike = (_as_beside(first, turn, vocabulary) for turn in rest)
    return Fitted((first, *alike), tuple(dict.fromkeys(fitting.lost)))


def _as_beside(first: Turn, turn: Turn, vocabulary: Vocabulary) -> Turn:
    """Another choice of the same answer: what the answer says of itself, it says once."""
    own = {name: value for name, value in turn.metadata if name not in vocabulary.shared}
    all_of_it = {name: value for name, value in first.metadata if name in vocabulary.shared} | own
    return replace(
        turn,
        id=first.id,
        model=first.model,
        usage=first.usage,
        metadata=kept(tuple(all_of_it.items()), vocabulary.keeps),
    )


class _Fitting:
    """One answer on its way into a vocabulary, and what it loses there."""

    def __init__(self, vocabulary: Vocabulary, delivery: Delivery, model: str) -> None:
        self._words = vocabulary
        self._delivery = delivery
        self._model = model
        self._call_ids: set[str] = set()
        self.lost: list[str] = []

    def turn(self, turn: Turn) -> Turn:
        """The turn as the wire can tell it."""
        words = self._words
        parts = self._parts(turn.parts)
        finish, raw = self._finish(turn, waits=words.waits(parts))
        made = "" if words.id_prefix is None else self._delivery.identifier(words.id_prefix)
        fitted = Turn(
            parts,
            finish=finish,
            finish_raw=raw,
            usage=self._usage(turn.usage),
            id=(turn.id or made) if made else "",
            model=(turn.model or self._model) if words.names_model else "",
            metadata=self._metadata("", turn.metadata, kept(turn.metadata, words.keeps)),
        )
        if turn.failure is None:
            return self._arranged(fitted)
        failed = replace(fitted, finish=None, finish_raw="", failure=words.failure(turn.failure))
        return self._arranged(words.failed(failed))

    def unended(self, turn: Turn, said: Finish | None, first: Turn) -> Turn:
        """A turn that fits, in a stream where the first one finishes for all."""
        self.lost += [f"finish {said} of a later choice"] * (said not in (None, first.finish))
        told = self._words.failed(replace(turn, finish=None, finish_raw=""))
        return replace(told, metadata=self._metadata("", turn.metadata, told.metadata))

    def _arranged(self, turn: Turn) -> Turn:
        """The turn as the wire arranges it, which may be in another order."""
        arranged = self._words.arranged(turn)
        before, after = ([type(part) for part in it.parts] for it in (turn, arranged))
        self.lost += ["the order of parts"] * (
            before != after and Counter(before) == Counter(after)
        )
        return arranged

    def _parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        told = list(self._told(tuple(parts)))
        order = self._words.order
        if order:
            said = list(told)
            told.sort(key=lambda part: order.index(type(part)))
            self.lost += ["the order of parts"] * (told != said)
        return part_merging.neighbours(told, self._words.joined)

    def _told(self, parts: tuple[Part, ...]) -> Iterable[Part]:
        """The parts that the wire has words for and that say something, through its lenses."""
        answered = {_pair(it.call_id, it.name) for it in parts if isinstance(it, ToolResult)}
        for part in parts:
            provided = isinstance(part, ToolCall) and _pair(part.id, part.name) in answered
            is_provided = provided or isinstance(part, ToolResult)
            told = self._provided(part) if is_provided else self._through(part)
            if told is not None and (not is_silent(told) or self._lasts(told)):
                yield told

    def _lasts(self, part: Part) -> bool:
        """Whether a part that says nothing is told for what stands beside it."""
        return type(part) in self._words.lasting and bool(part.metadata)

    def _provided(self, part: Part) -> Part | None:
        """What a provider's own tool was asked or gave: calls and results are told together."""
        if self._words.result(ToolResult("", "")) is None:
            self.lost.append("what the provider's own tools did")
            return None
        if isinstance(part, ToolCall) and self._words.provided is not None:
            told = self._words.provided(self._named(part))
            if told is not None:
                self._note(part, told)
            return told
        return self._through(part)

    def _through(self, part: Part) -> Part | None:
        """The part through the lens of its kind."""
        words = self._words
        told = self._lens(part)
        if told is not None:
            self._note(part, told)
            return told
        match part:
            case Refusal():
                self.lost.append("that a refusal is one")
                return words.text(Text(part.text))
            case Reasoning() | ToolResult():
                self.lost.append(_WHAT[type(part)])
                return None
            case ToolCall() if words.call(replace(self._named(part), arguments="{}")) is not None:
                raise CannotSay(
                    f"{words.dialect} tells the arguments of a call as a JSON object, and those "
                    f"of {part.name or 'this one'} are none that could be told exactly"
                )
            case _:
                raise CannotSay(f"{words.dialect} has no word for {_WHAT[type(part)]}")

    def _lens(self, part: Part) -> Part | None:
        words = self._words
        match part:
            case Text():
                return words.text(part)
            case Reasoning():
                seal, sealed = part.signature or None, part.redacted or None
                return words.reasoning(replace(part, signature=seal, redacted=sealed))
            case Refusal():
                return words.refusal(part)
            case ToolCall():
                return words.call(self._named(part))
            case ToolResult():
                return words.result(part)
            case Media():
                return words.media(part)

    def _named(self, call: ToolCall) -> ToolCall:
        """The call with an id that no other call of the answer has, and with arguments."""
        ordinal = len(self._call_ids)
        call_id = call.id
        prefix = self._words.call_prefix
        if prefix is not None and (not call_id or call_id in self._call_ids):
            call_id = self._delivery.identifier(prefix, ordinal)
        self._call_ids.add(call_id)
        return replace(call, id=call_id, arguments=call.arguments or "{}")

    def _note(self, part: Part, told: Part) -> None:
        """Note what the wire's telling of a part leaves out."""
        what = _WHAT[type(part)]
        self._metadata(f"of {what}", part.metadata, told.metadata)
        for field in fields(part):
            said = field.name not in ("metadata", "id") and getattr(part, field.name)
            if said and not getattr(told, field.name):
                self.lost.append(f"{field.name} of {what}")

    def _metadata(self, of: str, before: Metadata, after: Metadata) -> Metadata:
        names = {name for name, _ in after}
        self.lost += (f"metadata {name} {of}".strip() for name, _ in before if name not in names)
        return after

    def _finish(self, turn: Turn, *, waits: bool) -> tuple[Finish, str]:
        """Why it finished, and the wire's word for it."""
        wanted = turn.finish or (Finish.TOOL_CALLS if waits else Finish.STOP)
        if turn.finish_raw and self._meaning(turn.finish_raw, waits=waits) is wanted:
            return wanted, turn.finish_raw
        nearest = wanted
        while nearest not in self._words.words:
            nearest = _NEAREST[nearest]
        raw = self._words.words[nearest]
        meant = self._meaning(raw, waits=waits)
        if meant is not wanted and turn.failure is None:
            self.lost.append(f"finish {wanted} (told as {raw}, which means {meant})")
        return meant, raw

    def _meaning(self, raw: str, *, waits: bool) -> Finish:
        meant = self._words.finishes.get(raw, Finish.OTHER)
        stops = meant is Finish.STOP and self._words.calls_stop
        return Finish.TOOL_CALLS if stops and waits else meant

    def _usage(self, usage: Usage | None) -> Usage | None:
        """The counts that the wire has words for."""
        words = self._words
        if usage is None and not words.counts_always:
            return None
        said = {name: getattr(usage, name) for name in words.counts} if usage else {}
        if usage is not None:
            every = ((it.name, getattr(usage, it.name)) for it in fields(usage))
            self.lost += (
                f"usage {name}" for name, it in every if it is not None and name not in said
            )
        counted = {name: it for name, it in said.items() if it is not None}
        if not counted and not words.counts_always:
            return None
        told = Usage(**(dict.fromkeys(words.always, 0) | counted))
        if "total" in words.always and "total" not in counted:
            return replace(told, total=(told.input or 0) + (told.output or 0))
        return told


def _pair(call_id: str, name: str) -> tuple[str, str]:
    """What a call and its result share: an id; the name, where there is none."""
    return (call_id, "") if call_id else ("", name)
