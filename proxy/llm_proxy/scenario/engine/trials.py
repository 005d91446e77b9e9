"""Explains why each scenario does or does not answer a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import PatternsTooSlow, printable
from llm_proxy.scenario.engine import unsigned_reasoning
from llm_proxy.scenario.engine.choosing import ChosenScenario, NoScenario, no_scenario_message
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.engine.matcher import CompiledMatch, MatchBudget
from llm_proxy.scenario.engine.scenario_set import LocatedScenario, ScenarioSet

_SHOWN: Final = 60
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class ScenarioTrial:
    """One scenario, held against a request."""

    located: LocatedScenario
    is_chosen: bool
    reason: str
    """Why it does, or does not."""


def try_scenarios(
    script: ScenarioSet,
    cue: MatchContext,
    chosen: ChosenScenario | NoScenario,
    clock: Callable[[], float],
) -> list[ScenarioTrial]:
    """Every scenario in file order; at most one of them answers.

    `clock` gives the CPU time of this thread, in s.
    """
    winner = chosen.located if isinstance(chosen, ChosenScenario) else None
    reason = (
        chosen.reason if isinstance(chosen, ChosenScenario) else no_scenario_message(script, chosen)
    )
    return [
        ScenarioTrial(
            scenario,
            scenario is winner,
            reason
            if scenario is winner
            else _mismatch_reason(scenario, cue, winner, MatchBudget(clock)),
        )
        for scenario in script.scenarios
    ]


def _mismatch_reason(
    located_scenario: LocatedScenario,
    cue: MatchContext,
    winner: LocatedScenario | None,
    effort: MatchBudget,
) -> str:
    if cue.scenario:
        return f"{printable(cue.scenario, _SHOWN)} is named"
    if located_scenario.scenario.match is None:
        text = cue.conversation.first_user_text.strip()
        return f"the first user message is {printable(text, _SHOWN)!r}"
    seen, _ = unsigned_reasoning.visible_request(located_scenario.scenario, cue)
    try:
        unmet = "; ".join(
            CompiledMatch.compile(located_scenario.scenario.match).mismatches(seen, effort)
        )
    except PatternsTooSlow as error:
        return str(error)
    if unmet or winner is None:
        return unmet
    return f"its match holds too, but {printable(winner.scenario.id, _SHOWN)} comes first"
