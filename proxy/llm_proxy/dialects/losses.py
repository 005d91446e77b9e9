"""Names what a wire format cannot represent: `reasoning`, `metadata provider`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Final

from llm_proxy.dialects import encoding
from llm_proxy.dialects.encoding import PART_LABELS
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.turns import FinishReason, Json, Part, Reasoning, Refusal, ToolResult, Turn

_EMPTY_VALUES: Final = (None, "", (), False, "{}")
"""Values of a part's fields that say nothing; `{}` is what a call without arguments gets."""


def between(
    given: Sequence[Turn],
    prepared: Sequence[Turn],
    decoded: Sequence[Turn],
    wire_format: WireFormat,
) -> tuple[str, ...]:
    """What was lost of the given turns, prepared for encoding and decoded again; each loss once."""
    losses: dict[str, None] = {}
    for given_turn, prepared_turn, decoded_turn in zip(given, prepared, decoded, strict=True):
        lost_of_parts = _lost_of_parts(
            given_turn.parts, prepared_turn.parts, decoded_turn.parts, wire_format
        )
        if prepared_turn.failure and wire_format.has_citations_at_end:
            lost_of_parts = (loss for loss in lost_of_parts if loss != "citations of text")
        losses |= dict.fromkeys(lost_of_parts)
        losses |= dict.fromkeys(
            _lost_of_turn(given_turn, prepared_turn, decoded_turn, prepared[0], wire_format)
        )
    return tuple(losses)


def _lost_of_parts(
    given: Sequence[Part],
    prepared: Sequence[Part],
    decoded: Sequence[Part],
    wire_format: WireFormat,
) -> Iterator[str]:
    """The parts that were left out, and the fields that their decoded parts lack.

    A part is compared with the decoded ones of its content.  Where none has that, or parts were
    left out, merged or split before encoding, a field is lost if none of its kind has it.
    Metadata that only the decoded parts have is generated, and so is not that of the given ones.
    """
    provider_calls = encoding.provider_call_identities(given)
    given_by_kind, prepared_by_kind, decoded_by_kind = map(_by_kind, (given, prepared, decoded))
    places: Counter[type[Part]] = Counter()
    for part in given:
        kind = type(part)
        place = places[kind]
        places[kind] += 1
        is_left_out = encoding.is_silent(part, wire_format) or (
            kind is Reasoning
            and kind in wire_format.parts
            and wire_format.convert_part(part) is None
        )
        sent, kept = prepared_by_kind[kind], decoded_by_kind[kind]
        if is_left_out:
            kept = []
        elif len(sent) == len(given_by_kind[kind]):
            sent = [sent[place]]
            kept = [other for other in kept if _content(other) == _content(sent[0])] or kept
        if kind not in wire_format.parts and isinstance(part, Refusal):
            yield "refusal (sent as text)"
        elif ToolResult not in wire_format.parts and encoding.is_provider_part(
            part, provider_calls
        ):
            yield "calls and results of the provider's own tools"
        elif isinstance(part, Reasoning | ToolResult) and not kept:
            yield PART_LABELS[kind]
        else:
            kept_names = _metadata_names(kept) & _metadata_names(sent)
            for name, _ in part.metadata:
                if name not in kept_names:
                    yield f"metadata {name} of {PART_LABELS[kind]}"
            for field in fields(part):
                if (
                    field.name not in ("metadata", "id")
                    and getattr(part, field.name) not in _EMPTY_VALUES
                    and not any(getattr(other, field.name) for other in kept)
                ):
                    yield f"{field.name} of {PART_LABELS[kind]}"


def _lost_of_turn(
    given: Turn, prepared: Turn, decoded: Turn, first: Turn, wire_format: WireFormat
) -> Iterator[str]:
    before, after = (
        [kind for kind, _ in groupby(turn.parts, key=type)] for turn in (prepared, decoded)
    )
    decoded_kinds = map(type, decoded.parts)
    is_in_order = all(type(part) in decoded_kinds for part in prepared.parts)  # or with more
    is_reordered = before != after and set(before) == set(after)  # else a kind is new, or lost
    if is_reordered and not is_in_order:
        yield "the order of parts"
    awaits_client = wire_format.awaits_client(prepared.parts)
    wanted = given.finish or (FinishReason.TOOL_CALLS if awaits_client else FinishReason.STOP)
    if prepared.failure is None and prepared.finish is None:
        if given.finish not in (None, first.finish):
            yield f"finish reason {given.finish} of a choice after the first"
    elif prepared.failure is None and prepared.finish is not wanted:
        yield (
            f"finish reason {wanted} (sent as {prepared.finish_raw}, which means {prepared.finish})"
        )
    if given.usage is not None:
        for field in fields(given.usage):
            if (
                getattr(given.usage, field.name) is not None
                and field.name not in wire_format.usage.paths
            ):
                yield f"usage {field.name}"
    kept_names = {name for name, _ in prepared.metadata}
    yield from (f"metadata {name}" for name, _ in given.metadata if name not in kept_names)


def _by_kind(parts: Sequence[Part]) -> Mapping[type[Part], list[Part]]:
    parts_by_kind: defaultdict[type[Part], list[Part]] = defaultdict(list)
    for part in parts:
        parts_by_kind[type(part)].append(part)
    return parts_by_kind


def _content(part: Part) -> tuple[Json, ...]:
    """What identifies a part among those of its kind in one turn."""
    return tuple(getattr(part, name, None) for name in ("text", "name", "content", "base64", "url"))


def _metadata_names(parts: Sequence[Part]) -> set[str]:
    return {name for part in parts for name, _ in part.metadata}
