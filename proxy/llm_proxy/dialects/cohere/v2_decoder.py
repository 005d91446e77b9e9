"""Decodes `/v2/chat` responses: a document, or events.

What a document holds in arrays, an event holds as one object, with its index beside it:

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

PLAN: Final[Metadata] = (("type", "tool_plan"),)
"""The metadata of reasoning that tells a plan of calls from thoughts."""

OF_TEXT: Final = ("TEXT_CONTENT", "")
"""Types of citations that rest on the answer; others rest on the plan or the thoughts."""

CITATIONS: Final = "citations"
METADATA: Final = (*shared_fields.ACCOUNT, *shared_fields.ACCOUNT_OF_TOKENS, CITATIONS)

END: Final = "message-end"
"""The event that ends a stream, but for what HTTP clients know as its end."""

_DELTA: Final = "-delta"
"""How the types of events end that add to what opened before."""

Keyed = Iterator[tuple[Hashable, Part]]
"""Fragments, each with the key that joins it to others of its kind."""


def decode_turn(documents: Iterable[Fields]) -> Turn:
    """The turn that these events, or the one document, tell."""
    message = _V2ResponseDecoder()
    for document in documents:
        message.feed(document)
    return message.decode_turn()


def event_output_chars(event: Fields) -> int:
    """How many characters an event adds to what was said: what opens a part adds none."""
    if not lenient_json.printable_text(event.get("type")).endswith(_DELTA):
        return 0
    fields = lenient_json.object_fields(
        lenient_json.object_fields(event.get("delta")).get("message")
    )
    return sum(
        output_chars.fragment_output_chars(fragment) for _, fragment in decode_fragments(fields, 0)
    )


class _V2ResponseDecoder:
    """One answer, as its events come."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._id = ""
        self._finish_raw = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}
        self._plan_citations: list[Json] = []
        """Citations that rest on no text."""

    def feed(self, document: Fields) -> None:
        """Read one event, or the whole document."""
        fields = lenient_json.object_fields(document.get("delta")) or document
        message = lenient_json.object_fields(fields.get("message"))
        for key, fragment in decode_fragments(message, document.get("index")):
            self._fragments.add(fragment, key)
        for citation in _objects_of(message.get(CITATIONS)):
            self._add_citation(citation)
        self._id = self._id or lenient_json.printable_text(document.get("id"))
        self._finish_raw = (
            lenient_json.printable_text(fields.get("finish_reason")) or self._finish_raw
        )
        self._failure = self._failure or shared_fields.decode_failure(fields)
        usage = lenient_json.object_fields(fields.get("usage"))
        self._usage = shared_fields.decode_usage(usage) or self._usage
        self._metadata.update(shared_fields.extra_usage_fields(usage))

    def decode_turn(self) -> Turn:
        """What was said."""
        if self._plan_citations:
            self._metadata[CITATIONS] = self._plan_citations
        return Turn(
            self._fragments.joined_parts(),
            finish=shared_fields.finish_of_raw(self._finish_raw),
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=lenient_json.named_metadata(self._metadata, METADATA),
        )

    def _add_citation(self, citation: Fields) -> None:
        if lenient_json.printable_text(citation.get("type")) not in OF_TEXT:
            self._plan_citations.append(dict(lenient_json.named_metadata(citation, citation)))
            return
        key = lenient_json.first_count(citation.get("content_index")) or 0
        self._fragments.add(Text("", tuple(shared_fields.decode_citations(citation, {}))), key)


def decode_fragments(message: Fields, index: Json) -> Keyed:
    """What a message holds, whole or in part, besides its citations."""
    at = lenient_json.first_count(index) or 0
    if plan := lenient_json.str_or_empty(message.get("tool_plan")):
        yield "tool_plan", Reasoning(plan, metadata=PLAN)
    content = message.get("content")
    if isinstance(content, str) and content:
        yield at, Text(content)
    for position, block in enumerate(_objects_of(content), at):
        if thought := lenient_json.str_or_empty(block.get("thinking")):
            yield position, Reasoning(thought)
        if text := lenient_json.str_or_empty(block.get("text")):
            yield position, Text(text)
    for position, call in enumerate(_objects_of(message.get("tool_calls")), at):
        function = lenient_json.object_fields(call.get("function"))
        arguments = function.get("arguments")
        yield (
            position,
            ToolCall(
                id=lenient_json.printable_text(call.get("id")),
                name=lenient_json.printable_text(function.get("name")),
                arguments=arguments
                if isinstance(arguments, str)
                else lenient_json.printable_text(arguments),
            ),
        )


def _objects_of(value: Json) -> list[Fields]:
    """The objects of a document's array, or the one object of an event."""
    return [value] if isinstance(value, dict) else lenient_json.object_items(value)
