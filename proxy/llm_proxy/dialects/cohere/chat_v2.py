"""Decodes and encodes `/v2/chat` responses: a document, or events.

Where a document has an array, an event has one object, and its index in a field of its own:

    document   {"message": {"content": [{"text": "Hello"}]}, "finish_reason": "COMPLETE"}
    event      {"index": 0, "delta": {"message": {"content": {"text": "Hel"}}}}
    event      {"delta": {"finish_reason": "COMPLETE"}}

The events of a stream:

    message-start ( plan | content ( citation )* | tool-call )* ( citation )* message-end [DONE]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from llm_proxy.dialects import response_encoding, turn_parts
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.cohere import shared_format
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    first_integer,
    get_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    select_metadata,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, WireFormat
from llm_proxy.framing import sse
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Turn,
    Usage,
)

_TOOL_PLAN_METADATA: Final[Metadata] = (("type", "tool_plan"),)
"""The metadata that marks reasoning as a tool plan; thoughts have none."""

_TEXT_CITATION_TYPES: Final = ("TEXT_CONTENT", "")
"""Types of citations of the response text; others cite sources for the plan or the thoughts."""

_CITATIONS: Final = "citations"
_METADATA: Final = (*shared_format.USAGE_METADATA, *shared_format.TOKENS_METADATA, _CITATIONS)

END_EVENT: Final = "message-end"
"""The last event of a stream before `[DONE]`."""

_DELTA_SUFFIX: Final = "-delta"
"""The suffix of the types of events that add to an opened part."""

_FINISH: Final = FinishReasons(
    shared_format.FINISH_BY_RAW,
    {
        FinishReason.STOP: "COMPLETE",
        FinishReason.STOP_SEQUENCE: "STOP_SEQUENCE",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.TOOL_CALLS: "TOOL_CALL",
        FinishReason.CONTENT_FILTER: shared_format.ERROR_FINISH,
        FinishReason.ERROR: shared_format.ERROR_FINISH,
    },
)

_TOOL_SOURCE: Final = "tool"
_DOCUMENT_SOURCE: Final = "document"
"""The types of sources."""

_BLOCK_TYPES: Final[dict[type[Part], str]] = {Text: "text", Reasoning: "thinking"}
"""The types of content blocks, which are also the names of their text fields."""

KeyedFragments = Iterator[tuple[Hashable, Part]]
"""Fragments, each with the key for `FragmentJoiner.add`."""


def wire_format(*, stream: bool) -> WireFormat:
    """What a stream or a document can hold."""
    return WireFormat(
        dialect="cohere",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, ToolCall)),
        finish=_FINISH,
        usage=shared_format.USAGE,
        metadata=_METADATA,
        merged=frozenset((Text,)),
        id_prefix="co-",
    )


def decode_turn(documents: Iterable[Fields]) -> Turn:
    """The turn of these events, or of the one document."""
    decoder = _V2ResponseDecoder()
    for document in documents:
        decoder.feed(document)
    return decoder.turn()


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; only deltas add any."""
    if not get_text(event, "type").endswith(_DELTA_SUFFIX):
        return 0
    fields = get_object(get_object(event, "delta"), "message")
    return sum(fragment_output_chars(fragment) for _, fragment in decode_fragments(fields, 0))


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
        fields = get_object(document, "delta") or document
        message = get_object(fields, "message")
        for key, fragment in decode_fragments(message, document.get("index")):
            self._fragments.add_fragment(fragment, key)
        for citation in _as_object_list(message.get(_CITATIONS)):
            self._add_citation(citation)
        self._id = self._id or get_text(document, "id")
        self._finish_raw = get_text(fields, "finish_reason") or self._finish_raw
        self._failure = self._failure or shared_format.decode_failure(fields)
        if usage := get_object(fields, "usage"):
            self._usage = shared_format.decode_usage(usage) or self._usage
            self._metadata.update(shared_format.decode_usage_metadata(usage))

    def turn(self) -> Turn:
        """The decoded turn."""
        if self._non_text_citations:
            self._metadata[_CITATIONS] = self._non_text_citations
        return Turn(
            self._fragments.joined_parts(),
            finish=_FINISH.decode(self._finish_raw, awaits_client=False)
            if self._finish_raw
            else None,
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=select_metadata(self._metadata, _METADATA),
        )

    def _add_citation(self, citation: Fields) -> None:
        if get_text(citation, "type") not in _TEXT_CITATION_TYPES:
            self._non_text_citations.append(dict(select_metadata(citation, citation)))
            return
        key = get_integer(citation, "content_index") or 0
        self._fragments.add_fragment(
            Text("", tuple(shared_format.decode_citations(citation, {}))), key
        )


def decode_fragments(message: Fields, index: Json) -> KeyedFragments:
    """The fragments of a message or of a delta, without citations."""
    first_index = first_integer(index) or 0
    if plan := get_string(message, "tool_plan"):
        yield "tool_plan", Reasoning(plan, metadata=_TOOL_PLAN_METADATA)
    content = message.get("content")
    if isinstance(content, str) and content:
        yield first_index, Text(content)
    for position, block in enumerate(_as_object_list(content), first_index):
        if thought := get_string(block, "thinking"):
            yield position, Reasoning(thought)
        if text := get_string(block, "text"):
            yield position, Text(text)
    for position, call in enumerate(_as_object_list(message.get("tool_calls")), first_index):
        function = get_object(call, "function")
        arguments = function.get("arguments")
        yield (
            position,
            ToolCall(
                id=get_text(call, "id"),
                name=get_text(function, "name"),
                arguments=arguments if isinstance(arguments, str) else value_as_text(arguments),
            ),
        )


def _as_object_list(value: Json) -> list[Fields]:
    """The objects in a document's array, or an event's object as the only one."""
    return [value] if isinstance(value, dict) else array_objects(value)


def encode_turn(turn: Turn, context: EncodeContext, *, stream: bool) -> DialectResponse:
    """The response: a stream of events, or one document."""
    turn = shared_format.as_sent_before_failure(turn)
    headers = shared_format.common_response_headers(context)
    if not stream:
        return response_encoding.json_response(_encode_document(turn), headers)
    messages = [
        *(
            sse.encode_event(response_encoding.single_line_json(document), document["type"])
            for document in _encode_events(turn, context)
        ),
        sse.encode_event(sse.DONE_DATA),
    ]
    return response_encoding.stream_response("sse", sse.CONTENT_TYPE, messages, headers)


def _encode_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    start_delta = {"message": {**message, _CITATIONS: []}}
    yield {"id": turn.id, "type": "message-start", "delta": start_delta}
    block_count = call_count = citation_count = 0
    for part in _merge_blocks(turn.parts):
        match part:
            case ToolCall():
                call = _encode_tool_call(part, "")
                yield _encode_event("tool-call-start", call_count, tool_calls=call)
                for piece in context.split_text(part.arguments):
                    call = {"function": {"arguments": piece}}
                    yield _encode_event("tool-call-delta", call_count, tool_calls=call)
                yield _encode_event("tool-call-end", call_count)
                call_count += 1
            case Reasoning() if _is_tool_plan(part):
                for piece in context.split_text(part.text):
                    yield _encode_event("tool-plan-delta", tool_plan=piece)
            case Text() | Reasoning():
                kind = _BLOCK_TYPES[type(part)]
                content = {"type": kind, kind: ""}
                yield _encode_event("content-start", block_count, content=content)
                for piece in context.split_text(part.text):
                    yield _encode_event("content-delta", block_count, content={kind: piece})
                citations = _encode_citations(part, block_count)
                yield from _encode_citation_events(citations, citation_count)
                yield _encode_event("content-end", block_count)
                block_count += 1
                citation_count += len(citations)
            case _:
                pass
    yield from _encode_citation_events(_non_text_citations(turn), citation_count)
    error = {} if turn.failure is None else shared_format.stream_error_fields(turn.failure)
    yield {"type": END_EVENT, "delta": {**_ending_fields(turn), **error}}


def _encode_event(kind: str, index: int | None = None, **message: object) -> Document:
    index_field = {} if index is None else {"index": index}
    return {"type": kind, **index_field, **({"delta": {"message": message}} if message else {})}


def _encode_citation_events(citations: Sequence[Document], first_index: int) -> Iterator[Document]:
    for index, citation in enumerate(citations, first_index):
        yield _encode_event("citation-start", index, citations=citation)
        yield _encode_event("citation-end", index)


def _ending_fields(turn: Turn) -> Document:
    return {"finish_reason": turn.finish_raw, "usage": shared_format.encode_usage(turn)}


def _encode_document(turn: Turn) -> Document:
    message: Document = {"role": "assistant"}
    content: list[Document] = []
    citations: list[Document] = []
    for part in _merge_blocks(sorted(turn.parts, key=_rank_in_document)):
        match part:
            case ToolCall():
                call = _encode_tool_call(part, part.arguments)
                message.setdefault("tool_calls", []).append(call)
            case Reasoning() if _is_tool_plan(part):
                message["tool_plan"] = part.text
            case Text() | Reasoning():
                kind = _BLOCK_TYPES[type(part)]
                citations += _encode_citations(part, len(content))
                content.append({"type": kind, kind: part.text})
            case _:
                pass
    citations += _non_text_citations(turn)
    if content or len(message) == 1:
        message["content"] = content or [{"type": "text", "text": ""}]
    message |= {_CITATIONS: citations} if citations else {}
    return {"id": turn.id, "message": message, **_ending_fields(turn)}


def _is_tool_plan(part: Part) -> bool:
    """Whether it is reasoning from `tool_plan`, which announces tool calls."""
    return isinstance(part, Reasoning) and _TOOL_PLAN_METADATA[0] in part.metadata


def _rank_in_document(part: Part) -> int:
    return -1 if _is_tool_plan(part) else (Reasoning, Text, ToolCall).index(type(part))


def _merge_blocks(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts; neighbouring texts, thoughts and tool plans become one each."""
    for (kind, _), group in groupby(parts, lambda part: (type(part), _is_tool_plan(part))):
        yield from turn_parts.merge_neighbours(group, {kind} & _BLOCK_TYPES.keys())


def _encode_tool_call(call: ToolCall, arguments: str) -> Document:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encode_citations(part: Part, content_index: int) -> list[Document]:
    """The citations of a text block with this index."""
    if not isinstance(part, Text):
        return []
    citations = [_wire_citation(citation, part.text, content_index) for citation in part.citations]
    return shared_format.encode_citations(
        citations, lambda group: {"sources": [*filter(None, map(_encode_source, group))]}
    )


def _wire_citation(citation: Citation, text: str, content_index: int) -> Citation:
    """The citation with the metadata that the wire holds; the index is left out for 0."""
    source_id = shared_format.citation_source_id(citation)
    has_source = bool(citation.url or citation.title or citation.quoted or source_id)
    is_tool = ("source_type", _TOOL_SOURCE) in citation.metadata
    source_type = _TOOL_SOURCE if is_tool else _DOCUMENT_SOURCE
    return shared_format.with_wire_metadata(
        citation,
        text,
        type=_TEXT_CITATION_TYPES[0],
        content_index=content_index or None,
        source=source_id,
        source_type=source_type if has_source else "",
    )


def _encode_source(citation: Citation) -> Document:
    """The source of a citation, a document or a tool's output; empty where it has none."""
    fields = dict(citation.metadata)
    source_id, source_type = (fields.get(field) for field in shared_format.SOURCE_METADATA)
    if source_type is None:
        return {}
    is_tool = source_type == _TOOL_SOURCE
    document = {"url": citation.url, "title": citation.title}
    document["content" if is_tool else "text"] = citation.quoted
    details = {field: value for field, value in document.items() if value}
    return {
        "type": source_type,
        **({"id": source_id} if source_id else {}),
        **({"tool_output" if is_tool else "document": details} if details else {}),
    }


def _non_text_citations(turn: Turn) -> list[Document]:
    return [
        dict(select_metadata(citation, citation))
        for citation in get_objects(dict(turn.metadata), _CITATIONS)
        if isinstance(kind := citation.get("type"), str) and kind not in _TEXT_CITATION_TYPES
    ]
