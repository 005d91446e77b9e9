"""Finds takes whose file names do not give their key by this run's rules.

Files stay as they are.  Those of other rules are keyed anew from the requests that they store.
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
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.display import count_noun
from llm_proxy.errors import CassetteError, printable
from llm_proxy.matching import KEY_RULES, RuleSet
from llm_proxy.matching.collisions import colliding_rules
from llm_proxy.shell.library.library import Library

log: Final = logging.getLogger("llm_proxy")

_SHOWN: Final = 3
"""Files that a warning names."""
_LONGEST: Final = 250
"""Characters of a path in a warning."""


def is_keyed_by(meta: Meta, rules: RuleSet) -> bool:
    """Whether a file was keyed by these rules, so that its name can be trusted."""
    return meta.key_rules == KEY_RULES and meta.rules == rules.serialized


@dataclass(frozen=True, slots=True)
class _RekeyedFile:
    """A file that is found by its content."""

    path: Path
    meta: Meta
    key_of: str


class LibraryKeys:
    """Keys the files of a library by the rules of a run.  Used by several threads at once."""

    def __init__(
        self, library: Library, rules: RuleSet, otherwise: Callable[[], Collection[str]]
    ) -> None:
        """`otherwise` gives the files that were keyed by other rules, named well or not."""
        self._other_rules_by_session = otherwise
        self._library = library
        self._rules = rules
        self._sessions: dict[str, tuple[_RekeyedFile, ...]] = {}
        """What the folders of sessions hold that was keyed by other rules."""
        self._strays: tuple[_RekeyedFile, ...] | None = None
        self._lock = threading.Lock()
        """Of who reads: what is read once takes long enough."""

    def key_of(self, meta: Meta, request: StoredRequest) -> str:
        """The key of a file."""
        if is_keyed_by(meta, self._rules):
            return meta.key
        return matching.request_key(meta.provider, request, self._rules)

    def unnamed_takes(self, session: str, key: str, *, everywhere: bool) -> list[Path]:
        """The files of a session and key whose names do not say so.

        Those with names of another kind are always looked at; `everywhere` looks at every file of
        the session for those of other rules, which is worth it only when names find nothing.
        """
        found: list[_RekeyedFile] = []
        if self._library.has_strays:
            found += [
                keyed_stray
                for keyed_stray in self._keyed_strays()
                if keyed_stray.meta.session == session
            ]
        if everywhere:
            found += self._other_rules_in_session(session)
        return sorted(
            (rekeyed_file.path for rekeyed_file in found if rekeyed_file.key_of == key),
            key=number_sort_key,
        )

    def _keyed_strays(self) -> tuple[_RekeyedFile, ...]:
        with self._lock:
            if self._strays is None:
                self._strays = self._key_files(self._library.strays())
            return self._strays

    def _other_rules_in_session(self, session: str) -> tuple[_RekeyedFile, ...]:
        if (known := self._sessions.get(session)) is not None:  # nobody need wait for another's
            return known
        with self._lock:
            if session not in self._sessions:
                found = self._key_files(self._files_of_other_rules(session))
                self._warn_of_collisions(found)
                self._sessions[session] = found
            return self._sessions[session]

    def _files_of_other_rules(self, session: str) -> list[Path]:
        """The files in the folder of a session whose names say keys of other rules."""
        known = self._other_rules_by_session()
        return (
            [path for path in self._library.takes_in_folder(session) if str(path) in known]
            if known
            else []
        )

    def _key_files(self, paths: Iterable[Path]) -> tuple[_RekeyedFile, ...]:
        """These files, keyed; what cannot be read is left out."""
        found: list[_RekeyedFile] = []
        for path in paths:
            try:
                meta, request = self._library.read_opening(path)
            except CassetteError:
                continue
            found.append(_RekeyedFile(path, meta, self.key_of(meta, request)))
        return tuple(found)

    def _warn_of_collisions(self, found: Sequence[_RekeyedFile]) -> None:
        """Say which files had different keys, and have one by the rules of this run."""
        same: dict[str, list[_RekeyedFile]] = {}
        for rekeyed_file in found:
            same.setdefault(rekeyed_file.key_of, []).append(rekeyed_file)
        for group in same.values():
            if len({rekeyed_file.meta.key for rekeyed_file in group}) > 1:
                openings = [self._library.read_opening(rekeyed_file.path) for rekeyed_file in group]
                why = colliding_rules([(meta.provider, it) for meta, it in openings], self._rules)
                if why:
                    log.warning(
                        "%s",
                        collision_message(
                            [rekeyed_file.path for rekeyed_file in group], map(str, why)
                        ),
                    )


def collision_message(paths: Sequence[Path], rules: Iterable[str]) -> str:
    """What is said of files that rules give one key."""
    names = ", ".join(printable(str(path), _LONGEST) for path in paths[:_SHOWN])
    more = f", and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (
        f"{count_noun(len(paths), 'cassette')} of different requests have one key by "
        f"{', '.join(rules)}, and answer one after the other: {names}{more}"
    )


def number_sort_key(path: Path) -> list[str | int]:
    """A sort key that puts take 10 behind take 9: text and numbers in turn."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if odd % 2 else part for odd, part in enumerate(parts)]
