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
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import judges_at_hand
from fault_asking import Ask
from fault_cases import CASES, MODES, Case
from fault_heard import FINE, SILENT, TEXT, Heard
from fault_sdks import COLUMNS, GOOGLE, HELPING, SCENARIO
from fault_table import NOTHING, STORED, Outcomes
from llm_proxy.pacing import Instant
from llm_proxy.shell.running.settings import Simulating
from llm_proxy.shell.server.journal import Entry
from proxying import proxy
from waiting import until

_SILENCE: Final = 5.0
"""Seconds after which the proxy ends a silence that no client does."""
_ANSWER: Final[dict[str, Any]] = {
    "id": SCENARIO,
    "description": "One text, a word a piece.",
    "chunks": {"by": "words", "size": 1},
    "turns": [{"turn": 1, "response": {"kind": "text", "assistant_text": TEXT}}],
}


def asks(columns: Iterable[str], cases: Iterable[Case] = CASES) -> dict[str, list[Ask]]:
    """All that these SDKs are asked."""
    cases = tuple(cases)
    return {
        column: [Ask(column, it) for it in cases if it.mode != "helper" or column in HELPING]
        for column in columns
    }


async def measured(columns: Sequence[str], folder: Path) -> Outcomes:
    """What comes of each rule with each of these SDKs; `folder` is for the proxy's files."""
    scenario = folder / "fox.json"
    scenario.write_text(json.dumps(_ANSWER))
    simulating = Simulating(scenarios=scenario, silence=_SILENCE)
    rules = tuple(it.rule for it in CASES)
    asked = asks(columns)
    async with proxy(
        "simulate", folder, pace=Instant(), simulating=simulating, faults=rules
    ) as running:
        heard = await _heard(running.url, asked, silent=False)
        # A busy loop keeps answers waiting: what is measured in time comes when it has been busy.
        heard |= await _heard(running.url, asked, silent=True)
        await until(lambda: running.server.active == 0)
        entries = list(running.journal.entries)
    counts = Counter(it.session for it in entries)
    idle = {it.session for it in entries if _is_idle(it)}
    outcomes: Outcomes = {mode: {} for mode in MODES}
    for case in CASES:
        outcomes[case.mode][case.text] = {
            column: _cell(heard[it.id].outcome, counts[it.id], idle=it.id in idle)
            for column in columns
            for it in asked[column]
            if it.case == case
        }
    return outcomes


async def _heard(url: str, asked: dict[str, list[Ask]], *, silent: bool) -> dict[str, Heard]:
    """What all SDKs together make of their answers, by session."""
    all_heard = await asyncio.gather(
        *(
            COLUMNS[column](url, [it for it in asks if it.case.is_silent == silent])
            for column, asks in asked.items()
        )
    )
    return {name: heard for each in all_heard for name, heard in each.items()}


def _is_idle(entry: Entry) -> bool:
    """Whether the rule of a request has no meaning in its answer."""
    return bool(entry.faults) and all(it.skipped for it in entry.faults)


def _cell(outcome: str, count: int, *, idle: bool) -> str:
    if idle:
        return NOTHING if outcome == FINE else f"{NOTHING} but {outcome}"
    is_plain = count == 1 and outcome.startswith((FINE, SILENT))
    return outcome if is_plain else f"{outcome} ({count})"


def versions() -> dict[str, str]:
    """The SDKs that there are, and Google's as its judge has it."""
    lock = (judges_at_hand.FOLDER / GOOGLE / "requirements.txt").read_text()
    pinned = re.search(rf"^{GOOGLE}==(\S+)", lock, re.MULTILINE)
    assert pinned is not None
    return {it: version(it) for it in ("openai", "anthropic", "ollama")} | {GOOGLE: pinned[1]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(measured(list(COLUMNS), Path(name)))
    document = {"sdks": versions(), "outcomes": found}
    STORED.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
