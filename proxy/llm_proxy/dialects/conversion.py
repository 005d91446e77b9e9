"""Converts turns to what a wire format can represent, and names the losses.

* Applications act on text, tool calls and media: a format that cannot represent one of them raises
  `NotRepresentable`.
* A refusal becomes text if the format has no refusals.
* Reasoning, signatures, citations, calls and results of the provider's own tools, token counts and
  metadata are left out if the format has no field for them.
* A finish reason becomes the nearest that the format has.  A turn without one gets `STOP`, or
  `TOOL_CALLS` if it waits for the client.
* Empty parts are left out; neighbours without a boundary in the format are merged; if the format
  has one field for each kind, parts are sorted in its order.
* Required fields that the turn lacks are generated: ids, the requested model, `{}` for the
  arguments of a call without any, counts of zero.  A lone surrogate becomes U+FFFD.
* A stream that fails keeps the content before the error, without a finish reason; a failed response
  that does not stream is nothing but its error.

Conversion is idempotent, and a converted turn decodes from its encoding unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

from llm_proxy.dialects import turn_parts
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.encoding import PART_LABELS
from llm_proxy.dialects.turn_parts import is_empty_part, replace_lone_surrogates
from llm_proxy.dialects.wire import FINISH_FALLBACKS
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    FinishReason,
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


def convert(
    turns: Sequence[Turn], capabilities: Capabilities, model: str, context: EncodeContext
) -> ConvertedResponseTurns:
    """The turns as the format can represent them; `model` is the requested one.

    Raises `NotRepresentable` if text, tool calls or media would be lost, or for several turns where
    the format holds one.
    """
    if not turns or (len(turns) > 1 and not capabilities.response_allows_several_choices):
        raise NotRepresentable(
            f"{capabilities.dialect} answers in one turn, and this is {len(turns)}"
        )
    turns = list(map(replace_lone_surrogates, turns))
    failure = next((turn.failure for turn in turns if turn.failure), None)
    if failure and not capabilities.is_streamed:
        metadata = next(turn.metadata for turn in turns if turn.failure)
        error = Turn((), failure=capabilities.convert_failure(failure), metadata=metadata)
        has_parts = any(turn.parts for turn in turns)
        return ConvertedResponseTurns(
            (capabilities.convert_http_error_turn(error),),
            ("what was said before it failed",) * has_parts,
        )
    converter = _TurnConverter(capabilities, context, model)
    first, *further_turns = (
        converter.convert_turn(replace(turn, failure=failure)) for turn in turns
    )
    if context.choices_are_successive and capabilities.response_allows_successive_choices:
        turn_pairs = zip(further_turns, turns[1:], strict=True)
        further_turns = [
            converter.without_finish(converted, turn.finish, first)
            for converted, turn in turn_pairs
        ]
    further_choices = (_as_further_choice(first, turn, capabilities) for turn in further_turns)
    return ConvertedResponseTurns((first, *further_choices), tuple(dict.fromkeys(converter.losses)))


def _as_further_choice(first: Turn, turn: Turn, capabilities: Capabilities) -> Turn:
    """A further choice of the same response: id, model, usage and shared metadata are `first`'s."""
    choice_metadata = {
        name: value
        for name, value in turn.metadata
        if name not in capabilities.response_level_metadata_names
    }
    metadata_fields = {
        name: value
        for name, value in first.metadata
        if name in capabilities.response_level_metadata_names
    } | choice_metadata
    return replace(
        turn,
        id=first.id,
        model=first.model,
        usage=first.usage,
        metadata=nonempty_metadata(tuple(metadata_fields.items()), capabilities.metadata_names),
    )


class _TurnConverter:
    """Converts the turns of one response, and collects the losses."""

    def __init__(self, capabilities: Capabilities, context: EncodeContext, model: str) -> None:
        self._capabilities = capabilities
        self._context = context
        self._model = model
        self._call_ids: set[str] = set()
        self.losses: list[str] = []

    def convert_turn(self, turn: Turn) -> Turn:
        capabilities = self._capabilities
        parts = self._convert_parts(turn.parts)
        finish, finish_raw = self._convert_finish(
            turn, awaits_client=capabilities.awaits_client_predicate(parts)
        )
        generated_id = (
            ""
            if capabilities.id_prefix is None
            else self._context.fake_identifier(capabilities.id_prefix)
        )
        converted = Turn(
            parts,
            finish=finish,
            finish_raw=finish_raw,
            usage=self._convert_usage(turn.usage),
            id=(turn.id or generated_id) if generated_id else "",
            model=(turn.model or self._model) if capabilities.includes_model else "",
            metadata=self._record_metadata_losses(
                "", turn.metadata, nonempty_metadata(turn.metadata, capabilities.metadata_names)
            ),
        )
        if turn.failure is None:
            return self._normalize_turn(converted)
        failed_turn = replace(
            converted,
            finish=None,
            finish_raw="",
            failure=capabilities.convert_failure(turn.failure),
        )
        return self._normalize_turn(capabilities.convert_failed_turn(failed_turn))

    def without_finish(self, turn: Turn, finish: FinishReason | None, first: Turn) -> Turn:
        """A converted turn of a stream in which the first choice finishes for all.

        `finish` is the one before the conversion.
        """
        self.losses += [f"finish {finish} of a later choice"] * (finish not in (None, first.finish))
        without_raw = self._capabilities.convert_failed_turn(
            replace(turn, finish=None, finish_raw="")
        )
        return replace(
            without_raw,
            metadata=self._record_metadata_losses("", turn.metadata, without_raw.metadata),
        )

    def _normalize_turn(self, turn: Turn) -> Turn:
        """The turn after `Capabilities.normalize_turn`, which may change the order of parts."""
        arranged = self._capabilities.normalize_turn(turn)
        before, after = ([type(part) for part in item.parts] for item in (turn, arranged))
        self.losses += ["the order of parts"] * (
            before != after and Counter(before) == Counter(after)
        )
        return arranged

    def _convert_parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        converted = list(self._representable_parts(tuple(parts)))
        order = self._capabilities.part_order
        if order:
            unsorted_parts = list(converted)
            converted.sort(key=lambda part: order.index(type(part)))
            self.losses += ["the order of parts"] * (converted != unsorted_parts)
        return turn_parts.merge_neighbours(converted, self._capabilities.merged_kinds)

    def _representable_parts(self, parts: tuple[Part, ...]) -> Iterable[Part]:
        """The converted parts; unsupported and empty ones are left out."""
        answered_calls = {
            _call_result_identity(item.call_id, item.name)
            for item in parts
            if isinstance(item, ToolResult)
        }
        for part in parts:
            is_provider_call = (
                isinstance(part, ToolCall)
                and _call_result_identity(part.id, part.name) in answered_calls
            )
            is_provider_part = is_provider_call or isinstance(part, ToolResult)
            converted = (
                self._convert_provider_tool_part(part)
                if is_provider_part
                else self._convert_part(part)
            )
            if converted is not None and (
                not is_empty_part(converted) or self._keeps_empty_part(converted)
            ):
                yield converted

    def _keeps_empty_part(self, part: Part) -> bool:
        return type(part) in self._capabilities.part_kinds_kept_if_empty and bool(part.metadata)

    def _convert_provider_tool_part(self, part: Part) -> Part | None:
        """A call or result of a provider's own tool; a format without results drops both."""
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
        return self._convert_part(part)

    def _convert_part(self, part: Part) -> Part | None:
        capabilities = self._capabilities
        converted = self._apply_part_converter(part)
        if converted is not None:
            self._record_losses(part, converted)
            return converted
        match part:
            case Refusal():
                self.losses.append("that a refusal is one")
                return capabilities.convert_text(Text(part.text))
            case Reasoning() | ToolResult():
                self.losses.append(PART_LABELS[type(part)])
                return None
            case ToolCall() if (
                capabilities.convert_tool_call(
                    replace(self._with_unique_call_id(part), arguments="{}")
                )
                is not None
            ):
                raise NotRepresentable(
                    f"{capabilities.dialect} tells the arguments of a call as a JSON object, "
                    "and those "
                    f"of {part.name or 'this one'} are none that could be told exactly"
                )
            case _:
                raise NotRepresentable(
                    f"{capabilities.dialect} has no word for {PART_LABELS[type(part)]}"
                )

    def _apply_part_converter(self, part: Part) -> Part | None:
        capabilities = self._capabilities
        match part:
            case Text():
                return capabilities.convert_text(part)
            case Reasoning():
                signature, redacted = part.signature or None, part.redacted or None
                return capabilities.convert_reasoning(
                    replace(part, signature=signature, redacted=redacted)
                )
            case Refusal():
                return capabilities.convert_refusal(part)
            case ToolCall():
                return capabilities.convert_tool_call(self._with_unique_call_id(part))
            case ToolResult():
                return capabilities.convert_tool_result(part)
            case Media():
                return capabilities.convert_media(part)

    def _with_unique_call_id(self, call: ToolCall) -> ToolCall:
        """The call with an id that is unique in the response, and with arguments."""
        ordinal = len(self._call_ids)
        call_id = call.id
        prefix = self._capabilities.call_id_prefix
        if prefix is not None and (not call_id or call_id in self._call_ids):
            call_id = self._context.fake_identifier(prefix, ordinal)
        self._call_ids.add(call_id)
        return replace(call, id=call_id, arguments=call.arguments or "{}")

    def _record_losses(self, part: Part, converted: Part) -> None:
        """Record the fields and metadata of `part` that the converted part lacks."""
        label = PART_LABELS[type(part)]
        self._record_metadata_losses(f"of {label}", part.metadata, converted.metadata)
        for field in fields(part):
            value = field.name not in ("metadata", "id") and getattr(part, field.name)
            if value and not getattr(converted, field.name):
                self.losses.append(f"{field.name} of {label}")

    def _record_metadata_losses(self, label: str, before: Metadata, after: Metadata) -> Metadata:
        kept_names = {name for name, _ in after}
        self.losses += (
            f"metadata {name} {label}".strip() for name, _ in before if name not in kept_names
        )
        return after

    def _convert_finish(self, turn: Turn, *, awaits_client: bool) -> tuple[FinishReason, str]:
        """The finish and the format's finish reason."""
        wanted_finish = turn.finish or (
            FinishReason.TOOL_CALLS if awaits_client else FinishReason.STOP
        )
        if (
            turn.finish_raw
            and self._finish_of_raw(turn.finish_raw, awaits_client=awaits_client) is wanted_finish
        ):
            return wanted_finish, turn.finish_raw
        nearest_finish = wanted_finish
        while nearest_finish not in self._capabilities.raw_reason_by_finish:
            nearest_finish = FINISH_FALLBACKS[nearest_finish]
        raw = self._capabilities.raw_reason_by_finish[nearest_finish]
        decoded_finish = self._finish_of_raw(raw, awaits_client=awaits_client)
        if decoded_finish is not wanted_finish and turn.failure is None:
            self.losses.append(
                f"finish {wanted_finish} (told as {raw}, which means {decoded_finish})"
            )
        return decoded_finish, raw

    def _finish_of_raw(self, raw: str, *, awaits_client: bool) -> FinishReason:
        finish = self._capabilities.finish_by_raw_reason.get(raw, FinishReason.OTHER)
        is_ambiguous_stop = finish is FinishReason.STOP and self._capabilities.stop_means_tool_calls
        return FinishReason.TOOL_CALLS if is_ambiguous_stop and awaits_client else finish

    def _convert_usage(self, usage: Usage | None) -> Usage | None:
        capabilities = self._capabilities
        if usage is None and not capabilities.always_has_usage:
            return None
        supported_counts = (
            {name: getattr(usage, name) for name in capabilities.usage_fields} if usage else {}
        )
        if usage is not None:
            all_counts = ((field.name, getattr(usage, field.name)) for field in fields(usage))
            self.losses += (
                f"usage {name}"
                for name, count in all_counts
                if count is not None and name not in supported_counts
            )
        known_counts = {
            name: value for name, value in supported_counts.items() if value is not None
        }
        if not known_counts and not capabilities.always_has_usage:
            return None
        converted = Usage(**(dict.fromkeys(capabilities.required_usage_fields, 0) | known_counts))
        if "total" in capabilities.required_usage_fields and "total" not in known_counts:
            return replace(converted, total=(converted.input or 0) + (converted.output or 0))
        return converted


def _call_result_identity(call_id: str, name: str) -> tuple[str, str]:
    """What a call and its result share: the id, or the name if there is no id."""
    return (call_id, "") if call_id else ("", name)
