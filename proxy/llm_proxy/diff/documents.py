"""Compares two texts word by word, and two key documents value by value.

A difference of texts is shown as `the [-red-] {+green+} car`.  Its time is bounded for all texts:
the common beginning and end are skipped, long texts are compared by clauses before words, and a
segment that is still too long is reported as replaced completely.

A difference of documents has a path: a value, a member of an object, or an item of a list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from typing import Any, Final, TypeAlias

import orjson

from llm_proxy.display import escape_line, json_path_step
from llm_proxy.matching import KeyDocument
from llm_proxy.matching.normalisers import replace_large_base64
from llm_proxy.redaction import PLACEHOLDER, is_secret_field
from llm_proxy.turns import Json

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


_MASKED_JSON: Final = f'"{PLACEHOLDER}"'
"""JSON shown instead of the value of a field with a secret's name."""
_MAX_DEPTH: Final = 100
"""Levels of nesting that are shown; deeper values are masked, or written as JSON."""
_MAX_ALIGNED_ITEMS: Final = 500
"""Lists with more items between common prefix and suffix are compared index by index."""
_ALIGNMENT_STEPS: Final = 5_000_000
"""Step budget for aligning all the lists of a document: a fraction of a second."""
_MIN_STEPS_PER_LIST: Final = 200
"""Minimum cost of aligning a list, in steps."""
_MAX_DIFFERENCES: Final = 10_000
"""Maximum number of reported differences; further ones are only counted."""
_ABSENT: Final = object()
"""Stands for a value that only the other document has."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One value in which two requests differ."""

    path: str
    """`$.messages[1].content`, or `method`, `path`, `query`, `headers.anthropic-beta`."""
    requested: str
    """The value in the request, as JSON; empty where it has none."""
    stored: str
    """The value in the cassette, as JSON; empty where it has none."""
    path_steps: tuple[str | int, ...] = ()
    """The names and indexes of `path` within a JSON body; empty outside of the body."""


@dataclass(frozen=True, slots=True)
class DocumentDifferences:
    """Where two documents differ."""

    differences: tuple[RequestDifference, ...]
    """The first 10,000, in the order of the request."""
    further_count: int = 0
    """Number of differences beyond those."""


def find_differences(requested: KeyDocument, stored: KeyDocument) -> DocumentDifferences:
    """Where two documents differ; no differences if their keys are equal.

    Fields with a secret's name are reported without their values.
    A member or an item that only one document has is one difference, whatever its size.  List
    items are aligned, so that an inserted item is one difference; very long or very many lists,
    where that would be slow, are compared index by index.
    """
    all_differences = _iterate_differences(requested, stored)
    kept = tuple(islice(all_differences, _MAX_DIFFERENCES))
    return DocumentDifferences(kept, sum(1 for _ in all_differences))


def json_leaves(document: KeyDocument) -> dict[str, str]:
    """Every value of a key document by its path, as JSON; large base64 is replaced by its hash."""
    return _head_leaves(document) | _body_leaves(document)


def displayable_leaves(document: KeyDocument) -> dict[str, str]:
    """The values of a document by path, masked in fields with a secret's name."""
    return json_leaves(replace(document, body=_mask_secrets(document.body)))


def flatten_json(
    path: str, value: Json, to_text: Callable[[Json], str], depth: int = _MAX_DEPTH
) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every leaf: values without members, and too deep ones."""
    match value:
        case dict() if value and depth:
            for name, item in value.items():
                yield from flatten_json(path + json_path_step(name), item, to_text, depth - 1)
        case list() if value and depth:
            for index, item in enumerate(value):
                yield from flatten_json(f"{path}[{index}]", item, to_text, depth - 1)
        case _:
            yield path, to_text(value)


def differing_values(
    one: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yields the path and both values of each difference; a missing value is empty."""
    for path in dict.fromkeys((*one, *other)):
        if one.get(path) != other.get(path):
            yield path, one.get(path, ""), other.get(path, "")


def _head_leaves(document: KeyDocument) -> dict[str, str]:
    return {
        "method": document.method,
        "provider": document.provider,
        "path": document.path,
        "query": document.query,
        **{f"headers.{name}": value for name, value in document.headers},
    }


def _body_leaves(document: KeyDocument) -> dict[str, str]:
    if document.body_kind == "text":
        return {"body": document.canonical_body().decode("utf-8", "replace")}
    return dict(flatten_json("$", document.body, _json_text))


def _json_text(value: Json) -> str:
    """A value as JSON, with large base64 replaced by its hash."""
    return orjson.dumps(_hash_large_base64(value)).decode()


def _hash_large_base64(value: Json) -> Json:
    match value:
        case dict():
            return {name: _hash_large_base64(item) for name, item in value.items()}
        case list():
            return [_hash_large_base64(item) for item in value]
        case str():
            return replace_large_base64(value)
        case _:
            return value


def _iterate_differences(
    requested: KeyDocument, stored: KeyDocument
) -> Iterator[RequestDifference]:
    for path, value, other in differing_values(_head_leaves(requested), _head_leaves(stored)):
        yield RequestDifference(path, value, other)
    if requested.body_kind == stored.body_kind == "json":
        yield from _compare_values((), requested.body, stored.body, _AlignmentBudget())
        return
    masked, other_masked = displayable_leaves(requested), displayable_leaves(stored)
    for path, value, other in differing_values(_body_leaves(requested), _body_leaves(stored)):
        yield RequestDifference(
            path,
            masked.get(path, _MASKED_JSON) if value else "",
            other_masked.get(path, _MASKED_JSON) if other else "",
        )


def _compare_values(
    parts: tuple[str | int, ...],
    requested: Any,
    stored: Any,
    budget: _AlignmentBudget,
    *,
    masks: bool = False,
) -> Iterator[RequestDifference]:
    """The differences of two values of a body, each `_ABSENT` if only the other exists."""
    match requested, stored:
        case dict(), dict() if not masks:
            for name in dict.fromkeys([*requested, *stored]):
                yield from _compare_values(
                    (*parts, name),
                    requested.get(name, _ABSENT),
                    stored.get(name, _ABSENT),
                    budget,
                    masks=_is_secret_member(name, requested) or _is_secret_member(name, stored),
                )
        case list(), list() if not masks:
            for first_range, second_range in _changed_ranges(requested, stored, budget):
                for first, second in zip_longest(first_range, second_range):
                    yield from _compare_values(
                        (*parts, second if first is None else first),
                        _ABSENT if first is None else requested[first],
                        _ABSENT if second is None else stored[second],
                        budget,
                    )
        case _ if _canonical_json(requested) != _canonical_json(stored):
            masks = masks or any(isinstance(part, str) and is_secret_field(part) for part in parts)
            path = "$" + "".join(
                f"[{part}]" if isinstance(part, int) else json_path_step(part) for part in parts
            )
            first, second = (
                _MASKED_JSON if masks and value is not _ABSENT else _displayable_json(value)
                for value in (requested, stored)
            )
            yield RequestDifference(path, first, second, parts)


@dataclass(slots=True)
class _AlignmentBudget:
    """The steps left for aligning lists."""

    steps_left: int = _ALIGNMENT_STEPS

    def try_spend(self, requested: list[bytes], stored: list[bytes]) -> bool:
        """Deducts the cost of aligning two lists; False, deducting nothing, if it is too high."""
        shorter, longer = sorted((len(requested), len(stored)))
        if longer > _MAX_ALIGNED_ITEMS:
            return False
        counts = Counter(stored)
        # The search for each matching block may visit all pairs of equal items.
        cost = _MIN_STEPS_PER_LIST + shorter * sum(counts[item] for item in requested)
        if cost > self.steps_left:
            return False
        self.steps_left -= cost
        return True


def _changed_ranges(
    requested: list[Json], stored: list[Json], budget: _AlignmentBudget
) -> Iterator[tuple[range, range]]:
    """The indexes in `requested` and `stored` of items that differ."""
    first, second = (list(map(_canonical_json, items)) for items in (requested, stored))
    begin = common_prefix_length(first, second)
    suffix_length = common_prefix_length(first[begin:][::-1], second[begin:][::-1])
    first_end, second_end = len(first) - suffix_length, len(second) - suffix_length
    first, second = first[begin:first_end], second[begin:second_end]
    if not budget.try_spend(first, second):
        yield range(begin, first_end), range(begin, second_end)
        return
    for tag, *bounds in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag != "equal":
            first_start, first_stop, second_start, second_stop = (begin + at for at in bounds)
            yield range(first_start, first_stop), range(second_start, second_stop)


def _displayable_json(value: Any) -> str:
    return "" if value is _ABSENT else _json_text(_mask_secrets(value))


def _canonical_json(value: Any) -> bytes:
    return b"" if value is _ABSENT else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is_secret_member(name: str, fields: Mapping[str, Json]) -> bool:
    """Whether this is the `value` of an object whose `name` or `key` is a secret's name."""
    field_name = fields.get("name", fields.get("key"))
    return name == "value" and isinstance(field_name, str) and is_secret_field(field_name)


def _mask_secrets(value: Json, depth: int = _MAX_DEPTH) -> Json:
    """A value with its secrets masked, also within strings that hold JSON."""
    match value:
        case dict() | list() if depth == 0:
            return PLACEHOLDER
        case dict():
            return {
                name: PLACEHOLDER
                if is_secret_field(name) or _is_secret_member(name, value)
                else _mask_secrets(member, depth - 1)
                for name, member in value.items()
            }
        case list():
            return [_mask_secrets(item, depth - 1) for item in value]
        case str() if value[:1] in ("{", "["):
            try:
                parsed = orjson.loads(value)
            except ValueError:
                return value
            masked = _mask_secrets(parsed, depth - 1)
            return value if masked == parsed else orjson.dumps(masked).decode()
        case _:
            return value
