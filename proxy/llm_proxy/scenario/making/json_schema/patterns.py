"""Texts that match a regular expression, made up for the expressions that schemas have.

Understood are characters, classes, groups, alternatives, repeats, and anchors at both ends.  What
looks around, refers back, or asks for a property of Unicode is not.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from llm_proxy.scenario.rolls import below

_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_DIGITS: Final = string.digits
_WORD: Final = string.ascii_letters + string.digits + "_"
_SETS: Final = {"d": _DIGITS, "w": _WORD, "s": " "}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_OPENING: Final = re.compile(r"\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?!\?)")
_CLASS: Final = re.compile(r"\[(\^?)((?:\]|\\.)?(?:[^\]\\]|\\.)*)\]", re.DOTALL)
_RANGE: Final = 100
"""Characters of a range that are chosen from."""
_DEEPEST: Final = 50
"""Groups within each other."""
_LONGEST: Final = 10_000
"""Characters of a text."""
_USUAL: Final = 3
"""How many more than it must a repeat without an end has, where any number will do."""
_TRIES: Final = 40
"""Such numbers that are tried one after the other, where a text must be longer."""


@dataclass(frozen=True, slots=True)
class _Chars:
    """One of these characters."""

    among: str


@dataclass(frozen=True, slots=True)
class _Repeat:
    """The same again and again."""

    inner: _Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Sequence:
    """One after the other."""

    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Any of these."""

    options: tuple[_Node, ...]


_Node = _Chars | _Repeat | _Sequence | _Choice


@dataclass(frozen=True, slots=True)
class _Whole:
    """A whole alternative of an expression, and which ends of the text are its own."""

    body: _Sequence
    at_start: bool
    at_end: bool


def matching(pattern: str, least: int, most: int | None, seed: str) -> str:
    """A text of `least` to `most` characters in which the expression is found.

    Raises `ValueError`, with the reason in a few words, where none is known.
    """
    reader = _Reader(pattern)
    wholes = reader.wholes()
    first = below(len(wholes), seed, "alternative")
    for extra in _extras(least):
        for whole in (*wholes[first:], *wholes[:first]):
            told = _told(whole.body, extra, seed)
            text = _padded(whole, told, least)
            if len(told) <= _LONGEST and least <= len(text) <= (
                len(text) if most is None else most
            ):
                return text
    raise ValueError(f"no text of that length is known to match {pattern}")


def _extras(least: int) -> Iterator[int]:
    """How many times more than they must repeats may go on, the usual first."""
    yield from (_USUAL, 2, 1, 0)
    yield from range(_USUAL + 1, min(least, _TRIES) + 1)
    if _TRIES < least <= _LONGEST:
        yield from (-(-least // together) for together in range(_TRIES, 0, -1))


def _padded(whole: _Whole, text: str, least: int) -> str:
    """The text with letters more, where the expression does not say how it begins or ends."""
    more = "x" * (least - len(text))
    if whole.at_end:
        return text if whole.at_start else more + text
    return text + more


def _told(node: _Node, extra: int, seed: str) -> str:
    """A text that the node matches; cut where it grows too long."""
    return "".join(islice(_characters(node, extra, seed, map(str, count())), _LONGEST + 1))


def _characters(node: _Node, extra: int, seed: str, ordinals: Iterator[str]) -> Iterator[str]:
    """A text that the node matches; repeats that may go on do so `extra` times."""
    match node:
        case _Chars(among=among):
            yield among[below(len(among), seed, next(ordinals))]
        case _Sequence(items=items):
            for item in items:
                yield from _characters(item, extra, seed, ordinals)
        case _Choice(options=options):
            chosen = options[below(len(options), seed, next(ordinals))]
            yield from _characters(chosen, extra, seed, ordinals)
        case _Repeat(inner=inner, least=least, most=most):
            times = least + extra if most is None else min(least + extra, most)
            for _ in range(times):
                yield from _characters(inner, extra, seed, ordinals)


class _Reader:
    """An expression on its way into nodes.  What is not understood raises `ValueError`."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def wholes(self) -> list[_Whole]:
        """The alternatives of the whole expression."""
        found = [self._whole()]
        while self._take("|"):
            found.append(self._whole())
        if self._at < len(self._pattern):
            raise self._odd()
        return found

    def _whole(self) -> _Whole:
        at_start = self._take("^")
        body = self._sequence(0)
        return _Whole(body, at_start, self._take("$"))

    def _group(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self._odd()
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        if not self._take(")"):
            raise self._odd()
        return _Choice(tuple(options))

    def _sequence(self, depth: int) -> _Sequence:
        items: list[_Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)$":
            items.append(self._repeated(self._atom(depth)))
        return _Sequence(tuple(items))

    def _repeated(self, node: _Node) -> _Node:
        """The node as often as what follows it says."""
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return self._unhurried(_Repeat(node, least, most))
        if (times := _REPEAT.match(self._pattern, self._at)) is None:
            return node
        self._at = times.end()
        least = int(times[1])
        most = int(times[3]) if times[3] else None if times[2] else least
        if most is not None and most < least:
            raise self._odd()
        return self._unhurried(_Repeat(node, least, most))

    def _unhurried(self, node: _Node) -> _Node:
        """The repeat, which may be told to take as little as it can; two in a row are none."""
        self._take("?")
        if self._at < len(self._pattern) and self._pattern[self._at] in "*+?":
            raise self._odd()
        return node

    def _atom(self, depth: int) -> _Node:
        pattern, at = self._pattern, self._at
        if (opening := _OPENING.match(pattern, at)) is not None:
            self._at = opening.end()
            return self._group(depth + 1)
        if (found := _CLASS.match(pattern, at)) is not None:
            self._at = found.end()
            return _Chars(self._class(found[2], is_other=bool(found[1])))
        character = pattern[at]
        if character in "^*+?{([":
            raise self._odd()
        self._at += 1
        if character == "\\":
            return _Chars(
                _liked(self._escaped()) if pattern[at + 1 : at + 2].isupper() else self._escaped()
            )
        return _Chars(string.ascii_lowercase if character == "." else character)

    def _escaped(self) -> str:
        """The characters that the escape here stands for."""
        pattern, at = self._pattern, self._at
        if (code := _CODE.match(pattern, at)) is not None:
            self._at = code.end()
            return self._whole_character(chr(int(code[1] or code[2], 16)))
        letter = pattern[at : at + 1]
        self._at += 1
        if letter in _SETS or letter in _CONTROLS:
            return _SETS.get(letter) or _CONTROLS[letter]
        if letter and letter.lower() in _SETS:
            return _others(_SETS[letter.lower()])
        if not letter or letter.isalnum():
            raise self._odd()
        return letter

    def _whole_character(self, character: str) -> str:
        if "\ud800" <= character <= "\udfff":
            raise self._odd()
        return character

    def _class(self, inside: str, *, is_other: bool) -> str:
        """The characters of a class, or some of them."""
        reader = _Reader(inside)
        among: list[str] = []
        while reader._at < len(inside):
            first = reader._member()
            is_range = inside[reader._at : reader._at + 1] == "-" and reader._at + 1 < len(inside)
            if is_range and len(first) == 1:
                reader._at += 1
                among.append(_between(first, reader._member()))
            else:
                among.append(first)
        chosen = "".join(among)
        chosen = _liked(_others(chosen)) if is_other else chosen
        if not chosen:
            raise self._odd()
        return chosen

    def _member(self) -> str:
        """What a class names next."""
        self._at += 1
        if self._pattern[self._at - 1] == "\\":
            return self._escaped()
        return self._pattern[self._at - 1]

    def _take(self, sign: str) -> bool:
        """Whether this stands here; what does is passed over."""
        is_here = self._pattern.startswith(sign, self._at)
        self._at += len(sign) * is_here
        return is_here

    def _odd(self) -> ValueError:
        return ValueError(f"what {self._pattern} asks for is not understood")


def _between(first: str, last: str) -> str:
    """The characters of a range: all that are printable, and the first ones of a longer one."""
    if len(last) != 1 or last < first:
        raise ValueError(f"the range {first}-{last} is none")
    early = map(chr, range(ord(first), min(ord(last), ord(first) + _RANGE) + 1))
    return "".join(dict.fromkeys([*early, *(it for it in _PRINTABLE if first <= it <= last)]))


def _others(characters: str) -> str:
    """The printable characters that are none of these."""
    return "".join(it for it in _PRINTABLE if it not in characters)


def _liked(characters: str) -> str:
    """The letters among the characters; all of them where none is one."""
    return "".join(it for it in characters if it in string.ascii_lowercase) or characters
