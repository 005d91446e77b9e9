"""Finds takes whose file names do not contain their key by this run's rules.

Files are not changed.  For those keyed by other rules, the key is computed from the stored
request.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, printable_excerpt
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.matching.keys import colliding_rules
from llm_proxy.shell.library.library import Library

log: Final = logging.getLogger("llm_proxy")

_MAX_SHOWN_FILES: Final = 3
"""Maximum number of files in a warning."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in a warning."""


def is_keyed_by(meta: CassetteMeta, rules: RuleSet) -> bool:
    """Whether a file was keyed by these rules, so that the key in its name is valid."""
    return meta.key_rules_version == KEY_RULES_VERSION and meta.match_rules == rules.rule_texts


@dataclass(frozen=True, slots=True)
class _RekeyedFile:
    """A file with the key that was computed from its stored request."""

    path: Path
    meta: CassetteMeta
    key_by_run_rules: str


class LibraryKeys:
    """Computes the keys of a library's files by the rules of a run.  Thread-safe."""

    def __init__(
        self, library: Library, rules: RuleSet, other_rules_paths: Callable[[], Collection[str]]
    ) -> None:
        """`other_rules_paths` returns the files that were keyed by other rules, strays included."""
        self._other_rules_paths = other_rules_paths
        self._library = library
        self._rules = rules
        self._rekeyed_by_session: dict[str, tuple[_RekeyedFile, ...]] = {}
        """For each session read so far, its files that were keyed by other rules."""
        self._rekeyed_strays: tuple[_RekeyedFile, ...] | None = None
        self._lock = threading.Lock()
        """Held while reading, so that files are read only once."""

    def key_by_run_rules(self, meta: CassetteMeta, request: StoredRequest) -> str:
        """The key of a file's request by the rules of this run."""
        if is_keyed_by(meta, self._rules):
            return meta.key
        return matching.request_key(meta.provider, request, self._rules)

    def find_takes_by_content(
        self, session: str, key: str, *, include_other_rules: bool
    ) -> list[Path]:
        """The files of a session and key whose names do not contain that key, in order.

        Strays are always searched.  `include_other_rules` also reads the session's files that were
        keyed by other rules, which is slow, and needed only if no name has the key.
        """
        rekeyed_files: list[_RekeyedFile] = []
        if self._library.has_strays:
            rekeyed_files += [
                keyed_stray
                for keyed_stray in self._load_rekeyed_strays()
                if keyed_stray.meta.session == session
            ]
        if include_other_rules:
            rekeyed_files += self._load_rekeyed_session(session)
        return sorted(
            (
                rekeyed_file.path
                for rekeyed_file in rekeyed_files
                if rekeyed_file.key_by_run_rules == key
            ),
            key=natural_sort_key,
        )

    def _load_rekeyed_strays(self) -> tuple[_RekeyedFile, ...]:
        with self._lock:
            if self._rekeyed_strays is None:
                self._rekeyed_strays = self._recompute_keys(self._library.stray_paths())
            return self._rekeyed_strays

    def _load_rekeyed_session(self, session: str) -> tuple[_RekeyedFile, ...]:
        if (
            cached := self._rekeyed_by_session.get(session)
        ) is not None:  # without waiting for the lock
            return cached
        with self._lock:
            if session not in self._rekeyed_by_session:
                rekeyed_files = self._recompute_keys(self._files_keyed_differently(session))
                self._warn_about_collisions(rekeyed_files)
                self._rekeyed_by_session[session] = rekeyed_files
            return self._rekeyed_by_session[session]

    def _files_keyed_differently(self, session: str) -> list[Path]:
        """The files of a session that were keyed by other rules."""
        other_rules_paths = self._other_rules_paths()
        return (
            [
                path
                for path in self._library.take_paths_in_session(session)
                if str(path) in other_rules_paths
            ]
            if other_rules_paths
            else []
        )

    def _recompute_keys(self, paths: Iterable[Path]) -> tuple[_RekeyedFile, ...]:
        """These files with their keys by this run's rules; unreadable ones are skipped."""
        rekeyed_files: list[_RekeyedFile] = []
        for path in paths:
            try:
                meta, request = self._library.read_opening(path)
            except CassetteError:
                continue
            rekeyed_files.append(_RekeyedFile(path, meta, self.key_by_run_rules(meta, request)))
        return tuple(rekeyed_files)

    def _warn_about_collisions(self, rekeyed_files: Sequence[_RekeyedFile]) -> None:
        """Log which files had different keys, but have the same key by the rules of this run."""
        files_by_key: dict[str, list[_RekeyedFile]] = {}
        for rekeyed_file in rekeyed_files:
            files_by_key.setdefault(rekeyed_file.key_by_run_rules, []).append(rekeyed_file)
        for group in files_by_key.values():
            if len({rekeyed_file.meta.key for rekeyed_file in group}) > 1:
                openings = [self._library.read_opening(rekeyed_file.path) for rekeyed_file in group]
                rules = colliding_rules(
                    [(meta.provider, key_document) for meta, key_document in openings], self._rules
                )
                if rules:
                    log.warning(
                        "%s",
                        collision_message(
                            [rekeyed_file.path for rekeyed_file in group], map(str, rules)
                        ),
                    )


def collision_message(paths: Sequence[Path], rules: Iterable[str]) -> str:
    """A message about files of different requests that `rules` give the same key."""
    names = ", ".join(
        printable_excerpt(str(path), _MAX_PATH_CHARS) for path in paths[:_MAX_SHOWN_FILES]
    )
    remainder = (
        f", and {len(paths) - _MAX_SHOWN_FILES} more" if len(paths) > _MAX_SHOWN_FILES else ""
    )
    return (
        f"{count_with_noun(len(paths), 'cassette')} of different requests have one key by "
        f"{', '.join(rules)}, and answer one after the other: {names}{remainder}"
    )


def natural_sort_key(path: Path) -> list[str | int]:
    """A sort key that puts take 10 after take 9: alternating text and numbers."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]
