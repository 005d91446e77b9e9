"""All scenarios of a run, in file order."""

from __future__ import annotations

import difflib
import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from llm_proxy.scenario.documents.document import Mock, Scenario
from llm_proxy.scenario.engine.matcher import Matcher

_NEAREST: Final = 3
"""Ids that a mistake names."""
_LONGEST: Final = 200
"""Characters of what may be meant for an id."""
_COMPARED: Final = 1000
"""Ids that are compared closely, at most: those that begin most like the one in question."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A scenario, and where it stands."""

    scenario: Scenario
    file: str
    line: int


@dataclass(frozen=True)
class Script:
    """What a run plays by."""

    scenarios: tuple[Scripted, ...] = ()
    mock: Mock | None = None

    @cached_property
    def by_id(self) -> dict[str, Scripted]:
        """The scenarios by the id that requests name; of two, the first."""
        return {it.scenario.id: it for it in reversed(self.scenarios)}

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models that scenarios name, for lists of models; `test-llm` where they name none."""
        patterns = (it.scenario.match.model for it in self.scenarios if it.scenario.match)
        named = (it for it in patterns if it and not set(it) & set("*?["))
        return tuple(dict.fromkeys(named)) or ("test-llm",)

    @cached_property
    def matchers(self) -> tuple[tuple[Scripted, Matcher], ...]:
        """The scenarios that are chosen by what a request is like, in file order."""
        return tuple(
            (it, Matcher.of(it.scenario.match)) for it in self.scenarios if it.scenario.match
        )

    @cached_property
    def searches(self) -> bool:
        """Whether choosing may take its time."""
        return any(matcher.searches for _, matcher in self.matchers)

    def nearest(self, name: str) -> list[str]:
        """The ids most like this one, if any is; none is like a long text."""
        if len(name) > _LONGEST:
            return []
        ids = list(self.by_id)
        if len(ids) > _COMPARED:
            ids = heapq.nlargest(_COMPARED, ids, lambda it: _shared(it, name))
        return difflib.get_close_matches(name, ids, _NEAREST)


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
