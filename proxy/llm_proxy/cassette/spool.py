"""The crash-safe spool format of a recording that is still running.

The recorder appends to a spool read by read, and turns it into a cassette when the stream ends;
`llm-proxy recover` does the same after a crash.  A last line that the crash truncated is dropped;
any other invalid line is damage and an error.

    line 1      the library that the cassette is for, and its take
    line 2, 3   lines 1 and 2 of the cassette
    line 4      line 3 of the cassette, once the head has arrived
    ...         {"read": ms, "base64": "..."}, redacted and without content coding; with "rest"
                if it continues the previous line's read, of which a part was held back
    last line   {"end": "clean", "at": ms, "redacted": number of secrets}, once the stream has ended
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Literal, TypeVar

import msgspec
import orjson

from llm_proxy import framing
from llm_proxy.cassette.encoder import CassetteEncoder
from llm_proxy.cassette.model import (
    CassetteMeta,
    Count,
    HeadLine,
    OffsetMs,
    RequestLine,
    StoredHead,
    StoredRequest,
    encode_line,
    prebuild_msgspec_types,
    request_line,
)
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.framing import CODECS

_CODEC_DETECTION_BYTES: Final = 64 * 1024
"""The bytes of a body from which its codec is detected."""
_NumberedLine = tuple[int, Any]
"""The number of a line and its parsed JSON."""
T = TypeVar("T")


class SpoolTargetLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Line 1 of a spool: the library and take number that the recording is for."""

    spool: Literal[1]
    """The format version of the spool."""
    library: str
    """The absolute path of the library."""
    take: int


class _SpoolReadLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    read: OffsetMs
    base64: str
    rest: bool = False


class SpoolEnd(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"ending": "end", "at_ms": "at", "redacted_count": "redacted"},
):
    """The last line of a spool: how a recording ended."""

    ending: Ending
    at_ms: OffsetMs
    """ms since the request was read in full; the time of the last read if that is later."""
    redacted_count: Count
    """The number of secrets that were replaced in the response."""


INTERRUPTED_END: Final = SpoolEnd(Ending.KILLED, 0.0, 0)
"""The end of a recording that was interrupted by a crash."""


@dataclass(frozen=True, slots=True)
class SpoolContent:
    """The parsed content of a spool, which may be incomplete."""

    target_line: SpoolTargetLine
    meta: CassetteMeta
    request: StoredRequest
    head: StoredHead | None
    """None if the crash came before the head."""
    reads_and_end: Iterator[Read | SpoolEnd]
    """The reads, then the end if it was recorded.  Lazy: a spool may be larger than memory."""


def encode_opening(target: SpoolTargetLine, meta: CassetteMeta, request: StoredRequest) -> bytes:
    """Lines 1 to 3 of a spool."""
    return encode_line(target) + encode_line(meta) + encode_line(request_line(request))


def encode_head(
    response_head: ResponseHead, at_ms: float, codec: str, content_coding: str
) -> bytes:
    """Line 4 of a spool."""
    stored_head = StoredHead.from_response_head(response_head, at_ms, codec, content_coding)
    return encode_line({"response": stored_head})


def encode_read(read: Read, *, is_continuation: bool = False) -> bytes:
    """The line of one read, or of a continuation of the previous line's read."""
    encoded = b64encode(read.received_bytes).decode("ascii")
    return encode_line(
        {"read": read.at_ms, "base64": encoded} | ({"rest": True} if is_continuation else {})
    )


def parse_spool(file: str, lines: Iterable[bytes]) -> SpoolContent:
    """Parse a spool; `lines` keep their LF.

    Raises `CassetteError` if its first three lines are incomplete, and for an invalid line: a crash
    truncates only the last one.  Iterating over the reads raises it too.
    """
    whole_lines = _parse_whole_lines(file, lines)
    try:
        target = _convert_line(file, next(whole_lines), SpoolTargetLine)
        meta = _convert_line(file, next(whole_lines), CassetteMeta)
        line = _convert_line(file, next(whole_lines), RequestLine)
    except StopIteration:
        raise CassetteError(
            file, None, "the spool file is truncated: the request is missing"
        ) from None
    try:
        request = line.to_stored_request()
    except ValueError as error:
        raise CassetteError(file, 3, str(error)) from None
    head = next((_convert_line(file, line, HeadLine).response for line in whole_lines), None)
    if head is not None and head.codec not in CODECS:
        known = ", ".join(sorted(CODECS))
        raise CassetteError(file, 4, f"unknown codec {head.codec!r}; known: {known}")
    return SpoolContent(target, meta, request, head, _parse_reads(file, whole_lines))


def with_detected_codec(spooled: SpoolContent) -> SpoolContent:
    """The spool with the codec that fits its body: the head was written before any body bytes."""
    if spooled.head is None:
        return spooled
    buffered: list[Read | SpoolEnd] = []
    start = b""
    for read in spooled.reads_and_end:
        buffered.append(read)
        start += read.received_bytes if isinstance(read, Read) else b""
        if len(start) >= _CODEC_DETECTION_BYTES:
            break
    codec = framing.codec_name_for_body(spooled.head.codec, start)
    return replace(
        spooled,
        head=msgspec.structs.replace(spooled.head, codec=codec),
        reads_and_end=chain(buffered, spooled.reads_and_end),
    )


def cassette_lines_from_spool(
    spooled: SpoolContent, default_end: SpoolEnd = INTERRUPTED_END
) -> Iterator[bytes]:
    """The lines of the cassette; `default_end` is used if the spool has no end."""
    spooled = with_detected_codec(spooled)
    head = spooled.head
    assert head is not None  # noqa: S101 # there is no cassette without a head
    encoder = CassetteEncoder(head.codec)
    yield encoder.encode_opening(spooled.meta, spooled.request)
    yield encode_line({"response": head})
    last_at_ms, end = head.at_ms, default_end
    for item in spooled.reads_and_end:
        if isinstance(item, SpoolEnd):
            end = item
        else:
            last_at_ms = item.at_ms
            yield encoder.encode_completed_messages(item)
    yield encoder.encode_ending(end.ending, max(end.at_ms, last_at_ms), end.redacted_count)


def _parse_whole_lines(file: str, lines: Iterable[bytes]) -> Iterator[_NumberedLine]:
    """The parsed lines with their numbers, without a truncated last one."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            yield number, orjson.loads(line)
        except ValueError:
            raise CassetteError(file, number, "the spool file is damaged: invalid JSON") from None


def _convert_line(file: str, line: _NumberedLine, line_type: type[T]) -> T:
    number, fields = line
    try:
        return msgspec.convert(fields, line_type)
    except msgspec.ValidationError as error:
        raise CassetteError(file, number, f"invalid spool line: {error}") from None


def _parse_reads(file: str, lines: Iterable[_NumberedLine]) -> Iterator[Read | SpoolEnd]:
    """The reads, with continuations joined, and then the end if there is one."""
    at_ms, data = 0.0, b""
    end: SpoolEnd | None = None
    for line in lines:
        if end is not None:
            raise CassetteError(
                file, line[0], 'the spool file is damaged: lines follow the "end" line'
            )
        if isinstance(line[1], dict) and "end" in line[1]:
            end = _convert_line(file, line, SpoolEnd)
            continue
        spool_read_line = _convert_line(file, line, _SpoolReadLine)
        try:
            piece = b64decode(spool_read_line.base64, validate=True)
        except ValueError:
            raise CassetteError(
                file, line[0], "the spool file is damaged: invalid base64"
            ) from None
        if data and not spool_read_line.rest:
            yield Read(at_ms, data)
            data = b""
        at_ms, data = spool_read_line.read, data + piece
    if data:
        yield Read(at_ms, data)
    if end is not None:
        yield end


prebuild_msgspec_types(SpoolTargetLine, _SpoolReadLine, SpoolEnd)
