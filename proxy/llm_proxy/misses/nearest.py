"""Finds the cassette that is nearest to a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.diff import json_leaves
from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.exchange import Request
from llm_proxy.matching import KeyDocument
from llm_proxy.misses.document_diff import DocumentDifferences, find_differences
from llm_proxy.misses.similarity import RequestSimilarityScorer, lowest_prompt_similarity
from llm_proxy.routing import RoutedRequest

_REQUEST_LINE_PATHS: Final = frozenset(("method", "provider", "path", "query"))
"""Paths in `json_leaves.json_leaves` that belong to the request line, not to the body."""
_EMPTY_VALUES: Final = ("", "{}", "[]", "null")
"""Bodies, and values in them, without content."""


@dataclass(frozen=True, slots=True)
class CassetteCandidate:
    """A cassette that may match a request."""

    file: str
    meta: CassetteMeta
    request: StoredRequest


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A cassette with its similarity to a request, and both key documents."""

    cassette: CassetteCandidate
    similarity: float
    """Similarity of the two requests, from 0 to 1."""
    requested_key_document: KeyDocument
    """The request's key document, normalised by the rules of the run."""
    stored_key_document: KeyDocument
    """The cassette's key document, normalised by the same rules."""

    @property
    def document_differences(self) -> DocumentDifferences:
        """Where the documents differ; computed at each access."""
        return find_differences(self.requested_key_document, self.stored_key_document)

    @property
    def differences(self) -> tuple[RequestDifference, ...]:
        """The first 10,000 differences; computed at each access."""
        return self.document_differences.differences


@dataclass(frozen=True, slots=True)
class NearestSearchResult:
    """The nearest cassette of a library, and the number of candidates."""

    candidate_count: int
    """Cassettes in the library."""
    nearest: RankedCandidate | None
    """None if no candidate is comparable."""


def find_nearest(
    routed: RoutedRequest,
    candidates: Iterable[CassetteCandidate],
    candidate_count: int | None = None,
) -> NearestSearchResult | None:
    """The candidate most similar to a request; None if there are no candidates.

    Comparable are requests with the same method and path, whatever their bodies, or with the same
    method and an equal body to another path (a path with a model, another version of an API).
    Anything else is another kind of request, and naming it would mislead.  `candidate_count` is
    the total where `candidates` are a preselection.
    """
    ranked, ranked_count = rank_candidates(routed, candidates)
    candidate_count = ranked_count if candidate_count is None else candidate_count
    if not ranked:
        return NearestSearchResult(candidate_count, None) if candidate_count else None
    return NearestSearchResult(candidate_count, ranked[0])


def rank_candidates(
    routed: RoutedRequest, candidates: Iterable[CassetteCandidate]
) -> tuple[list[RankedCandidate], int]:
    """The comparable candidates, nearest first, and the number of all candidates."""
    requested_document = routed.normalized_document.document
    leaves = json_leaves.json_leaves(requested_document)
    request_similarity = RequestSimilarityScorer(leaves)
    ranked: list[RankedCandidate] = []
    candidate_count = 0
    for candidate in candidates:
        candidate_count += 1
        normalized = matching.normalized_document(
            candidate.meta.provider, candidate.request, routed.match_rules
        )
        stored_leaves = json_leaves.json_leaves(normalized.document)
        if _is_comparable(leaves, stored_leaves):
            score = request_similarity.similarity_to(stored_leaves)
            ranked.append(
                RankedCandidate(candidate, score, requested_document, normalized.document)
            )
    ranked.sort(
        key=lambda ranked_candidate: -ranked_candidate.similarity
    )  # stable: ties keep their order
    return ranked, candidate_count


def is_similar_enough(
    candidate: RankedCandidate, routed: RoutedRequest, min_similarity: float
) -> bool:
    """Whether a cassette may answer a request that it only resembles.

    Never for another model, target or dialect, never a stream for a request without streaming or
    the reverse, and never if a value of the prompt is missing or its similarity is below
    `min_similarity` (from 0 to 1).
    """
    same_model_and_dialect = (
        _model_in_body(candidate.requested_key_document)
        == _model_in_body(candidate.stored_key_document)
        and candidate.requested_key_document.dialect == candidate.stored_key_document.dialect
    )
    targets = [
        (key_document.method, key_document.provider, key_document.path)
        for key_document in (candidate.requested_key_document, candidate.stored_key_document)
    ]
    if (
        not same_model_and_dialect
        or targets[0] != targets[1]
        or routed.dialect.streams(routed.decompressed_request)
        != _is_stored_request_streaming(candidate)
    ):
        return False
    return (
        lowest_prompt_similarity(candidate.requested_key_document, candidate.stored_key_document)
        >= min_similarity
    )


def _model_in_body(document: KeyDocument) -> object:
    """The `model` of a JSON body; the `model` fields of a form."""
    match document.body_kind, document.body:
        case "json", dict() as body:
            return body.get("model")
        case "form", list() as body:
            return [
                field for field in body if isinstance(field, dict) and field.get("name") == "model"
            ]
        case _:
            return None


def _is_stored_request_streaming(candidate: RankedCandidate) -> bool:
    stored = candidate.cassette.request
    request = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
    return candidate.stored_key_document.dialect.streams(request)


def _is_comparable(leaves: Mapping[str, str], stored_leaves: Mapping[str, str]) -> bool:
    if leaves["method"] != stored_leaves["method"]:
        return False
    return (
        leaves["path"] == stored_leaves["path"]
        or _body_leaves(leaves) == _body_leaves(stored_leaves) != {}
    )


def _body_leaves(leaves: Mapping[str, str]) -> dict[str, str]:
    """The non-empty leaves beside the request line."""
    return {
        path: value
        for path, value in leaves.items()
        if path not in _REQUEST_LINE_PATHS and value not in _EMPTY_VALUES
    }
