"""Answers of `gemini-interactions` as they go out.

created status_update ( step.start step.delta* step.stop )* completed [DONE]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import interaction_decoder, step_encoder
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Turn, Usage

_RUNS: Final = interaction_decoder.RUNNING[1]


@dataclass(frozen=True, slots=True)
class InteractionSpeech:
    """Tells a turn that fits."""

    delivery: Delivery

    def stream(self, turn: Turn) -> Response:
        """Events, each with its name, and the end that has none."""
        return response_encoding.streamed("sse", sse.CONTENT_TYPE, self._events(turn))

    def whole(self, turn: Turn) -> Response:
        """One document."""
        steps = [step_encoder.whole(part) for part in turn.parts]
        return response_encoding.document({**self._ended(turn), "steps": steps})

    def cancelled(self, identity: str) -> Response:
        """An interaction that was told to stop."""
        return response_encoding.document({**self._envelope(Turn((), id=identity), "cancelled")})

    def _events(self, turn: Turn) -> Iterator[bytes]:
        yield _event("interaction.created", interaction=self._envelope(turn, _RUNS))
        yield _event("interaction.status_update", interaction_id=turn.id, status=_RUNS)
        for index, part in enumerate(turn.parts):
            yield _event("step.start", index=index, step=step_encoder.start(part))
            for delta in step_encoder.deltas(part, self.delivery.cut):
                yield _event("step.delta", index=index, delta=delta)
            yield _event("step.stop", index=index)
        if (failure := turn.failure) is not None:
            yield _event("error", error={"code": failure.code, "message": failure.message})
            return
        yield _event(interaction_decoder.COMPLETED[0], interaction=self._ended(turn))
        yield sse.event(sse.DONE)

    def _ended(self, turn: Turn) -> Document:
        """An interaction with what it cost."""
        counts = {"usage": _counts(turn.usage)} if turn.usage is not None else {}
        return {**self._envelope(turn, turn.finish_raw), **counts}

    def _envelope(self, turn: Turn, status: str) -> Document:
        moment = datetime.fromtimestamp(self.delivery.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "id": turn.id,
            "object": "interaction",
            **({"model": turn.model} if turn.model else {}),
            **dict(turn.metadata),
            "status": status,
            "created": moment,
            "updated": moment,
        }


def _event(kind: str, **fields: object) -> bytes:
    return sse.event(response_encoding.written({"event_type": kind, **fields}), kind)


def _counts(usage: Usage) -> Document:
    counts = {word: getattr(usage, name) for name, word in interaction_decoder.COUNTS.items()}
    return {word: count for word, count in counts.items() if count is not None}
