"""OpenAI Chat Completions, and the many servers that speak it.

A stream is SSE without event names: chunks of deltas, `finish_reason` once a choice, a chunk
of usage without choices where it was asked for, and `data: [DONE]`.  Real servers leave out
the `[DONE]` (Perplexity, Hugging Face), name an event `error` (Groq), put an `error` beside
empty choices (OpenRouter) or write a line `error: {...}` that is no SSE at all (GPUStack,
old llama.cpp).  Each of these ends a stream for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import (
    api,
    chat_message_decoder,
    chat_request_decoder,
    choices_decoder,
    errors,
)
from llm_proxy.dialects.openai.chat_capabilities import (
    OF_MESSAGE,
    ChatAsked,
    chat_asked,
    vocabulary,
)
from llm_proxy.dialects.openai.chat_encoder import ChatSpeech
from llm_proxy.dialects.openai.chat_message_decoder import Message
from llm_proxy.dialects.openai.family import member
from llm_proxy.exchange import Head, Headers, Request
from llm_proxy.framing import sse
from llm_proxy.turns import Counting, Failure, Metadata, Part, Turn

_PATH: Final = "/chat/completions"


class OpenAIChat:
    """The dialect `openai-chat`."""

    name = "openai-chat"
    volatile: tuple[str, ...] = ()
    key_headers = ("openai-beta",)
    ids = (
        "$.messages[*].id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    counting = Counting()
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """A POST to `.../chat/completions` or its like, whatever a provider puts in front."""
        return request.method == "POST" and api.CHATS.fullmatch(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return api.streams(request)

    def conversation(self, request: Request) -> Conversation | None:
        """The messages of the body."""
        body = lenient_json.document(request.body)
        return chat_request_decoder.read(body) if body else None

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        return choices_decoder.judge(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a choice; an error without choices is a turn of its own."""
        return choices_decoder.turns(response, _Content)

    def says(self, codec: str, message: bytes) -> int:
        """What the deltas of its choices say."""
        if codec != "sse":
            return 0
        choices = lenient_json.objects(api.said(message).get("choices"))
        return sum(chat_message_decoder.says(_message(choice, streamed=True)) for choice in choices)

    def keep_alive(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error(kind, message)

    def typical(self, model: str, *, stream: bool) -> Request:
        """With usage asked for."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return response_encoding.post("/v1" + _PATH, {"model": model, **options, "messages": []})

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """In the words of the member of the family that speaks."""
        words = vocabulary(self._asked(request), member(delivery.provider), turns)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Chunks up to `[DONE]`, or one document."""
        told = self.fit(request, turns, delivery).turns
        if told[0].failure and not self.streams(request):
            return self.refuse(errors.status(told[0].failure), told[0].failure, delivery)
        spoken = ChatSpeech(self._asked(request), member(delivery.provider), delivery)
        return spoken.response(told)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In the shape of the member of the family that speaks."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """Of requests and tokens."""
        return errors.countdown(delivery)

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """None: every request is for a turn."""
        return None

    def _asked(self, request: Request) -> ChatAsked:
        return chat_asked(lenient_json.document(request.body))


class _Content:
    """The message of one choice, as its deltas come."""

    def __init__(self) -> None:
        self._message = Message()

    def take(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one delta, or one whole message."""
        message = _message(choice, streamed=streamed)
        self._message.take(message, streamed=streamed)
        return lenient_json.metadata(message, OF_MESSAGE)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        return self._message.parts()


def _message(choice: Fields, *, streamed: bool) -> Fields:
    """The delta, or the whole message; Perplexity always sends both, side by side."""
    first, second = ("delta", "message") if streamed else ("message", "delta")
    return lenient_json.fields(choice.get(first if first in choice else second))
