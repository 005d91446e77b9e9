"""Readable regular expressions that match literal texts."""

from __future__ import annotations

import re
from typing import Final

_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def literal_pattern(text: str) -> str:
    """A regular expression that matches exactly this text."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", r"\n")
