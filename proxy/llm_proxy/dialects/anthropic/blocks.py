"""Decodes and encodes Anthropic's content blocks, whole or as a start and deltas.

Deltas extend the block of `content_block_start` to the same object that a response without
streaming holds.  Here a block is that object, except that the arguments of a call are text, in
`partial_json`: both directions first make this object, and whole and streamed responses differ in
how they hold it.

A part from this format is recognised by the type in its metadata (`server_tool_use`,
`web_search_tool_result`, `char_location`) and keeps all its metadata; a part from another format
keeps what this one can represent.  Tools of another provider become an MCP server's, whose blocks
can represent any tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import orjson

from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    compact_json,
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

_APPENDING_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""The block type of each delta (used if the block's start is missing), and the extended field."""

_COMPACTION_FIELDS: Final = ("content", "encrypted_content")
_REPLACING_DELTAS: Final = {
    "signature_delta": ("thinking", ("signature",)),
    "compaction_delta": ("compaction", _COMPACTION_FIELDS),
}
"""The block type of each delta, and the fields that it replaces; the last delta wins."""

_PART_FIELDS: Final = {
    ToolCall: ("id", "name", "input", "partial_json"),
    ToolResult: ("tool_use_id", "content", "is_error"),
    Reasoning: ("signature", *_COMPACTION_FIELDS),
    Citation: ("cited_text", "url", "source", "title", "document_title"),
    Media: (),
}
"""The fields of a block or a citation that part fields hold; all others become metadata."""

TOOL_USE: Final = "tool_use"
_MCP_TOOL_USE: Final = "mcp_tool_use"
_MCP_TOOL_RESULT: Final = "mcp_tool_result"
TOOL_RESULT_SUFFIX: Final = "_tool_result"
"""The end of each result type: `web_search_tool_result`."""
_CLIENT_CALL_METADATA: Final = ("caller", "toolset_name")
_DEFAULT_MCP_SERVER: Final = "server"

COMPACTION: Final = "compaction"
_CONTAINER_UPLOAD: Final = "container_upload"

_WEB_PAGE_LOCATION: Final = "web_search_result_location"
_CHAR_LOCATION: Final = "char_location"
_URL_FIELDS: Final = {_WEB_PAGE_LOCATION: "url", "search_result_location": "source"}
"""The field of the source's URL by citation type; documents have none."""
_REQUIRED_LOCATION_FIELDS: Final[Mapping[str, Mapping[str, Json]]] = {
    "search_result_location": {
        "search_result_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
    _CHAR_LOCATION: {"document_index": 0, "start_char_index": 0, "end_char_index": 0},
    "page_location": {"document_index": 0, "start_page_number": 1, "end_page_number": 1},
    "content_block_location": {
        "document_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
}  # fmt: skip
"""The location fields that clients require in each type of citation, with defaults."""


class BlockDecoder:
    """Joins one content block from its start and deltas."""

    def __init__(self, start: Fields, *, closed: bool = False) -> None:
        self._fields: dict[str, Json] = dict(start)
        self._pieces_by_field: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self.is_closed = closed
        """Whether the block has been stopped."""

    def initial_pieces(self) -> list[Part]:
        """The text that the start of the block holds; mostly none."""
        return _readable_pieces(get_text(self._fields, "type"), self._fields)

    def close(self) -> list[Part]:
        """Stop the block; returns the call that it holds, if it is one of the client's."""
        self.is_closed = True
        if self._fields.get("type") != TOOL_USE:
            return []
        call = decode_block(self.block(), {})
        return [] if call is None else [call]

    def feed(self, delta: Fields) -> list[Part]:
        """Add one delta; those of unknown types are ignored.  Returns its piece of text."""
        kind = get_text(delta, "type")
        pieces: list[Part] = []
        if kind in _APPENDING_DELTAS:
            block_type, name = _APPENDING_DELTAS[kind]
            self._pieces_by_field.setdefault(name, []).append(get_string(delta, name))
            pieces = _readable_pieces(block_type, delta)
        elif kind in _REPLACING_DELTAS:
            block_type, names = _REPLACING_DELTAS[kind]
            self._fields.update((name, delta.get(name)) for name in names)
        elif kind == "citations_delta":
            block_type = "text"
            self._citations.append(delta.get("citation"))
        else:
            return pieces
        self._fields.setdefault("type", block_type)
        return pieces

    def block(self) -> Fields:
        """The block so far; an open call's `{}` may only be a placeholder for its arguments."""
        block = dict(self._fields)
        for name, pieces in self._pieces_by_field.items():
            start = get_string(block, name)
            block[name] = join_pieces([start, *pieces])
        if self._citations:
            citations = get_items(block, "citations")
            block["citations"] = [*citations, *self._citations]
        streamed = block["partial_json"] if "partial_json" in self._pieces_by_field else ""
        if is_tool_call(block) and not streamed:
            arguments = block.get("input")
            is_known = arguments or (self.is_closed and arguments is not None)
            block["partial_json"] = compact_json(arguments) if is_known else ""
        return block


def _readable_pieces(block_type: str, fields: Fields) -> list[Part]:
    """The text of a block or a delta, if it has any."""
    if block_type == "text" and (text := get_string(fields, "text")):
        return [Text(text)]
    if block_type == "thinking" and (thought := get_string(fields, "thinking")):
        return [Reasoning(thought)]
    return []


def delta_output_chars(delta: Fields) -> int:
    """How many output characters a delta adds; a piece of a tool call counts as at least one.

    Signatures and citations add none.
    """
    kind = get_text(delta, "type")
    if kind in _APPENDING_DELTAS:
        block_type, name = _APPENDING_DELTAS[kind]
        return max(len(get_string(delta, name)), int(block_type == TOOL_USE))
    if kind == "compaction_delta":
        return max(len(get_string(delta, "content")), 1)
    return 0


def is_tool_call(block: Fields) -> bool:
    """Whether it is a tool call: `tool_use`, `server_tool_use`, `mcp_tool_use`."""
    return get_text(block, "type").endswith(TOOL_USE)


def decode_block(block: Fields, tool_names: Mapping[str, str]) -> Part | None:
    """The part of a block; None for types that no part can represent.

    `tool_names` holds the tool of each call id, since a result has only the id.
    """

    def text_of(name: str) -> str:
        return get_text(block, name)

    match block.get("type"):
        case "text":
            citations = get_objects(block, "citations")
            return Text(text_of("text"), tuple(map(_decode_citation, citations)))
        case "thinking":
            return Reasoning(text_of("thinking"), text_of("signature") or None)
        case "redacted_thinking":
            return Reasoning(redacted=text_of("data") or None)
        case "compaction":  # a summary of the conversation, which clients send back like reasoning
            return Reasoning(
                text_of("content"),
                text_of("signature") or None,
                text_of("encrypted_content") or None,
                _extra_fields(block, Reasoning),
            )
        case "container_upload":  # a file that a tool created
            return Media("*/*", metadata=select_metadata(block, block))
        case str(kind) if kind.endswith(TOOL_USE):
            metadata = _extra_fields(block, ToolCall)
            if kind == TOOL_USE:  # only tools of the provider keep the type
                metadata = tuple(pair for pair in metadata if pair[0] != "type")
            return ToolCall(text_of("id"), text_of("name"), text_of("partial_json"), metadata)
        case str(kind) if kind.endswith(TOOL_RESULT_SUFFIX):
            # tools of MCP servers have any name
            default_name = kind.removesuffix(TOOL_RESULT_SUFFIX) * (kind != _MCP_TOOL_RESULT)
            return ToolResult(
                text_of("tool_use_id"),
                _result_text(block.get("content")),
                tool_names.get(text_of("tool_use_id"), default_name),
                failed=block.get("is_error") is True or _is_error_content(block.get("content")),
                metadata=_extra_fields(block, ToolResult),
            )
        case _:
            return None


def _decode_citation(citation: Fields) -> Citation:
    """A page or a document; locations are in the source, not in the text: there is no span."""
    return Citation(
        url=value_as_text(citation.get("url") or citation.get("source")),
        title=value_as_text(citation.get("title") or citation.get("document_title")),
        quoted=get_text(citation, "cited_text"),
        metadata=_extra_fields(citation, Citation),
    )


def _is_error_content(content: Json) -> bool:
    """Whether the type of a result's content shows that the tool failed."""
    kind = object_fields(content).get("type")
    return value_as_text(kind).endswith("_error")


def _result_text(content: Json) -> str:
    """The content of a result as text: that of a single text block, else JSON."""
    match content:
        case [{"type": "text", "text": str(text)}]:
            return join_pieces([text])
        case _:
            return value_as_text(content)


def _extra_fields(source: Fields, kind: type[Part | Citation]) -> Metadata:
    return metadata_except(source, _PART_FIELDS[kind])


def original_type(part: Part | Citation) -> str:
    """The type in the metadata, as in the format that the part came from; empty without one."""
    kind = dict(part.metadata).get("type")
    return kind if isinstance(kind, str) else ""


def representable_part(part: Part) -> Part | None:
    """The part; None for media that no tool created (`container_upload`)."""
    is_foreign_media = isinstance(part, Media) and original_type(part) != _CONTAINER_UPLOAD
    return None if is_foreign_media else part


def is_sent_empty(part: Part) -> bool:
    """Whether a part has a block even without text and data."""
    match part:
        case Text():
            return bool(part.citations)
        case Reasoning():
            return original_type(part) == COMPACTION
        case _:
            return isinstance(part, Media)


def encode_block(part: Part, default_signature: str, answered_calls: Iterable[str]) -> Document:
    """The block of a part; `answered_calls` are the ids of calls that the provider ran.

    Unsigned readable reasoning gets the default signature.
    """
    kind = original_type(part)
    match part:
        case Text():
            citations = [_encode_citation(citation) for citation in part.citations]
            citation_fields = {"citations": citations} if citations else {}
            return {"type": "text", "text": part.text, **citation_fields}
        case Reasoning() if kind == COMPACTION:
            signature_field = {"signature": part.signature} if part.signature else {}
            encrypted_field = {"encrypted_content": part.redacted} if part.redacted else {}
            metadata = _typed_metadata(part)
            return {**metadata, "content": part.text or None, **signature_field, **encrypted_field}
        case Reasoning() if part.redacted and not part.text:
            return {"type": "redacted_thinking", "data": part.redacted}
        case Reasoning():
            signature = part.signature or default_signature
            return {"type": "thinking", "thinking": part.text, "signature": signature}
        case ToolCall():
            fields: Document = {"type": TOOL_USE}
            if kind != TOOL_USE and kind.endswith(TOOL_USE):
                fields = _typed_metadata(part)
            else:
                if part.id in answered_calls:
                    fields = {"type": _MCP_TOOL_USE, "server_name": _DEFAULT_MCP_SERVER}
                fields |= selected_fields(part.metadata, _CLIENT_CALL_METADATA)
            return {**fields, "id": part.id, "name": part.name, "partial_json": part.arguments}
        case ToolResult():
            return _encode_tool_result(kind, part)
        case _:
            return _typed_metadata(part)


def _encode_citation(citation: Citation) -> Document:
    """A citation, of the whole block; the title may be null for a document, but not for a page."""
    kind = original_type(citation)
    if kind.endswith("_location"):
        document = _typed_metadata(citation)
    else:
        kind = _WEB_PAGE_LOCATION if citation.url else _CHAR_LOCATION
        document = {"type": kind}
    for name, value in _REQUIRED_LOCATION_FIELDS.get(kind, {}).items():
        document.setdefault(name, value)
    url_field = _URL_FIELDS.get(kind)
    if url_field == "url":
        document.setdefault("encrypted_index", "")
    document["cited_text"] = citation.quoted
    if url_field is None:
        return {**document, "document_title": citation.title or None}
    return {**document, url_field: citation.url, "title": citation.title}


def _encode_tool_result(kind: str, result: ToolResult) -> Document:
    """A result; MCP results always have `is_error`, others if nothing else shows a failure."""
    block: Document = {"type": _MCP_TOOL_RESULT}
    if kind.endswith(TOOL_RESULT_SUFFIX):
        block = _typed_metadata(result)
    is_mcp_result = block["type"] == _MCP_TOOL_RESULT
    content = _structured_content(result.content, is_mcp_result=is_mcp_result)
    block["tool_use_id"] = result.call_id
    block["content"] = (
        [{"type": "text", "text": result.content}]
        if content is None
        else orjson.Fragment(compact_json(content).encode())
    )
    if is_mcp_result or (result.failed and not _is_error_content(content)):
        block["is_error"] = result.failed
    return block


def _structured_content(text: str, *, is_mcp_result: bool) -> Json:
    """The object or the list in the text of a result; None if the content is text.

    Results of MCP servers have no other content than a list of text blocks.
    """
    try:
        content = parse_json(text.encode("utf-8", "replace"))
    except ValueError:
        return None
    if is_mcp_result:
        blocks = [*map(object_fields, array_items(content))]
        is_allowed = bool(blocks) and all(block.get("type") == "text" for block in blocks)
    else:
        is_allowed = isinstance(content, dict | list)
    compact = compact_json(content)
    return content if is_allowed and compact and compact == _result_text(content) else None


def _typed_metadata(part: Part | Citation) -> Document:
    """The original type, and the metadata that no other field of the block holds."""
    fields = {"type": original_type(part), **dict(part.metadata)}
    return dict(_extra_fields(fields, type(part)))


def whole_block(block: Document) -> Document:
    """The block as a response that does not stream holds it."""
    if not is_tool_call(block):
        return block
    fields = dict(block)
    fields["input"] = orjson.Fragment(fields.pop("partial_json").encode())
    return fields


def streamed_block(
    block: Document, split_text: Callable[[str], Iterable[str]]
) -> Iterator[Document]:
    """The block of `content_block_start`, then its deltas; most types have none."""
    match block.get("type"):
        case "text":
            citations = block.get("citations", [])
            yield {**block, "text": "", **({"citations": []} if citations else {})}
            for citation in citations:
                yield {"type": "citations_delta", "citation": citation}
            for piece in split_text(block["text"]):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            yield {**block, "thinking": "", "signature": ""}
            for piece in split_text(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "compaction":
            summary: Document = {name: block[name] for name in _COMPACTION_FIELDS if name in block}
            start = {name: value for name, value in block.items() if name != "encrypted_content"}
            yield {**start, "content": None}
            yield {"type": "compaction_delta", **summary}
        case _ if is_tool_call(block):
            start = dict(block)
            arguments = start.pop("partial_json")
            yield {**start, "input": {}}
            for piece in ("", *split_text("" if arguments == "{}" else arguments)):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            yield block
