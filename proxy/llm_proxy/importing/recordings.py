"""A file of another tool becomes exchanges, each with its number, or with why it is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.importing import aimock
from llm_proxy.importing.formats import FORMATS
from llm_proxy.importing.source import Format, Opened, Refused, SourceExchange, Unfit, Unreadable

MAX_EXCHANGES: Final = 100_000
"""Of one file: what is said of each is kept."""
_LONGEST: Final = 500
"""Characters of a reason, which may quote the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """An exchange, and which of its file it is, from 1."""

    number: int
    exchange: SourceExchange


@dataclass(frozen=True, slots=True)
class Recording:
    """A file whose format is known."""

    format: Format
    exchanges: Iterator[Found | Refused]
    """Taking one raises `Unreadable` where the file breaks off."""


def read(file: Opened) -> Recording:
    """What a file holds.  Raises `Unreadable` where it is no recording that is known here."""
    for kind in FORMATS:
        if kind.claims(file):
            return Recording(kind, _exchanges(kind, file))
    names = ", ".join((*(it.title for it in FORMATS[:-1]), aimock.TITLE))
    raise Unreadable(f"it is no recording of a kind that is known: {names}")


def _exchanges(kind: Format, file: Opened) -> Iterator[Found | Refused]:
    for number, item in enumerate(kind.items(file), 1):
        if number > MAX_EXCHANGES:
            raise Unreadable(f"it holds more than {MAX_EXCHANGES:,} exchanges: split it")
        try:
            yield Found(number, kind.exchange(item))
        except Unfit as error:
            yield Refused(number, printable(str(error), _LONGEST))
