"""Chooses the scenario for a request.

The one that a header or the session names; else the one whose id the first user message is; else
the first, in file order, whose `match` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import PatternsTooSlow, printable
from llm_proxy.scenario.engine import unsigned_reasoning
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.engine.matcher import MatchBudget
from llm_proxy.scenario.engine.scenario_set import LocatedScenario, ScenarioSet

_SHOWN: Final = 80
"""Characters of an id in a message."""
_LONGEST: Final = 300
"""Characters of a scenario's place in a message."""


@dataclass(frozen=True, slots=True)
class ChosenScenario:
    """The scenario that answers, and why it does."""

    located: LocatedScenario
    reason: str


@dataclass(frozen=True, slots=True)
class NoScenario:
    """No scenario answers."""

    name: str
    """The id that was named, by a header, the session or the first user message."""
    was_named: bool
    """Whether it is a header or the session that names it."""


def choose_scenario(
    script: ScenarioSet, cue: MatchContext, clock: Callable[[], float]
) -> ChosenScenario | NoScenario:
    """The scenario for this request.

    `clock` gives the CPU time of this thread, in s.  Raises `PatternsTooSlow` with the scenario,
    where it stands, and the pattern of it that took too long.
    """
    named = cue.scenario
    if named:
        known = script.by_id.get(named)
        why = "a header or the session names it"
        return (
            ChosenScenario(known, why) if known is not None else NoScenario(named, was_named=True)
        )
    first = cue.conversation.first_user_text.strip()
    if first in script.by_id:
        return ChosenScenario(script.by_id[first], "the first user message is its id")
    effort = MatchBudget(clock)
    for scripted, matcher in script.compiled_matches:
        seen, _ = unsigned_reasoning.visible_request(scripted.scenario, cue)
        try:
            differs = any(matcher.mismatches(seen, effort))
        except PatternsTooSlow as error:
            place = f"{scripted.scenario.id} ({scripted.file}:{scripted.line})"
            raise PatternsTooSlow(f"Scenario {printable(place, _LONGEST)}: {error}") from None
        if not differs:
            return ChosenScenario(scripted, "its match holds")
    return NoScenario(first, was_named=False)


def no_scenario_message(script: ScenarioSet, unknown: NoScenario) -> str:
    """A sentence or two for the author of a request that no scenario answers."""
    if not unknown.name:
        return "The request has no user text to name a scenario."
    near = ", ".join(script.nearest_ids(unknown.name))
    hint = f" The nearest: {near}." if near else ""
    listed = " `llm-proxy scenario ls` lists all ids."
    return f"Scenario not found: {printable(unknown.name, _SHOWN)}.{hint}{listed}"
