"""Encodes `/v1/chat` responses: a document, or events before it.

    stream-start [queries] [results] ( text | pieces of calls )* [calls] [citations] stream-end

The last event repeats the whole document, as those before it are for show.
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
from llm_proxy.dialects.cohere.shared_fields import ACCOUNT, ACCOUNT_OF_TOKENS, OF_SOURCE
from llm_proxy.dialects.cohere.v1_decoder import END, METADATA, QUERIES, RESULTS
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Text, ToolCall, Turn

_LINES: Final = "application/stream+json"
_BESIDE: Final = tuple(item for item in METADATA if item not in (*ACCOUNT, *ACCOUNT_OF_TOKENS))
"""The metadata that stands in the document itself."""


@dataclass(frozen=True, slots=True)
class CohereV1Encoder:
    """Tells a turn that fits, in answer to a request."""

    request: Request
    stream: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The answer: a document, lines of JSON, or server-sent events where they are wanted."""
        headers = errors.response_headers(self.context)
        if not self.stream:
            return response_encoding.json_response(self._encode_document(turn), headers)
        wanted = (header_value(self.request.headers, name) or "" for name in ("accept", "accepts"))
        if any(sse.CONTENT_TYPE in text for text in wanted):
            events = (
                sse.encode_event(
                    response_encoding.json_line(encode_event), encode_event["event_type"]
                )
                for encode_event in self._encode_events(turn)
            )
            return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events, headers)
        lines = (
            response_encoding.json_line(encode_event) + b"\n"
            for encode_event in self._encode_events(turn)
        )
        return response_encoding.stream_response("ndjson", _LINES, lines, headers)

    def _encode_events(self, turn: Turn) -> Iterator[Document]:
        yield _encode_event("stream-start", generation_id=turn.id)
        for kind, names in (("search-queries-generation", QUERIES), ("search-results", RESULTS)):
            if found := nonempty_metadata(turn.metadata, names):
                yield _encode_event(kind, **dict(found))
        yield from self._encode_content_events(turn)
        if cited := _encode_citations(turn):
            yield _encode_event("citation-generation", citations=cited)
        failed = {} if turn.failure is None else errors.stream_error_fields(turn.failure)
        why = {"finish_reason": turn.finish_raw, **failed}
        yield {
            **_encode_event(END, **why, response=self._encode_document(turn)),
            "is_finished": True,
        }

    def _encode_content_events(self, turn: Turn) -> Iterator[Document]:
        """The text, and the calls: in pieces, then whole."""
        for piece in self.context.split_text(turn.text):
            yield _encode_event("text-generation", text=piece)
        calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        kind = "tool-calls-chunk"
        for index, call in enumerate(calls):
            yield _encode_event(kind, tool_call_delta={"name": call.name, "index": index})
            for piece in self.context.split_text(call.arguments):
                yield _encode_event(kind, tool_call_delta={"index": index, "parameters": piece})
        if calls:
            plan = {"text": turn.text} if turn.text else {}
            yield _encode_event(
                "tool-calls-generation", **plan, tool_calls=list(map(_encode_tool_call, calls))
            )

    def _encode_document(self, turn: Turn) -> Document:
        document: Document = dict(nonempty_metadata(turn.metadata, _BESIDE))
        calls = [_encode_tool_call(part) for part in turn.parts if isinstance(part, ToolCall)]
        called: Document = {"tool_calls": calls} if calls else {}
        cited = _encode_citations(turn)
        return {
            **document,
            "text": turn.text,
            "generation_id": turn.id,
            "chat_history": _chat_history(
                lenient_json.parse_object(self.request.body), turn.text, called
            ),
            "finish_reason": turn.finish_raw,
            "meta": {"api_version": {"version": "1"}, **citations_and_usage.usage_account(turn)},
            **called,
            **({"citations": cited} if cited else {}),
        }


def _encode_event(kind: str, **fields: object) -> Document:
    return {"is_finished": False, "event_type": kind, **fields}


def _encode_tool_call(call: ToolCall) -> Document:
    """A call; its parameters are JSON already."""
    return {"name": call.name, "parameters": orjson.Fragment(call.arguments.encode())}


def _chat_history(fields: Fields, text: str, called: Document) -> list[Document]:
    """The conversation up to this answer, which clients hand back with their next message."""
    before = [
        dict(object_item) for object_item in lenient_json.object_items(fields.get("chat_history"))
    ]
    content = lenient_json.str_or_empty(fields.get("message"))
    question = [{"role": "USER", "message": content}] if content else []
    return [*before, *question, {"role": "CHATBOT", "message": text, **called}]


def _encode_citations(turn: Turn) -> list[Document]:
    """The citations of the text, each with all the documents that it rests on."""
    cited = [
        citation for part in turn.parts if isinstance(part, Text) for citation in part.citations
    ]
    return [
        {
            **citations_and_usage.encode_citation_span(group[0]),
            "document_ids": [*filter(None, map(_document_name, group))],
        }
        for group in citations_and_usage.group_by_span(cited)
    ]


def _document_name(cited: Citation) -> str:
    return lenient_json.printable_text(dict(cited.metadata).get(OF_SOURCE[0]))
