from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from llm_proxy.cassette import FORMAT, migrations
from llm_proxy.cassette.migrations import STEPS, Lines, migrate
from llm_proxy.errors import CassetteError, CassetteTooNew


def test_there_is_a_step_from_every_older_format() -> None:
    assert sorted(STEPS) == list(range(1, FORMAT))


def test_the_present_format_stays_as_it_is() -> None:
    lines: Lines = [{"cassette": FORMAT}, {"request": {}}]
    assert migrate("a.jsonl", lines) is lines


def test_an_older_format_takes_every_step_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(lines: Lines) -> Lines:
        first, *others = lines
        return [{"cassette": first["cassette"] + 1}, *others, {"came": first["cassette"]}]

    monkeypatch.setattr(migrations, "FORMAT", 4)
    monkeypatch.setattr(migrations, "STEPS", MappingProxyType({1: step, 2: step, 3: step}))
    assert migrate("a.jsonl", [{"cassette": 2}]) == [{"cassette": 4}, {"came": 2}, {"came": 3}]
    assert migrate("a.jsonl", [{"cassette": 4}]) == [{"cassette": 4}]


@pytest.mark.parametrize(
    "lines",
    [[], [{}], *([{"cassette": item}] for item in (0, -1, True, "1", 1.0, None, [1]))],
    ids=str,
)
def test_a_file_without_a_format_is_no_cassette(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(CassetteError, match=r"^a\.jsonl:1: not a cassette") as caught:
        migrate("a.jsonl", lines)
    assert not isinstance(caught.value, CassetteTooNew)


@pytest.mark.parametrize(
    ("tool", "named"),
    [
        ({"tool": "llm-proxy 7.1"}, "written by llm-proxy 7.1: upgrade llm-proxy"),
        ({}, "written by a later version: upgrade llm-proxy"),
        (
            {"tool": "\x1b[2J" + "x" * 999},
            r"written by \x1b[2J" + "x" * 52 + "…: upgrade llm-proxy",
        ),
    ],
    ids=["named", "unnamed", "hostile"],
)
def test_a_newer_format_names_what_wrote_it(tool: dict[str, str], named: str) -> None:
    with pytest.raises(CassetteTooNew) as caught:
        migrate("a.jsonl", [{"cassette": FORMAT + 1, **tool}])
    assert str(caught.value).endswith(named)
    assert caught.value.line == 1
