"""Encodes `gemini` responses.

    ( thought | text | calls | image | … )*   the last of each candidate with its finish

Each chunk is a whole document: what its candidates add, and the counts up to there.  A stream of
events has no terminator; without `alt=sse` the same chunks are the elements of one array.
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
from llm_proxy.dialects.google import content_encoder, errors, source_encoder
from llm_proxy.dialects.google.content_decoder import GROUNDING
from llm_proxy.dialects.google.gemini_capabilities import GeminiResponseOptions, is_blocked_prompt
from llm_proxy.dialects.google.gemini_decoder import (
    COUNTS,
    FEEDBACK,
    OF_CANDIDATE,
    OF_CHUNK,
    OF_USAGE,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Finish, Metadata, Turn

_LINE_END: Final = b"\r\n"
_ARRAY: Final = "application/json; charset=UTF-8"
_NUMBER: Final = re.compile("[1-9][0-9]{0,8}")
_WITHOUT_CONTENT: Final = (Finish.CONTENT_FILTER, Finish.ERROR)


@dataclass(frozen=True, slots=True)
class GeminiEncoder:
    """Tells turns that fit."""

    options: GeminiResponseOptions
    context: EncodeContext

    def encode_response(self, turns: Sequence[Turn]) -> DialectResponse:
        """The answer: a document, events, or an array of the same."""
        match self.options.stream_form:
            case "whole":
                items = [self._encode_candidate(at, turn) for at, turn in enumerate(turns)]
                return response_encoding.json_response(
                    self._envelope_of(turns[0]).encode_chunk(_join_candidates(turns, items), 1, 1)
                )
            case "sse":
                events = (
                    sse.encode_event(response_encoding.json_line(encode_chunk), line_end=_LINE_END)
                    for encode_chunk in self._encode_chunks(turns)
                )
                return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events)
            case "json-array":
                elements = _encode_array_elements(
                    map(response_encoding.json_line, self._encode_chunks(turns))
                )
                return response_encoding.stream_response("json-array", _ARRAY, elements)

    def _encode_chunks(self, turns: Sequence[Turn]) -> Iterator[Document]:
        """The chunks, in which candidates grow side by side, and an error if there is one."""
        spoken = [list(self._encode_candidate_chunks(at, turn)) for at, turn in enumerate(turns)]
        steps = [[document for document in step if document] for step in zip_longest(*spoken)]
        around = self._envelope_of(turns[0])
        for at, step in enumerate(steps, 1):
            yield around.encode_chunk(_join_candidates(turns, step), at, len(steps))
        if (failure := turns[0].failure) is not None:
            yield errors.stream_error_document(failure)

    def _envelope_of(self, turn: Turn) -> _ChunkEnvelope:
        metadata = nonempty_metadata(turn.metadata, OF_CHUNK)
        return _ChunkEnvelope(
            turn,
            metadata,
            dict(nonempty_metadata(turn.metadata, OF_USAGE)),
            self.options.is_wrapped,
        )

    def _encode_candidate(self, index: int, turn: Turn) -> Document:
        items = content_encoder.encode_parts(turn.parts)
        return {
            **_content_object(items, turn),
            **self._final_candidate_fields(turn),
            "index": index,
        }

    def _encode_candidate_chunks(self, index: int, turn: Turn) -> Iterator[Document]:
        pieces = list(content_encoder.encode_part_groups(turn.parts, self.context.split_text))
        if turn.failure is not None:
            for piece in pieces or [[content_encoder.empty_part()]]:
                yield {**_content_object(piece), "index": index}
            return
        last = pieces.pop() if pieces and _is_visible_text(pieces[-1]) else None
        for piece in pieces:
            yield {**_content_object(piece), "index": index}
        if last is None and pieces:
            last = [content_encoder.empty_part()]
        yield {
            **_content_object(last or [], turn),
            **self._final_candidate_fields(turn),
            "index": index,
        }

    def _final_candidate_fields(self, turn: Turn) -> Document:
        """Why a candidate finished, what its text rests on, and what else it says of itself."""
        fields = dict(nonempty_metadata(turn.metadata, (*OF_CANDIDATE, GROUNDING)))
        rests = source_encoder.source_fields(turn.parts, self.options.recitation_field)
        if GROUNDING in fields and GROUNDING in rests:
            rests[GROUNDING] |= fields[GROUNDING]
        return {"finishReason": _encode_enum(turn.finish_raw), **fields, **rests}


def _join_candidates(turns: Sequence[Turn], items: list[Document]) -> list[Document]:
    """The candidates; a blocked prompt has none."""
    return [] if len(turns) == 1 and is_blocked_prompt(turns[0]) else items


def _content_object(items: list[Document], ended: Turn | None = None) -> Document:
    """The parts of a candidate; one that was stopped before it said a word has no content."""
    if items:
        return {"content": {"parts": items, "role": "model"}}
    if ended is not None and ended.finish in _WITHOUT_CONTENT:
        return {}
    return {"content": {"role": "model"}}


def _is_visible_text(items: list[Document]) -> bool:
    return "text" in items[-1] and "thought" not in items[-1]


@dataclass(frozen=True, slots=True)
class _ChunkEnvelope:
    """What stands around the candidates of each chunk."""

    turn: Turn
    response_fields: Metadata
    extra_fields: Document
    """What stands beside the counts."""
    is_wrapped: bool

    def encode_chunk(self, items: list[Document], at: int, of: int) -> Document:
        """Chunk number `at` of so many, counted from 1; what the answer says of itself is in it."""
        counts = {**self._usage_at_chunk(at, of), **self.extra_fields}
        document: Document = {
            **({"candidates": items} if items else {}),
            **dict(
                response_field
                for response_field in self.response_fields
                if response_field[0] != FEEDBACK or at == 1
            ),
            **({"usageMetadata": counts} if counts else {}),
            **({"modelVersion": self.turn.model} if self.turn.model else {}),
            "responseId": self.turn.id,
        }
        return {"response": document} if self.is_wrapped else document

    def _usage_at_chunk(self, at: int, of: int) -> Document:
        """The counts so far: what was asked and thought at once, what is said as it grows."""
        if (usage := self.turn.usage) is None:
            return {}
        counts = {name: getattr(usage, name) for name in COUNTS}
        if at < of:
            counts["output"] = (usage.output or 0) * at // of or None
            so_far = sum(filter(None, (usage.input, counts["output"], usage.reasoning)))
            counts["total"] = so_far if usage.total is None else min(so_far, usage.total)
        return {COUNTS[name]: count for name, count in counts.items() if count is not None}


def _encode_enum(raw: str) -> str | int:
    """A value as it was asked for: a word, or its number."""
    return int(raw) if _NUMBER.fullmatch(raw) else raw


def _encode_array_elements(documents: Iterable[bytes]) -> Iterator[bytes]:
    before = b"["
    for document in documents:
        yield before + document
        before = b"," + _LINE_END
    yield b"\n]"
