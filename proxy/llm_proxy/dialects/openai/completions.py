"""OpenAI's legacy completions: a prompt continued, in choices of plain text.

Many servers speak it still: vLLM, llama.cpp, Together, DeepSeek and Mistral (to fill gaps).
Writer's stream is its own: events of `{"value": ...}`, without ids, choices or any end, so
nothing can prove it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import (
    conversion,
    json_api,
    lenient_json,
    request_decoding,
    response_encoding,
)
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import Asked, asked
from llm_proxy.dialects.openai.completions_encoder import CompletionSpeech, vocabulary
from llm_proxy.dialects.openai.family import member
from llm_proxy.exchange import Head, Headers, Request
from llm_proxy.framing import sse
from llm_proxy.turns import Counting, Failure, Metadata, Part, Text, Turn

_PATH: Final = "/completions"
_MESSAGES: Final = "/fim/completions"
"""Completions that answer in messages, beside chats."""


class OpenAICompletions:
    """The dialect `openai-completions`."""

    name = "openai-completions"
    volatile: tuple[str, ...] = ()
    key_headers = ("openai-beta",)
    ids: tuple[str, ...] = ()
    counting = Counting()
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """A POST to `.../completions`, whatever a provider puts in front."""
        path = request.path
        if request.method != "POST" or path.endswith(_MESSAGES) or api.CHATS.fullmatch(path):
            return False
        return path.endswith(_PATH)

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return api.streams(request)

    def conversation(self, request: Request) -> Conversation | None:
        """The prompt, as what a user says; several prompts are said at once."""
        body = lenient_json.document(request.body)
        settings = body.get("temperature"), body.get("top_p")
        return request_decoding.prompted(body.get("prompt"), *settings) if body else None

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        return choices_decoder.judge(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn a choice: of several prompts, n choices each, in the order of their index."""
        return choices_decoder.turns(response, _Content) or _of_values(response)

    def says(self, codec: str, message: bytes) -> int:
        """What its choices say."""
        if codec != "sse":
            return 0
        said = api.said(message)
        texts = [it.get("text") for it in lenient_json.objects(said.get("choices"))]
        return sum(len(lenient_json.text(it)) for it in (*texts, said.get("value")))

    def keep_alive(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error(kind, message)

    def typical(self, model: str, *, stream: bool) -> Request:
        """With usage asked for."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return response_encoding.post("/v1" + _PATH, {"model": model, **options, "prompt": ""})

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """In words alone."""
        words = vocabulary(self._asked(request), member(delivery.provider))
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Chunks up to `[DONE]`, or one document."""
        told = self.fit(request, turns, delivery).turns
        if told[0].failure and not self.streams(request):
            return self.refuse(errors.status(told[0].failure), told[0].failure, delivery)
        spoken = CompletionSpeech(self._asked(request), member(delivery.provider), delivery)
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

    def _asked(self, request: Request) -> Asked:
        return asked(lenient_json.document(request.body))


class _Content:
    """The text of one choice, as its pieces come; an echoed prompt is part of it."""

    def __init__(self) -> None:
        self._fragments = Fragments()

    def take(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one piece, or the whole text."""
        if said := lenient_json.text(choice.get("text")):
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
    for document in map(api.said, response.messages):
        if said := lenient_json.text(document.get("value")):
            fragments.add(Text(said))
    parts = fragments.parts()
    return (Turn(parts),) if parts else ()
