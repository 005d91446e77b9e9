r"""Escapes and formats text for a terminal.

Recorded text may hold escape sequences that move the cursor, rename the window or reverse the
writing direction.  Here they become visible text: `\x1b`, `\u202e`.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from pathlib import PurePath
from typing import Final

from llm_proxy.errors import escape_character

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A member's name that a JSONPath needs no quotes for."""
_UNSAFE_CHARACTERS: Final = (
    r"\x00-\x1f\x7f-\x9f"  # C0, DEL and C1, which terminals obey
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # line ends and direction marks
    r"\ud800-\udfff\ufeff"  # halves of surrogate pairs, byte order marks
    r"\U000e0000-\U000e007f"  # invisible tags
)
_UNSAFE: Final = re.compile(f"[{_UNSAFE_CHARACTERS}]")
_UNSAFE_IN_BLOCK: Final = re.compile(f"(?![\\n\\t])[{_UNSAFE_CHARACTERS}]")
_UNSAFE_IN_JSON: Final = re.compile(f"(?![\\n])[{_UNSAFE_CHARACTERS}]")
_WIDE_CLASSES: Final = frozenset("WF")
_ZERO_WIDTH_CATEGORIES: Final = frozenset(("Mn", "Me", "Cf"))


def escape_line(text: str) -> str:
    """`text` on one line: LF becomes `⏎`, every other control character is escaped."""
    return _UNSAFE.sub(_escape_match, text)


def escape_block(text: str) -> str:
    """`text` with its LFs and tabs kept and every other control character escaped."""
    return _UNSAFE_IN_BLOCK.sub(_escape_match, text)


def escape_json(document: str) -> str:
    """A JSON document with the same value and no raw control characters but LF."""
    return _UNSAFE_IN_JSON.sub(_escape_json_match, document)


def path_as_unicode_text(path: PurePath | str) -> str:
    """A path as valid Unicode: bytes of the file name that are not UTF-8 become U+FFFD."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def folder_name(folder: PurePath | str) -> str:
    """A folder for a message: a relative path starts with a dot, as in `./cassettes`."""
    name = path_as_unicode_text(folder)
    return name if name.startswith((".", "/")) else f"./{name}"


def shell_quoted_path(path: PurePath | str) -> str:
    """A path quoted as one word of a shell command that somebody may copy."""
    return shlex.quote(escape_line(path_as_unicode_text(path)))


def display_width(text: str) -> int:
    """The number of terminal columns that one line of text takes."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def truncate_to_width(text: str, width: int) -> str:
    """One line cut to at most `width` columns, with an ellipsis if it was cut."""
    if _fitting_length(text, width) == len(text):
        return text
    return text[: _fitting_length(text, width - 1)] + "…"


def pad_to_width(text: str, width: int, *, align_right: bool = False) -> str:
    """One line padded with spaces to `width` columns; left-aligned by default."""
    padding = " " * (width - display_width(text))
    return padding + text if align_right else text + padding


def format_duration(ms: float) -> str:
    """Format a duration in ms: `0.42 ms`, `176 ms`, `12.3 s`, `2 min 5 s`."""
    if ms < 10:
        return f"{ms:.2f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 100_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def format_percent(fraction: float) -> str:
    """Format a fraction from 0 to 1 as a percentage, rounded down: 100 % is all of it."""
    return f"{int(fraction * 100)} %"


def format_size(size_bytes: int) -> str:
    """Format a number of bytes in decimal units: `812 B`, `6.1 kB`, `1.4 MB`, `12 GB`."""
    value, unit = float(size_bytes), "B"
    for larger_unit in ("kB", "MB", "GB", "TB"):
        if value < 999.5:  # 999.5 would be shown as 1000
            break
        value, unit = value / 1000, larger_unit
    needs_decimal = value < 10 and unit != "B"
    return f"{value:.1f} {unit}" if needs_decimal else f"{value:.0f} {unit}"


def count_with_noun(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: `1 cassette`, `2 cassettes`, `1,449 cassettes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _escape_match(match: re.Match[str]) -> str:
    return "⏎" if match[0] == "\n" else escape_character(match[0])


def _escape_json_match(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _fitting_length(text: str, width: int) -> int:
    """The number of leading characters that fit into `width` columns."""
    used_columns = 0
    for index, character in enumerate(text):
        used_columns += _character_width(character)
        if used_columns > width:
            return index
    return len(text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH_CATEGORIES:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE_CLASSES else 1


def json_path_step(name: str) -> str:
    """A member's name as a step of a JSONPath: `.name`, or `['a name']`."""
    if PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = json.dumps(name, ensure_ascii=False)
    if "'" not in name:
        quoted = "'" + quoted[1:-1].replace('\\"', '"') + "'"
    return f"[{quoted}]"
