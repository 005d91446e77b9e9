"""Explains why each scenario does or does not answer a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import PatternsTooSlow, printable_excerpt
from llm_proxy.scenario.engine import unsigned_reasoning
from llm_proxy.scenario.engine.choosing import ChosenScenario, NoScenario, no_scenario_message
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.engine.matcher import CompiledMatch, MatchBudget
from llm_proxy.scenario.engine.scenario_set import LocatedScenario, ScenarioSet

_MAX_SHOWN_CHARS: Final = 60
"""The most characters of a text in a reason."""


@dataclass(frozen=True, slots=True)
class ScenarioTrial:
    """Whether one scenario answers a request, and why."""

    located_scenario: LocatedScenario
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
    winner = chosen.located_scenario if isinstance(chosen, ChosenScenario) else None
    reason = (
        chosen.reason
        if isinstance(chosen, ChosenScenario)
        else no_scenario_message(scenario_set, chosen)
    )
    return [
        ScenarioTrial(
            located,
            located is winner,
            reason
            if located is winner
            else _mismatch_reason(located, context, winner, MatchBudget(clock)),
        )
        for located in scenario_set.scenarios
    ]


def _mismatch_reason(
    located: LocatedScenario,
    context: MatchContext,
    winner: LocatedScenario | None,
    budget: MatchBudget,
) -> str:
    if context.requested_scenario_id:
        return f"{printable_excerpt(context.requested_scenario_id, _MAX_SHOWN_CHARS)} is named"
    if located.scenario.match is None:
        text = context.conversation.first_user_text.strip()
        return f"the first user message is {printable_excerpt(text, _MAX_SHOWN_CHARS)!r}"
    visible_context, _ = unsigned_reasoning.context_visible_to_scenario(located.scenario, context)
    try:
        mismatches = "; ".join(
            CompiledMatch.compile(located.scenario.match).mismatch_reasons(visible_context, budget)
        )
    except PatternsTooSlow as error:
        return str(error)
    if mismatches or winner is None:
        return mismatches
    return (
        f"its match holds too, but {printable_excerpt(winner.scenario.id, _MAX_SHOWN_CHARS)} "
        "comes first"
    )
