"""The values to replace, and where they occur in a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.matching import value_finder as standing
from llm_proxy.redaction import PLACEHOLDER, POST_KEY_PLACEHOLDERS
from llm_proxy.value_replacement import json_text
from llm_proxy.value_replacement.text_change import TextChange

_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_MAX_JSON_DEPTH: Final = 3
"""The deepest nesting of JSON within JSON strings that is parsed."""
_SECRET_PLACEHOLDERS: Final = (PLACEHOLDER, *POST_KEY_PLACEHOLDERS)


@dataclass(frozen=True, slots=True)
class ValueReplacements:
    """Maps recorded values to the new values that replace them."""

    new_by_recorded: Mapping[str, str]
    _distinctive_replacements: Mapping[str, str] = field(init=False, repr=False)
    """The distinctive values, which are replaced within texts, raw and JSON-escaped."""
    _value_finder: standing.ValueFinder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        long = {
            old: new for old, new in self.new_by_recorded.items() if standing.is_distinctive(old)
        }
        within = {
            json_text.escape_json_text(old): json_text.escape_json_text(new)
            for old, new in long.items()
        }
        object.__setattr__(self, "_distinctive_replacements", within | long)
        object.__setattr__(
            self, "_value_finder", standing.ValueFinder(self._distinctive_replacements)
        )

    def __bool__(self) -> bool:
        return bool(self.new_by_recorded)

    def find_changes(self, text: str, member: str = "", depth: int = 0) -> list[TextChange]:
        """The changes that replace recorded values in a text, from left to right.

        `member` is the name of the member that contains the text: a short value only counts as an
        id.  A text that is itself JSON is parsed, down to a limit of `depth`.
        """
        if (new := self.new_by_recorded.get(text)) is not None and standing.is_id_member(member):
            return [TextChange(0, len(text), new)]
        if depth < _MAX_JSON_DEPTH and json_text.is_json_container(text):
            return [
                change
                for token in json_text.json_strings(text)
                for change in token.to_source_changes(
                    self.find_changes(token.value, token.member, depth + 1)
                )
            ]
        return self._find_within_text(text)

    def _find_within_text(self, text: str) -> list[TextChange]:
        spans = self._value_finder.find_spans(text)
        return [
            TextChange(begin, end, self._distinctive_replacements[text[begin:end]])
            for begin, end in spans
        ]


def value_replacements(
    stored_values: Mapping[str, str], request_values: Mapping[str, str]
) -> ValueReplacements:
    """The replacements for values that differ between two requests under the same alias.

    Both mappings are values by alias, of the stored and of the current request.  Redacted values
    are never replaced and never used as replacements.
    """
    new_by_recorded: dict[str, str] = {}
    for name, old in stored_values.items():
        if name not in request_values:
            continue
        recorded_value, new_value = (
            _expand_nested_aliases(old, stored_values),
            _expand_nested_aliases(request_values[name], request_values),
        )
        if recorded_value != new_value and not any(
            placeholder in text
            for placeholder in _SECRET_PLACEHOLDERS
            for text in (recorded_value, new_value)
        ):
            new_by_recorded.setdefault(recorded_value, new_value)
    return ValueReplacements(new_by_recorded)


def _expand_nested_aliases(value: str, value_by_alias: Mapping[str, str]) -> str:
    return _ALIAS.sub(lambda found: value_by_alias.get(found[0], found[0]), value)
