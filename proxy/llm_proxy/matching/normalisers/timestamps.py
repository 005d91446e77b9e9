"""`timestamps`: replaces dates and times by one placeholder.

Relations between times do not count either: two that are equal in one run may be a second apart
in the next.  So all of them become the same placeholder, however they are written.

The patterns are linear in the length of the text: every part has a maximum length, and each begins
at the start of a word or number, so a text is read once.  Only the years 2015 to 2045 match, those
of a current clock: historical dates are content.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.mapping import map_body_values
from llm_proxy.matching.rules import NormaliserDefinition, NormalizedDocument
from llm_proxy.turns import Json

_TIME_MARK: Final = "<time>"
"""Replaces every date and time."""

_YEAR: Final = "20(?:1[5-9]|[23][0-9]|4[0-5])"
_MONTH: Final = "(?:0[1-9]|1[0-2])"
_DAY: Final = "(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_MONTH: Final = "(?:0?[1-9]|1[0-2])"
_SHORT_DAY: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_NAMED: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?[ ]{1,2})?"
)
_SPACE: Final = "[ \u00a0\u202f]"

_HOUR: Final = "(?:[01][0-9]|2[0-3])"
_SIXTY: Final = "[0-5][0-9]"
_FRACTION: Final = "(?:[.,][0-9]{1,9})?"
_HALF: Final = rf"(?:{_SPACE}?[ap](?:m|\.m\.))?"
_ZONE: Final = (
    r"(?:z|[ ]?(?:(?:utc|gmt)?[+-][0-9]{2}:?[0-9]{2}"
    r"|utc|gmt|w?e[sd]?t|ces?t|ees?t|bst|ist|jst|[cmp][sd]t)"
    r"(?:[ ]\([a-z ]{1,40}\))?)?"
)
_CLOCK: Final = f"{_HOUR}:{_SIXTY}:(?:{_SIXTY}|60){_FRACTION}{_HALF}{_ZONE}"
_HALF_CLOCK: Final = (
    rf"(?:0?[1-9]|1[0-2]):{_SIXTY}:{_SIXTY}{_FRACTION}{_SPACE}?[ap](?:m|\.m\.){_ZONE}"
)
"""With seconds: times that people write, such as 3:05 PM, have none, and stay."""
_BEHIND_A_DATE: Final = (
    rf"(?:(?:t|:|,?{_SPACE}{{1,2}}(?:at[ ])?)(?:[01]?[0-9]|2[0-3]):{_SIXTY}"
    rf"(?::{_SIXTY}{_FRACTION})?{_HALF}{_ZONE})?"
)

_STAMP: Final = (
    rf"{_YEAR}-{_MONTH}-{_DAY}[t_ -]{_HOUR}[:.-]{_SIXTY}[:.-]{_SIXTY}{_FRACTION}{_ZONE}"
    rf"|{_YEAR}{_MONTH}{_DAY}[t_-]{_HOUR}{_SIXTY}{_SIXTY}{_FRACTION}{_ZONE}"
)
"""A date and a time in one word, perhaps at the end of a name: run-20261122T130509Z."""
_ORDINAL: Final = "(?:st|nd|rd|th)?"
_DATE: Final = (
    f"{_WEEKDAY}(?:"
    f"{_YEAR}-{_MONTH}-{_DAY}"
    f"|{_YEAR}/{_SHORT_MONTH}/{_SHORT_DAY}"
    f"|{_SHORT_MONTH}/{_SHORT_DAY}/{_YEAR}"
    f"|{_SHORT_DAY}/{_SHORT_MONTH}/{_YEAR}"
    f"|{_SHORT_DAY}{_ORDINAL}(?:[ /-]|[ ]of[ ]){_NAMED}(?:,?[ ]|[-/]){_YEAR}"
    f"|{_NAMED}[ ]{{1,2}}{_SHORT_DAY}{_ORDINAL},?[ ]{{1,2}}{_YEAR}"
    f"){_BEHIND_A_DATE}"
    f"|{_WEEKDAY}{_NAMED}[ ]{{1,2}}{_SHORT_DAY}[ ]{_HOUR}:{_SIXTY}"
    f"(?::{_SIXTY}{_HALF}(?:{_ZONE}[ ]{_YEAR}{_ZONE})?)?"
)
_JOINTS: Final = "[-./:+]"
_FREE_BEFORE: Final = rf"(?<![0-9A-Za-z])(?<![0-9]{_JOINTS})(?<!{_TIME_MARK}{_JOINTS})(?<!::)"
_FREE_BEHIND: Final = rf"(?![0-9A-Za-z])(?!{_JOINTS}(?:[0-9]|{_TIME_MARK}))"
"""Not part of a longer word or number.  `_TIME_MARK` counts as a number, so that masking twice
gives the same result as masking once."""
_NO_SNAPSHOT: Final = rf"(?<![0-9A-Za-z][-_])(?<!{_TIME_MARK}_)"
"""Not after a name: gpt-4o-2024-08-06 is a model."""

_FIRST_LETTER: Final = "(?=[0-9adfjmnostw])"
"""The characters that a match may begin with: a quick test for most positions."""

_TIME: Final = re.compile(
    rf"{_FIRST_LETTER}{_FREE_BEFORE}(?:{_STAMP}|{_CLOCK}|{_HALF_CLOCK}|{_NO_SNAPSHOT}(?:{_DATE})){_FREE_BEHIND}",
    re.IGNORECASE | re.ASCII,
)
"""A date, a time, or both."""

_DIGITS: Final = r"[12][0-9]{9}(?:[0-9]{3}){0,3}(?:\.[0-9]{1,9})?"
_EPOCH: Final = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z][A-Za-z0-9_-]{0,60})"
    r"""(\\{0,8}["']?[ ]{0,2}[:=>][ ]{0,2}\\{0,8}["']?)"""
    rf"({_DIGITS})(?![0-9A-Za-z]|\.[0-9])"
)
"""A name, a separator, and a number that may be s, ms, µs or ns since 1970:
`created=1795353909`, `"created": 1795353909`."""
_EPOCH_NUMBER: Final = re.compile(_DIGITS)

_TIME_HINT: Final = re.compile("20[1-4][0-9]|:[0-5][0-9]")
"""Every date and time in a text contains this; nearly all texts lack it."""
_LONG_NUMBER: Final = re.compile("[12][0-9]{9}")
_NAME_WORD: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TIME_WORDS: Final = frozenset(
    ("created", "updated", "modified", "started", "ended", "finished", "expires", "timestamp",
     "timestamps", "ts", "time", "date", "datetime", "epoch", "now", "mtime", "ctime", "atime")
)  # fmt: skip
_MIN_EPOCH_S: Final = 1_420_070_400
_END_EPOCH_S: Final = 2_398_377_600
"""Seconds since 1970: the beginnings of 2015 and 2046."""
_UNITS_PER_SECOND: Final = (1, 1_000, 1_000_000, 1_000_000_000)


def _normalize_timestamps(document: KeyDocument) -> NormalizedDocument:
    return NormalizedDocument(map_body_values(document, _mask_value))


def _mask_value(value: Json, name: str) -> Json:
    """Mask the times in a text; a number only if its member has the name of a time."""
    match value:
        case str() if not _EPOCH_NUMBER.fullmatch(value):
            return _mask_text(value)
        case str() | int() | float() if not isinstance(value, bool):
            return _TIME_MARK if _is_named_epoch_time(name, float(value)) else value
        case _:
            return value


def _mask_text(text: str) -> str:
    if _TIME_HINT.search(text) is not None:
        lines = text.split("\n")  # no match spans a line end
        text = "\n".join(
            _TIME.sub(_TIME_MARK, line) if _TIME_HINT.search(line) else line for line in lines
        )
    if _LONG_NUMBER.search(text) is not None:
        text = _EPOCH.sub(
            lambda found: (
                found[1] + found[2] + _TIME_MARK
                if _is_named_epoch_time(found[1], float(found[3]))
                else found[0]
            ),
            text,
        )
    return text


def _is_named_epoch_time(name: str, number: float) -> bool:
    """Whether a number may be a time from 2015 to 2045, in s, ms, µs or ns since 1970.

    Its name must be that of a time: `created_at`, `expiresAt`, `ts`.
    """
    if not any(_MIN_EPOCH_S * unit <= number < _END_EPOCH_S * unit for unit in _UNITS_PER_SECOND):
        return False
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return bool(words) and (words[-1] == "at" or not _TIME_WORDS.isdisjoint(words))


TIMESTAMPS: Final = NormaliserDefinition("timestamps", 1, lambda _argument: _normalize_timestamps)
