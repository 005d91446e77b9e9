"""Takes that their names do not find: keyed by other rules than this run's, or named otherwise.

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
from llm_proxy.display import counted
from llm_proxy.errors import CassetteError, printable
from llm_proxy.matching import KEY_RULES, Rules
from llm_proxy.matching.collisions import causes
from llm_proxy.shell.library.library import Library

log: Final = logging.getLogger("llm_proxy")

_SHOWN: Final = 3
"""Files that a warning names."""
_LONGEST: Final = 250
"""Characters of a path in a warning."""


def is_keyed_by(meta: Meta, rules: Rules) -> bool:
    """Whether a file was keyed by these rules, so that its name can be trusted."""
    return meta.key_rules == KEY_RULES and meta.rules == rules.spelled


@dataclass(frozen=True, slots=True)
class _Anew:
    """A file that is found by its content."""

    path: Path
    meta: Meta
    key: str


class Keying:
    """Keys the files of a library by the rules of a run.  Used by several threads at once."""

    def __init__(
        self, library: Library, rules: Rules, otherwise: Callable[[], Collection[str]]
    ) -> None:
        """`otherwise` gives the files that were keyed by other rules, named well or not."""
        self._otherwise = otherwise
        self._library = library
        self._rules = rules
        self._sessions: dict[str, tuple[_Anew, ...]] = {}
        """What the folders of sessions hold that was keyed by other rules."""
        self._strays: tuple[_Anew, ...] | None = None
        self._turn = threading.Lock()
        """Of who reads: what is read once takes long enough."""

    def key(self, meta: Meta, request: StoredRequest) -> str:
        """The key of a file."""
        if is_keyed_by(meta, self._rules):
            return meta.key
        return matching.key(meta.provider, request, self._rules)

    def unnamed(self, session: str, key: str, *, everywhere: bool) -> list[Path]:
        """The files of a session and key whose names do not say so.

        Those with names of another kind are always looked at; `everywhere` looks at every file of
        the session for those of other rules, which is worth it only when names find nothing.
        """
        found: list[_Anew] = []
        if self._library.has_strays:
            found += [it for it in self._all_strays() if it.meta.session == session]
        if everywhere:
            found += self._of_session(session)
        return sorted((it.path for it in found if it.key == key), key=by_number)

    def _all_strays(self) -> tuple[_Anew, ...]:
        with self._turn:
            if self._strays is None:
                self._strays = self._read(self._library.strays())
            return self._strays

    def _of_session(self, session: str) -> tuple[_Anew, ...]:
        """What the folder of a session holds that was keyed by other rules."""
        if (known := self._sessions.get(session)) is not None:  # nobody need wait for another's
            return known
        with self._turn:
            if session not in self._sessions:
                found = self._read(self._of_other_rules(session))
                self._warn(found)
                self._sessions[session] = found
            return self._sessions[session]

    def _of_other_rules(self, session: str) -> list[Path]:
        """The files in the folder of a session whose names say keys of other rules."""
        known = self._otherwise()
        return [it for it in self._library.named(session) if str(it) in known] if known else []

    def _read(self, paths: Iterable[Path]) -> tuple[_Anew, ...]:
        """These files, keyed; what cannot be read is left out."""
        found: list[_Anew] = []
        for path in paths:
            try:
                meta, request = self._library.opening(path)
            except CassetteError:
                continue
            found.append(_Anew(path, meta, self.key(meta, request)))
        return tuple(found)

    def _warn(self, found: Sequence[_Anew]) -> None:
        """Say which files had different keys, and have one by the rules of this run."""
        same: dict[str, list[_Anew]] = {}
        for it in found:
            same.setdefault(it.key, []).append(it)
        for group in same.values():
            if len({it.meta.key for it in group}) > 1:
                openings = [self._library.opening(it.path) for it in group]
                why = causes([(meta.provider, it) for meta, it in openings], self._rules)
                if why:
                    log.warning("%s", collision([it.path for it in group], map(str, why)))


def collision(paths: Sequence[Path], rules: Iterable[str]) -> str:
    """What is said of files that rules give one key."""
    names = ", ".join(printable(str(path), _LONGEST) for path in paths[:_SHOWN])
    more = f", and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (
        f"{counted(len(paths), 'cassette')} of different requests have one key by "
        f"{', '.join(rules)}, and answer one after the other: {names}{more}"
    )


def by_number(path: Path) -> list[str | int]:
    """A sort key that puts take 10 behind take 9: text and numbers in turn."""
    parts = re.split(r"(\d+)", str(path))
    return [int(part) if odd % 2 else part for odd, part in enumerate(parts)]
