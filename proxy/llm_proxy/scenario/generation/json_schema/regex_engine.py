"""Generates texts that match a regular expression, and matches texts against one.

Expressions come with requests, and some make Python's `re` backtrack for years.  So this engine
follows all alternatives at once, without backtracking, within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from llm_proxy.chance import seeded_int_below
from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.regex_parser import (
    Alternation,
    AnchoredAlternative,
    CharacterClass,
    Concatenation,
    Node,
    Repetition,
    parse_regex,
)

_MAX_CHARS: Final = 10_000
"""The most characters of a generated text."""
_DEFAULT_EXTRA_REPEATS: Final = 3
"""Repeats beyond the minimum of an unbounded repetition, if the length allows."""
_MAX_EXTRA_TRIES: Final = 40
"""Numbers of extra repeats up to this one are tried in turn if the text must be longer."""


def make_matching_text(
    pattern: str, min_chars: int, max_chars: int | None, seed: str, budget: SchemaBudget
) -> str:
    """A text of `min_chars` to `max_chars` characters that contains a match of the pattern.

    Raises `ValueError` with the reason if none is found, and `SchemaTooExpensive`.
    """
    alternatives = [
        alternative
        for alternative in parse_regex(pattern, budget)
        if _min_length(alternative.body) <= _MAX_CHARS
    ]
    start = seeded_int_below(len(alternatives) or 1, seed, "alternative")
    for extra in _extra_repeat_counts(min_chars):
        for alternative in (*alternatives[start:], *alternatives[:start]):
            body_text = _generate_text(alternative.body, extra, seed, budget)
            text = _pad_text(alternative, body_text, min_chars)
            if len(body_text) <= _MAX_CHARS and min_chars <= len(text) <= (
                len(text) if max_chars is None else max_chars
            ):
                return text
    raise ValueError(f"no text of that length is known to match {printable_excerpt(pattern, 100)}")


def matches_anywhere(
    alternatives: Sequence[AnchoredAlternative], text: str, budget: SchemaBudget
) -> bool:
    """Whether a text contains a match; `$` matches only at the end of the text."""
    all_positions = frozenset(range(len(text) + 1))
    for alternative in alternatives:
        budget.spend(1 + len(text) // 10)
        starts = frozenset((0,)) if alternative.at_start else all_positions
        ends = _match_ends(alternative.body, text, starts, budget)
        if len(text) in ends if alternative.at_end else ends:
            return True
    return False


def _match_ends(
    node: Node, text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    budget.spend(1 + len(starts) // 10)
    if not starts:
        return starts
    match node:
        case CharacterClass(code_ranges=spans):
            budget.spend(1 + len(starts) * (2 + len(spans)) // 4)
            positions_and_codes = (
                (position, ord(text[position])) for position in starts if position < len(text)
            )
            return frozenset(
                position + 1
                for position, code in positions_and_codes
                if any(low <= code <= high for low, high in spans)
            )
        case Concatenation(items=items):
            for item in items:
                starts = _match_ends(item, text, starts, budget)
            return starts
        case Alternation(options=options):
            return frozenset().union(
                *(_match_ends(option, text, starts, budget) for option in options)
            )
        case Repetition():
            return _repetition_ends(node, text, starts, budget)


def _repetition_ends(
    node: Repetition, text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    """Where a repetition can end.  Terminates: each further repeat reaches no new position."""
    current, ends = starts, set[int]()
    for repeat_count in count():
        if repeat_count >= node.min_count:
            ends |= current
        next_ends = (
            _match_ends(node.inner, text, current, budget)
            if repeat_count != node.max_count
            else frozenset()
        )
        if next_ends == current:
            return frozenset(ends | current)
        if not next_ends or (repeat_count >= node.min_count and next_ends <= ends):
            return frozenset(ends)
        current = next_ends
    raise AssertionError("counting has no end")


def _min_length(node: Node) -> int:
    """The minimum length of a match, in characters."""
    match node:
        case CharacterClass():
            return 1
        case Concatenation(items=items):
            return sum(map(_min_length, items))
        case Alternation(options=options):
            return min(map(_min_length, options))
        case Repetition(inner=inner, min_count=least):
            return least * _min_length(inner)


def _extra_repeat_counts(min_chars: int) -> Iterator[int]:
    """Numbers of extra repeats to try, the default first."""
    yield from (_DEFAULT_EXTRA_REPEATS, 2, 1, 0)
    yield from range(_DEFAULT_EXTRA_REPEATS + 1, min(min_chars, _MAX_EXTRA_TRIES) + 1)
    if _MAX_EXTRA_TRIES < min_chars <= _MAX_CHARS:
        yield from (-(-min_chars // repetitions) for repetitions in range(_MAX_EXTRA_TRIES, 0, -1))


def _pad_text(alternative: AnchoredAlternative, text: str, min_chars: int) -> str:
    """Pad the text to `min_chars` at an end that the expression does not anchor."""
    padding = "x" * (min_chars - len(text))
    if alternative.at_end:
        return text if alternative.at_start else padding + text
    return text + padding


def _generate_text(node: Node, extra: int, seed: str, budget: SchemaBudget) -> str:
    """A text that the node matches; cut after `_MAX_CHARS` + 1 characters."""
    draw_ids = map(str, count())
    return "".join(islice(_generate_chars(node, extra, seed, draw_ids, budget), _MAX_CHARS + 1))


def _generate_chars(
    node: Node, extra: int, seed: str, draw_ids: Iterator[str], budget: SchemaBudget
) -> Iterator[str]:
    """The pieces of a matching text; repetitions have up to `extra` repeats over the minimum."""
    budget.spend(2)
    match node:
        case CharacterClass(sample_chars=among):
            yield among[seeded_int_below(len(among), seed, next(draw_ids))]
        case Concatenation(items=items):
            for item in items:
                yield from _generate_chars(item, extra, seed, draw_ids, budget)
        case Alternation(options=options):
            option = options[seeded_int_below(len(options), seed, next(draw_ids))]
            yield from _generate_chars(option, extra, seed, draw_ids, budget)
        case Repetition(inner=inner, min_count=least, max_count=most):
            repeat_count = least + extra if most is None else min(least + extra, most)
            for _ in range(repeat_count):
                yield from _generate_chars(inner, extra, seed, draw_ids, budget)
