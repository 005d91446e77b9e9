"""Chooses the scenario for a request.

The one that a header or the session names; else the one whose id is the first user message; else
the first, in file order, whose `match` holds.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Final

from llm_proxy.errors import PatternsTooSlow, printable_excerpt
from llm_proxy.scenario.documents.document import MockSpec, Scenario
from llm_proxy.scenario.documents.mistakes import Located
from llm_proxy.scenario.engine.matcher import (
    CompiledMatch,
    MatchBudget,
    MatchContext,
    context_visible_to_scenario,
)

_MAX_SUGGESTED_IDS: Final = 3
"""Similar ids in an error message."""
_MAX_ID_CHARS: Final = 200
"""Longer texts are not meant as an id, so nothing is suggested for them."""
_MAX_COMPARED_IDS: Final = 1000
"""If there are more ids, only those with the longest common prefix are compared."""
_MAX_SHOWN_CHARS: Final = 80
"""The most characters of an id in a message."""
_MAX_TRIED_CHARS: Final = 60
"""The most characters of a text in the reason of a trial."""
_MAX_LOCATION_CHARS: Final = 300
"""The most characters of a scenario's id, file and line in a message."""


@dataclass(frozen=True)
class ScenarioSet:
    """All scenarios of a run, and its mock."""

    scenarios: tuple[Located[Scenario], ...] = ()
    mock: MockSpec | None = None

    @cached_property
    def scenarios_by_id(self) -> dict[str, Located[Scenario]]:
        """By id; the first of several with the same id."""
        return {located.value.id: located for located in reversed(self.scenarios)}

    @cached_property
    def named_models(self) -> tuple[str, ...]:
        """The models without wildcards in `match.model`, for model lists; `test-llm` if none."""
        patterns = (located.value.match.model for located in self.scenarios if located.value.match)
        models = (pattern for pattern in patterns if pattern and not set(pattern) & set("*?["))
        return tuple(dict.fromkeys(models)) or ("test-llm",)

    @cached_property
    def compiled_matches(self) -> tuple[tuple[Located[Scenario], CompiledMatch], ...]:
        """The scenarios with a `match`, compiled, in file order."""
        return tuple(
            (located, CompiledMatch.compile(located.value.match))
            for located in self.scenarios
            if located.value.match
        )

    @cached_property
    def may_match_slowly(self) -> bool:
        """Whether any `match` has regular expressions or JSONPaths."""
        return any(
            matcher.compiled_patterns or matcher.compiled_paths
            for _, matcher in self.compiled_matches
        )

    def nearest_ids(self, scenario_id: str) -> list[str]:
        """Up to 3 known ids similar to this one; none for a text over 200 characters."""
        if len(scenario_id) > _MAX_ID_CHARS:
            return []
        ids = list(self.scenarios_by_id)
        if len(ids) > _MAX_COMPARED_IDS:

            def common_prefix_length(known_id: str) -> int:
                pairs = zip(known_id, scenario_id, strict=False)
                return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

            ids = heapq.nlargest(_MAX_COMPARED_IDS, ids, common_prefix_length)
        return difflib.get_close_matches(scenario_id, ids, _MAX_SUGGESTED_IDS)


@dataclass(frozen=True, slots=True)
class ChosenScenario:
    """The scenario that answers, and why it was chosen."""

    located_scenario: Located[Scenario]
    reason: str


@dataclass(frozen=True, slots=True)
class NoScenario:
    """No scenario answers."""

    requested_id: str
    """The id in a header, of the session, or else in the first user message."""
    is_explicit: bool
    """Whether a header or the session named it."""


def choose_scenario(
    scenario_set: ScenarioSet, context: MatchContext, clock: Callable[[], float]
) -> ChosenScenario | NoScenario:
    """The scenario for this request.

    `clock` returns the CPU time of this thread, in s.  Raises `PatternsTooSlow` with the scenario,
    its file and line, and the pattern that took too long.
    """
    if requested_id := context.requested_scenario_id:
        if requested_id not in scenario_set.scenarios_by_id:
            return NoScenario(requested_id, is_explicit=True)
        return ChosenScenario(
            scenario_set.scenarios_by_id[requested_id], "a header or the session names it"
        )
    first_user_text = context.conversation.first_user_text.strip()
    if first_user_text in scenario_set.scenarios_by_id:
        return ChosenScenario(
            scenario_set.scenarios_by_id[first_user_text], "the first user message is its id"
        )
    budget = MatchBudget(clock)
    for located, matcher in scenario_set.compiled_matches:
        visible_context, _ = context_visible_to_scenario(located.value, context)
        try:
            is_mismatch = any(matcher.mismatch_reasons(visible_context, budget))
        except PatternsTooSlow as error:
            location = f"{located.value.id} ({located.file}:{located.line})"
            raise PatternsTooSlow(
                f"Scenario {printable_excerpt(location, _MAX_LOCATION_CHARS)}: {error}"
            ) from None
        if not is_mismatch:
            return ChosenScenario(located, "its match holds")
    return NoScenario(first_user_text, is_explicit=False)


def no_scenario_message(scenario_set: ScenarioSet, no_scenario: NoScenario) -> str:
    """The error message for a request that no scenario answers, with similar ids."""
    if not no_scenario.requested_id:
        return "The request has no user text to name a scenario."
    suggestions = ", ".join(scenario_set.nearest_ids(no_scenario.requested_id))
    hint = f" The nearest: {suggestions}." if suggestions else ""
    return (
        "Scenario not found: "
        f"{printable_excerpt(no_scenario.requested_id, _MAX_SHOWN_CHARS)}.{hint} "
        "`llm-proxy scenario ls` lists all ids."
    )


@dataclass(frozen=True, slots=True)
class ScenarioTrial:
    """Whether one scenario answers a request, and why."""

    located_scenario: Located[Scenario]
    is_chosen: bool
    reason: str
    """Why it is chosen or not."""


def try_each_scenario(
    scenario_set: ScenarioSet,
    context: MatchContext,
    chosen: ChosenScenario | NoScenario,
    clock: Callable[[], float],
) -> list[ScenarioTrial]:
    """One trial per scenario, in file order; at most one is chosen.

    `clock` returns the CPU time of this thread, in s.
    """
    trials = []
    for located in scenario_set.scenarios:
        is_chosen = isinstance(chosen, ChosenScenario) and located is chosen.located_scenario
        reason = (
            chosen.reason
            if isinstance(chosen, ChosenScenario) and is_chosen
            else _mismatch_reason(located, context, chosen, MatchBudget(clock))
        )
        trials.append(ScenarioTrial(located, is_chosen, reason))
    return trials


def _mismatch_reason(
    located: Located[Scenario],
    context: MatchContext,
    chosen: ChosenScenario | NoScenario,
    budget: MatchBudget,
) -> str:
    if context.requested_scenario_id:
        return f"{printable_excerpt(context.requested_scenario_id, _MAX_TRIED_CHARS)} is named"
    if located.value.match is None:
        text = context.conversation.first_user_text.strip()
        return f"the first user message is {printable_excerpt(text, _MAX_TRIED_CHARS)!r}"
    visible_context, _ = context_visible_to_scenario(located.value, context)
    try:
        mismatches = "; ".join(
            CompiledMatch.compile(located.value.match).mismatch_reasons(visible_context, budget)
        )
    except PatternsTooSlow as error:
        return str(error)
    if mismatches or isinstance(chosen, NoScenario):
        return mismatches
    winner_id = printable_excerpt(chosen.located_scenario.value.id, _MAX_TRIED_CHARS)
    return f"its match holds too, but {winner_id} comes first"
