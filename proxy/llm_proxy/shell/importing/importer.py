"""Imports foreign files into a library."""

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
from llm_proxy.importing import ImportedCassette, ImportSettings, RefusedItem, aimock, codings
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.documents import open_document
from llm_proxy.importing.source import (
    INCOMPLETE,
    AlreadyImported,
    ImportLoss,
    NotImportable,
    OpenedFile,
    SourceExchange,
    UnreadableFile,
)
from llm_proxy.outcome import outcome_of
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder
from llm_proxy.shell.importing.files import read_content
from llm_proxy.shell.importing.scenario_folder import ScenarioFolder
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.spool_writer import LARGEST

Status = Literal["imported", "partly imported", "refused"]
"""How much of a file is in the library: all of it, some of it, none of it."""
_Answer = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class ImportedExchange:
    """An exchange that is in the library now, or would be."""

    number: int
    cassette: ImportedCassette
    path: Path | None
    """None where nothing was written."""
    outcome: Outcome

    @property
    def losses(self) -> frozenset[ImportLoss]:
        """What its file does not hold of it."""
        lost = frozenset(self.cassette.losses)
        return lost if self.outcome.complete else lost | {INCOMPLETE}


Result = ImportedExchange | ConvertedFixture | AlreadyImported | RefusedItem


@dataclass(frozen=True, slots=True)
class FileReport:
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
        kept = (
            self.count(ImportedExchange)
            + self.count(ConvertedFixture)
            + self.count(AlreadyImported)
        )
        if kept == 0:
            return "refused"
        return "partly imported" if self.why or self.count(RefusedItem) else "imported"

    def count(self, kind: type[Result]) -> int:
        """How many of its exchanges came to this."""
        return sum(isinstance(result, kind) for result in self.results)

    @property
    def losses(self) -> Counter[ImportLoss]:
        """What it could not hold, or no scenario says, and of how many of its results."""
        found: Counter[ImportLoss] = Counter()
        for result in self.results:
            if isinstance(result, ImportedExchange | ConvertedFixture):
                found.update(result.losses)
        return found


@dataclass(slots=True)
class Importer:
    """Imports files into one library, or only says what would become of them."""

    library: Library
    """Refreshed."""
    settings: ImportSettings
    sessions: Mapping[Path, str] = field(default_factory=dict)
    """The sessions of files that have one of their own."""
    is_dry: bool = False
    scenarios: ScenarioFolder = field(default_factory=ScenarioFolder)
    """Where fixtures go."""
    _recording_files: CassetteFiler = field(init=False)
    _responses_before: dict[tuple[str, str], Counter[_Answer]] = field(
        init=False, default_factory=dict
    )
    """The answers that were in the library before, by session and key, and not met again yet."""

    def __post_init__(self) -> None:
        self._recording_files = CassetteFiler(self.library, renew=False)

    def run(self, paths: Iterable[Path]) -> Iterator[FileReport]:
        """Import each file.  Raises `SpoolError` where the library cannot be written."""
        for path in paths:
            yield self._import_file(path)

    def _import_file(self, path: Path) -> FileReport:
        try:
            file = open_document(read_content(path))
            if aimock.is_fixture_file(file):
                return self._import_fixtures(path, file)
        except UnreadableFile as error:
            return FileReport(path, self._session_of(path), why=str(error))
        return self._import_exchanges(path, file)

    def _import_fixtures(self, path: Path, file: OpenedFile) -> FileReport:
        """Put the scenarios of fixtures where they belong."""
        report = FileReport(path, "", aimock.TITLE)
        try:
            put = self.scenarios.write_scenarios(
                path, file.document["fixtures"], is_dry=self.is_dry
            )
        except UnreadableFile as error:
            return replace(report, why=str(error))
        return replace(report, scenarios=put.path, results=put.results)

    def _import_exchanges(self, path: Path, file: OpenedFile) -> FileReport:
        session = self._session_of(path)
        import_settings = replace(
            self.settings, routing=RoutingSettings(session, self.settings.routing.rules)
        )
        report = FileReport(path, session)
        results: list[Result] = []
        try:
            recording = importing.parse_recording(file)
            report = replace(report, format=recording.format.name)
            for exchange in recording.exchanges:
                if isinstance(exchange, RefusedItem):
                    results.append(exchange)
                else:
                    name = recording.format.name
                    results.append(
                        self._import_exchange(
                            exchange.number, exchange.exchange, import_settings, name
                        )
                    )
        except UnreadableFile as error:
            report = replace(report, why=str(error))
        if not results and not report.why:
            report = replace(report, why="it holds no exchange")
        return replace(report, results=tuple(results))

    def _session_of(self, path: Path) -> str:
        return self.sessions.get(path, self.settings.routing.session)

    def _import_exchange(
        self, number: int, exchange: SourceExchange, import_settings: ImportSettings, source: str
    ) -> Result:
        try:
            made = importing.make_cassette(
                codings.without_content_codings(exchange, _decompress), import_settings, source
            )
        except NotImportable as error:
            return RefusedItem(number, str(error))
        if self._is_already_present(made):
            return AlreadyImported(number)
        try:
            return self._store(number, made)
        except CassetteError as error:
            return RefusedItem(number, f"no cassette can hold it: {error.why}")

    def _is_already_present(self, made: ImportedCassette) -> bool:
        """Whether a take from before this import has this answer; each counts once."""
        name = (made.meta.session, made.meta.key)
        if name not in self._responses_before:
            self._responses_before[name] = Counter(self._known_responses(*name))
        before = self._responses_before[name]
        if before[made.response_identity] == 0:
            return False
        before[made.response_identity] -= 1
        return True

    def _known_responses(self, session: str, key: str) -> Iterator[_Answer]:
        for number in self.library.numbers(session, key):
            try:
                cassette = self.library.load_cassette(self.library.take(session, key, number).path)
            except CassetteError:
                continue
            if cassette.meta.key == key:
                yield cassette.head.status, cassette.end.sha256, cassette.end.ending.value

    def _store(self, number: int, made: ImportedCassette) -> ImportedExchange:
        """Put it behind the takes that are there; the lines are checked in a dry run as well."""
        spooled = made.to_spool_content(str(self.library.root))
        if self.is_dry:
            lines = spool.assemble_cassette(spooled)
            place = self.library.path_for_take(made.meta, made.request, 1)
            return ImportedExchange(
                number, made, None, outcome_of(read_cassette(str(place), b"".join(lines)))
            )
        filed = self._recording_files.file_content(spooled)
        return ImportedExchange(number, made, filed.path, filed.outcome)


def _decompress(coding: str, body: bytes) -> bytes | None:
    """A body without this coding; None where it cannot be undone here.  Raises `ValueError`."""
    undo = new_decoder(coding)
    if undo is None:
        return None
    plain = bytearray()
    try:
        for piece in undo.decode(body):
            plain += piece
            if len(plain) > LARGEST:
                raise NotImportable(f"a body unpacks to more than {LARGEST} bytes")
        undo.close()
    except InvalidContentCoding as error:
        raise ValueError(str(error)) from None
    return bytes(plain)


def timestamp_now() -> str:
    """The present, as line 1 of a cassette has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
