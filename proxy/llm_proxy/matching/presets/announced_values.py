"""What clients announce of the day and the machine: a rule for presets, not for operators.

Only the announcement is overlooked, and only what it announces: a question about a date is another
question for another date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.mapping import texts_changed, with_texts
from llm_proxy.matching.rules import Normalised, Rule
from llm_proxy.turns import Json

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
    r"\b(?:[Tt]oday(?:['\u2019]s [Dd]ate)?|[Tt]he (?:date|time)"
    r"|(?:[Cc]urrent|[Ss]ystem)[ _]?(?:[Dd]ate and time|[Dd]ate[ _]?[Tt]ime|[Dd]ate|[Tt]ime))"
    r"(?: today| now)?(?: \([^()\n]{1,40}\))?[`'\"]?(?: is|:|=|>)(?: now)?[ \t]{0,9}[`'\"*]{0,3}"
)
_ENDED: Final = r"(?![0-9]|[.:][0-9])"
"""What goes on so is no date and no clock: a version, an address, a share of something."""
_TODAY: Final = re.compile(rf"({_ANNOUNCED}){_NOW}{_ENDED}")
_HISTORY: Final = frozenset(("input", "messages"))
"""The members of bodies in which the results of calls stand among messages."""


def today() -> Rule:
    """Overlooks what a text says of the present day and time: `Today's date is 2026-11-22`."""
    return _rule("today", [_TODAY])


def announced(name: str, *patterns: str) -> Rule:
    """Overlooks what stands behind the first group of each pattern, up to its end.

    A text of any length must be searched in linear time.
    """
    return _rule(name, [*map(re.compile, patterns)])


def announced_in_results(name: str, pattern: str) -> Rule:
    """The same in what calls of tools gave alone, as OpenAI's dialects have it in the history."""
    return _rule(name, [re.compile(pattern)], _with_results)


def _rule(
    name: str,
    patterns: Sequence[re.Pattern[str]],
    changed: Callable[[Document, Callable[[str], str]], Document] = with_texts,
) -> Rule:
    def change(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub(lambda found: f"{found[1]}<{name}>", text)
        return text

    def apply(document: Document) -> Normalised:
        return Normalised(changed(document, change))

    return Rule(name, 2, apply)


def _with_results(document: Document, change: Callable[[str], str]) -> Document:
    """The document with every text changed that a tool gave."""
    if document.kind != "json" or not isinstance(document.body, dict):
        return document
    body = {
        name: [_result(item, change) for item in value]
        if name in _HISTORY and isinstance(value, list)
        else value
        for name, value in document.body.items()
    }
    return replace(document, body=body)


def _result(item: Json, change: Callable[[str], str]) -> Json:
    """An item of a history, its texts changed where a tool gave them."""
    if not isinstance(item, dict):
        return item
    match item:
        case {"type": str(kind), "output": output} if kind.endswith("call_output"):
            return {**item, "output": texts_changed(output, change)}
        case {"role": "tool", "content": content}:
            return {**item, "content": texts_changed(content, change)}
        case _:
            return item
