"""Encodes `/v1/chat` responses: a document, or events before it.

    stream-start [queries] [results] ( text | tool call chunk )* [calls] [citations] stream-end

The last event repeats the whole document; the events before it are increments for display.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.cohere import citations_and_usage, errors
from llm_proxy.dialects.cohere.shared_fields import SOURCE_METADATA, TOKENS_METADATA, USAGE_METADATA
from llm_proxy.dialects.cohere.v1_decoder import (
    END_EVENT,
    METADATA_FIELDS,
    QUERY_METADATA,
    SEARCH_RESULT_METADATA,
)
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Text, ToolCall, Turn

_NDJSON_CONTENT_TYPE: Final = "application/stream+json"
_DOCUMENT_METADATA: Final = tuple(
    item for item in METADATA_FIELDS if item not in (*USAGE_METADATA, *TOKENS_METADATA)
)
"""The metadata at the top level of the document; the rest is in `meta`."""


@dataclass(frozen=True, slots=True)
class CohereV1Encoder:
    """Encodes a turn that fits the capabilities of version 1."""

    request: Request
    stream: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The response: a document, NDJSON, or SSE where the request accepts it."""
        headers = errors.common_response_headers(self.context)
        if not self.stream:
            return response_encoding.json_response(self._encode_whole_response(turn), headers)
        accepted_types = (
            header_value(self.request.headers, name) or "" for name in ("accept", "accepts")
        )
        if any(sse.CONTENT_TYPE in text for text in accepted_types):
            events = (
                sse.encode_event(response_encoding.single_line_json(event), event["event_type"])
                for event in self._encode_events(turn)
            )
            return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events, headers)
        lines = (
            response_encoding.single_line_json(event) + b"\n" for event in self._encode_events(turn)
        )
        return response_encoding.stream_response("ndjson", _NDJSON_CONTENT_TYPE, lines, headers)

    def _encode_events(self, turn: Turn) -> Iterator[Document]:
        yield _encode_event("stream-start", generation_id=turn.id)
        for kind, names in (
            ("search-queries-generation", QUERY_METADATA),
            ("search-results", SEARCH_RESULT_METADATA),
        ):
            if metadata := nonempty_metadata(turn.metadata, names):
                yield _encode_event(kind, **dict(metadata))
        yield from self._encode_content_events(turn)
        if citations := _encode_citations(turn):
            yield _encode_event("citation-generation", citations=citations)
        error_fields = {} if turn.failure is None else errors.stream_error_fields(turn.failure)
        ending_fields = {"finish_reason": turn.finish_raw, **error_fields}
        yield {
            **_encode_event(END_EVENT, **ending_fields, response=self._encode_whole_response(turn)),
            "is_finished": True,
        }

    def _encode_content_events(self, turn: Turn) -> Iterator[Document]:
        """The text in pieces; the tool calls in chunks, then complete."""
        for piece in self.context.split_text(turn.text):
            yield _encode_event("text-generation", text=piece)
        calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        kind = "tool-calls-chunk"
        for index, call in enumerate(calls):
            yield _encode_event(kind, tool_call_delta={"name": call.name, "index": index})
            for piece in self.context.split_text(call.arguments):
                yield _encode_event(kind, tool_call_delta={"index": index, "parameters": piece})
        if calls:
            text_fields = {"text": turn.text} if turn.text else {}
            yield _encode_event(
                "tool-calls-generation",
                **text_fields,
                tool_calls=list(map(_encode_tool_call, calls)),
            )

    def _encode_whole_response(self, turn: Turn) -> Document:
        document: Document = dict(nonempty_metadata(turn.metadata, _DOCUMENT_METADATA))
        calls = [_encode_tool_call(part) for part in turn.parts if isinstance(part, ToolCall)]
        tool_call_fields: Document = {"tool_calls": calls} if calls else {}
        citations = _encode_citations(turn)
        return {
            **document,
            "text": turn.text,
            "generation_id": turn.id,
            "chat_history": _chat_history(
                lenient_json.parse_object(self.request.body), turn.text, tool_call_fields
            ),
            "finish_reason": turn.finish_raw,
            "meta": {"api_version": {"version": "1"}, **citations_and_usage.encode_usage(turn)},
            **tool_call_fields,
            **({"citations": citations} if citations else {}),
        }


def _encode_event(kind: str, **fields: object) -> Document:
    return {"is_finished": False, "event_type": kind, **fields}


def _encode_tool_call(call: ToolCall) -> Document:
    """A tool call; its arguments are JSON text already."""
    return {"name": call.name, "parameters": orjson.Fragment(call.arguments.encode())}


def _chat_history(fields: Fields, text: str, tool_call_fields: Document) -> list[Document]:
    """The conversation including this response, which clients send with their next message."""
    history = [
        dict(object_item) for object_item in lenient_json.array_objects(fields.get("chat_history"))
    ]
    content = lenient_json.str_or_empty(fields.get("message"))
    user_messages = [{"role": "USER", "message": content}] if content else []
    return [*history, *user_messages, {"role": "CHATBOT", "message": text, **tool_call_fields}]


def _encode_citations(turn: Turn) -> list[Document]:
    """The citations of the text, each with the ids of all its documents."""
    citations = [
        citation for part in turn.parts if isinstance(part, Text) for citation in part.citations
    ]
    return [
        {
            **citations_and_usage.encode_citation_without_sources(group[0]),
            "document_ids": [*filter(None, map(_cited_document_id, group))],
        }
        for group in citations_and_usage.group_by_span(citations)
    ]


def _cited_document_id(citation: Citation) -> str:
    return lenient_json.value_as_text(dict(citation.metadata).get(SOURCE_METADATA[0]))
