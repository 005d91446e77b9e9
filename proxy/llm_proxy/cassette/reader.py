"""Parses and validates cassettes.  A hostile file can cause nothing but an error.

Every error is a `CassetteError` that names the file and the line.  Nothing is repaired and
nothing is served in part.
"""

from __future__ import annotations

import binascii
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import chain, islice, pairwise
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
import orjson

from llm_proxy import framing
from llm_proxy.cassette.framed_message_json import decode_message
from llm_proxy.cassette.model import (
    FORMAT_VERSION,
    MAX_OFFSET_MS,
    Cassette,
    CassetteMeta,
    EndLine,
    HeadLine,
    ReadStarts,
    RequestLine,
    StoredHead,
    StoredRequest,
    sha256_hex,
    validation_error_sentence,
)
from llm_proxy.errors import CassetteError, CassetteTooNew, printable_excerpt
from llm_proxy.exchange import Read
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
Lines = list[dict[str, Any]]

MIGRATIONS: Final[Mapping[int, Callable[[Lines], Lines]]] = MappingProxyType({})
"""The migration from each format to the next: a step takes the parsed lines of format N and returns
those of N + 1.  Files on disk stay as they are: a migration happens in memory, whenever the file is
read.  Format 1 is the first."""


def parse_cassette(file: str, content: bytes) -> Cassette:
    """Parse a whole cassette; `file` is its path for messages.

    Raises `CassetteError` for anything that is not a complete and consistent cassette.
    """
    return _parse_with(_CassetteParser.parse_cassette, file, content)


def parse_cassette_opening(file: str, content: bytes) -> tuple[CassetteMeta, StoredRequest]:
    """Parse lines 1 and 2 only: enough to compute the key, or to compare requests.

    Raises `CassetteError` as `parse_cassette` does.
    """
    first, _, rest = content.partition(b"\n")
    second, newline, _ = rest.partition(b"\n")
    if not newline:
        raise CassetteError(file, 2, "the file is truncated: it ends before the request")
    return _parse_with(_CassetteParser.parse_opening, file, first + b"\n" + second + b"\n")


def parse_cassette_meta(file: str, content: bytes) -> CassetteMeta:
    """Parse line 1 only: the metadata.

    Raises `CassetteError` as `parse_cassette` does.
    """
    return _parse_with(_CassetteParser.parse_meta, file, content)


def _parse_with(parse: Callable[[_CassetteParser], T], file: str, content: bytes) -> T:
    parser = _CassetteParser(file, content)
    try:
        parser.start()
        return parse(parser)
    except CassetteError:
        # A line that is no JSON may be the cause: it is reported instead.
        deque(_parse_each_line(file, content), maxlen=0)
        raise


def migrate_lines(file: str, lines: Lines) -> Lines:
    """The lines in the current format.

    Raises `CassetteTooNew` for a newer format and `CassetteError` if there is no format number.
    """
    version = lines[0].get("cassette") if lines else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CassetteError(file, 1, 'not a cassette: line 1 has no format number in "cassette"')
    if version > FORMAT_VERSION:
        raise CassetteTooNew(
            file,
            1,
            f"cassette format {version} is not supported by this version of llm-proxy (newest "
            f"supported format: {FORMAT_VERSION}); the file was written by "
            f"{printable_excerpt(str(lines[0].get('tool', 'a newer version')), 60)}; upgrade "
            "llm-proxy",
        )
    for from_version in range(version, FORMAT_VERSION):
        lines = MIGRATIONS[from_version](lines)
    return lines


class _CassetteParser:
    """Parses the lines of one file lazily.

    A parsed event consists of several containers, and Python's garbage collector stops all threads
    to traverse those that are alive.  So only a few parsed lines are alive at a time.
    """

    def __init__(self, file: str, content: bytes) -> None:
        """Checks size and line ends."""
        self._file = file
        self._content = content
        self._line_count = content.count(b"\n")
        self._last_line: dict[str, Any] = {}
        self._lines: Iterator[dict[str, Any]] = iter(())
        if len(content) > MAX_FILE_BYTES:
            raise self._error(None, f"the file is larger than {MAX_FILE_BYTES:,} bytes")
        if not content:
            raise self._error(None, "the file is empty")
        if self._line_count > MAX_LINES:
            raise self._error(MAX_LINES, f"the file has more than {MAX_LINES:,} lines")
        if not content.endswith(b"\n"):
            raise self._error(
                self._line_count + 1, "the file is truncated: the last line is incomplete"
            )

    def start(self) -> None:
        """Provide the lines in the current format; a migration needs all of them at once."""
        lines = _parse_each_line(self._file, self._content)
        first = next(lines)
        version = first.get("cassette")
        if isinstance(version, int) and 0 < version < FORMAT_VERSION:
            migrated = migrate_lines(self._file, [first, *lines])
            self._line_count, self._last_line = len(migrated), migrated[-1]
            self._lines = iter(migrated)
            return
        migrate_lines(self._file, [first])  # raises unless it is the current format
        last_start = self._content.rfind(b"\n", 0, -1) + 1
        last_line = self._content[last_start:-1]
        self._last_line = _parse_line(self._file, self._line_count, last_line)
        self._lines = chain([first], lines)

    def parse_meta(self) -> CassetteMeta:
        return self._convert(1, CassetteMeta, next(self._lines))

    def parse_opening(self) -> tuple[CassetteMeta, StoredRequest]:
        meta = self.parse_meta()
        if self._line_count < 2:
            raise self._error(2, "the file is truncated: it ends before the request")
        line = self._convert(2, RequestLine, next(self._lines))
        return meta, self._decode(2, line.to_stored_request)

    def parse_cassette(self) -> Cassette:
        meta, request = self.parse_opening()
        last_number = self._line_count
        if last_number < 4 or "end" not in self._last_line:
            raise self._error(
                last_number, 'the file is truncated: the last line does not contain "end"'
            )
        head = self._convert(3, HeadLine, next(self._lines)).response
        self._check_head(head, request.method)
        end = self._convert(last_number, EndLine, self._last_line).end
        messages, starts = self._parse_messages(islice(self._lines, last_number - 4), head.at_ms)
        body = b"".join(messages)
        if body and head.framing == "none":
            raise self._error(3, f"framing is 'none', but the body has {len(body):,} bytes")
        if len(body) != end.size_bytes:
            raise self._error(
                last_number,
                f'the messages have {len(body):,} bytes in total, but "bytes" in the last line is '
                f"{end.size_bytes:,}",
            )
        if sha256_hex(body) != end.sha256:
            raise self._error(
                last_number,
                'the SHA-256 hash of the messages does not match "sha256" in the last line; the '
                "file was edited or damaged",
            )
        if end.at_ms < (starts[-1][1] if starts else head.at_ms):
            raise self._error(
                last_number,
                f"the response ends at {end.at_ms} ms, which is earlier than the time of the "
                "response head or the last read",
            )
        codec = framing.codec_name_for_body(head.codec, body)
        if codec != head.codec:  # stored by a version that relied on the content type alone
            messages = framing.split_messages(codec, body)
        read_bounds = pairwise([*starts, (len(body), end.at_ms)])
        return Cassette(
            file=self._file,
            meta=meta,
            request=request,
            response_head=head.to_response_head(),
            response_head_at_ms=head.at_ms,
            codec_name=codec,
            content_coding=head.content_coding,
            framed_messages=tuple(messages),
            reads=tuple(Read(at, body[begin:stop]) for (begin, at), (stop, _) in read_bounds),
            response_end=end,
        )

    def _check_head(self, head: StoredHead, method: str) -> None:
        if head.codec not in CODECS:
            known = ", ".join(sorted(CODECS))
            raise self._error(3, f"unknown codec {head.codec!r}; known: {known}")
        for name, _ in head.headers:
            if name.lower() in _RESERVED_HEADERS:
                raise self._error(3, f"the header {name!r} is not allowed in a cassette")
        if head.framing != "none" and (method == "HEAD" or head.status in _BODILESS_STATUSES):
            raise self._error(
                3,
                f"framing is {head.framing!r}, but a {head.status} response to {method} cannot "
                "have a body",
            )

    def _parse_messages(
        self, lines: Iterable[dict[str, Any]], head_at_ms: float
    ) -> tuple[list[bytes], list[tuple[int, float]]]:
        """The messages, and the reads' starts in the body as (offset, ms), both ascending."""
        messages: list[bytes] = []
        starts: list[tuple[int, float]] = []
        position, earliest_ms = 0, head_at_ms
        for number, fields in enumerate(lines, 4):
            at = fields.pop("at", [])
            message = self._decode(number, decode_message, fields)
            read_starts = self._parse_read_starts(number, at, len(message), earliest_ms)
            if message and not starts and (not read_starts or read_starts[0][0] != 0):
                raise self._error(
                    number, '"at" must contain the time when the first byte of the body arrived'
                )
            starts += [(position + offset, ms) for offset, ms in read_starts]
            earliest_ms = read_starts[-1][1] if read_starts else earliest_ms
            messages.append(message)
            position += len(message)
        return messages, starts

    def _parse_read_starts(
        self, number: int, at: object, size: int, earliest_ms: float
    ) -> list[tuple[int, float]]:
        """The starts of the reads in a message of `size` bytes, as (offset, ms)."""
        try:
            raw_starts: ReadStarts = msgspec.convert(at, ReadStarts)
        except msgspec.ValidationError as error:
            raise self._error(
                number,
                f"{validation_error_sentence(error, 'at')} (use a time in ms, or a list of "
                "[byte offset, ms] pairs)",
            ) from None
        read_starts = [(0, raw_starts)] if isinstance(raw_starts, float) else raw_starts
        previous_offset = -1
        for offset, ms in read_starts:
            if not previous_offset < offset < size:
                raise self._error(
                    number,
                    f'the byte offset {offset} in "at" is out of order or past the end of the '
                    "message",
                )
            if not earliest_ms <= ms <= MAX_OFFSET_MS:
                raise self._error(
                    number,
                    f'the time {ms} ms in "at" is earlier than the previous read or the response '
                    "head, or exceeds 6 hours",
                )
            previous_offset, earliest_ms = offset, ms
        return read_starts

    def _convert(self, number: int, line_type: type[T], fields: dict[str, Any]) -> T:
        try:
            return msgspec.convert(fields, line_type)
        except msgspec.ValidationError as error:
            raise self._error(number, validation_error_sentence(error)) from None

    def _decode(self, number: int, decode: Callable[..., T], *arguments: Any) -> T:
        try:
            return decode(*arguments)
        except binascii.Error as error:
            reason = f"invalid base64: {str(error).lower()}"
            raise self._error(number, reason) from None
        except ValueError as error:
            raise self._error(number, str(error)) from None

    def _error(self, number: int | None, reason: str) -> CassetteError:
        return CassetteError(self._file, number, reason)


def _parse_each_line(file: str, content: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(BytesIO(content), 1):
        yield _parse_line(file, number, line[:-1])


def _parse_line(file: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        reason = f"invalid JSON: {error.msg} at column {error.colno}"
        raise CassetteError(file, number, reason) from None
    if not isinstance(fields, dict):
        raise CassetteError(file, number, "the line is not a JSON object")
    return fields
