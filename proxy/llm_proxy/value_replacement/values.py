"""The values to replace, and where they occur in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching import value_finder as standing
from llm_proxy.redaction import AFTER_KEY, PLACEHOLDER
from llm_proxy.value_replacement import json_text
from llm_proxy.value_replacement.text_change import TextChange

_NAME: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_DEEPEST: Final = 3
"""Levels of JSON texts within JSON texts that are read."""
_SECRETS: Final = (PLACEHOLDER, *AFTER_KEY)


@dataclass(frozen=True, slots=True)
class ValueReplacements:
    """What takes the place of what: new values by the recorded ones."""

    replacements: Mapping[str, str]
    _long: Mapping[str, str] = field(init=False, repr=False)
    """Those that may stand in a text, also as JSON within it spells them."""
    _value_finder: standing.ValueFinder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        long = {old: new for old, new in self.replacements.items() if standing.is_long_enough(old)}
        within = {
            json_text.escape_json_text(old): json_text.escape_json_text(new)
            for old, new in long.items()
        }
        object.__setattr__(self, "_long", within | long)
        object.__setattr__(self, "_value_finder", standing.ValueFinder(self._long))

    def __bool__(self) -> bool:
        return bool(self.replacements)

    def find_changes(self, text: str, member: str = "", depth: int = 0) -> list[TextChange]:
        """Where in a text recorded values stand, from left to right.

        `member` is what the text is called where it stands: a short value is one only as an id.
        A text that is JSON itself is changed as JSON.
        """
        if (new := self.replacements.get(text)) is not None and standing.is_id_member(member):
            return [TextChange(0, len(text), new)]
        if depth < _DEEPEST and json_text.is_json_container(text):
            return [
                change
                for token in json_text.json_strings(text)
                for change in token.source_changes(
                    self.find_changes(token.value, token.member, depth + 1)
                )
            ]
        return self._find_within_text(text)

    def _find_within_text(self, text: str) -> list[TextChange]:
        places = self._value_finder.find_spans(text)
        return [TextChange(begin, end, self._long[text[begin:end]]) for begin, end in places]


def value_replacements(stored: Mapping[str, str], fields: Mapping[str, str]) -> ValueReplacements:
    """What differs between the values that two requests have under the same names.

    Nothing takes the place of a secret, nor a secret the place of anything.
    """
    found: dict[str, str] = {}
    for name, old in stored.items():
        if name not in fields:
            continue
        was, now = (
            _without_nested_aliases(old, stored),
            _without_nested_aliases(fields[name], fields),
        )
        if was != now and not any(mark in text for mark in _SECRETS for text in (was, now)):
            found.setdefault(was, now)
    return ValueReplacements(found)


def _without_nested_aliases(value: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), value)
