"""Replaces recorded values by those of the requesting client.

    aliases of both requests ──▶ values ──▶ text changes ──▶ byte edits ──▶ the recording

Match rules replace values that differ in each run, such as ids and folders, by aliases.  If a
recording answers a request that has other values for the same aliases, the recorded response
contains the recorded values.  The client would go on to use them, so they are replaced by its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_edits import edit_cassette, edit_message_texts
from llm_proxy.matching import value_finder
from llm_proxy.message_texts import (
    TextChange,
    escape_json_text,
    is_id_member,
    is_json_container,
    json_strings,
)
from llm_proxy.redaction.placeholders import PLACEHOLDER_PATTERN

_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_NUMBER_MEMBER: Final = re.compile(r'("[^"\\]{1,64}":)\s{0,9}([0-9]{1,20})(?![\w.])')
"""A member with a number in JSON."""
_MAX_JSON_DEPTH: Final = 3
"""The deepest nesting of JSON within JSON strings that is parsed."""


class ValueReplacements:
    """Maps recorded values to the new values that replace them."""

    def __init__(self, new_by_recorded: Mapping[str, str]) -> None:
        self.new_by_recorded = new_by_recorded
        # Distinctive values are replaced within texts, raw and JSON-escaped.
        raw = {old: new for old, new in new_by_recorded.items() if value_finder.is_distinctive(old)}
        escaped = {escape_json_text(old): escape_json_text(new) for old, new in raw.items()}
        self._new_by_distinctive = escaped | raw
        self._finder = value_finder.ValueFinder(self._new_by_distinctive)
        self.has_number_members = any(map(_NUMBER_MEMBER.fullmatch, new_by_recorded))
        """Whether numbers are replaced, which are values with the name of their member:
        `"port":43121`."""

    def __bool__(self) -> bool:
        return bool(self.new_by_recorded)

    def find_changes(
        self, text: str, member: str = "", piece_starts: Sequence[int] = (), depth: int = 0
    ) -> list[TextChange]:
        """The changes that replace recorded values in a text, from left to right.

        `member` is the name of the member that contains the text: a short value only counts as an
        id.  A text that is itself JSON is parsed, down to a limit of `depth`.
        """
        new = self.new_by_recorded.get(text)
        if new is not None and is_id_member(member):
            return [TextChange(0, len(text), new)]
        if depth < _MAX_JSON_DEPTH and is_json_container(text):
            changes = [
                change
                for string in json_strings(text)
                for change in string.to_source_changes(
                    self.find_changes(string.value, string.member, (), depth + 1)
                )
            ]
            changes += self.find_number_changes(text)
            return sorted(changes, key=attrgetter("begin"))
        return [
            TextChange(begin, end, self._new_by_distinctive[text[begin:end]])
            for begin, end in self._finder.find_spans(text)
        ]

    def find_number_changes(self, text: str) -> list[TextChange]:
        """The changes that replace recorded numbers in a JSON document."""
        if not self.has_number_members:
            return []
        return [
            TextChange(found.start(2), found.end(2), new.removeprefix(found[1]))
            for found in _NUMBER_MEMBER.finditer(text)
            if (new := self.new_by_recorded.get(found[1] + found[2])) is not None
        ]


def value_replacements(
    stored_values: Mapping[str, str], request_values: Mapping[str, str]
) -> ValueReplacements:
    """The replacements for values that differ between two requests under the same alias.

    Both mappings are values by alias, of the stored and of the current request.  Redacted values
    are never replaced and never used as replacements.
    """
    new_by_recorded: dict[str, str] = {}
    for alias, recorded in stored_values.items():
        if alias not in request_values:
            continue
        old = _expand_nested_aliases(recorded, stored_values)
        new = _expand_nested_aliases(request_values[alias], request_values)
        is_redacted = any(PLACEHOLDER_PATTERN.search(value) for value in (old, new))
        if old != new and not is_redacted:
            new_by_recorded.setdefault(old, new)
    return ValueReplacements(new_by_recorded)


def _expand_nested_aliases(value: str, value_by_alias: Mapping[str, str]) -> str:
    return _ALIAS.sub(lambda found: value_by_alias.get(found[0], found[0]), value)


def replace_recorded_values(
    cassette: Cassette,
    replacements: ValueReplacements,
    counted_texts: Collection[tuple[str, str]] = (),
) -> tuple[Cassette, int]:
    """The cassette with its values replaced, and their number; the same object if 0.

    `counted_texts` are those of its dialect.
    """
    if not replacements:
        return cassette, 0
    edited, count = edit_cassette(cassette, replacements.find_changes, counted_texts)
    if replacements.has_number_members:
        with_texts = edited
        edited = edit_message_texts(with_texts, replacements.find_number_changes)
        count += edited is not with_texts
    return edited, count
