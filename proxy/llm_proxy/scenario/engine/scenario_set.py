"""All scenarios of a run, in file order."""

from __future__ import annotations

import difflib
import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from llm_proxy.scenario.documents.document import MockSpec, Scenario
from llm_proxy.scenario.engine.matcher import CompiledMatch

_NEAREST: Final = 3
"""Ids that a mistake names."""
_LONGEST: Final = 200
"""Characters of what may be meant for an id."""
_COMPARED: Final = 1000
"""Ids that are compared closely, at most: those that begin most like the one in question."""


@dataclass(frozen=True, slots=True)
class LocatedScenario:
    """A scenario, and where it stands."""

    scenario: Scenario
    file: str
    line: int


@dataclass(frozen=True)
class ScenarioSet:
    """What a run plays by."""

    scenarios: tuple[LocatedScenario, ...] = ()
    mock: MockSpec | None = None

    @cached_property
    def by_id(self) -> dict[str, LocatedScenario]:
        """The scenarios by the id that requests name; of two, the first."""
        return {scenario.scenario.id: scenario for scenario in reversed(self.scenarios)}

    @cached_property
    def named_models(self) -> tuple[str, ...]:
        """The models that scenarios name, for lists of models; `test-llm` where they name none."""
        patterns = (
            scenario.scenario.match.model for scenario in self.scenarios if scenario.scenario.match
        )
        named = (pattern for pattern in patterns if pattern and not set(pattern) & set("*?["))
        return tuple(dict.fromkeys(named)) or ("test-llm",)

    @cached_property
    def compiled_matches(self) -> tuple[tuple[LocatedScenario, CompiledMatch], ...]:
        """The scenarios that are chosen by what a request is like, in file order."""
        return tuple(
            (scenario, CompiledMatch.compile(scenario.scenario.match))
            for scenario in self.scenarios
            if scenario.scenario.match
        )

    @cached_property
    def has_slow_patterns(self) -> bool:
        """Whether choosing may take its time."""
        return any(matcher.has_slow_patterns for _, matcher in self.compiled_matches)

    def nearest_ids(self, name: str) -> list[str]:
        """The ids most like this one, if any is; none is like a long text."""
        if len(name) > _LONGEST:
            return []
        ids = list(self.by_id)
        if len(ids) > _COMPARED:
            ids = heapq.nlargest(_COMPARED, ids, lambda text: _common_prefix_length(text, name))
        return difflib.get_close_matches(name, ids, _NEAREST)


def _common_prefix_length(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
