"""Which scenario a request is answered by.

The one that a header or the session names; else the one whose id the first user message is; else
the first, in file order, whose `match` holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

import jsonpath
from msgspec import UNSET

from llm_proxy.dialects import reading
from llm_proxy.errors import printable
from llm_proxy.scenario.documents.document import Condition, Match
from llm_proxy.scenario.playing import history
from llm_proxy.scenario.playing.cue import Cue
from llm_proxy.scenario.playing.script import Script, Scripted
from llm_proxy.turns import Json

_SHOWN: Final = 80
"""Characters of an id in a message."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The scenario that answers, and why it does."""

    scripted: Scripted
    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No scenario answers."""

    why: str
    """A sentence or two for the author of the request."""


def choose(script: Script, cue: Cue) -> Chosen | Unknown:
    """The scenario for this request."""
    named = cue.scenario
    first = cue.conversation.first_user_text.strip()
    if named and named in script.by_id:
        return Chosen(script.by_id[named], "a header or the session names it")
    if not named and first in script.by_id:
        return Chosen(script.by_id[first], "the first user message is its id")
    if not named:
        for scripted in script.scenarios:
            match = scripted.scenario.match
            if match is not None and not any(
                differences(match, history.view(scripted.scenario, cue)[0])
            ):
                return Chosen(scripted, "its match holds")
    return Unknown(_unknown(script, named or first))


def _unknown(script: Script, name: str) -> str:
    if not name:
        return "The request has no user text to name a scenario."
    near = ", ".join(script.nearest(name))
    hint = f" The nearest: {near}." if near else ""
    listed = " `llm-proxy scenario ls` lists all ids."
    return f"Scenario not found: {printable(name, _SHOWN)}.{hint}{listed}"


def differences(match: Match, cue: Cue) -> Iterator[str]:
    """What of a `match` does not hold, each in a few words; nothing where all of it does."""
    conversation = cue.conversation
    for name in ("model", "path", "provider", "dialect", "session"):
        pattern, value = getattr(match, name), getattr(cue, name)
        if pattern and not fnmatchcase(value, pattern):
            yield f"{name} is {value!r}, not {pattern}"
    for name, text in (("user", conversation.last_user_text), ("system", conversation.system)):
        pattern = getattr(match, name)
        if pattern and re.search(pattern, text) is None:
            yield f"{name}: /{pattern}/ is not in {printable(text, _SHOWN)!r}"
    if match.tool_results is not UNSET and match.tool_results != bool(conversation.results):
        yield "results of tools came last" if conversation.results else "no result of a tool came"
    if match.turn is not UNSET and match.turn != conversation.turn:
        yield f"this is turn {conversation.turn}, not {match.turn}"
    for path, condition in match.json.items():
        found = cast("list[Json]", jsonpath.findall(path, cast("Any", cue.body) or {}))
        yield from _unmet(path, condition, found)


def _unmet(path: str, condition: Condition, found: list[Json]) -> Iterator[str]:
    """What of a condition no value that was found meets."""
    if condition.exists is not UNSET and condition.exists != bool(found):
        yield f"{path} is there" if found else f"{path} is not there"
        return
    if condition.equals is not UNSET and condition.equals not in found:
        yield f"{path} is {_shown(found)}, not {reading.compact(condition.equals)}"
    pattern = condition.matches
    if pattern and not any(re.search(pattern, reading.words(it)) for it in found):
        yield f"{path}: /{pattern}/ is not in {_shown(found)}"


def _shown(found: list[Json]) -> str:
    return printable(", ".join(map(reading.compact, found)), _SHOWN) if found else "not there"
