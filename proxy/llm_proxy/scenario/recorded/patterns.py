"""Regular expressions that people edit, of texts that were said."""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def literally(text: str) -> str:
    """The expression that is this text, and nothing else."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", r"\n")
