"""The tables of what the official SDKs do on each fault, as docs/reference/faults.md has them.

They show what was measured last (`tests/fault_outcomes.json`): no requests are sent for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

Outcomes = dict[str, dict[str, dict[str, str]]]
"""The cell of a table by mode, rule and SDK."""

OUTCOMES_FILE: Final = Path(__file__).with_name("fault_outcomes.json")

NO_MEANING: Final = "no meaning"
"""The cell of a rule that has no meaning in the response, which is unchanged."""

_LEGEND: Final = """\
Measured with {sdks} for Python, as they come, but for two things: they wait at most 10 ms before
they ask again, and where nothing comes 0.6 s for more. Each meets the rule at every request; with
`quota` at every one but its first, which is answered.

| cell | meaning |
| --- | --- |
| `APIConnectionError` (3) | the SDK raises this, after three requests |
| fine | nothing is raised; the text and its end are whole, if not all that is around them |
| silent: … | nothing is raised, and the answer is not what the provider said |
| {nothing} | the fault has no meaning in this answer, which stays as it was |

An exception without a surname is the SDK's own, or Python's; `httpx2.ReadError` comes from the
library below it. What is silent:

| silent | meaning |
| --- | --- |
| text cut, no text | the end of it is missing, or all of it |
| text altered | something within it is missing, comes twice, or is in another place |
| another text, a refusal | the text is not that of the answer; or stands where refusals do |
| no finish | nothing says why the model stopped: all that tells a cut answer from a whole one |
| finish `length` | the model stopped for this reason |
| gives a `str` | the application gets the body as text, in place of an answer |
"""
_ALL_MODES_TITLE: Final = """
### However the answer is asked for

Streamed, by the helper `.stream()` of OpenAI's and Anthropic's SDKs, and in one piece.

"""
_TITLES: Final = {
    "stream": """
### Streamed

""",
    "helper": """
### Streamed, by the helper `.stream()`

Where it differs from the stream itself: what the helper raises, or puts together.

""",
    "whole": """
### In one piece

`fraction=0.5` is the middle of the body.

""",
}


def read_outcomes() -> Outcomes:
    """The outcomes that were measured last."""
    outcomes: Outcomes = json.loads(OUTCOMES_FILE.read_bytes())["outcomes"]
    return outcomes


def render_tables() -> str:
    """All tables as Markdown, with a legend."""
    sdks: dict[str, str] = json.loads(OUTCOMES_FILE.read_bytes())["sdks"]
    outcomes = read_outcomes()
    same_in_all_modes = {
        rule: cells
        for rule, cells in outcomes["stream"].items()
        if _is_same_in_all_modes(outcomes, rule)
    }
    rows_by_mode = {mode: _rows(outcomes, mode, same_in_all_modes) for mode in _TITLES}
    sdk_versions = [f"{name} {version}" for name, version in sdks.items()]
    parts = [_LEGEND.format(sdks=_join_names(sdk_versions), nothing=NO_MEANING)]
    parts += [_ALL_MODES_TITLE, _table(same_in_all_modes)]
    for mode, title in _TITLES.items():
        parts += [title, _table(rows_by_mode[mode])]
    return "".join(parts)


def _is_same_in_all_modes(outcomes: Outcomes, rule: str) -> bool:
    """Whether a rule has the same outcomes in every mode."""
    stream = outcomes["stream"][rule]
    return all(
        rule in mode_outcomes
        and all(stream[name] == cell for name, cell in mode_outcomes[rule].items())
        for mode_outcomes in outcomes.values()
    )


def _rows(outcomes: Outcomes, mode: str, excluded: Iterable[str]) -> dict[str, dict[str, str]]:
    """The rows of the table of a mode."""
    excluded_rules = set(excluded)
    return {
        rule: cells
        for rule, cells in outcomes[mode].items()
        if rule not in excluded_rules and set(cells.values()) != {NO_MEANING}
        if mode != "helper" or not cells.items() <= outcomes["stream"][rule].items()
    }


def _table(rows: Mapping[str, Mapping[str, str]]) -> str:
    columns = next(iter(rows.values()), {})
    lines = [("rule", *(f"`{column}`" for column in columns)), ("---",) * (len(columns) + 1)]
    lines += [(f"`{rule}`", *cells.values()) for rule, cells in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _join_names(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}"
