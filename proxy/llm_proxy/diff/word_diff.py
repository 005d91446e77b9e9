"""Compares two texts word by word: `the [-red-] {+green+} car`.

The time is bounded for all texts: the common beginning and end are skipped, long texts are compared
by clauses before words, and a segment that is still too long is reported as replaced completely.
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

ChangeKind: TypeAlias = Literal["same", "old", "new"]

_CJK: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words: each character counts as a word."""
_TOKEN_PATTERN: Final = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|\s+|[^\w\s]")
_WORD_PATTERN: Final = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_CLAUSE_PATTERN: Final = re.compile(r"[^\n.,;:!?{}。、]*(?:[\n.,;:!?{}。、]+\s*|\Z)")
_SEARCH_WINDOW_CHARS: Final = 256
"""Characters that are searched at first for the beginning of a word."""
_MAX_CLAUSES: Final = 1_000
"""The most clauses of either text that are compared."""
_MAX_TOKENS: Final = 300
"""The most words and spaces of either text that are compared at once."""
_MAX_CHANGED_CHARS: Final = 100_000
"""The most characters between the first and the last difference that are compared."""
_MAX_COMPARED_TOKENS: Final = 4_000
"""The most words and spaces that are compared in total."""
_CONTEXT_TOKENS: Final = 8
"""Words and spaces that are shown before and after a change."""
_MAX_SHOWN_CHARS: Final = 120
"""The most characters that are shown of one change."""
_LEAD_CHARS: Final = 20
"""Characters that are shown before the first difference of two long texts."""
DEFAULT_MAX_CHARS: Final = 600
"""The default limit of a word diff's characters."""


@dataclass(frozen=True, slots=True)
class WordChange:
    """A segment that both texts contain, or only the old or only the new one."""

    kind: ChangeKind
    text: str


def split_words(text: str) -> list[str]:
    """The words of a text, without white space and punctuation."""
    return _WORD_PATTERN.findall(text)


def word_changes(old: str, new: str) -> tuple[WordChange, ...]:
    """The changes from `old` to `new`, in order.

    The segments of kind `same` and `old`, joined, are the old text; `same` and `new` the new one.
    """
    prefix_length = _whole_token_prefix_length(old, new, common_prefix_length(old, new))
    reversed_old, reversed_new = old[prefix_length:][::-1], new[prefix_length:][::-1]
    suffix_length = _whole_token_prefix_length(
        reversed_old, reversed_new, common_prefix_length(reversed_old, reversed_new)
    )
    old_middle, new_middle = (
        old[prefix_length : len(old) - suffix_length],
        new[prefix_length : len(new) - suffix_length],
    )
    return tuple(
        _merge_changes(
            [
                WordChange("same", old[:prefix_length]),
                *_diff_words(old_middle, new_middle),
                WordChange("same", old[len(old) - suffix_length :]),
            ]
        )
    )


def format_word_diff(old: str, new: str, max_chars: int = DEFAULT_MAX_CHARS) -> str:
    """The changes in one line for people: each change with a few words around it.

    At most about `max_chars` characters; further changes are counted.  Empty where nothing differs.
    """
    segments = list(_old_new_pairs(iter(word_changes(old, new))))
    change_count = sum(before != after for before, after in segments)
    shown_parts: list[str] = []
    shown_count = 0
    for index, (before, after) in enumerate(segments):
        if before == after:
            last = index == len(segments) - 1
            shown_parts.append(
                _format_context(before, first=index == 0, last=last) if change_count else ""
            )
            continue
        text = _format_change(before, after)
        if shown_count and sum(map(len, shown_parts)) + len(text) > max_chars:
            return "".join(shown_parts) + f"(and {change_count - shown_count} more)"
        shown_parts.append(text)
        shown_count += 1
    return "".join(shown_parts)


def _split_tokens(text: str) -> list[str]:
    return _TOKEN_PATTERN.findall(text)


def common_prefix_length(one: AnyStr, other: AnyStr) -> int:
    """The length of the common prefix, in characters or bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _whole_token_prefix_length(one: str, other: str, prefix_length: int) -> int:
    if not any(_splits_token(text, prefix_length) for text in (one, other)):
        return prefix_length
    window = _SEARCH_WINDOW_CHARS
    while True:  # a word may be very long, such as the base64 of an image
        search_start = max(0, prefix_length - window)
        token_start = max(
            match.start() for match in _TOKEN_PATTERN.finditer(one, search_start, prefix_length)
        )
        if token_start > search_start or search_start == 0:
            return token_start
        window *= 4


def _splits_token(text: str, offset: int) -> bool:
    adjacent_chars = text[offset - 1 : offset + 1]
    return len(adjacent_chars) > 1 and _TOKEN_PATTERN.fullmatch(adjacent_chars) is not None


def _diff_words(old: str, new: str) -> Iterator[WordChange]:
    longer = max(old, new, key=len)
    if len(longer) > _MAX_CHANGED_CHARS:
        yield from _replacement_changes(old, new)
        return
    tokens = _split_tokens(old), _split_tokens(new)
    if max(map(len, tokens)) <= _MAX_TOKENS:
        yield from _align_tokens(*tokens)
        return
    clauses = _CLAUSE_PATTERN.findall(old), _CLAUSE_PATTERN.findall(new)
    if max(map(len, clauses)) > _MAX_CLAUSES:
        yield from _replacement_changes(old, new)
        return
    remaining_tokens = _MAX_COMPARED_TOKENS
    for before, after in _old_new_pairs(_align_tokens(*clauses, junk=True)):
        if before == after:
            yield WordChange("same", before)
            continue
        one, other = _split_tokens(before), _split_tokens(after)
        remaining_tokens -= len(one) + len(other)
        if max(len(one), len(other)) <= _MAX_TOKENS and remaining_tokens >= 0:
            yield from _align_tokens(one, other)
        else:
            yield from _replacement_changes(before, after)


def _old_new_pairs(changes: Iterator[WordChange]) -> Iterator[tuple[str, str]]:
    for is_same, group in groupby(changes, key=lambda word_change: word_change.kind == "same"):
        members = list(group)
        if is_same:
            yield from ((member.text, member.text) for member in members)
        else:
            yield (
                "".join(member.text for member in members if member.kind == "old"),
                "".join(member.text for member in members if member.kind == "new"),
            )


def _align_tokens(
    old: Sequence[str], new: Sequence[str], *, junk: bool = False
) -> Iterator[WordChange]:
    matcher = SequenceMatcher(None, old, new, autojunk=junk)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield WordChange("same", "".join(old[old_start:old_end]))
        else:
            yield from _replacement_changes(
                "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
            )


def _replacement_changes(old: str, new: str) -> Iterator[WordChange]:
    if old:
        yield WordChange("old", old)
    if new:
        yield WordChange("new", new)


def _merge_changes(changes: Sequence[WordChange]) -> Iterator[WordChange]:
    """Drops empty segments; white space between two changes becomes part of both."""
    nonempty_changes = [word_change for word_change in changes if word_change.text]
    split_changes: list[WordChange] = []
    for index, word_change in enumerate(nonempty_changes):
        is_between = 0 < index < len(nonempty_changes) - 1
        if word_change.kind == "same" and word_change.text.isspace() and is_between:
            split_changes += [
                WordChange("old", word_change.text),
                WordChange("new", word_change.text),
            ]
        else:
            split_changes.append(word_change)
    for is_same, group in groupby(split_changes, key=lambda change: change.kind == "same"):
        members = list(group)
        if is_same:
            yield WordChange("same", "".join(member.text for member in members))
        else:
            # sorted() is stable: all old segments come before all new ones, each in order
            for kind, same_kind_changes in groupby(
                sorted(members, key=_is_new), key=attrgetter("kind")
            ):
                yield WordChange(
                    kind, "".join(word_change.text for word_change in same_kind_changes)
                )


def _is_new(word_change: WordChange) -> bool:
    return word_change.kind == "new"


def _format_change(old: str, new: str) -> str:
    old, new = _format_differing_texts(old, new)
    shown = [f"[-{escape_line(old)}-]"] if old else []
    shown += [f"{{+{escape_line(new)}+}}"] if new else []
    return " ".join(shown)


def _format_context(text: str, *, first: bool, last: bool) -> str:
    if len(text) <= 2 * _MAX_SHOWN_CHARS and len(_split_tokens(text)) <= 2 * _CONTEXT_TOKENS:
        return escape_line(text)
    start_text = (
        ""
        if first
        else escape_line("".join(_split_tokens(text[:_MAX_SHOWN_CHARS])[:_CONTEXT_TOKENS]).rstrip())
        + " "
    )
    end_text = (
        ""
        if last
        else " "
        + escape_line("".join(_split_tokens(text[-_MAX_SHOWN_CHARS:])[-_CONTEXT_TOKENS:]).lstrip())
    )
    return f"{start_text}…{end_text}"


def _format_differing_texts(old: str, new: str) -> tuple[str, str]:
    """Two texts truncated so that their first difference is visible."""
    if max(len(old), len(new)) <= _MAX_SHOWN_CHARS:
        return old, new
    begin = 0
    if old and new:
        begin = max(0, common_prefix_length(old, new) - _LEAD_CHARS)
    return _truncated_excerpt(old, begin), _truncated_excerpt(new, begin)


def _truncated_excerpt(text: str, begin: int) -> str:
    if not text:
        return ""
    shown = text[begin : begin + _MAX_SHOWN_CHARS]
    return ("…" if begin else "") + shown + ("…" if begin + len(shown) < len(text) else "")
