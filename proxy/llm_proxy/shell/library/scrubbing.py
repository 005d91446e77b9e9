"""Plans which cassettes of a library are redacted anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from llm_proxy.cassette import CassetteMeta, encode_cassette
from llm_proxy.errors import CassetteError
from llm_proxy.scrubbing import Scrubbing
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.rekeying import (
    JoinedTakes,
    KeyChange,
    RekeyedFile,
    plan_changes,
    with_first_line,
)


@dataclass(frozen=True, slots=True)
class ScrubPlan:
    """The changes of a library's cassettes, and the cassettes that stay as they are."""

    changes: tuple[KeyChange, ...]
    counts: dict[Path, Counter[str]]
    """How many secrets of each rule are replaced in each file."""
    joined: tuple[JoinedTakes, ...]
    """Takes of one request by now, whose requests differed in a secret."""
    errors: tuple[CassetteError, ...]


def plan_scrub(library: Library, scrubbing: Scrubbing, paths: Iterable[Path]) -> ScrubPlan:
    """The changes after which these files have no secrets; nothing is written."""
    files: list[RekeyedFile] = []
    counts: dict[Path, Counter[str]] = {}
    errors: list[CassetteError] = []
    for path in paths:
        try:
            cassette = library.load_cassette(path)
            scrubbed = scrubbing.scrub(cassette)
        except CassetteError as error:
            errors.append(error)
            continue
        if scrubbed is cassette:
            continue
        files.append(RekeyedFile(path, scrubbed.request, cassette.meta, scrubbed.meta))
        counts[path] = Counter(each.rule for each in scrubbing.scan.scan_cassette(cassette))
    if any(file.old_meta.key != file.new_meta.key for file in files):
        library.refresh()  # the new names need the takes that are there
    changes, joined = plan_changes(
        library, files, lambda path, meta: scrubbed_content(scrubbing, path, meta)
    )
    by_path = {file.path: file for file in files}
    changes = [_in_its_folder(library, change, by_path[change.path]) for change in changes]
    return ScrubPlan(tuple(changes), counts, tuple(joined), tuple(errors))


def _in_its_folder(library: Library, change: KeyChange, file: RekeyedFile) -> KeyChange:
    """The change with the folder of the new model, if the file is in that of the old one."""
    old, new = (
        library.path_for_take(meta, file.request, 1).parent
        for meta in (file.old_meta, file.new_meta)
    )
    if change.target_exists or old == new or change.target.parent != old:
        return change
    return replace(change, target=new / change.target.name)


def scrubbed_content(scrubbing: Scrubbing, path: Path, meta: CassetteMeta) -> bytes:
    """The content of a file without secrets, with this first line.  Raises `CassetteError`."""
    cassette = Library(path.parent).load_cassette(path)
    scrubbed = scrubbing.scrub(cassette)
    is_same = scrubbed.request is cassette.request and scrubbed.reads is cassette.reads
    if is_same and scrubbed.response_head is cassette.response_head:
        return with_first_line(path, meta)
    return encode_cassette(replace(scrubbed, meta=meta))
