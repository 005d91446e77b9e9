"""Answers of `gemini` as they go out.

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
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import content_encoder, errors, source_encoder
from llm_proxy.dialects.google.content_decoder import GROUNDING
from llm_proxy.dialects.google.gemini_capabilities import Asked, is_blocked
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
class GeminiSpeech:
    """Tells turns that fit."""

    manner: Asked
    delivery: Delivery

    def response(self, turns: Sequence[Turn]) -> Response:
        """The answer: a document, events, or an array of the same."""
        match self.manner.form:
            case "whole":
                each = [self._whole(at, turn) for at, turn in enumerate(turns)]
                return response_encoding.document(
                    self._around(turns[0]).chunk(_told(turns, each), 1, 1)
                )
            case "sse":
                events = (
                    sse.event(response_encoding.written(it), line_end=_LINE_END)
                    for it in self._documents(turns)
                )
                return response_encoding.streamed("sse", sse.CONTENT_TYPE, events)
            case "json-array":
                elements = _elements(map(response_encoding.written, self._documents(turns)))
                return response_encoding.streamed("json-array", _ARRAY, elements)

    def _documents(self, turns: Sequence[Turn]) -> Iterator[Document]:
        """The chunks, in which candidates grow side by side, and an error if there is one."""
        spoken = [list(self._growing(at, turn)) for at, turn in enumerate(turns)]
        steps = [[it for it in step if it] for step in zip_longest(*spoken)]
        around = self._around(turns[0])
        for at, step in enumerate(steps, 1):
            yield around.chunk(_told(turns, step), at, len(steps))
        if (failure := turns[0].failure) is not None:
            yield errors.amid(failure)

    def _around(self, turn: Turn) -> _Around:
        about = kept(turn.metadata, OF_CHUNK)
        return _Around(turn, about, dict(kept(turn.metadata, OF_USAGE)), self.manner.wrapped)

    def _whole(self, index: int, turn: Turn) -> Document:
        said = content_encoder.whole(turn.parts)
        return {**_content(said, turn), **self._ended(turn), "index": index}

    def _growing(self, index: int, turn: Turn) -> Iterator[Document]:
        """What each chunk adds to a candidate."""
        pieces = list(content_encoder.pieces(turn.parts, self.delivery.cut))
        if turn.failure is not None:
            for said in pieces or [[content_encoder.silence()]]:
                yield {**_content(said), "index": index}
            return
        last = pieces.pop() if pieces and _is_text(pieces[-1]) else None
        for said in pieces:
            yield {**_content(said), "index": index}
        if last is None and pieces:
            last = [content_encoder.silence()]
        yield {**_content(last or [], turn), **self._ended(turn), "index": index}

    def _ended(self, turn: Turn) -> Document:
        """Why a candidate finished, what its text rests on, and what else it says of itself."""
        about = dict(kept(turn.metadata, (*OF_CANDIDATE, GROUNDING)))
        rests = source_encoder.fields(turn.parts, self.manner.recited)
        if GROUNDING in about and GROUNDING in rests:
            rests[GROUNDING] |= about[GROUNDING]
        return {"finishReason": _enum(turn.finish_raw), **about, **rests}


def _told(turns: Sequence[Turn], each: list[Document]) -> list[Document]:
    """The candidates; a blocked prompt has none."""
    return [] if len(turns) == 1 and is_blocked(turns[0]) else each


def _content(said: list[Document], ended: Turn | None = None) -> Document:
    """The parts of a candidate; one that was stopped before it said a word has no content."""
    if said:
        return {"content": {"parts": said, "role": "model"}}
    if ended is not None and ended.finish in _WITHOUT_CONTENT:
        return {}
    return {"content": {"role": "model"}}


def _is_text(said: list[Document]) -> bool:
    """Whether a piece is text that the model says aloud."""
    return "text" in said[-1] and "thought" not in said[-1]


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around the candidates of each chunk."""

    turn: Turn
    about: Metadata
    beside: Document
    """What stands beside the counts."""
    wrapped: bool

    def chunk(self, each: list[Document], at: int, of: int) -> Document:
        """Chunk number `at` of so many, counted from 1; what the answer says of itself is in it."""
        counts = {**self._counts(at, of), **self.beside}
        document: Document = {
            **({"candidates": each} if each else {}),
            **dict(it for it in self.about if it[0] != FEEDBACK or at == 1),
            **({"usageMetadata": counts} if counts else {}),
            **({"modelVersion": self.turn.model} if self.turn.model else {}),
            "responseId": self.turn.id,
        }
        return {"response": document} if self.wrapped else document

    def _counts(self, at: int, of: int) -> Document:
        """The counts so far: what was asked and thought at once, what is said as it grows."""
        if (usage := self.turn.usage) is None:
            return {}
        counts = {name: getattr(usage, name) for name in COUNTS}
        if at < of:
            counts["output"] = (usage.output or 0) * at // of or None
            so_far = sum(filter(None, (usage.input, counts["output"], usage.reasoning)))
            counts["total"] = so_far if usage.total is None else min(so_far, usage.total)
        return {COUNTS[name]: count for name, count in counts.items() if count is not None}


def _enum(raw: str) -> str | int:
    """A value as it was asked for: a word, or its number."""
    return int(raw) if _NUMBER.fullmatch(raw) else raw


def _elements(documents: Iterable[bytes]) -> Iterator[bytes]:
    """The messages of an array, each there as soon as its element is."""
    before = b"["
    for document in documents:
        yield before + document
        before = b"," + _LINE_END
    yield b"\n]"
