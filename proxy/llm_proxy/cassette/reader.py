"""Reads a cassette and checks all of it: the only thing a hostile file can do is be refused.

Every refusal is a `CassetteError` that names the file and the line.  Nothing is repaired and
nothing is served in part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
import orjson

from llm_proxy.cassette.migrations import migrate
from llm_proxy.cassette.model import Cassette, Meta, StoredRequest, TapeEnd
from llm_proxy.cassette.schema import LONGEST_MS, EndLine, HeadLine, MetaLine, RequestLine
from llm_proxy.cassette.spelling import unspell
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Head, Read
from llm_proxy.framing import CODECS

MAX_FILE: Final = 256 * 1024 * 1024
"""Bytes: a larger file is refused before it is read."""
MAX_LINES: Final = 2_000_000
_RESERVED: Final = {"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"}
"""Header fields that replay decides itself."""

T = TypeVar("T")


def read_cassette(file: str, content: bytes) -> Cassette:
    """The cassette that `content` holds; `file` is its name in messages.

    Raises `CassetteError` for anything that is not a whole and consistent cassette.
    """
    lines = _parsed(file, content)
    meta, request = _opening(file, lines)
    if len(lines) < 4 or "end" not in lines[-1]:
        raise CassetteError(file, len(lines), "the file is torn: its last line is not an end line")
    head_line = _convert(file, 3, HeadLine, lines[2])
    head = _checked_head(file, head_line)
    end = _convert(file, len(lines), EndLine, lines[-1]).value()
    head_at, codec = head_line.response.at, head_line.response.messages
    messages, starts = _messages(file, lines[3:-1])
    body = b"".join(messages)
    _check_body(file, len(lines), body, end)
    reads = _reads(file, body, starts, head_at, end)
    return Cassette(
        file=file,
        meta=meta,
        request=request,
        head=head,
        head_at=head_at,
        framing=codec,
        decoded=head_line.response.decoded,
        messages=tuple(messages),
        reads=reads,
        end=end,
    )


def read_opening(file: str, content: bytes) -> tuple[Meta, StoredRequest]:
    """Lines 1 and 2 alone: enough to key a request, or to say how it differs.

    Raises `CassetteError` as `read_cassette` does.
    """
    first, _, rest = content.partition(b"\n")
    second, newline, _ = rest.partition(b"\n")
    if not newline:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    return _opening(file, _parsed(file, first + b"\n" + second + b"\n"))


def _parsed(file: str, content: bytes) -> list[dict[str, Any]]:
    if len(content) > MAX_FILE:
        raise CassetteError(file, None, f"larger than {MAX_FILE} bytes")
    if not content:
        raise CassetteError(file, None, "the file is empty")
    raw = content.split(b"\n")
    if raw.pop():
        raise CassetteError(file, len(raw) + 1, "the file is torn: its last line has no end")
    if len(raw) > MAX_LINES:
        raise CassetteError(file, MAX_LINES, f"more than {MAX_LINES} lines")
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(raw, 1):
        try:
            fields = orjson.loads(line)
        except ValueError as error:
            raise CassetteError(file, number, f"not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise CassetteError(file, number, "a line must be a JSON object")
        lines.append(fields)
    return migrate(file, lines)


def _opening(file: str, lines: list[dict[str, Any]]) -> tuple[Meta, StoredRequest]:
    meta = _convert(file, 1, MetaLine, lines[0]).value()
    if len(lines) < 2:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    line = _convert(file, 2, RequestLine, lines[1])
    return meta, _at_line(file, 2, line.value)


def _convert(file: str, number: int, kind: type[T], fields: dict[str, Any]) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise CassetteError(file, number, str(error)) from None


def _at_line(file: str, number: int, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise CassetteError(file, number, str(error)) from None


def _checked_head(file: str, line: HeadLine) -> Head:
    head = line.value()
    if line.response.messages not in CODECS:
        known = ", ".join(sorted(CODECS))
        raise CassetteError(file, 3, f"messages is {line.response.messages!r}, not one of {known}")
    for name, _ in head.headers:
        if name.lower() in _RESERVED:
            raise CassetteError(file, 3, f"a stored header may not be {name!r}")
    return head


def _messages(
    file: str, lines: Iterable[dict[str, Any]]
) -> tuple[list[bytes], list[tuple[int, float]]]:
    """The messages, and where in the body reads begin: offset and ms."""
    messages: list[bytes] = []
    starts: list[tuple[int, float]] = []
    position = 0
    for number, fields in enumerate(lines, 4):
        message = _at_line(file, number, lambda fields=fields: unspell(fields))  # type: ignore[misc] # mypy cannot infer a lambda with a bound default
        for offset, at in _at(file, number, fields.get("at")):
            if not 0 <= offset < len(message):
                raise CassetteError(file, number, f"a read begins at {offset}, past the message")
            starts.append((position + offset, at))
        messages.append(message)
        position += len(message)
    return messages, starts


def _at(file: str, number: int, at: object) -> list[tuple[int, float]]:
    """The reads that begin in a message: offsets in it, and ms."""
    if at is None:
        return []
    if isinstance(at, int | float) and not isinstance(at, bool):
        return [(0, float(at))]
    try:
        return msgspec.convert(at, list[tuple[int, float]])
    except msgspec.ValidationError as error:
        raise CassetteError(
            file, number, f"at must be a number of ms, or a list of [bytes, ms]: {error}"
        ) from None


def _check_body(file: str, number: int, body: bytes, end: TapeEnd) -> None:
    if len(body) != end.size:
        raise CassetteError(
            file, number, f"the messages hold {len(body)} bytes, the end line says {end.size}"
        )
    if hashlib.sha256(body).hexdigest() != end.sha256:
        raise CassetteError(
            file, number, "the messages do not give the SHA-256 of the end line: edited by hand?"
        )


def _reads(
    file: str, body: bytes, starts: list[tuple[int, float]], head_at: float, end: TapeEnd
) -> tuple[Read, ...]:
    if body and (not starts or starts[0][0] != 0):
        raise CassetteError(file, 4, "no read begins at the first byte of the body")
    reads: list[Read] = []
    earliest = head_at
    stops = [offset for offset, _ in starts[1:]] + [len(body)]
    for (offset, at), stop in zip(starts, stops, strict=bool(body)):  # no body, no reads
        if not offset < stop:
            raise CassetteError(file, None, f"reads out of order at byte {offset} of the body")
        if not earliest <= at <= LONGEST_MS:
            raise CassetteError(
                file,
                None,
                f"the read at byte {offset} is at {at} ms, "
                f"before what came ahead of it, or absurdly late",
            )
        earliest = at
        reads.append(Read(at, body[offset:stop]))
    if end.at < earliest:
        raise CassetteError(file, None, f"it ends at {end.at} ms, before its last read")
    return tuple(reads)
