"""The answers of Cohere's `/v2/chat`: one document, or the events that build it up.

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
from llm_proxy.dialects.fragments import Fragments
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


def turn(documents: Iterable[Fields]) -> Turn:
    """The turn that these events, or the one document, tell."""
    message = _Message()
    for document in documents:
        message.take(document)
    return message.turn()


def says(event: Fields) -> int:
    """How many characters an event adds to what was said: what opens a part adds none."""
    if not lenient_json.words(event.get("type")).endswith(_DELTA):
        return 0
    said = lenient_json.fields(lenient_json.fields(event.get("delta")).get("message"))
    return sum(output_chars.says(fragment) for _, fragment in fragments(said, 0))


class _Message:
    """One answer, as its events come."""

    def __init__(self) -> None:
        self._fragments = Fragments()
        self._id = ""
        self._finish_raw = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}
        self._elsewhere: list[Json] = []
        """Citations that rest on no text."""

    def take(self, document: Fields) -> None:
        """Read one event, or the whole document."""
        said = lenient_json.fields(document.get("delta")) or document
        message = lenient_json.fields(said.get("message"))
        for key, fragment in fragments(message, document.get("index")):
            self._fragments.add(fragment, key)
        for citation in _listed(message.get(CITATIONS)):
            self._cite(citation)
        self._id = self._id or lenient_json.words(document.get("id"))
        self._finish_raw = lenient_json.words(said.get("finish_reason")) or self._finish_raw
        self._failure = self._failure or shared_fields.failure(said)
        usage = lenient_json.fields(said.get("usage"))
        self._usage = shared_fields.usage(usage) or self._usage
        self._metadata.update(shared_fields.account(usage))

    def turn(self) -> Turn:
        """What was said."""
        if self._elsewhere:
            self._metadata[CITATIONS] = self._elsewhere
        return Turn(
            self._fragments.parts(),
            finish=shared_fields.finish(self._finish_raw),
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=lenient_json.metadata(self._metadata, METADATA),
        )

    def _cite(self, citation: Fields) -> None:
        """A content index of nought is left out on the wire."""
        if lenient_json.words(citation.get("type")) not in OF_TEXT:
            self._elsewhere.append(dict(lenient_json.metadata(citation, citation)))
            return
        key = lenient_json.count(citation.get("content_index")) or 0
        self._fragments.add(Text("", tuple(shared_fields.citations(citation, {}))), key)


def fragments(message: Fields, index: Json) -> Keyed:
    """What a message holds, whole or in part, besides its citations."""
    at = lenient_json.count(index) or 0
    if plan := lenient_json.text(message.get("tool_plan")):
        yield "tool_plan", Reasoning(plan, metadata=PLAN)
    content = message.get("content")
    if isinstance(content, str) and content:
        yield at, Text(content)
    for position, block in enumerate(_listed(content), at):
        if thought := lenient_json.text(block.get("thinking")):
            yield position, Reasoning(thought)
        if said := lenient_json.text(block.get("text")):
            yield position, Text(said)
    for position, call in enumerate(_listed(message.get("tool_calls")), at):
        function = lenient_json.fields(call.get("function"))
        arguments = function.get("arguments")
        yield (
            position,
            ToolCall(
                id=lenient_json.words(call.get("id")),
                name=lenient_json.words(function.get("name")),
                arguments=arguments
                if isinstance(arguments, str)
                else lenient_json.words(arguments),
            ),
        )


def _listed(value: Json) -> list[Fields]:
    """The objects of a document's array, or the one object of an event."""
    return [value] if isinstance(value, dict) else lenient_json.objects(value)
