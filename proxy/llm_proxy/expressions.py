"""Compiles the regular expressions of users, with RE2: no text makes them slow."""

from __future__ import annotations

import re
from typing import Any, Final

from llm_proxy.errors import UsageError, printable_excerpt

_MAX_PATTERN_CHARS: Final = 900
"""The most characters of a pattern."""
_EMPTY_MATCH_PROBES: Final = (b"", b" ", b"a", b"A", b"0", b"a a", b"\n")
_BYTE_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
r"""RE2's `\C`, which matches a byte and may split a character."""
_MAX_INSTRUCTIONS: Final = 2000
"""The most instructions of a pattern (`a{500}` has a thousand): a larger one takes too long."""
_MAX_SHOWN_CHARS: Final = 100
"""The most characters of a pattern that an error message quotes."""


def compile_expression(argument: str) -> Any:
    """Compile a pattern for bytes of UTF-8.

    Raises `UsageError` if it is invalid, too large, or matches "".
    """
    shown = printable_excerpt(argument, _MAX_SHOWN_CHARS)
    try:
        pattern = compile_pattern(argument)
    except ValueError as error:
        raise UsageError(f"regex={shown} {error}") from None
    if any(
        match.start() == match.end()
        for probe in _EMPTY_MATCH_PROBES
        for match in pattern.finditer(probe)
    ):
        raise UsageError(
            f"regex={shown} matches the empty string; use + instead of *, or add a required "
            "character"
        )
    return pattern


def compile_pattern(argument: str) -> Any:
    """Compile a pattern for bytes of UTF-8.  Raises `ValueError` if it is invalid or too large.

    The message continues a sentence that begins with the pattern.
    """
    import re2  # noqa: PLC0415 # 5 ms, only where a rule has a pattern

    if len(argument) > _MAX_PATTERN_CHARS:
        raise ValueError(f"is too long; the maximum is {_MAX_PATTERN_CHARS} characters")
    if _BYTE_ESCAPE.search(argument):
        raise ValueError(
            r"contains \C, which can match part of a multi-byte character; use . or a character "
            r"class"
        )
    options = re2.Options()
    options.log_errors = False  # reported as `ValueError` instead
    try:
        pattern = re2.compile(argument.encode(), options)
    except UnicodeEncodeError as error:
        raise ValueError(f"is not a valid RE2 pattern: {error}") from None
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise ValueError(f"is not a valid RE2 pattern: {reason}") from None
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise ValueError("is too large; reduce the repetition counts in {…}")
    return pattern
