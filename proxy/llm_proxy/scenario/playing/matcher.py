"""What a scenario's `match` asks of a request, compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

import jsonpath
from jsonpath import JSONPath
from jsonpath.exceptions import JSONPathError
from msgspec import UNSET

from llm_proxy.dialects import reading
from llm_proxy.errors import printable
from llm_proxy.scenario.documents.document import Condition, Match
from llm_proxy.scenario.playing.cue import Cue
from llm_proxy.turns import Json

_SHOWN: Final = 80
"""Characters of a value in a message."""
_SEARCHED: Final = 100_000
"""Characters of a text that an expression is searched in."""
_NAMES: Final = ("model", "path", "provider", "dialect", "session")


@dataclass(frozen=True, slots=True)
class Matcher:
    """A match, and its expressions and paths as they are searched for."""

    match: Match
    expressions: Mapping[str, re.Pattern[str]]
    paths: Mapping[str, JSONPath]

    @classmethod
    def of(cls, match: Match) -> Matcher:
        """The matcher of a match whose patterns are valid."""
        texts = (match.user, match.system, *(it.matches for it in match.json.values()))
        return cls(
            match,
            {it: re.compile(it) for it in texts if it},
            {it: cast("JSONPath", jsonpath.compile(it)) for it in match.json},
        )

    def differences(self, cue: Cue) -> Iterator[str]:
        """What of it does not hold, each in a few words; nothing where all of it does."""
        match, conversation = self.match, cue.conversation
        for name in _NAMES:
            pattern, value = getattr(match, name), getattr(cue, name)
            if pattern and not fnmatchcase(value, pattern):
                yield f"{name} is {printable(value, _SHOWN)!r}, not {pattern}"
        said = ((match.user, conversation.last_user_text), (match.system, conversation.system))
        for name, (pattern, text) in zip(("user", "system"), said, strict=True):
            if pattern and not self._is_in(pattern, text):
                yield f"{name}: /{pattern}/ is not in {printable(text, _SHOWN)!r}"
        if match.tool_results is not UNSET and match.tool_results != bool(conversation.results):
            came = bool(conversation.results)
            yield "results of tools came last" if came else "no result of a tool came"
        if match.turn is not UNSET and match.turn != conversation.turn:
            yield f"this is turn {conversation.turn}, not {match.turn}"
        for path, condition in match.json.items():
            yield from self._unmet(path, condition, self._found(path, cue.body))

    def _is_in(self, pattern: str, text: str) -> bool:
        return self.expressions[pattern].search(text[:_SEARCHED]) is not None

    def _found(self, path: str, body: Json) -> list[Json]:
        """The values at a path; none in a body that is too deep for it."""
        try:
            return cast("list[Json]", self.paths[path].findall(cast("Any", body) or {}))
        except (JSONPathError, RecursionError):
            return []

    def _unmet(self, path: str, condition: Condition, found: list[Json]) -> Iterator[str]:
        """What of a condition no value that was found meets."""
        if condition.exists is not UNSET and condition.exists != bool(found):
            yield f"{path} is there" if found else f"{path} is not there"
            return
        wanted = condition.equals
        if wanted is not UNSET and not any(reading.alike(it, wanted) for it in found):
            yield f"{path} is {_shown(found)}, not {reading.compact(wanted)}"
        pattern = condition.matches
        if pattern and not any(self._is_in(pattern, reading.words(it)) for it in found):
            yield f"{path}: /{pattern}/ is not in {_shown(found)}"


def _shown(found: list[Json]) -> str:
    return printable(", ".join(map(reading.compact, found)), _SHOWN) if found else "not there"
