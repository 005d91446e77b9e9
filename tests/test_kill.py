"""`kill -9` at any moment tears no file of the library and loses no data that had arrived."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kill_trials import KillVerdict, run_kill_trial
from thoroughness import quick_or_thorough

CONCURRENT_KILLS = quick_or_thorough(1, 4)
KILLS = quick_or_thorough(1, 20)


@pytest.mark.parametrize("first", range(0, KILLS, CONCURRENT_KILLS))
async def test_a_kill_loses_nothing_that_had_arrived_50_ms_before(
    tmp_path: Path, first: int
) -> None:
    async def kill_once(seed: int) -> KillVerdict:
        folder = tmp_path / str(seed)
        folder.mkdir()
        return await run_kill_trial(folder, seed)

    verdicts = await asyncio.gather(*map(kill_once, range(first, first + CONCURRENT_KILLS)))
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert any(verdict.message_count for verdict in verdicts)
    assert any(verdict.recovered_count for verdict in verdicts)
