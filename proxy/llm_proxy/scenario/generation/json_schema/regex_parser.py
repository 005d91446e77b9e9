"""Parses a subset of regular expressions into a syntax tree.

Supported are characters, classes, groups, alternatives, repetitions, and anchors at both ends;
not lookaround, backreferences, and Unicode properties.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget

CodeRanges = tuple[tuple[int, int], ...]
"""A set of characters: the first and the last code point of each range."""

_CLASS_ESCAPES: Final[dict[str, CodeRanges]] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": (
        *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    ),
}
_CONTROL_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_CODE_ESCAPE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT_BRACES: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_GROUP_OPENING: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_BRACKET_CLASS: Final = re.compile(r"\[(\^?)((?:\]|\\.)?(?:[^\]\\]|\\.)*)\]", re.DOTALL)
_MAX_CODE: Final = 0x10FFFF
_MAX_SAMPLED_CHARS: Final = 100
"""The most sample characters of a range without printable ASCII characters."""
_MAX_GROUP_DEPTH: Final = 50
"""The most nested groups."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """Matches one character of `code_ranges`; generation picks one of `sample_chars`."""

    code_ranges: CodeRanges
    sample_chars: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """Matches `inner` `min_count` to `max_count` times; None is unbounded."""

    inner: Node
    min_count: int
    max_count: int | None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Matches all items in order."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Matches one of the options."""

    options: tuple[Node, ...]


Node = CharacterClass | Repetition | Concatenation | Alternation


@dataclass(frozen=True, slots=True)
class AnchoredAlternative:
    """A top-level alternative, and whether `^` and `$` anchor it."""

    body: Concatenation
    at_start: bool
    at_end: bool


def parse_regex(pattern: str, budget: SchemaBudget) -> tuple[AnchoredAlternative, ...]:
    """The top-level alternatives of a pattern.  Raises `ValueError` for unsupported syntax."""
    return _RegexParser(pattern, budget).parse_alternatives()


class _RegexParser:
    """A recursive descent parser.  Raises `ValueError` for unsupported syntax."""

    def __init__(self, pattern: str, budget: SchemaBudget) -> None:
        self._pattern = pattern
        self._budget = budget
        self._position = 0

    def parse_alternatives(self) -> tuple[AnchoredAlternative, ...]:
        """Parse the whole pattern."""
        alternatives = [self._parse_alternative()]
        while self._consume_if_next("|"):
            alternatives.append(self._parse_alternative())
        if self._position < len(self._pattern):
            raise self._unsupported_error()
        return tuple(alternatives)

    def _parse_alternative(self) -> AnchoredAlternative:
        at_start = self._consume_if_next("^")
        body = self._parse_concatenation(0)
        return AnchoredAlternative(body, at_start, self._consume_if_next("$"))

    def _parse_group(self, depth: int) -> Node:
        if depth > _MAX_GROUP_DEPTH:
            raise self._unsupported_error()
        options = [self._parse_concatenation(depth)]
        while self._consume_if_next("|"):
            options.append(self._parse_concatenation(depth))
        if not self._consume_if_next(")"):
            raise self._unsupported_error()
        return Alternation(tuple(options))

    def _parse_concatenation(self, depth: int) -> Concatenation:
        self._budget.spend(2)
        items: list[Node] = []
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)$":
            self._budget.spend(4)
            items.append(self._parse_quantifier(self._parse_atom(depth)))
        return Concatenation(tuple(items))

    def _parse_quantifier(self, node: Node) -> Node:
        for quantifier, min_count, max_count in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._consume_if_next(quantifier):
                return self._make_repetition(node, min_count, max_count)
        if (braces := _REPEAT_BRACES.match(self._pattern, self._position)) is None:
            return node
        self._position = braces.end()
        min_count = int(braces[1])
        max_count = int(braces[3]) if braces[3] else None if braces[2] else min_count
        if max_count is not None and max_count < min_count:
            raise self._unsupported_error()
        return self._make_repetition(node, min_count, max_count)

    def _make_repetition(self, node: Node, min_count: int, max_count: int | None) -> Node:
        """A repetition; consumes a lazy `?`.  Rejects a second quantifier.

        Also rejects the repetition of a node that only matches the empty text.
        """
        self._consume_if_next("?")
        if self._position < len(self._pattern) and self._pattern[self._position] in "*+?":
            raise self._unsupported_error()
        if _is_always_empty(node):
            raise self._unsupported_error()
        return Repetition(node, min_count, max_count)

    def _parse_atom(self, depth: int) -> Node:
        pattern, start = self._pattern, self._position
        if (group_match := _GROUP_OPENING.match(pattern, start)) is not None:
            self._position = group_match.end()
            return self._parse_group(depth + 1)
        if (class_match := _BRACKET_CLASS.match(pattern, start)) is not None:
            self._position = class_match.end()
            return self._parse_class(class_match[2], is_negated=bool(class_match[1]))
        character = pattern[start]
        if character in "^*+?{([":
            raise self._unsupported_error()
        self._position += 1
        match character:
            case "\\":
                return self._make_class(
                    self._parse_escape(), is_negated=pattern[start + 1 : start + 2].isupper()
                )
            case ".":
                return CharacterClass(_complement(_single_char("\n")), string.ascii_lowercase)
            case _:
                return CharacterClass(_single_char(character), character)

    def _parse_escape(self) -> CodeRanges:
        """Parse the escape whose backslash is already consumed."""
        pattern, start = self._pattern, self._position
        if (code_match := _CODE_ESCAPE.match(pattern, start)) is not None:
            self._position = code_match.end()
            character = chr(int(code_match[1] or code_match[2], 16))
            if "\ud800" <= character <= "\udfff":
                raise self._unsupported_error()
            return _single_char(character)
        letter = pattern[start : start + 1]
        self._position += 1
        if letter in _CONTROL_ESCAPES:
            return _single_char(_CONTROL_ESCAPES[letter])
        if letter and letter.lower() in _CLASS_ESCAPES:
            code_ranges = _CLASS_ESCAPES[letter.lower()]
            return code_ranges if letter in _CLASS_ESCAPES else _complement(code_ranges)
        if not letter or letter.isalnum():
            raise self._unsupported_error()
        return _single_char(letter)

    def _parse_class(self, members: str, *, is_negated: bool) -> CharacterClass:
        """Parse the content of a bracket class."""
        member_parser = _RegexParser(members, self._budget)
        code_ranges: list[tuple[int, int]] = []
        while member_parser._position < len(members):
            self._budget.spend(4)
            first = member_parser._parse_class_member()
            is_range = members[
                member_parser._position : member_parser._position + 1
            ] == "-" and member_parser._position + 1 < len(members)
            if is_range and _is_single_char(first):
                member_parser._position += 1
                code_ranges.append(_char_range(first, member_parser._parse_class_member()))
            else:
                code_ranges.extend(first)
        unique_ranges = tuple(dict.fromkeys(code_ranges))
        return self._make_class(
            _complement(unique_ranges) if is_negated else unique_ranges, is_negated=is_negated
        )

    def _make_class(self, code_ranges: CodeRanges, *, is_negated: bool) -> CharacterClass:
        """A class with sample characters: printable ASCII, only letters in a negated class."""
        self._budget.spend(20 * len(code_ranges))
        sample_chars = "".join(map(_printable_chars, code_ranges))
        if is_negated:
            sample_chars = (
                "".join(char for char in sample_chars if char in string.ascii_lowercase)
                or sample_chars
            )
        else:
            sample_chars = sample_chars or "".join(map(_first_chars, code_ranges))
        if not sample_chars:
            raise self._unsupported_error()
        return CharacterClass(code_ranges, sample_chars)

    def _parse_class_member(self) -> CodeRanges:
        self._position += 1
        if self._pattern[self._position - 1] == "\\":
            return self._parse_escape()
        return _single_char(self._pattern[self._position - 1])

    def _consume_if_next(self, token: str) -> bool:
        """Consume a token if it comes next; whether it did."""
        is_present = self._pattern.startswith(token, self._position)
        self._position += len(token) * is_present
        return is_present

    def _unsupported_error(self) -> ValueError:
        return ValueError(
            f"what {printable_excerpt(self._pattern, 100)} asks for is not understood"
        )


def _is_always_empty(node: Node) -> bool:
    match node:
        case CharacterClass():
            return False
        case Repetition(inner=inner, max_count=most):
            return most == 0 or _is_always_empty(inner)
        case Concatenation(items=nodes) | Alternation(options=nodes):
            return all(map(_is_always_empty, nodes))


def _single_char(character: str) -> CodeRanges:
    return ((ord(character), ord(character)),)


def _is_single_char(code_ranges: CodeRanges) -> bool:
    return len(code_ranges) == 1 and code_ranges[0][0] == code_ranges[0][1]


def _char_range(first: CodeRanges, last: CodeRanges) -> tuple[int, int]:
    """The range from one character to another.  Raises `ValueError` if it is reversed."""
    (low, _), (high, _) = first[0], last[0]
    if not _is_single_char(last) or high < low:
        raise ValueError("a range of characters ends before it begins")
    return low, high


def _complement(code_ranges: Sequence[tuple[int, int]]) -> CodeRanges:
    """All characters outside of these ranges."""
    gaps: list[tuple[int, int]] = []
    next_code = 0
    for low, high in sorted(code_ranges):
        if low > next_code:
            gaps.append((next_code, low - 1))
        next_code = max(next_code, high + 1)
    return (*gaps, *([(next_code, _MAX_CODE)] if next_code <= _MAX_CODE else []))


def _printable_chars(code_range: tuple[int, int]) -> str:
    """The printable ASCII characters of a range."""
    return "".join(map(chr, range(max(code_range[0], 0x20), min(code_range[1], 0x7E) + 1)))


def _first_chars(code_range: tuple[int, int]) -> str:
    """The first characters of a range, without surrogates."""
    codes = range(code_range[0], min(code_range[1], code_range[0] + _MAX_SAMPLED_CHARS) + 1)
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)
