"""OpenAI's legacy completions: a prompt continued, in choices of plain text.

Many servers speak it still: vLLM, llama.cpp, Together, DeepSeek and Mistral (to fill gaps).
Writer's stream is its own: events of `{"value": ...}`, without ids, choices or any end, so
nothing can prove it whole.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import openai_api, openai_choices, plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.turns import Metadata, Part, Text, Turn

_PATH: Final = "/completions"
_MESSAGES: Final = ("/chat/completions", "/fim/completions")
"""Completions that answer in messages."""


class OpenAICompletions:
    """The dialect `openai-completions`."""

    name = "openai-completions"

    def claims(self, request: Request) -> bool:
        """A POST to `.../completions`, whatever a provider puts in front."""
        path = request.path
        return request.method == "POST" and path.endswith(_PATH) and not path.endswith(_MESSAGES)

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
        """One turn a choice: of several prompts, n choices each, in the order of their index."""
        return openai_choices.turns(response, _Content) or _of_values(response)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return openai_api.error(kind, message)


class _Content:
    """The text of one choice, as its pieces come; an echoed prompt is part of it."""

    def __init__(self) -> None:
        self._fragments = Fragments()

    def take(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one piece, or the whole text."""
        if said := reading.text(choice.get("text")):
            self._fragments.add(Text(said))
        return ()

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        return self._fragments.parts()


def _of_values(response: Response) -> tuple[Turn, ...]:
    """Writer's stream."""
    if response.codec != "sse":
        return ()
    fragments = Fragments()
    for document in map(openai_api.said, response.messages):
        if said := reading.text(document.get("value")):
            fragments.add(Text(said))
    parts = fragments.parts()
    return (Turn(parts),) if parts else ()
