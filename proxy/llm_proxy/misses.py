"""What a miss says: short enough for an exception, long enough to act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import counted
from llm_proxy.errors import Miss, printable
from llm_proxy.matching import Difference, Document, Rules
from llm_proxy.routing import Call

_SHOWN: Final = 3
"""Differences that the short message names, where they have room."""
_ROOM: Final = 300
"""Characters that they have, together; the first is named in any case."""
_VALUE: Final = 60
"""Characters of a value that are shown."""
_NAME: Final = 100
"""Characters of a path or a model that are shown."""
_HEAD: Final = frozenset(("method", "provider", "path", "query"))
"""What `matching.leaves` has of a request beside its body."""
_EMPTY: Final = ("", "{}", "[]", "null")
"""Bodies, and values in them, that say nothing."""
_FILE: Final = 250
"""Characters of a file's path that are shown."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cassette that a request could have meant."""

    file: str
    meta: Meta
    request: StoredRequest


@dataclass(frozen=True, slots=True)
class Near:
    """The cassette that is most like a request, and how it differs."""

    candidate: Candidate
    nearness: float
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """What a look through the library for something like a request gave."""

    looked_at: int
    """How many cassettes there are."""
    near: Near | None
    """None where nothing is like it."""


def nearest(call: Call, candidates: Iterable[Candidate]) -> Nearest | None:
    """The candidate that shares most with this call; None where there is none at all.

    Near is a request of the same method and path, whatever its body says, or one that says the
    very same in its body to another path (a model that stands in the path, another version of an
    API).  Anything else is another kind of request, and its name would mislead.
    """
    asked = matching.leaves(call.normalised.document)
    best: tuple[float, Candidate, dict[str, str]] | None = None
    looked_at = 0
    for candidate in candidates:
        looked_at += 1
        stored = matching.leaves(_document(candidate, call.rules))
        score = matching.nearness(asked, stored)
        if _alike(asked, stored) and (best is None or score > best[0]):
            best = (score, candidate, stored)
    if best is None:
        return Nearest(looked_at, None) if looked_at else None
    score, candidate, stored = best
    differences = tuple(matching.differences(asked, stored))
    return Nearest(looked_at, Near(candidate, score, differences))


def _document(it: Candidate, rules: Rules) -> Document:
    return matching.normalised(it.meta.provider, it.request, rules).document


def _alike(asked: Mapping[str, str], stored: Mapping[str, str]) -> bool:
    """Whether two requests are of one kind."""
    if asked["method"] != stored["method"]:
        return False
    return asked["path"] == stored["path"] or _said(asked) == _said(stored) != {}


def _said(leaves: Mapping[str, str]) -> dict[str, str]:
    """What a request says in its body; nothing where that is empty."""
    return {path: it for path, it in leaves.items() if path not in _HEAD and it not in _EMPTY}


def no_cassette(call: Call, found: Nearest | None, library: str, unplayable: str = "") -> Miss:
    """The miss of a request that has no cassette.

    `unplayable` says why the nearest one is not played, where nothing differs from it.
    """
    asked = _asked(call)
    library = printable(library, _FILE)
    if found is None:
        return Miss(
            f"no cassette for {asked}: {library} holds none. Record it with llm-proxy record.",
            f"no cassette for {asked}: the library {library} is empty",
        )
    if found.near is None:
        nothing = f"nothing like it in {library} ({counted(found.looked_at, 'cassette')})"
        return Miss(
            f"no cassette for {asked}: {nothing}. Record it with llm-proxy record.",
            f"no cassette for {asked} (key {call.key[:16]}, session {call.session}): {nothing}",
        )
    if not found.near.differences:
        return _unplayable(call, asked, found.near, unplayable)
    return _near_miss(call, asked, found.near)


def _unplayable(call: Call, asked: str, near: Near, why: str) -> Miss:
    """The miss of a request that is recorded, in a way that is not played."""
    file = printable(near.candidate.file, _FILE)
    session = near.candidate.meta.session
    if session not in (call.session, DEFAULT_SESSION):
        why = f"belongs to session {printable(session, _NAME)} (asked: {call.session})"
    said = f"no playable cassette for {asked}: {file} answers this very request but {why}"
    return Miss(f"{said}.", said)


def _near_miss(call: Call, asked: str, near: Near) -> Miss:
    file = printable(near.candidate.file, _FILE)
    return Miss(
        f"no cassette for {asked}. Nearest is {file}, which differs at "
        f"{_differences(near.differences)}. Record it with llm-proxy record, or make the request "
        "the same.",
        "\n".join(
            [
                f"no cassette for {asked} (key {call.key[:16]}, session {call.session})",
                f"nearest: {file} ({near.nearness:.0%} alike)",
                *(f"  {_difference(each)}" for each in near.differences[:20]),
            ]
        ),
    )


def used_up(call: Call, takes: int, ordinal: int) -> Miss:
    """The miss of a request that was recorded less often than it is asked."""
    what = f"request {ordinal} for {_asked(call)}, of which {takes} takes are recorded"
    return Miss(f"no take left: this is {what} (--after-last fail).", f"no take left: {what}")


def _asked(call: Call) -> str:
    model = printable(call.model, _NAME)
    path = printable(call.stored.path, _NAME)
    return f"{call.request.method} {path}" + (f" ({model})" if model else "")


def _differences(all_of_them: Sequence[Difference]) -> str:
    """The first few in one line."""
    first, *others = map(_difference, all_of_them[:_SHOWN])
    shown = [first]
    for each in others:
        if sum(map(len, shown)) + len(each) <= _ROOM:
            shown.append(each)
    more = len(all_of_them) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _difference(it: Difference) -> str:
    path = printable(it.path, _NAME)
    if not it.stored:
        return f"{path}: {_short(it.asked)}, not in the cassette"
    if not it.asked:
        return f"{path}: missing, cassette has {_short(it.stored)}"
    asked, stored = _apart(it.asked, it.stored)
    return f"{path}: {asked}, cassette has {stored}"


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two values cut so that where they first differ is in view."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    begin = max(0, same - _VALUE // 3) if max(len(one), len(other)) > _VALUE else 0
    return _short(one, begin), _short(other, begin)


def _short(value: str, begin: int = 0) -> str:
    cut = printable(value[begin : begin + _VALUE + 1], _VALUE)
    return ("…" if begin else "") + cut
