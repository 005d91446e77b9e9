"""Cassettes that belong together."""

from __future__ import annotations

from collections.abc import Iterable

from llm_proxy.cli.library.rows import Row
from llm_proxy.shell.library.library import Library, named_take


def duplicates(rows: Iterable[Row]) -> list[list[Row]]:
    """The cassettes of the same request, whatever their session, with byte for byte one answer."""
    found: dict[tuple[str, int, str, str], list[Row]] = {}
    for row in rows:
        answer = (row.meta.key, row.status, row.end.ending.value, row.end.sha256)
        found.setdefault(answer, []).append(row)
    return [same for same in found.values() if len(same) > 1]


def takes_together(library: Library, rows: Iterable[Row]) -> list[list[Row]]:
    """The takes of each key and session; a file with a name of another kind is one of its own."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        take = named_take(library.root, row.path)
        name = ("", row.name) if take is None else (take.session, take.key16)
        found.setdefault(name, []).append(row)
    return list(found.values())
