"""Repetitions within repetitions of a regular expression: `(a+)+` can take exponential time.

Only what is plain to see is found: a group that is repeated without an end, and that may be
nothing but a part that is so too.  `(a+,)+` is not that: the comma keeps its rounds apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<atom>\(\?(?:\#[^)]*|P=\w+|[aiLmsu]+)\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^()|])
    | (?P<open>\((?:\?(?:P<\w+>|\(\w+\)|<?[=!]|>|[aiLmsu-]*:))?)
    | (?P<close>\))
    | (?P<either>\|)""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT: Final = re.compile(
    r"(?P<how>[*+?]|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})(?P<after>[?+]?)"
)
_WITH_COMMENTS: Final = re.compile(r"\(\?[aiLmsu]*x")
"""Where white space and all after a # mean nothing."""
_APART: Final = ("(?=", "(?!", "(?<", "(?>")
"""How groups begin whose inside is never tried anew together with what is around it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What a part of an expression can match."""

    may_be_empty: bool = False
    stretches: bool = False
    """Whether it may be one repetition without an end, and nothing else."""


@dataclass(slots=True)
class _Group:
    """A group that is not closed yet."""

    start: int
    opened: str
    parts: list[_Part] = field(default_factory=list)
    others: list[_Part] = field(default_factory=list)
    """The alternatives before the one that is being read."""

    def either(self) -> None:
        """Another alternative begins."""
        self.others.append(_in_a_row(self.parts))
        self.parts = []

    def closed(self) -> _Part:
        """It, as a part."""
        self.either()
        if self.opened.startswith(_APART):
            return _Part()
        return _Part(
            any(it.may_be_empty for it in self.others), any(it.stretches for it in self.others)
        )


def repeated_twice(pattern: str) -> str:
    """The first repetition of a repetition in a regular expression; empty where there is none.

    The expression must be one that Python compiles.  One with comments in it is not looked at.
    """
    if _WITH_COMMENTS.search(pattern) is not None:
        return ""
    groups = [_Group(0, "")]
    at = 0
    while (piece := _PIECE.match(pattern, at)) is not None:
        at = piece.end()
        match piece.lastgroup:
            case "open":
                groups.append(_Group(piece.start(), piece[0]))
                continue
            case "either":
                groups[-1].either()
                continue
            case "close":
                group = groups.pop()
                start, part = group.start, group.closed()
            case _:
                start, part = piece.start(), _Part()
        repeat = _REPEAT.match(pattern, at)
        if repeat is not None and repeat["how"] != "{}":  # which stands for itself
            at = repeat.end()
            if part.stretches and _has_no_end(repeat):
                return pattern[start:at]
            part = _repeated(part, repeat)
        groups[-1].parts.append(part)
    return ""


def _in_a_row(parts: list[_Part]) -> _Part:
    """Parts that come one after the other."""
    solid = sum(not it.may_be_empty for it in parts)
    alone = any(it.stretches and solid == (not it.may_be_empty) for it in parts)
    return _Part(solid == 0, alone)


def _repeated(part: _Part, repeat: re.Match[str]) -> _Part:
    how, least = repeat["how"], repeat["least"]
    is_free = how in {"*", "?"} or (how[0] == "{" and not int(least or 0))
    gives_back = repeat["after"] != "+"
    stretches = gives_back and (part.stretches or _has_no_end(repeat))
    return _Part(part.may_be_empty or is_free, stretches)


def _has_no_end(repeat: re.Match[str]) -> bool:
    """Whether it repeats as often as it can, and gives back what it took."""
    if repeat["after"] == "+":
        return False
    return repeat["how"] in {"*", "+"} or (bool(repeat["comma"]) and not repeat["most"])
