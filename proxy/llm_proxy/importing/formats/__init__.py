"""The supported foreign formats, one per file, and the exchanges of a file in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.importing import aimock
from llm_proxy.importing.formats.datadog import DATADOG
from llm_proxy.importing.formats.go_vcr import GO_VCR
from llm_proxy.importing.formats.har import HAR
from llm_proxy.importing.formats.httprr import HTTPRR
from llm_proxy.importing.formats.mitmproxy import MITMPROXY
from llm_proxy.importing.formats.nock import NOCK
from llm_proxy.importing.formats.reel import REEL
from llm_proxy.importing.formats.responses_only import RESPONSE_ONLY
from llm_proxy.importing.formats.vcr import VCR, VCR_RUBY
from llm_proxy.importing.source import (
    ForeignFormat,
    NotImportable,
    ParsedFile,
    RefusedItem,
    SourceExchange,
    UnreadableFile,
)

FORMATS: Final[tuple[ForeignFormat, ...]] = (
    HTTPRR, MITMPROXY, HAR, VCR, VCR_RUBY, GO_VCR, REEL, NOCK, DATADOG, RESPONSE_ONLY
)  # fmt: skip
"""In the order in which they are tried; they do not overlap, except the last, which matches
anything that looks like a response."""

MAX_EXCHANGES: Final = 100_000
"""The limit for one file: a result is kept for each."""
_MAX_REASON_CHARS: Final = 500
"""Limit of a reason, which may quote the file."""


@dataclass(frozen=True, slots=True)
class NumberedExchange:
    """An exchange and its position in the file, from 1."""

    number: int
    exchange: SourceExchange


@dataclass(frozen=True, slots=True)
class ForeignRecording:
    """A file of a known format, and its exchanges."""

    format: ForeignFormat
    exchanges: Iterator[NumberedExchange | RefusedItem]
    """Iterating raises `UnreadableFile` where the file breaks off."""


def parse_recording(file: ParsedFile) -> ForeignRecording:
    """Detects the format of a file.  Raises `UnreadableFile` for an unknown one."""
    for candidate in FORMATS:
        if candidate.matches_format(file):
            return ForeignRecording(candidate, _parse_exchanges(candidate, file))
    names = ", ".join([*(candidate.display_name for candidate in FORMATS[:-1]), aimock.TITLE])
    raise UnreadableFile(f"unknown format; supported: {names}")


def _parse_exchanges(
    foreign_format: ForeignFormat, file: ParsedFile
) -> Iterator[NumberedExchange | RefusedItem]:
    for number, item in enumerate(foreign_format.list_items(file), 1):
        if number > MAX_EXCHANGES:
            raise UnreadableFile(f"the file has more than {MAX_EXCHANGES:,} exchanges; split it")
        try:
            yield NumberedExchange(number, foreign_format.parse_exchange(item))
        except NotImportable as error:
            yield RefusedItem(number, printable_excerpt(str(error), _MAX_REASON_CHARS))
