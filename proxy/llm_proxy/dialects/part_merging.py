"""Merges neighbouring parts that a wire format cannot keep apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from llm_proxy.turns import Citation, Part, Reasoning, Refusal, Text


def merge_neighbours(
    parts: Iterable[Part],
    mergeable_kinds: Collection[type[Part]],
    blocks_merge: Callable[[Part], bool] = lambda _part: False,
) -> tuple[Part, ...]:
    """The parts, with neighbours of the same mergeable kind merged.

    Nothing is merged onto a part for which `blocks_merge` is true.
    """
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and type(part) is type(last) in mergeable_kinds
            and not blocks_merge(last)
        ):
            groups[-1].append(part)
        else:
            groups.append([part])
    return tuple(
        _merge_parts(group) if type(group[0]) in mergeable_kinds else group[0] for group in groups
    )


def _merge_parts(parts: Sequence[Part]) -> Part:
    """Merges parts of one kind with text; of reasoning, the last signature is kept."""
    match parts[0]:
        case Text():
            return _merge_texts([part for part in parts if isinstance(part, Text)])
        case Reasoning():
            reasonings = [part for part in parts if isinstance(part, Reasoning)]
            signed = [
                reasoning for reasoning in reasonings if reasoning.signature or reasoning.redacted
            ] or reasonings
            return replace(signed[-1], text="".join(reasoning.text for reasoning in reasonings))
        case Refusal():
            return Refusal("".join(part.text for part in parts if isinstance(part, Refusal)))
        case _:
            raise TypeError(f"{type(parts[0]).__name__} is not joined")


def _merge_texts(parts: Sequence[Text]) -> Text:
    """The joined text, and all citations with their spans shifted."""
    text = ""
    citations: list[Citation] = []
    for part in parts:
        citations += (_shift_citation(citation, len(text)) for citation in part.citations)
        text += part.text
    return Text(text, tuple(citations), parts[-1].metadata)


def _shift_citation(citation: Citation, offset: int) -> Citation:
    if citation.span is None:
        return citation
    start, end = citation.span
    return replace(citation, span=(start + offset, end + offset))
