from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from case_tables import each_row
from llm_proxy.cassette import FORMAT_VERSION, reader
from llm_proxy.cassette.reader import MIGRATIONS, Lines, migrate_lines
from llm_proxy.errors import CassetteError, CassetteTooNew


def test_there_is_a_step_from_every_older_format() -> None:
    assert sorted(MIGRATIONS) == list(range(1, FORMAT_VERSION))


def test_the_present_format_stays_as_it_is() -> None:
    lines: Lines = [{"cassette": FORMAT_VERSION}, {"request": {}}]
    assert migrate_lines("a.jsonl", lines) is lines


def test_an_older_format_takes_every_step_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(lines: Lines) -> Lines:
        first, *others = lines
        return [{"cassette": first["cassette"] + 1}, *others, {"came": first["cassette"]}]

    monkeypatch.setattr(reader, "FORMAT_VERSION", 4)
    monkeypatch.setattr(reader, "MIGRATIONS", MappingProxyType({1: step, 2: step, 3: step}))
    assert migrate_lines("a.jsonl", [{"cassette": 2}]) == [
        {"cassette": 4},
        {"came": 2},
        {"came": 3},
    ]
    assert migrate_lines("a.jsonl", [{"cassette": 4}]) == [{"cassette": 4}]


@each_row(
    "lines",
    [[], [{}], *([{"cassette": item}] for item in (0, -1, True, "1", 1.0, None, [1]))],
)
def test_a_file_without_a_format_is_no_cassette(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(CassetteError, match=r"^a\.jsonl:1: not a cassette") as caught:
        migrate_lines("a.jsonl", lines)
    assert not isinstance(caught.value, CassetteTooNew)


@each_row(
    ("tool", "expected"),
    [
        ({"tool": "llm-proxy 7.1"}, "written by llm-proxy 7.1; upgrade llm-proxy"),
        ({}, "written by a newer version; upgrade llm-proxy"),
        (
            {"tool": "\x1b[2J" + "x" * 999},
            r"written by \x1b[2J" + "x" * 52 + "…; upgrade llm-proxy",
        ),
    ],
    ids=["named", "unnamed", "hostile"],
)
def test_a_newer_format_names_what_wrote_it(tool: dict[str, str], expected: str) -> None:
    with pytest.raises(CassetteTooNew) as caught:
        migrate_lines("a.jsonl", [{"cassette": FORMAT_VERSION + 1, **tool}])
    assert str(caught.value).endswith(expected)
    assert caught.value.line == 1
