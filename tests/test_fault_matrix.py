"""Each fault on each source and framing, as the bytes on the wire tell."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import pytest

from fault_checks import CHECKS, VARIANTS, check
from fault_matrix import LIVE, REQUESTS, SOURCES, Cell, Played, play, rules_of_kinds, session_of
from llm_proxy.exchange import Ending
from llm_proxy.faults.kind import ReplaceResponse
from llm_proxy.faults.kinds import KINDS
from llm_proxy.outcome import outcome_of

APART: Final = frozenset(name for name, it in KINDS.items() if it.scope != "request")
"""Faults that are not of one answer: they have tests of their own."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All of it, asked once."""
    rules = [
        rules_of_kind
        for rules_of_kind in rules_of_kinds(VARIANTS)
        if rules_of_kind.partition(",")[0] not in APART
    ]
    return play(tmp_path_factory.mktemp("faults"), rules)


def test_every_fault_has_a_checker_and_an_example_of_itself() -> None:
    assert sorted(KINDS.keys() - CHECKS.keys() - APART) == []
    assert [name for name, it in KINDS.items() if it.example.partition(",")[0] != name] == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", sorted(KINDS.keys() - APART))
def test_what_a_fault_does_stands_on_the_wire_or_why_it_does_nothing_in_the_journal(
    played: Played, fault: str, source: str
) -> None:
    cells = [cell for cell in played.cells if (cell.rule.kind.name, cell.source) == (fault, source)]

    assert {cell.framing for cell in cells} == REQUESTS.keys()
    assert [f"{cell}: {problem}" for cell in cells for problem in check(cell)] == []


def test_every_fault_means_something_somewhere(played: Played) -> None:
    struck = {cell.rule.kind.name for cell in played.cells if not cell.injected.skipped}

    assert struck == KINDS.keys() - APART


def _is_instead(cell: Cell) -> bool:
    return isinstance(cell.rule.fault.mechanism(cell.rule.location), ReplaceResponse)


@pytest.mark.parametrize("source", LIVE)
def test_the_cassette_has_what_the_provider_said_whatever_the_client_was_told(
    played: Played, source: str
) -> None:
    cells = [cell for cell in played.cells if cell.source == source and not _is_instead(cell)]
    recorded = played.recorded[source]

    assert cells
    for it in cells:
        [cassette] = recorded[session_of(it.framing, it.rule.text)]
        assert cassette.end.sha256 == sha256(it.truth.body).hexdigest(), it
        assert (cassette.end.ending, outcome_of(cassette).complete) == (Ending.CLEAN, True), it
        assert it.asked == 1, it


@pytest.mark.parametrize("source", LIVE)
def test_what_is_refused_before_the_head_asks_nobody_and_leaves_no_cassette(
    played: Played, source: str
) -> None:
    cells = [cell for cell in played.cells if cell.source == source and _is_instead(cell)]
    recorded = played.recorded[source]

    assert cells
    for it in cells:
        if it.injected.skipped:
            continue
        assert it.asked == 0, it
        assert session_of(it.framing, it.rule.text) not in recorded, it
        assert it.entry.origin == "fault", it


def test_the_journal_tells_where_it_struck(played: Played) -> None:
    for it in played.cells:
        told = it.injected
        assert (told.rule, told.fault) == (it.rule.text, it.rule.kind.name)
        if not told.skipped and it.rule.text == "reset,bytes=120":
            assert told.byte == 120
            assert told.event == len([n for n, _ in enumerate(it.messages) if _end(it, n) <= 120])


def _end(cell: Cell, number: int) -> int:
    return len(b"".join(cell.messages[: number + 1]))
