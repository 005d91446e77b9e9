"""Writes one exchange to its spool as it arrives: computes its key, decodes and redacts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy import redaction
from llm_proxy.cassette import CassetteMeta, StoredRequest, spool
from llm_proxy.cassette.model import MAX_TEXT_CHARS, encode_line
from llm_proxy.errors import SpoolError, printable_excerpt
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.frame_redaction import FrameRedactor
from llm_proxy.framing import eventstream
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.routing import RoutedRequest, redact_stored_request
from llm_proxy.shell.content_decoders import (
    ContentDecoder,
    InvalidContentCoding,
    strip_content_coding,
)
from llm_proxy.shell.recording.cassette_filer import CassetteFiler, FiledCassette, timestamp_now
from llm_proxy.shell.recording.spooling import SpoolFile
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from llm_proxy.version import __version__

MAX_BODY_BYTES: Final = 160 * 1024 * 1024
"""Maximum size of a stored body, such that a cassette practically always fits its own limit."""

_WRITE_BYTES: Final = 1024 * 1024
"""Approximate bytes of the spool that are written at a time."""


@dataclass(frozen=True, slots=True)
class StartItem:
    """A request arrived."""

    routed_request: RoutedRequest
    take_number: int | None
    """The take number; None for the next take of the key in this run."""


@dataclass(frozen=True, slots=True)
class OperatorSecretsItem:
    """The upstream request contains these secrets, which are the operator's."""

    secrets: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class HeadItem:
    """The response head arrived, `at_ms` after the request."""

    at_ms: float
    head: ResponseHead


@dataclass(frozen=True, slots=True)
class LossItem:
    """The rest of the exchange could not be recorded, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndItem:
    """The exchange ended, `at_ms` after the request."""

    at_ms: float
    ending: Ending
    has_head: bool = True
    """Whether a response head had arrived."""


RecordingItem = StartItem | OperatorSecretsItem | HeadItem | Read | LossItem | EndItem
"""One event of a recording; they come in order."""


class SpoolWriter:
    """Writes one exchange to a spool file.  Used by one thread at a time.

    A recording ends where it fails, because one with a gap would be useless: it is filed up to
    there, with the ending `recorder_error`.
    """

    def __init__(
        self, folder: Path, name: str, library_path: str, request_counter: RequestCounter
    ) -> None:
        """The spool is created in `folder` once there is a response, named `name` if possible."""
        self.description = "a request"
        """The request in log messages: `POST /v1/chat/completions`."""
        self._folder = folder
        self._name = name
        self._library_path = library_path
        self._request_counter = request_counter
        self._pending_opening: tuple[RoutedRequest, spool.SpoolTargetLine] | None = None
        self._opening = b""
        self._secrets: frozenset[bytes] = frozenset()
        self._redactor = redaction.Redactor(())
        self._body_redactor: redaction.Redactor | FrameRedactor = self._redactor
        """The redactor of the body; its first bytes select it, since content types may be wrong."""
        self._has_body_bytes = False
        """Whether any byte of the body has arrived."""
        self._decoder: ContentDecoder | None = None
        self._decoding_failure: Ending | None = None
        self._logical_request: LogicalRequest | None = None
        self._file: SpoolFile | None = None
        self._encoded_bytes = 0
        self.has_failed = False
        """Whether writing failed; nothing more is written then."""

    def write(self, items: Iterable[RecordingItem]) -> None:
        """Append to the spool.

        Raises `SpoolError` if the disk fails, the body is too large, or an item is a loss.
        """
        if self.has_failed:
            return
        lines: list[bytes] = []
        batch_bytes = 0
        for item in items:
            if isinstance(item, LossItem):
                self._append_lines(lines)
                raise SpoolError(item.reason)
            encoded = self._encode_item(item)
            lines += encoded
            batch_bytes += sum(map(len, encoded))
            if batch_bytes > _WRITE_BYTES:
                self._append_lines(lines)
                lines, batch_bytes = [], 0
        self._append_lines(lines)

    def _append_lines(self, lines: list[bytes]) -> None:
        if lines:
            if self._file is None:
                self._file = SpoolFile(self._folder, self._name)
            self._file.append(b"".join(lines))

    def file_cassette(self, filer: CassetteFiler, end_item: EndItem) -> FiledCassette | None:
        """File the spool as a cassette and delete it.

        None if no response had begun, or another attempt of the logical request is kept instead.

        Raises `SpoolError`; the spool is kept then.
        """
        if self._file is None:
            return None
        try:
            filed = filer.file_spool(
                self._file.path, self._final_ending(end_item), self._logical_request
            )
        except Exception:
            self._file.close_and_keep()
            raise
        self._file.discard()
        return filed

    def _encode_item(self, item: RecordingItem) -> list[bytes]:
        match item:
            case StartItem(routed, take):
                self._prepare_recording(routed, take)
                return []
            case OperatorSecretsItem(secrets):
                self._redact_operator_secrets(secrets)
                return []
            case HeadItem(at_ms, head):
                return self._encode_head(at_ms, head)
            case Read():
                return self._encode_pieces(self._redact_read(item))
            case LossItem():
                return []
            case EndItem():
                self._finish_decoding()
                lines = self._encode_pieces(self._body_redactor.flush())
                return (
                    [*lines, encode_line(self._final_ending(item))]
                    if self._pending_opening is None
                    else []
                )

    def _prepare_recording(self, routed: RoutedRequest, take: int | None) -> None:
        self._logical_request = routed.logical_request
        take_number = take or self._request_counter.next_ordinal(
            routed.session, routed.key, routed.logical_request
        )
        self._pending_opening = (routed, spool.SpoolTargetLine(1, self._library_path, take_number))
        self._prepare_opening(routed.stored_request)
        self._add_response_secrets(routed.credentials)

    def _prepare_opening(self, request: StoredRequest) -> None:
        assert self._pending_opening is not None  # noqa: S101 # a recording begins with `StartItem`
        routed, target = self._pending_opening
        self.description = f"{request.method} {request.path}"
        self._opening = spool.encode_opening(target, _build_meta(routed, request), request)

    def _add_response_secrets(self, secrets: frozenset[bytes]) -> None:
        """Redact these from the response; called before the head arrives."""
        self._secrets |= secrets
        self._redactor = self._body_redactor = redaction.Redactor(self._secrets)

    def _redact_operator_secrets(self, secrets: frozenset[bytes]) -> None:
        """Redact these, which are the operator's, from the stored request and the response."""
        assert self._pending_opening is not None  # noqa: S101 # the item comes before the head
        stored = self._pending_opening[0].stored_request
        redacted = redact_stored_request(stored, secrets, redaction.OPERATOR_PLACEHOLDER)
        if redacted is not stored:
            self._prepare_opening(redacted)
        self._add_response_secrets(secrets)

    def _encode_head(self, at_ms: float, head: ResponseHead) -> list[bytes]:
        assert self._pending_opening is not None  # noqa: S101 # a recording begins with `StartItem`
        routed, _ = self._pending_opening
        decoded_head, coding, self._decoder = strip_content_coding(head)
        headers = tuple(
            (name, self._redactor.redact_latin1(value))
            for name, value in redaction.storable_response_headers(decoded_head.headers)
        )
        reason = self._redactor.redact_latin1(decoded_head.reason)
        stored_head = ResponseHead(
            decoded_head.status, reason, headers, decoded_head.framing, decoded_head.content_length
        )
        codec = routed.dialect.codec_name(routed.decompressed_request, stored_head)
        lines = [self._opening, spool.encode_head(stored_head, at_ms, codec, coding)]
        self._pending_opening, self._opening = (
            None,
            b"",
        )  # a large request is not kept in memory while its response streams
        return lines

    def _encode_pieces(self, pieces: Iterable[redaction.RedactedPiece]) -> list[bytes]:
        lines: list[bytes] = []
        for piece in pieces:  # a lazy iterator: stop before a bomb is decoded
            lines.append(
                spool.encode_read(piece.redacted_read, is_continuation=piece.is_continuation)
            )
            self._encoded_bytes += len(lines[-1])
            if self._encoded_bytes > MAX_BODY_BYTES * 4 // 3:
                raise SpoolError(
                    f"the answer is larger than {MAX_BODY_BYTES} bytes, the most that is kept"
                )
        return lines

    def _redact_read(self, read: Read) -> Iterator[redaction.RedactedPiece]:
        if self._decoding_failure is not None:
            return
        try:
            for data in (
                self._decoder.decode(read.received_bytes)
                if self._decoder
                else [read.received_bytes]
            ):
                if data:
                    self._select_body_redactor(data)
                    yield from self._body_redactor.feed(Read(read.at_ms, data))
        except InvalidContentCoding:
            self._decoding_failure = Ending.MALFORMED

    def _final_ending(self, end_item: EndItem) -> spool.SpoolEnd:
        ending = end_item.ending
        if self.has_failed:
            ending = Ending.RECORDER_ERROR
        elif ending is Ending.CLEAN and self._decoding_failure is not None:
            ending = self._decoding_failure
        return spool.SpoolEnd(ending, end_item.at_ms, self._redactor.replaced_count)

    def _select_body_redactor(self, data: bytes) -> None:
        if not self._has_body_bytes and eventstream.may_begin_frame(data):
            self._body_redactor = FrameRedactor(self._redactor)
        self._has_body_bytes = True

    def _finish_decoding(self) -> None:
        if self._decoder is None or self._decoding_failure is not None:
            return
        try:
            self._decoder.raise_if_truncated()
        except InvalidContentCoding:
            self._decoding_failure = Ending.MALFORMED


def _build_meta(routed: RoutedRequest, stored: StoredRequest) -> CassetteMeta:
    model = routed.model if stored is routed.stored_request else routed.dialect.model(stored)
    return CassetteMeta(
        recording_tool=f"llm-proxy {__version__}",
        recorded_at=timestamp_now(),
        dialect=routed.dialect.name,
        provider=routed.provider,
        model=printable_excerpt(model, MAX_TEXT_CHARS),  # a client may call it anything
        session=routed.session,
        key=routed.key,
        key_rules_version=KEY_RULES_VERSION,
        redaction_rules_version=redaction.REDACTION_RULES_VERSION,
        match_rules=routed.match_rules.rule_texts,
    )
