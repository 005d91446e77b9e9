"""Decodes `/v1/chat` and `/v1/generate`, whole or from events.

The last event of a stream repeats the whole answer as `response`, which fills in what the
events before it left out; a document is that answer alone.

    {"event_type": "text-generation", "text": "Hel", "is_finished": false}
    {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"text": "Hello"}}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.cohere import shared_fields
from llm_proxy.dialects.cohere.shared_fields import CitedSource
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Citation, Failure, Finish, Json, Part, Text, ToolCall, Turn, Usage

RESPONSE_ID: Final = "response_id"
QUERIES: Final = ("search_queries",)
RESULTS: Final = ("search_results", "documents")

_OF_ANSWER: Final = (RESPONSE_ID, *QUERIES, *RESULTS, "is_search_required")

METADATA: Final = (*_OF_ANSWER, *shared_fields.ACCOUNT, *shared_fields.ACCOUNT_OF_TOKENS)

END: Final = "stream-end"
"""The event that ends a stream."""


def decode_turns(documents: Iterable[Fields]) -> tuple[Turn, ...]:
    """One turn a generation, of which a chat has one."""
    answer = _V1ResponseDecoder()
    for document in documents:
        answer.feed(document)
    return answer.decode_turns()


def event_output_chars(event: Fields) -> int:
    """How many characters an event adds to what was said; old servers have no types.

    A piece of a call counts as one at least.
    """
    match event.get("event_type"):
        case "tool-calls-chunk":
            call = lenient_json.object_fields(event.get("tool_call_delta"))
            texts = (event.get("text"), call.get("text"), call.get("name"), call.get("parameters"))
            return max(sum(len(lenient_json.str_or_empty(text)) for text in texts), 1)
        case None | "text-generation" if event.get("is_finished") is False:
            return len(lenient_json.str_or_empty(event.get("text")))
        case _:
            return 0


class _V1ResponseDecoder:
    """One answer, as its events come."""

    def __init__(self) -> None:
        self._generations: dict[int, _GenerationDecoder] = {}
        self._documents: dict[str, CitedSource] = {}
        self._id = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Read one event, or the whole document."""
        whole = lenient_json.object_fields(document.get("response"))
        self._read_response_fields(document)
        self._read_response_fields(whole)
        index = lenient_json.first_count(document.get("index")) or 0
        if "generations" not in document and not whole.get("generations"):
            self._generation_at(index).feed(document, self._documents)
            self._generation_at(index).feed_whole(whole, self._documents)
        for fields in (document, whole):
            for position, details in enumerate(
                lenient_json.object_items(fields.get("generations"))
            ):
                place = lenient_json.first_count(details.get("index"))
                self._generation_at(position if place is None else place).feed_whole(details, {})

    def decode_turns(self) -> tuple[Turn, ...]:
        """What was said; counts and errors of the answer belong to each generation."""
        return tuple(
            self._turn_of(generation_decoder)
            for _, generation_decoder in sorted(self._generations.items())
        )

    def _generation_at(self, index: int) -> _GenerationDecoder:
        return self._generations.setdefault(index, _GenerationDecoder())

    def _read_response_fields(self, fields: Fields) -> None:
        for object_item in lenient_json.object_items(fields.get("documents")):
            self._documents[lenient_json.printable_text(object_item.get("id"))] = (
                shared_fields.decode_source(object_item)
            )
        meta = lenient_json.object_fields(fields.get("meta"))
        self._usage = shared_fields.decode_usage(meta) or self._usage
        self._failure = self._failure or shared_fields.decode_failure(fields)
        self._metadata.update(lenient_json.named_metadata(fields, _OF_ANSWER))
        self._metadata.update(shared_fields.extra_usage_fields(meta))
        self._id = self._id or lenient_json.printable_text(
            fields.get("generation_id") or fields.get("id")
        )

    def _turn_of(self, generation: _GenerationDecoder) -> Turn:
        parts = generation.result()
        raw = generation.finish_raw
        calls = any(isinstance(part, ToolCall) for part in parts)
        return Turn(
            parts,
            finish=Finish.TOOL_CALLS
            if calls and raw == "COMPLETE"
            else shared_fields.finish_of_raw(raw),
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=generation.id or self._id,
            metadata=lenient_json.named_metadata(self._metadata, METADATA),
        )


class _GenerationDecoder:
    """One generation, as its events come."""

    def __init__(self) -> None:
        self.id = ""
        self.finish_raw = ""
        self._text: list[str] = []
        self._citations: list[Citation] = []
        self._is_started = FragmentJoiner()
        """Tool calls as the model writes them."""
        self._calls: tuple[ToolCall, ...] = ()
        """Tool calls as the provider gives them once they are whole."""

    def feed(self, fields: Fields, documents: dict[str, CitedSource]) -> None:
        """Read one event; a stream may tell a text in pieces, and once more with its calls."""
        call = lenient_json.object_fields(fields.get("tool_call_delta"))
        text = lenient_json.str_or_empty(fields.get("text")) or lenient_json.str_or_empty(
            call.get("text")
        )
        if text and not (self._text and fields.get("tool_calls")):
            self._text.append(text)
        for object_item in lenient_json.object_items(fields.get("citations")):
            self._citations.extend(shared_fields.decode_citations(object_item, documents))
        if call.get("name") or call.get("parameters"):
            self._is_started.add(
                _decode_tool_call(call), lenient_json.first_count(call.get("index")) or 0
            )
        calls = tuple(map(_decode_tool_call, lenient_json.object_items(fields.get("tool_calls"))))
        self._calls = calls or self._calls
        self.finish_raw = (
            lenient_json.printable_text(fields.get("finish_reason")) or self.finish_raw
        )

    def feed_whole(self, whole: Fields, documents: dict[str, CitedSource]) -> None:
        """Read the whole of it, once what it repeats was told."""
        values = (
            *(["text"] if self._text else []),
            *(["citations"] if self._citations else []),
        )
        self.feed({name: value for name, value in whole.items() if name not in values}, documents)
        self.id = lenient_json.printable_text(whole.get("id")) or self.id

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        fragments = FragmentJoiner()
        for text in self._text:
            fragments.add(Text(text))
        if self._citations:
            fragments.add(Text("", tuple(self._citations)))
        for call in self._calls:
            fragments.add(call, key=None)  # each comes whole
        return (
            fragments.joined_parts()
            if self._calls
            else fragments.joined_parts() + self._is_started.joined_parts()
        )


def _decode_tool_call(call: Fields) -> ToolCall:
    """A call, whose parameters are an object, or its fragment, where they are JSON text."""
    parameters = call.get("parameters")
    return ToolCall(
        id=lenient_json.printable_text(call.get("id")),
        name=lenient_json.printable_text(call.get("name")),
        arguments=parameters
        if isinstance(parameters, str)
        else lenient_json.printable_text(parameters),
    )
