"""Generates numbers and strings for a JSON Schema, and checks them, within a budget of work.

Schemas come with requests, and so do their regular expressions, some of which make Python's `re`
backtrack for years.  So the engine here follows all alternatives at once, without backtracking;
`re` only matches single characters.  Supported are characters, classes, groups, alternatives,
repetitions, and anchors at both ends, which is what structured output allows; not lookaround,
backreferences, word boundaries and Unicode properties.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from hashlib import sha256
from itertools import count, islice
from math import ceil, floor, isfinite
from operator import ge, gt, le, lt
from typing import Final
from uuid import UUID

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects.lenient_json import Fields, get_integer, get_string
from llm_proxy.errors import printable_excerpt
from llm_proxy.turns import Json

MAX_STEPS: Final = 150_000
"""Per generated value; a step takes a few microseconds at most."""
_MAX_DEPTH: Final = 200
"""The most nested lists and objects in a value."""
_CHARS_PER_STEP: Final = 100
"""Characters of a string that cost one step."""


_ESCAPE: Final = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDsSwWfnrtv0]|[^A-Za-z0-9])"
_CLASS: Final = re.compile(
    rf"\[\^?(?:\]|{_ESCAPE})?(?:[^\]\\]|{_ESCAPE})*\]|{_ESCAPE}|\.", re.DOTALL
)
"""What matches one of several characters, or is escaped."""
_ESCAPE_OR_SET_OPERATOR: Final = re.compile(r"\\.|(?!^)(?:[\[&~|]|(?<=[^\[^]-)-)", re.DOTALL)
"""An escape, or a character that later versions of `re` may read as an operator of a class."""
_QUANTIFIER: Final = re.compile(r"(?:\{(\d{1,9})(?:(,)(\d{1,9})?)?\}|([*+?]))\??")
_GROUP_OPENING: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_MAX_GROUP_DEPTH: Final = 50
"""The most nested groups."""
_PRINTABLE_ASCII: Final = "".join(map(chr, range(0x20, 0x7F)))
_MAX_SAMPLES: Final = 100
"""The most sample characters of a class without printable ASCII characters."""
_MAX_PATTERN_TEXT_CHARS: Final = 10_000
"""The most characters of a text for a pattern."""
_DEFAULT_EXTRA_REPEATS: Final = 3
"""Repeats beyond the minimum of an unbounded repetition, if the length allows."""
_MAX_EXTRA_TRIES: Final = 40
"""Numbers of extra repeats up to this one are tried in turn if the text must be longer."""
_LOWER_BOUNDS: Final = {"minimum": ge, "exclusiveMinimum": gt}
_UPPER_BOUNDS: Final = {"maximum": le, "exclusiveMaximum": lt}
_DEFAULT_SPAN: Final = 100
"""Width of the range if a schema has at most one bound."""
_DEFAULT_STEP: Final = Fraction(1, 100)
"""Non-integers without `multipleOf` are multiples of it."""
_MAX_CANDIDATES: Final = 500
_WORDS: Final = (
    *("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch"),
    *("linden", "maple", "oak", "pine", "poplar", "rowan", "spruce", "willow"),
)
_MAX_TEXT_CHARS: Final = 1_000_000
"""The most characters of a generated string."""
_FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTES_PER_YEAR: Final = 525_600


class SchemaTooExpensive(Exception):
    """A schema needs too much work; the message names the cause."""


@dataclass(slots=True)
class SchemaBudget:
    """The steps left; everything that visits a schema or a value spends some."""

    steps_left: int = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Deduct steps.  Raises `SchemaTooExpensive` if too few are left."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise SchemaTooExpensive("the schema takes too long to evaluate")

    def spend_for_value(self, value: Json, depth: int = 0) -> None:
        """Deduct steps in proportion to the size of a value.

        Raises `SchemaTooExpensive` if too few are left, or if the value is nested too deeply.
        """
        if depth > _MAX_DEPTH:
            raise SchemaTooExpensive("the values are nested too deeply")
        self.spend()
        match value:
            case str():
                self.spend(len(value) // _CHARS_PER_STEP)
            case list():
                for item in value:
                    self.spend_for_value(item, depth + 1)
            case dict():
                for name, member in value.items():
                    self.spend(1 + len(name) // _CHARS_PER_STEP)
                    self.spend_for_value(member, depth + 1)
            case _:
                pass


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
            text = "".join(islice(pieces, _MAX_PATTERN_TEXT_CHARS + 1))
            if len(text) > _MAX_PATTERN_TEXT_CHARS:
                continue
            padding = "x" * (min_chars - len(text))
            if not alternative.at_end:
                text += padding
            elif not alternative.at_start:
                text = padding + text
            if min_chars <= len(text) and (max_chars is None or len(text) <= max_chars):
                return text
    raise ValueError(
        f"no text of the required length can be generated for the pattern "
        f"{printable_excerpt(pattern, 100)}"
    )


def matches_anywhere(
    alternatives: Sequence[AnchoredAlternative], text: str, budget: SchemaBudget
) -> bool:
    """Whether a text contains a match; `$` matches only at the end of the text."""
    for alternative in alternatives:
        budget.spend(1 + len(text) // 10)
        starts = frozenset((0,)) if alternative.at_start else frozenset(range(len(text) + 1))
        ends = _match_ends(alternative.body, text, starts, budget)
        if len(text) in ends if alternative.at_end else ends:
            return True
    return False


def _match_ends(
    nodes: Sequence[Node], text: str, starts: frozenset[int], budget: SchemaBudget
) -> frozenset[int]:
    """Where a match of the nodes can end that begins at one of these positions."""
    for node in nodes:
        budget.spend(1 + len(starts) // 2)
        if not starts:
            break
        match node:
            case CharacterClass(matches=matches):
                starts = frozenset(
                    position + 1
                    for position in starts
                    if position < len(text) and matches(text[position])
                )
            case Group(options=options):
                starts = frozenset().union(
                    *(_match_ends(option, text, starts, budget) for option in options)
                )
            case Repetition():
                starts = _repetition_ends(node, text, starts, budget)
    return starts


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
        next_ends = _match_ends((node.inner,), text, current, budget)
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
    if _MAX_EXTRA_TRIES < min_chars <= _MAX_PATTERN_TEXT_CHARS:
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
            f"the pattern {printable_excerpt(pattern, 100)} is not supported"
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
        quantifier = _QUANTIFIER.match(self._pattern, self._position)
        if quantifier is None:
            return node
        self._position = quantifier.end()
        least, comma, most, symbol = quantifier.groups()
        max_count: int | None
        if symbol:
            min_count, max_count = int(symbol == "+"), 1 if symbol == "?" else None
        else:
            min_count = int(least)
            max_count = int(most) if most else None if comma else min_count
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


def make_number(
    fields: Fields, seed: str, budget: SchemaBudget, *, is_integer: bool
) -> int | float:
    """A number valid against the schema; an `int` with `is_integer`.

    Raises `ValueError` with the reason if none is found.
    """
    budget.spend(25)
    with suppress(OverflowError):
        for candidate in _candidates(fields, seed, is_integer=is_integer):
            budget.spend(5)
            if is_valid_number(candidate, fields):
                return candidate
    raise ValueError(
        f"no {'integer' if is_integer else 'number'} can be generated within the bounds"
    )


def is_valid_number(value: float, fields: Fields) -> bool:
    """Whether a number is within the bounds of a schema, and a multiple of its `multipleOf`."""
    for name, is_within in (_LOWER_BOUNDS | _UPPER_BOUNDS).items():
        bound = _number(fields, name)
        if bound is not None and not is_within(value, bound):
            return False
    divisor = _number(fields, "multipleOf")
    if divisor is None:
        return True
    if divisor <= 0 or (isinstance(divisor, int) and isinstance(value, int)):
        return divisor > 0 and value % divisor == 0
    try:
        quotient = value / divisor  # by float division, as clients do it
    except OverflowError:
        return Fraction(value) % Fraction(divisor) == 0
    return isfinite(quotient) and quotient.is_integer()


def _number(fields: Fields, name: str) -> float | None:
    """The number of a keyword; None for anything else."""
    value = fields.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _candidates(fields: Fields, seed: str, *, is_integer: bool) -> Iterator[int | float]:
    """Numbers that may be valid, the most likely first.  May raise `OverflowError`."""
    low = max(_exact_numbers(fields, *_LOWER_BOUNDS), default=None)
    high = min(_exact_numbers(fields, *_UPPER_BOUNDS), default=None)
    divisor = max(_exact_numbers(fields, "multipleOf"), default=Fraction(0))
    unit = max(Fraction(1), divisor)
    span = max(Fraction(_DEFAULT_SPAN), 2 * unit)
    if low is None:
        low = Fraction(1) if high is None or high > 2 * unit else high - span
    if high is None:
        high = low + span
    step = divisor if divisor > 0 else Fraction(1) if is_integer else _DEFAULT_STEP
    if is_integer:
        step = Fraction(step.numerator)  # the least common multiple with 1
    first = ceil(low / step)
    multiple_count = floor(high / step) - first + 1
    if multiple_count > 0:
        start = seeded_int_below(multiple_count, seed)
        for offset in range(min(multiple_count, _MAX_CANDIDATES)):
            value = step * (first + (start + offset) % multiple_count)
            prefers_int = is_integer or divisor > 0
            yield int(value) if prefers_int and value.denominator == 1 else float(value)
    if not is_integer:
        yield from (float((low + high) / 2), float(low), float(high))


def _exact_numbers(fields: Fields, *names: str) -> list[Fraction]:
    """The exact values of the decimal notation of keywords: 0.1 is one tenth."""
    numbers = (_number(fields, name) for name in names)
    return [Fraction(repr(number)) for number in numbers if number is not None]


def make_text(fields: Fields, seed: str, budget: SchemaBudget) -> str:
    """A string within the lengths of the schema, with its pattern or else in its format.

    Raises `ValueError` with the reason if there is none, and `SchemaTooExpensive`.
    """
    min_chars = get_integer(fields, "minLength") or 0
    max_chars = get_integer(fields, "maxLength")
    if min_chars > _MAX_TEXT_CHARS:
        raise ValueError(f"the required text of {min_chars} characters is too long")
    if max_chars is not None and max_chars < min_chars:
        raise ValueError(
            f"the schema requires at least {min_chars} but at most {max_chars} characters"
        )
    if pattern := get_string(fields, "pattern"):
        return make_matching_text(pattern, min_chars, max_chars, seed, budget)
    budget.spend(5 + min_chars // 100)
    format_name = get_string(fields, "format")
    if format_name in _FORMATS:
        text = _FORMATS[format_name][1](seed)
        if min_chars <= len(text) and (max_chars is None or len(text) <= max_chars):
            return text
    text = f"{make_word(seed)} {make_word(seed + ' ')}"
    text += f" {make_word(seed)}" * (-(-max(min_chars - len(text), 0) // 4))
    text = text[: max(min_chars, len(text) if max_chars is None else min(len(text), max_chars))]
    return f"{text[:-1]}s" if text.endswith(" ") else text


def matches_format(text: str, format_name: str) -> bool:
    """Whether a text matches the regular expression of its format; True for unknown formats."""
    return format_name not in _FORMATS or re.fullmatch(_FORMATS[format_name][0], text) is not None


def make_word(seed: str) -> str:
    """The name of a tree, chosen by the seed."""
    return _WORDS[seeded_int_below(len(_WORDS), seed)]


def _seeded_datetime(seed: str) -> datetime:
    return _FIRST_DAY + timedelta(minutes=seeded_int_below(_MINUTES_PER_YEAR, seed, "moment"))


def _seeded_uuid(seed: str) -> str:
    return str(UUID(bytes=sha256(seed.encode("utf-8", "replace")).digest()[:16], version=4))


_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)"
_FORMATS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "date": (_DATE, lambda seed: f"{_seeded_datetime(seed):%Y-%m-%d}"),
    "date-time": (
        f"{_DATE}[Tt ]{_TIME}",
        lambda seed: f"{_seeded_datetime(seed):%Y-%m-%dT%H:%M:%SZ}",
    ),
    "time": (_TIME, lambda seed: f"{_seeded_datetime(seed):%H:%M:%SZ}"),
    "duration": ("P.+", lambda seed: f"P{1 + seeded_int_below(30, seed, 'days')}D"),
    "email": ("[^@]+@[^@]+", lambda seed: f"{make_word(seed)}@example.com"),
    "uri": (
        "[A-Za-z][A-Za-z0-9+.-]*:.*",
        lambda seed: f"https://example.com/{make_word(seed)}",
    ),
    "url": ("(?s:.*)", lambda seed: f"https://example.com/{make_word(seed)}"),
    "uuid": ("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}", _seeded_uuid),
    "hostname": (
        r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*",
        lambda seed: f"{make_word(seed)}.example.com",
    ),
    "ipv4": (
        r"\d{1,3}(?:\.\d{1,3}){3}",
        lambda seed: f"192.0.2.{1 + seeded_int_below(254, seed, 'host')}",
    ),
    "ipv6": (
        "[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*",
        lambda seed: f"2001:db8::{1 + seeded_int_below(0xFFFE, seed, 'host'):x}",
    ),
    "byte": ("(?s:.*)", lambda seed: b64encode(make_word(seed).encode()).decode()),
}
"""By format, a regular expression that its values match as a whole, and what makes one.

They are the formats that structured output allows, Gemini's `byte`, and `url`, which many write for
`uri`.  Addresses and domains are reserved for documentation: nobody owns them.
"""
