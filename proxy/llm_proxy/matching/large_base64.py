"""Replaces large base64 data (images, audio) by its hash."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LARGE_BASE64: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])"  # only at the start of a run, or long runs would take quadratic time
    r"(?:data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,4};base64,)?"
    r"([A-Za-z0-9+/_-]{256,})={0,2}"
)
_HASH_TEXT: Final = re.compile(r"base64 of \d+ bytes, sha256 [0-9a-f]{16}")
_CHARACTER_KINDS: Final = tuple(map(re.compile, ("[A-Z]", "[a-z]", "[0-9]")))
"""Base64 of that length contains characters of each of these kinds."""


def is_large_base64(text: str) -> bool:
    """Whether a text is nothing but large base64, or a data URL of it."""
    match = _LARGE_BASE64.fullmatch(text)
    return match is not None and _has_all_character_kinds(match[1])


def replace_large_base64(text: str) -> str:
    """The text with large base64 replaced by its size and hash."""
    return _LARGE_BASE64.sub(_replace_with_hash, text)


def contains_base64_hash(text: str) -> bool:
    """Whether `replace_large_base64` has replaced a part of a text."""
    return _HASH_TEXT.search(text) is not None


def _replace_with_hash(run: re.Match[str]) -> str:
    if not _has_all_character_kinds(run[1]):
        return run[0]
    digest = hashlib.sha256(run[0].encode()).hexdigest()[:16]
    return f"base64 of {len(run[1]) * 3 // 4} bytes, sha256 {digest}"


def _has_all_character_kinds(run: str) -> bool:
    return all(kind.search(run) for kind in _CHARACTER_KINDS)
