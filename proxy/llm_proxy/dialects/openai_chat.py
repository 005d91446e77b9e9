"""OpenAI Chat Completions, and the many servers that speak it.

A stream is SSE without event names: chunks of deltas, `finish_reason` once a choice, a chunk
of usage without choices where it was asked for, and `data: [DONE]`.  Real servers leave out
the `[DONE]` (Perplexity, Hugging Face), name an event `error` (Groq), put an `error` beside
empty choices (OpenRouter) or write a line `error: {...}` that is no SSE at all (GPUStack,
old llama.cpp).  Each of these ends a stream for good.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import openai_api, openai_choices, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.openai_message import Message
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.turns import Metadata, Part, Turn

_PATH: Final = "/chat/completions"
_OF_MESSAGE: Final = ("extra_content",)


class OpenAIChat:
    """The dialect `openai-chat`."""

    name = "openai-chat"

    def claims(self, request: Request) -> bool:
        """A POST to `.../chat/completions`, whatever a provider puts in front."""
        return request.method == "POST" and request.path.endswith(_PATH)

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return openai_api.model(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return openai_api.streams(request)

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return plain.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        return openai_choices.judge(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a choice; an error without choices is a turn of its own."""
        return openai_choices.turns(response, _Content)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return openai_api.error(kind, message)


class _Content:
    """The message of one choice, as its deltas come."""

    def __init__(self) -> None:
        self._message = Message()

    def take(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one delta, or one whole message; Perplexity always sends both, side by side."""
        first, second = ("delta", "message") if streamed else ("message", "delta")
        message = reading.fields(choice.get(first if first in choice else second))
        self._message.take(message, streamed=streamed)
        return reading.metadata(message, _OF_MESSAGE)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        return self._message.parts()
