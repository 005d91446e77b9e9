"""What the official SDKs do on each fault, and how many requests they send: measured.

PYTHONPATH=proxy:tests .venv/bin/python tests/fault_measuring.py measures it again, and writes
tests/fault_outcomes.json; it needs the judge google-genai (scripts/judges google-genai).

The SDKs have their defaults but for two: they wait at most 10 ms before a retry, and 0.6 s for
more where nothing comes.
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
from fault_sdk_requests import SdkRequest
from fault_sdk_results import ANSWER_TEXT, FINE, SILENT_PREFIX, SdkResult
from fault_sdks import COLUMNS, GOOGLE, SCENARIO, SDKS_WITH_HELPER
from fault_table import NOT_APPLICABLE, OUTCOMES_FILE, Outcomes
from in_process_proxy import proxy
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.journal_document import JournalEntry
from llm_proxy.pacing import InstantPace
from waiting import wait_until

_SILENCE_S: Final = 5.0
"""Seconds after which the proxy ends a silence, if no client does before."""
_SCENARIO_DOCUMENT: Final[dict[str, Any]] = {
    "id": SCENARIO,
    "description": "One text, a word a piece.",
    "chunks": {"by": "words", "size": 1},
    "turns": [{"turn": 1, "response": {"kind": "text", "assistant_text": ANSWER_TEXT}}],
}


async def measure(columns: Sequence[str], folder: Path, cases: Sequence[Case] = CASES) -> Outcomes:
    """Measure the outcomes of cases with these SDKs; `folder` is for the proxy's files."""
    scenario = folder / "fox.json"
    scenario.write_text(json.dumps(_SCENARIO_DOCUMENT))
    rules = tuple(case_.rule for case_ in cases if not case_.closes_listener)
    measurement = Measurement(columns)
    async with proxy(
        "simulate",
        folder,
        pace=InstantPace(),
        scenarios=scenario,
        silence=_SILENCE_S,
        faults=rules,
    ) as running:
        await measurement.send_requests(running.url, [case_ for case_ in cases if case_.is_prompt])
        # A busy loop delays responses, so cases with timeouts run after the prompt ones.
        await measurement.send_requests(running.url, [case_ for case_ in cases if case_.is_silent])
        await wait_until(lambda: running.server.active_request_count == 0)
        entries = list(running.journal.entries)
    for text in dict.fromkeys(case_.rule_text for case_ in cases if case_.closes_listener):
        async with proxy("simulate", folder, faults=(parse_rule(text),)) as running:
            await wait_until(lambda: not _is_listening(running.url))
            await measurement.send_requests(
                running.url, [case_ for case_ in cases if case_.rule_text == text]
            )
    return measurement.outcomes(cases, entries)


class Measurement:
    """The results of each case with each of some SDKs."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._results: dict[str, SdkResult] = {}
        self._sent_counts: Counter[str] = Counter()

    async def send_requests(self, url: str, cases: Sequence[Case]) -> None:
        """Have all SDKs send requests concurrently, each for all of these cases."""
        requests = {column: list(_requests(column, cases)) for column in self._columns}
        for results in await asyncio.gather(
            *(
                COLUMNS[column](url, column_requests, self._sent_counts)
                for column, column_requests in requests.items()
                if column_requests
            )
        ):
            self._results |= results

    def outcomes(self, cases: Sequence[Case], entries: Sequence[JournalEntry]) -> Outcomes:
        """The table cells of these cases; `entries` are the requests in the proxy's journal."""
        received_counts = Counter(entry.session for entry in entries)
        skipped_sessions = {entry.session for entry in entries if _is_skipped(entry)}
        outcomes: Outcomes = {mode: {} for mode in MODES}
        for case in cases:
            requests = [
                request for column in self._columns for request in _requests(column, [case])
            ]
            counts = self._sent_counts if case.closes_listener else received_counts
            outcomes[case.mode][case.rule_text] = {
                request.column: _cell_text(
                    self._results[request.session_id].outcome,
                    counts[request.session_id] - case.requests_before,
                    is_skipped=request.session_id in skipped_sessions,
                )
                for request in requests
            }
        return outcomes


def _requests(column: str, cases: Iterable[Case]) -> Iterator[SdkRequest]:
    """An SDK's requests: cases of the helper only where it has one."""
    return (
        SdkRequest(column, case_)
        for case_ in cases
        if case_.mode != "helper" or column in SDKS_WITH_HELPER
    )


def _is_listening(url: str) -> bool:
    """Whether a URL accepts connections."""
    host, _, port = url.rpartition("/")[2].partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _is_skipped(entry: JournalEntry) -> bool:
    """Whether every rule of a request was skipped: it is not applicable to the response."""
    return bool(entry.faults) and all(fault.skipped for fault in entry.faults)


def _cell_text(outcome: str, count: int, *, is_skipped: bool) -> str:
    if is_skipped:
        return NOT_APPLICABLE if outcome == FINE else f"{NOT_APPLICABLE} but {outcome}"
    is_plain = count == 1 and outcome.startswith((FINE, SILENT_PREFIX))
    return outcome if is_plain else f"{outcome} ({count})"


def versions() -> dict[str, str]:
    """The versions of the installed SDKs, and of Google's as its judge pins it."""
    lock = (judge_runner.FOLDER / GOOGLE / "requirements.txt").read_text()
    match = re.search(rf"^{GOOGLE}==(\S+)", lock, re.MULTILINE)
    assert match is not None
    return {name: version(name) for name in ("openai", "anthropic", "ollama")} | {GOOGLE: match[1]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        outcomes = asyncio.run(measure(list(COLUMNS), Path(name)))
    document = {"sdks": versions(), "outcomes": outcomes}
    OUTCOMES_FILE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
