"""Compares two texts word by word: `the [-red-] {+green+} car`.

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

from llm_proxy.display import escape_line

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
class WordChange:
    """A stretch that both texts have, or that only the old or only the new one has."""

    kind: Kind
    text: str


def split_words(text: str) -> list[str]:
    """The words of a text, without the spaces and marks between them."""
    return _WORDS_ALONE.findall(text)


def word_changes(old: str, new: str) -> tuple[WordChange, ...]:
    """How `old` became `new`, in order.

    Joined, all that is `same` or `old` is the old text; all that is `same` or `new` the new one.
    """
    first = _shared_word_length(old, new, common_prefix_length(old, new))
    old_end, new_end = old[first:][::-1], new[first:][::-1]
    last = _shared_word_length(old_end, new_end, common_prefix_length(old_end, new_end))
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    return tuple(
        _merge_changes(
            [
                WordChange("same", old[:first]),
                *_diff_words(before, after),
                WordChange("same", old[len(old) - last :]),
            ]
        )
    )


def word_diff(old: str, new: str, max_chars: int = ROOM) -> str:
    """The same in one line for people: each change with a few words around it.

    At most about `room` characters; what has no place is counted.  Empty where nothing differs.
    """
    stretches = list(_changed_pairs(iter(word_changes(old, new))))
    differ = sum(before != after for before, after in stretches)
    items: list[str] = []
    told = 0
    for number, (before, after) in enumerate(stretches):
        if before == after:
            last = number == len(stretches) - 1
            items.append(_format_context(before, first=number == 0, last=last) if differ else "")
            continue
        text = _format_change(before, after)
        if told and sum(map(len, items)) + len(text) > max_chars:
            return "".join(items) + f"(and {differ - told} more)"
        items.append(text)
        told += 1
    return "".join(items)


def _split_tokens(text: str) -> list[str]:
    return _WORD.findall(text)


def common_prefix_length(one: AnyStr, other: AnyStr) -> int:
    """How many characters, or bytes, the two begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_word_length(one: str, other: str, shared: int) -> int:
    if not any(_splits_word(text, shared) for text in (one, other)):
        return shared
    window = _WINDOW
    while True:  # a word may be an image's base64
        begin = max(0, shared - window)
        last = max(match.start() for match in _WORD.finditer(one, begin, shared))
        if last > begin or begin == 0:
            return last
        window *= 4


def _splits_word(text: str, place: int) -> bool:
    pair = text[place - 1 : place + 1]
    return len(pair) > 1 and _WORD.fullmatch(pair) is not None


def _diff_words(old: str, new: str) -> Iterator[WordChange]:
    longest = max(old, new, key=len)
    if len(longest) > _CHARACTERS:
        yield from _replacement_changes(old, new)
        return
    words = _split_tokens(old), _split_tokens(new)
    if max(map(len, words)) <= _WORDS:
        yield from _align_words(*words)
        return
    clauses = _CLAUSE.findall(old), _CLAUSE.findall(new)
    if max(map(len, clauses)) > _CLAUSES:
        yield from _replacement_changes(old, new)
        return
    left = _COMPARED
    for before, after in _changed_pairs(_align_words(*clauses, junk=True)):
        if before == after:
            yield WordChange("same", before)
            continue
        one, other = _split_tokens(before), _split_tokens(after)
        left -= len(one) + len(other)
        if max(len(one), len(other)) <= _WORDS and left >= 0:
            yield from _align_words(one, other)
        else:
            yield from _replacement_changes(before, after)


def _changed_pairs(all_of_them: Iterator[WordChange]) -> Iterator[tuple[str, str]]:
    for same, group in groupby(all_of_them, key=lambda word_change: word_change.kind == "same"):
        members = list(group)
        if same:
            yield from ((member.text, member.text) for member in members)
        else:
            yield (
                "".join(member.text for member in members if member.kind == "old"),
                "".join(member.text for member in members if member.kind == "new"),
            )


def _align_words(
    old: Sequence[str], new: Sequence[str], *, junk: bool = False
) -> Iterator[WordChange]:
    matcher = SequenceMatcher(None, old, new, autojunk=junk)
    for tag, begin, end, start, stop in matcher.get_opcodes():
        if tag == "equal":
            yield WordChange("same", "".join(old[begin:end]))
        else:
            yield from _replacement_changes("".join(old[begin:end]), "".join(new[start:stop]))


def _replacement_changes(old: str, new: str) -> Iterator[WordChange]:
    if old:
        yield WordChange("old", old)
    if new:
        yield WordChange("new", new)


def _merge_changes(found: Sequence[WordChange]) -> Iterator[WordChange]:
    """Without stretches of nothing; a space between two changes belongs to both."""
    kept = [word_change for word_change in found if word_change.text]
    spread: list[WordChange] = []
    for number, word_change in enumerate(kept):
        between = 0 < number < len(kept) - 1
        if word_change.kind == "same" and word_change.text.isspace() and between:
            spread += [WordChange("old", word_change.text), WordChange("new", word_change.text)]
        else:
            spread.append(word_change)
    for same, group in groupby(spread, key=lambda it: it.kind == "same"):
        members = list(group)
        if same:
            yield WordChange("same", "".join(member.text for member in members))
        else:
            # sorted() keeps the order within each: all that is old comes before all that is new
            for kind, item in groupby(sorted(members, key=_change_order), key=attrgetter("kind")):
                yield WordChange(kind, "".join(word_change.text for word_change in item))


def _change_order(word_change: WordChange) -> bool:
    return word_change.kind == "new"


def _format_change(old: str, new: str) -> str:
    old, new = _format_differing_texts(old, new)
    shown = [f"[-{escape_line(old)}-]"] if old else []
    shown += [f"{{+{escape_line(new)}+}}"] if new else []
    return " ".join(shown)


def _format_context(text: str, *, first: bool, last: bool) -> str:
    if len(text) <= 2 * _LONGEST and len(_split_tokens(text)) <= 2 * _CONTEXT:
        return escape_line(text)
    head = (
        ""
        if first
        else escape_line("".join(_split_tokens(text[:_LONGEST])[:_CONTEXT]).rstrip()) + " "
    )
    tail = (
        ""
        if last
        else " " + escape_line("".join(_split_tokens(text[-_LONGEST:])[-_CONTEXT:]).lstrip())
    )
    return f"{head}…{tail}"


def _format_differing_texts(old: str, new: str) -> tuple[str, str]:
    """Two changes cut so that where they first differ is in view."""
    if max(len(old), len(new)) <= _LONGEST:
        return old, new
    begin = 0
    if old and new:
        begin = max(0, common_prefix_length(old, new) - _LEAD)
    return _truncate_start(old, begin), _truncate_start(new, begin)


def _truncate_start(text: str, begin: int) -> str:
    if not text:
        return ""
    shown = text[begin : begin + _LONGEST]
    return ("…" if begin else "") + shown + ("…" if begin + len(shown) < len(text) else "")
