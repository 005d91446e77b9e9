"""Groups cassettes: duplicates, and the takes of one key."""

from __future__ import annotations

from collections.abc import Iterable

from llm_proxy.cli.library.rows import CassetteRow
from llm_proxy.shell.library.library import Library, take_of_name


def duplicate_groups(rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """The cassettes of the same request, whatever their session, with byte for byte one answer."""
    found: dict[tuple[str, int, str, str], list[CassetteRow]] = {}
    for row in rows:
        answer = (row.meta.key, row.status, row.end.ending.value, row.end.sha256)
        found.setdefault(answer, []).append(row)
    return [same for same in found.values() if len(same) > 1]


def group_takes(library: Library, rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """The takes of each key and session; a file with a name of another kind is one of its own."""
    found: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        take = take_of_name(library.root, row.path)
        name = ("", row.name) if take is None else (take.session, take.key_prefix)
        found.setdefault(name, []).append(row)
    return list(found.values())
