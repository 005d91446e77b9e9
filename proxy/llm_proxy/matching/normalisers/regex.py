"""`regex=PATTERN`: replaces every match of a pattern by one mark.

The patterns are RE2's, which reads a text at most once for each thing that it finds, whatever the
pattern and the text are; and how much is read for one document has a limit.  So no request can
hold up the proxy.  The limit is one of bytes and not of time, so that a key is the same on every
machine.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from llm_proxy.errors import UsageError, printable
from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.normalisers.mapping import map_body_texts
from llm_proxy.matching.rules import Apply, NormalizedDocument

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN: Final = 100
"""Characters of a pattern in a message."""
_LONGEST: Final = 900
"""Characters of a pattern."""
_PROBES: Final = (b"", b" ", b"a", b"A", b"0", b"a a", b"\n")
_BYTES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""RE2's word for a byte, which may be half a character."""
_EFFORT: Final = 200_000_000
"""Bytes that may be read for one document; what would be found beyond that stays as it is.  The
slowest pattern that was found takes 0.3 s for them, and a usual one reads far less than counts."""
_SMALL: Final = 20
"""Instructions of a pattern that RE2 runs as fast as one; a larger one may take its size longer."""
_LARGEST: Final = 2000
"""Instructions of a pattern, of which `a{500}` has a thousand: a larger one takes too long."""


def _make_rule(argument: str) -> Apply:
    pattern = _compile_pattern(argument)
    mark = f"<regex-{hashlib.sha256(argument.encode()).hexdigest()[:6]}>".encode()

    def apply(document: KeyDocument) -> NormalizedDocument:
        return NormalizedDocument(map_body_texts(document, _MatchReplacer(pattern, mark)))

    return apply


class _MatchReplacer:
    """Puts the mark in place of what the pattern finds in the texts of one document."""

    def __init__(self, pattern: Any, mark: bytes) -> None:
        self._pattern = pattern
        self._mark = mark
        self._remaining_ms = _EFFORT
        self._weight = max(1, pattern.programsize // _SMALL)

    def __call__(self, text: str) -> str:
        """The text with marks.

        One that has the mark already was changed before: a pattern may well find itself again in
        what it left.
        """
        whole = text.encode()
        if self._mark in whole or self._remaining_ms <= 0:
            return text
        kept: list[bytes] = []
        done = 0
        for match in self._pattern.finditer(whole):
            if self._remaining_ms <= 0:
                break
            self._remaining_ms -= len(whole) * self._weight  # as much may have been read to find it
            if match.end() > match.start():
                kept += (whole[done : match.start()], self._mark)
                done = match.end()
        return b"".join((*kept, whole[done:])).decode() if kept else text


def _compile_pattern(argument: str) -> Any:
    """The pattern.  Raises `UsageError` for what is none, or finds nothing in particular."""
    shown = printable(argument, _SHOWN)
    compiled = _regex_compiler()
    if len(argument) > _LONGEST:
        raise UsageError(f"regex={shown} is too long: at most {_LONGEST} characters")
    if _BYTES.search(argument):
        raise UsageError(rf"regex={shown}: \C finds half characters: write . or a class")
    try:
        pattern = compiled(argument)
    except (ValueError, UnicodeEncodeError) as error:
        raise UsageError(f"regex={shown} is no pattern of RE2: {error}") from None
    if pattern.programsize > _LARGEST:
        raise UsageError(f"regex={shown} repeats too much to be fast: make its {{…}} smaller")
    if any(match.start() == match.end() for probe in _PROBES for match in pattern.finditer(probe)):
        raise UsageError(
            f"regex={shown} finds the empty text, which is everywhere: write + instead of *, or "
            "a letter that must be there"
        )
    return pattern


def _regex_compiler() -> Callable[[str], Any]:
    try:
        import re2  # noqa: PLC0415 # an extra, only where a rule has a pattern
    except ImportError:
        raise UsageError(
            "regex needs RE2, which no text makes slow: pip install 'llm-proxy-replay[regex]'"
        ) from None

    def compiled(pattern: str) -> Any:
        options = re2.Options()
        options.log_errors = False  # we say it ourselves
        try:
            return re2.compile(pattern.encode(), options)
        except re2.error as error:
            why = error.args[0] if error.args else error
            raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None

    return compiled


REGEX: Final = NormaliserKind(
    name="regex",
    version=1,
    ignores="what a pattern finds in texts",
    make_rule_of=_make_rule,
    argument_name="a pattern",
    example="build-[0-9]+",
)
