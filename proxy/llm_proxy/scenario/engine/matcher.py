"""What a scenario's `match` asks of a request, compiled once.

Regular expressions are those of `regex`, which can be given a time limit, and search without the
GIL.  Its limit counts the CPU time of the whole process, `Effort` that of the thread alone: where
others use the processor meanwhile, a search that was stopped begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, cast

import regex
from msgspec import UNSET

from llm_proxy import json_paths
from llm_proxy.dialects import lenient_json
from llm_proxy.errors import TooManySteps, TooSlow, printable
from llm_proxy.scenario.documents.document import Condition, Match
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.turns import Json

_SHOWN: Final = 80
"""Characters of a value in a message."""
_SEARCHED: Final = 100_000
"""Characters of a text that an expression is searched in."""
_MOST: Final = 0.05
"""CPU time of all expressions that are searched for one request, in s."""
_NAMES: Final = ("model", "path", "provider", "dialect", "session")


class Effort:
    """What the patterns of all scenarios may still cost for one request."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives the CPU time of this thread, in s."""
        self._steps = json_paths.Steps()
        self._values: dict[str, list[Json]] = {}
        self._clock = clock
        self._left = _MOST

    def values(self, spelled: str, path: json_paths.Path, body: Json) -> list[Json]:
        """What a path, spelled so, finds in the body of the request.  Raises `TooManySteps`."""
        if spelled not in self._values:
            nodes = json_paths.nodes(path, body, self._steps)
            self._values[spelled] = [cast("Json", node.obj) for node in nodes]
        return self._values[spelled]

    def search(self, pattern: regex.Pattern[str], text: str) -> bool:
        """Whether the pattern is found.  Raises `TimeoutError`."""
        while self._left > 0:
            before = self._clock()
            try:
                return pattern.search(text, concurrent=True, timeout=self._left) is not None
            except TimeoutError:
                continue
            finally:
                self._left -= self._clock() - before
        raise TimeoutError


@dataclass(frozen=True, slots=True)
class Matcher:
    """A match, and its expressions and paths as they are searched for."""

    match: Match
    expressions: Mapping[str, regex.Pattern[str]]
    paths: Mapping[str, json_paths.Path]

    @classmethod
    def of(cls, match: Match) -> Matcher:
        """The matcher of a match whose patterns are valid."""
        texts = (match.user, match.system, *(it.matches for it in match.json.values()))
        return cls(
            match,
            {it: regex.compile(it) for it in texts if it},
            {it: json_paths.compiled(it) for it in match.json},
        )

    @property
    def searches(self) -> bool:
        """Whether it has patterns that may take their time."""
        return bool(self.expressions or self.paths)

    def differences(self, cue: Cue, effort: Effort) -> Iterator[str]:
        """What of it does not hold, each in a few words; nothing where all of it does.

        Raises `TooSlow`, which names the pattern.
        """
        match, conversation = self.match, cue.conversation
        for name in _NAMES:
            pattern, value = getattr(match, name), getattr(cue, name)
            if pattern and not fnmatchcase(value, pattern):
                yield f"{name} is {printable(value, _SHOWN)!r}, not {pattern}"
        said = ((match.user, conversation.last_user_text), (match.system, conversation.system))
        for name, (pattern, text) in zip(("user", "system"), said, strict=True):
            if pattern and not self._is_in(f"match.{name}", pattern, text, effort):
                yield f"{name}: /{pattern}/ is not in {printable(text, _SHOWN)!r}"
        if match.tool_results is not UNSET and match.tool_results != bool(conversation.results):
            came = bool(conversation.results)
            yield "results of tools came last" if came else "no result of a tool came"
        if match.turn is not UNSET and match.turn != conversation.turn:
            yield f"this is turn {conversation.turn}, not {match.turn}"
        for path, condition in match.json.items():
            yield from self._unmet(path, condition, self._found(path, cue.body, effort), effort)

    def _found(self, path: str, body: Json, effort: Effort) -> list[Json]:
        """The values at a path; none in a body that is too deep for it."""
        try:
            return effort.values(path, self.paths[path], body or {})
        except TooManySteps as error:
            raise TooSlow(f"match.json: {printable(path, _SHOWN)} {error}") from None

    def _is_in(self, where: str, pattern: str, text: str, effort: Effort) -> bool:
        searched = text[:_SEARCHED]
        try:
            return effort.search(self.expressions[pattern], searched)
        except TimeoutError:
            raise TooSlow(
                f"{where}: the patterns tried on this request took more than {_MOST * 1000:g} ms, "
                f"the last /{printable(pattern, _SHOWN)}/ on {len(searched):,} characters"
            ) from None

    def _unmet(
        self, path: str, condition: Condition, found: list[Json], effort: Effort
    ) -> Iterator[str]:
        """What of a condition no value that was found meets."""
        if condition.exists is not UNSET and condition.exists != bool(found):
            yield f"{path} is there" if found else f"{path} is not there"
            return
        wanted = condition.equals
        if wanted is not UNSET and not any(lenient_json.alike(it, wanted) for it in found):
            yield f"{path} is {_shown(found)}, not {lenient_json.compact(wanted)}"
        pattern = condition.matches
        if pattern and not any(
            self._is_in(f"match.json[{path}]", pattern, lenient_json.words(it), effort)
            for it in found
        ):
            yield f"{path}: /{pattern}/ is not in {_shown(found)}"


def _shown(found: list[Json]) -> str:
    return printable(", ".join(map(lenient_json.compact, found)), _SHOWN) if found else "not there"
