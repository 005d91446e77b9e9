"""The values to replace, and where they stand in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching import value_finder as standing
from llm_proxy.redaction import AFTER_KEY, PLACEHOLDER
from llm_proxy.renaming import json_text
from llm_proxy.renaming.change import Change

_NAME: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_DEEPEST: Final = 3
"""Levels of JSON texts within JSON texts that are read."""
_SECRETS: Final = (PLACEHOLDER, *AFTER_KEY)


@dataclass(frozen=True, slots=True)
class Values:
    """What takes the place of what: new values by the recorded ones."""

    new: Mapping[str, str]
    _long: Mapping[str, str] = field(init=False, repr=False)
    """Those that may stand in a text, also as JSON within it spells them."""
    _standing: standing.Standing = field(init=False, repr=False)

    def __post_init__(self) -> None:
        long = {old: new for old, new in self.new.items() if standing.is_long(old)}
        within = {json_text.escaped(old): json_text.escaped(new) for old, new in long.items()}
        object.__setattr__(self, "_long", within | long)
        object.__setattr__(self, "_standing", standing.Standing(self._long))

    def __bool__(self) -> bool:
        return bool(self.new)

    def changes(self, text: str, member: str = "", depth: int = 0) -> list[Change]:
        """Where in a text recorded values stand, from left to right.

        `member` is what the text is called where it stands: a short value is one only as an id.
        A text that is JSON itself is changed as JSON.
        """
        if (new := self.new.get(text)) is not None and standing.is_id(member):
            return [Change(0, len(text), new)]
        if depth < _DEEPEST and json_text.is_container(text):
            return [
                change
                for token in json_text.tokens(text)
                for change in token.raw(self.changes(token.value, token.member, depth + 1))
            ]
        return self._within(text)

    def _within(self, text: str) -> list[Change]:
        """Of those that are long enough to stand in a text by no accident."""
        places = self._standing.places(text)
        return [Change(begin, end, self._long[text[begin:end]]) for begin, end in places]


def values_of(stored: Mapping[str, str], asked: Mapping[str, str]) -> Values:
    """What differs between the values that two requests have under the same names.

    Nothing takes the place of a secret, nor a secret the place of anything.
    """
    found: dict[str, str] = {}
    for name, old in stored.items():
        if name not in asked:
            continue
        was, now = _in_full(old, stored), _in_full(asked[name], asked)
        if was != now and not any(mark in it for mark in _SECRETS for it in (was, now)):
            found.setdefault(was, now)
    return Values(found)


def _in_full(value: str, names: Mapping[str, str]) -> str:
    """A value without the names that an earlier rule gave to parts of it."""
    return _NAME.sub(lambda found: names.get(found[0], found[0]), value)
