"""Files of other tools, imported into a library one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from llm_proxy import importing
from llm_proxy.cassette import read_cassette, spool
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.importing import How, Made, Refused, aimock, codings
from llm_proxy.importing.aimock import Scripted
from llm_proxy.importing.documents import opened
from llm_proxy.importing.source import (
    INCOMPLETE,
    Loss,
    Opened,
    Present,
    SourceExchange,
    Unfit,
    Unreadable,
)
from llm_proxy.outcome import outcome
from llm_proxy.routing import Routing
from llm_proxy.shell.content_decoders import CodingError, decoder
from llm_proxy.shell.importing.files import content
from llm_proxy.shell.importing.scripting import ScenarioFolder
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import Files
from llm_proxy.shell.recording.spool_writer import LARGEST

Status = Literal["imported", "partly imported", "refused"]
"""How much of a file is in the library: all of it, some of it, none of it."""
_Answer = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class Imported:
    """An exchange that is in the library now, or would be."""

    number: int
    made: Made
    path: Path | None
    """None where nothing was written."""
    outcome: Outcome

    @property
    def losses(self) -> frozenset[Loss]:
        """What its file does not hold of it."""
        lost = frozenset(self.made.losses)
        return lost if self.outcome.complete else lost | {INCOMPLETE}


Result = Imported | Scripted | Present | Refused


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file."""

    path: Path
    session: str
    """Of its exchanges; empty where it holds fixtures."""
    format: str = ""
    """Empty where it is of none that is known."""
    scenarios: Path | None = None
    """The file of its scenarios, where it holds fixtures that are some now, or would be."""
    results: tuple[Result, ...] = ()
    why: str = ""
    """Why it could not be read, or not to its end, in a sentence."""

    @property
    def status(self) -> Status:
        """How much of it is in the library, or a scenario."""
        kept = self.count(Imported) + self.count(Scripted) + self.count(Present)
        if kept == 0:
            return "refused"
        return "partly imported" if self.why or self.count(Refused) else "imported"

    def count(self, kind: type[Result]) -> int:
        """How many of its exchanges came to this."""
        return sum(isinstance(it, kind) for it in self.results)

    @property
    def losses(self) -> Counter[Loss]:
        """What it could not hold, or no scenario says, and of how many of its results."""
        found: Counter[Loss] = Counter()
        for it in self.results:
            if isinstance(it, Imported | Scripted):
                found.update(it.losses)
        return found


@dataclass(slots=True)
class Importer:
    """Imports files into one library, or only says what would become of them."""

    library: Library
    """Refreshed."""
    how: How
    sessions: Mapping[Path, str] = field(default_factory=dict)
    """The sessions of files that have one of their own."""
    is_dry: bool = False
    scenarios: ScenarioFolder = field(default_factory=ScenarioFolder)
    """Where fixtures go."""
    _files: Files = field(init=False)
    _before: dict[tuple[str, str], Counter[_Answer]] = field(init=False, default_factory=dict)
    """The answers that were in the library before, by session and key, and not met again yet."""

    def __post_init__(self) -> None:
        self._files = Files(self.library, renew=False)

    def run(self, paths: Iterable[Path]) -> Iterator[Report]:
        """Import each file.  Raises `SpoolError` where the library cannot be written."""
        for path in paths:
            yield self._file(path)

    def _file(self, path: Path) -> Report:
        try:
            file = opened(content(path))
            if aimock.claims(file):
                return self._script(path, file)
        except Unreadable as error:
            return Report(path, self._session(path), why=str(error))
        return self._exchanges(path, file)

    def _script(self, path: Path, file: Opened) -> Report:
        """Put the scenarios of fixtures where they belong."""
        report = Report(path, "", aimock.TITLE)
        try:
            put = self.scenarios.put(path, file.document["fixtures"], is_dry=self.is_dry)
        except Unreadable as error:
            return replace(report, why=str(error))
        return replace(report, scenarios=put.path, results=put.results)

    def _exchanges(self, path: Path, file: Opened) -> Report:
        """Import the exchanges of a recording."""
        session = self._session(path)
        how = replace(self.how, routing=Routing(session, self.how.routing.rules))
        report = Report(path, session)
        results: list[Result] = []
        try:
            recording = importing.read(file)
            report = replace(report, format=recording.format.name)
            for each in recording.exchanges:
                if isinstance(each, Refused):
                    results.append(each)
                else:
                    name = recording.format.name
                    results.append(self._one(each.number, each.exchange, how, name))
        except Unreadable as error:
            report = replace(report, why=str(error))
        if not results and not report.why:
            report = replace(report, why="it holds no exchange")
        return replace(report, results=tuple(results))

    def _session(self, path: Path) -> str:
        return self.sessions.get(path, self.how.routing.session)

    def _one(self, number: int, exchange: SourceExchange, how: How, source: str) -> Result:
        try:
            made = importing.made(codings.uncoded(exchange, _undone), how, source)
        except Unfit as error:
            return Refused(number, str(error))
        if self._is_present(made):
            return Present(number)
        try:
            return self._put(number, made)
        except CassetteError as error:
            return Refused(number, f"no cassette can hold it: {error.why}")

    def _is_present(self, made: Made) -> bool:
        """Whether a take from before this import has this answer; each counts once."""
        name = (made.meta.session, made.meta.key)
        if name not in self._before:
            self._before[name] = Counter(self._answers(*name))
        before = self._before[name]
        if before[made.answer] == 0:
            return False
        before[made.answer] -= 1
        return True

    def _answers(self, session: str, key: str) -> Iterator[_Answer]:
        for number in self.library.numbers(session, key):
            try:
                it = self.library.load(self.library.take(session, key, number).path)
            except CassetteError:
                continue
            if it.meta.key == key:
                yield it.head.status, it.end.sha256, it.end.ending.value

    def _put(self, number: int, made: Made) -> Imported:
        """Put it behind the takes that are there; the lines are checked in a dry run as well."""
        spooled = made.spooled(str(self.library.root))
        if self.is_dry:
            lines = spool.assemble(spooled)
            place = self.library.place(made.meta, made.request, 1)
            return Imported(number, made, None, outcome(read_cassette(str(place), b"".join(lines))))
        filed = self._files.put(spooled)
        return Imported(number, made, filed.path, filed.outcome)


def _undone(coding: str, body: bytes) -> bytes | None:
    """A body without this coding; None where it cannot be undone here.  Raises `ValueError`."""
    undo = decoder(coding)
    if undo is None:
        return None
    plain = bytearray()
    try:
        for piece in undo.decode(body):
            plain += piece
            if len(plain) > LARGEST:
                raise Unfit(f"a body unpacks to more than {LARGEST} bytes")
        undo.close()
    except CodingError as error:
        raise ValueError(str(error)) from None
    return bytes(plain)


def now() -> str:
    """The present, as line 1 of a cassette has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
