"""One exchange on its way to the disk: keyed, decoded and redacted as it comes, then spooled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy import redaction
from llm_proxy.cassette import Meta, StoredRequest, spool
from llm_proxy.errors import SpoolError
from llm_proxy.exchange import Ending, Head, Read, Request
from llm_proxy.frame_redaction import FrameRedactor
from llm_proxy.framing import eventstream
from llm_proxy.matching import KEY_RULES
from llm_proxy.routing import Call, without_secrets
from llm_proxy.shell.content_decoders import CodingError, Decoder, decoded_head
from llm_proxy.shell.recording.cassette_filer import Filed, Files, timestamp
from llm_proxy.shell.recording.spooling import SpoolFile
from llm_proxy.take_numbers import Ordinals, Wish
from llm_proxy.version import __version__

LARGEST: Final = 160 * 1024 * 1024
"""Bytes of a body that a cassette has room for, all but always; a larger one is not kept."""

_PORTION: Final = 1024 * 1024
"""Bytes of the spool that are written at a time."""


@dataclass(frozen=True, slots=True)
class StartItem:
    """The call arrived."""

    call: Call
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
    head: Head


@dataclass(frozen=True, slots=True)
class LossItem:
    """What follows could not be kept, for this reason."""

    why: str


@dataclass(frozen=True, slots=True)
class EndItem:
    """Nothing more will come, since so many ms."""

    at: float
    ending: Ending
    is_answered: bool = True
    """Whether a head had come."""


Item = StartItem | SecretsItem | HeadItem | Read | LossItem | EndItem
"""What happens to an exchange, in order."""


class SpoolWriter:
    """Writes one exchange down.  Used by one thread at a time.

    A recording that could not be kept up ends there: it is filed as far as it goes, with the
    ending `recorder_error`, for one with a gap would be no recording.
    """

    def __init__(self, folder: Path, name: str, library: str, ordinals: Ordinals) -> None:
        """The spool is made in `folder`, called `name` if it can, once there is an answer."""
        self.what = "a request"
        """The request, for people: `POST /v1/chat/completions`."""
        self._folder = folder
        self._name = name
        self._library = library
        self._ordinals = ordinals
        self._asked: tuple[Call, spool.SpoolLine] | None = None
        self._opening = b""
        self._secrets: frozenset[bytes] = frozenset()
        self._redactor = redaction.Redactor(())
        self._body: redaction.Redactor | FrameRedactor = self._redactor
        """What takes the secrets out of the body; its first byte decides, for labels lie."""
        self._has_begun = False
        """Whether a byte of the body has come."""
        self._decoder: Decoder | None = None
        self._broken: Ending | None = None
        self._wish: Wish | None = None
        self._file: SpoolFile | None = None
        self._size = 0
        self.failed = False
        """Whether it could be kept up no longer: nothing more is written, then."""

    def write(self, items: Iterable[Item]) -> None:
        """Append to the spool.

        Raises `SpoolError` where the disk or the answer's size forbids to go on.
        """
        if self.failed:
            return
        lines: list[bytes] = []
        size = 0
        for item in items:
            if isinstance(item, LossItem):
                self._append(lines)
                raise SpoolError(item.why)
            more = self._lines(item)
            lines += more
            size += sum(map(len, more))
            if size > _PORTION:
                self._append(lines)
                lines, size = [], 0
        self._append(lines)

    def _append(self, lines: list[bytes]) -> None:
        if lines:
            if self._file is None:
                self._file = SpoolFile(self._folder, self._name)
            self._file.append(b"".join(lines))

    def file(self, files: Files, last: EndItem) -> Filed | None:
        """Make the cassette and let go of the spool.

        None where no answer had begun, or another attempt at the same wish is kept instead.

        Raises `SpoolError`; the spool is kept then.
        """
        if self._file is None:
            return None
        try:
            filed = files.file(self._file.path, self._ended(last), self._wish)
        except Exception:
            self._file.release()
            raise
        self._file.discard()
        return filed

    def _lines(self, item: Item) -> list[bytes]:
        match item:
            case StartItem(call, take):
                self._start(call, take)
                return []
            case SecretsItem(secrets):
                self._conceal_all(secrets)
                return []
            case HeadItem(at, head):
                return self._head(at, head)
            case Read():
                return self._pieces(self._read(item))
            case LossItem():
                return []
            case EndItem():
                self._end_coding()
                lines = self._pieces(self._body.close())
                return [*lines, spool.end(self._ended(item))] if self._asked is None else []

    def _start(self, call: Call, take: int | None) -> None:
        self._wish = call.wish
        number = take or self._ordinals.next(call.session, call.key, call.wish)
        self._asked = (call, spool.SpoolLine(1, self._library, number))
        self._open(call.stored)
        self._conceal(call.credentials)

    def _open(self, request: StoredRequest) -> None:
        """Begin with this request."""
        assert self._asked is not None  # noqa: S101 # a recording begins with its start
        call, target = self._asked
        self.what = f"{request.method} {request.path}"
        self._opening = spool.opening(target, _meta(call, request), request)

    def _conceal(self, secrets: frozenset[bytes]) -> None:
        """Store none of these of the answer either; called before the head comes."""
        self._secrets |= secrets
        self._redactor = self._body = redaction.Redactor(self._secrets)

    def _conceal_all(self, secrets: frozenset[bytes]) -> None:
        """Store none of these, which are not the client's: of the request neither."""
        assert self._asked is not None  # noqa: S101 # they come between the start and the head
        stored = self._asked[0].stored
        concealed = without_secrets(stored, secrets, redaction.OF_OPERATOR)
        if concealed is not stored:
            self._open(concealed)
        self._conceal(secrets)

    def _head(self, at: float, head: Head) -> list[bytes]:
        assert self._asked is not None  # noqa: S101 # a recording begins with its start
        call, _ = self._asked
        stored, coding, self._decoder = decoded_head(head)
        headers = tuple(
            (name, self._redactor.text(value))
            for name, value in redaction.response_headers(stored.headers)
        )
        reason = self._redactor.text(stored.reason)
        kept = Head(stored.status, reason, headers, stored.framing, stored.length)
        codec = call.dialect.codec(call.plain, kept)
        lines = [self._opening, spool.head(kept, at, codec, coding)]
        self._asked, self._opening = None, b""  # a large request is not kept for its stream's life
        return lines

    def _pieces(self, pieces: Iterable[redaction.Piece]) -> list[bytes]:
        lines: list[bytes] = []
        for piece in pieces:  # they are decoded as they are asked for: stop in time
            lines.append(spool.read(piece.read, rest=piece.rest))
            self._size += len(lines[-1])
            if self._size > LARGEST * 4 // 3:
                raise SpoolError(
                    f"the answer is larger than {LARGEST} bytes, the most that is kept"
                )
        return lines

    def _read(self, read: Read) -> Iterator[redaction.Piece]:
        if self._broken is not None:
            return
        try:
            for data in self._decoder.decode(read.data) if self._decoder else [read.data]:
                if data:
                    self._begin(data)
                    yield from self._body.feed(Read(read.at, data))
        except CodingError:
            self._broken = Ending.MALFORMED

    def _ended(self, last: EndItem) -> spool.SpoolEnd:
        ending = last.ending
        if self.failed:
            ending = Ending.RECORDER_ERROR
        elif ending is Ending.CLEAN and self._broken is not None:
            ending = self._broken
        return spool.SpoolEnd(ending, last.at, self._redactor.count)

    def _begin(self, data: bytes) -> None:
        if not self._has_begun and eventstream.may_begin(data):
            self._body = FrameRedactor(self._redactor)
        self._has_begun = True

    def _end_coding(self) -> None:
        if self._decoder is None or self._broken is not None:
            return
        try:
            self._decoder.close()
        except CodingError:
            self._broken = Ending.MALFORMED


def _meta(call: Call, stored: StoredRequest) -> Meta:
    request = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    return Meta(
        tool=f"llm-proxy {__version__}",
        recorded=timestamp(),
        dialect=call.dialect.name,
        provider=call.provider,
        model=call.model if stored is call.stored else call.dialect.model(request),
        session=call.session,
        key=call.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
        rules=call.rules.spelled,
    )
