"""Imports foreign files into a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from llm_proxy import importing
from llm_proxy.cassette import parse_cassette, spool
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.importing import ImportedCassette, ImportSettings, RefusedItem, aimock, conversion
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.file_parsing import parse_file_content
from llm_proxy.importing.source import (
    INCOMPLETE,
    AlreadyImportedItem,
    ImportLoss,
    NotImportable,
    ParsedFile,
    SourceExchange,
    UnreadableFile,
)
from llm_proxy.outcome import cassette_outcome
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder
from llm_proxy.shell.importing.files import read_content
from llm_proxy.shell.importing.scenario_folder import ScenarioFolder
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.recorder import MAX_BODY_BYTES

ImportStatus = Literal["imported", "partly imported", "refused"]
"""How much of a file was imported: all, some or none."""
_ResponseIdentity = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class ImportedExchange:
    """An exchange that was imported, or would be in a dry run."""

    number: int
    cassette: ImportedCassette
    path: Path | None
    """The cassette's file; None in a dry run."""
    outcome: Outcome

    @property
    def losses(self) -> frozenset[ImportLoss]:
        """What the source file does not contain of the exchange."""
        lost = frozenset(self.cassette.losses)
        return lost if self.outcome.is_complete else lost | {INCOMPLETE}


ImportResult = ImportedExchange | ConvertedFixture | AlreadyImportedItem | RefusedItem


@dataclass(frozen=True, slots=True)
class FileReport:
    """The result of importing one file."""

    path: Path
    session: str
    """The session of its exchanges; empty for fixtures."""
    format: str = ""
    """The name of its format; empty if it is unknown."""
    scenario_path: Path | None = None
    """The scenario file that its fixtures were converted to, or would be; None if none."""
    results: tuple[ImportResult, ...] = ()
    why: str = ""
    """Why the file could not be read, or not to its end; empty if it could."""

    @property
    def status(self) -> ImportStatus:
        """How much of the file was imported, now or earlier."""
        imported_count = (
            self.count_results(ImportedExchange)
            + self.count_results(ConvertedFixture)
            + self.count_results(AlreadyImportedItem)
        )
        if imported_count == 0:
            return "refused"
        return "partly imported" if self.why or self.count_results(RefusedItem) else "imported"

    def count_results(self, result_type: type[ImportResult]) -> int:
        """The number of results of this type."""
        return sum(isinstance(result, result_type) for result in self.results)

    @property
    def loss_counts(self) -> Counter[ImportLoss]:
        """What was lost in the import, each with the number of results concerned."""
        loss_counts: Counter[ImportLoss] = Counter()
        for result in self.results:
            if isinstance(result, ImportedExchange | ConvertedFixture):
                loss_counts.update(result.losses)
        return loss_counts


@dataclass(slots=True)
class Importer:
    """Imports files into one library and one scenario folder, or only reports what it would do."""

    library: Library
    """The target library; must be refreshed."""
    settings: ImportSettings
    session_by_file: Mapping[Path, str] = field(default_factory=dict)
    """Session by file, for files with their own session."""
    is_dry_run: bool = False
    scenario_folder: ScenarioFolder = field(default_factory=ScenarioFolder)
    """Where converted fixtures are written."""
    _filer: CassetteFiler = field(init=False)
    _unmatched_stored_responses: dict[tuple[str, str], Counter[_ResponseIdentity]] = field(
        init=False, default_factory=dict
    )
    """Responses stored before the import, by session and key, less those found again so far."""

    def __post_init__(self) -> None:
        self._filer = CassetteFiler(self.library, replaces_older=False)

    def import_files(self, paths: Iterable[Path]) -> Iterator[FileReport]:
        """Import each file.  Raises `SpoolError` if the library cannot be written."""
        for path in paths:
            yield self._import_file(path)

    def _import_file(self, path: Path) -> FileReport:
        try:
            file = parse_file_content(read_content(path))
            if aimock.is_fixture_file(file):
                return self._import_fixtures(path, file)
        except UnreadableFile as error:
            return FileReport(path, self._session_of_file(path), why=str(error))
        return self._import_exchanges(path, file)

    def _import_fixtures(self, path: Path, file: ParsedFile) -> FileReport:
        """Convert the fixtures of a file to scenarios."""
        report = FileReport(path, "", aimock.TITLE)
        try:
            scenario_report = self.scenario_folder.write_fixtures_as_scenarios(
                path, file.document["fixtures"], is_dry_run=self.is_dry_run
            )
        except UnreadableFile as error:
            return replace(report, why=str(error))
        return replace(report, scenario_path=scenario_report.path, results=scenario_report.results)

    def _import_exchanges(self, path: Path, file: ParsedFile) -> FileReport:
        session = self._session_of_file(path)
        import_settings = replace(
            self.settings,
            routing_settings=RoutingSettings(session, self.settings.routing_settings.match_rules),
        )
        report = FileReport(path, session)
        results: list[ImportResult] = []
        try:
            recording = importing.parse_recording(file)
            report = replace(report, format=recording.format.name)
            for exchange in recording.exchanges:
                if isinstance(exchange, RefusedItem):
                    results.append(exchange)
                else:
                    format_name = recording.format.name
                    results.append(
                        self._import_exchange(
                            exchange.number, exchange.exchange, import_settings, format_name
                        )
                    )
        except UnreadableFile as error:
            report = replace(report, why=str(error))
        if not results and not report.why:
            report = replace(report, why="it holds no exchange")
        return replace(report, results=tuple(results))

    def _session_of_file(self, path: Path) -> str:
        return self.session_by_file.get(path, self.settings.routing_settings.default_session)

    def _import_exchange(
        self, number: int, exchange: SourceExchange, import_settings: ImportSettings, source: str
    ) -> ImportResult:
        try:
            imported = importing.convert_to_cassette(
                conversion.decode_exchange_bodies(exchange, _decompress), import_settings, source
            )
        except NotImportable as error:
            return RefusedItem(number, str(error))
        if self._is_already_present(imported):
            return AlreadyImportedItem(number)
        try:
            return self._store_cassette(number, imported)
        except CassetteError as error:
            return RefusedItem(number, f"no cassette can hold it: {error.reason}")

    def _is_already_present(self, imported: ImportedCassette) -> bool:
        """Whether an earlier take has the same response; each earlier take counts once."""
        session_and_key = (imported.meta.session, imported.meta.key)
        if session_and_key not in self._unmatched_stored_responses:
            self._unmatched_stored_responses[session_and_key] = Counter(
                self._stored_response_identities(*session_and_key)
            )
        unmatched = self._unmatched_stored_responses[session_and_key]
        if unmatched[imported.response_identity] == 0:
            return False
        unmatched[imported.response_identity] -= 1
        return True

    def _stored_response_identities(self, session: str, key: str) -> Iterator[_ResponseIdentity]:
        for path in self.library.take_paths(session, key).values():
            try:
                cassette = self.library.load_cassette(path)
            except CassetteError:
                continue
            if cassette.meta.key == key:
                yield (
                    cassette.response_head.status,
                    cassette.response_end.sha256,
                    cassette.response_end.ending.value,
                )

    def _store_cassette(self, number: int, imported: ImportedCassette) -> ImportedExchange:
        """File the cassette after the existing takes; a dry run only checks its lines."""
        spooled = imported.to_spool_content(str(self.library.root))
        if self.is_dry_run:
            lines = spool.cassette_lines_from_spool(spooled)
            path = self.library.path_for_take(imported.meta, imported.request, 1)
            return ImportedExchange(
                number, imported, None, cassette_outcome(parse_cassette(str(path), b"".join(lines)))
            )
        filed_cassette = self._filer.file_unspooled_exchange(spooled)
        return ImportedExchange(number, imported, filed_cassette.path, filed_cassette.outcome)


def _decompress(coding: str, body: bytes) -> bytes | None:
    """The decoded body; None if the coding is unknown here.

    Raises `ValueError` for a malformed body and `NotImportable` for one that is too large.
    """
    decoder = new_decoder(coding)
    if decoder is None:
        return None
    decompressed = bytearray()
    try:
        for piece in decoder.decode(body):
            decompressed += piece
            if len(decompressed) > MAX_BODY_BYTES:
                raise NotImportable(f"a body unpacks to more than {MAX_BODY_BYTES} bytes")
        decoder.raise_if_truncated()
    except InvalidContentCoding as error:
        raise ValueError(str(error)) from None
    return bytes(decompressed)


def timestamp_now() -> str:
    """The current time in the format of a cassette's line 1."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
