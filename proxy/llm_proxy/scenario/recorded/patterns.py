"""Readable regular expressions that match literal texts."""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def literal_pattern(text: str) -> str:
    """The expression that is this text, and nothing else."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", r"\n")
