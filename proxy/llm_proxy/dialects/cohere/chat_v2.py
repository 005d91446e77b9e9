"""Decodes and encodes the responses of `/v2/chat`: a document, or events.

Where a document has an array, an event has one object, and its index in a field of its own:

    document   {"message": {"content": [{"text": "Hello"}]}, "finish_reason": "COMPLETE"}
    event      {"index": 0, "delta": {"message": {"content": {"text": "Hel"}}}}
    event      {"delta": {"finish_reason": "COMPLETE"}}

The events of a stream:

    message-start ( plan | content ( citation )* | tool-call )* ( citation )* message-end [DONE]

Usage, citations and errors are decoded as `/v1/chat` has them, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.dialects import json_api, turn_parts, wire
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_items,
    get_object,
    get_objects,
    get_span,
    get_string,
    get_text,
    one_or_more_objects,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
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

FINISH_BY_RAW: Final = {
    "COMPLETE": FinishReason.STOP,
    "STOP_SEQUENCE": FinishReason.STOP_SEQUENCE,
    "MAX_TOKENS": FinishReason.LENGTH,
    "TOOL_CALL": FinishReason.TOOL_CALLS,
    "ERROR": FinishReason.ERROR,
    "ERROR_LIMIT": FinishReason.CONTEXT_FULL,
    "ERROR_TOXIC": FinishReason.CONTENT_FILTER,
    "TIMEOUT": FinishReason.ERROR,
}
"""`USER_CANCEL` is `OTHER`."""
_ERROR_FINISH: Final = "ERROR"
"""The finish reason of a response that an error ends."""
_FINISH: Final = FinishReasons(
    FINISH_BY_RAW,
    {
        FinishReason.STOP: "COMPLETE",
        FinishReason.STOP_SEQUENCE: "STOP_SEQUENCE",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.TOOL_CALLS: "TOOL_CALL",
        FinishReason.CONTENT_FILTER: _ERROR_FINISH,
        FinishReason.ERROR: _ERROR_FINISH,
    },
)

_BILLED_UNITS: Final = "billed_units"
_USAGE_METADATA: Final = (_BILLED_UNITS, "warnings")
_TOKENS_METADATA: Final = ("image_tokens",)
"""The turn's metadata in `tokens`; `_USAGE_METADATA` is that in `usage` or `meta` itself."""
COUNTING_METADATA: Final = (*_USAGE_METADATA, *_TOKENS_METADATA)
_CITATIONS: Final = "citations"
_METADATA: Final = (*COUNTING_METADATA, _CITATIONS)
_USAGE: Final = UsageFields(
    {
        "input": ("tokens", "input_tokens"),
        "output": ("tokens", "output_tokens"),
        "reasoning": ("tokens", "reasoning_tokens"),
        "cache_read": ("cached_tokens",),
    },
    required=("input", "output"),
    is_required=True,
)

_TOOL_PLAN_METADATA: Final[Metadata] = (("type", "tool_plan"),)
"""The metadata that marks reasoning as a tool plan; thoughts have none."""
_TEXT_CITATION_TYPES: Final = ("TEXT_CONTENT", "")
"""Types of citations of the response text; others cite sources for the plan or the thoughts."""
_CITATION_METADATA: Final = ("text", "type", "content_index")
_SOURCE_METADATA: Final = ("source", "source_type")
"""A citation's metadata: id and type of its source; `_CITATION_METADATA` are its own fields."""
_QUOTE_FIELDS: Final = ("text", "snippet", "content", "output")
"""The fields in which documents and tool results may keep their text."""

END_EVENT: Final = "message-end"
"""The last event of a stream before `[DONE]`."""
_BLOCK_TYPES: Final[dict[type[Part], str]] = {Text: "text", Reasoning: "thinking"}
"""The types of content blocks, which are also the names of their text fields."""


def wire_format(*, stream: bool) -> WireFormat:
    """What a stream or a document can hold."""
    return WireFormat(
        dialect="cohere",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, ToolCall)),
        finish=_FINISH,
        usage=_USAGE,
        metadata=_METADATA,
        merged=frozenset((Text,)),
        id_prefix="co-",
    )


def event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; only deltas add any."""
    if not get_text(event, "type").endswith("-delta"):
        return 0
    message = get_object(get_object(event, "delta"), "message")
    return sum(fragment_output_chars(fragment) for _, fragment in decode_fragments(message))


class TurnDecoder:
    """Decodes the events of a stream, or the one document of a response."""

    def __init__(self, *, streamed: bool) -> None:
        self._is_streamed = streamed
        self._fragments = FragmentJoiner()
        self._open_call_count = 0
        self._decoded_part_count = 0
        """The number of parts of which `feed` has returned the calls."""
        self._id = self._finish_raw = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}
        self._non_text_citations: list[Json] = []
        """Citations of tool plans and thoughts, as their wire objects."""

    def feed(self, document: Fields) -> list[Part]:
        """Decode a document; the calls are complete when each that started has ended."""
        fields = get_object(document, "delta") or document
        message = get_object(fields, "message")
        pieces: list[Part] = []
        for key, fragment in decode_fragments(message, get_integer(document, "index") or 0):
            self._fragments.add_fragment(fragment, key)
            if isinstance(fragment, Text | Reasoning):
                pieces.append(fragment)
        for citation in one_or_more_objects(message.get(_CITATIONS)):
            if get_text(citation, "type") in _TEXT_CITATION_TYPES:
                block_index = get_integer(citation, "content_index") or 0
                self._fragments.add_fragment(Text("", decode_citations(citation, {})), block_index)
            else:
                self._non_text_citations.append(selected_fields(citation, citation))
        self._id = self._id or get_text(document, "id")
        finish_raw = get_text(fields, "finish_reason")
        self._finish_raw = finish_raw or self._finish_raw
        self._failure = self._failure or decode_failure(fields)
        if usage_fields := get_object(fields, "usage"):
            counts, usage_metadata = decode_usage(usage_fields)
            self._usage = counts or self._usage
            self._metadata.update(usage_metadata)
        kind = document.get("type")
        self._open_call_count += (kind == "tool-call-start") - (kind == "tool-call-end")
        have_calls_ended = kind == "tool-call-end" and self._open_call_count <= 0
        if have_calls_ended or finish_raw or not self._is_streamed:
            parts = self._fragments.joined_parts(self._decoded_part_count)
            self._decoded_part_count += len(parts)
            pieces += (part for part in parts if isinstance(part, ToolCall))
        return pieces

    def turn(self) -> Turn:
        """The turn so far."""
        metadata = {**self._metadata, _CITATIONS: self._non_text_citations}
        return Turn(
            self._fragments.joined_parts(),
            finish=_FINISH.decode(self._finish_raw),
            finish_raw=self._finish_raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            metadata=select_metadata(metadata, _METADATA),
        )


def decode_fragments(message: Fields, first_index: int = 0) -> Iterator[tuple[Hashable, Part]]:
    """The fragments of a message or of a delta, without citations, and their keys for joining."""
    if plan := get_string(message, "tool_plan"):
        yield "tool_plan", Reasoning(plan, metadata=_TOOL_PLAN_METADATA)
    if content := get_string(message, "content"):
        yield first_index, Text(content)
    for index, block in enumerate(one_or_more_objects(message.get("content")), first_index):
        if thought := get_string(block, "thinking"):
            yield index, Reasoning(thought)
        if text := get_string(block, "text"):
            yield index, Text(text)
        if url := get_text(get_object(block, "image_url"), "url"):  # of a request
            yield index, json_api.decode_media_url(url, "image/*")
    for index, call in enumerate(one_or_more_objects(message.get("tool_calls")), first_index):
        function = get_object(call, "function")
        arguments = get_string(function, "arguments") or get_text(function, "arguments")
        yield index, ToolCall(get_text(call, "id"), get_text(function, "name"), arguments)


def decode_usage(fields: Fields) -> tuple[Usage | None, Metadata]:
    """The counts and the turn's metadata in `usage` (version 2) or `meta` (version 1).

    `tokens` counts what the model read and wrote; `billed_units` counts less, and is the only
    one that `/v1/generate` has.
    """
    tokens = get_object(fields, "tokens")
    counts = tokens or get_object(fields, _BILLED_UNITS)
    return (
        _USAGE.decode({**fields, "tokens": dict(counts)}) if counts else None,
        (*select_metadata(fields, _USAGE_METADATA), *select_metadata(tokens, _TOKENS_METADATA)),
    )


def decode_source(document: Fields, metadata: Metadata = ()) -> Citation:
    """A source from a document's fields, most of whose names the application chooses."""
    quoted = next(filter(None, (get_text(document, name) for name in _QUOTE_FIELDS)), "")
    return Citation(
        get_text(document, "url"), get_text(document, "title"), quoted, metadata=metadata
    )


def decode_citations(fields: Fields, sources_by_id: Mapping[str, Citation]) -> tuple[Citation, ...]:
    """One citation for each source of a span; one without a source where there is none.

    Version 2 has the sources inline, version 1 refers to documents by id.  `text` is the cited
    passage of the response, not of the source, and is kept as metadata.
    """
    sources = []
    for source in get_objects(fields, "sources"):
        document = source.get("document") or source.get("tool_output")
        names: Fields = {"source": source.get("id"), "source_type": source.get("type")}
        sources.append(
            decode_source(
                document if isinstance(document, dict) else {},
                select_metadata(names, _SOURCE_METADATA),
            )
        )
    for document_id in map(value_as_text, get_items(fields, "document_ids")):
        known = sources_by_id.get(document_id, Citation())
        sources.append(replace(known, metadata=(("source", document_id),)))
    span = get_span(fields, "start", "end")
    metadata = select_metadata(fields, _CITATION_METADATA)
    return tuple(
        replace(source, span=span, metadata=(*metadata, *source.metadata))
        for source in sources or [Citation()]
    )


def decode_failure(fields: Fields) -> Failure | None:
    """The error in an event or a document, if there is one.

    `message` is an error where it is a string; in a response it is an object.
    """
    candidates = (fields.get("error"), fields.get("err"), get_string(fields, "message"))
    for error in candidates:
        if error and error is not True:
            failure = json_api.decode_failure(error)
            return replace(failure, type=get_text(fields, "error_type") or failure.type)
    return None


def encode_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
    """The events of a prepared turn, without `[DONE]`; one that failed has no usage."""
    message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    start_delta = {"message": {**message, _CITATIONS: []}}
    yield {"id": turn.id, "type": "message-start", "delta": start_delta}
    block_count = call_count = citation_count = 0
    for part in _merge_blocks(turn.parts):
        match part:
            case ToolCall():
                call = encode_tool_call(part, "")
                yield _encode_event("tool-call-start", call_count, tool_calls=call)
                for piece in context.split_text(part.arguments):
                    call = {"function": {"arguments": piece}}
                    yield _encode_event("tool-call-delta", call_count, tool_calls=call)
                yield _encode_event("tool-call-end", call_count)
                call_count += 1
            case Reasoning() if is_tool_plan(part):
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
    if turn.failure is None:
        yield from _encode_citation_events(_non_text_citations(turn), citation_count)
        yield {"type": END_EVENT, "delta": _ending_fields(turn)}
        return
    error: Document = {"error": wire.with_default_error_message(turn.failure).message}
    if turn.failure.type:
        error["error_type"] = turn.failure.type
    yield {"type": END_EVENT, "delta": {"finish_reason": _ERROR_FINISH, "usage": {}, **error}}


def _encode_event(kind: str, index: int | None = None, **message: object) -> Document:
    index_field = {} if index is None else {"index": index}
    return {"type": kind, **index_field, **({"delta": {"message": message}} if message else {})}


def _encode_citation_events(citations: Sequence[Document], first_index: int) -> Iterator[Document]:
    for index, citation in enumerate(citations, first_index):
        yield _encode_event("citation-start", index, citations=citation)
        yield _encode_event("citation-end", index)


def encode_document(turn: Turn) -> Document:
    """The document of a prepared turn."""
    message: Document = {"role": "assistant"}
    content: list[Document] = []
    citations: list[Document] = []
    for part in _merge_blocks(sorted(turn.parts, key=_rank_in_document)):
        match part:
            case ToolCall():
                call = encode_tool_call(part, part.arguments)
                message.setdefault("tool_calls", []).append(call)
            case Reasoning() if is_tool_plan(part):
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


def _ending_fields(turn: Turn) -> Document:
    """The finish reason and the usage, with the metadata that belongs to it.

    `billed_units` are its own token counts where its metadata has none.
    """
    metadata = dict(turn.metadata)
    usage = turn.usage or Usage(0, 0)
    if not isinstance(metadata.get(_BILLED_UNITS), dict):
        metadata[_BILLED_UNITS] = {"input_tokens": usage.input, "output_tokens": usage.output}
    counts = _USAGE.encode(usage)
    counts["tokens"] |= selected_fields(metadata, _TOKENS_METADATA)
    usage_fields = {**selected_fields(metadata, _USAGE_METADATA), **counts}
    return {"finish_reason": turn.finish_raw, "usage": usage_fields}


def is_tool_plan(part: Part) -> bool:
    """Whether it is reasoning from `tool_plan`, which announces tool calls."""
    return isinstance(part, Reasoning) and _TOOL_PLAN_METADATA[0] in part.metadata


def _rank_in_document(part: Part) -> int:
    return -1 if is_tool_plan(part) else (Reasoning, Text, ToolCall).index(type(part))


def _merge_blocks(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts; neighbouring texts, thoughts and tool plans become one each."""
    for (kind, _), group in groupby(parts, lambda part: (type(part), is_tool_plan(part))):
        yield from turn_parts.merge_neighbours(group, {kind} & _BLOCK_TYPES.keys())


def encode_tool_call(call: ToolCall, arguments: str) -> Document:
    """A call with these arguments, in a request or a response."""
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _encode_citations(part: Part, content_index: int) -> list[Document]:
    """The citations of a text block; neighbours that differ by their source alone become one."""
    documents: list[Document] = []
    if not isinstance(part, Text):
        return documents
    for citation in part.citations:
        span = citation.span if citation.span and citation.span[0] < citation.span[1] else None
        cited_text = selected_fields(citation.metadata, ("text",)).get("text")
        if not isinstance(cited_text, str):
            cited_text = part.text[slice(*span)] if span else ""
        document: Document = {
            **({"start": span[0], "end": span[1]} if span else {}),
            "text": cited_text,
            "type": _TEXT_CITATION_TYPES[0],
            **({"content_index": content_index} if content_index else {}),
            "sources": [],
        }
        source = _encode_source(citation)
        previous = documents[-1] if documents else {}
        if source and previous.get("sources") and previous | {"sources": []} == document:
            previous["sources"].append(source)
        else:
            documents.append(document | {"sources": [source] if source else []})
    return documents


def _encode_source(citation: Citation) -> Document:
    """The source of a citation, a document or a tool's output; empty where it has none."""
    is_tool = ("source_type", "tool") in citation.metadata
    quote_field = "content" if is_tool else "text"
    fields = {"url": citation.url, "title": citation.title, quote_field: citation.quoted}
    fields = {name: value for name, value in fields.items() if value}
    source_id = get_string(selected_fields(citation.metadata, ("source",)), "source")
    if not fields and not source_id:
        return {}
    return {
        "type": "tool" if is_tool else "document",
        **({"id": source_id} if source_id else {}),
        **({"tool_output" if is_tool else "document": fields} if fields else {}),
    }


def _non_text_citations(turn: Turn) -> list[Document]:
    return [
        selected_fields(citation, citation)
        for citation in get_objects(dict(turn.metadata), _CITATIONS)
        if isinstance(kind := citation.get("type"), str) and kind not in _TEXT_CITATION_TYPES
    ]
