"""Decodes version 1 of the API: `/v1/chat` and `/v1/generate`.  Only its requests are on Bedrock.

    {"event_type": "text-generation", "text": "Hel", "is_finished": false}
    {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"text": "Hello"}}

The last event of a stream repeats the whole response as `response`, which fills in what the
earlier events left out; an unstreamed document is that response alone.  Responses are not encoded:
current clients use `/v2/chat`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding, wire
from llm_proxy.dialects.cohere import chat_v2
from llm_proxy.dialects.cohere.requests import OPTION_NAMES
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    select_metadata,
    value_as_text,
)
from llm_proxy.dialects.wire import FinishReasons
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_JSON_SCHEMA_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""Python's names of parameter types, as version 1 has them -> JSON Schema's."""

_RESPONSE_METADATA: Final = (
    *("response_id", "search_queries", "search_results", "documents"),
    "is_search_required",
)
_METADATA: Final = (*_RESPONSE_METADATA, *chat_v2.COUNTING_METADATA)
_FINISH: Final = FinishReasons(
    chat_v2.FINISH_BY_RAW, {FinishReason.STOP: "COMPLETE"}, stop_means_tool_calls=True
)

END_EVENT: Final = "stream-end"
"""The event that ends a stream."""


def decode_request(body: Fields) -> Conversation:
    """The conversation of a `/v1/chat` body: its history, then the current message."""
    current_message: Fields = {**body, "role": "user"}
    messages = (
        message
        for entry in (*get_objects(body, "chat_history"), current_message)
        for message in _decode_messages(entry)
    )
    response_format = get_object(body, "response_format")
    preamble = request_decoding.text_or_empty(body.get("preamble"))
    return replace(
        request_decoding.conversation(messages, {}, preamble),
        tools=tuple(
            definition for tool in get_objects(body, "tools") for definition in _decode_tool(tool)
        ),
        response_schema=request_decoding.response_schema(
            response_format, response_format.get("schema"), response_format.get("json_schema")
        ),
        stored_conversation_id=request_decoding.text_or_empty(body.get("conversation_id")),
        **request_decoding.decode_options(body, OPTION_NAMES),
    )


def decode_completion_request(body: Fields) -> Conversation:
    """The conversation of a `/v1/generate` body: its prompt."""
    return replace(
        request_decoding.prompt_conversation(body.get("prompt"), {}),
        **request_decoding.decode_options(body, OPTION_NAMES),
    )


def _decode_messages(entry: Fields) -> Iterator[RequestMessage]:
    """The message of a history entry, after the tool results that the entry holds."""
    if results := get_objects(entry, "tool_results"):
        yield request_decoding.request_message(
            "tool",
            (
                ToolResult(
                    "",
                    request_decoding.tool_output_text(result.get("outputs")),
                    get_string(get_object(result, "call"), "name"),
                )
                for result in results
            ),
        )
    role = request_decoding.decode_role(entry.get("role"))
    text = get_string(entry, "message")
    if role == "assistant" or (role is not None and text):
        calls = (
            ToolCall("", get_string(call, "name"), get_text(call, "parameters"))
            for call in get_objects(entry, "tool_calls")
        )
        yield request_decoding.request_message(role, [Text(text), *calls])


def _decode_tool(tool: Fields) -> Iterator[ToolDefinition]:
    parameters = get_object(tool, "parameter_definitions")
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for name in parameters:
        definition = get_object(parameters, name)
        properties[name] = {
            "type": _JSON_SCHEMA_TYPES.get(get_string(definition, "type"), "string"),
            "description": request_decoding.text_or_empty(definition.get("description")),
        }
        if definition.get("required") is True:
            required.append(name)
    schema: Json = {"type": "object", "properties": properties, "required": required}
    return request_decoding.decode_tool(tool, schema if parameters else None)


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; old servers send no type.

    A fragment of a tool call counts as at least one.
    """
    match event.get("event_type"):
        case "tool-calls-chunk":
            call = get_object(event, "tool_call_delta")
            texts = (event.get("text"), call.get("text"), call.get("name"), call.get("parameters"))
            return max(sum(len(text) for text in texts if isinstance(text, str)), 1)
        case None | "text-generation" if event.get("is_finished") is False:
            return len(get_string(event, "text"))
        case _:
            return 0


class TurnsDecoder:
    """Decodes the events of a stream, or the one document of a response.

    There is one turn per generation, of which a chat has one.  Each has the usage, failure and
    metadata of the response.
    """

    def __init__(self) -> None:
        self._generations: dict[int, _Generation] = {}
        self._sources_by_id: dict[str, Citation] = {}
        self._id = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> list[Part]:
        """Decode a document; the calls are complete when their generation is finished."""
        response = get_object(document, "response")
        for fields in (document, response):
            for source in get_objects(fields, "documents"):
                self._sources_by_id[get_text(source, "id")] = chat_v2.decode_source(source)
            counts, usage_metadata = chat_v2.decode_usage(get_object(fields, "meta"))
            self._usage = counts or self._usage
            self._metadata.update(usage_metadata)
            self._failure = self._failure or chat_v2.decode_failure(fields)
            self._metadata.update(select_metadata(fields, _RESPONSE_METADATA))
            self._id = self._id or value_as_text(fields.get("generation_id") or fields.get("id"))
        if "generations" not in document and not response.get("generations"):
            chat = self._generation(get_integer(document, "index") or 0)
            chat.feed(document, self._sources_by_id)
            chat.feed_whole(response, self._sources_by_id)
        for fields in (document, response):
            for position, whole in enumerate(get_objects(fields, "generations")):
                index = get_integer(whole, "index")
                self._generation(position if index is None else index).feed_whole(whole, {})
        return self._generations[0].new_pieces() if 0 in self._generations else []

    def _generation(self, index: int) -> _Generation:
        return self._generations.setdefault(index, _Generation())

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, by the index of their generation."""
        turns = []
        for _, generation in sorted(self._generations.items()):
            parts, raw = generation.parts(), generation.finish_raw
            turns.append(
                Turn(
                    parts,
                    finish=_FINISH.decode(raw, awaits_client=wire.has_tool_calls(parts)),
                    finish_raw=raw,
                    usage=self._usage,
                    failure=self._failure,
                    id=generation.id or self._id,
                    metadata=select_metadata(self._metadata, _METADATA),
                )
            )
        return tuple(turns)


class _Generation:
    """Collects the events of one generation."""

    def __init__(self) -> None:
        self.id = ""
        self.finish_raw = ""
        self._texts: list[str] = []
        self._citations: list[Citation] = []
        self._call_fragments: list[tuple[int, Fields]] = []
        self._whole_calls: list[tuple[int, Fields]] = []
        """Tool calls by index; whole ones, as a later event repeats them, replace fragments."""
        self._taken_text_count = 0
        self._are_calls_taken = False

    def feed(self, fields: Fields, sources_by_id: dict[str, Citation]) -> None:
        """Add one event; text that an event repeats with its tool calls is skipped."""
        call = get_object(fields, "tool_call_delta")
        text = get_string(fields, "text") or get_string(call, "text")
        if text and not (self._texts and fields.get("tool_calls")):
            self._texts.append(text)
        for citation in get_objects(fields, "citations"):
            self._citations += chat_v2.decode_citations(citation, sources_by_id)
        if call.get("name") or call.get("parameters"):
            self._call_fragments.append((get_integer(call, "index") or 0, call))
        self._whole_calls = [*enumerate(get_objects(fields, "tool_calls"))] or self._whole_calls
        self.finish_raw = get_text(fields, "finish_reason") or self.finish_raw

    def feed_whole(self, generation: Fields, sources_by_id: dict[str, Citation]) -> None:
        """Add the whole generation, without the text and citations that events have given."""
        missing = dict(generation)
        if self._texts:
            missing.pop("text", None)
        if self._citations:
            missing.pop("citations", None)
        self.feed(missing, sources_by_id)
        self.id = get_text(generation, "id") or self.id

    def new_pieces(self) -> list[Part]:
        """The texts since the last time, and the calls once it is finished."""
        pieces: list[Part] = [Text(text) for text in self._texts[self._taken_text_count :]]
        self._taken_text_count = len(self._texts)
        if self.finish_raw and not self._are_calls_taken:
            self._are_calls_taken = True
            pieces += (part for part in self.parts() if isinstance(part, ToolCall))
        return pieces

    def parts(self) -> tuple[Part, ...]:
        """The text with its citations, then the tool calls."""
        joiner = FragmentJoiner()
        for text in self._texts:
            joiner.add_fragment(Text(text))
        if self._citations:
            joiner.add_fragment(Text("", tuple(self._citations)))
        for index, call in self._whole_calls or self._call_fragments:
            # an object of parameters, or a fragment of JSON text
            arguments = get_string(call, "parameters") or get_text(call, "parameters")
            call_id, name = get_text(call, "id"), get_text(call, "name")
            joiner.add_fragment(ToolCall(call_id, name, arguments), index)
        return joiner.joined_parts()
