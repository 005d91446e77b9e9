"""The answers of Cohere's version 1: `/v1/chat` and `/v1/generate`, whole or in events.

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
from llm_proxy.dialects.cohere.shared_fields import Source
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Citation, Failure, Finish, Json, Part, Text, ToolCall, Turn, Usage

RESPONSE_ID: Final = "response_id"
QUERIES: Final = ("search_queries",)
RESULTS: Final = ("search_results", "documents")

_OF_ANSWER: Final = (RESPONSE_ID, *QUERIES, *RESULTS, "is_search_required")

METADATA: Final = (*_OF_ANSWER, *shared_fields.ACCOUNT, *shared_fields.ACCOUNT_OF_TOKENS)

END: Final = "stream-end"
"""The event that ends a stream."""


def turns(documents: Iterable[Fields]) -> tuple[Turn, ...]:
    """One turn a generation, of which a chat has one."""
    answer = _Answer()
    for document in documents:
        answer.take(document)
    return answer.turns()


def says(event: Fields) -> int:
    """How many characters an event adds to what was said; old servers have no types.

    A piece of a call counts as one at least.
    """
    match event.get("event_type"):
        case "tool-calls-chunk":
            call = lenient_json.fields(event.get("tool_call_delta"))
            texts = (event.get("text"), call.get("text"), call.get("name"), call.get("parameters"))
            return max(sum(len(lenient_json.text(it)) for it in texts), 1)
        case None | "text-generation" if event.get("is_finished") is False:
            return len(lenient_json.text(event.get("text")))
        case _:
            return 0


class _Answer:
    """One answer, as its events come."""

    def __init__(self) -> None:
        self._generations: dict[int, _Generation] = {}
        self._documents: dict[str, Source] = {}
        self._id = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def take(self, document: Fields) -> None:
        """Read one event, or the whole document."""
        whole = lenient_json.fields(document.get("response"))
        self._about(document)
        self._about(whole)
        index = lenient_json.count(document.get("index")) or 0
        if "generations" not in document and not whole.get("generations"):
            self._generation(index).take(document, self._documents)
            self._generation(index).fill(whole, self._documents)
        for each in (document, whole):
            for position, said in enumerate(lenient_json.objects(each.get("generations"))):
                place = lenient_json.count(said.get("index"))
                self._generation(position if place is None else place).fill(said, {})

    def turns(self) -> tuple[Turn, ...]:
        """What was said; counts and errors of the answer belong to each generation."""
        return tuple(self._turn(it) for _, it in sorted(self._generations.items()))

    def _generation(self, index: int) -> _Generation:
        return self._generations.setdefault(index, _Generation())

    def _about(self, said: Fields) -> None:
        """What an event or a document says of the answer as a whole."""
        for each in lenient_json.objects(said.get("documents")):
            self._documents[lenient_json.words(each.get("id"))] = shared_fields.source(each)
        meta = lenient_json.fields(said.get("meta"))
        self._usage = shared_fields.usage(meta) or self._usage
        self._failure = self._failure or shared_fields.failure(said)
        self._metadata.update(lenient_json.metadata(said, _OF_ANSWER))
        self._metadata.update(shared_fields.account(meta))
        self._id = self._id or lenient_json.words(said.get("generation_id") or said.get("id"))

    def _turn(self, generation: _Generation) -> Turn:
        parts = generation.parts()
        raw = generation.finish_raw
        calls = any(isinstance(part, ToolCall) for part in parts)
        return Turn(
            parts,
            finish=Finish.TOOL_CALLS if calls and raw == "COMPLETE" else shared_fields.finish(raw),
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=generation.id or self._id,
            metadata=lenient_json.metadata(self._metadata, METADATA),
        )


class _Generation:
    """One generation, as its events come."""

    def __init__(self) -> None:
        self.id = ""
        self.finish_raw = ""
        self._text: list[str] = []
        self._citations: list[Citation] = []
        self._begun = Fragments()
        """Tool calls as the model writes them."""
        self._calls: tuple[ToolCall, ...] = ()
        """Tool calls as the provider gives them once they are whole."""

    def take(self, said: Fields, documents: dict[str, Source]) -> None:
        """Read one event; a stream may tell a text in pieces, and once more with its calls."""
        call = lenient_json.fields(said.get("tool_call_delta"))
        text = lenient_json.text(said.get("text")) or lenient_json.text(call.get("text"))
        if text and not (self._text and said.get("tool_calls")):
            self._text.append(text)
        for each in lenient_json.objects(said.get("citations")):
            self._citations.extend(shared_fields.citations(each, documents))
        if call.get("name") or call.get("parameters"):
            self._begun.add(_call(call), lenient_json.count(call.get("index")) or 0)
        calls = tuple(map(_call, lenient_json.objects(said.get("tool_calls"))))
        self._calls = calls or self._calls
        self.finish_raw = lenient_json.words(said.get("finish_reason")) or self.finish_raw

    def fill(self, whole: Fields, documents: dict[str, Source]) -> None:
        """Read the whole of it, once what it repeats was told."""
        told = (
            *(["text"] if self._text else []),
            *(["citations"] if self._citations else []),
        )
        self.take({name: it for name, it in whole.items() if name not in told}, documents)
        self.id = lenient_json.words(whole.get("id")) or self.id

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        fragments = Fragments()
        for text in self._text:
            fragments.add(Text(text))
        if self._citations:
            fragments.add(Text("", tuple(self._citations)))
        for call in self._calls:
            fragments.add(call, key=None)  # each comes whole
        return fragments.parts() if self._calls else fragments.parts() + self._begun.parts()


def _call(call: Fields) -> ToolCall:
    """A call, whose parameters are an object, or its fragment, where they are JSON text."""
    parameters = call.get("parameters")
    return ToolCall(
        id=lenient_json.words(call.get("id")),
        name=lenient_json.words(call.get("name")),
        arguments=parameters if isinstance(parameters, str) else lenient_json.words(parameters),
    )
