"""Chooses the scenario for a request.

The one that a header or the session names; else the one whose id is the first user message; else
the first, in file order, whose `match` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import PatternsTooSlow, printable_excerpt
from llm_proxy.scenario.engine import unsigned_reasoning
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.engine.matcher import MatchBudget
from llm_proxy.scenario.engine.scenario_set import LocatedScenario, ScenarioSet

_MAX_SHOWN_CHARS: Final = 80
"""The most characters of an id in a message."""
_MAX_LOCATION_CHARS: Final = 300
"""The most characters of a scenario's id, file and line in a message."""


@dataclass(frozen=True, slots=True)
class ChosenScenario:
    """The scenario that answers, and why it was chosen."""

    located_scenario: LocatedScenario
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
    requested_id = context.requested_scenario_id
    if requested_id:
        named_scenario = scenario_set.scenarios_by_id.get(requested_id)
        reason = "a header or the session names it"
        return (
            ChosenScenario(named_scenario, reason)
            if named_scenario is not None
            else NoScenario(requested_id, is_explicit=True)
        )
    first_user_text = context.conversation.first_user_text.strip()
    if first_user_text in scenario_set.scenarios_by_id:
        return ChosenScenario(
            scenario_set.scenarios_by_id[first_user_text], "the first user message is its id"
        )
    budget = MatchBudget(clock)
    for located, matcher in scenario_set.compiled_matches:
        visible_context, _ = unsigned_reasoning.context_visible_to_scenario(
            located.scenario, context
        )
        try:
            is_mismatch = any(matcher.mismatch_reasons(visible_context, budget))
        except PatternsTooSlow as error:
            location = f"{located.scenario.id} ({located.file}:{located.line})"
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
    list_hint = " `llm-proxy scenario ls` lists all ids."
    return (
        "Scenario not found: "
        f"{printable_excerpt(no_scenario.requested_id, _MAX_SHOWN_CHARS)}.{hint}{list_hint}"
    )
