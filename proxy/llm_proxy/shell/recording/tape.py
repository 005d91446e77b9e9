"""One exchange on its way into the library: its spool, decoded and redacted as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from llm_proxy import redaction
from llm_proxy.cassette import Meta, spool
from llm_proxy.exchange import Ending, Head, Read
from llm_proxy.matching import KEY_RULES
from llm_proxy.routing import Call
from llm_proxy.shell.recording.decoding import CodingError, Decoder, decoded_head
from llm_proxy.shell.recording.filing import Filed, Files
from llm_proxy.shell.recording.spooling import SpoolFile
from llm_proxy.takes import Ordinals
from llm_proxy.version import __version__


@dataclass(frozen=True, slots=True)
class StartItem:
    """The call arrived."""

    take: int | None
    """None is the next take of the key in this run."""


@dataclass(frozen=True, slots=True)
class HeadItem:
    """The head arrived, at so many ms."""

    at: float
    head: Head


@dataclass(frozen=True, slots=True)
class EndItem:
    """Nothing more will come, since so many ms."""

    at: float
    ending: Ending


Item = StartItem | HeadItem | Read | EndItem
"""What happens to an exchange, in order."""


class Tape:
    """One exchange being taken down."""

    def __init__(self, call: Call, library: str, name: str, ordinals: Ordinals) -> None:
        self._call = call
        self._library = library
        self._name = name
        self._ordinals = ordinals
        self._opening = b""
        self._redactor = redaction.Redactor(())
        self._decoder: Decoder | None = None
        self._broken: Ending | None = None
        self._file: SpoolFile | None = None
        self._failed = False
        self._last = -1.0
        """When the read in the last line arrived, in ms."""

    def write(self, items: list[Item], folder: Path) -> EndItem | None:
        """Append to the spool; gives the end once it came.  Raises once: a gap is no recording."""
        if self._failed:
            return None
        try:
            return self._write(items, folder)
        except Exception:
            self._failed = True
            if self._file is not None:
                self._file.release()
            raise

    def file(self, files: Files, end: EndItem) -> Filed | None:
        """Make the cassette and let go of the spool."""
        if self._file is None:
            return None
        ending = end.ending
        if ending is Ending.CLEAN and self._broken is not None:
            ending = self._broken
        try:
            filed = files.file(self._file.path, ending, end.at, self._redactor.count)
        except Exception:
            self._file.release()
            raise
        self._file.discard()
        return filed

    def _write(self, items: list[Item], folder: Path) -> EndItem | None:
        lines: list[bytes] = []
        end: EndItem | None = None
        for item in items:
            match item:
                case StartItem(take):
                    self._start(take)
                case HeadItem(at, head):
                    lines += self._head(at, head)
                case Read():
                    lines += map(self._line, self._read(item))
                case EndItem():
                    self._end_coding()
                    lines += map(self._line, self._redactor.close())
                    end = item
        if lines:
            if self._file is None:
                self._file = SpoolFile(folder, self._name)
            self._file.append(b"".join(lines))
        return end

    def _start(self, take: int | None) -> None:
        call = self._call
        number = take if take is not None else self._ordinals.next(call.session, call.key)
        target = spool.SpoolLine(1, self._library, number)
        self._opening = spool.opening(target, _meta(call), call.stored)
        self._redactor = redaction.Redactor(call.credentials)

    def _head(self, at: float, head: Head) -> list[bytes]:
        call = self._call
        stored, coding, self._decoder = decoded_head(head)
        headers = tuple(
            (name, self._redactor.text(value))
            for name, value in redaction.response_headers(stored.headers)
        )
        reason = self._redactor.text(stored.reason)
        kept = Head(stored.status, reason, headers, stored.framing, stored.length)
        framing = call.dialect.codec(call.request, kept)
        return [self._opening, spool.head(kept, at, framing, coding)]

    def _line(self, read: Read) -> bytes:
        """A read of which the redactor held back a part comes in two, of one time."""
        rest, self._last = read.at == self._last, read.at
        return spool.read(read, rest=rest)

    def _read(self, read: Read) -> list[Read]:
        if self._broken is not None:
            return []
        if self._decoder is not None:
            try:
                read = Read(read.at, self._decoder.decode(read.data))
            except CodingError:
                self._broken = Ending.MALFORMED
                return []
        return self._redactor.feed(read) if read.data else []

    def _end_coding(self) -> None:
        if self._decoder is None or self._broken is not None:
            return
        try:
            self._decoder.close()
        except CodingError:
            self._broken = Ending.MALFORMED


def _meta(call: Call) -> Meta:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Meta(
        tool=f"llm-proxy {__version__}",
        recorded=now,
        dialect=call.dialect.name,
        provider=call.provider,
        model=call.model,
        session=call.session,
        key=call.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
    )
