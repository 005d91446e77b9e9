"""The CPU time of work, for tests of how it grows: they compare times of the same run."""

from __future__ import annotations

import time
from collections.abc import Callable


def cpu_s(work: Callable[[], object]) -> float:
    """The CPU seconds that the work takes: the less of two trials."""
    return min(_trial(work) for _ in range(2))


def _trial(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin
