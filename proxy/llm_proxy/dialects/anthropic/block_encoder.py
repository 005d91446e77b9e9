"""Content blocks as they are told: whole, or begun and then grown by deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import orjson

from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_capabilities import LINKS, as_value
from llm_proxy.dialects.anthropic.block_decoder import COMPACTION, MCP_RESULT
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Cut = Callable[[str], Iterable[str]]


def whole(said: Part | Fields) -> Document:
    """A block; one that no part has a word for stands as it is."""
    match said:
        case Text():
            cited = [_citation(it) for it in said.citations]
            return {"type": "text", "text": said.text, **({"citations": cited} if cited else {})}
        case Reasoning():
            return _reasoning(said)
        case ToolCall():
            return {**_call(said), "input": orjson.Fragment(said.arguments.encode())}
        case ToolResult():
            return _result(said)
        case Media() | Refusal():
            return dict(said.metadata)
        case _:
            return dict(said)


def begun(said: Part | Fields) -> Document:
    """A block as it begins; those without deltas are whole."""
    match said:
        case Text():
            return {"type": "text", "text": "", **({"citations": []} if said.citations else {})}
        case Reasoning() if _is_compaction(said):
            sealed = {"signature": said.signature} if said.signature else {}
            return {**dict(said.metadata), "content": None, **sealed}
        case Reasoning() if not said.redacted:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolCall():
            return {**_call(said), "input": {}}
        case _:
            return whole(said)


def deltas(said: Part | Fields, cut: Cut) -> Iterator[Document]:
    """What a block that has begun says; what replaces, as a signature does, comes once."""
    match said:
        case Text():
            for cited in said.citations:
                yield {"type": "citations_delta", "citation": _citation(cited)}
            yield from ({"type": "text_delta", "text": it} for it in cut(said.text))
        case Reasoning() if _is_compaction(said):
            yield {"type": "compaction_delta", **_summary(said)}
        case Reasoning() if not said.redacted:
            yield from ({"type": "thinking_delta", "thinking": it} for it in cut(said.text))
            yield {"type": "signature_delta", "signature": said.signature or ""}
        case ToolCall():
            written = "" if said.arguments == "{}" else said.arguments
            for piece in ("", *cut(written)):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            pass


def _reasoning(said: Reasoning) -> Document:
    """A thought that can be read, one that is sealed, or a summary of the conversation."""
    if _is_compaction(said):
        return {**begun(said), **_summary(said)}
    if said.redacted:
        return {"type": "redacted_thinking", "data": said.redacted}
    return {"type": "thinking", "thinking": said.text, "signature": said.signature or ""}


def _is_compaction(said: Reasoning) -> bool:
    return ("type", COMPACTION) in said.metadata


def _summary(said: Reasoning) -> Document:
    """The summary of a compaction, readable, sealed or both."""
    sealed = {"encrypted_content": said.redacted} if said.redacted else {}
    return {"content": said.text or None, **sealed}


def _call(said: ToolCall) -> Document:
    """A call but for its arguments; one of the client's tools has no other type beside it."""
    return {"type": block_decoder.CALL, **dict(said.metadata), "id": said.id, "name": said.name}


def _result(said: ToolResult) -> Document:
    """A result; MCP servers always tell whether the tool failed, others where nothing else does."""
    is_text = as_value(said) is None
    text = {"type": "text", "text": said.content}
    block: Document = {
        **dict(said.metadata),
        "tool_use_id": said.call_id,
        "content": [text] if is_text else orjson.Fragment(said.content.encode()),
    }
    shows_failure = block_decoder.has_failed({"content": as_value(said)})
    if block["type"] == MCP_RESULT or (said.failed and not shows_failure):
        block["is_error"] = said.failed
    return block


def _citation(cited: Citation) -> Document:
    """A citation; a document may lack a title, a page may not."""
    beside: Document = dict(cited.metadata)
    link = LINKS.get(beside["type"])
    about = {"cited_text": cited.quoted}
    if link is None:
        return {**beside, **about, "document_title": cited.title or None}
    if link == "url":
        beside.setdefault("encrypted_index", "")
    return {**beside, **about, link: cited.url, "title": cited.title}
