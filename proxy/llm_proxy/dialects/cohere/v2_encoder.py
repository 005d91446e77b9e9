"""Encodes `/v2/chat` responses: a document, or events.

message-start ( tool-plan | content ( citation )* | tool-call )* ( citation )* message-end [DONE]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.v2_capabilities import TOOL_SOURCE, is_tool_plan
from llm_proxy.dialects.cohere.v2_decoder import CITATIONS, END_EVENT
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Part, Reasoning, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class CohereV2Encoder:
    """Encodes a turn that fits the capabilities of version 2."""

    stream: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The response: a stream of events, or one document."""
        headers = errors.common_response_headers(self.context)
        if self.stream:
            return response_encoding.stream_response(
                "sse", sse.CONTENT_TYPE, self._encode_sse_messages(turn), headers
            )
        return response_encoding.json_response(_encode_whole_response(turn), headers)

    def _encode_sse_messages(self, turn: Turn) -> Iterator[bytes]:
        for document in self._encode_events(turn):
            yield sse.encode_event(response_encoding.single_line_json(document), document["type"])
        yield sse.encode_event(sse.DONE_DATA)

    def _encode_events(self, turn: Turn) -> Iterator[Document]:
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        yield {
            "id": turn.id,
            "type": "message-start",
            "delta": {"message": {**message, CITATIONS: []}},
        }
        block_count = call_count = citation_count = 0
        for part in turn.parts:
            if isinstance(part, ToolCall):
                yield from self._encode_tool_call_events(part, call_count)
                call_count += 1
            elif is_tool_plan(part) and isinstance(part, Reasoning):
                yield from (
                    _encode_event("tool-plan-delta", tool_plan=text)
                    for text in self._text_pieces(part)
                )
            else:
                citations = _encode_citations(part)
                yield from self._encode_block_events(
                    part, block_count, _encode_citation_events(citations, citation_count)
                )
                block_count += 1
                citation_count += len(citations)
        yield from _encode_citation_events(_non_text_citations(turn), citation_count)
        yield {"type": END_EVENT, "delta": _encode_end_delta(turn)}

    def _encode_block_events(
        self, part: Part, index: int, citation_events: Iterator[Document]
    ) -> Iterator[Document]:
        block_type = _BLOCK_TYPES[type(part)]
        yield _encode_event("content-start", index, content={"type": block_type, block_type: ""})
        if isinstance(part, Text | Reasoning):
            for piece in self._text_pieces(part):
                yield _encode_event("content-delta", index, content={block_type: piece})
        yield from citation_events
        yield _encode_event("content-end", index)

    def _encode_tool_call_events(self, call: ToolCall, index: int) -> Iterator[Document]:
        yield _encode_event("tool-call-start", index, tool_calls=_encode_tool_call(call, ""))
        for piece in self.context.split_text(call.arguments):
            document: Document = {"function": {"arguments": piece}}
            yield _encode_event("tool-call-delta", index, tool_calls=document)
        yield _encode_event("tool-call-end", index)

    def _text_pieces(self, part: Text | Reasoning) -> Iterator[str]:
        return iter(self.context.split_text(part.text))


_BLOCK_TYPES: Final[dict[type[Part], str]] = {Text: "text", Reasoning: "thinking"}
"""The types of content blocks, which are also the names of their text fields."""


def _encode_event(kind: str, index: int | None = None, **message: object) -> Document:
    index_field = {} if index is None else {"index": index}
    return {"type": kind, **index_field, **({"delta": {"message": message}} if message else {})}


def _encode_citation_events(citations: Sequence[Document], first_index: int) -> Iterator[Document]:
    """The events of citations, numbered from `first_index`."""
    for index, citation in enumerate(citations, first_index):
        yield _encode_event("citation-start", index, citations=citation)
        yield _encode_event("citation-end", index)


def _encode_end_delta(turn: Turn) -> Document:
    delta: Document = {
        "finish_reason": turn.finish_raw,
        "usage": citations_and_usage.encode_usage(turn),
    }
    return delta if turn.failure is None else {**delta, **errors.stream_error_fields(turn.failure)}


def _encode_whole_response(turn: Turn) -> Document:
    plans = [item.text for item in turn.parts if isinstance(item, Reasoning) and is_tool_plan(item)]
    calls = [
        _encode_tool_call(item, item.arguments) for item in turn.parts if isinstance(item, ToolCall)
    ]
    content = [
        {"type": _BLOCK_TYPES[type(item)], _BLOCK_TYPES[type(item)]: item.text}
        for item in turn.parts
        if isinstance(item, Text | Reasoning) and not is_tool_plan(item)
    ]
    citations = [
        *(citation for part in turn.parts for citation in _encode_citations(part)),
        *_non_text_citations(turn),
    ]
    message: Document = {"role": "assistant"}
    message |= {"tool_plan": plans[0]} if plans else {}
    message |= {"tool_calls": calls} if calls else {}
    if content or not message.keys() - {"role"}:
        message["content"] = content or [{"type": "text", "text": ""}]
    message |= {CITATIONS: citations} if citations else {}
    return {
        "id": turn.id,
        "message": message,
        "finish_reason": turn.finish_raw,
        "usage": citations_and_usage.encode_usage(turn),
    }


def _encode_tool_call(call: ToolCall, arguments: str) -> Document:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encode_citations(part: Part) -> list[Document]:
    if not isinstance(part, Text):
        return []
    return [
        {
            **citations_and_usage.encode_citation_without_sources(group[0]),
            "sources": [*filter(None, map(_encode_source, group))],
        }
        for group in citations_and_usage.group_by_span(part.citations)
    ]


def _encode_source(citation: Citation) -> Document:
    """The source of a citation, a document or a tool's output; empty where it has none."""
    fields = dict(citation.metadata)
    source_id, source_type = (fields.get(field) for field in shared_fields.SOURCE_METADATA)
    if source_type is None:
        return {}
    is_tool = source_type == TOOL_SOURCE
    document = {"url": citation.url, "title": citation.title}
    document["content" if is_tool else "text"] = citation.quoted
    details = {field: value for field, value in document.items() if value}
    return {
        "type": source_type,
        **({"id": source_id} if source_id else {}),
        **({"tool_output" if is_tool else "document": details} if details else {}),
    }


def _non_text_citations(turn: Turn) -> list[Document]:
    return [
        dict(object_item)
        for object_item in lenient_json.array_objects(dict(turn.metadata).get(CITATIONS))
    ]
