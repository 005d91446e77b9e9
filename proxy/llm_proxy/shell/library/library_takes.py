"""The takes of a library, as modes ask for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from llm_proxy import misses
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import CassetteError, Miss
from llm_proxy.integrity import Place, complaints, is_keyed_otherwise
from llm_proxy.matching import PLAIN, Rules
from llm_proxy.misses import Candidate
from llm_proxy.misses.nearest import answers_for, ranked
from llm_proxy.misses.report import KEPT, Limits
from llm_proxy.outcome import outcome
from llm_proxy.ports import Alike
from llm_proxy.routing import Call
from llm_proxy.shell.library.indexer import Indexing
from llm_proxy.shell.library.library import Library, named_take, session_of
from llm_proxy.shell.library.library_keys import Keying
from llm_proxy.take_numbers import sequence

T = TypeVar("T")

_REMEMBERED: Final = 200
"""Misses that are remembered: clients ask again for what they did not get."""


@dataclass(frozen=True, slots=True)
class TakeOnDisk:
    """One take, read when it is played."""

    path: Path
    library: Library

    @property
    def file(self) -> str:
        """Its file."""
        return str(self.path)

    async def cassette(self) -> Cassette:
        """What it holds, as it was when it was first read.

        Raises `CassetteError` when it cannot be trusted.
        """
        kept = self.library.cached(self.path)
        return kept if kept is not None else await _aside(lambda: self.library.load(self.path))


class TakesOnDisk:
    """What was in a library when the run started.

    All takes of a key are read when it is first asked for, to know which are playable.
    """

    def __init__(self, library: Library, *, allow_partial: bool, rules: Rules = PLAIN) -> None:
        """`library` must be refreshed, and not be added to by a recorder."""
        self._library = library
        self._allow_partial = allow_partial
        self._playable: dict[tuple[str, str], tuple[TakeOnDisk, ...]] = {}
        self._missed: OrderedDict[tuple[str, str], Miss] = OrderedDict()
        self._alike: dict[tuple[str, str], Alike | None] = {}
        self.indexing = Indexing(library, rules)
        self._keying = Keying(library, rules, lambda: self.indexing.complete().otherwise)

    async def of(self, session: str, key: str) -> Sequence[TakeOnDisk]:
        """The playable takes of a session for a key, in order.

        Raises `CassetteError` when one of them cannot be trusted.
        """
        takes = self._playable.get((session, key))
        if takes is None:
            takes = await _aside(lambda: self.find(session, key))
            self._playable[session, key] = takes
        return takes

    def find(self, session: str, key: str) -> tuple[TakeOnDisk, ...]:
        """The same, found now, and not remembered."""
        return tuple(TakeOnDisk(path, self._library) for path in self._find(session, key))

    async def miss(self, call: Call, ordinal: int) -> Miss:
        """Why the request of that ordinal is not answered."""
        takes = self._playable.get((call.session, call.key), ())
        if takes:
            return misses.used_up(call, len(takes), ordinal)
        asked = call.session, call.key
        miss = self._missed.pop(asked, None)
        if miss is None:
            miss = await _aside(lambda: self.explained(call))
        self._missed[asked] = miss
        if len(self._missed) > _REMEMBERED:
            self._missed.popitem(last=False)
        return miss

    async def nearest(self, call: Call, share: float) -> Alike | None:
        """The takes of the nearest cassette that is at least that alike; None where none is."""
        asked = call.session, call.key
        if asked not in self._alike:
            self._alike[asked] = await _aside(lambda: self.alike(call, share))
        return self._alike[asked]

    def _find(self, session: str, key: str) -> tuple[Path, ...]:
        """What is playable, session by session; the names that say nothing come first."""
        own = self._playable_of(session, key)
        default = {} if session == DEFAULT_SESSION else self._playable_of(DEFAULT_SESSION, key)
        return tuple((own if mine else default)[number] for mine, number in sequence(own, default))

    def _playable_of(self, session: str, key: str) -> dict[int, Path]:
        """The playable takes of one session by number; strays come in front of the named ones."""
        numbers = self._library.numbers(session, key)
        named = [self._library.take(session, key, number).path for number in numbers]
        anew = self._keying.unnamed(session, key, everywhere=not named)
        strays = [path for path in anew if path not in named]
        places = self._places(strays)
        if numbers:
            places = [*range(1, len(strays) + 1), *(len(strays) + number for number in numbers)]
        playable = set(self._only_playable([*strays, *named], key))
        placed = zip(places, [*strays, *named], strict=True)
        return {number: path for number, path in placed if path in playable}

    def _places(self, strays: Sequence[Path]) -> Sequence[int]:
        """The numbers that names of other rules say, where each says another.

        A session's own takes so come behind those of the default session that they continue.
        """
        takes = [named_take(self._library.root, path) for path in strays]
        numbers = [it.number for it in takes if it is not None]
        if len(set(numbers)) == len(strays):
            return numbers
        first = min(numbers) if len(numbers) == len(strays) else 1
        return range(first, first + len(strays))

    def _only_playable(self, paths: Sequence[Path], key: str) -> tuple[Path, ...]:
        playable: list[Path] = []
        for path in paths:
            cassette = self._library.load(path)
            if self._keying.key(cassette.meta, cassette.request) != key:
                continue
            if self._allow_partial or outcome(cassette).complete:
                playable.append(path)
        return tuple(playable)

    def _candidates(self, call: Call) -> Iterator[Candidate]:
        """The cassettes that a request could have meant, in the order of the library."""
        known = self.indexing.complete()
        for number in known.index.near(call.stored):
            path = Path(known.paths[number])
            try:
                yield Candidate(str(path), *self._library.opening(path))
            except CassetteError:
                continue

    def sessions(self, key: str) -> list[str]:
        """The sessions that have takes of their own for a key, playable or not."""
        return [
            session
            for session in self._library.sessions()
            if self._library.numbers(session, key)
            or self._keying.unnamed(session, key, everywhere=True)
        ]

    def likeness(self, call: Call) -> float:
        """How alike the nearest cassette is, from 0 to 1; 0 where none is near."""
        near, _ = ranked(call, self._candidates(call))
        return near[0].nearness if near else 0.0

    def alike(self, call: Call, share: float) -> Alike | None:
        """The takes of the nearest cassette that may answer and is at least that alike."""
        near, _ = ranked(call, self._candidates(call))
        for it in near:
            meta = it.candidate.meta
            if it.nearness < share:
                return None
            if meta.session in {call.session, DEFAULT_SESSION} and answers_for(it, call, share):
                takes = self.find(call.session, self._keying.key(meta, it.candidate.request))
                if takes:
                    return Alike(takes, it.nearness)
        return None

    def explained(self, call: Call, limits: Limits = KEPT) -> Miss:
        """Why no cassette answers a request."""
        looked_at = self.indexing.complete().index.size
        found = misses.nearest(call, self._candidates(call), looked_at)
        why = ""
        if found is not None and found.near is not None and not found.near.differences:
            why = self._unplayable(Path(found.near.candidate.file))
        return misses.no_cassette(call, found, str(self._library.root), why, limits)

    def _unplayable(self, path: Path) -> str:
        """Why a cassette is not played whose request is the one that was asked."""
        try:
            cassette = self._library.load(path)
        except CassetteError as error:
            return f"cannot be trusted: {error}. Delete it, or record it again"
        take, root = named_take(self._library.root, path), self._library.root
        place = Place(take.key16 if take is not None else None, session_of(root, path))
        for complaint in complaints(cassette, place):
            return complaint
        found = outcome(cassette)
        if found.complete and is_keyed_otherwise(cassette.request):
            return (
                "held other credentials where this request holds its own. Record it again with "
                "llm-proxy record, or leave that place out of keys with --normalise ignore=JSONPATH"
            )
        if found.complete:
            return "was not there when this run began; start it again"
        return (
            f"is not complete ({found.reason}). Record it again with llm-proxy record, or replay "
            "it as it is with --allow-partial"
        )


async def _aside(function: Callable[[], T]) -> T:
    """Run a function in a thread, while others are answered."""
    import asyncio  # noqa: PLC0415 # commands that serve nothing look for takes without it

    return await asyncio.to_thread(function)
