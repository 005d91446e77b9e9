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
from llm_proxy.dialects.cohere.v2_capabilities import TOOL, is_tool_plan
from llm_proxy.dialects.cohere.v2_decoder import CITATIONS, END
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Part, Reasoning, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class CohereV2Encoder:
    """Tells a turn that fits."""

    stream: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The answer, a stream or a document."""
        headers = errors.response_headers(self.context)
        if self.stream:
            return response_encoding.stream_response(
                "sse", sse.CONTENT_TYPE, self._encode_messages(turn), headers
            )
        return response_encoding.json_response(_encode_document(turn), headers)

    def _encode_messages(self, turn: Turn) -> Iterator[bytes]:
        for document in self._encode_events(turn):
            yield sse.encode_event(response_encoding.json_line(document), document["type"])
        yield sse.encode_event(sse.DONE)

    def _encode_events(self, turn: Turn) -> Iterator[Document]:
        opening = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        yield {
            "id": turn.id,
            "type": "message-start",
            "delta": {"message": {**opening, CITATIONS: []}},
        }
        blocks = calls = cited = 0
        for part in turn.parts:
            if isinstance(part, ToolCall):
                yield from self._encode_tool_call_events(part, calls)
                calls += 1
            elif is_tool_plan(part) and isinstance(part, Reasoning):
                yield from (
                    _encode_event("tool-plan-delta", tool_plan=text)
                    for text in self._split_part(part)
                )
            else:
                spoken = _encode_citations(part)
                yield from self._encode_block_events(
                    part, blocks, _encode_citation_events(spoken, cited)
                )
                blocks += 1
                cited += len(spoken)
        yield from _encode_citation_events(_non_text_citations(turn), cited)
        yield {"type": END, "delta": _encode_end(turn)}

    def _encode_block_events(
        self, part: Part, at: int, cited: Iterator[Document]
    ) -> Iterator[Document]:
        kind = _KINDS[type(part)]
        yield _encode_event("content-start", at, content={"type": kind, kind: ""})
        if isinstance(part, Text | Reasoning):
            for piece in self._split_part(part):
                yield _encode_event("content-delta", at, content={kind: piece})
        yield from cited
        yield _encode_event("content-end", at)

    def _encode_tool_call_events(self, call: ToolCall, at: int) -> Iterator[Document]:
        yield _encode_event("tool-call-start", at, tool_calls=_encode_tool_call_events(call, ""))
        for piece in self.context.split_text(call.arguments):
            document: Document = {"function": {"arguments": piece}}
            yield _encode_event("tool-call-delta", at, tool_calls=document)
        yield _encode_event("tool-call-end", at)

    def _split_part(self, part: Text | Reasoning) -> Iterator[str]:
        return iter(self.context.split_text(part.text))


_KINDS: Final[dict[type[Part], str]] = {Text: "text", Reasoning: "thinking"}
"""The types of blocks, which their words are called by, too."""


def _encode_event(kind: str, index: int | None = None, **message: object) -> Document:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, **({"delta": {"message": message}} if message else {})}


def _encode_citation_events(citations: Sequence[Document], first: int) -> Iterator[Document]:
    """The events that tell citations, which are numbered from `first`."""
    for at, cited in enumerate(citations, first):
        yield _encode_event("citation-start", at, citations=cited)
        yield _encode_event("citation-end", at)


def _encode_end(turn: Turn) -> Document:
    ended: Document = {
        "finish_reason": turn.finish_raw,
        "usage": citations_and_usage.usage_account(turn),
    }
    return ended if turn.failure is None else {**ended, **errors.stream_error_fields(turn.failure)}


def _encode_document(turn: Turn) -> Document:
    plans = [item.text for item in turn.parts if isinstance(item, Reasoning) and is_tool_plan(item)]
    calls = [
        _encode_tool_call_events(item, item.arguments)
        for item in turn.parts
        if isinstance(item, ToolCall)
    ]
    content = [
        {"type": _KINDS[type(item)], _KINDS[type(item)]: item.text}
        for item in turn.parts
        if isinstance(item, Text | Reasoning) and not is_tool_plan(item)
    ]
    cited = [
        *(encode_citation for part in turn.parts for encode_citation in _encode_citations(part)),
        *_non_text_citations(turn),
    ]
    message: Document = {"role": "assistant"}
    message |= {"tool_plan": plans[0]} if plans else {}
    message |= {"tool_calls": calls} if calls else {}
    if content or not message.keys() - {"role"}:
        message["content"] = content or [{"type": "text", "text": ""}]
    message |= {CITATIONS: cited} if cited else {}
    return {
        "id": turn.id,
        "message": message,
        "finish_reason": turn.finish_raw,
        "usage": citations_and_usage.usage_account(turn),
    }


def _encode_tool_call_events(call: ToolCall, arguments: str) -> Document:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encode_citations(part: Part) -> list[Document]:
    if not isinstance(part, Text):
        return []
    return [
        {
            **citations_and_usage.encode_citation_span(group[0]),
            "sources": [*filter(None, map(_encode_source, group))],
        }
        for group in citations_and_usage.group_by_span(part.citations)
    ]


def _encode_source(cited: Citation) -> Document:
    """What a citation rests on: a document, or what a tool gave."""
    fields = dict(cited.metadata)
    name, kind = (fields.get(field) for field in shared_fields.OF_SOURCE)
    if kind is None:
        return {}
    is_tool = kind == TOOL
    document = {"url": cited.url, "title": cited.title}
    document["content" if is_tool else "text"] = cited.quoted
    details = {field: value for field, value in document.items() if value}
    return {
        "type": kind,
        **({"id": name} if name else {}),
        **({"tool_output" if is_tool else "document": details} if details else {}),
    }


def _non_text_citations(turn: Turn) -> list[Document]:
    return [
        dict(object_item)
        for object_item in lenient_json.object_items(dict(turn.metadata).get(CITATIONS))
    ]
