"""Each fault on each source and framing, checked by the bytes on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from fault_checks import CHECKS, VARIANTS, check_cell, difference, expected_skip_reason
from fault_matrix import (
    LIVE_SOURCES,
    REQUESTS,
    SOURCES,
    Cell,
    Combination,
    MatrixResults,
    all_combinations,
    rules_of_kinds,
    run_matrix,
    session_name,
)
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import ReplaceResponse
from llm_proxy.faults.kinds import FAULT_KINDS
from thoroughness import quick_or_thorough

SERVER_WIDE_FAULTS: Final = frozenset(
    name for name, kind in FAULT_KINDS.items() if kind.scope != "request"
)
"""Faults that do not concern one response; they have their own tests."""
FAULTS: Final = FAULT_KINDS.keys() - SERVER_WIDE_FAULTS


def test_every_fault_has_a_checker_and_an_example_of_itself() -> None:
    assert sorted(FAULTS - CHECKS.keys()) == []
    assert [
        name for name, kind in FAULT_KINDS.items() if kind.example.partition(",")[0] != name
    ] == []


def daily_combinations(rules: Iterable[str]) -> Iterator[Combination]:
    """Every rule in one framing of every source but `auto`, and all skipped ones of `simulate`."""
    for number, text in enumerate(rules):
        rule = parse_rule(text)
        for source in SOURCES:
            skipped = [name for name in REQUESTS if expected_skip_reason(source, name, rule)]
            applied = [name for name in REQUESTS if name not in skipped]
            if source != "auto":
                yield source, applied[number % len(applied)], text
            if source == "simulate":
                yield from ((source, name, text) for name in skipped)


@pytest.mark.long
async def test_each_fault_shows_on_the_wire_and_in_the_journal_and_spares_the_recording(
    tmp_path: Path,
) -> None:
    """Or it is skipped, with a reason."""
    rules = [
        rule
        for rule in rules_of_kinds(VARIANTS)
        if rule.partition(",")[0] not in SERVER_WIDE_FAULTS
    ]
    choose = quick_or_thorough(daily_combinations, all_combinations)
    results = await run_matrix(tmp_path, choose(rules))

    assert [
        f"{cell}: {problem}" for cell in results.cells for problem in _problems(cell, results)
    ] == []
    applied = {
        (cell.source, cell.rule.kind.name)
        for cell in results.cells
        if not cell.fault_record.skipped
    }
    assert applied >= {
        (source, fault) for source in ("record", "replay", "simulate") for fault in FAULTS
    }


def _problems(cell: Cell, results: MatrixResults) -> Iterator[str]:
    yield from check_cell(cell)
    yield from _journal_problems(cell)
    if cell.source in LIVE_SOURCES:
        yield from _recording_problems(cell, results)


def _journal_problems(cell: Cell) -> Iterator[str]:
    """The journal has the location of each fault."""
    record = cell.fault_record
    yield from difference("the rule", record.rule, cell.rule.text)
    yield from difference("the fault", record.fault, cell.rule.kind.name)
    if not record.skipped and cell.rule.text == "reset,bytes=120":
        ends = [len(b"".join(cell.messages[:count])) for count in range(1, len(cell.messages) + 1)]
        yield from difference("the byte", record.byte, 120)
        yield from difference("the event", record.event, sum(end <= 120 for end in ends))


def _recording_problems(cell: Cell, results: MatrixResults) -> Iterator[str]:
    """The cassette has the provider's response, unless the fault replaces it."""
    cassettes = results.recorded_cassettes[cell.source].get(
        session_name(cell.framing, cell.rule.text), []
    )
    if isinstance(cell.rule.mechanism, ReplaceResponse) and not cell.fault_record.skipped:
        yield from difference("the provider", cell.upstream_request_count, 0)
        yield from difference("the cassettes", cassettes, [])
        yield from difference("the origin", cell.entry.origin, "fault")
    elif not isinstance(cell.rule.mechanism, ReplaceResponse):
        yield from difference("the provider", cell.upstream_request_count, 1)
        recorded = [
            (item.response_end.sha256, item.response_end.ending, cassette_outcome(item).is_complete)
            for item in cassettes
        ]
        body_hash = sha256(cell.unfaulted.body).hexdigest()
        yield from difference("the recording", recorded, [(body_hash, Ending.CLEAN, True)])
