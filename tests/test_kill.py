"""`kill -9` at any moment: no file of the library is torn, and nothing is lost that had arrived."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kill_trials import KillVerdict, killed

AT_ONCE = 4
KILLS = 20


@pytest.mark.parametrize("first", range(0, KILLS, AT_ONCE))
async def test_a_kill_loses_nothing_that_had_arrived_50_ms_before(
    tmp_path: Path, first: int
) -> None:
    async def one(seed: int) -> KillVerdict:
        folder = tmp_path / str(seed)
        folder.mkdir()
        return await killed(folder, seed)

    verdicts = await asyncio.gather(*map(one, range(first, first + AT_ONCE)))
    assert [verdict for verdict in verdicts if not verdict.well] == []
    assert any(verdict.messages for verdict in verdicts)
    assert any(verdict.recovered for verdict in verdicts)
