"""The answers of Cohere's `/v1/chat` as they go out: a document, or the events before it.

    stream-start [queries] [results] ( text | pieces of calls )* [calls] [citations] stream-end

The last event repeats the whole document, as those before it are for show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.cohere import citations_and_usage, errors
from llm_proxy.dialects.cohere.shared_fields import ACCOUNT, ACCOUNT_OF_TOKENS, OF_SOURCE
from llm_proxy.dialects.cohere.v1_decoder import END, METADATA, QUERIES, RESULTS
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, header
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Text, ToolCall, Turn

_LINES: Final = "application/stream+json"
_BESIDE: Final = tuple(it for it in METADATA if it not in (*ACCOUNT, *ACCOUNT_OF_TOKENS))
"""The metadata that stands in the document itself."""


@dataclass(frozen=True, slots=True)
class EventsSpeech:
    """Tells a turn that fits, in answer to a request."""

    request: Request
    stream: bool
    delivery: Delivery

    def response(self, turn: Turn) -> Response:
        """The answer: a document, lines of JSON, or server-sent events where they are wanted."""
        headers = errors.headers(self.delivery)
        if not self.stream:
            return response_encoding.document(self._whole(turn), headers)
        wanted = (header(self.request.headers, name) or "" for name in ("accept", "accepts"))
        if any(sse.CONTENT_TYPE in it for it in wanted):
            events = (
                sse.event(response_encoding.written(it), it["event_type"])
                for it in self._events(turn)
            )
            return response_encoding.streamed("sse", sse.CONTENT_TYPE, events, headers)
        lines = (response_encoding.written(it) + b"\n" for it in self._events(turn))
        return response_encoding.streamed("ndjson", _LINES, lines, headers)

    def _events(self, turn: Turn) -> Iterator[Document]:
        yield _event("stream-start", generation_id=turn.id)
        for kind, names in (("search-queries-generation", QUERIES), ("search-results", RESULTS)):
            if found := kept(turn.metadata, names):
                yield _event(kind, **dict(found))
        yield from self._pieces(turn)
        if cited := _citations(turn):
            yield _event("citation-generation", citations=cited)
        failed = {} if turn.failure is None else errors.amid_fields(turn.failure)
        why = {"finish_reason": turn.finish_raw, **failed}
        yield {**_event(END, **why, response=self._whole(turn)), "is_finished": True}

    def _pieces(self, turn: Turn) -> Iterator[Document]:
        """The text, and the calls: in pieces, then whole."""
        for piece in self.delivery.cut(turn.text):
            yield _event("text-generation", text=piece)
        calls = [it for it in turn.parts if isinstance(it, ToolCall)]
        kind = "tool-calls-chunk"
        for index, call in enumerate(calls):
            yield _event(kind, tool_call_delta={"name": call.name, "index": index})
            for piece in self.delivery.cut(call.arguments):
                yield _event(kind, tool_call_delta={"index": index, "parameters": piece})
        if calls:
            plan = {"text": turn.text} if turn.text else {}
            yield _event("tool-calls-generation", **plan, tool_calls=list(map(_call, calls)))

    def _whole(self, turn: Turn) -> Document:
        beside: Document = dict(kept(turn.metadata, _BESIDE))
        calls = [_call(it) for it in turn.parts if isinstance(it, ToolCall)]
        called: Document = {"tool_calls": calls} if calls else {}
        cited = _citations(turn)
        return {
            **beside,
            "text": turn.text,
            "generation_id": turn.id,
            "chat_history": _history(lenient_json.document(self.request.body), turn.text, called),
            "finish_reason": turn.finish_raw,
            "meta": {"api_version": {"version": "1"}, **citations_and_usage.account(turn)},
            **called,
            **({"citations": cited} if cited else {}),
        }


def _event(kind: str, **said: object) -> Document:
    return {"is_finished": False, "event_type": kind, **said}


def _call(call: ToolCall) -> Document:
    """A call; its parameters are JSON already."""
    return {"name": call.name, "parameters": orjson.Fragment(call.arguments.encode())}


def _history(asked: Fields, text: str, called: Document) -> list[Document]:
    """The conversation up to this answer, which clients hand back with their next message."""
    before = [dict(it) for it in lenient_json.objects(asked.get("chat_history"))]
    said = lenient_json.text(asked.get("message"))
    question = [{"role": "USER", "message": said}] if said else []
    return [*before, *question, {"role": "CHATBOT", "message": text, **called}]


def _citations(turn: Turn) -> list[Document]:
    """The citations of the text, each with all the documents that it rests on."""
    cited = [it for part in turn.parts if isinstance(part, Text) for it in part.citations]
    return [
        {
            **citations_and_usage.citation_fields(group[0]),
            "document_ids": [*filter(None, map(_name, group))],
        }
        for group in citations_and_usage.by_span(cited)
    ]


def _name(cited: Citation) -> str:
    return lenient_json.words(dict(cited.metadata).get(OF_SOURCE[0]))
