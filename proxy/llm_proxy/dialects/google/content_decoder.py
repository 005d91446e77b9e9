"""The content of a Gemini candidate: parts, whole or growing, and the sources of its text."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.google.citations import Cited, cite
from llm_proxy.dialects.google.streamed_arguments import Arguments
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

KNOWN: Final = (
    "text",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "inlineData",
    "fileData",
)
"""The fields of which a part has one, which says what it is."""

CODE: Final = "code_execution"
"""What clients call the tool that runs code."""
WENT_WELL: Final = ("OUTCOME_OK", 1, None)
"""Outcomes of code; clients may ask for enums as numbers."""
GROUNDING: Final = "groundingMetadata"
SUPPORT: Final = ("groundingChunks", "groundingSupports")
"""What a grounding says of sources, and of the passages that name them."""

OF_PART: Final = ("thoughtSignature", "mediaResolution", "videoMetadata", "partMetadata")
SOURCES: Final = ("web", "retrievedContext", "maps", "image")
_OF_SOURCE: Final = ("uri", "title", "text")
_OF_CITATION: Final = ("uri", "title", "startIndex", "endIndex")


_ALL_BUT_TEXT: Final = frozenset(KNOWN[1:])


def says(part: Fields) -> int:
    """How many characters a part adds to what was said; whatever is no text is one at least.

    A seal adds none.
    """
    if text := lenient_json.text(part.get("text")):
        return len(text)
    call = lenient_json.fields(part.get("functionCall"))
    code = lenient_json.fields(part.get("executableCode"))
    name, arguments = lenient_json.words(call.get("name")), call.get("args")
    spelled = (
        name
        + (lenient_json.compact(arguments) if arguments else "")
        + lenient_json.words(code.get("code"))
    )
    return max(len(spelled), int(not _ALL_BUT_TEXT.isdisjoint(part)))


class Content:
    """The parts of one candidate, as its chunks come."""

    def __init__(self) -> None:
        self.calls = False
        """Whether the model asks its client for a call."""
        self._fragments = Fragments()
        self._run = 0
        """Counts the parts, as far as fragments of text and thoughts go into one."""
        self._latest: type[Part] | None = None
        self._open: tuple[int, Arguments] | None = None
        """The call whose arguments are streamed."""
        self._cited: list[Cited] = []
        self._sources: list[Citation] = []
        """What the passages of this chunk, and of those after it, name by its place."""
        self._named: set[int] = set()

    def take(self, part: Fields) -> None:
        """Read one part, of whatever kind; an unknown one is left out."""
        kind = next((name for name in KNOWN if name in part), "")
        beside = lenient_json.metadata(part, OF_PART)
        inner = lenient_json.fields(part.get(kind))
        match kind:
            case "text":
                self._say(part, beside)
            case "functionCall":
                self._call(inner, beside)
            case "inlineData" | "fileData":
                thought: Metadata = (("thought", True),) if part.get("thought") is True else ()
                self._show(media(inner, (*beside, *thought)))
            case "":
                pass
            case _:
                self._put(of_server(kind, inner, beside), None)

    def ground(self, candidate: Fields) -> None:
        """Read the sources of a chunk's candidate, in both spellings."""
        said = lenient_json.fields(candidate.get("citationMetadata"))
        for source in lenient_json.objects(said.get("citationSources") or said.get("citations")):
            self._cited.append(_citation(source))
        grounding = lenient_json.fields(candidate.get(GROUNDING))
        if chunks := lenient_json.objects(grounding.get(SUPPORT[0])):
            self._cited += self._unnamed()
            self._sources = [_source(it) for it in chunks]
            self._named.clear()
        for support in lenient_json.objects(grounding.get(SUPPORT[1])):
            self._support(support)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        self._close()
        return cite(self._fragments.parts(), [*self._cited, *self._unnamed()])

    def _support(self, support: Fields) -> None:
        """A passage with each of its sources."""
        segment = lenient_json.fields(support.get("segment"))
        start, end = (None, None) if segment.get("partIndex") else _passage(segment)
        for index in map(
            lenient_json.count, lenient_json.array(support.get("groundingChunkIndices"))
        ):
            if index is not None and 0 <= index < len(self._sources):
                self._named.add(index)
                self._cited.append(Cited(self._sources[index], start, end))

    def _unnamed(self) -> list[Cited]:
        """The sources that no passage names."""
        return [Cited(it) for at, it in enumerate(self._sources) if at not in self._named]

    def _say(self, part: Fields, beside: Metadata) -> None:
        """Text or a thought; a signature ends the part that it seals."""
        said = lenient_json.text(part.get("text"))
        signature = lenient_json.text(part.get("thoughtSignature"))
        if not said and not beside:
            return
        if part.get("thought") is True:
            rest = tuple(it for it in beside if it[0] != "thoughtSignature")
            fragment: Part = Reasoning(said, signature or None, metadata=rest)
        else:
            fragment = Text(said, metadata=beside)
        if self._latest is not type(fragment):
            self._run += 1
        self._put(fragment, self._run)
        if signature:
            self._run += 1

    def _call(self, call: Fields, beside: Metadata) -> None:
        """A whole call; or one that opens with its name, grows, and closes without a name."""
        name, continues = lenient_json.words(call.get("name")), call.get("willContinue") is True
        if name or "args" in call or self._open is None:
            self._close()
            if not call:
                return
            self._run += 1
            grows = continues or "partialArgs" in call
            spelled = "" if grows else lenient_json.compact(call.get("args") or {})
            self._put(
                ToolCall(lenient_json.words(call.get("id")), name, spelled, beside), self._run
            )
            self._open = (self._run, Arguments()) if grows else None
            self.calls = True
        if self._open is not None:
            for partial in lenient_json.objects(call.get("partialArgs")):
                self._open[1].take(partial)
            if not continues:
                self._close()

    def _close(self) -> None:
        """Say the arguments of the call that is open."""
        if self._open is not None:
            key, arguments = self._open
            self._fragments.add(ToolCall("", "", arguments.spelled()), key)
            self._open = None

    def _show(self, media: Media) -> None:
        """An image is whole; sound comes in pieces."""
        is_sound = media.media_type.startswith("audio/") and not media.url
        self._put(media, media.media_type if is_sound else None)

    def _put(self, fragment: Part, key: int | str | None) -> None:
        self._latest = type(fragment)
        self._fragments.add(fragment, key)


def of_server(kind: str, inner: Fields, beside: Metadata = ()) -> Part:
    """A tool that Google runs, or a client's result that is told again."""
    identity = lenient_json.words(inner.get("id"))
    marked: Metadata = (("type", kind), *beside)
    match kind:
        case "executableCode":
            asked = {name: value for name, value in inner.items() if name != "id"}
            return ToolCall(identity, CODE, lenient_json.compact(asked), marked)
        case "codeExecutionResult":
            failed = inner.get("outcome") not in WENT_WELL
            said = lenient_json.words(inner.get("output"))
            outcome = lenient_json.metadata(inner, ("outcome",))
            return ToolResult(identity, said, CODE, failed, (*marked, *outcome))
        case "toolCall":
            spelled = lenient_json.compact(inner.get("args") or {})
            return ToolCall(identity, lenient_json.words(inner.get("toolType")), spelled, marked)
        case _:
            name = lenient_json.words(inner.get("toolType") or inner.get("name"))
            said = lenient_json.words(inner.get("response"))
            return ToolResult(identity, said, name, metadata=marked)


def media(blob: Fields, beside: Metadata = ()) -> Media:
    """Inline, or a file of Google's."""
    return Media(
        media_type=lenient_json.words(blob.get("mimeType")),
        url=lenient_json.words(blob.get("fileUri")),
        base64=lenient_json.words(blob.get("data")),
        metadata=(*lenient_json.metadata(blob, ("displayName",)), *beside),
    )


def _citation(source: Fields) -> Cited:
    """A source that the text repeats."""
    about = lenient_json.metadata(source, (name for name in source if name not in _OF_CITATION))
    citation = Citation(
        lenient_json.words(source.get("uri")),
        lenient_json.words(source.get("title")),
        metadata=about,
    )
    return Cited(citation, *_passage(source))


def _passage(segment: Fields) -> tuple[int | None, int | None]:
    """Bytes of the text; a start of 0 is left out on the wire."""
    return lenient_json.count(segment.get("startIndex")), lenient_json.count(
        segment.get("endIndex")
    )


def _source(chunk: Fields) -> Citation:
    """A page, a document or a place."""
    kind = next((name for name in SOURCES if name in chunk), "")
    about = lenient_json.fields(chunk.get(kind))
    rest = lenient_json.metadata(about, (name for name in about if name not in _OF_SOURCE))
    return Citation(
        url=lenient_json.words(about.get("uri") or about.get("sourceUri")),
        title=lenient_json.words(about.get("title")),
        quoted=lenient_json.words(about.get("text")),
        metadata=(("type", kind), *rest) if kind and kind != "web" else rest,
    )
