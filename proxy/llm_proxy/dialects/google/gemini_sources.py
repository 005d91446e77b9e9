"""Gemini's sources: the citations of the texts of one candidate, decoded and encoded.

A citation with a license or publication date is a recitation (the text repeats the source); all
others are grounding: chunks are the sources, and supports the passages that refer to them.
Passages are byte offsets in all text of a candidate; the wire leaves out a start of 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import turn_parts
from llm_proxy.dialects.google.citations import (
    LocatedCitation,
    byte_offsets,
    is_valid_span,
    unique_citations,
)
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    compact_json,
    first_integer,
    get_items,
    get_object,
    get_objects,
    get_text,
    metadata_except,
    object_fields,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Json, Part, Reasoning, Text

GROUNDING: Final = "groundingMetadata"
_CHUNKS, _SUPPORTS = "groundingChunks", "groundingSupports"
_RECITATIONS: Final = "citationMetadata"
_RECITATION_METADATA: Final = ("license", "publicationDate")
_RECITATION_FIELDS: Final = ("uri", "title", "startIndex", "endIndex")
_SOURCE_METADATA: Final = {
    "web": ("domain",),
    "retrievedContext": (
        *("documentName", "fileSearchStore", "customMetadata", "ragChunk", "pageNumber"),
        "mediaId",
    ),
    "maps": ("placeId", "placeAnswerSources", "route"),
    "image": ("sourceUri", "imageUri", "domain"),
}
"""The kinds of sources, and the metadata that is sent of each."""
_QUOTING_KINDS: Final = ("retrievedContext", "maps")
"""The kinds of sources that hold the quoted text."""
_SOURCE_FIELDS: Final = ("uri", "title", "text")


def grounding_without_sources(grounding: Json) -> dict[str, Json]:
    """The fields of a grounding other than its sources, which become citations."""
    return dict(metadata_except(object_fields(grounding), (_CHUNKS, _SUPPORTS)))


class SourcesDecoder:
    """Decodes the sources of one candidate, chunk by chunk."""

    def __init__(self) -> None:
        self._located_citations: list[LocatedCitation] = []
        self._sources: list[Citation] = []
        """The latest list of sources, which passages refer to by index."""
        self._cited_indices: set[int] = set()

    def feed(self, candidate: Fields) -> None:
        """Add the recitations and the grounding of a chunk's candidate."""
        fields = get_object(candidate, _RECITATIONS)
        for source in array_objects(fields.get("citationSources") or fields.get("citations")):
            self._located_citations.append(
                LocatedCitation(_decode_recitation(source), *_byte_span(source))
            )
        grounding = get_object(candidate, GROUNDING)
        if chunks := get_objects(grounding, _CHUNKS):
            self._located_citations = self.located_citations()
            self._sources = [_decode_chunk(chunk) for chunk in chunks]
            self._cited_indices.clear()
        for support in get_objects(grounding, _SUPPORTS):
            segment = get_object(support, "segment")
            span = (None, None) if segment.get("partIndex") else _byte_span(segment)
            for value in get_items(support, "groundingChunkIndices"):
                index = first_integer(value)
                if index is not None and 0 <= index < len(self._sources):
                    self._cited_indices.add(index)
                    self._located_citations.append(LocatedCitation(self._sources[index], *span))

    def located_citations(self) -> list[LocatedCitation]:
        """The citations so far; sources to which no passage refers come last, without one."""
        uncited = (
            LocatedCitation(citation)
            for index, citation in enumerate(self._sources)
            if index not in self._cited_indices
        )
        return [*self._located_citations, *uncited]


def _byte_span(segment: Fields) -> tuple[int | None, int | None]:
    start, end = segment.get("startIndex"), segment.get("endIndex")
    return first_integer(start), first_integer(end)


def _decode_recitation(source: Fields) -> Citation:
    return Citation(
        get_text(source, "uri"),
        get_text(source, "title"),
        metadata=metadata_except(source, _RECITATION_FIELDS),
    )


def _decode_chunk(chunk: Fields) -> Citation:
    kind = next((name for name in _SOURCE_METADATA if name in chunk), "")
    fields = get_object(chunk, kind)
    metadata = metadata_except(fields, _SOURCE_FIELDS)
    return Citation(
        url=value_as_text(fields.get("uri") or fields.get("sourceUri")),
        title=get_text(fields, "title"),
        quoted=get_text(fields, "text"),
        metadata=(("type", kind), *metadata) if kind not in ("", "web") else metadata,
    )


def sendable_citations(text: Text) -> tuple[Citation, ...]:
    """The citations of a text as they decode once sent; empty ones are left out."""
    decoded = []
    for citation in text.citations:
        if _is_recitation(citation):
            decoded.append((_decode_recitation(_encode_recitation(citation)), citation.span))
        elif any((chunk := _encode_chunk(citation)).values()):
            decoded.append((_decode_chunk(chunk), citation.span))
    return tuple(replace(citation, span=span) for citation, span in decoded)


def merge_and_place_citations(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Neighbouring texts and thoughts merged, and citations where a decoder finds them.

    A signature ends its part: what follows is not merged with it.  Citations of empty texts go to
    the last text; elsewhere, a citation without a valid span covers its text.
    """
    unplaced: list[Citation] = []
    kept: list[Part] = []
    for part in parts:
        if not isinstance(part, Text) or part.text:
            kept.append(part)
            continue
        unplaced += part.citations
        if part.metadata:
            kept.append(replace(part, citations=()))
    if unplaced and not any(isinstance(part, Text) for part in kept):
        kept.append(Text(""))
    merged = turn_parts.merge_neighbours(kept, (Text, Reasoning), _has_signature)
    last_text = max((at for at, part in enumerate(merged) if isinstance(part, Text)), default=0)
    placed: list[Part] = []
    for at, part in enumerate(merged):
        if not isinstance(part, Text):
            placed.append(part)
            continue
        is_last = at == last_text
        default_span = None if is_last else (0, len(part.text))
        citations = unique_citations(
            citation
            if is_valid_span(citation.span, part.text)
            else replace(citation, span=default_span)
            for citation in (*part.citations, *(unplaced if is_last else ()))
        )
        placed.append(replace(part, citations=citations))
    return tuple(placed)


def _has_signature(part: Part) -> bool:
    return bool(part.signature if isinstance(part, Reasoning) else part.metadata)


def encode_sources(parts: Iterable[Part], recitation_field: str) -> Document:
    """A candidate's fields for sources; `recitation_field` names the list of recitations."""
    recitations: list[Document] = []
    supports: list[Document] = []
    chunks: list[Document] = []
    uncited_chunks: list[Document] = []
    chunk_indices: dict[str, int] = {}
    """The JSON text of each cited chunk -> its index in `chunks`."""
    text_start = 0
    for text in (part for part in parts if isinstance(part, Text)):
        offsets = byte_offsets(text.text)
        for citation in text.citations:
            segment: Document = {}
            if citation.span is not None:
                start, end = (text_start + offsets[at] for at in citation.span)
                segment = {**({"startIndex": start} if start else {}), "endIndex": end}
            if _is_recitation(citation):
                recitations.append({**segment, **_encode_recitation(citation)})
            elif citation.span is None:
                uncited_chunks.append(_encode_chunk(citation))
            else:
                chunk = _encode_chunk(citation)
                index = chunk_indices.setdefault(compact_json(chunk), len(chunks))
                if index == len(chunks):
                    chunks.append(chunk)
                segment["text"] = text.text[slice(*citation.span)]
                if not supports or supports[-1]["segment"] != segment:
                    supports.append({"segment": segment, "groundingChunkIndices": []})
                supports[-1]["groundingChunkIndices"].append(index)
        text_start += offsets[-1]
    grounding = {_CHUNKS: [*chunks, *uncited_chunks], _SUPPORTS: supports}
    fields = {
        _RECITATIONS: {recitation_field: recitations} if recitations else {},
        GROUNDING: {name: values for name, values in grounding.items() if values},
    }
    return {name: value for name, value in fields.items() if value}


def _is_recitation(citation: Citation) -> bool:
    fields = dict(citation.metadata)
    return (
        not citation.quoted
        and "type" not in fields
        and any(fields.get(name) for name in _RECITATION_METADATA)
    )


def _encode_recitation(citation: Citation) -> Document:
    metadata = selected_fields(citation.metadata, _RECITATION_METADATA)
    return _source_fields(citation.url, citation.title) | metadata


def _encode_chunk(citation: Citation) -> Document:
    """A grounding chunk; the URL of an image's page is in `sourceUri` alone."""
    metadata = dict(citation.metadata)
    value = metadata.get("type")
    kind = value if isinstance(value, str) and value in _SOURCE_METADATA else "web"
    names = (name for name in metadata if name in _SOURCE_METADATA[kind])
    fields = selected_fields(metadata, names)
    url = "" if fields.get("sourceUri") == citation.url else citation.url
    quoted = citation.quoted if kind in _QUOTING_KINDS else ""
    return {kind: _source_fields(url, citation.title, quoted) | fields}


def _source_fields(*values: str) -> Document:
    return {name: value for name, value in zip(_SOURCE_FIELDS, values, strict=False) if value}
