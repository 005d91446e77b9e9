"""How often repetitive tests run: a quick selection, or all of it with `LLM_PROXY_THOROUGH=1`."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

VARIABLE: Final = "LLM_PROXY_THOROUGH"


def is_thorough() -> bool:
    """Whether the thorough run is enabled."""
    return bool(os.environ.get(VARIABLE))


def quick_or_thorough(quick: T, thorough: T) -> T:
    """Return `quick`, or `thorough` if the thorough run is enabled."""
    return thorough if is_thorough() else quick
