"""The tier of this run: daily, or thorough with `LLM_PROXY_THOROUGH=1` (`scripts/test --thorough`).

A test that only the thorough tier runs has the mark `thorough`.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

VARIABLE: Final = "LLM_PROXY_THOROUGH"


def is_thorough() -> bool:
    """Whether this is the thorough tier."""
    return bool(os.environ.get(VARIABLE))


def quick_or_thorough(quick: T, thorough: T) -> T:
    """Return `quick`, or `thorough` in the thorough tier."""
    return thorough if is_thorough() else quick
