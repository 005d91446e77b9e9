"""Replaces large base64 data (images, audio) by its hash."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_RUN: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])"  # from its beginning alone, or long runs would be tried again and again
    r"(?:data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,4};base64,)?"
    r"([A-Za-z0-9+/_-]{256,})={0,2}"
)
_HASH: Final = re.compile(r"base64 of \d+ bytes, sha256 [0-9a-f]{16}")
_KINDS: Final = tuple(map(re.compile, ("[A-Z]", "[a-z]", "[0-9]")))
"""Of all of these there are some in any base64 of that length."""


def is_large_base64(text: str) -> bool:
    """Whether a text is large base64 and nothing else, or a URL of such data."""
    match = _RUN.fullmatch(text)
    return match is not None and _has_all_character_kinds(match[1])


def hash_large_base64(text: str) -> str:
    """A text with its large base64 told by size and hash."""
    return _RUN.sub(_hash_label, text)


def contains_base64_hash(text: str) -> bool:
    """Whether `by_hash` has told some of a text by its hash."""
    return _HASH.search(text) is not None


def _hash_label(run: re.Match[str]) -> str:
    if not _has_all_character_kinds(run[1]):
        return run[0]
    digest = hashlib.sha256(run[0].encode()).hexdigest()[:16]
    return f"base64 of {len(run[1]) * 3 // 4} bytes, sha256 {digest}"


def _has_all_character_kinds(run: str) -> bool:
    return all(kind.search(run) for kind in _KINDS)
