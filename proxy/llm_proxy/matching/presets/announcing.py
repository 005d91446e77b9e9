"""What clients announce of the day and the machine: a rule for presets, not for operators.

Only the announcement is overlooked, and only what it announces: a question about a date is another
question for another date.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.walking import with_texts
from llm_proxy.matching.rules import Normalised, Rule

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_CLOCK: Final = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[ \u202f]?(?:[APap][Mm]\b|[ap]\.m\.))?"
    r"(?: ?(?:Z\b|UTC\b|GMT\b|[+-][0-9]{2}:?[0-9]{2}\b)){0,2}"
)
_DATE: Final = (
    rf"{_WEEKDAY}(?:[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}"
    r"|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}"
    rf"|{_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}}"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th)? {_MONTH},? [0-9]{{4}})"
)
_NOW: Final = rf"(?:{_DATE}(?:(?:T|,? (?:at )?){_CLOCK})?|{_CLOCK}(?:,? (?:on )?{_DATE})?)"
_ANNOUNCED: Final = (
    r"\b(?:[Tt]oday(?:['\u2019]s [Dd]ate)?|[Tt]he (?:date|time)|[Nn]ow"
    r"|(?:[Cc]urrent|[Ss]ystem)[ _]?(?:[Dd]ate and time|[Dd]ate[ _]?[Tt]ime|[Dd]ate|[Tt]ime))"
    r"(?: today| now)?(?: \([^()\n]{1,40}\))?[`'\"]?(?: is|:|=|>)(?: now)?[ \t]{0,9}[`'\"*]{0,3}"
)
_TODAY: Final = re.compile(rf"({_ANNOUNCED}){_NOW}")


def today() -> Rule:
    """Overlooks what a text says of the present day and time: `Today's date is 2026-11-22`."""
    return _rule("today", _TODAY)


def announced(name: str, pattern: str) -> Rule:
    """Overlooks what stands behind the first group of a pattern, up to its end.

    A text of any length must be searched in linear time.
    """
    return _rule(name, re.compile(pattern))


def _rule(name: str, pattern: re.Pattern[str]) -> Rule:
    def change(text: str) -> str:
        return pattern.sub(lambda found: f"{found[1]}<{name}>", text)

    def apply(document: Document) -> Normalised:
        return Normalised(with_texts(document, change))

    return Rule(name, 1, apply)
