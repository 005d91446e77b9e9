r"""Escapes and formats text for a terminal.

What a provider said may hold escape sequences that move the cursor, rename the window or turn
the writing direction around.  Here they become visible text: `\x1b`, `\u202e`.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from pathlib import PurePath
from typing import Final

from llm_proxy.errors import escape_character

_CONTROLS: Final = (
    r"\x00-\x1f\x7f-\x9f"  # C0, DEL and C1, which terminals obey
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line ends and direction marks
    r"\ud800-\udfff\ufeff"  # halves of surrogate pairs, byte order marks
    r"\U000e0000-\U000e007f"  # invisible tags
)
_UNSAFE: Final = re.compile(f"[{_CONTROLS}]")
_UNSAFE_IN_BLOCK: Final = re.compile(f"(?![\\n\\t])[{_CONTROLS}]")
_UNSAFE_IN_JSON: Final = re.compile(f"(?![\\n])[{_CONTROLS}]")
_WIDE: Final = frozenset("WF")
_WIDTHLESS: Final = frozenset(("Mn", "Me", "Cf"))


def escape_line(text: str) -> str:
    """`text` in one line: an LF shows as `⏎`, every other control character escaped."""
    return _UNSAFE.sub(_escape_match, text)


def escape_block(text: str) -> str:
    """`text` with its lines and tabs, and every other control character escaped."""
    return _UNSAFE_IN_BLOCK.sub(_escape_match, text)


def escape_json(document: str) -> str:
    """JSON of the same meaning, in which no control character stands raw."""
    return _UNSAFE_IN_JSON.sub(_escape_json_match, document)


def escape_path(path: PurePath | str) -> str:
    """A path as JSON and terminals can have it, whatever bytes a file is named with."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def shell_word(path: PurePath | str) -> str:
    """A path as one word of a shell command that somebody may copy."""
    return shlex.quote(escape_line(escape_path(path)))


def terminal_width(text: str) -> int:
    """How many columns of a terminal one line of text takes."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def truncate(text: str, width: int) -> str:
    """One line of at most `width` columns, with an ellipsis where something is missing."""
    if _fitting_length(text, width) == len(text):
        return text
    return text[: _fitting_length(text, width - 1)] + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    """One line filled up with spaces to `width` columns."""
    space = " " * (width - terminal_width(text))
    return space + text if right else text + space


def format_duration(ms: float) -> str:
    """A time span for people: `0.42 ms`, `176 ms`, `12.3 s`, `2 min 5 s`."""
    if ms < 10:
        return f"{ms:.2f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 100_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def format_percent(share: float) -> str:
    """A share for people, rounded down: 100 % is all of it."""
    return f"{int(share * 100)} %"


def format_size(count: int) -> str:
    """Bytes for people, by thousands: `812 B`, `6.1 kB`, `1.4 MB`, `12 GB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:  # which is shown as 1000
            break
        value, unit = value / 1000, larger
    few = value < 10 and unit != "B"
    return f"{value:.1f} {unit}" if few else f"{value:.0f} {unit}"


def count_noun(number: int, noun: str, plural: str = "") -> str:
    """`1 cassette`, `2 cassettes`, `1,449 cassettes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _escape_match(match: re.Match[str]) -> str:
    return "⏎" if match[0] == "\n" else escape_character(match[0])


def _escape_json_match(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _fitting_length(text: str, width: int) -> int:
    """How many characters fit `width` columns, from the first."""
    taken = 0
    for index, character in enumerate(text):
        taken += _character_width(character)
        if taken > width:
            return index
    return len(text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _WIDTHLESS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1
