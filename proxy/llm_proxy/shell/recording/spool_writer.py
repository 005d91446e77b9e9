"""Writes one exchange to its spool: keyed, decoded and redacted as it arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy import redaction
from llm_proxy.cassette import Meta, StoredRequest, spool
from llm_proxy.errors import SpoolError
from llm_proxy.exchange import Ending, Read, Request, ResponseHead
from llm_proxy.frame_redaction import FrameRedactor
from llm_proxy.framing import eventstream
from llm_proxy.matching import KEY_RULES
from llm_proxy.routing import RoutedRequest, without_secrets
from llm_proxy.shell.content_decoders import ContentDecoder, InvalidContentCoding, decode_head
from llm_proxy.shell.recording.cassette_filer import CassetteFiler, FiledCassette, timestamp_now
from llm_proxy.shell.recording.spooling import SpoolFile
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from llm_proxy.version import __version__

LARGEST: Final = 160 * 1024 * 1024
"""Bytes of a body that a cassette has room for, all but always; a larger one is not kept."""

_PORTION: Final = 1024 * 1024
"""Bytes of the spool that are written at a time."""


@dataclass(frozen=True, slots=True)
class StartItem:
    """The call arrived."""

    routed: RoutedRequest
    take: int | None
    """None is the next take of the key in this run."""


@dataclass(frozen=True, slots=True)
class SecretsItem:
    """The request went out with these, which are not the client's."""

    secrets: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class HeadItem:
    """The head arrived, at so many ms."""

    at: float
    head: ResponseHead


@dataclass(frozen=True, slots=True)
class RecordingLossItem:
    """What follows could not be kept, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndItem:
    """Nothing more will come, since so many ms."""

    at: float
    ending: Ending
    is_responded: bool = True
    """Whether a head had come."""


Item = StartItem | SecretsItem | HeadItem | Read | RecordingLossItem | EndItem
"""What happens to an exchange, in order."""


class SpoolWriter:
    """Writes one exchange down.  Used by one thread at a time.

    A recording that could not be kept up ends there: it is filed as far as it goes, with the
    ending `recorder_error`, for one with a gap would be no recording.
    """

    def __init__(self, folder: Path, name: str, library: str, ordinals: RequestCounter) -> None:
        """The spool is made in `folder`, called `name` if it can, once there is an answer."""
        self.description = "a request"
        """The request, for people: `POST /v1/chat/completions`."""
        self._folder = folder
        self._name = name
        self._library = library
        self._request_counter = ordinals
        self._request_encoded: tuple[RoutedRequest, spool.SpoolLine] | None = None
        self._opening = b""
        self._secrets: frozenset[bytes] = frozenset()
        self._redactor = redaction.Redactor(())
        self._body: redaction.Redactor | FrameRedactor = self._redactor
        """What takes the secrets out of the body; its first byte decides, for labels lie."""
        self._is_spooled = False
        """Whether a byte of the body has come."""
        self._decoder: ContentDecoder | None = None
        self._decoding_failed: Ending | None = None
        self._logical_request: LogicalRequest | None = None
        self._file: SpoolFile | None = None
        self._size = 0
        self.on_failed = False
        """Whether it could be kept up no longer: nothing more is written, then."""

    def write(self, items: Iterable[Item]) -> None:
        """Append to the spool.

        Raises `SpoolError` where the disk or the answer's size forbids to go on.
        """
        if self.on_failed:
            return
        lines: list[bytes] = []
        size = 0
        for item in items:
            if isinstance(item, RecordingLossItem):
                self._append_lines(lines)
                raise SpoolError(item.reason)
            more = self._encode_item(item)
            lines += more
            size += sum(map(len, more))
            if size > _PORTION:
                self._append_lines(lines)
                lines, size = [], 0
        self._append_lines(lines)

    def _append_lines(self, lines: list[bytes]) -> None:
        if lines:
            if self._file is None:
                self._file = SpoolFile(self._folder, self._name)
            self._file.append(b"".join(lines))

    def file_cassette(self, files: CassetteFiler, last: EndItem) -> FiledCassette | None:
        """Make the cassette and let go of the spool.

        None where no answer had begun, or another attempt at the same wish is kept instead.

        Raises `SpoolError`; the spool is kept then.
        """
        if self._file is None:
            return None
        try:
            filed = files.file_spool(
                self._file.path, self._final_ending(last), self._logical_request
            )
        except Exception:
            self._file.release()
            raise
        self._file.discard()
        return filed

    def _encode_item(self, item: Item) -> list[bytes]:
        match item:
            case StartItem(call, take):
                self._encode_start(call, take)
                return []
            case SecretsItem(secrets):
                self._redact_operator_secrets(secrets)
                return []
            case HeadItem(at, head):
                return self._encode_head(at, head)
            case Read():
                return self._encode_pieces(self._encode_read(item))
            case RecordingLossItem():
                return []
            case EndItem():
                self._finish_decoding()
                lines = self._encode_pieces(self._body.close())
                return (
                    [*lines, spool.encode_end(self._final_ending(item))]
                    if self._request_encoded is None
                    else []
                )

    def _encode_start(self, routed: RoutedRequest, take: int | None) -> None:
        self._logical_request = routed.logical_request
        number = take or self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        self._request_encoded = (routed, spool.SpoolLine(1, self._library, number))
        self._encode_opening(routed.stored_request)
        self._redact_response_secrets(routed.credentials)

    def _encode_opening(self, request: StoredRequest) -> None:
        assert self._request_encoded is not None  # noqa: S101 # a recording begins with its start
        call, target = self._request_encoded
        self.description = f"{request.method} {request.path}"
        self._opening = spool.encode_opening(target, _meta(call, request), request)

    def _redact_response_secrets(self, secrets: frozenset[bytes]) -> None:
        """Store none of these of the answer either; called before the head comes."""
        self._secrets |= secrets
        self._redactor = self._body = redaction.Redactor(self._secrets)

    def _redact_operator_secrets(self, secrets: frozenset[bytes]) -> None:
        """Store none of these, which are not the client's: of the request neither."""
        assert self._request_encoded is not None  # noqa: S101 # they come between the start and the head
        stored = self._request_encoded[0].stored_request
        concealed = without_secrets(stored, secrets, redaction.OF_OPERATOR)
        if concealed is not stored:
            self._encode_opening(concealed)
        self._redact_response_secrets(secrets)

    def _encode_head(self, at: float, head: ResponseHead) -> list[bytes]:
        assert self._request_encoded is not None  # noqa: S101 # a recording begins with its start
        call, _ = self._request_encoded
        stored, coding, self._decoder = decode_head(head)
        headers = tuple(
            (name, self._redactor.redact_text(value))
            for name, value in redaction.storable_response_headers(stored.headers)
        )
        reason = self._redactor.redact_text(stored.reason)
        kept = ResponseHead(stored.status, reason, headers, stored.framing, stored.length)
        codec = call.dialect.codec(call.decompressed, kept)
        lines = [self._opening, spool.encode_head(kept, at, codec, coding)]
        self._request_encoded, self._opening = (
            None,
            b"",
        )  # a large request is not kept for its stream's life
        return lines

    def _encode_pieces(self, pieces: Iterable[redaction.RedactedPiece]) -> list[bytes]:
        lines: list[bytes] = []
        for piece in pieces:  # they are decoded as they are asked for: stop in time
            lines.append(spool.encode_read(piece.read, rest=piece.is_rest))
            self._size += len(lines[-1])
            if self._size > LARGEST * 4 // 3:
                raise SpoolError(
                    f"the answer is larger than {LARGEST} bytes, the most that is kept"
                )
        return lines

    def _encode_read(self, read: Read) -> Iterator[redaction.RedactedPiece]:
        if self._decoding_failed is not None:
            return
        try:
            for data in self._decoder.decode(read.data) if self._decoder else [read.data]:
                if data:
                    self._begin_spool(data)
                    yield from self._body.feed(Read(read.at_ms, data))
        except InvalidContentCoding:
            self._decoding_failed = Ending.MALFORMED

    def _final_ending(self, last: EndItem) -> spool.SpoolEnd:
        ending = last.ending
        if self.on_failed:
            ending = Ending.RECORDER_ERROR
        elif ending is Ending.CLEAN and self._decoding_failed is not None:
            ending = self._decoding_failed
        return spool.SpoolEnd(ending, last.at, self._redactor.count)

    def _begin_spool(self, data: bytes) -> None:
        if not self._is_spooled and eventstream.may_begin_frame(data):
            self._body = FrameRedactor(self._redactor)
        self._is_spooled = True

    def _finish_decoding(self) -> None:
        if self._decoder is None or self._decoding_failed is not None:
            return
        try:
            self._decoder.close()
        except InvalidContentCoding:
            self._decoding_failed = Ending.MALFORMED


def _meta(routed: RoutedRequest, stored: StoredRequest) -> Meta:
    request = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    return Meta(
        tool=f"llm-proxy {__version__}",
        recorded=timestamp_now(),
        dialect=routed.dialect.name,
        provider=routed.provider,
        model=routed.model if stored is routed.stored_request else routed.dialect.model(request),
        session=routed.session,
        key=routed.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
        rules=routed.rules.serialized,
    )
