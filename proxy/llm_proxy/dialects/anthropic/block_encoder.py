"""Encodes content blocks, whole or as a start and deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import orjson

from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_capabilities import URL_FIELDS, structured_result_content
from llm_proxy.dialects.anthropic.block_decoder import COMPACTION, MCP_TOOL_RESULT
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

TextSplitter = Callable[[str], Iterable[str]]
"""Splits a text into the pieces of a stream."""


def encode_block(part: Part | Fields) -> Document:
    """The whole block; one that no part can represent is unchanged."""
    match part:
        case Text():
            citations = [_encode_citation(citation) for citation in part.citations]
            return {
                "type": "text",
                "text": part.text,
                **({"citations": citations} if citations else {}),
            }
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
    """The block of `content_block_start`; whole if the block has no deltas."""
    match part:
        case Text():
            return {"type": "text", "text": "", **({"citations": []} if part.citations else {})}
        case Reasoning() if _is_compaction(part):
            signature_field = {"signature": part.signature} if part.signature else {}
            return {**dict(part.metadata), "content": None, **signature_field}
        case Reasoning() if not part.redacted:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCall():
            return {**_encode_tool_call(part), "input": {}}
        case _:
            return encode_block(part)


def encode_deltas(part: Part | Fields, split_text: TextSplitter) -> Iterator[Document]:
    """The deltas of a block; those that replace, such as signatures, come once."""
    match part:
        case Text():
            for citation in part.citations:
                yield {"type": "citations_delta", "citation": _encode_citation(citation)}
            yield from ({"type": "text_delta", "text": text} for text in split_text(part.text))
        case Reasoning() if _is_compaction(part):
            yield {"type": "compaction_delta", **_encode_compaction_summary(part)}
        case Reasoning() if not part.redacted:
            yield from (
                {"type": "thinking_delta", "thinking": text} for text in split_text(part.text)
            )
            yield {"type": "signature_delta", "signature": part.signature or ""}
        case ToolCall():
            arguments = "" if part.arguments == "{}" else part.arguments
            for piece in ("", *split_text(arguments)):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            pass


def _encode_reasoning(reasoning: Reasoning) -> Document:
    """Readable reasoning, redacted reasoning, or a compaction (summary of the conversation)."""
    if _is_compaction(reasoning):
        return {**encode_block_start(reasoning), **_encode_compaction_summary(reasoning)}
    if reasoning.redacted:
        return {"type": "redacted_thinking", "data": reasoning.redacted}
    return {"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature or ""}


def _is_compaction(reasoning: Reasoning) -> bool:
    return ("type", COMPACTION) in reasoning.metadata


def _encode_compaction_summary(reasoning: Reasoning) -> Document:
    encrypted_field = {"encrypted_content": reasoning.redacted} if reasoning.redacted else {}
    return {"content": reasoning.text or None, **encrypted_field}


def _encode_tool_call(tool_call: ToolCall) -> Document:
    """A call without its arguments; metadata overrides the type for tools of the provider."""
    return {
        "type": block_decoder.TOOL_USE,
        **dict(tool_call.metadata),
        "id": tool_call.id,
        "name": tool_call.name,
    }


def _encode_tool_result(tool_result: ToolResult) -> Document:
    """A result; MCP results always have `is_error`, others if nothing else shows a failure."""
    is_text = structured_result_content(tool_result) is None
    text = {"type": "text", "text": tool_result.content}
    block: Document = {
        **dict(tool_result.metadata),
        "tool_use_id": tool_result.call_id,
        "content": [text] if is_text else orjson.Fragment(tool_result.content.encode()),
    }
    shows_failure = block_decoder.is_failed_result(
        {"content": structured_result_content(tool_result)}
    )
    if block["type"] == MCP_TOOL_RESULT or (tool_result.failed and not shows_failure):
        block["is_error"] = tool_result.failed
    return block


def _encode_citation(citation: Citation) -> Document:
    """A citation; the title may be null for a document, but not for a page."""
    document: Document = dict(citation.metadata)
    url_field = URL_FIELDS.get(document["type"])
    fields = {"cited_text": citation.quoted}
    if url_field is None:
        return {**document, **fields, "document_title": citation.title or None}
    if url_field == "url":
        document.setdefault("encrypted_index", "")
    return {**document, **fields, url_field: citation.url, "title": citation.title}
