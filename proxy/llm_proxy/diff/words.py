"""How one text became another, word by word: `the [-red-] {+green+} car`.

It is never slow, whatever the texts: what both begin and end with is set aside, long texts are
compared by clauses before words, and a stretch that is too long even so shows as replaced whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from operator import attrgetter
from typing import AnyStr, Final, Literal, TypeAlias

from llm_proxy.display import one_line

Kind: TypeAlias = Literal["same", "old", "new"]

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts that put no space between words: each character counts as one."""
_WORD: Final = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|\s+|[^\w\s]")
_WORDS_ALONE: Final = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_CLAUSE: Final = re.compile(r"[^\n.,;:!?{}。、]*(?:[\n.,;:!?{}。、]+\s*|\Z)")
_WINDOW: Final = 256
"""Characters that are looked through for the beginning of a word, at first."""
_CLAUSES: Final = 1_000
"""Clauses of either text that are compared with each other."""
_WORDS: Final = 300
"""Words and spaces of either text that are compared with each other."""
_CHARACTERS: Final = 100_000
"""Characters between the first and the last difference that are looked into."""
_COMPARED: Final = 4_000
"""Words that are compared in all."""
_CONTEXT: Final = 8
"""Words and spaces that are shown before a change, and behind it."""
_LONGEST: Final = 120
"""Characters of one change that are shown."""
_LEAD: Final = 20
"""Characters of them that are shown before two long changes part."""
ROOM: Final = 600
"""Characters of a diff for people."""


@dataclass(frozen=True, slots=True)
class Change:
    """A stretch that both texts have, or that only the old or only the new one has."""

    kind: Kind
    text: str


def words(text: str) -> list[str]:
    """The words of a text, without the spaces and marks between them."""
    return _WORDS_ALONE.findall(text)


def changes(old: str, new: str) -> tuple[Change, ...]:
    """How `old` became `new`, in order.

    Joined, all that is `same` or `old` is the old text; all that is `same` or `new` the new one.
    """
    first = _word_end(old, new, shared_length(old, new))
    old_end, new_end = old[first:][::-1], new[first:][::-1]
    last = _word_end(old_end, new_end, shared_length(old_end, new_end))
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    return tuple(
        _joined(
            [
                Change("same", old[:first]),
                *_compared(before, after),
                Change("same", old[len(old) - last :]),
            ]
        )
    )


def word_diff(old: str, new: str, room: int = ROOM) -> str:
    """The same in one line for people: each change with a few words around it.

    At most about `room` characters; what has no place is counted.  Empty where nothing differs.
    """
    stretches = list(_pairs(iter(changes(old, new))))
    differ = sum(before != after for before, after in stretches)
    said: list[str] = []
    told = 0
    for number, (before, after) in enumerate(stretches):
        if before == after:
            last = number == len(stretches) - 1
            said.append(_around(before, first=number == 0, last=last) if differ else "")
            continue
        text = _said(before, after)
        if told and sum(map(len, said)) + len(text) > room:
            return "".join(said) + f"(and {differ - told} more)"
        said.append(text)
        told += 1
    return "".join(said)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def shared_length(one: AnyStr, other: AnyStr) -> int:
    """How many characters, or bytes, the two begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _word_end(one: str, other: str, shared: int) -> int:
    """How much of what they begin with alike ends with a whole word in both."""
    if not any(_inside(it, shared) for it in (one, other)):
        return shared
    window = _WINDOW
    while True:  # a word may be an image's base64
        begin = max(0, shared - window)
        last = max(it.start() for it in _WORD.finditer(one, begin, shared))
        if last > begin or begin == 0:
            return last
        window *= 4


def _inside(text: str, place: int) -> bool:
    """Whether a word, or a stretch of spaces, goes on across this place."""
    pair = text[place - 1 : place + 1]
    return len(pair) > 1 and _WORD.fullmatch(pair) is not None


def _compared(old: str, new: str) -> Iterator[Change]:
    longest = max(old, new, key=len)
    if len(longest) > _CHARACTERS:
        yield from _replaced(old, new)
        return
    words = _words(old), _words(new)
    if max(map(len, words)) <= _WORDS:
        yield from _aligned(*words)
        return
    clauses = _CLAUSE.findall(old), _CLAUSE.findall(new)
    if max(map(len, clauses)) > _CLAUSES:
        yield from _replaced(old, new)
        return
    left = _COMPARED
    for before, after in _pairs(_aligned(*clauses, junk=True)):
        if before == after:
            yield Change("same", before)
            continue
        one, other = _words(before), _words(after)
        left -= len(one) + len(other)
        if max(len(one), len(other)) <= _WORDS and left >= 0:
            yield from _aligned(one, other)
        else:
            yield from _replaced(before, after)


def _pairs(all_of_them: Iterator[Change]) -> Iterator[tuple[str, str]]:
    """What stood before and after, stretch by stretch."""
    for same, group in groupby(all_of_them, key=lambda it: it.kind == "same"):
        members = list(group)
        if same:
            yield from ((it.text, it.text) for it in members)
        else:
            yield (
                "".join(it.text for it in members if it.kind == "old"),
                "".join(it.text for it in members if it.kind == "new"),
            )


def _aligned(old: Sequence[str], new: Sequence[str], *, junk: bool = False) -> Iterator[Change]:
    matcher = SequenceMatcher(None, old, new, autojunk=junk)
    for tag, begin, end, start, stop in matcher.get_opcodes():
        if tag == "equal":
            yield Change("same", "".join(old[begin:end]))
        else:
            yield from _replaced("".join(old[begin:end]), "".join(new[start:stop]))


def _replaced(old: str, new: str) -> Iterator[Change]:
    if old:
        yield Change("old", old)
    if new:
        yield Change("new", new)


def _joined(found: Sequence[Change]) -> Iterator[Change]:
    """Without stretches of nothing; a space between two changes belongs to both."""
    kept = [it for it in found if it.text]
    spread: list[Change] = []
    for number, it in enumerate(kept):
        between = 0 < number < len(kept) - 1
        if it.kind == "same" and it.text.isspace() and between:
            spread += [Change("old", it.text), Change("new", it.text)]
        else:
            spread.append(it)
    for same, group in groupby(spread, key=lambda it: it.kind == "same"):
        members = list(group)
        if same:
            yield Change("same", "".join(it.text for it in members))
        else:
            # sorted() keeps the order within each: all that is old comes before all that is new
            for kind, each in groupby(sorted(members, key=_order), key=attrgetter("kind")):
                yield Change(kind, "".join(it.text for it in each))


def _order(it: Change) -> bool:
    return it.kind == "new"


def _said(old: str, new: str) -> str:
    """One change."""
    old, new = _apart(old, new)
    shown = [f"[-{one_line(old)}-]"] if old else []
    shown += [f"{{+{one_line(new)}+}}"] if new else []
    return " ".join(shown)


def _around(text: str, *, first: bool, last: bool) -> str:
    """What both have, as far as it stands beside a change."""
    if len(text) <= 2 * _LONGEST and len(_words(text)) <= 2 * _CONTEXT:
        return one_line(text)
    head = "" if first else one_line("".join(_words(text[:_LONGEST])[:_CONTEXT]).rstrip()) + " "
    tail = "" if last else " " + one_line("".join(_words(text[-_LONGEST:])[-_CONTEXT:]).lstrip())
    return f"{head}…{tail}"


def _apart(old: str, new: str) -> tuple[str, str]:
    """Two changes cut so that where they first differ is in view."""
    if max(len(old), len(new)) <= _LONGEST:
        return old, new
    begin = 0
    if old and new:
        begin = max(0, shared_length(old, new) - _LEAD)
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str, begin: int) -> str:
    if not text:
        return ""
    shown = text[begin : begin + _LONGEST]
    return ("…" if begin else "") + shown + ("…" if begin + len(shown) < len(text) else "")
