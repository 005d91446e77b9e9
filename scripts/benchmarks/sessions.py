"""What the Python API and the pytest plugin add to a test run: the start, and each session."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from result_table import Row

from llm_proxy import LLMProxy
from llm_proxy.session_documents import SessionStart

START_TARGET_S: Final = 1.2
SESSION_TARGET_MS: Final = 15.0
_SERVER_IMPORTS: Final = "import aiohttp.web, click, orjson, msgspec"


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    runs, sessions = (3, 100) if is_quick else (7, 1000)
    start_times_s: list[float] = []
    import_times_s: list[float] = []
    session_times_ms: list[float] = []
    for _ in range(runs):
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-c", _SERVER_IMPORTS], check=True)
        import_times_s.append(time.perf_counter() - began_s)
        proxy = LLMProxy("simulate", folder=folder, patch_environment=False)
        began_s = time.perf_counter()
        proxy.start()
        start_times_s.append(time.perf_counter() - began_s)
        session_times_ms += [_session_time_ms(proxy, number) for number in range(sessions // runs)]
        proxy.stop()
    yield Row("test", "start of LLMProxy", median(start_times_s), "s",
              {_SERVER_IMPORTS: median(import_times_s)}, START_TARGET_S)  # fmt: skip
    yield Row("test", "a session without requests", median(session_times_ms), "ms", {},
              SESSION_TARGET_MS)  # fmt: skip


def _session_time_ms(proxy: LLMProxy, number: int) -> float:
    """The time of what the pytest plugin does for one test."""
    began_s = time.perf_counter()
    session = proxy.start_session(f"test-{number}", SessionStart())
    for _ in range(3):  # setup, call, and the check that a request has arrived
        assert session.report.requests == 0
    proxy.end_session(session.name, keep_recordings=True)
    return (time.perf_counter() - began_s) * 1000
