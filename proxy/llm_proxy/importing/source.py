"""The values of foreign files: exchanges, losses and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.exchange import Ending, Headers, Read, Request


@dataclass(frozen=True, slots=True)
class ImportLoss:
    """Something that a file does not hold of an exchange."""

    name: str
    """In a few words, for a table."""
    text: str
    """What became of it, in a sentence."""


NO_TIMES: Final = ImportLoss(
    "times", "it keeps no times and no reads: one read a message, all at once"
)
NO_READS: Final = ImportLoss(
    "times of pieces",
    "of its times it keeps those of the head or the end: one read a message, evenly between them",
)
NO_BYTES: Final = ImportLoss(
    "bytes of events", "it keeps events, not bytes: they are written anew, without comments"
)
PARSED_BODY: Final = ImportLoss(
    "bytes of JSON", "it keeps bodies as parsed JSON: they are written anew"
)
FORM_PARAMETERS: Final = ImportLoss("bytes of forms", "it keeps a form's parameters: written anew")
EDITED: Final = ImportLoss("length", "a body has not the length that its head says: it was edited")
DECODED: Final = ImportLoss(
    "coding", "a head says that its body is compressed, which it is not: the header is left out"
)
STILL_CODED: Final = ImportLoss(
    "decoding", "a body is compressed in a way that cannot be undone here: it is stored so"
)
NO_DATE: Final = ImportLoss(
    "date", "it does not say when it was recorded: the time of the import stands for that"
)
INCOMPLETE: Final = ImportLoss(
    "completeness", "an answer is not complete: it is replayed only with --allow-partial"
)


class UnreadableFile(Exception):
    """A file that cannot be read, in a sentence."""


class NotImportable(Exception):
    """Something that is no exchange a cassette could hold, in a sentence."""


@dataclass(frozen=True, slots=True)
class UnsupportedObject:
    """Stands for an item of a YAML file that holds an object of a program, and says so."""

    reason: str
    """In a sentence."""


@dataclass(frozen=True, slots=True)
class RefusedItem:
    """An exchange that no cassette could hold, or a fixture that is no scenario, and why."""

    number: int
    reason: str
    """In a sentence."""


@dataclass(frozen=True, slots=True)
class AlreadyImported:
    """An exchange or a fixture that was imported before."""

    number: int


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file, and what its text says where it is a document."""

    data: bytes
    kind: str
    """`json`, `jsonl`, `yaml`, or `bytes` for what is no document."""
    document: Any = None
    """Of a `jsonl`, the list of its lines."""


@dataclass(frozen=True, slots=True)
class SourceExchange:
    """One exchange as another tool kept it."""

    request: Request
    """Its path and query from the URL."""
    host: str
    """Of the URL, in lower case; empty where it has none."""
    status: int
    reason: str
    headers: Headers
    """Of the response, all that the file has."""
    body: bytes
    reads: tuple[Read, ...] = ()
    """The body with its times, where the file has those of its pieces."""
    head_at: float | None = None
    """ms, where the file says it."""
    end_at: float | None = None
    """ms, where the file says it."""
    ending: Ending = Ending.CLEAN
    recorded: str = ""
    """UTC, ISO 8601 with milliseconds; empty where the file does not say it."""
    decoded: str = ""
    """The content coding that was taken off its body."""
    losses: tuple[ImportLoss, ...] = ()
    """What the file does not hold of it."""


def first_readable(items: list[Any]) -> dict[str, Any]:
    """The first of a file's items that can be read, by which its format is known; or none of it."""
    return next((item for item in items if isinstance(item, dict)), {})


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A kind of files, known by what they hold."""

    name: str
    title: str
    """For people."""
    matches_format: Callable[[OpenedFile], bool]
    """Whether a file is of this kind."""
    items: Callable[[OpenedFile], Iterable[Any]]
    """What it holds, one an exchange.  Raises `Unreadable`."""
    exchange: Callable[[Any], SourceExchange]
    """The exchange of an item.  Raises `NotImportable`."""
