"""What other tools' files hold, as values: exchanges, and why something is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.exchange import Ending, Headers, Read, Request

NO_TIMES: Final = "it keeps no times"
"""Nor where reads ended: what most tools leave out."""
NO_READS: Final = "it keeps no times of the pieces, only of the head or the end"
NO_BYTES: Final = "it keeps events, not bytes: comments and spacing are lost"
PARSED_BODY: Final = "a body was kept as parsed JSON, and is written anew"
EDITED: Final = "a body is longer or shorter than its head says: it was edited"
DECODED: Final = "a head says that its body is compressed, which it is not: the header is left out"
STILL_CODED: Final = "a body is compressed in a way that cannot be undone here: it stays so"
NO_DATE: Final = "it does not say when it was recorded: the time of the import stands for that"
BODY_REDUCED: Final = "the parameters of a form were kept, not its bytes: written anew"


class Unreadable(Exception):
    """A file that cannot be read, in a sentence."""


class Unfit(Exception):
    """Something that is no exchange a cassette could hold, in a sentence."""


@dataclass(frozen=True, slots=True)
class Opened:
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
    losses: tuple[str, ...] = ()
    """What the file could not hold, in sentences."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of files, known by what they hold."""

    name: str
    title: str
    """For people."""
    claims: Callable[[Opened], bool]
    """Whether a file is of this kind."""
    items: Callable[[Opened], Iterable[Any]]
    """What it holds, one an exchange.  Raises `Unreadable`."""
    exchange: Callable[[Any], SourceExchange]
    """The exchange of an item.  Raises `Unfit`."""
