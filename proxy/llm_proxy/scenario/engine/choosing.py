"""Which scenario a request is answered by.

The one that a header or the session names; else the one whose id the first user message is; else
the first, in file order, whose `match` holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import TooSlow, printable
from llm_proxy.scenario.engine import history
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.scenario.engine.matcher import Effort
from llm_proxy.scenario.engine.scenario_set import Script, Scripted

_SHOWN: Final = 80
"""Characters of an id in a message."""
_LONGEST: Final = 300
"""Characters of a scenario's place in a message."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The scenario that answers, and why it does."""

    scripted: Scripted
    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No scenario answers."""

    name: str
    """The id that was named, by a header, the session or the first user message."""
    is_meant: bool
    """Whether it is a header or the session that names it."""


def choose(script: Script, cue: Cue, clock: Callable[[], float]) -> Chosen | Unknown:
    """The scenario for this request.

    `clock` gives the CPU time of this thread, in s.  Raises `TooSlow` with the scenario, where it
    stands, and the pattern of it that took too long.
    """
    named = cue.scenario
    if named:
        known = script.by_id.get(named)
        why = "a header or the session names it"
        return Chosen(known, why) if known is not None else Unknown(named, is_meant=True)
    first = cue.conversation.first_user_text.strip()
    if first in script.by_id:
        return Chosen(script.by_id[first], "the first user message is its id")
    effort = Effort(clock)
    for scripted, matcher in script.matchers:
        seen, _ = history.view(scripted.scenario, cue)
        try:
            differs = any(matcher.differences(seen, effort))
        except TooSlow as error:
            place = f"{scripted.scenario.id} ({scripted.file}:{scripted.line})"
            raise TooSlow(f"Scenario {printable(place, _LONGEST)}: {error}") from None
        if not differs:
            return Chosen(scripted, "its match holds")
    return Unknown(first, is_meant=False)


def complaint(script: Script, unknown: Unknown) -> str:
    """A sentence or two for the author of a request that no scenario answers."""
    if not unknown.name:
        return "The request has no user text to name a scenario."
    near = ", ".join(script.nearest(unknown.name))
    hint = f" The nearest: {near}." if near else ""
    listed = " `llm-proxy scenario ls` lists all ids."
    return f"Scenario not found: {printable(unknown.name, _SHOWN)}.{hint}{listed}"
