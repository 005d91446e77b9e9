"""The cassette that comes nearest to a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.diff import json_leaves
from llm_proxy.diff.json_leaves import Difference
from llm_proxy.exchange import Request
from llm_proxy.matching import Document
from llm_proxy.misses.document_diff import Found, found
from llm_proxy.misses.similarity import Likeness, least_alike
from llm_proxy.routing import Call

_HEAD: Final = frozenset(("method", "provider", "path", "query"))
"""What `json_leaves.leaves` has of a request beside its body."""
_EMPTY: Final = ("", "{}", "[]", "null")
"""Bodies, and values in them, that say nothing."""


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
    """From 0 to 1: how alike the two read."""
    asked: Document
    """The request's document, by the rules of the run."""
    stored: Document
    """The cassette's, by the same rules."""

    @property
    def found(self) -> Found:
        """Where they differ; computed each time."""
        return found(self.asked, self.stored)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first of those; computed each time."""
        return self.found.told


@dataclass(frozen=True, slots=True)
class Nearest:
    """What a look through the library for something like a request gave."""

    looked_at: int
    """How many cassettes there are."""
    near: Near | None
    """None where nothing is like it."""


def nearest(
    call: Call, candidates: Iterable[Candidate], looked_at: int | None = None
) -> Nearest | None:
    """The candidate that reads most like this call; None where there is none at all.

    Near is a request of the same method and path, whatever its body says, or one that says the
    very same in its body to another path (a model that stands in the path, another version of an
    API).  Anything else is another kind of request, and its name would mislead.  `looked_at` is
    how many there are where `candidates` are chosen from more.
    """
    ordered, count = ranked(call, candidates)
    looked_at = count if looked_at is None else looked_at
    if not ordered:
        return Nearest(looked_at, None) if looked_at else None
    return Nearest(looked_at, ordered[0])


def ranked(call: Call, candidates: Iterable[Candidate]) -> tuple[list[Near], int]:
    """The candidates that are like this call, the nearest first, and how many there were."""
    ours = call.normalised.document
    asked = json_leaves.leaves(ours)
    likeness = Likeness(asked)
    found: list[Near] = []
    count = 0
    for candidate in candidates:
        count += 1
        theirs = matching.normalised(candidate.meta.provider, candidate.request, call.rules)
        stored = json_leaves.leaves(theirs.document)
        if _alike(asked, stored):
            score = likeness.of(stored)
            found.append(Near(candidate, score, ours, theirs.document))
    found.sort(key=lambda it: -it.nearness)  # of two that are as near, the first stays first
    return found, count


def answers_for(near: Near, call: Call, share: float) -> bool:
    """Whether a near cassette may answer where `share` must be alike, from 0 to 1.

    However alike it is: never for another model, never a stream for what asked for none, and never
    where within what is asked a text is less alike than that, or is missing.
    """
    same = _model(near.asked) == _model(near.stored) and near.asked.dialect == near.stored.dialect
    beside = [(it.method, it.provider, it.path) for it in (near.asked, near.stored)]
    if not same or beside[0] != beside[1] or call.dialect.streams(call.plain) != _streams(near):
        return False
    return least_alike(near.asked, near.stored) >= share


def _model(document: Document) -> object:
    """The model that a body names; the fields that do so in a form."""
    match document.kind, document.body:
        case "json", dict() as body:
            return body.get("model")
        case "form", list() as body:
            return [it for it in body if isinstance(it, dict) and it.get("name") == "model"]
        case _:
            return None


def _streams(near: Near) -> bool:
    """Whether the request of the cassette asked for a stream."""
    stored = near.candidate.request
    from_line = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    return near.stored.dialect.streams(from_line)


def _alike(asked: Mapping[str, str], stored: Mapping[str, str]) -> bool:
    """Whether two requests are of one kind."""
    if asked["method"] != stored["method"]:
        return False
    return asked["path"] == stored["path"] or _said(asked) == _said(stored) != {}


def _said(leaves: Mapping[str, str]) -> dict[str, str]:
    """What a request says in its body; nothing where that is empty."""
    return {path: it for path, it in leaves.items() if path not in _HEAD and it not in _EMPTY}
