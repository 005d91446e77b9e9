"""Encodes the sources of Gemini's text and the passages that cite them.

A citation with a license or publication date is a recitation (the text repeats the source); all
others are grounding.  Passages are byte offsets in all text of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json, turn_parts
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.google.citations import byte_offsets, is_valid_span
from llm_proxy.dialects.google.content_decoder import (
    GROUNDING_FIELD,
    GROUNDING_SOURCE_FIELDS,
    SOURCE_KINDS,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Metadata, Part, Reasoning, Text

_RECITATION_FIELDS: Final = ("license", "publicationDate")
_WEB_KIND: Final = SOURCE_KINDS[0]
_METADATA_OF_SOURCE_KIND: Final = {
    "web": ("domain",),
    "retrievedContext": (
        *("documentName", "fileSearchStore", "customMetadata", "ragChunk", "pageNumber"),
        "mediaId",
    ),
    "maps": ("placeId", "placeAnswerSources", "route"),
    "image": ("sourceUri", "imageUri", "domain"),
}
_QUOTING_KINDS: Final = ("retrievedContext", "maps")
"""The kinds of sources that hold the quoted text."""


def representable_citation(citation: Citation) -> Citation | None:
    """A citation as the wire can hold it; None where that is empty."""
    if _is_recitation(citation):
        return Citation(
            citation.url,
            citation.title,
            span=citation.span,
            metadata=nonempty_metadata(citation.metadata, _RECITATION_FIELDS),
        )
    kind = _source_kind(citation)
    fields = dict(citation.metadata)
    metadata = lenient_json.select_metadata(
        fields, (name for name in fields if name in _METADATA_OF_SOURCE_KIND[kind])
    )
    quoted = citation.quoted if kind in _QUOTING_KINDS else ""
    if not (citation.url or citation.title or quoted or metadata):
        return None
    kind_metadata: Metadata = (("type", kind),) if kind != _WEB_KIND else ()
    url = citation.url or lenient_json.value_as_text(dict(metadata).get("sourceUri"))
    return Citation(url, citation.title, quoted, citation.span, (*kind_metadata, *metadata))


def merge_parts_and_place_citations(
    parts: Iterable[Part], ends_run: Callable[[Part], bool]
) -> tuple[Part, ...]:
    """Merges neighbouring texts and thoughts, and orders citations as a decoder reads them.

    A part for which `ends_run` is true is not merged with the next one.  Citations of empty texts
    go to the last text.  There, citations without a span follow those that have one.
    """
    unplaced: list[Citation] = []
    kept_parts: list[Part] = []
    for part in parts:
        if not isinstance(part, Text) or part.text:
            kept_parts.append(part)
            continue
        unplaced += part.citations
        kept_parts += [replace(part, citations=())] * bool(part.metadata)
    if unplaced and not any(isinstance(part, Text) for part in kept_parts):
        kept_parts.append(Text(""))
    merged = turn_parts.merge_neighbours(kept_parts, (Text, Reasoning), ends_run)
    last_text_index = max(
        (at for at, part in enumerate(merged) if isinstance(part, Text)), default=None
    )
    return tuple(
        _place_citations(
            part,
            [*part.citations, *(unplaced if at == last_text_index else ())],
            is_last=at == last_text_index,
        )
        if isinstance(part, Text)
        else part
        for at, part in enumerate(merged)
    )


def _place_citations(text: Text, citations: Iterable[Citation], *, is_last: bool) -> Text:
    default_span = None if is_last else (0, len(text.text))
    placed = (
        replace(
            citation,
            span=citation.span if is_valid_span(citation.span, text.text) else default_span,
        )
        for citation in citations
    )
    unique: dict[tuple[object, ...], Citation] = {}
    for citation in placed:
        unique.setdefault((citation.url, citation.title, citation.quoted, citation.span), citation)
    return replace(text, citations=tuple(sorted(unique.values(), key=_citation_sort_key)))


def _citation_sort_key(citation: Citation) -> int:
    """Recitations are decoded first, and citations without a span last."""
    if _is_recitation(citation):
        return 0
    return 1 if citation.span else 2


def _is_recitation(citation: Citation) -> bool:
    fields = dict(citation.metadata)
    return (
        not citation.quoted
        and "type" not in fields
        and any(fields.get(name) for name in _RECITATION_FIELDS)
    )


def _source_kind(citation: Citation) -> str:
    kind = dict(citation.metadata).get("type")
    return kind if isinstance(kind, str) and kind in _METADATA_OF_SOURCE_KIND else _WEB_KIND


def encode_candidate_sources(parts: Iterable[Part], recitation_field: str) -> Document:
    """A candidate's fields for sources; `recitation_field` names the list of recitations."""
    sources = _CandidateSources()
    start = 0
    for text in (part for part in parts if isinstance(part, Text)):
        offsets = byte_offsets(text.text)
        for citation in text.citations:
            sources.add_citation(citation, text.text, offsets, start)
        start += offsets[-1]
    return sources.source_fields(recitation_field)


class _CandidateSources:
    """Collects the sources of one candidate, in the order of decoding."""

    def __init__(self) -> None:
        self._recitations: list[Document] = []
        self._supports: list[Document] = []
        self._chunk_indices: dict[str, int] = {}
        """The JSON text of each cited chunk -> its index in `_chunks`."""
        self._chunks: list[Document] = []
        self._uncited_sources: list[Document] = []

    def add_citation(
        self, citation: Citation, text: str, offsets: Sequence[int], text_start_byte: int
    ) -> None:
        """Add a citation of a text that starts at `text_start_byte` of the candidate's text."""
        segment: Document = {}
        if citation.span is not None:
            begin, end = (text_start_byte + offsets[at] for at in citation.span)
            segment = {**({"startIndex": begin} if begin else {}), "endIndex": end}
        if _is_recitation(citation):
            recitation: Document = {
                **segment,
                **_uri_and_title_fields(citation),
                **dict(citation.metadata),
            }
            self._recitations.append(recitation)
        elif citation.span is None:
            self._uncited_sources.append(_grounding_chunk(citation))
        else:
            self._add_grounding_support(
                {**segment, "text": text[slice(*citation.span)]},
                self._grounding_chunk_index(citation),
            )

    def _grounding_chunk_index(self, citation: Citation) -> int:
        chunk = _grounding_chunk(citation)
        index = self._chunk_indices.setdefault(lenient_json.compact_json(chunk), len(self._chunks))
        if index == len(self._chunks):
            self._chunks.append(chunk)
        return index

    def _add_grounding_support(self, segment: Document, chunk_index: int) -> None:
        """Add a passage and its source; a repeated passage gets the source added."""
        if self._supports and self._supports[-1]["segment"] == segment:
            self._supports[-1]["groundingChunkIndices"].append(chunk_index)
        else:
            self._supports.append({"segment": segment, "groundingChunkIndices": [chunk_index]})

    def source_fields(self, recitation_field: str) -> Document:
        """The collected sources as fields of the candidate."""
        chunks = [*self._chunks, *self._uncited_sources]
        grounding: Document = {
            **({GROUNDING_SOURCE_FIELDS[0]: chunks} if chunks else {}),
            **({GROUNDING_SOURCE_FIELDS[1]: self._supports} if self._supports else {}),
        }
        return {
            **(
                {"citationMetadata": {recitation_field: self._recitations}}
                if self._recitations
                else {}
            ),
            **({GROUNDING_FIELD: grounding} if grounding else {}),
        }


def _uri_and_title_fields(citation: Citation) -> Document:
    return {
        **({"uri": citation.url} if citation.url else {}),
        **({"title": citation.title} if citation.title else {}),
    }


def _grounding_chunk(citation: Citation) -> Document:
    """A grounding chunk; the URL of an image's page is in `sourceUri` alone."""
    kind = _source_kind(citation)
    document: Document = {name: value for name, value in citation.metadata if name != "type"}
    web_fields = _uri_and_title_fields(citation)
    if document.get("sourceUri") == citation.url:
        web_fields.pop("uri", None)
    quoted: Document = {"text": citation.quoted} if citation.quoted else {}
    return {kind: {**web_fields, **quoted, **document}}
