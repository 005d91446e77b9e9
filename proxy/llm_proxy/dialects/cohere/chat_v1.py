"""Decodes `/v1/chat` and `/v1/generate`, and encodes the former: a document, or events before it.

    {"event_type": "text-generation", "text": "Hel", "is_finished": false}
    {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"text": "Hello"}}

The last event of a stream repeats the whole response as `response`, which fills in what the
earlier events left out; an unstreamed document is that response alone.  The events of a stream:

    stream-start [queries] [results] ( text | tool call chunk )* [calls] [citations] stream-end
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from llm_proxy.dialects import response_encoding, turn_parts, wire
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.cohere import shared_format
from llm_proxy.dialects.cohere.shared_format import CitedSource
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    parse_object,
    select_metadata,
    str_or_empty,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, WireFormat
from llm_proxy.exchange import Request, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Part,
    Text,
    ToolCall,
    Turn,
    Usage,
)

RESPONSE_ID: Final = "response_id"
QUERY_METADATA: Final = ("search_queries",)
_DOCUMENTS_FIELD: Final = "documents"
SEARCH_RESULT_METADATA: Final = ("search_results", _DOCUMENTS_FIELD)

_RESPONSE_METADATA: Final = (
    RESPONSE_ID,
    *QUERY_METADATA,
    *SEARCH_RESULT_METADATA,
    "is_search_required",
)

METADATA_FIELDS: Final = (
    *_RESPONSE_METADATA,
    *shared_format.USAGE_METADATA,
    *shared_format.TOKENS_METADATA,
)

END_EVENT: Final = "stream-end"
"""The event that ends a stream."""

_NDJSON_CONTENT_TYPE: Final = "application/stream+json"

_FINISH: Final = FinishReasons(
    shared_format.FINISH_BY_RAW,
    {
        FinishReason.STOP: "COMPLETE",
        FinishReason.STOP_SEQUENCE: "STOP_SEQUENCE",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.CONTEXT_FULL: "ERROR_LIMIT",
        FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
        FinishReason.ERROR: shared_format.ERROR_FINISH,
    },
    stop_means_tool_calls=True,
)


def wire_format(*, stream: bool) -> WireFormat:
    """What a stream or a document can hold: one text, then tool calls."""
    return WireFormat(
        dialect="cohere",
        is_streamed=stream,
        parts=frozenset((Text, ToolCall)),
        finish=_FINISH,
        usage=shared_format.USAGE,
        metadata=METADATA_FIELDS,
        has_object_arguments=True,
        id_prefix="co-",
    )


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
            call = get_object(event, "tool_call_delta")
            texts = (event.get("text"), call.get("text"), call.get("name"), call.get("parameters"))
            return max(sum(len(str_or_empty(text)) for text in texts), 1)
        case None | "text-generation" if event.get("is_finished") is False:
            return len(get_string(event, "text"))
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
        response = get_object(document, "response")
        self._read_response_fields(document)
        self._read_response_fields(response)
        index = get_integer(document, "index") or 0
        if "generations" not in document and not response.get("generations"):
            self._generation_at(index).feed(document, self._sources_by_id)
            self._generation_at(index).feed_complete_generation(response, self._sources_by_id)
        for fields in (document, response):
            for position, generation in enumerate(get_objects(fields, "generations")):
                generation_index = get_integer(generation, "index")
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
        for object_item in get_objects(fields, "documents"):
            self._sources_by_id[get_text(object_item, "id")] = shared_format.decode_source(
                object_item
            )
        if meta := get_object(fields, "meta"):
            self._usage = shared_format.decode_usage(meta) or self._usage
            self._metadata.update(shared_format.decode_usage_metadata(meta))
        self._failure = self._failure or shared_format.decode_failure(fields)
        self._metadata.update(select_metadata(fields, _RESPONSE_METADATA))
        self._id = self._id or value_as_text(fields.get("generation_id") or fields.get("id"))

    def _build_turn(self, generation: _GenerationDecoder) -> Turn:
        parts = generation.parts()
        raw = generation.finish_raw
        awaits_client = wire.has_tool_calls(parts)
        return Turn(
            parts,
            finish=_FINISH.decode(raw, awaits_client=awaits_client) if raw else None,
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=generation.id or self._id,
            metadata=select_metadata(self._metadata, METADATA_FIELDS),
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
        call = get_object(fields, "tool_call_delta")
        text = get_string(fields, "text") or get_string(call, "text")
        if text and not (self._text and fields.get("tool_calls")):
            self._text.append(text)
        for object_item in get_objects(fields, "citations"):
            self._citations.extend(shared_format.decode_citations(object_item, sources_by_id))
        if call.get("name") or call.get("parameters"):
            self._call_fragments.add_fragment(
                _decode_tool_call(call), get_integer(call, "index") or 0
            )
        calls = tuple(map(_decode_tool_call, get_objects(fields, "tool_calls")))
        self._complete_calls = calls or self._complete_calls
        self.finish_raw = get_text(fields, "finish_reason") or self.finish_raw

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
        self.id = get_text(generation, "id") or self.id

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
        id=get_text(call, "id"),
        name=get_text(call, "name"),
        arguments=parameters if isinstance(parameters, str) else value_as_text(parameters),
    )


def encode_turn(
    turn: Turn, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse:
    """The response: a document, NDJSON, or SSE where the request accepts it."""
    headers = shared_format.common_response_headers(context)
    encoder = _V1Encoder(shared_format.as_sent_before_failure(turn), request, context)
    if not stream:
        return response_encoding.json_response(encoder.encode_document(), headers)
    accepted_types = (header_value(request.headers, name) or "" for name in ("accept", "accepts"))
    if any(sse.CONTENT_TYPE in text for text in accepted_types):
        events = (
            sse.encode_event(response_encoding.single_line_json(event), event["event_type"])
            for event in encoder.encode_events()
        )
        return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events, headers)
    lines = (response_encoding.single_line_json(event) + b"\n" for event in encoder.encode_events())
    return response_encoding.stream_response("ndjson", _NDJSON_CONTENT_TYPE, lines, headers)


class _V1Encoder:
    """Encodes one turn, whose citations refer to documents of the response by id."""

    def __init__(self, turn: Turn, request: Request, context: EncodeContext) -> None:
        self._turn = turn
        self._context = context
        self._request_fields = parse_object(request.body)
        metadata = dict(turn.metadata)
        cited_documents = _CitedDocuments(metadata.get(_DOCUMENTS_FIELD))
        texts = [part for part in turn.parts if isinstance(part, Text)]
        self._citations = [
            cited_documents.with_document_id(citation, turn.text)
            for text in turn_parts.merge_neighbours(texts, {Text})
            if isinstance(text, Text)
            for citation in text.citations
        ]
        metadata[_DOCUMENTS_FIELD] = cited_documents.documents
        metadata[RESPONSE_ID] = get_text(metadata, RESPONSE_ID) or context.fake_uuid("response")
        self._metadata = dict(select_metadata(metadata, _RESPONSE_METADATA))
        self._calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        self._call_documents = [
            {"name": call.name, "parameters": orjson.Fragment(call.arguments.encode())}
            for call in self._calls
        ]

    def encode_events(self) -> Iterator[Document]:
        turn = self._turn
        yield _encode_event("stream-start", generation_id=turn.id)
        for kind, names in (
            ("search-queries-generation", QUERY_METADATA),
            ("search-results", SEARCH_RESULT_METADATA),
        ):
            fields = {name: self._metadata[name] for name in names if name in self._metadata}
            if fields:
                yield _encode_event(kind, **fields)
        for piece in self._context.split_text(turn.text):
            yield _encode_event("text-generation", text=piece)
        for index, call in enumerate(self._calls):
            delta: Document = {"name": call.name, "index": index}
            yield _encode_event("tool-calls-chunk", tool_call_delta=delta)
            for piece in self._context.split_text(call.arguments):
                delta = {"index": index, "parameters": piece}
                yield _encode_event("tool-calls-chunk", tool_call_delta=delta)
        if self._calls:
            text = {"text": turn.text} if turn.text else {}
            yield _encode_event("tool-calls-generation", **text, tool_calls=self._call_documents)
        if citations := self._encode_citations():
            yield _encode_event("citation-generation", citations=citations)
        error = {} if turn.failure is None else shared_format.stream_error_fields(turn.failure)
        ending = {"finish_reason": turn.finish_raw, **error, "response": self.encode_document()}
        yield {**_encode_event(END_EVENT, **ending), "is_finished": True}

    def encode_document(self) -> Document:
        turn = self._turn
        calls: Document = {"tool_calls": self._call_documents} if self._calls else {}
        citations = self._encode_citations()
        return {
            **self._metadata,
            "text": turn.text,
            "generation_id": turn.id,
            "chat_history": self._chat_history(calls),
            "finish_reason": turn.finish_raw,
            "meta": {"api_version": {"version": "1"}, **shared_format.encode_usage(turn)},
            **calls,
            **({"citations": citations} if citations else {}),
        }

    def _chat_history(self, calls: Document) -> list[Document]:
        """The conversation including this response, which clients send with their next message."""
        given = get_objects(self._request_fields, "chat_history")
        message = get_string(self._request_fields, "message")
        user_messages = [{"role": "USER", "message": message}] if message else []
        response = {"role": "CHATBOT", "message": self._turn.text, **calls}
        return [*map(dict, given), *user_messages, response]

    def _encode_citations(self) -> list[Document]:
        """The citations of the text, each with the ids of all its documents."""
        return shared_format.encode_citations(
            self._citations,
            lambda group: {
                "document_ids": [*filter(None, map(shared_format.citation_source_id, group))]
            },
        )


def _encode_event(kind: str, **fields: object) -> Document:
    return {"is_finished": False, "event_type": kind, **fields}


class _CitedDocuments:
    """The documents of a response, each with its own id."""

    def __init__(self, documents: Json) -> None:
        self.documents: list[Json] = [dict(object_item) for object_item in array_objects(documents)]
        documents_with_ids = (
            (get_text(object_item, "id"), object_item) for object_item in array_objects(documents)
        )
        self._sources_by_id = {
            name: shared_format.decode_source(fields) for name, fields in documents_with_ids if name
        }

    def with_document_id(self, citation: Citation, text: str) -> Citation:
        """The citation of this text as the wire holds it; a missing document is added."""
        source_id = shared_format.citation_source_id(citation)
        cited_source = CitedSource(citation.url, citation.title, citation.quoted)
        if cited_source != CitedSource():
            source_id = self._find_or_add_document(source_id, cited_source)
        return shared_format.with_wire_metadata(
            citation, text, type=None, content_index=None, source=source_id
        )

    def _find_or_add_document(self, document_id: str, cited_source: CitedSource) -> str:
        """The id of the document that equals this source, preferably `document_id`."""
        if document_id and self._sources_by_id.get(document_id, cited_source) == cited_source:
            return (
                document_id
                if document_id in self._sources_by_id
                else self._add_document(document_id, cited_source)
            )
        existing_id = next(
            (known_id for known_id, known in self._sources_by_id.items() if known == cited_source),
            "",
        )
        return existing_id or self._add_document(self._unused_document_id(), cited_source)

    def _unused_document_id(self) -> str:
        document_ids = (f"doc_{number}" for number in range(len(self._sources_by_id) + 1))
        return next(name for name in document_ids if name not in self._sources_by_id)

    def _add_document(self, document_id: str, cited_source: CitedSource) -> str:
        fields = {
            "title": cited_source.title,
            "snippet": cited_source.quoted,
            "url": cited_source.url,
        }
        document: dict[str, Json] = {field: value for field, value in fields.items() if value}
        self.documents.append({"id": document_id, **document})
        self._sources_by_id[document_id] = cited_source
        return document_id
