"""Parts that nothing on a wire keeps apart, as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from llm_proxy.turns import Citation, Part, Reasoning, Refusal, Text


def neighbours(
    parts: Iterable[Part],
    kinds: Collection[type[Part]],
    closes: Callable[[Part], bool] = lambda _part: False,
) -> tuple[Part, ...]:
    """The parts, those of one of these kinds joined with their neighbours of the same kind.

    Nothing is joined to a part that `closes`.
    """
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if last is not None and type(part) is type(last) in kinds and not closes(last):
            groups[-1].append(part)
        else:
            groups.append([part])
    return tuple(_one(group) if type(group[0]) in kinds else group[0] for group in groups)


def _one(parts: Sequence[Part]) -> Part:
    """Neighbours of one kind as one part; only kinds that hold text are joined."""
    match parts[0]:
        case Text():
            return _one_text([it for it in parts if isinstance(it, Text)])
        case Reasoning():
            said = [it for it in parts if isinstance(it, Reasoning)]
            sealed = [it for it in said if it.signature or it.redacted] or said
            return replace(sealed[-1], text="".join(it.text for it in said))
        case Refusal():
            return Refusal("".join(it.text for it in parts if isinstance(it, Refusal)))
        case _:
            raise TypeError(f"{type(parts[0]).__name__} is not joined")


def _one_text(parts: Sequence[Text]) -> Text:
    """The text of all, and their citations where the cited words now stand."""
    text = ""
    citations: list[Citation] = []
    for part in parts:
        citations += (_moved(it, len(text)) for it in part.citations)
        text += part.text
    return Text(text, tuple(citations), parts[-1].metadata)


def _moved(citation: Citation, by: int) -> Citation:
    if citation.span is None:
        return citation
    start, end = citation.span
    return replace(citation, span=(start + by, end + by))
