"""Encodes the sources of Gemini's text and the passages that cite them.

A text that repeats another says so with a license or a date of publication; all other sources
are of the grounding.  Passages are bytes of all the text of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json, part_merging
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.google.citations import byte_offsets, is_valid_span
from llm_proxy.dialects.google.content_decoder import GROUNDING, SOURCES, SUPPORT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Metadata, Part, Reasoning, Text

_RECITED: Final = ("license", "publicationDate")
_WEB: Final = SOURCES[0]
_OF_KIND: Final = {
    "web": ("domain",),
    "retrievedContext": (
        *("documentName", "fileSearchStore", "customMetadata", "ragChunk", "pageNumber"),
        "mediaId",
    ),
    "maps": ("placeId", "placeAnswerSources", "route"),
    "image": ("sourceUri", "imageUri", "domain"),
}
_WITH_TEXT: Final = ("retrievedContext", "maps")
"""The kinds of sources that quote."""


def convert_citation(citation: Citation) -> Citation | None:
    """A citation as it can be told; None where it says nothing."""
    if _is_recitation(citation):
        return Citation(
            citation.url,
            citation.title,
            span=citation.span,
            metadata=nonempty_metadata(citation.metadata, _RECITED),
        )
    kind = _source_kind(citation)
    fields = dict(citation.metadata)
    rest = lenient_json.named_metadata(fields, (name for name in fields if name in _OF_KIND[kind]))
    quoted = citation.quoted if kind in _WITH_TEXT else ""
    if not (citation.url or citation.title or quoted or rest):
        return None
    marked: Metadata = (("type", kind),) if kind != _WEB else ()
    url = citation.url or lenient_json.printable_text(dict(rest).get("sourceUri"))
    return Citation(url, citation.title, quoted, citation.span, (*marked, *rest))


def merge_and_place_citations(
    parts: Iterable[Part], is_sealed: Callable[[Part], bool]
) -> tuple[Part, ...]:
    """Parts of which neighbours are joined up to a seal, with citations where they are read.

    What names no passage stands at the last text, behind what does.
    """
    loose: list[Citation] = []
    items: list[Part] = []
    for part in parts:
        if not isinstance(part, Text) or part.text:
            items.append(part)
            continue
        loose += part.citations
        items += [replace(part, citations=())] * bool(part.metadata)
    if loose and not any(isinstance(part, Text) for part in items):
        items.append(Text(""))
    joined = part_merging.merge_neighbours(items, (Text, Reasoning), is_sealed)
    last = max((at for at, part in enumerate(joined) if isinstance(part, Text)), default=None)
    return tuple(
        _dedupe_citations(
            part, [*part.citations, *(loose if at == last else ())], is_last=at == last
        )
        if isinstance(part, Text)
        else part
        for at, part in enumerate(joined)
    )


def _dedupe_citations(text: Text, citations: Iterable[Citation], *, is_last: bool) -> Text:
    everywhere = None if is_last else (0, len(text.text))
    placed = (
        replace(
            citation, span=citation.span if is_valid_span(citation.span, text.text) else everywhere
        )
        for citation in citations
    )
    once: dict[tuple[object, ...], Citation] = {}
    for citation in placed:
        once.setdefault((citation.url, citation.title, citation.quoted, citation.span), citation)
    return replace(text, citations=tuple(sorted(once.values(), key=_citation_sort_key)))


def _citation_sort_key(citation: Citation) -> int:
    """Recitals are read first, and last what names no passage."""
    if _is_recitation(citation):
        return 0
    return 1 if citation.span else 2


def _is_recitation(citation: Citation) -> bool:
    fields = dict(citation.metadata)
    return (
        not citation.quoted and "type" not in fields and any(fields.get(name) for name in _RECITED)
    )


def _source_kind(citation: Citation) -> str:
    kind = dict(citation.metadata).get("type")
    return kind if isinstance(kind, str) and kind in _OF_KIND else _WEB


def source_fields(parts: Iterable[Part], recitation_field: str) -> Document:
    """What a candidate says of the sources of its text; `recited` names the list of recitals."""
    sources = _CandidateSources()
    start = 0
    for text in (part for part in parts if isinstance(part, Text)):
        offsets = byte_offsets(text.text)
        for citation in text.citations:
            sources.add_citation(citation, text.text, offsets, start)
        start += offsets[-1]
    return sources.source_fields(recitation_field)


class _CandidateSources:
    """The sources of one candidate, in the order in which they are read."""

    def __init__(self) -> None:
        self._recitations: list[Document] = []
        self._supports: list[Document] = []
        self._named_sources: dict[str, int] = {}
        """For each source that a passage names, its place."""
        self._chunks: list[Document] = []
        self._uncited_sources: list[Document] = []

    def add_citation(
        self, citation: Citation, text: str, offsets: Sequence[int], start: int
    ) -> None:
        """Take a citation of a text that begins `start` bytes into all text."""
        passage: Document = {}
        if citation.span is not None:
            begin, end = (start + offsets[at] for at in citation.span)
            passage = {**({"startIndex": begin} if begin else {}), "endIndex": end}
        if _is_recitation(citation):
            source: Document = {**passage, **_web_source(citation), **dict(citation.metadata)}
            self._recitations.append(source)
        elif citation.span is None:
            self._uncited_sources.append(_grounding_chunk(citation))
        else:
            self._add_support(
                {**passage, "text": text[slice(*citation.span)]}, self._source_index(citation)
            )

    def _source_index(self, citation: Citation) -> int:
        chunk = _grounding_chunk(citation)
        place = self._named_sources.setdefault(lenient_json.compact_json(chunk), len(self._chunks))
        if place == len(self._chunks):
            self._chunks.append(chunk)
        return place

    def _add_support(self, segment: Document, source: int) -> None:
        """A passage that rests on a source; one passage may rest on several."""
        if self._supports and self._supports[-1]["segment"] == segment:
            self._supports[-1]["groundingChunkIndices"].append(source)
        else:
            self._supports.append({"segment": segment, "groundingChunkIndices": [source]})

    def source_fields(self, recitation_field: str) -> Document:
        """The fields of the candidate."""
        chunks = [*self._chunks, *self._uncited_sources]
        grounding: Document = {
            **({SUPPORT[0]: chunks} if chunks else {}),
            **({SUPPORT[1]: self._supports} if self._supports else {}),
        }
        return {
            **(
                {"citationMetadata": {recitation_field: self._recitations}}
                if self._recitations
                else {}
            ),
            **({GROUNDING: grounding} if grounding else {}),
        }


def _web_source(citation: Citation) -> Document:
    return {
        **({"uri": citation.url} if citation.url else {}),
        **({"title": citation.title} if citation.title else {}),
    }


def _grounding_chunk(citation: Citation) -> Document:
    """A source; an image names itself by the page that it is of."""
    kind = _source_kind(citation)
    document: Document = {name: value for name, value in citation.metadata if name != "type"}
    page = _web_source(citation)
    if document.get("sourceUri") == citation.url:
        page.pop("uri", None)
    quoted: Document = {"text": citation.quoted} if citation.quoted else {}
    return {kind: {**page, **quoted, **document}}
