"""Compares two texts word by word: `the [-red-] {+green+} car`.

The time is bounded for all texts: the common beginning and end are skipped, long texts are compared
by clauses before words, and a segment that is still too long is reported as replaced completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from llm_proxy.display import escape_line

Segment: TypeAlias = tuple[str, str]
"""A part of the old text, and of the new text in its place: equal where nothing changed."""

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


def split_words(text: str) -> list[str]:
    """The words of a text, without white space and punctuation."""
    return _WORD_PATTERN.findall(text)


def common_prefix_length(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The length of the common prefix of two texts, byte strings or lists."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def word_changes(old: str, new: str) -> tuple[Segment, ...]:
    """The segments of two texts, in order; changed and unchanged ones alternate.

    The first members, joined, are the old text; the second ones the new text.
    """
    prefix_length = _common_tokens_length(old, new)
    suffix_length = _common_tokens_length(old[prefix_length:][::-1], new[prefix_length:][::-1])
    old_end, new_end = len(old) - suffix_length, len(new) - suffix_length
    segments = [
        segment
        for segment in (
            (old[:prefix_length], new[:prefix_length]),
            *_compare_words(old[prefix_length:old_end], new[prefix_length:new_end]),
            (old[old_end:], new[new_end:]),
        )
        if any(segment)
    ]
    # White space between two changes becomes part of both.
    are_same = [
        before == after and not (before.isspace() and 0 < index < len(segments) - 1)
        for index, (before, after) in enumerate(segments)
    ]
    groups = groupby(zip(are_same, segments, strict=True), key=itemgetter(0))
    return tuple(
        ("".join(before for _, (before, _) in members), "".join(after for _, (_, after) in members))
        for members in (list(group) for _, group in groups)
    )


def format_word_diff(old: str, new: str, max_chars: int = DEFAULT_MAX_CHARS) -> str:
    """The changes in one line for people: each change with a few words around it.

    At most about `max_chars` characters; further changes are counted.  Empty where nothing differs.
    """
    segments = word_changes(old, new)
    change_count = sum(before != after for before, after in segments)
    if not change_count:
        return ""
    shown_parts: list[str] = []
    shown_count = 0
    for index, (before, after) in enumerate(segments):
        if before == after:
            shown_parts.append(
                _format_context(before, first=index == 0, last=index == len(segments) - 1)
            )
            continue
        text = _format_change(before, after)
        if shown_count and sum(map(len, shown_parts)) + len(text) > max_chars:
            return "".join(shown_parts) + f"(and {change_count - shown_count} more)"
        shown_parts.append(text)
        shown_count += 1
    return "".join(shown_parts)


def _common_tokens_length(one: str, other: str) -> int:
    """The length of the common prefix, without a token that only begins in it."""
    length = common_prefix_length(one, other)
    adjacent_chars = (text[length - 1 : length + 1] for text in (one, other))
    if not any(len(pair) > 1 and _TOKEN_PATTERN.fullmatch(pair) for pair in adjacent_chars):
        return length
    window = _SEARCH_WINDOW_CHARS
    while True:  # a word may be very long, such as the base64 of an image
        search_start = max(0, length - window)
        *_, last_token = _TOKEN_PATTERN.finditer(one, search_start, length)
        if last_token.start() > search_start or search_start == 0:
            return last_token.start()
        window *= 4


def _compare_words(old: str, new: str) -> Iterator[Segment]:
    if max(len(old), len(new)) > _MAX_CHANGED_CHARS:
        yield old, new
        return
    tokens = _TOKEN_PATTERN.findall(old), _TOKEN_PATTERN.findall(new)
    if max(map(len, tokens)) <= _MAX_TOKENS:
        yield from _align(*tokens)
        return
    clauses = _CLAUSE_PATTERN.findall(old), _CLAUSE_PATTERN.findall(new)
    if max(map(len, clauses)) > _MAX_CLAUSES:
        yield old, new
        return
    remaining_tokens = _MAX_COMPARED_TOKENS
    for before, after in _align(*clauses, junk=True):
        if before != after:
            tokens = _TOKEN_PATTERN.findall(before), _TOKEN_PATTERN.findall(after)
            remaining_tokens -= sum(map(len, tokens))
            if max(map(len, tokens)) <= _MAX_TOKENS and remaining_tokens >= 0:
                yield from _align(*tokens)
                continue
        yield before, after


def _align(old: list[str], new: list[str], *, junk: bool = False) -> Iterator[Segment]:
    matcher = SequenceMatcher(None, old, new, autojunk=junk)
    for _, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        yield "".join(old[old_start:old_end]), "".join(new[new_start:new_end])


def _format_context(text: str, *, first: bool, last: bool) -> str:
    token_count = len(_TOKEN_PATTERN.findall(text))
    if len(text) <= 2 * _MAX_SHOWN_CHARS and token_count <= 2 * _CONTEXT_TOKENS:
        return escape_line(text)
    start_text = end_text = ""
    if not first:
        tokens = _TOKEN_PATTERN.findall(text[:_MAX_SHOWN_CHARS])[:_CONTEXT_TOKENS]
        start_text = escape_line("".join(tokens).rstrip()) + " "
    if not last:
        tokens = _TOKEN_PATTERN.findall(text[-_MAX_SHOWN_CHARS:])[-_CONTEXT_TOKENS:]
        end_text = " " + escape_line("".join(tokens).lstrip())
    return f"{start_text}…{end_text}"


def _format_change(old: str, new: str) -> str:
    """A change with both texts cut so that their first difference is visible."""
    begin, end = 0, max(len(old), len(new))
    if end > _MAX_SHOWN_CHARS:
        if old and new:
            begin = max(0, common_prefix_length(old, new) - _LEAD_CHARS)
        end = begin + _MAX_SHOWN_CHARS
    old_text, new_text = (
        ("…" if begin else "") + escape_line(text[begin:end]) + ("…" if end < len(text) else "")
        for text in (old, new)
    )
    shown = [f"[-{old_text}-]"] if old else []
    return " ".join([*shown, f"{{+{new_text}+}}"] if new else shown)
