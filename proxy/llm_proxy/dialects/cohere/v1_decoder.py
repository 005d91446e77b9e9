"""Decodes `/v1/chat` and `/v1/generate`, whole or from events.

The last event of a stream repeats the whole response as `response`, which fills in what the
earlier events left out; an unstreamed document is that response alone.

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
from llm_proxy.turns import Citation, Failure, FinishReason, Json, Part, Text, ToolCall, Turn, Usage

RESPONSE_ID: Final = "response_id"
QUERY_METADATA: Final = ("search_queries",)
SEARCH_RESULT_METADATA: Final = ("search_results", "documents")

_RESPONSE_METADATA: Final = (
    RESPONSE_ID,
    *QUERY_METADATA,
    *SEARCH_RESULT_METADATA,
    "is_search_required",
)

METADATA_FIELDS: Final = (
    *_RESPONSE_METADATA,
    *shared_fields.USAGE_METADATA,
    *shared_fields.TOKENS_METADATA,
)

END_EVENT: Final = "stream-end"
"""The event that ends a stream."""


def decode_turns(documents: Iterable[Fields]) -> tuple[Turn, ...]:
    """One turn per generation, of which a chat has one."""
    decoder = _V1ResponseDecoder()
    for document in documents:
        decoder.feed(document)
    return decoder.turns()


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; old servers send no type.

    A fragment of a tool call counts as at least one.
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
    """Decodes one response, event by event."""

    def __init__(self) -> None:
        self._generations: dict[int, _GenerationDecoder] = {}
        self._sources_by_id: dict[str, CitedSource] = {}
        self._id = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Add one event, or the whole document."""
        response = lenient_json.object_fields(document.get("response"))
        self._read_response_fields(document)
        self._read_response_fields(response)
        index = lenient_json.first_integer(document.get("index")) or 0
        if "generations" not in document and not response.get("generations"):
            self._generation_at(index).feed(document, self._sources_by_id)
            self._generation_at(index).feed_complete_generation(response, self._sources_by_id)
        for fields in (document, response):
            for position, generation in enumerate(
                lenient_json.array_objects(fields.get("generations"))
            ):
                generation_index = lenient_json.first_integer(generation.get("index"))
                self._generation_at(
                    position if generation_index is None else generation_index
                ).feed_complete_generation(generation, {})

    def turns(self) -> tuple[Turn, ...]:
        """One turn per generation; each has the usage, failure and metadata of the response."""
        return tuple(
            self._build_turn(generation) for _, generation in sorted(self._generations.items())
        )

    def _generation_at(self, index: int) -> _GenerationDecoder:
        return self._generations.setdefault(index, _GenerationDecoder())

    def _read_response_fields(self, fields: Fields) -> None:
        for object_item in lenient_json.array_objects(fields.get("documents")):
            self._sources_by_id[lenient_json.value_as_text(object_item.get("id"))] = (
                shared_fields.decode_source(object_item)
            )
        meta = lenient_json.object_fields(fields.get("meta"))
        self._usage = shared_fields.decode_usage(meta) or self._usage
        self._failure = self._failure or shared_fields.decode_failure(fields)
        self._metadata.update(lenient_json.select_metadata(fields, _RESPONSE_METADATA))
        self._metadata.update(shared_fields.decode_usage_metadata(meta))
        self._id = self._id or lenient_json.value_as_text(
            fields.get("generation_id") or fields.get("id")
        )

    def _build_turn(self, generation: _GenerationDecoder) -> Turn:
        parts = generation.parts()
        raw = generation.finish_raw
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        return Turn(
            parts,
            finish=FinishReason.TOOL_CALLS
            if has_calls and raw == "COMPLETE"
            else shared_fields.decode_finish_reason(raw),
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=generation.id or self._id,
            metadata=lenient_json.select_metadata(self._metadata, METADATA_FIELDS),
        )


class _GenerationDecoder:
    """Decodes one generation, event by event."""

    def __init__(self) -> None:
        self.id = ""
        self.finish_raw = ""
        self._text: list[str] = []
        self._citations: list[Citation] = []
        self._call_fragments = FragmentJoiner()
        """Tool calls from streamed fragments."""
        self._complete_calls: tuple[ToolCall, ...] = ()
        """Complete tool calls as a later event repeats them; they replace the fragments."""

    def feed(self, fields: Fields, sources_by_id: dict[str, CitedSource]) -> None:
        """Add one event; text that an event repeats with its tool calls is skipped."""
        call = lenient_json.object_fields(fields.get("tool_call_delta"))
        text = lenient_json.str_or_empty(fields.get("text")) or lenient_json.str_or_empty(
            call.get("text")
        )
        if text and not (self._text and fields.get("tool_calls")):
            self._text.append(text)
        for object_item in lenient_json.array_objects(fields.get("citations")):
            self._citations.extend(shared_fields.decode_citations(object_item, sources_by_id))
        if call.get("name") or call.get("parameters"):
            self._call_fragments.add_fragment(
                _decode_tool_call(call), lenient_json.first_integer(call.get("index")) or 0
            )
        calls = tuple(map(_decode_tool_call, lenient_json.array_objects(fields.get("tool_calls"))))
        self._complete_calls = calls or self._complete_calls
        self.finish_raw = lenient_json.value_as_text(fields.get("finish_reason")) or self.finish_raw

    def feed_complete_generation(
        self, generation: Fields, sources_by_id: dict[str, CitedSource]
    ) -> None:
        """Add the complete generation, without the text and citations that events have given."""
        fed_fields = (
            *(["text"] if self._text else []),
            *(["citations"] if self._citations else []),
        )
        self.feed(
            {name: value for name, value in generation.items() if name not in fed_fields},
            sources_by_id,
        )
        self.id = lenient_json.value_as_text(generation.get("id")) or self.id

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts."""
        fragments = FragmentJoiner()
        for text in self._text:
            fragments.add_fragment(Text(text))
        if self._citations:
            fragments.add_fragment(Text("", tuple(self._citations)))
        for call in self._complete_calls:
            fragments.add_fragment(call, key=None)  # a complete call is never joined
        return (
            fragments.joined_parts()
            if self._complete_calls
            else fragments.joined_parts() + self._call_fragments.joined_parts()
        )


def _decode_tool_call(call: Fields) -> ToolCall:
    """A call with an object of parameters, or a fragment of one with JSON text."""
    parameters = call.get("parameters")
    return ToolCall(
        id=lenient_json.value_as_text(call.get("id")),
        name=lenient_json.value_as_text(call.get("name")),
        arguments=parameters
        if isinstance(parameters, str)
        else lenient_json.value_as_text(parameters),
    )
