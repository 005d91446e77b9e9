"""A file of fixtures as a file of scenarios: each fixture is one, in their order.

The first fixture that fits answers, and so does the first scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import OTHERS
from llm_proxy.importing.aimock.matching import match
from llm_proxy.importing.aimock.responses import step
from llm_proxy.importing.aimock.timing import timing
from llm_proxy.importing.source import Loss, Opened, Refused, Unfit, Unreadable
from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.documents.loading import MAX_FILE, load
from llm_proxy.scenario.recorded.yaml_writing import block
from llm_proxy.turns import Json

TITLE: Final = "aimock"
"""Whose fixtures they are, for people."""

Fields = dict[str, Json]

MAX_FIXTURES: Final = 10_000
"""Of one file."""
MAX_SIZE: Final = 1024 * 1024
"""Bytes of a scenario's JSON."""

_SHOWN: Final = 80
_LONGEST: Final = 500
"""Characters of a reason, which may quote the file."""
_NAMED: Final = 10
"""Fixtures that a remark names."""
_DEEPEST: Final = 64
"""Values within each other of a scenario."""
_KNOWN: Final = (
    "match", "response", "latency", "chunkSize", "streamingProfile", "recordedTimings",
    "replaySpeed", "truncateAfterChunks", "disconnectAfterMs", "chaos", "metadata",
)  # fmt: skip
_REMARKS: Final = ("$", "_")
"""How names of fields begin that are for people."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """A fixture that is a scenario now."""

    number: int
    id: str
    losses: tuple[Loss, ...]
    """What of it the scenario does not say, or says otherwise."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file of fixtures as one of scenarios."""

    text: str
    """YAML, with remarks; empty where no fixture is a scenario."""
    results: tuple[Scripted | Refused, ...]
    """What became of each fixture."""


def claims(opened: Opened) -> bool:
    """Whether a file is one of fixtures."""
    document = opened.document
    fixtures = document.get("fixtures") if isinstance(document, dict) else None
    return isinstance(fixtures, list) and any(
        isinstance(it, dict) and "match" in it for it in fixtures[:1]
    )


def script(fixtures: Sequence[Any], name: str, source: str) -> Script:
    """The scenarios of fixtures; `name` begins their ids, and `source` is the file's, for people.

    Raises `Unreadable` where they are more than a file of scenarios may hold.
    """
    if len(fixtures) > MAX_FIXTURES:
        raise Unreadable(f"it holds more than {MAX_FIXTURES:,} fixtures: split it")
    results: list[Scripted | Refused] = []
    texts: list[str] = []
    for number, fixture in enumerate(fixtures, 1):
        try:
            scenario, losses = _scenario(fixture, number, name, source)
            texts.append(_spelled(scenario))
            results.append(Scripted(number, f"{name}-{number}", losses))
        except Unfit as error:
            results.append(Refused(number, printable(str(error), _LONGEST)))
    if not texts:
        return Script("", tuple(results))
    text = "".join((*_header(source, results), "scenarios:\n", *texts))
    if len(text.encode()) > MAX_FILE:
        raise Unreadable(f"its scenarios have more than {MAX_FILE >> 20} MiB: split it")
    return Script(text, tuple(results))


def _header(source: str, results: Sequence[Scripted | Refused]) -> Iterator[str]:
    """Where it comes from, what is said otherwise, and what is left out."""
    told = printable(source, _SHOWN)
    yield f"# Made by llm-proxy import of {told}, fixtures of aimock; edit it as you like.\n"
    by_loss: dict[Loss, list[int]] = {}
    for it in results:
        for loss in it.losses if isinstance(it, Scripted) else ():
            by_loss.setdefault(loss, []).append(it.number)
    for loss, numbers in by_loss.items():
        more = ", …" if len(numbers) > _NAMED else ""
        named = ", ".join(map(str, numbers[:_NAMED])) + more
        yield f"# Fixture {named}: {loss.text}.\n"
    for it in results:
        if isinstance(it, Refused):
            yield f"# Fixture {it.number} is left out: {it.why}.\n"


def _scenario(fixture: Any, number: int, name: str, source: str) -> tuple[Fields, tuple[Loss, ...]]:
    """The scenario of a fixture, and what it does not say.  Raises `Unfit`."""
    if not isinstance(fixture, dict) or not isinstance(fixture.get("match"), dict):
        raise Unfit("it has no match")
    if _depth(fixture) > _DEEPEST:
        raise Unfit(f"its values stand within each other more than {_DEEPEST} deep")
    matched, unmatched = match(fixture["match"])
    played, unsaid = step(fixture.get("response"))
    timed, untimed = ({}, []) if "failure_status" in played else timing(fixture)
    if _depth(played) > _DEEPEST:
        raise Unfit(f"the arguments of a call stand within each other more than {_DEEPEST} deep")
    strange = [it for it in fixture if it not in _KNOWN and not it.startswith(_REMARKS)]
    about: Fields = {
        "id": f"{name}-{number}",
        "description": _description(fixture["match"], number, source),
        "match": matched,
        **timed,
        "turns": [{"turn": ANY, **played}],
    }
    losses = [*unmatched, *unsaid, *untimed, *([OTHERS] if strange else [])]
    return about, tuple(dict.fromkeys(losses))


def _description(given: Fields, number: int, source: str) -> str:
    lines = lenient_json.text(given.get("userMessage")).strip().splitlines()
    said = f": {printable(lines[0].strip(), _SHOWN)}" if lines else ""
    return f"Fixture {number} of {printable(source, _SHOWN)}{said}"


def _spelled(scenario: Fields) -> str:
    """A scenario as it stands in a list of them.

    Raises `Unfit` for one that would not be loaded.
    """
    if len(lenient_json.compact(scenario)) > MAX_SIZE:
        raise Unfit(f"it has more than {MAX_SIZE >> 20} MiB")
    listed = block({"scenarios": [scenario]})
    loaded = load("scenario.yaml", listed.encode())
    wrong = [*loaded.mistakes, *(it for it in loaded.warnings if it.fails_lint)]
    if wrong:
        raise Unfit(f"no scenario can hold it: {wrong[0].message}")
    return listed.partition("\n")[2]


def _depth(value: Json, around: int = 0) -> int:
    """How deep values stand within each other; no deeper than is asked for."""
    if around > _DEEPEST or not isinstance(value, dict | list):
        return around
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(it, around + 1) for it in inner), default=around + 1)
