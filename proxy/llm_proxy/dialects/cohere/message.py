"""The answers of Cohere's `/v2/chat`: one document, or the events that build it up.

What a document holds in arrays, an event holds as one object, with its index beside it:

    document   {"message": {"content": [{"text": "Hello"}]}, "finish_reason": "COMPLETE"}
    event      {"index": 0, "delta": {"message": {"content": {"text": "Hel"}}}}
    event      {"delta": {"finish_reason": "COMPLETE"}}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from llm_proxy.dialects import reading, saying
from llm_proxy.dialects.cohere import terms
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Failure, Json, Metadata, Part, Reasoning, Text, ToolCall, Turn, Usage

PLAN: Final[Metadata] = (("type", "tool_plan"),)
"""The metadata of reasoning that tells a plan of calls from thoughts."""

OF_TEXT: Final = ("TEXT_CONTENT", "")
"""Types of citations that rest on the answer; others rest on the plan or the thoughts."""

CITATIONS: Final = "citations"
METADATA: Final = (*terms.ACCOUNT, *terms.ACCOUNT_OF_TOKENS, CITATIONS)

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
    if not reading.words(event.get("type")).endswith(_DELTA):
        return 0
    said = reading.fields(reading.fields(event.get("delta")).get("message"))
    return sum(saying.says(fragment) for _, fragment in fragments(said, 0))


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
        said = reading.fields(document.get("delta")) or document
        message = reading.fields(said.get("message"))
        for key, fragment in fragments(message, document.get("index")):
            self._fragments.add(fragment, key)
        for citation in _listed(message.get(CITATIONS)):
            self._cite(citation)
        self._id = self._id or reading.words(document.get("id"))
        self._finish_raw = reading.words(said.get("finish_reason")) or self._finish_raw
        self._failure = self._failure or terms.failure(said)
        usage = reading.fields(said.get("usage"))
        self._usage = terms.usage(usage) or self._usage
        self._metadata.update(terms.account(usage))

    def turn(self) -> Turn:
        """What was said."""
        if self._elsewhere:
            self._metadata[CITATIONS] = self._elsewhere
        return Turn(
            self._fragments.parts(),
            finish=terms.finish(self._finish_raw),
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=reading.metadata(self._metadata, METADATA),
        )

    def _cite(self, citation: Fields) -> None:
        """A content index of nought is left out on the wire."""
        if reading.words(citation.get("type")) not in OF_TEXT:
            self._elsewhere.append(dict(reading.metadata(citation, citation)))
            return
        key = reading.count(citation.get("content_index")) or 0
        self._fragments.add(Text("", tuple(terms.citations(citation, {}))), key)


def fragments(message: Fields, index: Json) -> Keyed:
    """What a message holds, whole or in part, besides its citations."""
    at = reading.count(index) or 0
    if plan := reading.text(message.get("tool_plan")):
        yield "tool_plan", Reasoning(plan, metadata=PLAN)
    content = message.get("content")
    if isinstance(content, str) and content:
        yield at, Text(content)
    for position, block in enumerate(_listed(content), at):
        if thought := reading.text(block.get("thinking")):
            yield position, Reasoning(thought)
        if said := reading.text(block.get("text")):
            yield position, Text(said)
    for position, call in enumerate(_listed(message.get("tool_calls")), at):
        function = reading.fields(call.get("function"))
        arguments = function.get("arguments")
        yield (
            position,
            ToolCall(
                id=reading.words(call.get("id")),
                name=reading.words(function.get("name")),
                arguments=arguments if isinstance(arguments, str) else reading.words(arguments),
            ),
        )


def _listed(value: Json) -> list[Fields]:
    """The objects of a document's array, or the one object of an event."""
    return [value] if isinstance(value, dict) else reading.objects(value)
