"""Answers of `openai-responses` as they go out.

    created [queued] in_progress item* ( completed | incomplete | cancelled | error failed )

Every event has its number.  The last one says all of the response again; the first ones say what
it was asked for, which is what most of a response is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, errors
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.family import member
from llm_proxy.dialects.openai.output_item_events import Event, ItemSpeech
from llm_proxy.dialects.openai.responses_capabilities import Asked, items, sounds, told_as
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
class ResponsesSpeech:
    """Tells turns that fit."""

    manner: Asked
    delivery: Delivery

    def response(self, turn: Turn) -> Response:
        """The answer, a stream or a document."""
        headers = errors.headers(self.delivery)
        if self.manner.stream:
            return response_encoding.streamed("sse", api.EVENTS, self._messages(turn), headers)
        output = items(turn, self.delivery)
        if self.manner.compact:
            return response_encoding.document(self._compacted(turn, output), headers)
        return response_encoding.document(self._ended(turn, output), headers)

    def _messages(self, turn: Turn) -> Iterator[bytes]:
        for number, (kind, fields) in enumerate(self._events(turn)):
            if number > self.manner.after:
                numbered = {"type": kind, "sequence_number": number, **fields}
                yield sse.event(response_encoding.written(numbered), kind)

    def _events(self, turn: Turn) -> Iterator[Event]:
        waiting = ("queued",) if self.manner.body.get("background") is True else ()
        begun = {status: self._begun(turn, status) for status in (*waiting, "in_progress")}
        yield "response.created", {"response": next(iter(begun.values()))}
        for status, response in begun.items():
            yield f"response.{status}", {"response": response}
        output = items(turn, self.delivery)
        yield from self._output(output, is_cut=turn.failure is not None)
        for sound in sounds(turn.parts):
            yield from self._heard(sound)
        if turn.failure is not None:
            yield "error", {"error": errors.fields(turn.failure, member(self.delivery.provider))}
        status, _ = told_as(turn)
        yield f"response.{status}", {"response": self._ended(turn, output)}

    def _output(self, output: Sequence[Document], *, is_cut: bool) -> Iterator[Event]:
        """The items one after the other; where an error cuts them off, the last is open."""
        told = ItemSpeech(self.delivery.cut, self.manner.partial_images)
        for index, item in enumerate(output):
            is_last = index == len(output) - 1
            for kind, fields in told.events(item, closed=not (is_cut and is_last)):
                yield kind, {"output_index": index, **fields}

    def _heard(self, sound: Media) -> Iterator[Event]:
        """Speech, and its words."""
        if sound.base64:
            yield "response.audio.delta", {"delta": sound.base64}
        yield "response.audio.done", {}
        for piece in self.delivery.cut(sound.transcript):
            yield "response.audio.transcript.delta", {"delta": piece}
        yield "response.audio.transcript.done", {}

    def _begun(self, turn: Turn, status: str) -> Document:
        return self._document(turn, status=status, output=[])

    def _ended(self, turn: Turn, output: Sequence[Document]) -> Document:
        status, reason = told_as(turn)
        failure = turn.failure
        error = failure and {"code": failure.code, "message": failure.message}
        return self._document(
            turn,
            status=status,
            output=list(output),
            completed_at=self.delivery.created if status == "completed" else None,
            error=error,
            incomplete_details={"reason": reason} if reason else None,
            usage=read.usage_fields(turn.usage),
        )

    def _document(self, turn: Turn, **said: object) -> Document:
        """The response, with what is said of it at this moment."""
        return {
            "id": turn.id,
            "object": "response",
            "created_at": self.delivery.created,
            "status": None,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": turn.model,
            "output": [],
            **_echo(self.manner.body),
            "usage": None,
            **dict(turn.metadata),
            **said,
        }

    def _compacted(self, turn: Turn, output: Sequence[Document]) -> Document:
        """A conversation that was made shorter."""
        return {
            "id": turn.id,
            "object": "response.compaction",
            "created_at": self.delivery.created,
            "output": list(output),
            "usage": read.usage_fields(turn.usage),
        }


def _echo(body: Fields) -> Document:
    """What a response repeats of its request."""
    asked = dict(lenient_json.metadata(body, _ECHOED))
    echo = {name: _over(asked.get(name), default) for name, default in _ECHOED.items()}
    tools = map(_without_credentials, lenient_json.objects(asked.get("tools")))
    return {**echo, "tools": list(tools)}


def _without_credentials(tool: Fields) -> Document:
    """A tool without what only its server is to know, as OpenAI gives it back."""
    return {name: it for name, it in tool.items() if name not in ("authorization", "headers")}


def _over(asked: object, default: object) -> object:
    """What was asked; of an object, what it leaves out is as ever."""
    if isinstance(asked, dict) and isinstance(default, dict):
        return {**default, **asked}
    return default if asked is None else asked
