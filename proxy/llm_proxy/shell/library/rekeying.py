"""Cassettes named anew, after the rules by which they are matched have changed.

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
from llm_proxy.cassette.schema import MetaLine, dump
from llm_proxy.errors import CassetteError
from llm_proxy.integrity import is_keyed_otherwise
from llm_proxy.matching import KEY_RULES, Rules
from llm_proxy.matching.collisions import causes
from llm_proxy.shell.library.folders import sync_folder
from llm_proxy.shell.library.library import Library, TakeFile, named_take
from llm_proxy.shell.library.library_keys import by_number, is_keyed_by


@dataclass(frozen=True, slots=True)
class Change:
    """A file that gets a new first line, and mostly a new name."""

    path: Path
    target: Path
    """The same, where only its first line changes."""
    meta: Meta
    """As it will be."""
    is_there: bool = False
    """Whether the new one is there already, and the old one is all that is left to delete."""


@dataclass(frozen=True, slots=True)
class Collision:
    """Files of different requests that have one key by the rules."""

    paths: tuple[Path, ...]
    rules: tuple[str, ...]
    """Those without one of which they would have different ones."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to do."""

    looked_at: int
    changes: tuple[Change, ...]
    collisions: tuple[Collision, ...]
    kept: tuple[Path, ...]
    """Files whose requests lost a secret of the operator's: their keys cannot be made again."""
    refused: tuple[CassetteError, ...]


@dataclass(slots=True)
class _Found:
    path: Path
    take: TakeFile | None
    meta: Meta
    request: StoredRequest
    key: str


@dataclass(slots=True)
class _Looked:
    found: list[_Found] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    refused: list[CassetteError] = field(default_factory=list)
    count: int = 0


def plan(library: Library, rules: Rules, paths: Iterable[Path]) -> Plan:
    """What it takes to have all of these keyed by the rules; nothing is changed by asking.

    The library must be refreshed.
    """
    looked = _look(library, rules, paths)
    groups: dict[tuple[str, str], list[_Found]] = {}
    changes: list[Change] = []
    for it in looked.found:
        if it.take is None or it.take.key16 == it.key[:16]:  # a name of its own, or the right one
            changes.append(Change(it.path, it.path, _keyed(it, rules)))
        else:
            groups.setdefault((it.take.session, it.key), []).append(it)
    collisions: list[Collision] = []
    for (session, key), group in groups.items():
        there = [library.take(session, key, it).path for it in library.numbers(session, key)]
        left, moving = _left_over(library, group, there, rules)
        changes += [*left, *_numbered(moving, library.numbers(session, key), rules)]
        collisions += _collision(library, moving, there, rules)
    return Plan(
        looked.count, tuple(changes), tuple(collisions), tuple(looked.kept), tuple(looked.refused)
    )


def carry_out(changes: Sequence[Change]) -> Iterator[Change]:
    """Change the files, each after it was done.

    Raises `CassetteError` for one that is not what it was, and `OSError` where none can be written.
    """
    for it in changes:
        _change(it)
        yield it


def _look(library: Library, rules: Rules, paths: Iterable[Path]) -> _Looked:
    looked = _Looked()
    for path in paths:
        looked.count += 1
        try:
            if is_keyed_by(library.meta(path), rules):
                continue
            meta, request = library.opening(path)
        except CassetteError as error:
            looked.refused.append(error)
            continue
        if is_keyed_otherwise(request):
            looked.kept.append(path)
            continue
        take = named_take(library.root, path)
        key = matching.key(meta.provider, request, rules)
        looked.found.append(_Found(path, take, meta, request, key))
    return looked


def _left_over(
    library: Library, group: Sequence[_Found], there: Sequence[Path], rules: Rules
) -> tuple[list[Change], list[_Found]]:
    """Files whose new ones are there since a crash; and the others."""
    left: list[Change] = []
    others: list[_Found] = []
    for it in group:
        meta = _keyed(it, rules)
        twin = next((path for path in there if _is_twin(library, it.path, path, meta)), None)
        if twin is None:
            others.append(it)
        else:
            left.append(Change(it.path, twin, meta, is_there=True))
    return left, others


def _is_twin(library: Library, old: Path, new: Path, meta: Meta) -> bool:
    """Whether a file is what another will become."""
    try:
        return library.meta(new) == meta and _rest(old) == _rest(new)
    except (CassetteError, OSError):
        return False


def _rest(path: Path) -> bytes:
    """All but the first line."""
    return path.read_bytes().partition(b"\n")[2]


def _keyed(it: _Found, rules: Rules) -> Meta:
    return replace(it.meta, key=it.key, key_rules=KEY_RULES, rules=rules.spelled)


def _numbered(group: Sequence[_Found], taken: Sequence[int], rules: Rules) -> Iterator[Change]:
    """The files of one new key: with their own numbers where they were takes of one key before."""
    began: dict[str, str] = {}
    for it in group:
        began[it.meta.key] = min(it.meta.recorded, began.get(it.meta.key, it.meta.recorded))
    # Takes of one old key stay in the order of their numbers, also when a crash comes in between.
    ordered = sorted(group, key=lambda it: (began[it.meta.key], it.meta.key, by_number(it.path)))
    numbers = [it.take.number for it in ordered if it.take is not None]
    own = (
        not taken and len(set(numbers)) == len(numbers) and len({it.meta.key for it in group}) == 1
    )
    last = max(taken, default=0)
    for position, (it, number) in enumerate(zip(ordered, numbers, strict=True), 1):
        new = number if own else last + position
        target = it.path.with_name(f"{it.key[:16]}-{new}.jsonl")
        yield Change(it.path, target, _keyed(it, rules))


def _collision(
    library: Library, group: Sequence[_Found], there: Sequence[Path], rules: Rules
) -> Iterator[Collision]:
    if not there and len({it.meta.key for it in group}) < 2:
        return
    requests = [(it.meta.provider, it.request) for it in group]
    for path in there:
        with suppress(CassetteError):
            meta, request = library.opening(path)
            requests.append((meta.provider, request))
    if why := causes(requests, rules):
        paths = (*there, *(it.path for it in group))
        yield Collision(tuple(sorted(paths, key=by_number)), tuple(map(str, why)))


def _change(it: Change) -> None:
    if not it.is_there:
        _write(it)
    if it.target != it.path:
        it.path.unlink()
        sync_folder(it.path.parent)


def _write(it: Change) -> None:
    content = dump(MetaLine.of(it.meta)) + _rest(it.path)
    read_cassette(str(it.path), content)
    # Called as a recorder's are, so that `recover` deletes what a crash left over.
    temporary = it.target.parent / f".{os.getpid()}-0.{token_hex(4)}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(it.path, temporary)
        if it.target != it.path and it.target.exists():
            raise CassetteError(str(it.target), None, "another process has just put it there")
        temporary.replace(it.target)
        sync_folder(it.target.parent)
    finally:
        temporary.unlink(missing_ok=True)
