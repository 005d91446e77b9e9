"""Decodes a candidate's content, whole or streamed: its parts and their citations."""

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

PART_KINDS: Final = (
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
"""The fields of which a part has exactly one, which is its kind."""

CODE_TOOL: Final = "code_execution"
"""The tool name of code that Google runs."""
SUCCESS_OUTCOMES: Final = ("OUTCOME_OK", 1, None)
"""Outcomes of successful code; clients may request enums as numbers."""
GROUNDING_FIELD: Final = "groundingMetadata"
GROUNDING_SOURCE_FIELDS: Final = ("groundingChunks", "groundingSupports")
"""The fields of a grounding for sources, and for the passages that refer to them."""

PART_METADATA: Final = ("thoughtSignature", "mediaResolution", "videoMetadata", "partMetadata")
SOURCE_KINDS: Final = ("web", "retrievedContext", "maps", "image")
_SOURCE_FIELDS: Final = ("uri", "title", "text")
_CITATION_FIELDS: Final = ("uri", "title", "startIndex", "endIndex")


_NON_TEXT_KINDS: Final = frozenset(PART_KINDS[1:])


def part_output_chars(part: Fields) -> int:
    """The output characters of a part; one without text counts as at least one.

    A signature counts nothing.
    """
    if text := lenient_json.str_or_empty(part.get("text")):
        return len(text)
    call = lenient_json.object_fields(part.get("functionCall"))
    code = lenient_json.object_fields(part.get("executableCode"))
    name, arguments = lenient_json.value_as_text(call.get("name")), call.get("args")
    counted_text = (
        name
        + (lenient_json.compact_json(arguments) if arguments else "")
        + lenient_json.value_as_text(code.get("code"))
    )
    return max(len(counted_text), int(not _NON_TEXT_KINDS.isdisjoint(part)))


class CandidateContentDecoder:
    """Decodes the content of one candidate, chunk by chunk."""

    def __init__(self) -> None:
        self.has_client_call = False
        """Whether the model calls a tool of the client."""
        self._fragments = FragmentJoiner()
        self._part_key = 0
        """The key of the current part; text fragments with the same key become one part."""
        self._latest_kind: type[Part] | None = None
        self._open_call: tuple[int, StreamedArguments] | None = None
        """The key and the arguments of the call that is being streamed."""
        self._located_citations: list[LocatedCitation] = []
        self._sources: list[Citation] = []
        """The latest list of sources, which passages refer to by index."""
        self._cited_source_indices: set[int] = set()

    def feed(self, part: Fields) -> None:
        """Add one part; one of an unknown kind is ignored."""
        kind = next((name for name in PART_KINDS if name in part), "")
        metadata = lenient_json.select_metadata(part, PART_METADATA)
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
                self._add_fragment(decode_server_tool_part(kind, inner, metadata), None)

    def feed_grounding(self, candidate: Fields) -> None:
        """Add the citations of a chunk's candidate: recitations and grounding."""
        fields = lenient_json.object_fields(candidate.get("citationMetadata"))
        for source in lenient_json.array_objects(
            fields.get("citationSources") or fields.get("citations")
        ):
            self._located_citations.append(_decode_recitation(source))
        grounding = lenient_json.object_fields(candidate.get(GROUNDING_FIELD))
        if chunks := lenient_json.array_objects(grounding.get(GROUNDING_SOURCE_FIELDS[0])):
            self._located_citations += self._uncited_sources()
            self._sources = [_decode_source(chunk) for chunk in chunks]
            self._cited_source_indices.clear()
        for support in lenient_json.array_objects(grounding.get(GROUNDING_SOURCE_FIELDS[1])):
            self._add_support(support)

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts, with their citations."""
        self._close_open_call()
        return attach_citations(
            self._fragments.joined_parts(), [*self._located_citations, *self._uncited_sources()]
        )

    def _add_support(self, support: Fields) -> None:
        segment = lenient_json.object_fields(support.get("segment"))
        start, end = (None, None) if segment.get("partIndex") else _segment_byte_span(segment)
        for index in map(
            lenient_json.first_integer,
            lenient_json.array_items(support.get("groundingChunkIndices")),
        ):
            if index is not None and 0 <= index < len(self._sources):
                self._cited_source_indices.add(index)
                self._located_citations.append(LocatedCitation(self._sources[index], start, end))

    def _uncited_sources(self) -> list[LocatedCitation]:
        return [
            LocatedCitation(citation)
            for index, citation in enumerate(self._sources)
            if index not in self._cited_source_indices
        ]

    def _feed_text(self, part: Fields, metadata: Metadata) -> None:
        """Text or a thought; a signature ends its part."""
        text = lenient_json.str_or_empty(part.get("text"))
        signature = lenient_json.str_or_empty(part.get("thoughtSignature"))
        if not text and not metadata:
            return
        if part.get("thought") is True:
            other_metadata = tuple(pair for pair in metadata if pair[0] != "thoughtSignature")
            fragment: Part = Reasoning(text, signature or None, metadata=other_metadata)
        else:
            fragment = Text(text, metadata=metadata)
        if self._latest_kind is not type(fragment):
            self._part_key += 1
        self._add_fragment(fragment, self._part_key)
        if signature:
            self._part_key += 1

    def _feed_function_call(self, call: Fields, metadata: Metadata) -> None:
        """A whole call, or a streamed one: first with a name, then increments without."""
        name, will_continue = (
            lenient_json.value_as_text(call.get("name")),
            call.get("willContinue") is True,
        )
        if name or "args" in call or self._open_call is None:
            self._close_open_call()
            if not call:
                return
            self._part_key += 1
            is_streamed = will_continue or "partialArgs" in call
            arguments = "" if is_streamed else lenient_json.compact_json(call.get("args") or {})
            self._add_fragment(
                ToolCall(lenient_json.value_as_text(call.get("id")), name, arguments, metadata),
                self._part_key,
            )
            self._open_call = (self._part_key, StreamedArguments()) if is_streamed else None
            self.has_client_call = True
        if self._open_call is not None:
            for partial in lenient_json.array_objects(call.get("partialArgs")):
                self._open_call[1].feed(partial)
            if not will_continue:
                self._close_open_call()

    def _close_open_call(self) -> None:
        if self._open_call is not None:
            key, arguments = self._open_call
            self._fragments.add_fragment(ToolCall("", "", arguments.json_text()), key)
            self._open_call = None

    def _feed_media(self, media: Media) -> None:
        """Images are whole; inline audio comes in pieces, which are joined."""
        is_audio = media.media_type.startswith("audio/") and not media.url
        self._add_fragment(media, media.media_type if is_audio else None)

    def _add_fragment(self, fragment: Part, key: int | str | None) -> None:
        self._latest_kind = type(fragment)
        self._fragments.add_fragment(fragment, key)


def decode_server_tool_part(kind: str, inner: Fields, metadata: Metadata = ()) -> Part:
    """A call or result of a tool that Google runs, or a result (`functionResponse`) of a client."""
    call_id = lenient_json.value_as_text(inner.get("id"))
    kind_metadata: Metadata = (("type", kind), *metadata)
    match kind:
        case "executableCode":
            fields = {name: value for name, value in inner.items() if name != "id"}
            return ToolCall(call_id, CODE_TOOL, lenient_json.compact_json(fields), kind_metadata)
        case "codeExecutionResult":
            failed = inner.get("outcome") not in SUCCESS_OUTCOMES
            text = lenient_json.value_as_text(inner.get("output"))
            outcome = lenient_json.select_metadata(inner, ("outcome",))
            return ToolResult(call_id, text, CODE_TOOL, failed, (*kind_metadata, *outcome))
        case "toolCall":
            arguments = lenient_json.compact_json(inner.get("args") or {})
            return ToolCall(
                call_id,
                lenient_json.value_as_text(inner.get("toolType")),
                arguments,
                kind_metadata,
            )
        case _:
            name = lenient_json.value_as_text(inner.get("toolType") or inner.get("name"))
            text = lenient_json.value_as_text(inner.get("response"))
            return ToolResult(call_id, text, name, metadata=kind_metadata)


def decode_media(blob: Fields, metadata: Metadata = ()) -> Media:
    """Media, inline or as a file of Google's."""
    return Media(
        media_type=lenient_json.value_as_text(blob.get("mimeType")),
        url=lenient_json.value_as_text(blob.get("fileUri")),
        base64=lenient_json.value_as_text(blob.get("data")),
        metadata=(*lenient_json.select_metadata(blob, ("displayName",)), *metadata),
    )


def _decode_recitation(source: Fields) -> LocatedCitation:
    metadata = lenient_json.select_metadata(
        source, (name for name in source if name not in _CITATION_FIELDS)
    )
    citation = Citation(
        lenient_json.value_as_text(source.get("uri")),
        lenient_json.value_as_text(source.get("title")),
        metadata=metadata,
    )
    return LocatedCitation(citation, *_segment_byte_span(source))


def _segment_byte_span(segment: Fields) -> tuple[int | None, int | None]:
    """The start and end of a segment in bytes; the wire leaves out a start of 0."""
    return lenient_json.first_integer(segment.get("startIndex")), lenient_json.first_integer(
        segment.get("endIndex")
    )


def _decode_source(chunk: Fields) -> Citation:
    kind = next((name for name in SOURCE_KINDS if name in chunk), "")
    fields = lenient_json.object_fields(chunk.get(kind))
    metadata = lenient_json.select_metadata(
        fields, (name for name in fields if name not in _SOURCE_FIELDS)
    )
    return Citation(
        url=lenient_json.value_as_text(fields.get("uri") or fields.get("sourceUri")),
        title=lenient_json.value_as_text(fields.get("title")),
        quoted=lenient_json.value_as_text(fields.get("text")),
        metadata=(("type", kind), *metadata) if kind and kind != "web" else metadata,
    )
