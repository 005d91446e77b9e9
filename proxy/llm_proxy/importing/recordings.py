"""Parses a foreign recording into numbered exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.importing import aimock
from llm_proxy.importing.formats import FORMATS
from llm_proxy.importing.source import (
    ForeignFormat,
    NotImportable,
    OpenedFile,
    RefusedItem,
    SourceExchange,
    UnreadableFile,
)

MAX_EXCHANGES: Final = 100_000
"""Of one file: what is said of each is kept."""
_LONGEST: Final = 500
"""Characters of a reason, which may quote the file."""


@dataclass(frozen=True, slots=True)
class NumberedExchange:
    """An exchange, and which of its file it is, from 1."""

    number: int
    exchange: SourceExchange


@dataclass(frozen=True, slots=True)
class ForeignRecording:
    """A file whose format is known."""

    format: ForeignFormat
    exchanges: Iterator[NumberedExchange | RefusedItem]
    """Taking one raises `Unreadable` where the file breaks off."""


def parse_recording(file: OpenedFile) -> ForeignRecording:
    """What a file holds.  Raises `Unreadable` where it is no recording that is known here."""
    for kind in FORMATS:
        if kind.matches_format(file):
            return ForeignRecording(kind, _parse_exchanges(kind, file))
    names = ", ".join((*(foreign_format.title for foreign_format in FORMATS[:-1]), aimock.TITLE))
    raise UnreadableFile(f"it is no recording of a kind that is known: {names}")


def _parse_exchanges(
    kind: ForeignFormat, file: OpenedFile
) -> Iterator[NumberedExchange | RefusedItem]:
    for number, item in enumerate(kind.items(file), 1):
        if number > MAX_EXCHANGES:
            raise UnreadableFile(f"it holds more than {MAX_EXCHANGES:,} exchanges: split it")
        try:
            yield NumberedExchange(number, kind.exchange(item))
        except NotImportable as error:
            yield RefusedItem(number, printable(str(error), _LONGEST))
