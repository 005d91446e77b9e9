"""All scenarios of a run, in file order."""

from __future__ import annotations

import difflib
import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from llm_proxy.scenario.documents.document import MockSpec, Scenario
from llm_proxy.scenario.engine.matcher import CompiledMatch

_MAX_SUGGESTED_IDS: Final = 3
"""Similar ids in an error message."""
_MAX_ID_CHARS: Final = 200
"""Longer texts are not meant as an id, so nothing is suggested for them."""
_MAX_COMPARED_IDS: Final = 1000
"""If there are more ids, only those with the longest common prefix are compared."""


@dataclass(frozen=True, slots=True)
class LocatedScenario:
    """A scenario with its file and line."""

    scenario: Scenario
    file: str
    line: int


@dataclass(frozen=True)
class ScenarioSet:
    """All scenarios of a run, and its mock."""

    scenarios: tuple[LocatedScenario, ...] = ()
    mock: MockSpec | None = None

    @cached_property
    def scenarios_by_id(self) -> dict[str, LocatedScenario]:
        """By id; the first of several with the same id."""
        return {located.scenario.id: located for located in reversed(self.scenarios)}

    @cached_property
    def named_models(self) -> tuple[str, ...]:
        """The models without wildcards in `match.model`, for model lists; `test-llm` if none."""
        patterns = (
            located.scenario.match.model for located in self.scenarios if located.scenario.match
        )
        models = (pattern for pattern in patterns if pattern and not set(pattern) & set("*?["))
        return tuple(dict.fromkeys(models)) or ("test-llm",)

    @cached_property
    def compiled_matches(self) -> tuple[tuple[LocatedScenario, CompiledMatch], ...]:
        """The scenarios with a `match`, compiled, in file order."""
        return tuple(
            (located, CompiledMatch.compile(located.scenario.match))
            for located in self.scenarios
            if located.scenario.match
        )

    @cached_property
    def may_match_slowly(self) -> bool:
        """Whether any `match` has regular expressions or JSONPaths."""
        return any(matcher.may_match_slowly for _, matcher in self.compiled_matches)

    def nearest_ids(self, scenario_id: str) -> list[str]:
        """Up to 3 known ids similar to this one; none for a text over 200 characters."""
        if len(scenario_id) > _MAX_ID_CHARS:
            return []
        ids = list(self.scenarios_by_id)
        if len(ids) > _MAX_COMPARED_IDS:
            ids = heapq.nlargest(
                _MAX_COMPARED_IDS,
                ids,
                lambda known_id: _common_prefix_length(known_id, scenario_id),
            )
        return difflib.get_close_matches(scenario_id, ids, _MAX_SUGGESTED_IDS)


def _common_prefix_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
