"""What many makers' models say on Amazon Bedrock: chats as of OpenAI.

Streams tell no usage: the service's metrics do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock.completion_decoder import FINISH
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import chat_request_decoder, choices_decoder
from llm_proxy.dialects.openai.chat_capabilities import ChatAsked, vocabulary
from llm_proxy.dialects.openai.chat_message_encoder import MessageSpeech
from llm_proxy.dialects.openai.family import OPENAI
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn

_WORDS: Final[Mapping[Finish, str]] = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_CALLS: "tool_calls",
    Finish.CONTENT_FILTER: "content_filter",
}
_COUNTS: Final = ("input", "output", "total")


@dataclass(frozen=True, slots=True)
class Chat:
    """Chats; makers differ in where they say why one ended."""

    reason: str = "finish_reason"

    def conversation(self, body: Fields) -> Conversation:
        """As of OpenAI."""
        return chat_request_decoder.read(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """As of OpenAI, with no more beside a message than Bedrock reads."""
        asked = ChatAsked(stream=streams, usage=False, legacy=False)
        words = vocabulary(asked, OPENAI)
        return replace(
            words,
            dialect="bedrock",
            finishes=FINISH,
            words=_WORDS,
            counts=_COUNTS,
            always=_COUNTS,
            counts_always=not streams,
            keeps=(),
            choices=False,
        )

    def document(self, turn: Turn, delivery: Delivery) -> Document:
        """The whole chat completion."""
        message = MessageSpeech(OPENAI, delivery.cut).whole(turn)
        choice: Document = {"index": 0, "message": message, self.reason: turn.finish_raw}
        said = {"choices": [choice], "usage": choices_decoder.usage_fields(turn.usage)}
        return {**_envelope(turn, "chat.completion", delivery), **said}

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Its chunks."""
        about = _envelope(turn, "chat.completion.chunk", delivery)
        for delta in MessageSpeech(OPENAI, delivery.cut).deltas(turn):
            yield {**about, "choices": [{"index": 0, "delta": delta, self.reason: None}]}
        if turn.failure is None:
            ended: Document = {"index": 0, "delta": {}, self.reason: turn.finish_raw}
            yield {**about, "choices": [ended]}


def _envelope(turn: Turn, kind: str, delivery: Delivery) -> Document:
    return {"id": turn.id, "object": kind, "created": delivery.created, "model": turn.model}
