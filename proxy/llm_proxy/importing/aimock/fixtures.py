"""Converts a fixture file into a scenario file.

The first fixture that matches responds, and so does the first scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.aimock.match_conversion import convert_match
from llm_proxy.importing.aimock.responses import UNKNOWN_FIELDS, convert_response
from llm_proxy.importing.aimock.timing import convert_timing
from llm_proxy.importing.source import (
    ImportLoss,
    NotImportable,
    ParsedFile,
    RefusedItem,
    UnreadableFile,
)
from llm_proxy.scenario.documents.document import ANY_TURN
from llm_proxy.scenario.documents.loading import MAX_FILE_BYTES, parse_scenario_file
from llm_proxy.scenario.recorded.yaml_writing import yaml_block
from llm_proxy.turns import Json

TITLE: Final = "aimock"
"""The tool's name for messages."""

Fields = dict[str, Json]

MAX_FIXTURES: Final = 10_000
"""Limit for one file."""
MAX_SCENARIO_CHARS: Final = 1024 * 1024
"""Limit of a scenario's JSON."""

_MAX_QUOTE_CHARS: Final = 80
_MAX_REASON_CHARS: Final = 500
"""Limit of a reason, which may quote the file."""
_MAX_LISTED_FIXTURES: Final = 10
"""Fixtures that a comment lists."""
_MAX_DEPTH: Final = 64
"""Nesting levels of a scenario's values."""
_KNOWN_FIELDS: Final = (
    "match", "response", "latency", "chunkSize", "streamingProfile", "recordedTimings",
    "replaySpeed", "truncateAfterChunks", "disconnectAfterMs", "chaos", "metadata",
)  # fmt: skip
_COMMENT_PREFIXES: Final = ("$", "_")
"""Prefixes of field names that are comments."""


@dataclass(frozen=True, slots=True)
class ConvertedFixture:
    """A fixture that was converted; its number in the file from 1, and its scenario's ID."""

    number: int
    id: str
    losses: tuple[ImportLoss, ...]
    """What the scenario lacks, or represents otherwise."""


@dataclass(frozen=True, slots=True)
class FixtureScenarios:
    """A file of fixtures, converted to a file of scenarios."""

    yaml_text: str
    """YAML with comments; empty where no fixture was converted."""
    results: tuple[ConvertedFixture | RefusedItem, ...]
    """The result for each fixture, in order."""


def is_fixture_file(parsed_file: ParsedFile) -> bool:
    """Whether a file holds aimock fixtures."""
    document = parsed_file.document
    fixtures = document.get("fixtures") if isinstance(document, dict) else None
    return isinstance(fixtures, list) and any(
        isinstance(fixture, dict) and "match" in fixture for fixture in fixtures[:1]
    )


def convert_fixtures(fixtures: Sequence[Any], id_prefix: str, source_name: str) -> FixtureScenarios:
    """The scenarios of fixtures; `source_name` names their file in comments.

    Raises `UnreadableFile` where they exceed the limits of a scenario file.
    """
    if len(fixtures) > MAX_FIXTURES:
        raise UnreadableFile(f"it holds more than {MAX_FIXTURES:,} fixtures: split it")
    results: list[ConvertedFixture | RefusedItem] = []
    texts: list[str] = []
    for number, fixture in enumerate(fixtures, 1):
        try:
            scenario, losses = _convert_fixture(fixture, number, id_prefix, source_name)
            texts.append(_scenario_yaml(scenario))
            results.append(ConvertedFixture(number, f"{id_prefix}-{number}", losses))
        except NotImportable as error:
            results.append(RefusedItem(number, printable_excerpt(str(error), _MAX_REASON_CHARS)))
    if not texts:
        return FixtureScenarios("", tuple(results))
    text = "".join((*_header_comment_lines(source_name, results), "scenarios:\n", *texts))
    if len(text.encode()) > MAX_FILE_BYTES:
        raise UnreadableFile(f"its scenarios have more than {MAX_FILE_BYTES >> 20} MiB: split it")
    return FixtureScenarios(text, tuple(results))


def _header_comment_lines(
    source_name: str, results: Sequence[ConvertedFixture | RefusedItem]
) -> Iterator[str]:
    text = printable_excerpt(source_name, _MAX_QUOTE_CHARS)
    yield f"# Made by llm-proxy import of {text}, fixtures of aimock; edit it as you like.\n"
    by_loss: dict[ImportLoss, list[int]] = {}
    for result in results:
        for loss in result.losses if isinstance(result, ConvertedFixture) else ():
            by_loss.setdefault(loss, []).append(result.number)
    for loss, numbers in by_loss.items():
        more = ", …" if len(numbers) > _MAX_LISTED_FIXTURES else ""
        listed = ", ".join(map(str, numbers[:_MAX_LISTED_FIXTURES])) + more
        yield f"# Fixture {listed}: {loss.effect}.\n"
    for result in results:
        if isinstance(result, RefusedItem):
            yield f"# Fixture {result.number} is left out: {result.reason}.\n"


def _convert_fixture(
    fixture: Any, number: int, id_prefix: str, source_name: str
) -> tuple[Fields, tuple[ImportLoss, ...]]:
    """The scenario of a fixture, and the losses.  Raises `NotImportable`."""
    if not isinstance(fixture, dict) or not isinstance(fixture.get("match"), dict):
        raise NotImportable("it has no match")
    if _nesting_depth(fixture) > _MAX_DEPTH:
        raise NotImportable(f"its values stand within each other more than {_MAX_DEPTH} deep")
    match_fields, match_losses = convert_match(fixture["match"])
    step, step_losses = convert_response(fixture.get("response"))
    timing, timing_losses = ({}, []) if "failure_status" in step else convert_timing(fixture)
    if _nesting_depth(step) > _MAX_DEPTH:
        raise NotImportable(
            f"the arguments of a call stand within each other more than {_MAX_DEPTH} deep"
        )
    losses = [*match_losses, *step_losses, *timing_losses]
    if any(
        name not in _KNOWN_FIELDS and not name.startswith(_COMMENT_PREFIXES) for name in fixture
    ):
        losses.append(UNKNOWN_FIELDS)
    description = f"Fixture {number} of {printable_excerpt(source_name, _MAX_QUOTE_CHARS)}"
    user_message = lenient_json.str_or_empty(fixture["match"].get("userMessage")).strip()
    if user_message:
        first_line = user_message.splitlines()[0].strip()
        description += f": {printable_excerpt(first_line, _MAX_QUOTE_CHARS)}"
    fields: Fields = {
        "id": f"{id_prefix}-{number}",
        "description": description,
        "match": match_fields,
        **timing,
        "turns": [{"turn": ANY_TURN, **step}],
    }
    return fields, tuple(dict.fromkeys(losses))


def _scenario_yaml(scenario: Fields) -> str:
    """A scenario as an item of a YAML list.

    Raises `NotImportable` for one that would not load.
    """
    if len(lenient_json.compact_json(scenario)) > MAX_SCENARIO_CHARS:
        raise NotImportable(f"it has more than {MAX_SCENARIO_CHARS >> 20} MiB")
    yaml_text = yaml_block({"scenarios": [scenario]})
    loaded = parse_scenario_file("scenario.yaml", yaml_text.encode())
    problems = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    if problems:
        raise NotImportable(f"no scenario can hold it: {problems[0].message}")
    return yaml_text.partition("\n")[2]


def _nesting_depth(value: Json, outer_depth: int = 0) -> int:
    """The nesting depth of a value; counting stops beyond `_MAX_DEPTH`."""
    if outer_depth > _MAX_DEPTH or not isinstance(value, dict | list):
        return outer_depth
    children = value.values() if isinstance(value, dict) else value
    return max(
        (_nesting_depth(content, outer_depth + 1) for content in children), default=outer_depth + 1
    )
