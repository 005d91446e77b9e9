"""Imports foreign files into a library, and fixtures into a folder of scenarios."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from llm_proxy import importing
from llm_proxy.cassette import parse_cassette, spool
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.exchange import Outcome
from llm_proxy.importing import (
    ImportedCassette,
    ImportSettings,
    NumberedExchange,
    RefusedItem,
    aimock,
    conversion,
)
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.file_parsing import MAX_FILE_BYTES, parse_file_content
from llm_proxy.importing.source import (
    INCOMPLETE,
    AlreadyImportedItem,
    ImportLoss,
    NotImportable,
    ParsedFile,
    UnreadableFile,
)
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.spooling import MAX_BODY_BYTES

_UNSAFE_CHARS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a session's name."""

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
    def losses(self) -> tuple[ImportLoss, ...]:
        """What the source file does not contain of the exchange, each once."""
        losses = dict.fromkeys(self.cassette.losses)
        return tuple(losses if self.outcome.is_complete else {**losses, INCOMPLETE: None})


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
    reason: str = ""
    """Why the file could not be read, or not to its end; empty if it could."""

    @property
    def status(self) -> ImportStatus:
        """How much of the file was imported, now or earlier."""
        refused_count = self.count_results(RefusedItem)
        if refused_count == len(self.results):
            return "refused"
        return "partly imported" if self.reason or refused_count else "imported"

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
    scenario_folder: Path = Path("scenarios")
    """The folder that gets one scenario file for each file of fixtures."""
    scenario_names: Mapping[Path, str] = field(default_factory=dict)
    """The name of the scenario file, by file of fixtures."""
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
        session = self.session_by_file.get(path, self.settings.routing_settings.default_session)
        try:
            with path.open("rb") as opened_file:
                data = opened_file.read(MAX_FILE_BYTES + 1)
            file = parse_file_content(data)
        except OSError as error:
            return FileReport(path, session, reason=f"cannot read the file: {error.strerror}")
        except UnreadableFile as error:
            return FileReport(path, session, reason=str(error))
        if aimock.is_fixture_file(file):
            return self._import_fixtures(path, file)
        routing = replace(self.settings.routing_settings, default_session=session)
        settings = replace(self.settings, routing_settings=routing)
        results: list[ImportResult] = []
        format_name = reason = ""
        try:
            recording = importing.parse_recording(file)
            format_name = recording.format.name
            results.extend(  # where the file breaks off, what comes before stays
                self._import_item(item, settings, format_name) for item in recording.exchanges
            )
        except UnreadableFile as error:
            reason = str(error)
        if not results and not reason:
            reason = "the file has no exchanges"
        return FileReport(path, session, format_name, results=tuple(results), reason=reason)

    def _import_fixtures(self, path: Path, file: ParsedFile) -> FileReport:
        """Convert the fixtures of a file and write the scenarios, unless it is a dry run.

        An existing file is never changed: one with other content is reported.
        """
        report = FileReport(path, "", aimock.TITLE)
        name = self.scenario_names.get(path) or assign_session_names([path])[path]
        target = self.scenario_folder / f"{name}.yaml"
        try:
            converted = aimock.convert_fixtures(file.document["fixtures"], name, path.name)
            if not converted.yaml_text:
                return replace(report, results=converted.results)
            content = converted.yaml_text.encode()
            if not self.is_dry_run:
                self.library.make_folder(target.parent)
            is_present = _has_same_content(target, content)
            if not is_present and not self.is_dry_run:
                with self.library.create_file(target) as scenario_file:
                    scenario_file.write(content)
        except OSError as error:
            return replace(report, reason=f"cannot write {target}: {error.strerror}")
        except UnreadableFile as error:
            return replace(report, reason=str(error))
        results = tuple(
            AlreadyImportedItem(result.number)
            if is_present and isinstance(result, ConvertedFixture)
            else result
            for result in converted.results
        )
        return replace(report, scenario_path=target, results=results)

    def _import_item(
        self, item: NumberedExchange | RefusedItem, import_settings: ImportSettings, source: str
    ) -> ImportResult:
        if isinstance(item, RefusedItem):
            return item
        number = item.number
        try:
            imported = importing.convert_to_cassette(
                conversion.decode_exchange_bodies(item.exchange, _decompress),
                import_settings,
                source,
            )
        except NotImportable as error:
            return RefusedItem(number, str(error))
        if self._is_already_present(imported):
            return AlreadyImportedItem(number)
        try:
            return self._store_cassette(number, imported)
        except CassetteError as error:
            return RefusedItem(
                number, f"the exchange cannot be stored as a cassette: {error.reason}"
            )

    def _is_already_present(self, imported: ImportedCassette) -> bool:
        """Whether an earlier take has the same response; each earlier take counts once."""
        session, key = imported.meta.session, imported.meta.key
        unmatched = self._unmatched_stored_responses.get((session, key))
        if unmatched is None:
            unmatched = Counter()
            for path in self.library.take_paths(session, key).values():
                with suppress(CassetteError):
                    cassette = self.library.load_cassette(path)
                    end = cassette.response_end
                    identity = (cassette.response_head.status, end.sha256, end.ending.value)
                    unmatched[identity] += cassette.meta.key == key
            self._unmatched_stored_responses[session, key] = unmatched
        if unmatched[imported.response_identity] == 0:
            return False
        unmatched[imported.response_identity] -= 1
        return True

    def _store_cassette(self, number: int, imported: ImportedCassette) -> ImportedExchange:
        """File the cassette after the existing takes; a dry run only checks its lines."""
        spooled = imported.to_spool_content(str(self.library.root))
        if self.is_dry_run:
            path = self.library.path_for_take(imported.meta, imported.request, 1)
            lines = b"".join(spool.cassette_lines_from_spool(spooled))
            outcome = cassette_outcome(parse_cassette(str(path), lines))
            return ImportedExchange(number, imported, None, outcome)
        filed = self._filer.file_unspooled_exchange(spooled, imported.response_redaction)
        return ImportedExchange(number, imported, filed.path, filed.outcome)


def _has_same_content(target: Path, content: bytes) -> bool:
    """Whether the file exists with this content.  Raises `UnreadableFile` for other content."""
    try:
        existing = target.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UnreadableFile(f"cannot read {target}: {error.strerror}") from None
    if existing != content:
        raise UnreadableFile(
            f"{target} already exists with different content; move it, or set --scenarios to "
            "another folder"
        )
    return True


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The regular files at and below the paths, each once; hidden ones in folders are skipped.

    Raises `UsageError` for a path that does not exist or cannot be read.
    """
    unique_files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            unique_files |= dict.fromkeys(_files_in_folder(path))
        elif path.is_file():
            unique_files[path] = None
        else:
            problem = "not a regular file" if path.exists() else "no such file or folder"
            raise UsageError(f"{problem}: {path}")
    return list(unique_files)


def _files_in_folder(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror}") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_in_folder(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def assign_session_names(files: Sequence[Path]) -> dict[Path, str]:
    """A session name for each file: the file's name without extensions.

    Ambiguous names are prefixed with the file's folders, and if still ambiguous, numbered.
    """
    stems = {path: path.name.partition(".")[0] or path.name for path in files}
    names = {path: _safe_name(stem) for path, stem in stems.items()}
    counts = Counter(map(str.lower, names.values()))
    used_names = {name for name, count in counts.items() if count == 1}
    for path, name in names.items():
        if counts[name.lower()] > 1:
            long_name = _safe_name("-".join((*path.absolute().parts[1:-1][-3:], stems[path])))
            number, unused_name = 1, long_name
            while unused_name.lower() in used_names:
                number += 1
                unused_name = f"{long_name[: _MAX_NAME_CHARS - 6]}-{number}"
            names[path] = unused_name
            used_names.add(unused_name.lower())
    return names


def _safe_name(text: str) -> str:
    name = _UNSAFE_CHARS.sub("-", text).strip("-._")
    return name[-_MAX_NAME_CHARS:].lstrip("-._") or "unnamed"


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
                raise NotImportable(f"a body decompresses to more than {MAX_BODY_BYTES >> 20} MiB")
        decoder.raise_if_truncated()
    except InvalidContentCoding as error:
        raise ValueError(str(error)) from None
    return bytes(decompressed)
