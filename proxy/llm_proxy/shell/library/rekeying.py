"""Renames cassettes after the matching rules changed.

A new file with the new key in line 1 is written and synced under the new name, and then the old
one is deleted: a crash at any moment leaves the old file or both, never none.  The next run
recognises a copy that a crash left behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import msgspec

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest, parse_cassette
from llm_proxy.cassette.model import encode_line
from llm_proxy.errors import CassetteError
from llm_proxy.integrity import was_redacted_after_keying
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.matching.keys import colliding_rules
from llm_proxy.shell.library.folders import sync_folder
from llm_proxy.shell.library.library import Library, TakeFile, parse_take_path
from llm_proxy.shell.library.library_keys import is_keyed_by, natural_sort_key


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A file that gets a new first line, and usually a new name."""

    path: Path
    target: Path
    """The new path; equal to `path` if only the first line changes."""
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


@dataclass(slots=True)
class _KeyedFile:
    path: Path
    take_file: TakeFile | None
    meta: CassetteMeta
    request: StoredRequest
    new_key: str


@dataclass(slots=True)
class _RekeySurvey:
    files_to_rekey: list[_KeyedFile] = field(default_factory=list)
    unkeyable_paths: list[Path] = field(default_factory=list)
    read_errors: list[CassetteError] = field(default_factory=list)
    file_count: int = 0


def plan_rekey(library: Library, rules: RuleSet, paths: Iterable[Path]) -> RekeyPlan:
    """The changes needed so that all of these files are keyed by the rules; nothing is written.

    The library must be refreshed.
    """
    survey = _survey(library, rules, paths)
    groups: dict[tuple[str, str], list[_KeyedFile]] = {}
    changes: list[KeyChange] = []
    for keyed_file in survey.files_to_rekey:
        if (
            keyed_file.take_file is None
            or keyed_file.take_file.key_prefix == keyed_file.new_key[:16]
        ):  # a stray, or the right name already
            changes.append(
                KeyChange(keyed_file.path, keyed_file.path, _meta_with_new_key(keyed_file, rules))
            )
        else:
            groups.setdefault((keyed_file.take_file.session, keyed_file.new_key), []).append(
                keyed_file
            )
    collisions: list[KeyCollision] = []
    for (session, key), group in groups.items():
        existing_paths = [
            library.take_file(session, key, number).path
            for number in library.take_numbers(session, key)
        ]
        leftovers, to_move = _split_crash_leftovers(library, group, existing_paths, rules)
        changes += [
            *leftovers,
            *_assign_numbers(to_move, library.take_numbers(session, key), rules),
        ]
        collisions += _find_collisions(library, to_move, existing_paths, rules)
    return RekeyPlan(
        survey.file_count,
        tuple(changes),
        tuple(collisions),
        tuple(survey.unkeyable_paths),
        tuple(survey.read_errors),
    )


def apply_changes(changes: Sequence[KeyChange]) -> Iterator[KeyChange]:
    """Apply the changes, and yield each once it is done.

    Raises `CassetteError` for a file that has changed since, and `OSError` if writing fails.
    """
    for change in changes:
        _apply_change(change)
        yield change


def _survey(library: Library, rules: RuleSet, paths: Iterable[Path]) -> _RekeySurvey:
    survey = _RekeySurvey()
    for path in paths:
        survey.file_count += 1
        try:
            if is_keyed_by(library.read_meta(path), rules):
                continue
            meta, request = library.read_opening(path)
        except CassetteError as error:
            survey.read_errors.append(error)
            continue
        if was_redacted_after_keying(request):
            survey.unkeyable_paths.append(path)
            continue
        take = parse_take_path(library.root, path)
        key = matching.request_key(meta.provider, request, rules)
        survey.files_to_rekey.append(_KeyedFile(path, take, meta, request, key))
    return survey


def _split_crash_leftovers(
    library: Library, group: Sequence[_KeyedFile], existing_paths: Sequence[Path], rules: RuleSet
) -> tuple[list[KeyChange], list[_KeyedFile]]:
    """Changes for files whose new copies exist since a crash, and the remaining files."""
    leftovers: list[KeyChange] = []
    remaining: list[_KeyedFile] = []
    for keyed_file in group:
        meta = _meta_with_new_key(keyed_file, rules)
        existing_copy = next(
            (path for path in existing_paths if _is_copy(library, keyed_file.path, path, meta)),
            None,
        )
        if existing_copy is None:
            remaining.append(keyed_file)
        else:
            leftovers.append(KeyChange(keyed_file.path, existing_copy, meta, target_exists=True))
    return leftovers, remaining


def _is_copy(library: Library, old_path: Path, new_path: Path, meta: CassetteMeta) -> bool:
    try:
        return library.read_meta(new_path) == meta and _content_after_first_line(
            old_path
        ) == _content_after_first_line(new_path)
    except (CassetteError, OSError):
        return False


def _content_after_first_line(path: Path) -> bytes:
    """The file's bytes after its first line."""
    return path.read_bytes().partition(b"\n")[2]


def _meta_with_new_key(keyed_file: _KeyedFile, rules: RuleSet) -> CassetteMeta:
    return msgspec.structs.replace(
        keyed_file.meta,
        key=keyed_file.new_key,
        key_rules_version=KEY_RULES_VERSION,
        match_rules=rules.rule_texts,
    )


def _assign_numbers(
    group: Sequence[_KeyedFile], taken_numbers: Sequence[int], rules: RuleSet
) -> Iterator[KeyChange]:
    """The changes for the files of one new key, with their take numbers.

    They keep their numbers if they had one key before and no number is taken.
    """
    earliest_recorded: dict[str, str] = {}
    for keyed_file in group:
        earliest_recorded[keyed_file.meta.key] = min(
            keyed_file.meta.recorded_at,
            earliest_recorded.get(keyed_file.meta.key, keyed_file.meta.recorded_at),
        )
    # Takes of one old key stay in the order of their numbers, even if a crash interrupts.
    ordered = sorted(
        group,
        key=lambda file: (
            earliest_recorded[file.meta.key],
            file.meta.key,
            natural_sort_key(file.path),
        ),
    )
    numbers = [
        keyed_file.take_file.number for keyed_file in ordered if keyed_file.take_file is not None
    ]
    keeps_numbers = (
        not taken_numbers
        and len(set(numbers)) == len(numbers)
        and len({keyed_file.meta.key for keyed_file in group}) == 1
    )
    last_number = max(taken_numbers, default=0)
    for position, (keyed_file, number) in enumerate(zip(ordered, numbers, strict=True), 1):
        new_number = number if keeps_numbers else last_number + position
        target = keyed_file.path.with_name(f"{keyed_file.new_key[:16]}-{new_number}.jsonl")
        yield KeyChange(keyed_file.path, target, _meta_with_new_key(keyed_file, rules))


def _find_collisions(
    library: Library, group: Sequence[_KeyedFile], existing_paths: Sequence[Path], rules: RuleSet
) -> Iterator[KeyCollision]:
    if not existing_paths and len({keyed_file.meta.key for keyed_file in group}) < 2:
        return
    requests = [(keyed_file.meta.provider, keyed_file.request) for keyed_file in group]
    for path in existing_paths:
        with suppress(CassetteError):
            meta, request = library.read_opening(path)
            requests.append((meta.provider, request))
    if causing_rules := colliding_rules(requests, rules):
        paths = (*existing_paths, *(keyed_file.path for keyed_file in group))
        yield KeyCollision(
            tuple(sorted(paths, key=natural_sort_key)), tuple(map(str, causing_rules))
        )


def _apply_change(key_change: KeyChange) -> None:
    if not key_change.target_exists:
        _write_rekeyed_file(key_change)
    if key_change.target != key_change.path:
        key_change.path.unlink()
        sync_folder(key_change.path.parent)


def _write_rekeyed_file(key_change: KeyChange) -> None:
    content = encode_line(key_change.meta) + _content_after_first_line(key_change.path)
    parse_cassette(str(key_change.path), content)
    # Named like a recorder's temporary files, so that `recover` deletes it after a crash.
    temporary = key_change.target.parent / f".{os.getpid()}-0.{token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(key_change.path, temporary)
        if key_change.target != key_change.path and key_change.target.exists():
            raise CassetteError(
                str(key_change.target), None, "another process has just put it there"
            )
        temporary.replace(key_change.target)
        sync_folder(key_change.target.parent)
    finally:
        temporary.unlink(missing_ok=True)
