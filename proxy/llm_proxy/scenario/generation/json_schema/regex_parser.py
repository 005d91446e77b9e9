"""Regular expressions as far as they are understood: read into nodes that have no surprises.

Understood are characters, classes, groups, alternatives, repeats, and anchors at both ends.  What
looks around, refers back, or asks for a property of Unicode is not.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget

Spans = tuple[tuple[int, int], ...]
"""Characters: the first and the last code of each run of them."""

_SETS: Final[dict[str, Spans]] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": (
        *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
        (0xFEFF, 0xFEFF),
    ),
}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_OPENING: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_CLASS: Final = re.compile(r"\[(\^?)((?:\]|\\.)?(?:[^\]\\]|\\.)*)\]", re.DOTALL)
_LAST: Final = 0x10FFFF
_RANGE: Final = 100
"""Characters of a run that are chosen from."""
_DEEPEST: Final = 50
"""Groups within each other."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """One character: of these, and made up of those that are liked best."""

    spans: Spans
    among: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """The same again and again."""

    inner: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any of these."""

    options: tuple[Node, ...]


Node = CharacterClass | Repetition | Concatenation | Alternation


@dataclass(frozen=True, slots=True)
class AnchoredAlternative:
    """A whole alternative of an expression, and which ends of the text are its own."""

    body: Concatenation
    at_start: bool
    at_end: bool


def parse_expression(pattern: str, budget: SchemaBudget) -> tuple[AnchoredAlternative, ...]:
    """The alternatives of an expression.  Raises `ValueError` for one that is not understood."""
    return _ExpressionParser(pattern, budget).wholes()


class _ExpressionParser:
    """An expression on its way into nodes.  What is not understood raises `ValueError`."""

    def __init__(self, pattern: str, budget: SchemaBudget) -> None:
        self._pattern = pattern
        self._budget = budget
        self._at = 0

    def wholes(self) -> tuple[AnchoredAlternative, ...]:
        """The alternatives of the whole expression."""
        found = [self._whole()]
        while self._take("|"):
            found.append(self._whole())
        if self._at < len(self._pattern):
            raise self._odd()
        return tuple(found)

    def _whole(self) -> AnchoredAlternative:
        at_start = self._take("^")
        body = self._together(0)
        return AnchoredAlternative(body, at_start, self._take("$"))

    def _group(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self._odd()
        options = [self._together(depth)]
        while self._take("|"):
            options.append(self._together(depth))
        if not self._take(")"):
            raise self._odd()
        return Alternation(tuple(options))

    def _together(self, depth: int) -> Concatenation:
        self._budget.spend(2)
        items: list[Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)$":
            self._budget.spend(4)
            items.append(self._repeated(self._atom(depth)))
        return Concatenation(tuple(items))

    def _repeated(self, node: Node) -> Node:
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return self._repeat(node, least, most)
        if (times := _REPEAT.match(self._pattern, self._at)) is None:
            return node
        self._at = times.end()
        least = int(times[1])
        most = int(times[3]) if times[3] else None if times[2] else least
        if most is not None and most < least:
            raise self._odd()
        return self._repeat(node, least, most)

    def _repeat(self, node: Node, least: int, most: int | None) -> Node:
        """The repeat, which may be told to take as little as it can; two in a row are none.

        Nothing is not repeated: whoever asks for that means no text.
        """
        self._take("?")
        if self._at < len(self._pattern) and self._pattern[self._at] in "*+?":
            raise self._odd()
        if _is_nothing(node):
            raise self._odd()
        return Repetition(node, least, most)

    def _atom(self, depth: int) -> Node:
        pattern, at = self._pattern, self._at
        if (opening := _OPENING.match(pattern, at)) is not None:
            self._at = opening.end()
            return self._group(depth + 1)
        if (found := _CLASS.match(pattern, at)) is not None:
            self._at = found.end()
            return self._class(found[2], is_other=bool(found[1]))
        character = pattern[at]
        if character in "^*+?{([":
            raise self._odd()
        self._at += 1
        match character:
            case "\\":
                return self._chars(self._escaped(), is_other=pattern[at + 1 : at + 2].isupper())
            case ".":
                return CharacterClass(_others(_only("\n")), string.ascii_lowercase)
            case _:
                return CharacterClass(_only(character), character)

    def _escaped(self) -> Spans:
        """The characters that the escape here stands for."""
        pattern, at = self._pattern, self._at
        if (code := _CODE.match(pattern, at)) is not None:
            self._at = code.end()
            character = chr(int(code[1] or code[2], 16))
            if "\ud800" <= character <= "\udfff":
                raise self._odd()
            return _only(character)
        letter = pattern[at : at + 1]
        self._at += 1
        if letter in _CONTROLS:
            return _only(_CONTROLS[letter])
        if letter and letter.lower() in _SETS:
            chosen = _SETS[letter.lower()]
            return chosen if letter in _SETS else _others(chosen)
        if not letter or letter.isalnum():
            raise self._odd()
        return _only(letter)

    def _class(self, inside: str, *, is_other: bool) -> CharacterClass:
        """The characters of a class."""
        reader = _ExpressionParser(inside, self._budget)
        spans: list[tuple[int, int]] = []
        while reader._at < len(inside):
            self._budget.spend(4)
            first = reader._member()
            is_range = inside[reader._at : reader._at + 1] == "-" and reader._at + 1 < len(inside)
            if is_range and _is_one(first):
                reader._at += 1
                spans.append(_between(first, reader._member()))
            else:
                spans.extend(first)
        chosen = tuple(dict.fromkeys(spans))
        return self._chars(_others(chosen) if is_other else chosen, is_other=is_other)

    def _chars(self, spans: Spans, *, is_other: bool) -> CharacterClass:
        """The characters, and some to choose from: letters, where what they are not is said."""
        self._budget.spend(20 * len(spans))
        among = "".join(map(_printable, spans))
        if is_other:
            among = "".join(text for text in among if text in string.ascii_lowercase) or among
        else:
            among = among or "".join(map(_early, spans))
        if not among:
            raise self._odd()
        return CharacterClass(spans, among)

    def _member(self) -> Spans:
        self._at += 1
        if self._pattern[self._at - 1] == "\\":
            return self._escaped()
        return _only(self._pattern[self._at - 1])

    def _take(self, sign: str) -> bool:
        """Whether this stands here; what does is passed over."""
        is_here = self._pattern.startswith(sign, self._at)
        self._at += len(sign) * is_here
        return is_here

    def _odd(self) -> ValueError:
        return ValueError(f"what {printable(self._pattern, 100)} asks for is not understood")


def _is_nothing(node: Node) -> bool:
    match node:
        case CharacterClass():
            return False
        case Repetition(inner=inner, most=most):
            return most == 0 or _is_nothing(inner)
        case Concatenation(items=nodes) | Alternation(options=nodes):
            return all(map(_is_nothing, nodes))


def _only(character: str) -> Spans:
    return ((ord(character), ord(character)),)


def _is_one(spans: Spans) -> bool:
    return len(spans) == 1 and spans[0][0] == spans[0][1]


def _between(first: Spans, last: Spans) -> tuple[int, int]:
    """The characters of a range."""
    (low, _), (high, _) = first[0], last[0]
    if not _is_one(last) or high < low:
        raise ValueError("a range of characters ends before it begins")
    return low, high


def _others(spans: Sequence[tuple[int, int]]) -> Spans:
    """All characters that are none of these."""
    gaps: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted(spans):
        if low > at:
            gaps.append((at, low - 1))
        at = max(at, high + 1)
    return (*gaps, *([(at, _LAST)] if at <= _LAST else []))


def _printable(span: tuple[int, int]) -> str:
    """The characters of a run that anybody can type."""
    return "".join(map(chr, range(max(span[0], 0x20), min(span[1], 0x7E) + 1)))


def _early(span: tuple[int, int]) -> str:
    """The first characters of a run; halves of surrogate pairs are none."""
    codes = range(span[0], min(span[1], span[0] + _RANGE) + 1)
    return "".join(chr(code) for code in codes if not 0xD800 <= code <= 0xDFFF)
