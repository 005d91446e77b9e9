"""Finds the cassette whose request is most similar to a request.

Among very many cassettes, an index of word hashes preselects a few.  A word is the text between two
quotation marks of a request line (line 2 of a cassette): names and texts alike.  The index holds
the 64-bit hashes of the words and of their counts.  Requests that share most words share (nearly)
most values.  Ties, which are frequent in chats of one message, are broken by the words of the last
message.  In memory a cassette is some hundred numbers, about a kilobyte.

The preselected ones are read again and compared value by value.  The similarity of two texts is the
Dice coefficient of their pieces, counted with multiplicity: three consecutive characters, or whole
words in long texts.  The time is linear in their length, whatever they contain.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final, TypeAlias

from propcache.api import cached_property

from llm_proxy import matching
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.cassette.model import encode_line, request_line
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.documents import DocumentDifferences, find_differences, json_leaves, split_words
from llm_proxy.last_message import last_message_in_fields
from llm_proxy.matching import KeyDocument
from llm_proxy.matching.normalisers import contains_base64_hash
from llm_proxy.routing import RoutedRequest
from llm_proxy.turns import Json

_MAX_SAME_TARGET: Final = 16
"""Maximum number of preselected cassettes with the method and path of the request."""
_MAX_OTHER_TARGET: Final = 4
"""The same for each other method and path, where only an equal body counts as near."""
_REQUEST_TARGET: Final = re.compile(rb'\{"request":\{"method":"([^"\\]+)","path":"([^"\\]+)"')
_MAX_WORDS: Final = 2_000
"""Maximum number of indexed words of a request: the first ones."""
_MAX_END_WORDS: Final = 16
"""Maximum number of words indexed at each end of the last message."""
_MAX_END_CHARS: Final = 100
"""Characters at each end of the last message that are split into words."""
_MAX_LINE_BYTES: Final = 1024 * 1024
"""Maximum size of a request line whose last message is indexed."""
_FORM_CONTENT_MEMBERS: Final = ("value", "sha256")
"""The members of a form field that hold its content."""
_REQUEST_LINE_PATHS: Final = frozenset(("method", "provider", "path", "query"))
"""Paths of leaves that belong to the request line, not to the body."""
_EMPTY_JSON: Final = frozenset(('""', "{}", "[]", "null"))
"""JSON values without content."""
_LONG_TEXT_MIN_CHARS: Final = 500
"""Longer texts are compared by words."""
_MAX_UNEQUAL_SIMILARITY: Final = 0.999
"""Upper bound for unequal texts: these may have the same pieces in another order."""


def word_hashes(line: bytes) -> array[int]:
    """The hashes of the words of line 2 of a cassette, and of the counts of repeated words.

    A repeated word adds a second hash, of the word and its count: so requests with the same number
    of messages are similar, whatever their contents.
    """
    counts = Counter(line.split(b'"', _MAX_WORDS)[:_MAX_WORDS])
    repeated = (word_and_count for word_and_count in counts.items() if word_and_count[1] > 1)
    return array("q", [*map(hash, counts), *map(hash, repeated)])


def last_message_word_hashes(line: bytes) -> array[int]:
    """The distinct word hashes of the last message of line 2; empty if that has no text."""
    if len(line) > _MAX_LINE_BYTES:
        return array("q")
    request = lenient_json.object_fields(lenient_json.parse_object(line).get("request"))
    last_message = last_message_in_fields(lenient_json.object_fields(request.get("json")))
    if last_message is None:
        return array("q")
    text = last_message.text.casefold()
    if len(text) > 2 * _MAX_END_CHARS:
        text = f"{text[:_MAX_END_CHARS]} {text[-_MAX_END_CHARS:]}"
    message_words = split_words(text)
    if len(message_words) > 2 * _MAX_END_WORDS:
        message_words = message_words[:_MAX_END_WORDS] + message_words[-_MAX_END_WORDS:]
    return array("q", set(map(hash, message_words)))


def encode_cassette_request_line(request: StoredRequest) -> bytes:
    """Line 2 of a cassette with this request."""
    return encode_line(request_line(request))


def method_and_path(line: bytes) -> bytes:
    """`METHOD path` of line 2; empty if the line is not formatted as the recorder writes it."""
    match = _REQUEST_TARGET.match(line)
    return b"" if match is None else match[1] + b" " + match[2]


_IndexedCassette: TypeAlias = "tuple[int, array[int], array[int]]"
"""The number of a cassette, its word hashes, and those of its last message."""


@dataclass(slots=True)
class CassetteWordIndex:
    """Word hashes of many cassettes, each with a number that the caller assigns."""

    cassette_count: int = 0
    _cassettes_by_target: dict[bytes, list[_IndexedCassette]] = field(default_factory=dict)

    def add_cassette(self, number: int, line: bytes) -> None:
        """Add the cassette with this number; `line` is its line 2."""
        cassettes = self._cassettes_by_target.setdefault(method_and_path(line), [])
        cassettes.append((number, word_hashes(line), last_message_word_hashes(line)))
        self.cassette_count += 1

    def nearest_cassette_numbers(self, request: StoredRequest) -> list[int]:
        """The numbers of the cassettes that are probably nearest, ascending."""
        line = encode_cassette_request_line(request)
        words, message_words = frozenset(word_hashes(line)), last_message_word_hashes(line)
        target = method_and_path(line)
        numbers: list[int] = []
        for indexed_target, cassettes in self._cassettes_by_target.items():
            limit = _MAX_SAME_TARGET if indexed_target == target else _MAX_OTHER_TARGET
            numbers += _most_similar_numbers(words, frozenset(message_words), cassettes, limit)
        return sorted(numbers)


def _most_similar_numbers(
    words: frozenset[int],
    message_words: frozenset[int],
    cassettes: list[_IndexedCassette],
    limit: int,
) -> list[int]:
    """The numbers of the cassettes with the highest Jaccard similarity, at most `limit`.

    Of those that tie, the ones whose last message shares most words.
    """
    if len(cassettes) <= limit:
        return [number for number, _, _ in cassettes]

    def similarity(cassette: _IndexedCassette) -> tuple[float, float]:
        _, hashes, message_hashes = cassette
        # An intersection is twice as fast as a test per word.
        shared_count = len(words.intersection(hashes))
        shared_message_count = len(message_words.intersection(message_hashes))
        return (
            shared_count / (len(words) + len(hashes) - shared_count),
            shared_message_count / ((len(message_words) or 1) + len(message_hashes)),
        )

    return [number for number, _, _ in nlargest(limit, cassettes, key=similarity)]


@dataclass(frozen=True, slots=True)
class CassetteCandidate:
    """A cassette that may match a request."""

    file: str
    meta: CassetteMeta
    request: StoredRequest


@dataclass(frozen=True)
class RankedCandidate:
    """A cassette with its similarity to a request, and both key documents."""

    cassette: CassetteCandidate
    similarity: float
    """Similarity of the two requests, from 0 to 1."""
    requested_key_document: KeyDocument
    """The request's key document, normalised by the rules of the run."""
    stored_key_document: KeyDocument
    """The cassette's key document, normalised by the same rules."""

    @cached_property
    def differences(self) -> DocumentDifferences:
        """Where the documents differ."""
        return find_differences(self.requested_key_document, self.stored_key_document)


def rank_candidates(
    routed: RoutedRequest, candidates: Iterable[CassetteCandidate]
) -> list[RankedCandidate]:
    """The comparable candidates, nearest first.

    Comparable are requests with the same method and path, whatever their bodies, or with the same
    method and an equal body to another path (a path with a model, another version of an API).
    Anything else is another kind of request, and naming it would mislead.
    """
    requested_document = routed.normalized_document.document
    leaves = json_leaves(requested_document)
    body_leaves = _nonempty_body_leaves(leaves)
    scorer = RequestSimilarityScorer(leaves)
    ranked: list[RankedCandidate] = []
    for candidate in candidates:
        stored_document = matching.normalized_document(
            candidate.meta.provider, candidate.request, routed.match_rules
        ).document
        stored_leaves = json_leaves(stored_document)
        if stored_document.method == requested_document.method and (
            stored_document.path == requested_document.path
            or body_leaves == _nonempty_body_leaves(stored_leaves) != {}
        ):
            similarity = scorer.similarity_to(stored_leaves)
            ranked.append(
                RankedCandidate(candidate, similarity, requested_document, stored_document)
            )
    # Stable: among equally similar ones, those of the request's session come first.
    ranked.sort(
        key=lambda candidate: (
            -candidate.similarity,
            candidate.cassette.meta.session != routed.session,
        )
    )
    return ranked


def _nonempty_body_leaves(leaves: Mapping[str, str]) -> dict[str, str]:
    """The non-empty leaves beside the request line."""
    return {
        path: value
        for path, value in leaves.items()
        if path not in _REQUEST_LINE_PATHS and value not in ("", "{}", "[]", "null")
    }


def is_similar_enough(
    candidate: RankedCandidate, routed: RoutedRequest, min_similarity: float
) -> bool:
    """Whether a cassette may answer a request that it only resembles.

    Never for another model, target or dialect, never a stream for a request without streaming or
    the reverse, and never if a value of the prompt is missing or its similarity is below
    `min_similarity` (from 0 to 1).
    """
    requested, stored = candidate.requested_key_document, candidate.stored_key_document
    targets = [
        (document.method, document.provider, document.path, document.dialect)
        for document in (requested, stored)
    ]
    if targets[0] != targets[1] or _model_in_body(requested) != _model_in_body(stored):
        return False
    return (
        routed.dialect.streams(routed.decompressed_request)
        == stored.dialect.streams(candidate.cassette.request)
        and lowest_prompt_similarity(requested, stored) >= min_similarity
    )


def _model_in_body(document: KeyDocument) -> Json:
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


def lowest_prompt_similarity(requested: KeyDocument, stored: KeyDocument) -> float:
    """From 0 to 1: the lowest similarity of two prompt values with the same path."""
    return RequestSimilarityScorer(prompt_leaves(requested)).lowest_value_similarity(
        prompt_leaves(stored)
    )


def prompt_leaves(document: KeyDocument) -> dict[str, str]:
    """The values of the prompt by path.

    In a form, these are the fields that the dialect lists, and the files; of a body that is
    neither a form nor a JSON object, all values.
    """
    prompt_fields = document.dialect.prompt_fields
    match document.body_kind, document.body:
        case "form", list() as fields:
            # By name, so that an inserted field does not shift the others' paths.
            contents_by_name: dict[str, list[Json]] = {}
            for field in fields:
                name = str(field.get("name")) if isinstance(field, dict) else ""
                if isinstance(field, dict) and (name in prompt_fields or "filename" in field):
                    contents_by_name.setdefault(name, []).append(
                        {item: field[item] for item in _FORM_CONTENT_MEMBERS if item in field}
                    )
            document = replace(document, body_kind="json", body={**contents_by_name})
        case "json", dict() as body:
            prompt = {name: body[name] for name in body if name in prompt_fields}
            document = replace(document, body=prompt)
        case _:
            pass
    leaves = json_leaves(document)
    return {path: text for path, text in leaves.items() if path[:1] == "$" or path == "body"}


class RequestSimilarityScorer:
    """Compares one request with many others; caches the pieces of its own texts."""

    def __init__(self, leaves: Mapping[str, str]) -> None:
        """`leaves` are the request's values by path, from `json_leaves`."""
        self._leaves = leaves
        self._pieces: dict[tuple[str, bool], Counter[str]] = {}

    def similarity_to(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: the Jaccard similarity of the (path, value) pairs.

        Unequal texts with the same path count with their similarity.
        """
        leaves = self._leaves
        equal_items = leaves.items() & stored.items()
        shared_weight = len(equal_items) + sum(
            self._value_similarity(path, value, stored[path])
            for path, value in leaves.items() - equal_items
            if path in stored
        )
        return shared_weight / (len(leaves) + len(stored) - shared_weight)

    def lowest_value_similarity(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: the lowest similarity of two values with the same path.

        A value that only one of them has counts as 0, unless it is empty.
        """
        pairs = (
            (path, self._leaves.get(path, "null"), stored.get(path, "null"))
            for path in self._leaves.keys() | stored.keys()
        )
        return min(
            (
                self._value_similarity(path, requested_value, stored_value)
                for path, requested_value, stored_value in pairs
                if requested_value != stored_value
                and not {requested_value, stored_value} <= _EMPTY_JSON
            ),
            default=1.0,
        )

    def _value_similarity(self, path: str, one: str, other: str) -> float:
        """The similarity of two unequal values; 0 if they are not texts."""
        for value in (one, other):
            is_text = path == "body" or (path[:1] == "$" and value[:1] == '"')
            if not is_text or contains_base64_hash(value):  # hashes are equal or not
                return 0.0
        is_long = max(len(one), len(other)) > _LONG_TEXT_MIN_CHARS
        pieces = self._pieces.get((one, is_long))
        if pieces is None:
            pieces = self._pieces[one, is_long] = _piece_counts(one, is_long=is_long)
        return min(
            _dice_coefficient(pieces, _piece_counts(other, is_long=is_long)),
            _MAX_UNEQUAL_SIMILARITY,
        )


def _piece_counts(text: str, *, is_long: bool) -> Counter[str]:
    """The pieces of a text with their counts; its quotes mark the first and the last piece."""
    if is_long:
        return Counter(split_words(text))
    return Counter([text[start : start + 3] for start in range(len(text) - 2)])


def _dice_coefficient(one: Counter[str], other: Counter[str]) -> float:
    common = one.keys() & other.keys()
    shared_count = sum(map(min, map(one.__getitem__, common), map(other.__getitem__, common)))
    return 2 * shared_count / max(one.total() + other.total(), 1)
