"""Generates texts that match a regular expression, and matches texts against one.

Expressions come with requests, and some make Python's `re` backtrack for years.  So this engine
follows all alternatives at once, without backtracking, within a budget; `re` only matches single
characters.  Supported are characters, classes, groups, alternatives, repetitions, and anchors at
both ends, which is what structured output allows; not lookaround, backreferences, word boundaries
and Unicode properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice
from typing import Final

from llm_proxy.chance import seeded_int_below
from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation.schema_budget import SchemaBudget

_ESCAPE: Final = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDsSwWfnrtv0]|[^A-Za-z0-9])"
_CLASS: Final = re.compile(
    rf"\[\^?(?:\]|{_ESCAPE})?(?:[^\]\\]|{_ESCAPE})*\]|{_ESCAPE}|\.", re.DOTALL
)
"""What matches one of several characters, or is escaped."""
_ESCAPE_OR_SET_OPERATOR: Final = re.compile(r"\\.|(?!^)(?:[\[&~|]|(?<=[^\[^]-)-)", re.DOTALL)
"""An escape, or a character that later versions of `re` may read as an operator of a class."""
_REPEAT_BRACES: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_GROUP_OPENING: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_MAX_GROUP_DEPTH: Final = 50
"""The most nested groups."""
_PRINTABLE_ASCII: Final = "".join(map(chr, range(0x20, 0x7F)))
_MAX_SAMPLES: Final = 100
"""The most sample characters of a class without printable ASCII characters."""
_MAX_CHARS: Final = 10_000
"""The most characters of a generated text."""
_DEFAULT_EXTRA_REPEATS: Final = 3
"""Repeats beyond the minimum of an unbounded repetition, if the length allows."""
_MAX_EXTRA_TRIES: Final = 40
"""Numbers of extra repeats up to this one are tried in turn if the text must be longer."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """Matches one character; generation picks one of the samples."""

    matches: Callable[[str], object]
    samples: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """Matches `inner` `min_count` to `max_count` times; None is unbounded."""

    inner: Node
    min_count: int
    max_count: int | None


@dataclass(frozen=True, slots=True)
class Group:
    """Matches one of several sequences."""

    options: tuple[Sequence[Node], ...]


Node = CharacterClass | Repetition | Group


@dataclass(frozen=True, slots=True)
class AnchoredAlternative:
    """A top-level alternative, and whether `^` and `$` anchor it."""

    body: Sequence[Node]
    at_start: bool
    at_end: bool


def parse_regex(pattern: str, budget: SchemaBudget) -> tuple[AnchoredAlternative, ...]:
    """The top-level alternatives of a pattern.  Raises `ValueError` for unsupported syntax."""
    return _RegexParser(pattern, budget).parse_alternatives()


def make_matching_text(
    pattern: str, min_chars: int, max_chars: int | None, seed: str, budget: SchemaBudget
) -> str:
    """A text of `min_chars` to `max_chars` characters that contains a match of the pattern.

    Raises `ValueError` with the reason if none is found, and `SchemaTooExpensive`.
    """
    alternatives = parse_regex(pattern, budget)
    start = seeded_int_below(len(alternatives), seed, "alternative")
    for extra in _extra_repeat_counts(min_chars):
        for alternative in (*alternatives[start:], *alternatives[:start]):
            pieces = _generate_chars(alternative.body, extra, seed, map(str, count()), budget)
            text = "".join(islice(pieces, _MAX_CHARS + 1))
            if len(text) > _MAX_CHARS:
                continue
            padding = "x" * (min_chars - len(text))
            if not alternative.at_end:
                text += padding
            elif not alternative.at_start:
                text = padding + text
            if min_chars <= len(text) and (max_chars is None or len(text) <= max_chars):
                return text
    raise ValueError(f"no text of that length is known to match {printable_excerpt(pattern, 100)}")


def matches_anywhere(
    alternatives: Sequence[AnchoredAlternative], text: str, budget: SchemaBudget
) -> bool:
    """Whether a text contains a match; `$` matches only at the end of the text."""
    for alternative in alternatives:
        budget.spend(1 + len(text) // 10)
        starts = frozenset((0,)) if alternative.at_start else frozenset(range(len(text) + 1))
        ends = _sequence_ends(alternative.body, text, starts, budget)
        if len(text) in ends if alternative.at_end else ends:
            return True
    return False


def _sequence_ends(
    nodes: Sequence[Node], text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    for node in nodes:
        starts = _match_ends(node, text, starts, budget)
    return starts


def _match_ends(
    node: Node, text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    """Where a match of the node can end that begins at one of these positions."""
    budget.spend(1 + len(starts) // 2)
    if not starts:
        return starts
    match node:
        case CharacterClass(matches=matches):
            return frozenset(
                position + 1
                for position in starts
                if position < len(text) and matches(text[position])
            )
        case Group(options=options):
            return frozenset().union(
                *(_sequence_ends(option, text, starts, budget) for option in options)
            )
        case Repetition():
            return _repetition_ends(node, text, starts, budget)


def _repetition_ends(
    node: Repetition, text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    """Where a repetition can end.  Terminates: each further repeat reaches no new position."""
    current, ends = starts, set[int]()
    for repeat_count in count():
        is_enough = repeat_count >= node.min_count
        if is_enough:
            ends |= current
        if repeat_count == node.max_count:
            break
        next_ends = _match_ends(node.inner, text, current, budget)
        if next_ends == current:
            return frozenset(ends | current)
        if not next_ends or (is_enough and next_ends <= ends):
            break
        current = next_ends
    return frozenset(ends)


def _extra_repeat_counts(min_chars: int) -> Iterator[int]:
    """Numbers of extra repeats to try, the default first."""
    yield from (_DEFAULT_EXTRA_REPEATS, 2, 1, 0)
    yield from range(_DEFAULT_EXTRA_REPEATS + 1, min(min_chars, _MAX_EXTRA_TRIES) + 1)
    if _MAX_EXTRA_TRIES < min_chars <= _MAX_CHARS:
        yield from (-(-min_chars // repetitions) for repetitions in range(_MAX_EXTRA_TRIES, 0, -1))


def _generate_chars(
    nodes: Sequence[Node], extra: int, seed: str, draw_ids: Iterator[str], budget: SchemaBudget
) -> Iterator[str]:
    """The pieces of a matching text; repetitions have up to `extra` repeats over the minimum."""
    for node in nodes:
        budget.spend(2)
        match node:
            case CharacterClass(samples=samples):
                yield samples[seeded_int_below(len(samples), seed, next(draw_ids))]
            case Group(options=options):
                option = options[seeded_int_below(len(options), seed, next(draw_ids))]
                yield from _generate_chars(option, extra, seed, draw_ids, budget)
            case Repetition(inner=inner, min_count=least, max_count=most):
                for _ in range(least + extra if most is None else min(least + extra, most)):
                    yield from _generate_chars((inner,), extra, seed, draw_ids, budget)


class _RegexParser:
    """A recursive descent parser.  Raises `ValueError` for unsupported syntax."""

    def __init__(self, pattern: str, budget: SchemaBudget) -> None:
        self._pattern = pattern
        self._budget = budget
        self._position = 0
        self._unsupported = ValueError(
            f"what {printable_excerpt(pattern, 100)} asks for is not understood"
        )

    def parse_alternatives(self) -> tuple[AnchoredAlternative, ...]:
        """Parse the whole pattern."""
        alternatives: list[AnchoredAlternative] = []
        while not alternatives or self._consume("|"):
            at_start = self._consume("^")
            body = self._parse_sequence(0)
            alternatives.append(AnchoredAlternative(body, at_start, self._consume("$")))
        if self._position < len(self._pattern):
            raise self._unsupported
        return tuple(alternatives)

    def _parse_sequence(self, depth: int) -> Sequence[Node]:
        nodes: list[Node] = []
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)$":
            self._budget.spend(4)
            nodes.append(self._parse_quantifier(self._parse_atom(depth)))
        return nodes

    def _parse_atom(self, depth: int) -> Node:
        if match := _GROUP_OPENING.match(self._pattern, self._position):
            self._position = match.end()
            options = [self._parse_sequence(depth + 1)] if depth < _MAX_GROUP_DEPTH else []
            while options and self._consume("|"):
                options.append(self._parse_sequence(depth + 1))
            if not self._consume(")"):
                raise self._unsupported
            return Group(tuple(options))
        if match := _CLASS.match(self._pattern, self._position):
            self._position = match.end()
            return self._make_class(match[0])
        character = self._pattern[self._position]
        if character in "^*+?{([\\":
            raise self._unsupported
        self._position += 1
        return CharacterClass(character.__eq__, character)

    def _parse_quantifier(self, node: Node) -> Node:
        """A repetition of the node, or the node itself; consumes a lazy `?`."""
        min_count, max_count = 0, None
        if braces := _REPEAT_BRACES.match(self._pattern, self._position):
            self._position = braces.end()
            min_count = int(braces[1])
            max_count = int(braces[3]) if braces[3] else None if braces[2] else min_count
        elif self._consume("+"):
            min_count = 1
        elif self._consume("?"):
            max_count = 1
        elif not self._consume("*"):
            return node
        self._consume("?")
        if (
            (max_count is not None and max_count < min_count)
            or self._pattern.startswith(("*", "+", "?"), self._position)
            or _is_always_empty(node)
        ):
            raise self._unsupported
        return Repetition(node, min_count, max_count)

    def _make_class(self, source: str) -> CharacterClass:
        """A class with sample characters: printable ASCII, only letters in a negated class."""
        self._budget.spend(30 + 2 * len(source))
        source = _ESCAPE_OR_SET_OPERATOR.sub(
            lambda match: match[0] if len(match[0]) > 1 else f"\\{match[0]}", source
        )
        try:
            character = re.compile(source, re.ASCII)
        except re.error:
            raise self._unsupported from None
        samples = character.findall(_PRINTABLE_ASCII)
        if source == "." or source.startswith(("[^", r"\D", r"\S", r"\W")):
            samples = [sample for sample in samples if sample.islower()] or samples
        elif not samples:
            self._budget.spend(2000)
            matches = character.finditer(source + _plane_0())
            samples = [match[0] for match in islice(matches, _MAX_SAMPLES)]
        if not samples:
            raise self._unsupported
        return CharacterClass(character.fullmatch, "".join(samples))

    def _consume(self, token: str) -> bool:
        """Consume a token if it comes next; whether it did."""
        is_next = self._pattern.startswith(token, self._position)
        self._position += len(token) * is_next
        return is_next


@cache
def _plane_0() -> str:
    """The characters of Unicode's first plane, without surrogates."""
    return "".join(map(chr, (*range(0xD800), *range(0xE000, 0x10000))))


def _is_always_empty(node: Node) -> bool:
    match node:
        case CharacterClass():
            return False
        case Repetition(inner=inner, max_count=most):
            return most == 0 or _is_always_empty(inner)
        case Group(options=options):
            return all(all(map(_is_always_empty, option)) for option in options)
