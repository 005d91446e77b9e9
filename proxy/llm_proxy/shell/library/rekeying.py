"""Renames cassettes after the matching rules or the requests in them changed.

A new file with the new key in line 1 is written and synced under the new name, and then the old
one is deleted: a crash at any moment leaves the old file or both, never none.  The next run
recognises a copy that a crash left behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import msgspec

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest, parse_cassette
from llm_proxy.cassette.model import encode_line
from llm_proxy.cassette_consistency import was_redacted_after_keying
from llm_proxy.errors import CassetteError
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.matching.keys import colliding_rules
from llm_proxy.matching.presets import needs_rekeying
from llm_proxy.shell.library.library import (
    Library,
    TakeFile,
    natural_sort_key,
    parse_take_path,
    sync_folder,
)
from llm_proxy.shell.private_files import make_private_folder, private_opener


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A file that gets a new first line, and usually a new name."""

    path: Path
    target: Path
    """The new path; equal to `path` if only the first line changes."""
    old_meta: CassetteMeta
    """The metadata when the change was planned."""
    meta: CassetteMeta
    """The new metadata."""
    target_exists: bool = False
    """Whether the new file exists already, so that only the old one is left to delete."""


@dataclass(frozen=True, slots=True)
class KeyCollision:
    """Files of different requests that get the same key by the rules."""

    paths: tuple[Path, ...]
    rules: tuple[str, ...]
    """The rules that cause it: without any one of them the keys would differ."""


@dataclass(frozen=True, slots=True)
class RekeyPlan:
    """The changes needed to rekey a library, with collisions and files that are left alone."""

    file_count: int
    changes: tuple[KeyChange, ...]
    collisions: tuple[KeyCollision, ...]
    unkeyable_paths: tuple[Path, ...]
    """Files whose requests had an operator's secret redacted, so their keys cannot be recomputed.
    """
    read_errors: tuple[CassetteError, ...]


@dataclass(frozen=True, slots=True)
class RekeyedFile:
    """A file that gets a new first line."""

    path: Path
    request: StoredRequest
    old_meta: CassetteMeta
    new_meta: CassetteMeta


@dataclass(frozen=True, slots=True)
class JoinedTakes:
    """Takes that get one new key, of which some had another one before."""

    files: tuple[RekeyedFile, ...]
    """Those that are renamed."""
    existing_paths: tuple[Path, ...]
    """Those that have the key already."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them, sorted."""
        paths = (*self.existing_paths, *(file.path for file in self.files))
        return tuple(sorted(paths, key=natural_sort_key))


MakeContent = Callable[[Path, CassetteMeta], bytes]
"""The new content of the file at a path, with that first line.  Raises `CassetteError`."""


def plan_rekey(library: Library, rules: RuleSet, paths: Iterable[Path]) -> RekeyPlan:
    """The changes needed so that all of these files are keyed by the rules; nothing is written.

    The library must be refreshed.
    """
    file_count = 0
    files: list[RekeyedFile] = []
    unkeyable_paths: list[Path] = []
    read_errors: list[CassetteError] = []
    for path in paths:
        file_count += 1
        try:
            if not needs_rekeying(library.read_meta(path), rules):
                continue
            meta, request = library.read_opening(path)
        except CassetteError as error:
            read_errors.append(error)
            continue
        if was_redacted_after_keying(request):
            unkeyable_paths.append(path)
            continue
        new_meta = msgspec.structs.replace(
            meta,
            key=matching.request_key(meta.provider, request, rules),
            key_rules_version=KEY_RULES_VERSION,
            match_rules=rules.rule_texts,
        )
        files.append(RekeyedFile(path, request, meta, new_meta))
    changes, joined = plan_changes(library, files, with_first_line)
    collisions = [each for takes in joined for each in _find_collisions(library, takes, rules)]
    return RekeyPlan(
        file_count,
        tuple(changes),
        tuple(collisions),
        tuple(unkeyable_paths),
        tuple(read_errors),
    )


def plan_changes(
    library: Library, files: Iterable[RekeyedFile], make_content: MakeContent
) -> tuple[list[KeyChange], list[JoinedTakes]]:
    """The changes that give files their new first lines and names, and the takes that they join.

    The library must be refreshed.
    """
    changes: list[KeyChange] = []
    joined: list[JoinedTakes] = []
    groups: dict[tuple[str, str], list[_MisnamedFile]] = {}
    for file in files:
        take = parse_take_path(library.root, file.path)
        if take is None or take.key_prefix == file.new_meta.key[:16]:  # a stray, or the right name
            changes.append(KeyChange(file.path, file.path, file.old_meta, file.new_meta))
        else:
            group = groups.setdefault((take.session, file.new_meta.key), [])
            group.append(_MisnamedFile(take, file))
    for (session, key), group in groups.items():
        existing = library.take_paths(session, key)
        to_move: list[_MisnamedFile] = []
        for misnamed in group:
            file = misnamed.file
            copies = (path for path in existing.values() if _is_copy(file, path, make_content))
            if (copy := next(copies, None)) is None:
                to_move.append(misnamed)
            else:  # a crash left both
                changes.append(
                    KeyChange(file.path, copy, file.old_meta, file.new_meta, target_exists=True)
                )
        changes += _assign_numbers(to_move, existing)
        if existing or len({misnamed.file.old_meta.key for misnamed in to_move}) > 1:
            moved = tuple(misnamed.file for misnamed in to_move)
            joined += [JoinedTakes(moved, tuple(existing.values()))] if moved else []
    return changes, joined


@dataclass(frozen=True, slots=True)
class _MisnamedFile:
    """A take whose name does not contain its new key."""

    take: TakeFile
    file: RekeyedFile


def _is_copy(file: RekeyedFile, new_path: Path, make_content: MakeContent) -> bool:
    """Whether the file at `new_path` is this one with its new content."""
    try:
        return new_path.read_bytes() == make_content(file.path, file.new_meta)
    except (CassetteError, OSError):
        return False


def with_first_line(path: Path, meta: CassetteMeta) -> bytes:
    """The content of a file with another first line."""
    return encode_line(meta) + _content_after_first_line(path)


def _content_after_first_line(path: Path) -> bytes:
    return path.read_bytes().partition(b"\n")[2]


def _assign_numbers(
    group: Sequence[_MisnamedFile], existing_takes: Collection[int]
) -> Iterator[KeyChange]:
    """The changes for the files of one new key, with their take numbers.

    They keep their numbers if they had one key before and no number is taken.
    """
    earliest_recorded: dict[str, str] = {}
    for misnamed in group:
        key, recorded_at = misnamed.file.old_meta.key, misnamed.file.old_meta.recorded_at
        earliest_recorded[key] = min(recorded_at, earliest_recorded.get(key, recorded_at))
    # Takes of one old key stay in the order of their numbers, even if a crash interrupts.
    ordered = sorted(
        group,
        key=lambda misnamed: (
            earliest_recorded[misnamed.file.old_meta.key],
            misnamed.file.old_meta.key,
            natural_sort_key(misnamed.take.path),
        ),
    )
    keeps_numbers = (
        not existing_takes
        and len(earliest_recorded) == 1
        and len({misnamed.take.number for misnamed in group}) == len(group)
    )
    for number, misnamed in enumerate(ordered, max(existing_takes, default=0) + 1):
        new_number = misnamed.take.number if keeps_numbers else number
        path, new_meta = misnamed.file.path, misnamed.file.new_meta
        target = path.with_name(f"{new_meta.key[:16]}-{new_number}.jsonl")
        yield KeyChange(path, target, misnamed.file.old_meta, new_meta)


def _find_collisions(
    library: Library, joined: JoinedTakes, rules: RuleSet
) -> Iterator[KeyCollision]:
    requests = [(file.old_meta.provider, file.request) for file in joined.files]
    for path in joined.existing_paths:
        with suppress(CassetteError):
            meta, request = library.read_opening(path)
            requests.append((meta.provider, request))
    if causing_rules := colliding_rules(requests, rules):
        yield KeyCollision(joined.paths, tuple(map(str, causing_rules)))


def apply_changes(
    changes: Sequence[KeyChange], make_content: MakeContent = with_first_line
) -> Iterator[KeyChange]:
    """Apply the changes, and yield each once it is done.

    Raises `CassetteError` for a file that has changed since, and `OSError` if writing fails.
    """
    for change in changes:
        if not change.target_exists:
            if not change.target.parent.exists():
                make_private_folder(change.target.parent)
                shutil.copymode(change.path.parent, change.target.parent)
                sync_folder(change.target.parent.parent)
            _write_rekeyed_file(change, make_content)
        if change.target != change.path:
            change.path.unlink()
            sync_folder(change.path.parent)
            if change.target.parent != change.path.parent:
                with suppress(OSError):  # it is not empty
                    change.path.parent.rmdir()
        yield change


def _write_rekeyed_file(key_change: KeyChange, make_content: MakeContent) -> None:
    path = str(key_change.path)
    if Library(key_change.path.parent).read_meta(key_change.path) != key_change.old_meta:
        raise CassetteError(path, 1, "another process changed the file; run the command again")
    content = make_content(key_change.path, key_change.meta)
    parse_cassette(path, content)
    # Named like a recorder's temporary files, so that `recover` deletes it after a crash.
    temporary = key_change.target.parent / f".{os.getpid()}-0.{token_hex(4)}.tmp"
    try:
        with open(temporary, "xb", opener=private_opener) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(key_change.path, temporary)
        if key_change.target != key_change.path and key_change.target.exists():
            raise CassetteError(
                str(key_change.target),
                None,
                "another process created the file; run the command again",
            )
        temporary.replace(key_change.target)
        sync_folder(key_change.target.parent)
    finally:
        temporary.unlink(missing_ok=True)
