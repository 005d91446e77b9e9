"""The answers of Cohere's `/v2/chat` as they go out: a document, or the events that build it up.

message-start ( tool-plan | content ( citation )* | tool-call )* ( citation )* message-end [DONE]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.v2_capabilities import TOOL, is_plan
from llm_proxy.dialects.cohere.v2_decoder import CITATIONS, END
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Citation, Part, Reasoning, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class MessageSpeech:
    """Tells a turn that fits."""

    stream: bool
    delivery: Delivery

    def response(self, turn: Turn) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        if self.stream:
            return response_encoding.streamed(
                "sse", sse.CONTENT_TYPE, self._messages(turn), headers
            )
        return response_encoding.document(_whole(turn), headers)

    def _messages(self, turn: Turn) -> Iterator[bytes]:
        for document in self._events(turn):
            yield sse.event(response_encoding.written(document), document["type"])
        yield sse.event(sse.DONE)

    def _events(self, turn: Turn) -> Iterator[Document]:
        opening = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        yield {
            "id": turn.id,
            "type": "message-start",
            "delta": {"message": {**opening, CITATIONS: []}},
        }
        blocks = calls = cited = 0
        for part in turn.parts:
            if isinstance(part, ToolCall):
                yield from self._call(part, calls)
                calls += 1
            elif is_plan(part) and isinstance(part, Reasoning):
                yield from (_event("tool-plan-delta", tool_plan=it) for it in self._cut(part))
            else:
                spoken = _citations(part)
                yield from self._block(part, blocks, _cited(spoken, cited))
                blocks += 1
                cited += len(spoken)
        yield from _cited(_elsewhere(turn), cited)
        yield {"type": END, "delta": _ended(turn)}

    def _block(self, part: Part, at: int, cited: Iterator[Document]) -> Iterator[Document]:
        """A block of content, and what it cites."""
        kind = _KINDS[type(part)]
        yield _event("content-start", at, content={"type": kind, kind: ""})
        if isinstance(part, Text | Reasoning):
            for piece in self._cut(part):
                yield _event("content-delta", at, content={kind: piece})
        yield from cited
        yield _event("content-end", at)

    def _call(self, call: ToolCall, at: int) -> Iterator[Document]:
        yield _event("tool-call-start", at, tool_calls=_call(call, ""))
        for piece in self.delivery.cut(call.arguments):
            said: Document = {"function": {"arguments": piece}}
            yield _event("tool-call-delta", at, tool_calls=said)
        yield _event("tool-call-end", at)

    def _cut(self, part: Text | Reasoning) -> Iterator[str]:
        return iter(self.delivery.cut(part.text))


_KINDS: Final[dict[type[Part], str]] = {Text: "text", Reasoning: "thinking"}
"""The types of blocks, which their words are called by, too."""


def _event(kind: str, index: int | None = None, **message: object) -> Document:
    """An event about a part of the message."""
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, **({"delta": {"message": message}} if message else {})}


def _cited(citations: Sequence[Document], first: int) -> Iterator[Document]:
    """The events that tell citations, which are numbered from `first`."""
    for at, cited in enumerate(citations, first):
        yield _event("citation-start", at, citations=cited)
        yield _event("citation-end", at)


def _ended(turn: Turn) -> Document:
    ended: Document = {"finish_reason": turn.finish_raw, "usage": citations_and_usage.account(turn)}
    return ended if turn.failure is None else {**ended, **errors.amid_fields(turn.failure)}


def _whole(turn: Turn) -> Document:
    """The document that tells all of it."""
    plans = [it.text for it in turn.parts if isinstance(it, Reasoning) and is_plan(it)]
    calls = [_call(it, it.arguments) for it in turn.parts if isinstance(it, ToolCall)]
    content = [
        {"type": _KINDS[type(it)], _KINDS[type(it)]: it.text}
        for it in turn.parts
        if isinstance(it, Text | Reasoning) and not is_plan(it)
    ]
    cited = [*(it for part in turn.parts for it in _citations(part)), *_elsewhere(turn)]
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
        "usage": citations_and_usage.account(turn),
    }


def _call(call: ToolCall, arguments: str) -> Document:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _citations(part: Part) -> list[Document]:
    """The citations of a part, each with all that it rests on."""
    if not isinstance(part, Text):
        return []
    return [
        {
            **citations_and_usage.citation_fields(group[0]),
            "sources": [*filter(None, map(_source, group))],
        }
        for group in citations_and_usage.by_span(part.citations)
    ]


def _source(cited: Citation) -> Document:
    """What a citation rests on: a document, or what a tool gave."""
    said = dict(cited.metadata)
    name, kind = (said.get(field) for field in shared_fields.OF_SOURCE)
    if kind is None:
        return {}
    is_tool = kind == TOOL
    about = {"url": cited.url, "title": cited.title}
    about["content" if is_tool else "text"] = cited.quoted
    told = {field: value for field, value in about.items() if value}
    return {
        "type": kind,
        **({"id": name} if name else {}),
        **({"tool_output" if is_tool else "document": told} if told else {}),
    }


def _elsewhere(turn: Turn) -> list[Document]:
    """Citations of the plan and of the thoughts."""
    return [dict(it) for it in lenient_json.objects(dict(turn.metadata).get(CITATIONS))]
