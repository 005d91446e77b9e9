"""Encodes content blocks, whole or as a start and deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import orjson

from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_capabilities import LINKS, result_content_value
from llm_proxy.dialects.anthropic.block_decoder import COMPACTION, MCP_RESULT
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Cut = Callable[[str], Iterable[str]]


def encode_block(part: Part | Fields) -> Document:
    """A block; one that no part has a word for stands as it is."""
    match part:
        case Text():
            cited = [_encode_citation(citation) for citation in part.citations]
            return {"type": "text", "text": part.text, **({"citations": cited} if cited else {})}
        case Reasoning():
            return _encode_reasoning(part)
        case ToolCall():
            return {**_encode_tool_call(part), "input": orjson.Fragment(part.arguments.encode())}
        case ToolResult():
            return _encode_tool_result(part)
        case Media() | Refusal():
            return dict(part.metadata)
        case _:
            return dict(part)


def encode_block_start(part: Part | Fields) -> Document:
    """A block as it begins; those without deltas are whole."""
    match part:
        case Text():
            return {"type": "text", "text": "", **({"citations": []} if part.citations else {})}
        case Reasoning() if _is_compaction(part):
            sealed = {"signature": part.signature} if part.signature else {}
            return {**dict(part.metadata), "content": None, **sealed}
        case Reasoning() if not part.redacted:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCall():
            return {**_encode_tool_call(part), "input": {}}
        case _:
            return encode_block(part)


def encode_deltas(part: Part | Fields, cut: Cut) -> Iterator[Document]:
    """What a block that has begun says; what replaces, as a signature does, comes once."""
    match part:
        case Text():
            for cited in part.citations:
                yield {"type": "citations_delta", "citation": _encode_citation(cited)}
            yield from ({"type": "text_delta", "text": text} for text in cut(part.text))
        case Reasoning() if _is_compaction(part):
            yield {"type": "compaction_delta", **_encode_compaction_summary(part)}
        case Reasoning() if not part.redacted:
            yield from ({"type": "thinking_delta", "thinking": text} for text in cut(part.text))
            yield {"type": "signature_delta", "signature": part.signature or ""}
        case ToolCall():
            written = "" if part.arguments == "{}" else part.arguments
            for piece in ("", *cut(written)):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            pass


def _encode_reasoning(reasoning: Reasoning) -> Document:
    """A thought that can be read, one that is sealed, or a summary of the conversation."""
    if _is_compaction(reasoning):
        return {**encode_block_start(reasoning), **_encode_compaction_summary(reasoning)}
    if reasoning.redacted:
        return {"type": "redacted_thinking", "data": reasoning.redacted}
    return {"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature or ""}


def _is_compaction(reasoning: Reasoning) -> bool:
    return ("type", COMPACTION) in reasoning.metadata


def _encode_compaction_summary(reasoning: Reasoning) -> Document:
    sealed = {"encrypted_content": reasoning.redacted} if reasoning.redacted else {}
    return {"content": reasoning.text or None, **sealed}


def _encode_tool_call(tool_call: ToolCall) -> Document:
    """A call but for its arguments; one of the client's tools has no other type beside it."""
    return {
        "type": block_decoder.CALL,
        **dict(tool_call.metadata),
        "id": tool_call.id,
        "name": tool_call.name,
    }


def _encode_tool_result(tool_result: ToolResult) -> Document:
    """A result; MCP servers always tell whether the tool failed, others where nothing else does."""
    is_text = result_content_value(tool_result) is None
    text = {"type": "text", "text": tool_result.content}
    block: Document = {
        **dict(tool_result.metadata),
        "tool_use_id": tool_result.call_id,
        "content": [text] if is_text else orjson.Fragment(tool_result.content.encode()),
    }
    shows_failure = block_decoder.is_failed_result({"content": result_content_value(tool_result)})
    if block["type"] == MCP_RESULT or (tool_result.failed and not shows_failure):
        block["is_error"] = tool_result.failed
    return block


def _encode_citation(cited: Citation) -> Document:
    """A citation; a document may lack a title, a page may not."""
    document: Document = dict(cited.metadata)
    link = LINKS.get(document["type"])
    fields = {"cited_text": cited.quoted}
    if link is None:
        return {**document, **fields, "document_title": cited.title or None}
    if link == "url":
        document.setdefault("encrypted_index", "")
    return {**document, **fields, link: cited.url, "title": cited.title}
