"""The crash-safe spool format of a recording that is still running.

A spool is appended to as the stream runs, read by read, and made into a cassette when it ends:
by the recorder, or by `llm-proxy recover` after a crash.  Both take the same path.  A last line
that the crash cut short is dropped, everything before it counts; any other line that is none is
damage, and refused.

    line 1      the library that the cassette is for, and its take
    line 2, 3   lines 1 and 2 of the cassette
    line 4      line 3 of the cassette, once the head has arrived
    ...         {"read": ms, "base64": "..."}, redacted and without content coding; with "rest"
                where it goes on with the read in the line before, of which a part was held back
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
from llm_proxy.cassette.model import Meta, StoredRequest
from llm_proxy.cassette.schema import (
    Count,
    HeadLine,
    MetaLine,
    Offset,
    RequestLine,
    encode_line,
    prepare_msgspec,
)
from llm_proxy.cassette.writer import CassetteWriter
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.framing import CODECS

_ENOUGH: Final = 64 * 1024
"""Bytes by which a body tells its framing."""
_Numbered = tuple[int, Any]
"""The number of a line, and what it holds."""
T = TypeVar("T")


class SpoolLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Line 1 of a spool."""

    spool: Literal[1]
    """The format of this file."""
    library: str
    """The library's folder, absolute."""
    take: int


class _SpoolReadLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    read: Offset
    base64: str
    rest: bool = False


class _SpoolEndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: Ending
    at: Offset
    redacted: Count


@dataclass(frozen=True, slots=True)
class SpoolEnd:
    """How a recording ended."""

    ending: Ending
    at: float | None
    """In ms since the request; None is with its last read."""
    redacted: int
    """How many secrets were replaced in it."""


BROKEN_OFF: Final = SpoolEnd(Ending.KILLED, None, 0)
"""How a recording ended that nobody saw to its end."""


@dataclass(frozen=True, slots=True)
class SpoolContent:
    """A spool as far as it goes."""

    target: SpoolLine
    meta: Meta
    request: StoredRequest
    head_line: HeadLine | None
    """None when the crash came before the head."""
    reads: Iterator[Read | SpoolEnd]
    """Lazily: a spool may be far larger than memory.  Then the end, where the recorder saw it."""


def encode_opening(target: SpoolLine, meta: Meta, request: StoredRequest) -> bytes:
    """Lines 1 to 3 of a spool."""
    first = {"spool": target.spool, "library": target.library, "take": target.take}
    return (
        encode_line(first)
        + encode_line(MetaLine.from_value(meta))
        + encode_line(RequestLine.from_value(request))
    )


def encode_head(response_head: ResponseHead, at: float, codec: str, decoded: str) -> bytes:
    """Line 4 of a spool."""
    return encode_line(HeadLine.from_value(response_head, at, codec, decoded))


def encode_read(read: Read, *, rest: bool = False) -> bytes:
    """The line of one read, or of the rest of the read in the line before."""
    encoded = b64encode(read.data).decode("ascii")
    return encode_line({"read": read.at_ms, "base64": encoded} | ({"rest": True} if rest else {}))


def encode_end(spool_end: SpoolEnd) -> bytes:
    """The last line of a recording that was seen to its end."""
    return encode_line(
        {"end": spool_end.ending, "at": spool_end.at, "redacted": spool_end.redacted}
    )


def parse_spool(file: str, lines: Iterable[bytes]) -> SpoolContent:
    """Read a spool; `lines` keep their LF.

    Raises `CassetteError` when not even its opening is whole, and for a line that is no line of
    a spool: a crash tears the last one and no other.  So does taking the reads.
    """
    whole = _whole_lines(file, lines)
    try:
        target = _convert_line(file, next(whole), SpoolLine)
        meta = _convert_line(file, next(whole), MetaLine).to_value()
        number, fields = next(whole)
        request_line = _convert_line(file, (number, fields), RequestLine)
    except StopIteration:
        raise CassetteError(file, None, "it is torn before its request ends") from None
    try:
        request = request_line.to_value()
    except ValueError as error:
        raise CassetteError(file, number, str(error)) from None
    head_line = next((_convert_line(file, line, HeadLine) for line in whole), None)
    if head_line is not None and head_line.response.codec not in CODECS:
        codec = head_line.response.codec
        raise CassetteError(file, 4, f"codec is {codec!r}, which this tool cannot cut")
    return SpoolContent(target, meta, request, head_line, _parse_reads(file, whole))


def with_fitting_codec(spooled: SpoolContent) -> SpoolContent:
    """The same, its codec the one that fits the bytes: the head came before any of them."""
    line = spooled.head_line
    if line is None:
        return spooled
    ahead: list[Read | SpoolEnd] = []
    start = b""
    for read in spooled.reads:
        ahead.append(read)
        start += read.data if isinstance(read, Read) else b""
        if len(start) >= _ENOUGH:
            break
    codec = framing.codec_of_bytes(line.response.codec, start)
    response = msgspec.structs.replace(line.response, codec=codec)
    head_line = msgspec.structs.replace(line, response=response)
    return replace(spooled, head_line=head_line, reads=chain(ahead, spooled.reads))


def assemble_cassette(spooled: SpoolContent, otherwise: SpoolEnd = BROKEN_OFF) -> Iterator[bytes]:
    """The lines of the cassette; it ended `otherwise` where the spool does not say how."""
    spooled = with_fitting_codec(spooled)
    line = spooled.head_line
    assert line is not None  # noqa: S101 # there is no cassette without a head
    writer = CassetteWriter(line.response.codec)
    yield writer.encode_opening(spooled.meta, spooled.request)
    yield writer.encode_head(line.to_value(), line.response.at, line.response.decoded)
    last, ended = line.response.at, otherwise
    for read in spooled.reads:
        match read:
            case Read():
                last = read.at_ms
                yield writer.encode_read(read)
            case SpoolEnd():
                ended = read
    at = last if ended.at is None else max(ended.at, last)
    yield writer.encode_ending(ended.ending, at, ended.redacted)


def _whole_lines(file: str, lines: Iterable[bytes]) -> Iterator[_Numbered]:
    """The parsed lines with their numbers, up to a last one that is torn."""
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            yield number, orjson.loads(line)
        except ValueError:
            raise CassetteError(file, number, "the line is no JSON: no crash does that") from None


def _convert_line(file: str, line: _Numbered, kind: type[T]) -> T:
    number, fields = line
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise CassetteError(file, number, f"not a spool's line: {error}") from None


def _parse_reads(file: str, lines: Iterable[_Numbered]) -> Iterator[Read | SpoolEnd]:
    """The reads, each in one piece again, and the end where there is one."""
    at, data = 0.0, b""
    ended: SpoolEnd | None = None
    for line in lines:
        if ended is not None:
            raise CassetteError(file, line[0], "it goes on behind its end")
        if isinstance(line[1], dict) and "end" in line[1]:
            last = _convert_line(file, line, _SpoolEndLine)
            ended = SpoolEnd(last.end, last.at, last.redacted)
            continue
        spool_read_line = _convert_line(file, line, _SpoolReadLine)
        try:
            piece = b64decode(spool_read_line.base64, validate=True)
        except ValueError:
            raise CassetteError(file, line[0], "not a spool's line: no base64") from None
        if data and not spool_read_line.rest:
            yield Read(at, data)
            data = b""
        at, data = spool_read_line.read, data + piece
    if data:
        yield Read(at, data)
    if ended is not None:
        yield ended


prepare_msgspec(SpoolLine, _SpoolReadLine, _SpoolEndLine)
