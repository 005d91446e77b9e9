"""Converts turns to what a wire format can represent, and names the losses.

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
from llm_proxy.dialects.capabilities import Capabilities, is_empty_part, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.surrogates import replace_lone_surrogates
from llm_proxy.errors import NotRepresentable
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
class ConvertedTurns:
    """Turns as a wire can tell them."""

    turns: tuple[Turn, ...]
    losses: tuple[str, ...]
    """What the wire has no word for, each a few words: `reasoning`, `metadata provider`."""


def convert(
    turns: Sequence[Turn], capabilities: Capabilities, model: str, context: EncodeContext
) -> ConvertedTurns:
    """The turns as the wire can tell them; `model` is the one that was asked for.

    Raises `NotRepresentable` for what would not be the same answer without what is missing.
    """
    if not turns or (len(turns) > 1 and not capabilities.allows_several_turns):
        raise NotRepresentable(
            f"{capabilities.dialect} answers in one turn, and this is {len(turns)}"
        )
    turns = list(map(replace_lone_surrogates, turns))
    failure = next((turn.failure for turn in turns if turn.failure), None)
    if failure and not capabilities.streams:
        metadata = next(turn.metadata for turn in turns if turn.failure)
        error = Turn((), failure=capabilities.convert_failure(failure), metadata=metadata)
        flag = any(turn.parts for turn in turns)
        return ConvertedTurns(
            (capabilities.convert_http_error_turn(error),),
            ("what was said before it failed",) * flag,
        )
    fitting = _Conversion(capabilities, context, model)
    first, *rest = (fitting.convert_turn(replace(turn, failure=failure)) for turn in turns)
    if context.turns_are_successive and capabilities.allows_successive_turns:
        each = zip(rest, turns[1:], strict=True)
        rest = [fitting.without_finish(told, turn.finish, first) for told, turn in each]
    alike = (_as_further_choice(first, turn, capabilities) for turn in rest)
    return ConvertedTurns((first, *alike), tuple(dict.fromkeys(fitting.losses)))


def _as_further_choice(first: Turn, turn: Turn, capabilities: Capabilities) -> Turn:
    """Another choice of the same answer: what the answer says of itself, it says once."""
    own = {
        name: value
        for name, value in turn.metadata
        if name not in capabilities.shared_metadata_names
    }
    all_of_it = {
        name: value for name, value in first.metadata if name in capabilities.shared_metadata_names
    } | own
    return replace(
        turn,
        id=first.id,
        model=first.model,
        usage=first.usage,
        metadata=nonempty_metadata(tuple(all_of_it.items()), capabilities.metadata_names),
    )


class _Conversion:
    """One answer on its way into a vocabulary, and what it loses there."""

    def __init__(self, capabilities: Capabilities, context: EncodeContext, model: str) -> None:
        self._capabilities = capabilities
        self._context = context
        self._model = model
        self._call_ids: set[str] = set()
        self.losses: list[str] = []

    def convert_turn(self, turn: Turn) -> Turn:
        """The turn as the wire can tell it."""
        words = self._capabilities
        parts = self._convert_parts(turn.parts)
        finish, raw = self._convert_finish(turn, awaits_client=words.awaits_client(parts))
        made = "" if words.id_prefix is None else self._context.identifier(words.id_prefix)
        fitted = Turn(
            parts,
            finish=finish,
            finish_raw=raw,
            usage=self._convert_usage(turn.usage),
            id=(turn.id or made) if made else "",
            model=(turn.model or self._model) if words.names_model else "",
            metadata=self._record_metadata_losses(
                "", turn.metadata, nonempty_metadata(turn.metadata, words.metadata_names)
            ),
        )
        if turn.failure is None:
            return self._arrange_turn(fitted)
        failed = replace(
            fitted, finish=None, finish_raw="", failure=words.convert_failure(turn.failure)
        )
        return self._arrange_turn(words.convert_failed_turn(failed))

    def without_finish(self, turn: Turn, finish: Finish | None, first: Turn) -> Turn:
        """A turn that fits, in a stream where the first one finishes for all."""
        self.losses += [f"finish {finish} of a later choice"] * (finish not in (None, first.finish))
        told = self._capabilities.convert_failed_turn(replace(turn, finish=None, finish_raw=""))
        return replace(
            told, metadata=self._record_metadata_losses("", turn.metadata, told.metadata)
        )

    def _arrange_turn(self, turn: Turn) -> Turn:
        """The turn as the wire arranges it, which may be in another order."""
        arranged = self._capabilities.arrange(turn)
        before, after = ([type(part) for part in item.parts] for item in (turn, arranged))
        self.losses += ["the order of parts"] * (
            before != after and Counter(before) == Counter(after)
        )
        return arranged

    def _convert_parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        items = list(self._representable_parts(tuple(parts)))
        order = self._capabilities.part_order
        if order:
            entries = list(items)
            items.sort(key=lambda part: order.index(type(part)))
            self.losses += ["the order of parts"] * (items != entries)
        return part_merging.merge_neighbours(items, self._capabilities.merged_kinds)

    def _representable_parts(self, parts: tuple[Part, ...]) -> Iterable[Part]:
        """The parts that the wire has words for and that say something, through its lenses."""
        answered = {
            _call_result_identity(item.call_id, item.name)
            for item in parts
            if isinstance(item, ToolResult)
        }
        for part in parts:
            provided = (
                isinstance(part, ToolCall) and _call_result_identity(part.id, part.name) in answered
            )
            is_provided = provided or isinstance(part, ToolResult)
            told = (
                self._convert_provider_tool_part(part)
                if is_provided
                else self._apply_converter(part)
            )
            if told is not None and (not is_empty_part(told) or self._keeps_empty_part(told)):
                yield told

    def _keeps_empty_part(self, part: Part) -> bool:
        return type(part) in self._capabilities.kinds_kept_empty and bool(part.metadata)

    def _convert_provider_tool_part(self, part: Part) -> Part | None:
        """What a provider's own tool was asked or gave: calls and results are told together."""
        if self._capabilities.convert_tool_result(ToolResult("", "")) is None:
            self.losses.append("what the provider's own tools did")
            return None
        if isinstance(part, ToolCall) and self._capabilities.convert_provider_tool_call is not None:
            tool_call = self._capabilities.convert_provider_tool_call(
                self._with_unique_call_id(part)
            )
            if tool_call is not None:
                self._record_losses(part, tool_call)
            return tool_call
        return self._apply_converter(part)

    def _apply_converter(self, part: Part) -> Part | None:
        words = self._capabilities
        told = self._converter_for(part)
        if told is not None:
            self._record_losses(part, told)
            return told
        match part:
            case Refusal():
                self.losses.append("that a refusal is one")
                return words.convert_text(Text(part.text))
            case Reasoning() | ToolResult():
                self.losses.append(_WHAT[type(part)])
                return None
            case ToolCall() if (
                words.convert_tool_call(replace(self._with_unique_call_id(part), arguments="{}"))
                is not None
            ):
                raise NotRepresentable(
                    f"{words.dialect} tells the arguments of a call as a JSON object, and those "
                    f"of {part.name or 'this one'} are none that could be told exactly"
                )
            case _:
                raise NotRepresentable(f"{words.dialect} has no word for {_WHAT[type(part)]}")

    def _converter_for(self, part: Part) -> Part | None:
        words = self._capabilities
        match part:
            case Text():
                return words.convert_text(part)
            case Reasoning():
                seal, sealed = part.signature or None, part.redacted or None
                return words.convert_reasoning(replace(part, signature=seal, redacted=sealed))
            case Refusal():
                return words.convert_refusal(part)
            case ToolCall():
                return words.convert_tool_call(self._with_unique_call_id(part))
            case ToolResult():
                return words.convert_tool_result(part)
            case Media():
                return words.convert_media(part)

    def _with_unique_call_id(self, call: ToolCall) -> ToolCall:
        """The call with an id that no other call of the answer has, and with arguments."""
        ordinal = len(self._call_ids)
        call_id = call.id
        prefix = self._capabilities.call_id_prefix
        if prefix is not None and (not call_id or call_id in self._call_ids):
            call_id = self._context.identifier(prefix, ordinal)
        self._call_ids.add(call_id)
        return replace(call, id=call_id, arguments=call.arguments or "{}")

    def _record_losses(self, part: Part, told: Part) -> None:
        """Note what the wire's telling of a part leaves out."""
        label = _WHAT[type(part)]
        self._record_metadata_losses(f"of {label}", part.metadata, told.metadata)
        for field in fields(part):
            value = field.name not in ("metadata", "id") and getattr(part, field.name)
            if value and not getattr(told, field.name):
                self.losses.append(f"{field.name} of {label}")

    def _record_metadata_losses(self, of: str, before: Metadata, after: Metadata) -> Metadata:
        names = {name for name, _ in after}
        self.losses += (f"metadata {name} {of}".strip() for name, _ in before if name not in names)
        return after

    def _convert_finish(self, turn: Turn, *, awaits_client: bool) -> tuple[Finish, str]:
        """Why it finished, and the wire's word for it."""
        wanted = turn.finish or (Finish.TOOL_CALLS if awaits_client else Finish.STOP)
        if (
            turn.finish_raw
            and self._finish_of_raw(turn.finish_raw, awaits_client=awaits_client) is wanted
        ):
            return wanted, turn.finish_raw
        nearest = wanted
        while nearest not in self._capabilities.raw_of_finish:
            nearest = _NEAREST[nearest]
        raw = self._capabilities.raw_of_finish[nearest]
        meant = self._finish_of_raw(raw, awaits_client=awaits_client)
        if meant is not wanted and turn.failure is None:
            self.losses.append(f"finish {wanted} (told as {raw}, which means {meant})")
        return meant, raw

    def _finish_of_raw(self, raw: str, *, awaits_client: bool) -> Finish:
        meant = self._capabilities.finish_of_raw.get(raw, Finish.OTHER)
        stops = meant is Finish.STOP and self._capabilities.stop_means_tool_calls
        return Finish.TOOL_CALLS if stops and awaits_client else meant

    def _convert_usage(self, usage: Usage | None) -> Usage | None:
        words = self._capabilities
        if usage is None and not words.always_has_usage:
            return None
        document = {name: getattr(usage, name) for name in words.usage_fields} if usage else {}
        if usage is not None:
            every = ((field.name, getattr(usage, field.name)) for field in fields(usage))
            self.losses += (
                f"usage {name}" for name, it in every if it is not None and name not in document
            )
        counted = {name: value for name, value in document.items() if value is not None}
        if not counted and not words.always_has_usage:
            return None
        told = Usage(**(dict.fromkeys(words.required_usage_fields, 0) | counted))
        if "total" in words.required_usage_fields and "total" not in counted:
            return replace(told, total=(told.input or 0) + (told.output or 0))
        return told


def _call_result_identity(call_id: str, name: str) -> tuple[str, str]:
    """What a call and its result share: an id; the name, where there is none."""
    return (call_id, "") if call_id else ("", name)
