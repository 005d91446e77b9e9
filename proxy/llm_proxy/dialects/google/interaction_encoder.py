"""Encodes `gemini-interactions` responses.

created status_update ( step.start step.delta* step.stop )* completed [DONE]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import interaction_decoder, step_encoder
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn, Usage

_IN_PROGRESS: Final = interaction_decoder.RUNNING_STATUSES[1]


@dataclass(frozen=True, slots=True)
class InteractionEncoder:
    """Encodes a turn that fits the capabilities."""

    context: EncodeContext

    def encode_stream(self, turn: Turn) -> DialectResponse:
        """A stream of named events, then `[DONE]`, or an error as the last event."""
        return response_encoding.stream_response("sse", sse.CONTENT_TYPE, self._encode_events(turn))

    def encode_whole_response(self, turn: Turn) -> DialectResponse:
        """One document."""
        steps = [step_encoder.encode_step(part) for part in turn.parts]
        return response_encoding.json_response(
            {**self._completed_interaction_object(turn), "steps": steps}
        )

    def encode_cancelled(self, interaction_id: str) -> DialectResponse:
        """The document of a cancelled interaction."""
        return response_encoding.json_response(
            {**self._interaction_object(Turn((), id=interaction_id), "cancelled")}
        )

    def _encode_events(self, turn: Turn) -> Iterator[bytes]:
        yield _encode_event(
            "interaction.created", interaction=self._interaction_object(turn, _IN_PROGRESS)
        )
        yield _encode_event(
            "interaction.status_update", interaction_id=turn.id, status=_IN_PROGRESS
        )
        for index, part in enumerate(turn.parts):
            yield _encode_event(
                "step.start", index=index, step=step_encoder.encode_step_start(part)
            )
            for delta in step_encoder.encode_step_deltas(part, self.context.split_text):
                yield _encode_event("step.delta", index=index, delta=delta)
            yield _encode_event("step.stop", index=index)
        if (failure := turn.failure) is not None:
            yield _encode_event("error", error={"code": failure.code, "message": failure.message})
            return
        yield _encode_event(
            interaction_decoder.COMPLETED_EVENT_TYPES[0],
            interaction=self._completed_interaction_object(turn),
        )
        yield sse.encode_event(sse.DONE_DATA)

    def _completed_interaction_object(self, turn: Turn) -> Document:
        counts = {"usage": _encode_usage(turn.usage)} if turn.usage is not None else {}
        return {**self._interaction_object(turn, turn.finish_raw), **counts}

    def _interaction_object(self, turn: Turn, status: str) -> Document:
        timestamp = datetime.fromtimestamp(self.context.created_unix_s, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
        return {
            "id": turn.id,
            "object": "interaction",
            **({"model": turn.model} if turn.model else {}),
            **dict(turn.metadata),
            "status": status,
            "created": timestamp,
            "updated": timestamp,
        }


def _encode_event(kind: str, **fields: object) -> bytes:
    return sse.encode_event(
        response_encoding.single_line_json({"event_type": kind, **fields}), kind
    )


def _encode_usage(usage: Usage) -> Document:
    counts = {
        wire_name: getattr(usage, name)
        for name, wire_name in interaction_decoder.USAGE_WIRE_NAMES.items()
    }
    return {wire_name: count for wire_name, count in counts.items() if count is not None}
