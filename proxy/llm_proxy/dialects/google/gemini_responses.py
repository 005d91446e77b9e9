"""Responses of `gemini`, decoded and encoded: chunks with candidates, usage and metadata.

    ( thought | text | calls | image | … )*   the last of each candidate with its finish

Each chunk is a whole document: the increments of its candidates, and the usage so far; a response
that is not streamed is one chunk.  A stream of events has no terminator; without `alt=sse` the same
chunks are the elements of one array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, Literal

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.google import gemini_parts, gemini_sources, shared_format
from llm_proxy.dialects.google.citations import attach_citations, has_more_than_text
from llm_proxy.dialects.google.gemini_sources import GROUNDING
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_object,
    get_objects,
    get_text,
    parse_object,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.framing import sse
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

_FILTER_REASONS: Final = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    *("3", "4", "7", "8"),
)
_ERROR_REASONS: Final = (
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"),
)
_FILTERED_REASON: Final = "raiFilteredReason"
"""Imagen's reason for withholding an image: a finish reason, and metadata."""
_FINISH: Final = FinishReasons(
    {
        "STOP": FinishReason.STOP,
        "1": FinishReason.STOP,
        "MAX_TOKENS": FinishReason.LENGTH,
        "2": FinishReason.LENGTH,
        "CONTINUATION": FinishReason.PAUSED,
        _FILTERED_REASON: FinishReason.CONTENT_FILTER,
        **dict.fromkeys(_FILTER_REASONS, FinishReason.CONTENT_FILTER),
        **dict.fromkeys(_ERROR_REASONS, FinishReason.ERROR),
    },
    {
        FinishReason.STOP: "STOP",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.CONTENT_FILTER: "SAFETY",
        FinishReason.PAUSED: "CONTINUATION",
        FinishReason.ERROR: "MALFORMED_RESPONSE",
        FinishReason.OTHER: "OTHER",
    },
    stop_means_tool_calls=True,
    unfinished=("", "0", "FINISH_REASON_UNSPECIFIED"),
)
"""Clients may request enums as numbers; these are the numbers that all of Google's APIs share."""
_ENUM_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")
_FINISHES_WITHOUT_CONTENT: Final = (FinishReason.CONTENT_FILTER, FinishReason.ERROR)

_INPUT, _OUTPUT, _TOTAL = "promptTokenCount", "candidatesTokenCount", "totalTokenCount"
_REASONING: Final = "thoughtsTokenCount"
_USAGE: Final = UsageFields(
    {
        "input": (_INPUT,),
        "output": (_OUTPUT,),
        "total": (_TOTAL,),
        "cache_read": ("cachedContentTokenCount",),
        "reasoning": (_REASONING,),
    },
    required=("input", "total"),
)
"""In `usageMetadata`.  The output excludes reasoning."""

_PROMPT_FEEDBACK: Final = "promptFeedback"
_USAGE_METADATA: Final = ("toolUsePromptTokenCount", "trafficType", "serviceTier")
_CHUNK_METADATA: Final = ("createTime", _PROMPT_FEEDBACK, "modelStatus")
_CANDIDATE_METADATA: Final = (
    *("finishMessage", "safetyRatings", "avgLogprobs", "logprobsResult", "urlContextMetadata"),
    *("continuationToken", "tokenCount"),
)
"""The turn's metadata in its candidate; the others are in `usageMetadata` and in chunks, and so
shared by all turns of a response."""
_METADATA: Final = (*_USAGE_METADATA, *_CHUNK_METADATA, *_CANDIDATE_METADATA, GROUNDING)

_LINE_END: Final = b"\r\n"
_ARRAY_CONTENT_TYPE: Final = "application/json; charset=UTF-8"

STREAM_CODECS: Final = ("sse", "json-array")
ResponseCodec = Literal["sse", "json-array", "whole"]
"""The codec that splits a response into messages."""


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """How a request wants its response to be encoded."""

    codec: ResponseCodec
    is_code_assist_wrapped: bool
    """Whether each document is the `response` of another (Code Assist)."""
    recitation_field: str
    """The field of `citationMetadata` that lists recitations."""


def wire_format(options: ResponseOptions) -> WireFormat:
    """What a response can hold."""
    return WireFormat(
        dialect="gemini",
        is_streamed=options.codec != "whole",
        parts=frozenset((Text, Reasoning, ToolCall, ToolResult, Media)),
        finish=_FINISH,
        usage=_USAGE,
        metadata=_METADATA,
        convert_part=gemini_parts.sendable_part,
        convert_provider_call=gemini_parts.as_server_call,
        has_object_arguments=True,
        has_signatures=True,
        is_sent_empty=has_more_than_text,
        has_citations_at_end=True,
        merged=frozenset(),
        id_prefix="",
        call_id_prefix=None,
        awaits_client=lambda parts: any(map(gemini_parts.is_client_call, parts)),
        has_choices=True,
        has_interleaved_choices=True,
    )


def parse_chunks(codec: str, message: bytes) -> Iterable[Fields]:
    """The chunks of a message, each without Code Assist's wrapper; those of a body if whole."""
    if codec in STREAM_CODECS:
        return [_unwrap_code_assist(_parse_stream_message(codec, message))]
    return map(_unwrap_code_assist, shared_format.parse_json_objects(message))


def _parse_stream_message(codec: str, message: bytes) -> Fields:
    if codec == "sse":
        return shared_format.decode_event(message)
    if document := parse_object(message):
        return document
    element = message.strip(b" \t\r\n,").removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n,")
    return parse_object(element.removeprefix(b"["))


def _unwrap_code_assist(document: Fields) -> Fields:
    return get_object(document, "response") or document


def stream_message_output_chars(codec: str, message: bytes) -> int:
    """The output characters that a message of a stream adds; signatures count nothing."""
    if codec not in STREAM_CODECS:
        return 0
    chunk = _unwrap_code_assist(_parse_stream_message(codec, message))
    return sum(
        gemini_parts.part_output_chars(part)
        for _, candidate in indexed_candidates(chunk)
        for part in _content_parts(candidate)
    )


def indexed_candidates(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The candidates of a chunk with their index; one without an index has its position."""
    for position, candidate in enumerate(get_objects(document, "candidates")):
        index = get_integer(candidate, "index")
        yield position if index is None else index, candidate


def _content_parts(candidate: Fields) -> list[Fields]:
    content = get_object(candidate, "content")
    return get_objects(content, "parts")


def finish_reason(candidate: Fields) -> str:
    """The finish reason of a candidate; empty where it has not finished."""
    raw = get_text(candidate, "finishReason")
    return "" if raw in _FINISH.unfinished else raw


def prompt_block_reason(document: Fields) -> str:
    """The reason why the prompt was blocked; empty where it was not."""
    feedback = get_object(document, _PROMPT_FEEDBACK)
    reason = get_text(feedback, "blockReason")
    return "" if reason in ("0", "BLOCK_REASON_UNSPECIFIED") else reason


class ChunksDecoder:
    """Decodes a response chunk by chunk."""

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._candidates: dict[int, _CandidateDecoder] = {}
        self._id = self._model = self._block_reason = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, message: bytes) -> list[Part]:
        """Decode a message, or the body of a response that does not stream."""
        pieces: list[Part] = []
        for chunk in parse_chunks(self._codec, message):
            pieces += self._feed_chunk(chunk)
        return pieces

    def _feed_chunk(self, chunk: Fields) -> Iterator[Part]:
        self._id = self._id or get_text(chunk, "responseId")
        self._model = self._model or get_text(chunk, "modelVersion")
        self._block_reason = self._block_reason or prompt_block_reason(chunk)
        if counts := get_object(chunk, "usageMetadata"):
            self._usage = _USAGE.decode(counts) or self._usage
            self._metadata.update(select_metadata(counts, _USAGE_METADATA))
        self._metadata.update(select_metadata(chunk, _CHUNK_METADATA))
        if error := chunk.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        for index, candidate in indexed_candidates(chunk):
            if index not in self._candidates:
                self._candidates[index] = _CandidateDecoder()
            pieces = self._candidates[index].feed(candidate)
            if index == 0:
                yield from pieces
        for prediction in get_objects(chunk, "predictions"):
            if "bytesBase64Encoded" in prediction or _FILTERED_REASON in prediction:
                decoder = self._candidates[len(self._candidates)] = _CandidateDecoder()
                decoder.feed_prediction(prediction)

    def turns(self) -> tuple[Turn, ...]:
        """One turn per candidate; one for a blocked prompt or an error without candidates.

        Each has the usage, the failure and the block reason of the response.
        """
        candidates = self._candidates
        if not candidates and (self._block_reason or self._failure):
            candidates = {0: _CandidateDecoder()}
        shared = Turn(
            (),
            FinishReason.CONTENT_FILTER if self._block_reason else None,
            self._block_reason,
            self._usage,
            self._failure,
            self._id,
            self._model,
            tuple(self._metadata.items()),
        )
        return tuple(decoder.turn(shared) for _, decoder in sorted(candidates.items()))


class _CandidateDecoder:
    """Decodes one candidate, chunk by chunk."""

    def __init__(self) -> None:
        self._finish_raw = ""
        self._metadata: dict[str, Json] = {}
        self._content = gemini_parts.ContentDecoder()
        self._sources = gemini_sources.SourcesDecoder()

    def feed(self, candidate: Fields) -> list[Part]:
        """Add one chunk's candidate, and return what is complete.

        The last finish counts, since old models repeat `STOP`.
        """
        self._finish_raw = finish_reason(candidate) or self._finish_raw
        self._metadata.update(select_metadata(candidate, _CANDIDATE_METADATA))
        if grounding := gemini_sources.grounding_without_sources(candidate.get(GROUNDING)):
            self._metadata[GROUNDING] = grounding
        self._sources.feed(candidate)
        return [piece for part in _content_parts(candidate) for piece in self._content.feed(part)]

    def feed_prediction(self, prediction: Fields) -> None:
        """Add a prediction of Imagen: an image, or the reason why it is withheld."""
        if data := prediction.get("bytesBase64Encoded"):
            self._content.feed(
                {"inlineData": {"mimeType": prediction.get("mimeType"), "data": data}}
            )
        if filtered := select_metadata(prediction, (_FILTERED_REASON,)):
            self._finish_raw = _FILTERED_REASON
            self._metadata.update(filtered)

    def turn(self, shared: Turn) -> Turn:
        """The decoded turn; `shared` has what all candidates of the response share."""
        parts = self._content.parts()
        metadata = select_metadata(
            dict(shared.metadata) | self._metadata, (*_METADATA, _FILTERED_REASON)
        )
        turn = replace(
            shared,
            parts=attach_citations(parts, self._sources.located_citations()),
            metadata=metadata,
        )
        if not self._finish_raw:
            return turn
        awaits_client = self._content.has_client_call
        finish = _FINISH.decode(self._finish_raw, awaits_client=awaits_client)
        return replace(turn, finish=finish, finish_raw=self._finish_raw)


def encode_response(
    turns: Sequence[Turn], options: ResponseOptions, context: EncodeContext
) -> DialectResponse:
    """The response: a document, SSE, or an array of the same chunks."""
    chunks = map(response_encoding.single_line_json, _encode_chunks(turns, options, context))
    match options.codec:
        case "whole":
            return response_encoding.json_response(next(chunks))
        case "sse":
            events = (sse.encode_event(chunk, line_end=_LINE_END) for chunk in chunks)
            return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events)
        case "json-array":
            first, *others = chunks
            elements = (b"[" + first, *(b"," + _LINE_END + chunk for chunk in others), b"\n]")
            return response_encoding.stream_response("json-array", _ARRAY_CONTENT_TYPE, elements)


def _encode_chunks(
    turns: Sequence[Turn], options: ResponseOptions, context: EncodeContext
) -> Iterator[Document]:
    """The chunks, each with the next increment of every candidate; then the error, if any."""
    chunks_by_candidate = [
        _encode_candidate_chunks(index, turn, options, context) for index, turn in enumerate(turns)
    ]
    steps = list(zip_longest(*chunks_by_candidate))
    first = turns[0]
    metadata = dict(first.metadata)
    chunk_metadata = selected_fields(metadata, _CHUNK_METADATA)
    usage_metadata = selected_fields(metadata, _USAGE_METADATA)
    usage = _USAGE.encode(first.usage)
    is_blocked = (
        len(turns) == 1
        and not first.parts
        and first.finish is FinishReason.CONTENT_FILTER
        and bool(prompt_block_reason(metadata))
    )
    if first.failure is not None:
        chunk_metadata.pop(_PROMPT_FEEDBACK, None)
    for number, step in enumerate(steps, 1):
        candidates = [candidate for candidate in step if candidate and not is_blocked]
        counts = _usage_at_chunk(usage, number, len(steps)) | usage_metadata
        chunk: Document = {
            **({"candidates": candidates} if candidates else {}),
            **chunk_metadata,
            **({"usageMetadata": counts} if counts else {}),
            **({"modelVersion": first.model} if first.model else {}),
            "responseId": first.id,
        }
        yield {"response": chunk} if options.is_code_assist_wrapped else chunk
        chunk_metadata.pop(_PROMPT_FEEDBACK, None)  # only the first chunk has it
    if first.failure is not None:
        yield shared_format.error_document(first.failure)


def _usage_at_chunk(usage: Document, number: int, count: int) -> Document:
    """The counts so far: input and reasoning at once, output in proportion to the chunks."""
    if not usage or number == count:
        return usage
    output = usage.get(_OUTPUT, 0) * number // count
    total = usage.get(_INPUT, 0) + output + usage.get(_REASONING, 0)
    so_far = usage | {_TOTAL: min(total, usage[_TOTAL]), _OUTPUT: output}
    if not output:
        del so_far[_OUTPUT]
    return so_far


def _encode_candidate_chunks(
    index: int, turn: Turn, options: ResponseOptions, context: EncodeContext
) -> list[Document]:
    """The increments of a candidate; a stream finishes with visible text, which may be empty."""
    parts = gemini_sources.merge_and_place_citations(
        replace(part, citations=()) if turn.failure and isinstance(part, Text) else part
        for part in gemini_parts.join_audio(turn.parts)
    )
    if options.codec == "whole":
        pieces = [gemini_parts.encode_parts(parts)]
    else:
        pieces = list(gemini_parts.encode_part_chunks(parts, context.split_text))
        last_part = pieces[-1][-1] if pieces else {}
        if not pieces:
            pieces = [[{"text": ""}] if turn.failure else []]
        elif turn.failure is None and ("text" not in last_part or "thought" in last_part):
            pieces.append([{"text": ""}])
    chunks: list[Document] = [{"content": {"parts": piece, "role": "model"}} for piece in pieces]
    if not pieces[-1]:
        has_content = turn.finish not in _FINISHES_WITHOUT_CONTENT
        chunks[-1] = {"content": {"role": "model"}} if has_content else {}
    if turn.failure is None:
        metadata = dict(turn.metadata)
        is_number = _ENUM_NUMBER.fullmatch(turn.finish_raw)
        chunks[-1]["finishReason"] = int(turn.finish_raw) if is_number else turn.finish_raw
        chunks[-1] |= selected_fields(metadata, _CANDIDATE_METADATA)
        sources = gemini_sources.encode_sources(parts, options.recitation_field)
        if grounding := gemini_sources.grounding_without_sources(metadata.get(GROUNDING)):
            chunks[-1][GROUNDING] = sources.pop(GROUNDING, {}) | grounding
        chunks[-1] |= sources
    return [{**chunk, "index": index} for chunk in chunks]
