"""What the official SDKs do on each fault, and how often they ask: measured.

PYTHONPATH=proxy:tests python tests/fault_measuring.py measures it anew, and writes
tests/fault_outcomes.json; it needs the judge google-genai (scripts/judges google-genai).

The SDKs are as they come, but for two things: they wait at most 10 ms before they ask again, and
0.6 s for more where nothing comes.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import judge_runner
from fault_cases import CASES, MODES, Case
from fault_sdk_requests import Ask
from fault_sdk_results import FINE, SILENT, TEXT, Heard
from fault_sdks import COLUMNS, GOOGLE, HELPING, SCENARIO
from fault_table import NOTHING, STORED, Outcomes
from in_process_proxy import proxy
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.server.journal import JournalEntry
from waiting import until

_SILENCE: Final = 5.0
"""Seconds after which the proxy ends a silence that no client does."""
_ANSWER: Final[dict[str, Any]] = {
    "id": SCENARIO,
    "description": "One text, a word a piece.",
    "chunks": {"by": "words", "size": 1},
    "turns": [{"turn": 1, "response": {"kind": "text", "assistant_text": TEXT}}],
}


async def measured(columns: Sequence[str], folder: Path) -> Outcomes:
    """What comes of each rule with each of these SDKs; `folder` is for the proxy's files."""
    scenario = folder / "fox.json"
    scenario.write_text(json.dumps(_ANSWER))
    simulating = SimulationOptions(scenarios=scenario, silence=_SILENCE)
    rules = tuple(case_.rule for case_ in CASES if not case_.is_deaf)
    measuring = Measuring(columns)
    async with proxy(
        "simulate", folder, pace=InstantPace(), simulating=simulating, faults=rules
    ) as running:
        await measuring.hear(running.url, [case_ for case_ in CASES if case_.is_loud])
        # A busy loop keeps answers waiting: what is measured in time comes when it has been busy.
        await measuring.hear(running.url, [case_ for case_ in CASES if case_.is_silent])
        await until(lambda: running.server.active_count == 0)
        entries = list(running.journal.entries)
    for text in dict.fromkeys(case_.text for case_ in CASES if case_.is_deaf):
        async with proxy("simulate", folder, faults=(parse_rule(text),)) as running:
            await until(lambda: not _listens(running.url))
            await measuring.hear(running.url, [case_ for case_ in CASES if case_.text == text])
    return measuring.outcomes(entries)


class Measuring:
    """What is heard of each case by each of some SDKs."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._heard: dict[str, Heard] = {}
        self._sent: Counter[str] = Counter()

    async def hear(self, url: str, cases: Sequence[Case]) -> None:
        """Have all SDKs ask at once, each for all of these cases."""
        asked = {column: list(_asks(column, cases)) for column in self._columns}
        for heard in await asyncio.gather(
            *(COLUMNS[column](url, asks, self._sent) for column, asks in asked.items() if asks)
        ):
            self._heard |= heard

    def outcomes(self, entries: Sequence[JournalEntry]) -> Outcomes:
        """All of it; `entries` are the proxy's own account of what it was asked."""
        seen = Counter(entry.session for entry in entries)
        idle = {entry.session for entry in entries if _is_idle(entry)}
        outcomes: Outcomes = {mode: {} for mode in MODES}
        for case in CASES:
            asked = [ask for column in self._columns for ask in _asks(column, [case])]
            counts = self._sent if case.is_deaf else seen
            outcomes[case.mode][case.text] = {
                item.column: _cell(
                    self._heard[item.id].outcome,
                    counts[item.id] - case.before,
                    idle=item.id in idle,
                )
                for item in asked
            }
        return outcomes


def _asks(column: str, cases: Iterable[Case]) -> Iterator[Ask]:
    """What an SDK is asked."""
    return (Ask(column, case_) for case_ in cases if case_.mode != "helper" or column in HELPING)


def _listens(url: str) -> bool:
    """Whether anybody does."""
    host, _, port = url.rpartition("/")[2].partition(":")
    with socket.socket() as trying:
        return trying.connect_ex((host, int(port))) == 0


def _is_idle(entry: JournalEntry) -> bool:
    """Whether the rule of a request has no meaning in its answer."""
    return bool(entry.faults) and all(fault.skipped for fault in entry.faults)


def _cell(outcome: str, count: int, *, idle: bool) -> str:
    if idle:
        return NOTHING if outcome == FINE else f"{NOTHING} but {outcome}"
    is_plain = count == 1 and outcome.startswith((FINE, SILENT))
    return outcome if is_plain else f"{outcome} ({count})"


def versions() -> dict[str, str]:
    """The SDKs that there are, and Google's as its judge has it."""
    lock = (judge_runner.FOLDER / GOOGLE / "requirements.txt").read_text()
    pinned = re.search(rf"^{GOOGLE}==(\S+)", lock, re.MULTILINE)
    assert pinned is not None
    return {item: version(item) for item in ("openai", "anthropic", "ollama")} | {GOOGLE: pinned[1]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(measured(list(COLUMNS), Path(name)))
    document = {"sdks": versions(), "outcomes": found}
    STORED.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
