"""Encodes `openai-responses` responses.

    created [queued] in_progress item* ( completed | incomplete | cancelled | error failed )

Every event has a sequence number.  The last one repeats the whole response; the first ones hold
the response without output, which mostly echoes the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import errors, shared_format
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.output_item_event_encoder import OutputItemEventEncoder, TypedEvent
from llm_proxy.dialects.openai.provider_variants import provider_variant
from llm_proxy.dialects.openai.responses_capabilities import (
    ResponsesOptions,
    audio_parts,
    encode_turn_items,
    status_and_incomplete_reason,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Media, Turn

_ECHOED_DEFAULTS: Final[Document] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The request fields that a response echoes, with their defaults."""


@dataclass(frozen=True, slots=True)
class ResponsesEncoder:
    """Encodes a converted turn as a response."""

    options: ResponsesOptions
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The response: a stream or a JSON document."""
        headers = errors.common_response_headers(self.context)
        if self.options.stream:
            return response_encoding.stream_response(
                "sse",
                shared_format.EVENT_STREAM_CONTENT_TYPE,
                self._encode_sse_messages(turn),
                headers,
            )
        output = encode_turn_items(turn, self.context)
        if self.options.is_compaction:
            return response_encoding.json_response(self._compaction_object(turn, output), headers)
        return response_encoding.json_response(self._final_response(turn, output), headers)

    def _encode_sse_messages(self, turn: Turn) -> Iterator[bytes]:
        for number, (kind, fields) in enumerate(self._encode_events(turn)):
            if number > self.options.resume_after_sequence:
                numbered = {"type": kind, "sequence_number": number, **fields}
                yield sse.encode_event(response_encoding.single_line_json(numbered), kind)

    def _encode_events(self, turn: Turn) -> Iterator[TypedEvent]:
        queued_statuses = ("queued",) if self.options.request_body.get("background") is True else ()
        pending_responses = {
            status: self._pending_response(turn, status)
            for status in (*queued_statuses, "in_progress")
        }
        yield "response.created", {"response": next(iter(pending_responses.values()))}
        for status, response in pending_responses.items():
            yield f"response.{status}", {"response": response}
        output = encode_turn_items(turn, self.context)
        yield from self._encode_output_events(output, is_truncated=turn.failure is not None)
        for audio in audio_parts(turn.parts):
            yield from self._encode_audio_events(audio)
        if turn.failure is not None:
            yield (
                "error",
                {
                    "error": errors.error_fields(
                        turn.failure, provider_variant(self.context.provider)
                    )
                },
            )
        status, _ = status_and_incomplete_reason(turn)
        yield f"response.{status}", {"response": self._final_response(turn, output)}

    def _encode_output_events(
        self, output: Sequence[Document], *, is_truncated: bool
    ) -> Iterator[TypedEvent]:
        """The events of the items in order; where an error cuts the stream, the last stays open."""
        item_encoder = OutputItemEventEncoder(
            self.context.split_text, self.options.partial_image_count
        )
        for index, item in enumerate(output):
            is_last = index == len(output) - 1
            for kind, fields in item_encoder.encode_events(
                item, is_complete=not (is_truncated and is_last)
            ):
                yield kind, {"output_index": index, **fields}

    def _encode_audio_events(self, audio: Media) -> Iterator[TypedEvent]:
        if audio.base64:
            yield "response.audio.delta", {"delta": audio.base64}
        yield "response.audio.done", {}
        for piece in self.context.split_text(audio.transcript):
            yield "response.audio.transcript.delta", {"delta": piece}
        yield "response.audio.transcript.done", {}

    def _pending_response(self, turn: Turn, status: str) -> Document:
        return self._response_object(turn, status=status, output=[])

    def _final_response(self, turn: Turn, output: Sequence[Document]) -> Document:
        status, reason = status_and_incomplete_reason(turn)
        failure = turn.failure
        error = failure and {"code": failure.code, "message": failure.message}
        return self._response_object(
            turn,
            status=status,
            output=list(output),
            completed_at=self.context.created_unix_s if status == "completed" else None,
            error=error,
            incomplete_details={"reason": reason} if reason else None,
            usage=read.encode_usage(turn.usage),
        )

    def _response_object(self, turn: Turn, **fields: object) -> Document:
        return {
            "id": turn.id,
            "object": "response",
            "created_at": self.context.created_unix_s,
            "status": None,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": turn.model,
            "output": [],
            **_echoed_request_fields(self.options.request_body),
            "usage": None,
            **dict(turn.metadata),
            **fields,
        }

    def _compaction_object(self, turn: Turn, output: Sequence[Document]) -> Document:
        return {
            "id": turn.id,
            "object": "response.compaction",
            "created_at": self.context.created_unix_s,
            "output": list(output),
            "usage": read.encode_usage(turn.usage),
        }


def _echoed_request_fields(body: Fields) -> Document:
    fields = dict(lenient_json.select_metadata(body, _ECHOED_DEFAULTS))
    echoed = {
        name: _merge_over_defaults(fields.get(name), default)
        for name, default in _ECHOED_DEFAULTS.items()
    }
    tools = map(_without_credentials, lenient_json.array_objects(fields.get("tools")))
    return {**echoed, "tools": list(tools)}


def _without_credentials(tool: Fields) -> Document:
    """A tool without `authorization` and `headers`, which OpenAI does not echo either."""
    return {name: value for name, value in tool.items() if name not in ("authorization", "headers")}


def _merge_over_defaults(requested: object, default: object) -> object:
    """The requested value; an object is completed with the defaults of its missing fields."""
    if isinstance(requested, dict) and isinstance(default, dict):
        return {**default, **requested}
    return default if requested is None else requested
