"""`assert_linear`: a function takes time in proportion to the size of its input."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_FACTOR: Final = 8
_SLACK: Final = 3
_ATTEMPTS: Final = 5
_NEGLIGIBLE_S: Final = 0.01
"""A time of the larger input in which caches and memory pages count as much as its size."""

_HOPELESS_S: Final = 5.0
"""A time of the larger input that no further attempt makes acceptable: far above what a busy
machine makes of a fraction of a second."""


def assert_linear(run: Callable[[int], object], size: int) -> None:
    """Compare the CPU times of `run(size)` and `run(size // 8)` in this thread.

    Linear time is 8 times as long, quadratic time 64 times; less than 24 times passes.  The least
    of several times counts, so what else the machine does cannot make it fail.
    """
    small_s = large_s = float("inf")
    for _ in range(_ATTEMPTS):
        small_s = min(small_s, *(_cpu_s(run, size // _FACTOR) for _ in range(2)))
        large_s = min(large_s, _cpu_s(run, size))
        if large_s < max(_FACTOR * _SLACK * small_s, _NEGLIGIBLE_S):
            return
        if large_s > _HOPELESS_S:
            break
    raise AssertionError(
        f"{size:,} take {large_s * 1000:.1f} ms, {size // _FACTOR:,} {small_s * 1000:.1f} ms"
    )


def _cpu_s(run: Callable[[int], object], size: int) -> float:
    began_s = time.thread_time()
    run(size)
    return time.thread_time() - began_s
