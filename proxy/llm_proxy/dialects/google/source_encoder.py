"""What the text of Gemini rests on, as it is told: sources, and the passages that name them.

A text that repeats another says so with a license or a date of publication; all other sources
are of the grounding.  Passages are bytes of all the text of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json, part_merging
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.google.citations import byte_offsets, is_span
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


def told(it: Citation) -> Citation | None:
    """A citation as it can be told; None where it says nothing."""
    if _is_recital(it):
        return Citation(it.url, it.title, span=it.span, metadata=kept(it.metadata, _RECITED))
    kind = _kind(it)
    about = dict(it.metadata)
    rest = lenient_json.metadata(about, (name for name in about if name in _OF_KIND[kind]))
    quoted = it.quoted if kind in _WITH_TEXT else ""
    if not (it.url or it.title or quoted or rest):
        return None
    marked: Metadata = (("type", kind),) if kind != _WEB else ()
    url = it.url or lenient_json.words(dict(rest).get("sourceUri"))
    return Citation(url, it.title, quoted, it.span, (*marked, *rest))


def settled(parts: Iterable[Part], is_sealed: Callable[[Part], bool]) -> tuple[Part, ...]:
    """Parts of which neighbours are joined up to a seal, with citations where they are read.

    What names no passage stands at the last text, behind what does.
    """
    loose: list[Citation] = []
    said: list[Part] = []
    for part in parts:
        if not isinstance(part, Text) or part.text:
            said.append(part)
            continue
        loose += part.citations
        said += [replace(part, citations=())] * bool(part.metadata)
    if loose and not any(isinstance(part, Text) for part in said):
        said.append(Text(""))
    joined = part_merging.neighbours(said, (Text, Reasoning), is_sealed)
    last = max((at for at, part in enumerate(joined) if isinstance(part, Text)), default=None)
    return tuple(
        _cited(part, [*part.citations, *(loose if at == last else ())], is_last=at == last)
        if isinstance(part, Text)
        else part
        for at, part in enumerate(joined)
    )


def _cited(text: Text, citations: Iterable[Citation], *, is_last: bool) -> Text:
    """A text with each of its citations once."""
    everywhere = None if is_last else (0, len(text.text))
    placed = (
        replace(it, span=it.span if is_span(it.span, text.text) else everywhere) for it in citations
    )
    once: dict[tuple[object, ...], Citation] = {}
    for it in placed:
        once.setdefault((it.url, it.title, it.quoted, it.span), it)
    return replace(text, citations=tuple(sorted(once.values(), key=_place)))


def _place(it: Citation) -> int:
    """Recitals are read first, and last what names no passage."""
    if _is_recital(it):
        return 0
    return 1 if it.span else 2


def _is_recital(it: Citation) -> bool:
    about = dict(it.metadata)
    return not it.quoted and "type" not in about and any(about.get(name) for name in _RECITED)


def _kind(it: Citation) -> str:
    kind = dict(it.metadata).get("type")
    return kind if isinstance(kind, str) and kind in _OF_KIND else _WEB


def fields(parts: Iterable[Part], recited: str) -> Document:
    """What a candidate says of the sources of its text; `recited` names the list of recitals."""
    sources = _Sources()
    start = 0
    for text in (part for part in parts if isinstance(part, Text)):
        offsets = byte_offsets(text.text)
        for it in text.citations:
            sources.add(it, text.text, offsets, start)
        start += offsets[-1]
    return sources.fields(recited)


class _Sources:
    """The sources of one candidate, in the order in which they are read."""

    def __init__(self) -> None:
        self._recitals: list[Document] = []
        self._supports: list[Document] = []
        self._named: dict[str, int] = {}
        """For each source that a passage names, its place."""
        self._chunks: list[Document] = []
        self._unnamed: list[Document] = []

    def add(self, it: Citation, text: str, offsets: Sequence[int], start: int) -> None:
        """Take a citation of a text that begins `start` bytes into all text."""
        passage: Document = {}
        if it.span is not None:
            begin, end = (start + offsets[at] for at in it.span)
            passage = {**({"startIndex": begin} if begin else {}), "endIndex": end}
        if _is_recital(it):
            source: Document = {**passage, **_page(it), **dict(it.metadata)}
            self._recitals.append(source)
        elif it.span is None:
            self._unnamed.append(_chunk(it))
        else:
            self._support({**passage, "text": text[slice(*it.span)]}, self._name(it))

    def _name(self, it: Citation) -> int:
        """The place of a source among all."""
        chunk = _chunk(it)
        place = self._named.setdefault(lenient_json.compact(chunk), len(self._chunks))
        if place == len(self._chunks):
            self._chunks.append(chunk)
        return place

    def _support(self, segment: Document, source: int) -> None:
        """A passage that rests on a source; one passage may rest on several."""
        if self._supports and self._supports[-1]["segment"] == segment:
            self._supports[-1]["groundingChunkIndices"].append(source)
        else:
            self._supports.append({"segment": segment, "groundingChunkIndices": [source]})

    def fields(self, recited: str) -> Document:
        """The fields of the candidate."""
        chunks = [*self._chunks, *self._unnamed]
        grounding: Document = {
            **({SUPPORT[0]: chunks} if chunks else {}),
            **({SUPPORT[1]: self._supports} if self._supports else {}),
        }
        return {
            **({"citationMetadata": {recited: self._recitals}} if self._recitals else {}),
            **({GROUNDING: grounding} if grounding else {}),
        }


def _page(it: Citation) -> Document:
    return {
        **({"uri": it.url} if it.url else {}),
        **({"title": it.title} if it.title else {}),
    }


def _chunk(it: Citation) -> Document:
    """A source; an image names itself by the page that it is of."""
    kind = _kind(it)
    about: Document = {name: value for name, value in it.metadata if name != "type"}
    page = _page(it)
    if about.get("sourceUri") == it.url:
        page.pop("uri", None)
    quoted: Document = {"text": it.quoted} if it.quoted else {}
    return {kind: {**page, **quoted, **about}}
