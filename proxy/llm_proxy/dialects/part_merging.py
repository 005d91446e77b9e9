"""Merges neighbouring parts that a wire format cannot keep apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from llm_proxy.turns import Citation, Part, Reasoning, Refusal, Text


def merge_neighbours(
    parts: Iterable[Part],
    kinds: Collection[type[Part]],
    ends_run: Callable[[Part], bool] = lambda _part: False,
) -> tuple[Part, ...]:
    """The parts, those of one of these kinds joined with their neighbours of the same kind.

    Nothing is joined to a part that `closes`.
    """
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if last is not None and type(part) is type(last) in kinds and not ends_run(last):
            groups[-1].append(part)
        else:
            groups.append([part])
    return tuple(_merge_parts(group) if type(group[0]) in kinds else group[0] for group in groups)


def _merge_parts(parts: Sequence[Part]) -> Part:
    """Neighbours of one kind as one part; only kinds that hold text are joined."""
    match parts[0]:
        case Text():
            return _merge_texts([part for part in parts if isinstance(part, Text)])
        case Reasoning():
            items = [part for part in parts if isinstance(part, Reasoning)]
            sealed = [
                reasoning for reasoning in items if reasoning.signature or reasoning.redacted
            ] or items
            return replace(sealed[-1], text="".join(reasoning.text for reasoning in items))
        case Refusal():
            return Refusal("".join(part.text for part in parts if isinstance(part, Refusal)))
        case _:
            raise TypeError(f"{type(parts[0]).__name__} is not joined")


def _merge_texts(parts: Sequence[Text]) -> Text:
    """The text of all, and their citations where the cited words now stand."""
    text = ""
    citations: list[Citation] = []
    for part in parts:
        citations += (_shift_citation(citation, len(text)) for citation in part.citations)
        text += part.text
    return Text(text, tuple(citations), parts[-1].metadata)


def _shift_citation(citation: Citation, by: int) -> Citation:
    if citation.span is None:
        return citation
    start, end = citation.span
    return replace(citation, span=(start + by, end + by))
