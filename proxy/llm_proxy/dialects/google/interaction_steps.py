"""The steps of an interaction, whole or as a start and deltas, decoded and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from llm_proxy.dialects import encoding, json_api
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google.citations import (
    LocatedCitation,
    attach_citations,
    byte_offsets,
    is_valid_span,
    unique_citations,
)
from llm_proxy.dialects.google.shared_format import sendable_reasoning
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    first_integer,
    get_items,
    get_objects,
    get_string,
    get_text,
    join_pieces,
    metadata_except,
    object_fields,
    parse_json,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
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

DIALECT: Final = "gemini-interactions"
MEDIA_KINDS: Final = ("image", "audio", "video", "document")
_MEDIA_METADATA: Final = ("resolution", "sample_rate", "channels")

_FUNCTION_CALL: Final = "function_call"
_GOOGLE_TOOLS: Final = (
    *("code_execution", "file_search", "google_maps", "google_search", "processing"),
    *("retrieval", "tool_search", "url_context"),
)
"""The tools that Google runs; `_call` and `_result` follow in the kinds of their steps."""
_MCP_TOOL: Final = "mcp_server_tool"
"""The same for a tool of any other server."""
SERVER_CALL_KINDS: Final = tuple(f"{tool}_call" for tool in (*_GOOGLE_TOOLS, _MCP_TOOL))
"""The kinds of calls of the tools that Google or another server runs."""
_RESULT_KINDS: Final = (
    *(f"{tool}_result" for tool in (*_GOOGLE_TOOLS, _MCP_TOOL)),
    "function_result",
)
_CODE_RESULT: Final = "code_execution_result"
_SERVER_NAME: Final = "server_name"
_TOOL_METADATA: Final = (_SERVER_NAME, "signature", "search_type", "retrieval_type")

_URL_CITATION: Final = "url_citation"
_CITATION_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    _URL_CITATION: ("url", "title"),
    "file_citation": ("document_uri", "file_name", "source"),
    "place_citation": ("url", "name"),
}
"""By kind of citation, its names for URL, title and quoted text."""
_CITATION_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    _URL_CITATION: (),
    "file_citation": ("custom_metadata", "media_id", "page_number"),
    "place_citation": ("place_id", "review_snippets"),
}
_CITATION_FIELDS: Final = (
    *("type", "url", "document_uri", "title", "file_name", "name", "source"),
    *("start_index", "end_index"),
)
_CONTENT_FIELDS: Final = ("content", "summary", "result", "is_error")
"""The fields of a step that are not in `step.start`."""
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

    def feed(self, fields: Fields, depth: int = 0) -> list[Part]:
        """Add a step, one of its contents or a delta, and return its readable text.

        Unknown types are ignored.
        """
        pieces: list[Part] = []
        match get_string(fields, "type"):
            case "text" | "text_annotation_delta" | "text_annotation":
                if text := get_string(fields, "text"):
                    pieces.append(self._added(Text(text)))
                annotations = get_objects(fields, "annotations")
                self._located_citations += map(_decode_citation, annotations)
            case "thought" | "thought_summary" | "thought_signature":
                # the summary, if requested, whole or one content at a time, and the signature
                summaries = (fields.get("content"), *get_items(fields, "summary"))
                texts = [get_string(object_fields(summary), "text") for summary in summaries]
                pieces += [self._added(Reasoning(text)) for text in texts if text]
                if signature := get_string(fields, "signature"):
                    self._fragments.add_fragment(Reasoning("", signature))
            case "model_output" if depth < _MAX_DEPTH:
                for content in get_objects(fields, "content"):
                    pieces += self.feed(content, depth + 1)
            case "arguments_delta":
                self._arguments_text.append(get_string(fields, "arguments"))
            case kind if kind in MEDIA_KINDS:
                media = Media(
                    get_text(fields, "mime_type") or f"{kind}/*",
                    get_text(fields, "uri"),
                    get_string(fields, "data"),
                    metadata=select_metadata(fields, _MEDIA_METADATA),
                )
                is_inline_audio = kind == "audio" and not media.url
                self._fragments.add_fragment(media, kind if is_inline_audio else None)
            case kind if kind.endswith("_call"):
                self._feed_tool_call(kind, fields)
            case kind if kind.endswith("_result"):
                result = ToolResult(
                    get_text(fields, "call_id"),
                    get_text(fields, "result"),
                    get_text(fields, "name") or _default_tool_name(kind),
                    failed=fields.get("is_error") is True,
                    metadata=(("type", kind), *select_metadata(fields, _TOOL_METADATA)),
                )
                self._fragments.add_fragment(result)
            case _:
                pass
        return pieces

    def _added(self, fragment: Part) -> Part:
        self._fragments.add_fragment(fragment)
        return fragment

    def client_calls(self) -> list[Part]:
        """The call of a client's tool, if the step is one."""
        return [part for part in self.parts() if json_api.is_client_call(part)]

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts so far, with their citations."""
        parts = self._fragments.joined_parts()
        if self._has_tool_call:
            arguments = join_pieces(self._arguments_text) or compact_json(
                self._whole_arguments or {}
            )
            parts = tuple(
                replace(part, arguments=arguments) if isinstance(part, ToolCall) else part
                for part in parts
            )
        return attach_citations(parts, self._located_citations)

    def _feed_tool_call(self, kind: str, fields: Fields) -> None:
        """A call of a client's tool, or of one that Google runs."""
        arguments = fields.get("arguments")
        if isinstance(arguments, str):
            self._arguments_text.append(arguments)
        else:
            self._whole_arguments = arguments or self._whole_arguments
        self._has_tool_call = True
        kind_metadata: Metadata = () if kind == _FUNCTION_CALL else (("type", kind),)
        self._fragments.add_fragment(
            ToolCall(
                get_text(fields, "id"),
                get_text(fields, "name") or _default_tool_name(kind),
                "",
                (*kind_metadata, *select_metadata(fields, _TOOL_METADATA)),
            )
        )


def _default_tool_name(kind: str) -> str:
    """The name of a tool whose step of this kind has no name."""
    return kind.removesuffix("_call").removesuffix("_result")


def _decode_citation(annotation: Fields) -> LocatedCitation:
    """A citation of a page, a file or a place; its passage is in bytes of the step's text."""
    title = annotation.get("title") or annotation.get("file_name") or annotation.get("name")
    is_page = annotation.get("type") == _URL_CITATION
    kind = () if is_page else select_metadata(annotation, ("type",))
    citation = Citation(
        url=value_as_text(annotation.get("url") or annotation.get("document_uri")),
        title=value_as_text(title),
        quoted=get_text(annotation, "source"),
        metadata=(*kind, *metadata_except(annotation, _CITATION_FIELDS)),
    )
    start, end = annotation.get("start_index"), annotation.get("end_index")
    return LocatedCitation(citation, first_integer(start), first_integer(end))


def sendable_part(part: Part) -> Part | None:
    """The part as it can be sent; None for media with only a transcript.

    Raises `NotRepresentable` for a call of a server tool whose arguments are not an object.
    """
    match part:
        case Text():
            citations = filter(None, (_sendable_citation(each, part) for each in part.citations))
            return Text(part.text, unique_citations(citations))
        case Reasoning():
            return sendable_reasoning(part)
        case Media() if part.transcript and not (part.base64 or part.url):
            return None
        case ToolCall() if not is_client_call(part):
            arguments = encoding.normalized_object_json(part.arguments)
            if arguments is None:
                raise encoding.arguments_error(DIALECT, part)
            return replace(part, arguments=arguments)
        case _:
            return part


def _sendable_citation(citation: Citation, text: Text) -> Citation | None:
    """The citation as it decodes once sent; None where it is empty."""
    annotation = _encode_annotation(citation)
    if annotation.keys() == {"type"}:
        return None
    span = citation.span if is_valid_span(citation.span, text.text) else None
    return replace(_decode_citation(annotation).citation, span=span)


def as_server_call(call: ToolCall) -> ToolCall | None:
    """A call that a server tool answered; None for arguments that are not an object."""
    fields: dict[str, Json] = dict(call.metadata)
    if is_client_call(call):
        fields["type"] = f"{call.name if call.name in _GOOGLE_TOOLS else _MCP_TOOL}_call"
    has_object = encoding.normalized_object_json(call.arguments or "{}") is not None
    return replace(call, metadata=tuple(fields.items())) if has_object else None


def is_client_call(part: Part) -> bool:
    """Whether the part is a call of a client's tool; the `type` marks one of a server tool."""
    return isinstance(part, ToolCall) and not _kind(part.metadata, SERVER_CALL_KINDS)


def is_own_result(result: ToolResult) -> bool:
    """Whether it is a result in a response of this API."""
    return bool(_kind(result.metadata, _RESULT_KINDS))


def _kind(metadata: Metadata, kinds: Iterable[str]) -> str:
    """The kind in a part's metadata; empty where it is none of `kinds`."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) and kind in kinds else ""


def encode_step(part: Part) -> Document:
    """The whole step of a part."""
    match part:
        case Text():
            content = _encode_text(part.text)
            offsets = byte_offsets(part.text)
            for citation in part.citations:
                annotation = _encode_annotation(citation)
                if citation.span:
                    start, end = citation.span
                    annotation |= {"start_index": offsets[start], "end_index": offsets[end]}
                content.setdefault("annotations", []).append(annotation)
            return _output_step(content)
        case Reasoning():
            step: Document = {"type": "thought"}
            if part.text:
                step["summary"] = [_encode_text(part.text)]
            if part.signature:
                step["signature"] = part.signature
            return step
        case ToolCall():
            kind = _kind(part.metadata, SERVER_CALL_KINDS) or _FUNCTION_CALL
            name = part.name or _default_tool_name(kind)
            metadata = selected_fields(part.metadata, _TOOL_METADATA)
            if kind == f"{_MCP_TOOL}_call":
                metadata = {_SERVER_NAME: name, **metadata}
            has_name = kind == _FUNCTION_CALL or name != _default_tool_name(kind)
            name_field = {"name": name} if has_name else {}
            arguments = orjson.Fragment(part.arguments)
            return {"type": kind, "id": part.id, **name_field, "arguments": arguments, **metadata}
        case ToolResult():
            tool = part.name if part.name in _GOOGLE_TOOLS else _MCP_TOOL
            kind = _kind(part.metadata, _RESULT_KINDS) or f"{tool}_result"
            has_name = part.name not in ("", _default_tool_name(kind))
            # Compact JSON is sent as JSON, but not as the output of code.
            result: Any = part.content
            if kind != _CODE_RESULT and result[:1] in ("[", "{") and _is_compact_json(result):
                result = orjson.Fragment(result)
            return {
                "type": kind,
                "call_id": part.call_id,
                **({"name": part.name} if has_name else {}),
                **selected_fields(part.metadata, _TOOL_METADATA),
                "result": result,
                **({"is_error": True} if part.failed else {}),
            }
        case Media():
            return _output_step(encode_media(part))
        case _:
            return {"type": "model_output"}


def encode_streamed_step(
    part: Part, split_text: Callable[[str], Iterable[str]]
) -> Iterator[Document]:
    """The step of `step.start`, which is the whole one without content, and its deltas."""
    step = encode_step(part)
    content: Document = {name: step.pop(name) for name in _CONTENT_FIELDS if name in step}
    match part:
        case Text():
            yield step
            yield from map(_encode_text, split_text(part.text))
            if annotations := content["content"][0].get("annotations"):
                yield {"type": "text_annotation_delta", "annotations": annotations}
        case Reasoning():
            signature = step.pop("signature", "")
            yield step
            for piece in split_text(part.text):
                yield {"type": "thought_summary", "content": _encode_text(piece)}
            if signature:
                yield {"type": "thought_signature", "signature": signature}
        case ToolCall():
            yield {**step, "arguments": {}}
            if is_client_call(part):
                for piece in split_text(part.arguments):
                    yield {"type": "arguments_delta", "arguments": piece}
            else:  # one object
                yield {"type": step["type"], "arguments": step["arguments"]}
        case ToolResult():
            yield step
            yield {"type": step["type"], **content}
        case _:
            yield step
            yield from content.get("content", ())


def _output_step(content: Document) -> Document:
    return {"type": "model_output", "content": [content]}


def _encode_text(text: str) -> Document:
    return {"type": "text", "text": text}


def _encode_annotation(citation: Citation) -> Document:
    """A page, a file or a place; each kind has its own names for the same fields."""
    kind = _kind(citation.metadata, _CITATION_SOURCES) or _URL_CITATION
    values = (citation.url, citation.title, citation.quoted)
    source = zip(_CITATION_SOURCES[kind], values, strict=False)
    metadata = selected_fields(citation.metadata, _CITATION_METADATA[kind])
    return {"type": kind, **{name: value for name, value in source if value}, **metadata}


def _is_compact_json(text: str) -> bool:
    try:
        return compact_json(parse_json(text.encode())) == text
    except ValueError:
        return False


def encode_media(media: Media) -> Document:
    """The content of an image, a sound, a video, or a document."""
    kind = media.media_type.partition("/")[0]
    kind = kind if kind in MEDIA_KINDS else MEDIA_KINDS[-1]
    source = {
        "mime_type": media.media_type or f"{kind}/*",
        "uri": media.url,
        "data": media.base64,
    }
    metadata = selected_fields(media.metadata, _MEDIA_METADATA)
    return {"type": kind, **{name: value for name, value in source.items() if value}, **metadata}
