"""A scenario's `match`, compiled once.

Regular expressions are those of `regex`, which can be given a time limit, and search without the
GIL.  Its limit counts the CPU time of the whole process, `MatchBudget` that of the thread alone:
where others use the processor meanwhile, a search that was stopped begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, cast

import regex
from msgspec import UNSET

from llm_proxy import json_paths
from llm_proxy.dialects import lenient_json
from llm_proxy.errors import JsonPathTooManySteps, PatternsTooSlow, printable
from llm_proxy.scenario.documents.document import ScenarioMatch, ValueCondition
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.turns import Json

_SHOWN: Final = 80
"""Characters of a value in a message."""
_SEARCHED: Final = 100_000
"""Characters of a text that an expression is searched in."""
_MOST: Final = 0.05
"""CPU time of all expressions that are searched for one request, in s."""
_NAMES: Final = ("model", "path", "provider", "dialect", "session")


class MatchBudget:
    """What the patterns of all scenarios may still cost for one request."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives the CPU time of this thread, in s."""
        self._step_budget = json_paths.StepBudget()
        self._found_values: dict[str, list[Json]] = {}
        self._clock = clock
        self._left = _MOST

    def find_values(self, spelled: str, path: json_paths.CountedPath, body: Json) -> list[Json]:
        """What a path, spelled so, finds in the body of the request.

        Raises `JsonPathTooManySteps`.
        """
        if spelled not in self._found_values:
            nodes = json_paths.find_nodes(path, body, self._step_budget)
            self._found_values[spelled] = [cast("Json", node.obj) for node in nodes]
        return self._found_values[spelled]

    def search(self, pattern: regex.Pattern[str], text: str) -> bool:
        """Whether the pattern is found.  Raises `TimeoutError`."""
        while self._left > 0:
            before = self._clock()
            try:
                return pattern.search(text, concurrent=True, timeout=self._left) is not None
            except TimeoutError:
                continue
            finally:
                self._left -= self._clock() - before
        raise TimeoutError


@dataclass(frozen=True, slots=True)
class CompiledMatch:
    """A match, and its expressions and paths as they are searched for."""

    match: ScenarioMatch
    expressions: Mapping[str, regex.Pattern[str]]
    paths: Mapping[str, json_paths.CountedPath]

    @classmethod
    def compile(cls, match: ScenarioMatch) -> CompiledMatch:
        """The matcher of a match whose patterns are valid."""
        texts = (
            match.user,
            match.system,
            *(value_condition.matches for value_condition in match.json.values()),
        )
        return cls(
            match,
            {text: regex.compile(text) for text in texts if text},
            {text: json_paths.compile_path(text) for text in match.json},
        )

    @property
    def has_slow_patterns(self) -> bool:
        """Whether it has patterns that may take their time."""
        return bool(self.expressions or self.paths)

    def mismatches(self, cue: MatchContext, effort: MatchBudget) -> Iterator[str]:
        """What of it does not hold, each in a few words; nothing where all of it does.

        Raises `PatternsTooSlow`, which names the pattern.
        """
        match, conversation = self.match, cue.conversation
        for name in _NAMES:
            pattern, value = getattr(match, name), getattr(cue, name)
            if pattern and not fnmatchcase(value, pattern):
                yield f"{name} is {printable(value, _SHOWN)!r}, not {pattern}"
        values = ((match.user, conversation.last_user_text), (match.system, conversation.system))
        for name, (pattern, text) in zip(("user", "system"), values, strict=True):
            if pattern and not self._is_found_in(f"match.{name}", pattern, text, effort):
                yield f"{name}: /{pattern}/ is not in {printable(text, _SHOWN)!r}"
        if match.tool_results is not UNSET and match.tool_results != bool(conversation.results):
            came = bool(conversation.results)
            yield "results of tools came last" if came else "no result of a tool came"
        if match.turn is not UNSET and match.turn != conversation.turn:
            yield f"this is turn {conversation.turn}, not {match.turn}"
        for path, condition in match.json.items():
            yield from self._unmet_conditions(
                path, condition, self._values_at_path(path, cue.body, effort), effort
            )

    def _values_at_path(self, path: str, body: Json, effort: MatchBudget) -> list[Json]:
        """The values at a path; none in a body that is too deep for it."""
        try:
            return effort.find_values(path, self.paths[path], body or {})
        except JsonPathTooManySteps as error:
            raise PatternsTooSlow(f"match.json: {printable(path, _SHOWN)} {error}") from None

    def _is_found_in(self, where: str, pattern: str, text: str, effort: MatchBudget) -> bool:
        searched = text[:_SEARCHED]
        try:
            return effort.search(self.expressions[pattern], searched)
        except TimeoutError:
            raise PatternsTooSlow(
                f"{where}: the patterns tried on this request took more than {_MOST * 1000:g} ms, "
                f"the last /{printable(pattern, _SHOWN)}/ on {len(searched):,} characters"
            ) from None

    def _unmet_conditions(
        self, path: str, condition: ValueCondition, found: list[Json], effort: MatchBudget
    ) -> Iterator[str]:
        if condition.exists is not UNSET and condition.exists != bool(found):
            yield f"{path} is there" if found else f"{path} is not there"
            return
        wanted = condition.equals
        if wanted is not UNSET and not any(
            lenient_json.is_same_json(value, wanted) for value in found
        ):
            yield f"{path} is {_displayed_values(found)}, not {lenient_json.compact_json(wanted)}"
        pattern = condition.matches
        if pattern and not any(
            self._is_found_in(
                f"match.json[{path}]", pattern, lenient_json.printable_text(value), effort
            )
            for value in found
        ):
            yield f"{path}: /{pattern}/ is not in {_displayed_values(found)}"


def _displayed_values(found: list[Json]) -> str:
    return (
        printable(", ".join(map(lenient_json.compact_json, found)), _SHOWN)
        if found
        else "not there"
    )
