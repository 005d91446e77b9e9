"""Each fault on each source and framing, checked by the bytes on the wire."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import pytest

from fault_checks import CHECKS, VARIANTS, check_cell
from fault_matrix import (
    LIVE_SOURCES,
    REQUESTS,
    SOURCES,
    Cell,
    MatrixResults,
    rules_of_kinds,
    run_matrix,
    session_name,
)
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.faults.kind import ReplaceResponse
from llm_proxy.faults.kinds import FAULT_KINDS

SERVER_WIDE_FAULTS: Final = frozenset(
    name for name, kind in FAULT_KINDS.items() if kind.scope != "request"
)
"""Faults that do not concern one response; they have their own tests."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> MatrixResults:
    """All cells, requested once."""
    rules = [
        rules_of_kind
        for rules_of_kind in rules_of_kinds(VARIANTS)
        if rules_of_kind.partition(",")[0] not in SERVER_WIDE_FAULTS
    ]
    return run_matrix(tmp_path_factory.mktemp("faults"), rules)


def test_every_fault_has_a_checker_and_an_example_of_itself() -> None:
    assert sorted(FAULT_KINDS.keys() - CHECKS.keys() - SERVER_WIDE_FAULTS) == []
    assert [
        name for name, kind in FAULT_KINDS.items() if kind.example.partition(",")[0] != name
    ] == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", sorted(FAULT_KINDS.keys() - SERVER_WIDE_FAULTS))
def test_a_fault_shows_on_the_wire_or_is_skipped_with_a_reason_in_the_journal(
    played: MatrixResults, fault: str, source: str
) -> None:
    cells = [cell for cell in played.cells if (cell.rule.kind.name, cell.source) == (fault, source)]

    assert {cell.framing for cell in cells} == REQUESTS.keys()
    assert [f"{cell}: {problem}" for cell in cells for problem in check_cell(cell)] == []


def test_every_fault_applies_somewhere(played: MatrixResults) -> None:
    applied = {cell.rule.kind.name for cell in played.cells if not cell.fault_record.skipped}

    assert applied == FAULT_KINDS.keys() - SERVER_WIDE_FAULTS


def _replaces_response(cell: Cell) -> bool:
    return isinstance(cell.rule.mechanism, ReplaceResponse)


@pytest.mark.parametrize("source", LIVE_SOURCES)
def test_the_cassette_has_the_providers_response_whatever_the_client_received(
    played: MatrixResults, source: str
) -> None:
    cells = [
        cell for cell in played.cells if cell.source == source and not _replaces_response(cell)
    ]
    recorded = played.recorded_cassettes[source]

    assert cells
    for cell in cells:
        [cassette] = recorded[session_name(cell.framing, cell.rule.text)]
        assert cassette.response_end.sha256 == sha256(cell.unfaulted.body).hexdigest(), cell
        assert (cassette.response_end.ending, cassette_outcome(cassette).is_complete) == (
            Ending.CLEAN,
            True,
        ), cell
        assert cell.upstream_request_count == 1, cell


@pytest.mark.parametrize("source", LIVE_SOURCES)
def test_a_replaced_response_sends_no_upstream_request_and_leaves_no_cassette(
    played: MatrixResults, source: str
) -> None:
    cells = [cell for cell in played.cells if cell.source == source and _replaces_response(cell)]
    recorded = played.recorded_cassettes[source]

    assert cells
    for cell in cells:
        if cell.fault_record.skipped:
            continue
        assert cell.upstream_request_count == 0, cell
        assert session_name(cell.framing, cell.rule.text) not in recorded, cell
        assert cell.entry.origin == "fault", cell


def test_the_journal_has_the_location_of_each_fault(played: MatrixResults) -> None:
    for cell in played.cells:
        record = cell.fault_record
        assert (record.rule, record.fault) == (cell.rule.text, cell.rule.kind.name)
        if not record.skipped and cell.rule.text == "reset,bytes=120":
            assert record.byte == 120
            assert record.event == len(
                [
                    number
                    for number, _ in enumerate(cell.messages)
                    if _message_end(cell, number) <= 120
                ]
            )


def _message_end(cell: Cell, number: int) -> int:
    return len(b"".join(cell.messages[: number + 1]))
