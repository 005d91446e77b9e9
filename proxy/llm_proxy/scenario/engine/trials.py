"""Why each scenario does or does not answer a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import TooSlow, printable
from llm_proxy.scenario.engine import history
from llm_proxy.scenario.engine.choosing import Chosen, Unknown, complaint
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.scenario.engine.matcher import Effort, Matcher
from llm_proxy.scenario.engine.scenario_set import Script, Scripted

_SHOWN: Final = 60
"""Characters of a text that are shown."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One scenario, held against a request."""

    scripted: Scripted
    answers: bool
    why: str
    """Why it does, or does not."""


def trials(
    script: Script, cue: Cue, chosen: Chosen | Unknown, clock: Callable[[], float]
) -> list[Trial]:
    """Every scenario in file order; at most one of them answers.

    `clock` gives the CPU time of this thread, in s.
    """
    winner = chosen.scripted if isinstance(chosen, Chosen) else None
    reason = chosen.why if isinstance(chosen, Chosen) else complaint(script, chosen)
    return [
        Trial(
            it, it is winner, reason if it is winner else _why_not(it, cue, winner, Effort(clock))
        )
        for it in script.scenarios
    ]


def _why_not(it: Scripted, cue: Cue, winner: Scripted | None, effort: Effort) -> str:
    if cue.scenario:
        return f"{printable(cue.scenario, _SHOWN)} is named"
    if it.scenario.match is None:
        said = cue.conversation.first_user_text.strip()
        return f"the first user message is {printable(said, _SHOWN)!r}"
    seen, _ = history.view(it.scenario, cue)
    try:
        unmet = "; ".join(Matcher.of(it.scenario.match).differences(seen, effort))
    except TooSlow as error:
        return str(error)
    if unmet or winner is None:
        return unmet
    return f"its match holds too, but {printable(winner.scenario.id, _SHOWN)} comes first"
