"""How much of what only repeats is done: enough for every day, or all of it.

`LLM_PROXY_THOROUGH=1` asks for all of it.
"""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

VARIABLE: Final = "LLM_PROXY_THOROUGH"


def is_thorough() -> bool:
    """Whether all of it is wanted."""
    return bool(os.environ.get(VARIABLE))


def enough(few: T, everything: T) -> T:
    """`few`, or `everything` where all of it is wanted."""
    return everything if is_thorough() else few
