"""Decodes a candidate's content: parts, whole or growing, and their sources."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google.citations import LocatedCitation, attach_citations
from llm_proxy.dialects.google.streamed_arguments import StreamedArguments
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


def part_output_chars(part: Fields) -> int:
    """How many characters a part adds to what was said; whatever is no text is one at least.

    A seal adds none.
    """
    if text := lenient_json.str_or_empty(part.get("text")):
        return len(text)
    call = lenient_json.object_fields(part.get("functionCall"))
    code = lenient_json.object_fields(part.get("executableCode"))
    name, arguments = lenient_json.printable_text(call.get("name")), call.get("args")
    spelled = (
        name
        + (lenient_json.compact_json(arguments) if arguments else "")
        + lenient_json.printable_text(code.get("code"))
    )
    return max(len(spelled), int(not _ALL_BUT_TEXT.isdisjoint(part)))


class CandidateContentDecoder:
    """The parts of one candidate, as its chunks come."""

    def __init__(self) -> None:
        self.calls = False
        """Whether the model asks its client for a call."""
        self._fragments = FragmentJoiner()
        self._run_kind = 0
        """Counts the parts, as far as fragments of text and thoughts go into one."""
        self._latest: type[Part] | None = None
        self._open_call: tuple[int, StreamedArguments] | None = None
        """The call whose arguments are streamed."""
        self._cited: list[LocatedCitation] = []
        self._sources: list[Citation] = []
        """What the passages of this chunk, and of those after it, name by its place."""
        self._named_sources: set[int] = set()

    def feed(self, part: Fields) -> None:
        """Read one part, of whatever kind; an unknown one is left out."""
        kind = next((name for name in KNOWN if name in part), "")
        metadata = lenient_json.named_metadata(part, OF_PART)
        inner = lenient_json.object_fields(part.get(kind))
        match kind:
            case "text":
                self._feed_text(part, metadata)
            case "functionCall":
                self._feed_function_call(inner, metadata)
            case "inlineData" | "fileData":
                thought: Metadata = (("thought", True),) if part.get("thought") is True else ()
                self._feed_media(decode_media(inner, (*metadata, *thought)))
            case "":
                pass
            case _:
                self._add_fragment(decode_server_tool(kind, inner, metadata), None)

    def feed_grounding(self, candidate: Fields) -> None:
        """Read the sources of a chunk's candidate, in both spellings."""
        fields = lenient_json.object_fields(candidate.get("citationMetadata"))
        for source in lenient_json.object_items(
            fields.get("citationSources") or fields.get("citations")
        ):
            self._cited.append(_decode_recitation(source))
        grounding = lenient_json.object_fields(candidate.get(GROUNDING))
        if chunks := lenient_json.object_items(grounding.get(SUPPORT[0])):
            self._cited += self._uncited_sources()
            self._sources = [_decode_source(chunk) for chunk in chunks]
            self._named_sources.clear()
        for support in lenient_json.object_items(grounding.get(SUPPORT[1])):
            self._add_support(support)

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        self._close_open_call()
        return attach_citations(
            self._fragments.joined_parts(), [*self._cited, *self._uncited_sources()]
        )

    def _add_support(self, support: Fields) -> None:
        segment = lenient_json.object_fields(support.get("segment"))
        start, end = (None, None) if segment.get("partIndex") else _segment_span(segment)
        for index in map(
            lenient_json.first_count, lenient_json.array_items(support.get("groundingChunkIndices"))
        ):
            if index is not None and 0 <= index < len(self._sources):
                self._named_sources.add(index)
                self._cited.append(LocatedCitation(self._sources[index], start, end))

    def _uncited_sources(self) -> list[LocatedCitation]:
        return [
            LocatedCitation(citation)
            for at, citation in enumerate(self._sources)
            if at not in self._named_sources
        ]

    def _feed_text(self, part: Fields, metadata: Metadata) -> None:
        """Text or a thought; a signature ends the part that it seals."""
        text = lenient_json.str_or_empty(part.get("text"))
        signature = lenient_json.str_or_empty(part.get("thoughtSignature"))
        if not text and not metadata:
            return
        if part.get("thought") is True:
            rest = tuple(values for values in metadata if values[0] != "thoughtSignature")
            fragment: Part = Reasoning(text, signature or None, metadata=rest)
        else:
            fragment = Text(text, metadata=metadata)
        if self._latest is not type(fragment):
            self._run_kind += 1
        self._add_fragment(fragment, self._run_kind)
        if signature:
            self._run_kind += 1

    def _feed_function_call(self, call: Fields, metadata: Metadata) -> None:
        """A whole call; or one that opens with its name, grows, and closes without a name."""
        name, continues = (
            lenient_json.printable_text(call.get("name")),
            call.get("willContinue") is True,
        )
        if name or "args" in call or self._open_call is None:
            self._close_open_call()
            if not call:
                return
            self._run_kind += 1
            grows = continues or "partialArgs" in call
            spelled = "" if grows else lenient_json.compact_json(call.get("args") or {})
            self._add_fragment(
                ToolCall(lenient_json.printable_text(call.get("id")), name, spelled, metadata),
                self._run_kind,
            )
            self._open_call = (self._run_kind, StreamedArguments()) if grows else None
            self.calls = True
        if self._open_call is not None:
            for partial in lenient_json.object_items(call.get("partialArgs")):
                self._open_call[1].feed(partial)
            if not continues:
                self._close_open_call()

    def _close_open_call(self) -> None:
        if self._open_call is not None:
            key, arguments = self._open_call
            self._fragments.add(ToolCall("", "", arguments.json_text()), key)
            self._open_call = None

    def _feed_media(self, media: Media) -> None:
        """An image is whole; sound comes in pieces."""
        is_sound = media.media_type.startswith("audio/") and not media.url
        self._add_fragment(media, media.media_type if is_sound else None)

    def _add_fragment(self, fragment: Part, key: int | str | None) -> None:
        self._latest = type(fragment)
        self._fragments.add(fragment, key)


def decode_server_tool(kind: str, inner: Fields, metadata: Metadata = ()) -> Part:
    """A tool that Google runs, or a client's result that is told again."""
    identity = lenient_json.printable_text(inner.get("id"))
    marked: Metadata = (("type", kind), *metadata)
    match kind:
        case "executableCode":
            fields = {name: value for name, value in inner.items() if name != "id"}
            return ToolCall(identity, CODE, lenient_json.compact_json(fields), marked)
        case "codeExecutionResult":
            failed = inner.get("outcome") not in WENT_WELL
            text = lenient_json.printable_text(inner.get("output"))
            outcome = lenient_json.named_metadata(inner, ("outcome",))
            return ToolResult(identity, text, CODE, failed, (*marked, *outcome))
        case "toolCall":
            spelled = lenient_json.compact_json(inner.get("args") or {})
            return ToolCall(
                identity, lenient_json.printable_text(inner.get("toolType")), spelled, marked
            )
        case _:
            name = lenient_json.printable_text(inner.get("toolType") or inner.get("name"))
            text = lenient_json.printable_text(inner.get("response"))
            return ToolResult(identity, text, name, metadata=marked)


def decode_media(blob: Fields, metadata: Metadata = ()) -> Media:
    """Inline, or a file of Google's."""
    return Media(
        media_type=lenient_json.printable_text(blob.get("mimeType")),
        url=lenient_json.printable_text(blob.get("fileUri")),
        base64=lenient_json.printable_text(blob.get("data")),
        metadata=(*lenient_json.named_metadata(blob, ("displayName",)), *metadata),
    )


def _decode_recitation(source: Fields) -> LocatedCitation:
    metadata = lenient_json.named_metadata(
        source, (name for name in source if name not in _OF_CITATION)
    )
    citation = Citation(
        lenient_json.printable_text(source.get("uri")),
        lenient_json.printable_text(source.get("title")),
        metadata=metadata,
    )
    return LocatedCitation(citation, *_segment_span(source))


def _segment_span(segment: Fields) -> tuple[int | None, int | None]:
    """Bytes of the text; a start of 0 is left out on the wire."""
    return lenient_json.first_count(segment.get("startIndex")), lenient_json.first_count(
        segment.get("endIndex")
    )


def _decode_source(chunk: Fields) -> Citation:
    kind = next((name for name in SOURCES if name in chunk), "")
    fields = lenient_json.object_fields(chunk.get(kind))
    rest = lenient_json.named_metadata(fields, (name for name in fields if name not in _OF_SOURCE))
    return Citation(
        url=lenient_json.printable_text(fields.get("uri") or fields.get("sourceUri")),
        title=lenient_json.printable_text(fields.get("title")),
        quoted=lenient_json.printable_text(fields.get("text")),
        metadata=(("type", kind), *rest) if kind and kind != "web" else rest,
    )
