"""Decodes `/v2/chat` responses: a document, or events.

Where a document has an array, an event has one object, and its index in a field of its own:

    document   {"message": {"content": [{"text": "Hello"}]}, "finish_reason": "COMPLETE"}
    event      {"index": 0, "delta": {"message": {"content": {"text": "Hel"}}}}
    event      {"delta": {"finish_reason": "COMPLETE"}}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from llm_proxy.dialects import lenient_json, output_chars
from llm_proxy.dialects.cohere import shared_fields
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, Json, Metadata, Part, Reasoning, Text, ToolCall, Turn, Usage

TOOL_PLAN_METADATA: Final[Metadata] = (("type", "tool_plan"),)
"""The metadata that marks reasoning as a tool plan; thoughts have none."""

TEXT_CITATION_TYPES: Final = ("TEXT_CONTENT", "")
"""Types of citations of the response text; others cite sources for the plan or the thoughts."""

CITATIONS: Final = "citations"
METADATA_FIELDS: Final = (*shared_fields.USAGE_METADATA, *shared_fields.TOKENS_METADATA, CITATIONS)

END_EVENT: Final = "message-end"
"""The last event of a stream before `[DONE]`."""

_DELTA_SUFFIX: Final = "-delta"
"""The suffix of the types of events that add to an opened part."""

KeyedFragments = Iterator[tuple[Hashable, Part]]
"""Fragments, each with the key for `FragmentJoiner.add`."""


def decode_turn(documents: Iterable[Fields]) -> Turn:
    """The turn of these events, or of the one document."""
    decoder = _V2ResponseDecoder()
    for document in documents:
        decoder.feed(document)
    return decoder.turn()


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; only deltas add any."""
    if not lenient_json.value_as_text(event.get("type")).endswith(_DELTA_SUFFIX):
        return 0
    fields = lenient_json.object_fields(
        lenient_json.object_fields(event.get("delta")).get("message")
    )
    return sum(
        output_chars.fragment_output_chars(fragment) for _, fragment in decode_fragments(fields, 0)
    )


class _V2ResponseDecoder:
    """Decodes one response, event by event."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._id = ""
        self._finish_raw = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}
        self._non_text_citations: list[Json] = []
        """Citations of tool plans and thoughts, as their wire objects."""

    def feed(self, document: Fields) -> None:
        """Add one event, or the whole document."""
        fields = lenient_json.object_fields(document.get("delta")) or document
        message = lenient_json.object_fields(fields.get("message"))
        for key, fragment in decode_fragments(message, document.get("index")):
            self._fragments.add_fragment(fragment, key)
        for citation in _as_object_list(message.get(CITATIONS)):
            self._add_citation(citation)
        self._id = self._id or lenient_json.value_as_text(document.get("id"))
        self._finish_raw = (
            lenient_json.value_as_text(fields.get("finish_reason")) or self._finish_raw
        )
        self._failure = self._failure or shared_fields.decode_failure(fields)
        usage = lenient_json.object_fields(fields.get("usage"))
        self._usage = shared_fields.decode_usage(usage) or self._usage
        self._metadata.update(shared_fields.decode_usage_metadata(usage))

    def turn(self) -> Turn:
        """The decoded turn."""
        if self._non_text_citations:
            self._metadata[CITATIONS] = self._non_text_citations
        return Turn(
            self._fragments.joined_parts(),
            finish=shared_fields.decode_finish_reason(self._finish_raw),
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=lenient_json.select_metadata(self._metadata, METADATA_FIELDS),
        )

    def _add_citation(self, citation: Fields) -> None:
        if lenient_json.value_as_text(citation.get("type")) not in TEXT_CITATION_TYPES:
            self._non_text_citations.append(dict(lenient_json.select_metadata(citation, citation)))
            return
        key = lenient_json.first_integer(citation.get("content_index")) or 0
        self._fragments.add_fragment(
            Text("", tuple(shared_fields.decode_citations(citation, {}))), key
        )


def decode_fragments(message: Fields, index: Json) -> KeyedFragments:
    """The fragments of a message or of a delta, without citations."""
    first_index = lenient_json.first_integer(index) or 0
    if plan := lenient_json.str_or_empty(message.get("tool_plan")):
        yield "tool_plan", Reasoning(plan, metadata=TOOL_PLAN_METADATA)
    content = message.get("content")
    if isinstance(content, str) and content:
        yield first_index, Text(content)
    for position, block in enumerate(_as_object_list(content), first_index):
        if thought := lenient_json.str_or_empty(block.get("thinking")):
            yield position, Reasoning(thought)
        if text := lenient_json.str_or_empty(block.get("text")):
            yield position, Text(text)
    for position, call in enumerate(_as_object_list(message.get("tool_calls")), first_index):
        function = lenient_json.object_fields(call.get("function"))
        arguments = function.get("arguments")
        yield (
            position,
            ToolCall(
                id=lenient_json.value_as_text(call.get("id")),
                name=lenient_json.value_as_text(function.get("name")),
                arguments=arguments
                if isinstance(arguments, str)
                else lenient_json.value_as_text(arguments),
            ),
        )


def _as_object_list(value: Json) -> list[Fields]:
    """The objects in a document's array, or an event's object as the only one."""
    return [value] if isinstance(value, dict) else lenient_json.array_objects(value)
