"""`regex=PATTERN`: replaces every match of a pattern by one placeholder.

The patterns are RE2's, which reads a text at most once per match, whatever the pattern and the
text; and the number of bytes read for one document is limited.  So no request can block the proxy.
The limit is in bytes and not in time, so that a key is the same on every machine.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.mapping import map_body_texts
from llm_proxy.matching.rules import ApplyRule, NormaliserDefinition, NormalizedDocument

_MAX_SHOWN_CHARS: Final = 100
"""The most characters of a pattern that an error message quotes."""
_MAX_PATTERN_CHARS: Final = 900
"""The most characters of a pattern."""
_EMPTY_MATCH_PROBES: Final = (b"", b" ", b"a", b"A", b"0", b"a a", b"\n")
_BYTE_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
r"""RE2's `\C`, which matches a byte and may split a character."""
_MAX_READ_BYTES: Final = 200_000_000
"""Bytes that may be read for one document; matches beyond that are kept.  The slowest pattern that
was found takes 0.3 s for them, and a usual one reads far fewer bytes than are counted."""
_FAST_INSTRUCTIONS: Final = 20
"""Up to this many instructions, RE2's speed is constant; a larger pattern may take
proportionally longer."""
_MAX_INSTRUCTIONS: Final = 2000
"""The most instructions of a pattern (`a{500}` has a thousand): a larger one takes too long."""


def _make_document_normaliser(argument: str) -> ApplyRule:
    pattern = _compile_pattern(argument)
    placeholder = f"<regex-{hashlib.sha256(argument.encode()).hexdigest()[:6]}>".encode()

    def apply(document: KeyDocument) -> NormalizedDocument:
        return NormalizedDocument(map_body_texts(document, _MatchReplacer(pattern, placeholder)))

    return apply


class _MatchReplacer:
    """Replaces the matches of a pattern in the texts of one document, within the byte limit."""

    def __init__(self, pattern: Any, placeholder: bytes) -> None:
        self._pattern = pattern
        self._placeholder = placeholder
        self._remaining_bytes = _MAX_READ_BYTES
        self._cost_factor = max(1, pattern.programsize // _FAST_INSTRUCTIONS)

    def __call__(self, text: str) -> str:
        """The text with its matches replaced.

        A text that contains the placeholder was changed before, and stays: the pattern may match
        the result again.
        """
        data = text.encode()
        if self._placeholder in data or self._remaining_bytes <= 0:
            return text
        kept: list[bytes] = []
        copied_until = 0
        for match in self._pattern.finditer(data):
            if self._remaining_bytes <= 0:
                break
            # As much may have been read to find it.
            self._remaining_bytes -= len(data) * self._cost_factor
            if match.end() > match.start():
                kept += (data[copied_until : match.start()], self._placeholder)
                copied_until = match.end()
        return b"".join((*kept, data[copied_until:])).decode()


def _compile_pattern(argument: str) -> Any:
    """Compile a pattern.  Raises `UsageError` if it is invalid, too large, or matches ""."""
    try:
        import re2  # noqa: PLC0415 # an extra, only where a rule has a pattern
    except ImportError:
        raise UsageError(
            "regex needs RE2, which no text makes slow: pip install 'llm-proxy-replay[regex]'"
        ) from None
    shown = printable_excerpt(argument, _MAX_SHOWN_CHARS)
    if len(argument) > _MAX_PATTERN_CHARS:
        raise UsageError(f"regex={shown} is too long: at most {_MAX_PATTERN_CHARS} characters")
    if _BYTE_ESCAPE.search(argument):
        raise UsageError(rf"regex={shown}: \C finds half characters: write . or a class")
    options = re2.Options()
    options.log_errors = False  # reported as `UsageError` instead
    try:
        pattern = re2.compile(argument.encode(), options)
    except UnicodeEncodeError as error:
        raise UsageError(f"regex={shown} is no pattern of RE2: {error}") from None
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise UsageError(f"regex={shown} is no pattern of RE2: {reason}") from None
    if pattern.programsize > _MAX_INSTRUCTIONS:
        raise UsageError(f"regex={shown} repeats too much to be fast: make its {{…}} smaller")
    if any(
        match.start() == match.end()
        for probe in _EMPTY_MATCH_PROBES
        for match in pattern.finditer(probe)
    ):
        raise UsageError(
            f"regex={shown} finds the empty text, which is everywhere: write + instead of *, or "
            "a letter that must be there"
        )
    return pattern


REGEX: Final = NormaliserDefinition(
    "regex",
    1,
    _make_document_normaliser,
    argument_description="a pattern",
    example_argument="build-[0-9]+",
)
