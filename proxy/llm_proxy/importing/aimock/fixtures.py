"""Converts a fixture file into a scenario file.

The first fixture that fits answers, and so does the first scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import OTHERS
from llm_proxy.importing.aimock.matching import scenario_match
from llm_proxy.importing.aimock.responses import response_step
from llm_proxy.importing.aimock.timing import timing_fields
from llm_proxy.importing.source import (
    ImportLoss,
    NotImportable,
    OpenedFile,
    RefusedItem,
    UnreadableFile,
)
from llm_proxy.scenario.documents.fields import ANY
from llm_proxy.scenario.documents.loading import MAX_FILE, load_file
from llm_proxy.scenario.recorded.yaml_writing import yaml_block
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
class ConvertedFixture:
    """A fixture that is a scenario now."""

    number: int
    id: str
    losses: tuple[ImportLoss, ...]
    """What of it the scenario does not say, or says otherwise."""


@dataclass(frozen=True, slots=True)
class FixtureScenarios:
    """A file of fixtures as one of scenarios."""

    text: str
    """YAML, with remarks; empty where no fixture is a scenario."""
    results: tuple[ConvertedFixture | RefusedItem, ...]
    """What became of each fixture."""


def is_fixture_file(opened: OpenedFile) -> bool:
    """Whether a file is one of fixtures."""
    document = opened.document
    fixtures = document.get("fixtures") if isinstance(document, dict) else None
    return isinstance(fixtures, list) and any(
        isinstance(fixture, dict) and "match" in fixture for fixture in fixtures[:1]
    )


def convert_fixtures(fixtures: Sequence[Any], name: str, source: str) -> FixtureScenarios:
    """The scenarios of fixtures; `name` begins their ids, and `source` is the file's, for people.

    Raises `Unreadable` where they are more than a file of scenarios may hold.
    """
    if len(fixtures) > MAX_FIXTURES:
        raise UnreadableFile(f"it holds more than {MAX_FIXTURES:,} fixtures: split it")
    results: list[ConvertedFixture | RefusedItem] = []
    texts: list[str] = []
    for number, fixture in enumerate(fixtures, 1):
        try:
            scenario, losses = _convert_fixture(fixture, number, name, source)
            texts.append(_scenario_yaml(scenario))
            results.append(ConvertedFixture(number, f"{name}-{number}", losses))
        except NotImportable as error:
            results.append(RefusedItem(number, printable(str(error), _LONGEST)))
    if not texts:
        return FixtureScenarios("", tuple(results))
    text = "".join((*_header_comment(source, results), "scenarios:\n", *texts))
    if len(text.encode()) > MAX_FILE:
        raise UnreadableFile(f"its scenarios have more than {MAX_FILE >> 20} MiB: split it")
    return FixtureScenarios(text, tuple(results))


def _header_comment(
    source: str, results: Sequence[ConvertedFixture | RefusedItem]
) -> Iterator[str]:
    text = printable(source, _SHOWN)
    yield f"# Made by llm-proxy import of {text}, fixtures of aimock; edit it as you like.\n"
    by_loss: dict[ImportLoss, list[int]] = {}
    for result in results:
        for loss in result.losses if isinstance(result, ConvertedFixture) else ():
            by_loss.setdefault(loss, []).append(result.number)
    for loss, numbers in by_loss.items():
        more = ", …" if len(numbers) > _NAMED else ""
        named = ", ".join(map(str, numbers[:_NAMED])) + more
        yield f"# Fixture {named}: {loss.text}.\n"
    for result in results:
        if isinstance(result, RefusedItem):
            yield f"# Fixture {result.number} is left out: {result.reason}.\n"


def _convert_fixture(
    fixture: Any, number: int, name: str, source: str
) -> tuple[Fields, tuple[ImportLoss, ...]]:
    """The scenario of a fixture, and what it does not say.  Raises `NotImportable`."""
    if not isinstance(fixture, dict) or not isinstance(fixture.get("match"), dict):
        raise NotImportable("it has no match")
    if _nesting_depth(fixture) > _DEEPEST:
        raise NotImportable(f"its values stand within each other more than {_DEEPEST} deep")
    matched, unmatched = scenario_match(fixture["match"])
    played, unsaid = response_step(fixture.get("response"))
    timed, untimed = ({}, []) if "failure_status" in played else timing_fields(fixture)
    if _nesting_depth(played) > _DEEPEST:
        raise NotImportable(
            f"the arguments of a call stand within each other more than {_DEEPEST} deep"
        )
    strange = [value for value in fixture if value not in _KNOWN and not value.startswith(_REMARKS)]
    fields: Fields = {
        "id": f"{name}-{number}",
        "description": _scenario_description(fixture["match"], number, source),
        "match": matched,
        **timed,
        "turns": [{"turn": ANY, **played}],
    }
    losses = [*unmatched, *unsaid, *untimed, *([OTHERS] if strange else [])]
    return fields, tuple(dict.fromkeys(losses))


def _scenario_description(fields: Fields, number: int, source: str) -> str:
    lines = lenient_json.str_or_empty(fields.get("userMessage")).strip().splitlines()
    text = f": {printable(lines[0].strip(), _SHOWN)}" if lines else ""
    return f"Fixture {number} of {printable(source, _SHOWN)}{text}"


def _scenario_yaml(scenario: Fields) -> str:
    """A scenario as it stands in a list of them.

    Raises `NotImportable` for one that would not be loaded.
    """
    if len(lenient_json.compact_json(scenario)) > MAX_SIZE:
        raise NotImportable(f"it has more than {MAX_SIZE >> 20} MiB")
    listed = yaml_block({"scenarios": [scenario]})
    loaded = load_file("scenario.yaml", listed.encode())
    wrong = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    if wrong:
        raise NotImportable(f"no scenario can hold it: {wrong[0].message}")
    return listed.partition("\n")[2]


def _nesting_depth(value: Json, around: int = 0) -> int:
    """How deep values stand within each other; no deeper than is asked for."""
    if around > _DEEPEST or not isinstance(value, dict | list):
        return around
    inner = value.values() if isinstance(value, dict) else value
    return max((_nesting_depth(content, around + 1) for content in inner), default=around + 1)
