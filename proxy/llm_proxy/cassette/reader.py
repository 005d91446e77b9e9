"""Parses and validates cassettes.  A hostile file can cause nothing but an error.

Every error is a `CassetteError` that names the file and the line.  Nothing is repaired and
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
from llm_proxy.cassette.migrations import migrate_lines
from llm_proxy.cassette.model import (
    FORMAT_VERSION,
    Cassette,
    CassetteEnd,
    CassetteMeta,
    StoredRequest,
)
from llm_proxy.cassette.schema import (
    MAX_OFFSET_MS,
    EndLine,
    HeadLine,
    MetaLine,
    ReadStarts,
    RequestLine,
    validation_error_sentence,
)
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Read, ResponseHead
from llm_proxy.framing import CODECS

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
"""Bytes: a larger file is refused before it is read."""
MAX_LINES: Final = 2_000_000
_RESERVED_HEADERS: Final = {
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
}
"""Header fields that the replay sets itself; a cassette must not have them."""
_BODILESS_STATUSES: Final = {204, 304}
"""Statuses of responses without a body, whatever their headers."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CassetteLines:
    """The lines of a file in the current format, parsed lazily.

    A parsed event consists of several containers, and Python's garbage collector stops all threads
    to traverse those that are alive.  So only a few parsed lines are alive at a time.
    """

    line_count: int
    last_line: dict[str, Any]
    parsed_lines: Iterator[dict[str, Any]]


def parse_cassette(file: str, content: bytes) -> Cassette:
    """Parse a whole cassette; `file` is its path for messages.

    Raises `CassetteError` for anything that is not a complete and consistent cassette.
    """
    return _parse_with(file, content, _parse_cassette)


def parse_cassette_opening(file: str, content: bytes) -> tuple[CassetteMeta, StoredRequest]:
    """Parse lines 1 and 2 only: enough to compute the key, or to compare requests.

    Raises `CassetteError` as `parse_cassette` does.
    """
    first, _, rest = content.partition(b"\n")
    second, newline, _ = rest.partition(b"\n")
    if not newline:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    return _parse_with(file, first + b"\n" + second + b"\n", _parse_opening)


def parse_cassette_meta(file: str, content: bytes) -> CassetteMeta:
    """Parse line 1 only: the metadata.

    Raises `CassetteError` as `parse_cassette` does.
    """
    return _parse_with(file, content, _parse_meta)


def _parse_with(file: str, content: bytes, parse: Callable[[str, _CassetteLines], T]) -> T:
    count = _count_lines(file, content)
    try:
        return parse(file, _parse_lines(file, content, count))
    except CassetteError:
        deque(
            _parse_each_line(file, content), maxlen=0
        )  # a line that is no JSON may be the cause: report it instead
        raise


def _parse_cassette(file: str, lines: _CassetteLines) -> Cassette:
    meta, request = _parse_opening(file, lines)
    last_number = lines.line_count
    if last_number < 4 or "end" not in lines.last_line:
        raise CassetteError(file, last_number, "the file is torn: its last line is not an end line")
    head_line = _convert_line(file, 3, HeadLine, next(lines.parsed_lines))
    head = _parse_head(file, head_line, request.method)
    head_at_ms, codec = head_line.response.at, head_line.response.codec
    end = _convert_line(file, last_number, EndLine, lines.last_line).to_cassette_end()
    messages, starts = _parse_messages(
        file, islice(lines.parsed_lines, last_number - 4), head_at_ms
    )
    body = b"".join(messages)
    _check_end_line(file, last_number, body, head, end)
    if end.at_ms < (starts[-1][1] if starts else head_at_ms):
        raise CassetteError(
            file, last_number, f"it ends at {end.at_ms} ms, before what came ahead of it"
        )
    fitting_codec = framing.codec_name_for_body(codec, body)
    if fitting_codec != codec:  # stored by a version that relied on the content type alone
        codec, messages = fitting_codec, framing.split_messages(fitting_codec, body)
    read_bounds = pairwise([*starts, (len(body), end.at_ms)])
    return Cassette(
        file=file,
        meta=meta,
        request=request,
        response_head=head,
        response_head_at_ms=head_at_ms,
        codec_name=codec,
        content_coding=head_line.response.decoded,
        framed_messages=tuple(messages),
        reads=tuple(Read(at, body[begin:stop]) for (begin, at), (stop, _) in read_bounds),
        response_end=end,
    )


def _count_lines(file: str, content: bytes) -> int:
    if len(content) > MAX_FILE_BYTES:
        raise CassetteError(file, None, f"larger than {MAX_FILE_BYTES} bytes")
    if not content:
        raise CassetteError(file, None, "the file is empty")
    line_count = content.count(b"\n")
    if line_count > MAX_LINES:
        raise CassetteError(file, MAX_LINES, f"more than {MAX_LINES} lines")
    if not content.endswith(b"\n"):
        raise CassetteError(file, line_count + 1, "the file is torn: its last line has no end")
    return line_count


def _parse_lines(file: str, content: bytes, line_count: int) -> _CassetteLines:
    lines = _parse_each_line(file, content)
    first = next(lines)
    version = first.get("cassette")
    if isinstance(version, int) and 0 < version < FORMAT_VERSION:
        migrated = migrate_lines(file, [first, *lines])  # a migration needs all lines
        return _CassetteLines(len(migrated), migrated[-1], iter(migrated))
    migrate_lines(file, [first])  # raises unless it is the current format
    last = _parse_line(file, line_count, content[content.rfind(b"\n", 0, -1) + 1 : -1])
    return _CassetteLines(line_count, last, chain([first], lines))


def _parse_each_line(file: str, content: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(BytesIO(content), 1):
        yield _parse_line(file, number, line[:-1])


def _parse_line(file: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at column {error.colno}"
        raise CassetteError(file, number, reason) from None
    if not isinstance(fields, dict):
        raise CassetteError(file, number, "a line must be a JSON object")
    return fields


def _parse_opening(file: str, lines: _CassetteLines) -> tuple[CassetteMeta, StoredRequest]:
    meta = _parse_meta(file, lines)
    if lines.line_count < 2:
        raise CassetteError(file, 2, "the file is torn: it ends before its request")
    line = _convert_line(file, 2, RequestLine, next(lines.parsed_lines))
    return meta, _with_error_location(file, 2, line.to_stored_request)


def _parse_meta(file: str, lines: _CassetteLines) -> CassetteMeta:
    return _convert_line(file, 1, MetaLine, next(lines.parsed_lines)).to_cassette_meta()


def _convert_line(file: str, number: int, line_type: type[T], fields: dict[str, Any]) -> T:
    try:
        return msgspec.convert(fields, line_type)
    except msgspec.ValidationError as error:
        raise CassetteError(file, number, validation_error_sentence(error)) from None


def _with_error_location(file: str, number: int, convert: Callable[[], T]) -> T:
    try:
        return convert()
    except binascii.Error as error:
        reason = f"what stands in base64 is none: {str(error).lower()}"
        raise CassetteError(file, number, reason) from None
    except ValueError as error:
        raise CassetteError(file, number, str(error)) from None


def _parse_head(file: str, line: HeadLine, method: str) -> ResponseHead:
    head = line.to_response_head()
    if line.response.codec not in CODECS:
        known = ", ".join(sorted(CODECS))
        raise CassetteError(file, 3, f"codec is {line.response.codec!r}, not one of {known}")
    for name, _ in head.headers:
        if name.lower() in _RESERVED_HEADERS:
            raise CassetteError(file, 3, f"a stored header may not be {name!r}")
    if head.framing != "none" and (method == "HEAD" or head.status in _BODILESS_STATUSES):
        raise CassetteError(
            file, 3, f"framing is {head.framing!r}, but a {head.status} to {method} has no body"
        )
    return head


def _parse_messages(
    file: str, lines: Iterable[dict[str, Any]], head_at_ms: float
) -> tuple[list[bytes], list[tuple[int, float]]]:
    """The messages, and the reads' starts in the body as (offset, ms), both ascending."""
    messages: list[bytes] = []
    starts: list[tuple[int, float]] = []
    position, earliest_ms = 0, head_at_ms
    for number, fields in enumerate(lines, 4):
        at = fields.pop("at", [])
        message = _with_error_location(file, number, partial(decode_message, fields))
        read_starts = _parse_read_starts(file, number, at, len(message), earliest_ms)
        if message and not starts and (not read_starts or read_starts[0][0] != 0):
            raise CassetteError(file, number, "no read begins at the first byte of the body")
        starts += [(position + offset, ms) for offset, ms in read_starts]
        earliest_ms = read_starts[-1][1] if read_starts else earliest_ms
        messages.append(message)
        position += len(message)
    return messages, starts


def _parse_read_starts(
    file: str, number: int, at: object, size: int, earliest_ms: float
) -> list[tuple[int, float]]:
    """The starts of the reads in a message of `size` bytes, as (offset, ms)."""
    try:
        raw_starts: ReadStarts = msgspec.convert(at, ReadStarts)
    except msgspec.ValidationError as error:
        raise CassetteError(
            file,
            number,
            f"at must be a number of ms, or a list of [bytes, ms]: "
            f"{validation_error_sentence(error, 'at')}",
        ) from None
    read_starts = [(0, raw_starts)] if isinstance(raw_starts, float) else raw_starts
    previous_offset = -1
    for offset, ms in read_starts:
        if not previous_offset < offset < size:
            raise CassetteError(
                file, number, f"a read begins at byte {offset}: out of order, or past the message"
            )
        if not earliest_ms <= ms <= MAX_OFFSET_MS:
            raise CassetteError(
                file, number, f"a read is at {ms} ms: before what came ahead, or absurdly late"
            )
        previous_offset, earliest_ms = offset, ms
    return read_starts


def _check_end_line(
    file: str, last_number: int, body: bytes, head: ResponseHead, end: CassetteEnd
) -> None:
    if body and head.framing == "none":
        raise CassetteError(file, 3, f"framing is 'none', but there are {len(body)} bytes of body")
    if len(body) != end.size_bytes:
        raise CassetteError(
            file,
            last_number,
            f"the messages hold {len(body)} bytes, the end line says {end.size_bytes}",
        )
    if hashlib.sha256(body).hexdigest() != end.sha256:
        raise CassetteError(
            file,
            last_number,
            "the messages do not give the SHA-256 of the end line: edited by hand?",
        )
