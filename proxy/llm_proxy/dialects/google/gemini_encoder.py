"""Encodes `gemini` responses.

    ( thought | text | calls | image | … )*   the last of each candidate with its finish

Each chunk is a whole document: the increments of its candidates, and the usage so far.  A stream
of events has no terminator; without `alt=sse` the same chunks are the elements of one array.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import citation_encoder, content_encoder, errors
from llm_proxy.dialects.google.content_decoder import GROUNDING_FIELD
from llm_proxy.dialects.google.gemini_capabilities import GeminiResponseOptions, is_blocked_prompt
from llm_proxy.dialects.google.gemini_decoder import (
    CANDIDATE_METADATA,
    CHUNK_METADATA,
    PROMPT_FEEDBACK,
    USAGE_METADATA,
    USAGE_WIRE_NAMES,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import FinishReason, Metadata, Turn

_LINE_END: Final = b"\r\n"
_ARRAY_CONTENT_TYPE: Final = "application/json; charset=UTF-8"
_ENUM_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")
_FINISHES_WITHOUT_CONTENT: Final = (FinishReason.CONTENT_FILTER, FinishReason.ERROR)


@dataclass(frozen=True, slots=True)
class GeminiEncoder:
    """Encodes turns that fit the capabilities, one per candidate."""

    options: GeminiResponseOptions
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The response: a document, SSE, or an array of the same chunks."""
        match self.options.codec:
            case "whole":
                candidates = [
                    self._encode_candidate(index, turn) for index, turn in enumerate(turns)
                ]
                return response_encoding.json_response(
                    self._chunk_envelope(turns[0]).encode_chunk(
                        _candidates_unless_blocked(turns, candidates), 1, 1
                    )
                )
            case "sse":
                events = (
                    sse.encode_event(response_encoding.single_line_json(chunk), line_end=_LINE_END)
                    for chunk in self._encode_chunks(turns)
                )
                return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events)
            case "json-array":
                elements = _encode_array_elements(
                    map(response_encoding.single_line_json, self._encode_chunks(turns))
                )
                return response_encoding.stream_response(
                    "json-array", _ARRAY_CONTENT_TYPE, elements
                )

    def _encode_chunks(self, turns: Sequence[Turn]) -> Iterator[Document]:
        """The chunks, each with the next increment of every candidate; then the error, if any."""
        chunks_by_candidate = [
            list(self._encode_candidate_chunks(at, turn)) for at, turn in enumerate(turns)
        ]
        chunks = [
            [document for document in step if document]
            for step in zip_longest(*chunks_by_candidate)
        ]
        envelope = self._chunk_envelope(turns[0])
        for chunk_number, candidates in enumerate(chunks, 1):
            yield envelope.encode_chunk(
                _candidates_unless_blocked(turns, candidates), chunk_number, len(chunks)
            )
        if (failure := turns[0].failure) is not None:
            yield errors.stream_error_document(failure)

    def _chunk_envelope(self, turn: Turn) -> _ChunkEnvelope:
        metadata = nonempty_metadata(turn.metadata, CHUNK_METADATA)
        return _ChunkEnvelope(
            turn,
            metadata,
            dict(nonempty_metadata(turn.metadata, USAGE_METADATA)),
            self.options.is_code_assist_wrapped,
        )

    def _encode_candidate(self, index: int, turn: Turn) -> Document:
        parts = content_encoder.encode_parts(turn.parts)
        return {
            **_content_field(parts, turn),
            **self._final_candidate_fields(turn),
            "index": index,
        }

    def _encode_candidate_chunks(self, index: int, turn: Turn) -> Iterator[Document]:
        pieces = list(content_encoder.encode_part_chunks(turn.parts, self.context.split_text))
        if turn.failure is not None:
            for piece in pieces or [[content_encoder.empty_text_part()]]:
                yield {**_content_field(piece), "index": index}
            return
        last = pieces.pop() if pieces and _ends_in_visible_text(pieces[-1]) else None
        for piece in pieces:
            yield {**_content_field(piece), "index": index}
        if last is None and pieces:
            last = [content_encoder.empty_text_part()]
        yield {
            **_content_field(last or [], turn),
            **self._final_candidate_fields(turn),
            "index": index,
        }

    def _final_candidate_fields(self, turn: Turn) -> Document:
        """The finish reason, the metadata and the sources of a candidate."""
        fields = dict(nonempty_metadata(turn.metadata, (*CANDIDATE_METADATA, GROUNDING_FIELD)))
        sources = citation_encoder.encode_candidate_sources(
            turn.parts, self.options.recitation_field
        )
        if GROUNDING_FIELD in fields and GROUNDING_FIELD in sources:
            sources[GROUNDING_FIELD] |= fields[GROUNDING_FIELD]
        return {"finishReason": _encode_enum(turn.finish_raw), **fields, **sources}


def _candidates_unless_blocked(turns: Sequence[Turn], candidates: list[Document]) -> list[Document]:
    """The candidates; none for a blocked prompt."""
    return [] if len(turns) == 1 and is_blocked_prompt(turns[0]) else candidates


def _content_field(parts: list[Document], finished_turn: Turn | None = None) -> Document:
    """The `content` of a candidate; none where it was filtered or failed before any part."""
    if parts:
        return {"content": {"parts": parts, "role": "model"}}
    if finished_turn is not None and finished_turn.finish in _FINISHES_WITHOUT_CONTENT:
        return {}
    return {"content": {"role": "model"}}


def _ends_in_visible_text(parts: list[Document]) -> bool:
    return "text" in parts[-1] and "thought" not in parts[-1]


@dataclass(frozen=True, slots=True)
class _ChunkEnvelope:
    """The fields of a chunk besides its candidates."""

    turn: Turn
    response_fields: Metadata
    extra_usage_fields: Document
    """The metadata in `usageMetadata`."""
    is_code_assist_wrapped: bool

    def encode_chunk(
        self, candidates: list[Document], chunk_number: int, chunk_count: int
    ) -> Document:
        """Chunk `chunk_number` (from 1) of `chunk_count`; only the first has prompt feedback."""
        counts = {**self._usage_at_chunk(chunk_number, chunk_count), **self.extra_usage_fields}
        document: Document = {
            **({"candidates": candidates} if candidates else {}),
            **dict(
                response_field
                for response_field in self.response_fields
                if response_field[0] != PROMPT_FEEDBACK or chunk_number == 1
            ),
            **({"usageMetadata": counts} if counts else {}),
            **({"modelVersion": self.turn.model} if self.turn.model else {}),
            "responseId": self.turn.id,
        }
        return {"response": document} if self.is_code_assist_wrapped else document

    def _usage_at_chunk(self, chunk_number: int, chunk_count: int) -> Document:
        """The usage so far: input and reasoning at once, output in proportion to the chunks."""
        if (usage := self.turn.usage) is None:
            return {}
        counts = {name: getattr(usage, name) for name in USAGE_WIRE_NAMES}
        if chunk_number < chunk_count:
            counts["output"] = (usage.output or 0) * chunk_number // chunk_count or None
            total_so_far = sum(filter(None, (usage.input, counts["output"], usage.reasoning)))
            counts["total"] = (
                total_so_far if usage.total is None else min(total_so_far, usage.total)
            )
        return {
            USAGE_WIRE_NAMES[name]: count for name, count in counts.items() if count is not None
        }


def _encode_enum(raw: str) -> str | int:
    """An enum value as a number if it is numeric text, else as its name."""
    return int(raw) if _ENUM_NUMBER.fullmatch(raw) else raw


def _encode_array_elements(documents: Iterable[bytes]) -> Iterator[bytes]:
    separator = b"["
    for document in documents:
        yield separator + document
        separator = b"," + _LINE_END
    yield b"\n]"
