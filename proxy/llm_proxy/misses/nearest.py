"""Finds the cassette that is nearest to a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.diff import json_leaves
from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.exchange import Request
from llm_proxy.matching import KeyDocument
from llm_proxy.misses.document_diff import DocumentDifferences, find_differences
from llm_proxy.misses.similarity import RequestSimilarity, least_similarity
from llm_proxy.routing import RoutedRequest

_HEAD: Final = frozenset(("method", "provider", "path", "query"))
"""What `json_leaves.leaves` has of a request beside its body."""
_EMPTY: Final = ("", "{}", "[]", "null")
"""Bodies, and values in them, that say nothing."""


@dataclass(frozen=True, slots=True)
class CassetteCandidate:
    """A cassette that a request could have meant."""

    file: str
    meta: Meta
    request: StoredRequest


@dataclass(frozen=True, slots=True)
class NearestMatch:
    """The cassette that is most like a request, and how it differs."""

    candidate: CassetteCandidate
    similarity: float
    """From 0 to 1: how alike the two read."""
    requested_document: KeyDocument
    """The request's document, by the rules of the run."""
    stored: KeyDocument
    """The cassette's, by the same rules."""

    @property
    def find_differences(self) -> DocumentDifferences:
        """Where they differ; computed each time."""
        return find_differences(self.requested_document, self.stored)

    @property
    def list_differences(self) -> tuple[RequestDifference, ...]:
        """The first of those; computed each time."""
        return self.find_differences.differences


@dataclass(frozen=True, slots=True)
class NearestSearch:
    """What a look through the library for something like a request gave."""

    candidates_seen: int
    """How many cassettes there are."""
    match: NearestMatch | None
    """None where nothing is like it."""


def find_nearest(
    routed: RoutedRequest, candidates: Iterable[CassetteCandidate], looked_at: int | None = None
) -> NearestSearch | None:
    """The candidate that reads most like this call; None where there is none at all.

    Near is a request of the same method and path, whatever its body says, or one that says the
    very same in its body to another path (a model that stands in the path, another version of an
    API).  Anything else is another kind of request, and its name would mislead.  `looked_at` is
    how many there are where `candidates` are chosen from more.
    """
    ordered, count = rank_candidates(routed, candidates)
    looked_at = count if looked_at is None else looked_at
    if not ordered:
        return NearestSearch(looked_at, None) if looked_at else None
    return NearestSearch(looked_at, ordered[0])


def rank_candidates(
    routed: RoutedRequest, candidates: Iterable[CassetteCandidate]
) -> tuple[list[NearestMatch], int]:
    """The candidates that are like this call, the nearest first, and how many there were."""
    ours = routed.normalized_document.document
    fields = json_leaves.json_leaves(ours)
    likeness = RequestSimilarity(fields)
    found: list[NearestMatch] = []
    count = 0
    for candidate in candidates:
        count += 1
        theirs = matching.normalized_document(
            candidate.meta.provider, candidate.request, routed.rules
        )
        stored = json_leaves.json_leaves(theirs.document)
        if _is_comparable(fields, stored):
            score = likeness.similarity_to(stored)
            found.append(NearestMatch(candidate, score, ours, theirs.document))
    found.sort(
        key=lambda nearest_match: -nearest_match.similarity
    )  # of two that are as near, the first stays first
    return found, count


def may_respond(near: NearestMatch, routed: RoutedRequest, share: float) -> bool:
    """Whether a near cassette may answer where `share` must be alike, from 0 to 1.

    However alike it is: never for another model, never a stream for what asked for none, and never
    where within what is asked a text is less alike than that, or is missing.
    """
    same = (
        _model_of_document(near.requested_document) == _model_of_document(near.stored)
        and near.requested_document.dialect == near.stored.dialect
    )
    items = [
        (key_document.method, key_document.provider, key_document.path)
        for key_document in (near.requested_document, near.stored)
    ]
    if (
        not same
        or items[0] != items[1]
        or routed.dialect.streams(routed.decompressed) != _requests_stream(near)
    ):
        return False
    return least_similarity(near.requested_document, near.stored) >= share


def _model_of_document(document: KeyDocument) -> object:
    """The model that a body names; the fields that do so in a form."""
    match document.kind, document.body:
        case "json", dict() as body:
            return body.get("model")
        case "form", list() as body:
            return [
                value for value in body if isinstance(value, dict) and value.get("name") == "model"
            ]
        case _:
            return None


def _requests_stream(near: NearestMatch) -> bool:
    stored = near.candidate.request
    from_line = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    return near.stored.dialect.streams(from_line)


def _is_comparable(fields: Mapping[str, str], stored: Mapping[str, str]) -> bool:
    if fields["method"] != stored["method"]:
        return False
    return fields["path"] == stored["path"] or _body_leaves(fields) == _body_leaves(stored) != {}


def _body_leaves(leaves: Mapping[str, str]) -> dict[str, str]:
    """What a request says in its body; nothing where that is empty."""
    return {path: text for path, text in leaves.items() if path not in _HEAD and text not in _EMPTY}
