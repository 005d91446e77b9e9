"""Decodes one interaction step, whole or streamed."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google.citations import LocatedCitation, attach_citations
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

MEDIA_KINDS: Final = ("image", "audio", "video", "document")
TOOL_METADATA: Final = ("server_name", "signature", "search_type", "retrieval_type")
MEDIA_METADATA: Final = ("resolution", "sample_rate", "channels")
_CITATION_FIELDS: Final = (
    *("type", "url", "document_uri", "title", "file_name", "name", "source"),
    *("start_index", "end_index"),
)
_MAX_DEPTH: Final = 2
"""The limit of nested contents; the API nests no deeper."""


class StepDecoder:
    """Decodes one step; the step itself, its contents and its deltas have the same format."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._located_citations: list[LocatedCitation] = []
        self._has_tool_call = False
        self._whole_arguments: Json = None
        """Arguments as an object, which deltas replace."""
        self._arguments_text: list[str] = []
        """Fragments of arguments as JSON text."""

    def feed(self, fields: Fields, depth: int = 0) -> None:
        """Add a step, one of its contents or a delta; unknown types are ignored."""
        match lenient_json.str_or_empty(fields.get("type")):
            case "text" | "text_annotation_delta" | "text_annotation":
                self._feed_text(fields)
            case "thought" | "thought_summary" | "thought_signature":
                self._feed_thought(fields)
            case "model_output" if depth < _MAX_DEPTH:
                for content in lenient_json.array_objects(fields.get("content")):
                    self.feed(content, depth + 1)
            case "arguments_delta":
                self._arguments_text.append(lenient_json.str_or_empty(fields.get("arguments")))
            case kind:
                self._feed_media_or_tool(kind, fields)

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts, with their citations."""
        if self._has_tool_call:
            arguments = lenient_json.join_pieces(self._arguments_text) or lenient_json.compact_json(
                self._whole_arguments or {}
            )
            self._fragments.add_fragment(ToolCall("", "", arguments))
            self._has_tool_call = False
        return attach_citations(self._fragments.joined_parts(), self._located_citations)

    def _feed_text(self, fields: Fields) -> None:
        if text := lenient_json.str_or_empty(fields.get("text")):
            self._fragments.add_fragment(Text(text))
        self._located_citations += map(
            _decode_citation, lenient_json.array_objects(fields.get("annotations"))
        )

    def _feed_thought(self, fields: Fields) -> None:
        """A thought's signature, and its summary, if requested, whole or one content at a time."""
        contents = [fields.get("content"), *lenient_json.array_items(fields.get("summary"))]
        readable = (
            lenient_json.str_or_empty(lenient_json.object_fields(content).get("text"))
            for content in contents
        )
        signature = lenient_json.str_or_empty(fields.get("signature"))
        for text in filter(None, readable):
            self._fragments.add_fragment(Reasoning(text))
        if signature:
            self._fragments.add_fragment(Reasoning("", signature))

    def _feed_media_or_tool(self, kind: str, fields: Fields) -> None:
        if kind in MEDIA_KINDS:
            media = _decode_media(kind, fields)
            self._fragments.add_fragment(
                media, "audio" if kind == "audio" and not media.url else None
            )
        elif kind.endswith("_call"):
            self._feed_tool_call(kind, fields)
        elif kind.endswith("_result"):
            self._fragments.add_fragment(_decode_tool_result(kind, fields))

    def _feed_tool_call(self, kind: str, fields: Fields) -> None:
        """A call of a client's tool, or of one that Google runs."""
        arguments = fields.get("arguments")
        if isinstance(arguments, str):
            self._arguments_text.append(arguments)
        else:
            self._whole_arguments = arguments or self._whole_arguments
        self._has_tool_call = True
        name = lenient_json.value_as_text(fields.get("name")) or kind.removesuffix("_call")
        kind_metadata: Metadata = () if kind == "function_call" else (("type", kind),)
        metadata = lenient_json.select_metadata(fields, TOOL_METADATA)
        call = ToolCall(
            lenient_json.value_as_text(fields.get("id")), name, "", (*kind_metadata, *metadata)
        )
        self._fragments.add_fragment(call)


def _decode_tool_result(kind: str, fields: Fields) -> ToolResult:
    return ToolResult(
        call_id=lenient_json.value_as_text(fields.get("call_id")),
        content=lenient_json.value_as_text(fields.get("result")),
        name=lenient_json.value_as_text(fields.get("name")) or kind.removesuffix("_result"),
        failed=fields.get("is_error") is True,
        metadata=(("type", kind), *lenient_json.select_metadata(fields, TOOL_METADATA)),
    )


def _decode_media(kind: str, fields: Fields) -> Media:
    return Media(
        media_type=lenient_json.value_as_text(fields.get("mime_type")) or f"{kind}/*",
        url=lenient_json.value_as_text(fields.get("uri")),
        base64=lenient_json.str_or_empty(fields.get("data")),
        metadata=lenient_json.select_metadata(fields, MEDIA_METADATA),
    )


def _decode_citation(annotation: Fields) -> LocatedCitation:
    """A citation of a page, a file or a place; its passage is in bytes of the step's text."""
    title = annotation.get("title") or annotation.get("file_name") or annotation.get("name")
    kind = lenient_json.select_metadata(annotation, ("type",))
    metadata = lenient_json.select_metadata(
        annotation, (name for name in annotation if name not in _CITATION_FIELDS)
    )
    citation = Citation(
        url=lenient_json.value_as_text(annotation.get("url") or annotation.get("document_uri")),
        title=lenient_json.value_as_text(title),
        quoted=lenient_json.value_as_text(annotation.get("source")),
        metadata=metadata if annotation.get("type") == "url_citation" else (*kind, *metadata),
    )
    start, end = (
        lenient_json.first_integer(annotation.get("start_index")),
        lenient_json.first_integer(annotation.get("end_index")),
    )
    return LocatedCitation(citation, start, end)
