"""Renames cassettes after the matching rules changed.

A file is written anew with its new key in line 1, synced, put at its new name, and then the old
one is deleted: a crash at any moment leaves the old file or both, never none.  What both are is
seen when it is done once more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest, read_cassette
from llm_proxy.cassette.schema import MetaLine, encode_line
from llm_proxy.errors import CassetteError
from llm_proxy.integrity import has_other_key
from llm_proxy.matching import KEY_RULES, RuleSet
from llm_proxy.matching.collisions import colliding_rules
from llm_proxy.shell.library.folders import sync_folder
from llm_proxy.shell.library.library import Library, TakeFile, take_of_name
from llm_proxy.shell.library.library_keys import is_keyed_by, number_sort_key


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A file that gets a new first line, and mostly a new name."""

    path: Path
    target: Path
    """The same, where only its first line changes."""
    meta: Meta
    """As it will be."""
    target_exists: bool = False
    """Whether the new one is there already, and the old one is all that is left to delete."""


@dataclass(frozen=True, slots=True)
class KeyCollision:
    """Files of different requests that have one key by the rules."""

    paths: tuple[Path, ...]
    rules: tuple[str, ...]
    """Those without one of which they would have different ones."""


@dataclass(frozen=True, slots=True)
class RekeyPlan:
    """What there is to do."""

    looked_at: int
    changes: tuple[KeyChange, ...]
    collisions: tuple[KeyCollision, ...]
    unchanged: tuple[Path, ...]
    """Files whose requests lost a secret of the operator's: their keys cannot be made again."""
    refused: tuple[CassetteError, ...]


@dataclass(slots=True)
class _KeyedFile:
    path: Path
    take: TakeFile | None
    meta: Meta
    request: StoredRequest
    key: str


@dataclass(slots=True)
class _LibrarySurvey:
    found: list[_KeyedFile] = field(default_factory=list)
    unchanged: list[Path] = field(default_factory=list)
    refused: list[CassetteError] = field(default_factory=list)
    count: int = 0


def rekey_plan(library: Library, rules: RuleSet, paths: Iterable[Path]) -> RekeyPlan:
    """What it takes to have all of these keyed by the rules; nothing is changed by asking.

    The library must be refreshed.
    """
    looked = _survey(library, rules, paths)
    groups: dict[tuple[str, str], list[_KeyedFile]] = {}
    changes: list[KeyChange] = []
    for keyed_file in looked.found:
        if (
            keyed_file.take is None or keyed_file.take.key_prefix == keyed_file.key[:16]
        ):  # a name of its own, or the right one
            changes.append(
                KeyChange(keyed_file.path, keyed_file.path, _with_new_key(keyed_file, rules))
            )
        else:
            groups.setdefault((keyed_file.take.session, keyed_file.key), []).append(keyed_file)
    collisions: list[KeyCollision] = []
    for (session, key), group in groups.items():
        there = [
            library.take(session, key, number).path for number in library.numbers(session, key)
        ]
        left, moving = _leftovers_of_crash(library, group, there, rules)
        changes += [*left, *_number_takes(moving, library.numbers(session, key), rules)]
        collisions += _find_collision(library, moving, there, rules)
    return RekeyPlan(
        looked.count,
        tuple(changes),
        tuple(collisions),
        tuple(looked.unchanged),
        tuple(looked.refused),
    )


def apply_changes(changes: Sequence[KeyChange]) -> Iterator[KeyChange]:
    """Change the files, each after it was done.

    Raises `CassetteError` for one that is not what it was, and `OSError` where none can be written.
    """
    for change in changes:
        _make_change(change)
        yield change


def _survey(library: Library, rules: RuleSet, paths: Iterable[Path]) -> _LibrarySurvey:
    looked = _LibrarySurvey()
    for path in paths:
        looked.count += 1
        try:
            if is_keyed_by(library.read_meta(path), rules):
                continue
            meta, request = library.read_opening(path)
        except CassetteError as error:
            looked.refused.append(error)
            continue
        if has_other_key(request):
            looked.unchanged.append(path)
            continue
        take = take_of_name(library.root, path)
        key = matching.request_key(meta.provider, request, rules)
        looked.found.append(_KeyedFile(path, take, meta, request, key))
    return looked


def _leftovers_of_crash(
    library: Library, group: Sequence[_KeyedFile], there: Sequence[Path], rules: RuleSet
) -> tuple[list[KeyChange], list[_KeyedFile]]:
    """Files whose new ones are there since a crash; and the others."""
    left: list[KeyChange] = []
    others: list[_KeyedFile] = []
    for keyed_file in group:
        meta = _with_new_key(keyed_file, rules)
        twin = next(
            (path for path in there if _is_copy(library, keyed_file.path, path, meta)), None
        )
        if twin is None:
            others.append(keyed_file)
        else:
            left.append(KeyChange(keyed_file.path, twin, meta, target_exists=True))
    return left, others


def _is_copy(library: Library, old: Path, new: Path, meta: Meta) -> bool:
    try:
        return library.read_meta(new) == meta and _lines_after_first(old) == _lines_after_first(new)
    except (CassetteError, OSError):
        return False


def _lines_after_first(path: Path) -> bytes:
    """All but the first line."""
    return path.read_bytes().partition(b"\n")[2]


def _with_new_key(keyed_file: _KeyedFile, rules: RuleSet) -> Meta:
    return replace(keyed_file.meta, key=keyed_file.key, key_rules=KEY_RULES, rules=rules.serialized)


def _number_takes(
    group: Sequence[_KeyedFile], taken: Sequence[int], rules: RuleSet
) -> Iterator[KeyChange]:
    """The files of one new key: with their own numbers where they were takes of one key before."""
    began: dict[str, str] = {}
    for keyed_file in group:
        began[keyed_file.meta.key] = min(
            keyed_file.meta.recorded, began.get(keyed_file.meta.key, keyed_file.meta.recorded)
        )
    # Takes of one old key stay in the order of their numbers, also when a crash comes in between.
    ordered = sorted(
        group, key=lambda it: (began[it.meta.key], it.meta.key, number_sort_key(it.path))
    )
    numbers = [keyed_file.take.number for keyed_file in ordered if keyed_file.take is not None]
    own = (
        not taken
        and len(set(numbers)) == len(numbers)
        and len({keyed_file.meta.key for keyed_file in group}) == 1
    )
    last = max(taken, default=0)
    for position, (keyed_file, number) in enumerate(zip(ordered, numbers, strict=True), 1):
        new = number if own else last + position
        target = keyed_file.path.with_name(f"{keyed_file.key[:16]}-{new}.jsonl")
        yield KeyChange(keyed_file.path, target, _with_new_key(keyed_file, rules))


def _find_collision(
    library: Library, group: Sequence[_KeyedFile], there: Sequence[Path], rules: RuleSet
) -> Iterator[KeyCollision]:
    if not there and len({keyed_file.meta.key for keyed_file in group}) < 2:
        return
    requests = [(keyed_file.meta.provider, keyed_file.request) for keyed_file in group]
    for path in there:
        with suppress(CassetteError):
            meta, request = library.read_opening(path)
            requests.append((meta.provider, request))
    if why := colliding_rules(requests, rules):
        paths = (*there, *(keyed_file.path for keyed_file in group))
        yield KeyCollision(tuple(sorted(paths, key=number_sort_key)), tuple(map(str, why)))


def _make_change(key_change: KeyChange) -> None:
    if not key_change.target_exists:
        _write_change(key_change)
    if key_change.target != key_change.path:
        key_change.path.unlink()
        sync_folder(key_change.path.parent)


def _write_change(key_change: KeyChange) -> None:
    content = encode_line(MetaLine.from_value(key_change.meta)) + _lines_after_first(
        key_change.path
    )
    read_cassette(str(key_change.path), content)
    # Called as a recorder's are, so that `recover` deletes what a crash left over.
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
