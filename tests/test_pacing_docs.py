"""docs/reference/pacing.md is correct."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from case_tables import each_row
from llm_proxy.pacing import ModelledPace, parse_pace
from llm_proxy.pacing.distributions import (
    DurationDistribution,
    FixedDistribution,
    MeasuredDistribution,
    format_number,
)
from llm_proxy.pacing.pace import PROFILES

PAGE: Final = (Path(__file__).parents[1] / "docs" / "reference" / "pacing.md").read_text("utf-8")
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
TERMS: Final = [item for row in ROWS if len(row) == 3 for item in re.findall("`([^`]+)`", row[2])]
PIECES: Final = PAGE.partition("## Pieces")[2].partition("## Profiles")[0]


@each_row("term", TERMS)
def test_every_example_of_a_term_is_a_pace(term: str) -> None:
    assert term in str(parse_pace(term)).split(",")


@each_row("span", re.findall(r"`([^`]+)`", "".join(
    row[0] for row in ROWS if len(row) == 2 and "ms" in row[0]
)))  # fmt: skip
def test_every_span_is_one(span: str) -> None:
    assert isinstance(parse_pace(f"gap={span}"), ModelledPace)


@each_row(
    "pace", [*re.findall(r'--pace "?([^" ]+)', PAGE), *re.findall(r'"pace": "([^"]+)"', PAGE)]
)
def test_every_pace_of_an_example_is_one(pace: str) -> None:
    assert str(parse_pace(pace)) == pace


def test_every_value_of_chunks_is_documented() -> None:
    words = re.findall(r"^\| `(\w+)` \|", PIECES, re.MULTILINE)

    assert words == ["recorded", "event", "token", "coalesced", "N"]
    assert [parse_pace(f"chunks={word}").chunks for word in words[:-1]] == words[:-1]


def test_the_profile_table_is_correct() -> None:
    table = [[row[0], row[1], row[2], row[3]] for row in ROWS if len(row) == 4]

    assert table == [
        [
            f"`{profile.name}`",
            format_distribution(profile.ttft),
            format_distribution(profile.gap),
            profile.source,
        ]
        for profile in PROFILES.values()
    ]


def format_distribution(distribution: DurationDistribution) -> str:
    match distribution:
        case FixedDistribution(ms):
            return format_number(ms)
        case MeasuredDistribution((least, most)):
            return f"{format_number(least)} to {format_number(most)}"
        case MeasuredDistribution(quantiles):
            median = format_number(quantiles[len(quantiles) // 2])
            ends = f"{format_number(quantiles[0])} to {format_number(quantiles[-1])}"
            return f"{ends}, median {median}"
        case other:
            raise AssertionError(other)
