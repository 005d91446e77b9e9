"""Encodes `openai-responses` responses.

    created [queued] in_progress item* ( completed | incomplete | cancelled | error failed )

Every event has its number.  The last one says all of the response again; the first ones say what
it was asked for, which is what most of a response is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, errors
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.output_item_event_encoder import Event, OutputItemEncoder
from llm_proxy.dialects.openai.provider_variants import family_member
from llm_proxy.dialects.openai.responses_capabilities import (
    ResponsesOptions,
    audio_parts,
    encode_turn_items,
    status_and_incomplete_reason,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import sse
from llm_proxy.turns import Media, Turn

_ECHOED: Final[Document] = {
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
"""What a response repeats of its request, and what it says where that says nothing."""


@dataclass(frozen=True, slots=True)
class ResponsesEncoder:
    """Tells turns that fit."""

    options: ResponsesOptions
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The answer, a stream or a document."""
        headers = errors.response_headers(self.context)
        if self.options.stream:
            return response_encoding.stream_response(
                "sse", api.EVENTS, self._encode_messages(turn), headers
            )
        output = encode_turn_items(turn, self.context)
        if self.options.is_compaction:
            return response_encoding.json_response(self._encode_compacted(turn, output), headers)
        return response_encoding.json_response(self._encode_final_event(turn, output), headers)

    def _encode_messages(self, turn: Turn) -> Iterator[bytes]:
        for number, (kind, fields) in enumerate(self._encode_events(turn)):
            if number > self.options.resume_after:
                numbered = {"type": kind, "sequence_number": number, **fields}
                yield sse.encode_event(response_encoding.json_line(numbered), kind)

    def _encode_events(self, turn: Turn) -> Iterator[Event]:
        waiting = ("queued",) if self.options.body.get("background") is True else ()
        begun = {
            status: self._response_in_status(turn, status) for status in (*waiting, "in_progress")
        }
        yield "response.created", {"response": next(iter(begun.values()))}
        for status, response in begun.items():
            yield f"response.{status}", {"response": response}
        output = encode_turn_items(turn, self.context)
        yield from self._encode_output_events(output, is_cut=turn.failure is not None)
        for sound in audio_parts(turn.parts):
            yield from self._encode_audio_events(sound)
        if turn.failure is not None:
            yield (
                "error",
                {"error": errors.error_fields(turn.failure, family_member(self.context.provider))},
            )
        status, _ = status_and_incomplete_reason(turn)
        yield f"response.{status}", {"response": self._encode_final_event(turn, output)}

    def _encode_output_events(self, output: Sequence[Document], *, is_cut: bool) -> Iterator[Event]:
        """The items one after the other; where an error cuts them off, the last is open."""
        output_item_encoder = OutputItemEncoder(
            self.context.split_text, self.options.partial_image_count
        )
        for index, item in enumerate(output):
            is_last = index == len(output) - 1
            for kind, fields in output_item_encoder.encode_events(
                item, closed=not (is_cut and is_last)
            ):
                yield kind, {"output_index": index, **fields}

    def _encode_audio_events(self, sound: Media) -> Iterator[Event]:
        if sound.base64:
            yield "response.audio.delta", {"delta": sound.base64}
        yield "response.audio.done", {}
        for piece in self.context.split_text(sound.transcript):
            yield "response.audio.transcript.delta", {"delta": piece}
        yield "response.audio.transcript.done", {}

    def _response_in_status(self, turn: Turn, status: str) -> Document:
        return self._encode_document(turn, status=status, output=[])

    def _encode_final_event(self, turn: Turn, output: Sequence[Document]) -> Document:
        status, reason = status_and_incomplete_reason(turn)
        failure = turn.failure
        error = failure and {"code": failure.code, "message": failure.message}
        return self._encode_document(
            turn,
            status=status,
            output=list(output),
            completed_at=self.context.created if status == "completed" else None,
            error=error,
            incomplete_details={"reason": reason} if reason else None,
            usage=read.encode_usage(turn.usage),
        )

    def _encode_document(self, turn: Turn, **fields: object) -> Document:
        return {
            "id": turn.id,
            "object": "response",
            "created_at": self.context.created,
            "status": None,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": turn.model,
            "output": [],
            **_echoed_request_fields(self.options.body),
            "usage": None,
            **dict(turn.metadata),
            **fields,
        }

    def _encode_compacted(self, turn: Turn, output: Sequence[Document]) -> Document:
        return {
            "id": turn.id,
            "object": "response.compaction",
            "created_at": self.context.created,
            "output": list(output),
            "usage": read.encode_usage(turn.usage),
        }


def _echoed_request_fields(body: Fields) -> Document:
    fields = dict(lenient_json.named_metadata(body, _ECHOED))
    echo = {
        name: _merge_over_defaults(fields.get(name), default) for name, default in _ECHOED.items()
    }
    tools = map(_without_credentials, lenient_json.object_items(fields.get("tools")))
    return {**echo, "tools": list(tools)}


def _without_credentials(tool: Fields) -> Document:
    """A tool without what only its server is to know, as OpenAI gives it back."""
    return {name: value for name, value in tool.items() if name not in ("authorization", "headers")}


def _merge_over_defaults(value: object, default: object) -> object:
    """What was asked; of an object, what it leaves out is as ever."""
    if isinstance(value, dict) and isinstance(default, dict):
        return {**default, **value}
    return default if value is None else value
