"""The values of foreign files: exchanges, losses and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.exchange import Ending, Headers, Read, Request


@dataclass(frozen=True, slots=True)
class ImportLoss:
    """A property of an exchange that its file does not hold."""

    name: str
    """A few words, for a table."""
    effect: str
    """The effect on the import, as a sentence."""


NO_TIMES: Final = ImportLoss(
    "times",
    "the file has no arrival times; each message becomes one read, at 0 ms or at a time that "
    "--pace generates",
)
NO_READ_TIMES: Final = ImportLoss(
    "read times",
    "the file has only the start or end time of a response; each message becomes one read, "
    "at equal intervals or at a time that --pace generates",
)
NO_EVENT_BYTES: Final = ImportLoss(
    "event bytes", "events are stored as parsed values; they are serialised again, without comments"
)
PARSED_BODY: Final = ImportLoss(
    "JSON bytes", "JSON bodies are stored as parsed values; they are serialised again"
)
FORM_PARAMETERS: Final = ImportLoss(
    "form bytes", "forms are stored as parameters; they are encoded again"
)
LENGTH_MISMATCH: Final = ImportLoss(
    "length", "the length of a body differs from its content-length; the header is corrected"
)
ALREADY_DECODED: Final = ImportLoss(
    "content-encoding", "a body is stored decompressed; its content-encoding header is removed"
)
UNDECODABLE_CODING: Final = ImportLoss(
    "compression", "the compression of a body is not supported; the body is stored compressed"
)
NO_DATE: Final = ImportLoss(
    "date", "the file has no recording time; the time of the import is used"
)
INCOMPLETE: Final = ImportLoss(
    "completeness", "a response is incomplete; it is replayed only with --allow-partial"
)


class UnreadableFile(Exception):
    """A file cannot be parsed; the message is a sentence."""


class NotImportable(Exception):
    """No cassette can hold this item of a file; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class UnsupportedYamlObject:
    """Replaces a YAML item that holds an object of a programming language; none is ever built."""

    reason: str
    """A sentence."""


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """An exchange that no cassette can hold, or a fixture that no scenario can; counted from 1."""

    number: int
    reason: str
    """A sentence."""


@dataclass(frozen=True, slots=True)
class AlreadyImportedItem:
    """An exchange or a fixture that was imported before; `number` counts from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The bytes of a file, and the document in them if they are one."""

    decompressed_bytes: bytes
    file_type: str
    """`json`, `jsonl`, `yaml`, or `bytes` without a document."""
    document: Any = None
    """The parsed document; for `jsonl` the list of its lines."""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """Headers and body of a request or a response."""

    headers: Headers
    body: bytes
    losses: tuple[ImportLoss, ...] = ()
    """The properties of the message that the file does not hold."""


@dataclass(frozen=True, slots=True)
class SourceExchange:
    """One exchange as another tool stored it."""

    request: Request
    """Path and query are those of the URL."""
    host: str
    """The host of the URL, in lower case; empty where it has none."""
    status: int
    reason_phrase: str
    response_headers: Headers
    """The response headers, as far as the file has them."""
    response_body: bytes
    """The response body."""
    reads: tuple[Read, ...] = ()
    """The response body with arrival times, where the file has them; else empty."""
    head_at_ms: float | None = None
    """When the response head arrived, in ms after the request; None where unknown."""
    end_at_ms: float | None = None
    """When the response ended, in ms after the request; None where unknown."""
    ending: Ending = Ending.CLEAN
    recorded_at: str = ""
    """UTC, ISO 8601 with milliseconds; empty where unknown."""
    removed_content_coding: str = ""
    """The content coding that the import removed from the response body; else empty."""
    losses: tuple[ImportLoss, ...] = ()
    """The properties of the exchange that the file does not hold."""


def list_field(document: Any, name: str) -> list[Any]:
    """The items of the field `name` of a document; empty unless it is a list."""
    items = document.get(name) if isinstance(document, dict) else None
    return items if isinstance(items, list) else []


def first_object(items: list[Any]) -> dict[str, Any]:
    """The first item that is an object, which identifies the file's format; empty without one."""
    return next((item for item in items if isinstance(item, dict)), {})


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A file format of another tool, recognised by the content of its files."""

    name: str
    display_name: str
    """The name for messages."""
    matches_format: Callable[[ParsedFile], bool]
    """Whether a file has this format."""
    list_items: Callable[[ParsedFile], Iterable[Any]]
    """The items of a file, one per exchange.  Raises `UnreadableFile`."""
    parse_exchange: Callable[[Any], SourceExchange]
    """Parses the exchange of an item.  Raises `NotImportable`."""
