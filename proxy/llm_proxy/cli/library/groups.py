"""Groups cassettes: duplicates, and the takes of one key."""

from __future__ import annotations

from collections.abc import Iterable

from llm_proxy.cli.library.rows import CassetteRow
from llm_proxy.shell.library.library import Library, parse_take_path


def duplicate_groups(rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """Groups of cassettes of one request, in any session, with byte for byte the same response."""
    rows_by_response: dict[tuple[str, int, str, str], list[CassetteRow]] = {}
    for row in rows:
        response_key = (
            row.meta.key,
            row.http_status,
            row.response_end.ending.value,
            row.response_end.sha256,
        )
        rows_by_response.setdefault(response_key, []).append(row)
    return [same for same in rows_by_response.values() if len(same) > 1]


def group_takes(library: Library, rows: Iterable[CassetteRow]) -> list[list[CassetteRow]]:
    """The takes of each session and key; a file without a take number is a group of its own."""
    rows_by_key: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        take = parse_take_path(library.root, row.path)
        group_key = ("", row.relative_path) if take is None else (take.session, take.key_prefix)
        rows_by_key.setdefault(group_key, []).append(row)
    return list(rows_by_key.values())
