"""Reads and validates a cassette. A hostile file can do nothing but be refused.

Every refusal is a `CassetteError` that names the file and the line.  Nothing is repaired and
nothing is served in part.
"""

from __future__ import annotations

import binascii
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain, islice, pairwise
from typing import Any, Final, TypeVar

import msgspec
import orjson

from llm_proxy import framing
from llm_proxy.cassette.framed_message_json import decode_message
from llm_proxy.cassette.migrations import migrate
from llm_proxy.cassette.model import FORMAT, Cassette, End, Meta, StoredRequest
from llm_proxy.cassette.schema import (
    LONGEST_MS,
    EndLine,
    HeadLine,
    Marks,
    MetaLine,
    RequestLine,
    refusal_sentence_of,
)
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Read, ResponseHead
from llm_proxy.framing import CODECS

MAX_FILE: Final = 256 * 1024 * 1024
"""Bytes: a larger file is refused before it is read."""
MAX_LINES: Final = 2_000_000
_RESERVED: Final = {"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"}
"""Header fields that replay decides itself."""
_BODILESS: Final = {204, 304}
"""Statuses whose answers have no body, whatever their headers say."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CassetteLines:
    """The lines of a file in the present format, each parsed when its turn comes.

    An event of a model is a handful of containers once it is parsed, and Python's collector stops
    every thread to look at all that are alive.  So no more than a few lines are at a time.
    """

    count: int
    last: dict[str, Any]
    parsed: Iterator[dict[str, Any]]


def read_cassette(file: str, content: bytes) -> Cassette:
    """The cassette that `content` holds; `file` is its name in messages.

    Raises `CassetteError` for anything that is not a whole and consistent cassette.
    """
    return _read_with(file, content, _parse_cassette)


def read_opening(file: str, content: bytes) -> tuple[Meta, StoredRequest]:
    """Lines 1 and 2 alone: enough to key a request, or to say how it differs.

    Raises `CassetteError` as `read_cassette` does.
    """
    first, _, rest = content.partition(b"\n")
    second, newline, _ = rest.partition(b"\n")
    if not newline:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    return _read_with(file, first + b"\n" + second + b"\n", _parse_opening)


def read_meta(file: str, content: bytes) -> Meta:
    """Line 1 alone: what a file is.

    Raises `CassetteError` as `read_cassette` does.
    """
    return _read_with(file, content, _parse_meta)


def _read_with(file: str, content: bytes, make: Callable[[str, _CassetteLines], T]) -> T:
    count = _count_lines(file, content)
    try:
        return make(file, _parse_lines(file, content, count))
    except CassetteError:
        deque(
            _parse_each_line(file, content), maxlen=0
        )  # a line that is no JSON may be why: it comes first
        raise


def _parse_cassette(file: str, lines: _CassetteLines) -> Cassette:
    meta, request = _parse_opening(file, lines)
    last = lines.count
    if last < 4 or "end" not in lines.last:
        raise CassetteError(file, last, "the file is torn: its last line is not an end line")
    head_line = _convert_line(file, 3, HeadLine, next(lines.parsed))
    head = _parse_head(file, head_line, request.method)
    head_at, codec = head_line.response.at, head_line.response.codec
    end = _convert_line(file, last, EndLine, lines.last).to_value()
    messages, starts = _parse_messages(file, islice(lines.parsed, last - 4), head_at)
    body = b"".join(messages)
    _check_end_line(file, last, body, head, end)
    if end.at_ms < (starts[-1][1] if starts else head_at):
        raise CassetteError(file, last, f"it ends at {end.at_ms} ms, before what came ahead of it")
    fitting = framing.codec_of_bytes(codec, body)
    if fitting != codec:  # stored by a version that went by the label alone
        codec, messages = fitting, framing.split_messages(fitting, body)
    stops = pairwise([*starts, (len(body), end.at_ms)])
    return Cassette(
        file=file,
        meta=meta,
        request=request,
        head=head,
        head_at_ms=head_at,
        codec=codec,
        decoded=head_line.response.decoded,
        messages=tuple(messages),
        reads=tuple(Read(at, body[begin:stop]) for (begin, at), (stop, _) in stops),
        end=end,
    )


def _count_lines(file: str, content: bytes) -> int:
    if len(content) > MAX_FILE:
        raise CassetteError(file, None, f"larger than {MAX_FILE} bytes")
    if not content:
        raise CassetteError(file, None, "the file is empty")
    count = content.count(b"\n")
    if count > MAX_LINES:
        raise CassetteError(file, MAX_LINES, f"more than {MAX_LINES} lines")
    if not content.endswith(b"\n"):
        raise CassetteError(file, count + 1, "the file is torn: its last line has no end")
    return count


def _parse_lines(file: str, content: bytes, count: int) -> _CassetteLines:
    lines = _parse_each_line(file, content)
    first = next(lines)
    version = first.get("cassette")
    if isinstance(version, int) and 0 < version < FORMAT:
        older = migrate(file, [first, *lines])  # its steps look at all lines
        return _CassetteLines(len(older), older[-1], iter(older))
    migrate(file, [first])  # refused, unless it is the present one
    last = _parse_line(file, count, content[content.rfind(b"\n", 0, -1) + 1 : -1])
    return _CassetteLines(count, last, chain([first], lines))


def _parse_each_line(file: str, content: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(BytesIO(content), 1):
        yield _parse_line(file, number, line[:-1])


def _parse_line(file: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        why = f"not JSON: {error.msg} at column {error.colno}"
        raise CassetteError(file, number, why) from None
    if not isinstance(fields, dict):
        raise CassetteError(file, number, "a line must be a JSON object")
    return fields


def _parse_opening(file: str, lines: _CassetteLines) -> tuple[Meta, StoredRequest]:
    meta = _parse_meta(file, lines)
    if lines.count < 2:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    line = _convert_line(file, 2, RequestLine, next(lines.parsed))
    return meta, _with_line_number(file, 2, line.to_value)


def _parse_meta(file: str, lines: _CassetteLines) -> Meta:
    return _convert_line(file, 1, MetaLine, next(lines.parsed)).to_value()


def _convert_line(file: str, number: int, kind: type[T], fields: dict[str, Any]) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise CassetteError(file, number, refusal_sentence_of(error)) from None


def _with_line_number(file: str, number: int, make: Callable[[], T]) -> T:
    try:
        return make()
    except binascii.Error as error:
        why = f"what stands in base64 is none: {str(error).lower()}"
        raise CassetteError(file, number, why) from None
    except ValueError as error:
        raise CassetteError(file, number, str(error)) from None


def _parse_head(file: str, line: HeadLine, method: str) -> ResponseHead:
    head = line.to_value()
    if line.response.codec not in CODECS:
        known = ", ".join(sorted(CODECS))
        raise CassetteError(file, 3, f"codec is {line.response.codec!r}, not one of {known}")
    for name, _ in head.headers:
        if name.lower() in _RESERVED:
            raise CassetteError(file, 3, f"a stored header may not be {name!r}")
    if head.framing != "none" and (method == "HEAD" or head.status in _BODILESS):
        raise CassetteError(
            file, 3, f"framing is {head.framing!r}, but a {head.status} to {method} has no body"
        )
    return head


def _parse_messages(
    file: str, lines: Iterable[dict[str, Any]], head_at: float
) -> tuple[list[bytes], list[tuple[int, float]]]:
    """The messages, and where in the body reads begin: offset and ms, both ascending."""
    messages: list[bytes] = []
    starts: list[tuple[int, float]] = []
    position, earliest = 0, head_at
    for number, fields in enumerate(lines, 4):
        at = fields.pop("at", [])
        message = _with_line_number(file, number, partial(decode_message, fields))
        marks = _parse_read_marks(file, number, at, len(message), earliest)
        if message and not starts and (not marks or marks[0][0] != 0):
            raise CassetteError(file, number, "no read begins at the first byte of the body")
        starts += [(position + offset, ms) for offset, ms in marks]
        earliest = marks[-1][1] if marks else earliest
        messages.append(message)
        position += len(message)
    return messages, starts


def _parse_read_marks(
    file: str, number: int, at: object, size: int, earliest: float
) -> list[tuple[int, float]]:
    """The reads that begin in a message of `size` bytes: offsets in it, and ms."""
    try:
        spelled: Marks = msgspec.convert(at, Marks)
    except msgspec.ValidationError as error:
        raise CassetteError(
            file,
            number,
            f"at must be a number of ms, or a list of [bytes, ms]: "
            f"{refusal_sentence_of(error, 'at')}",
        ) from None
    marks = [(0, spelled)] if isinstance(spelled, float) else spelled
    before = -1
    for offset, ms in marks:
        if not before < offset < size:
            raise CassetteError(
                file, number, f"a read begins at byte {offset}: out of order, or past the message"
            )
        if not earliest <= ms <= LONGEST_MS:
            raise CassetteError(
                file, number, f"a read is at {ms} ms: before what came ahead, or absurdly late"
            )
        before, earliest = offset, ms
    return marks


def _check_end_line(file: str, last: int, body: bytes, head: ResponseHead, end: End) -> None:
    if body and head.framing == "none":
        raise CassetteError(file, 3, f"framing is 'none', but there are {len(body)} bytes of body")
    if len(body) != end.size:
        raise CassetteError(
            file, last, f"the messages hold {len(body)} bytes, the end line says {end.size}"
        )
    if hashlib.sha256(body).hexdigest() != end.sha256:
        raise CassetteError(
            file, last, "the messages do not give the SHA-256 of the end line: edited by hand?"
        )
