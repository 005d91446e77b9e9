"""The dialect `openai-chat`: Chat Completions of OpenAI and compatible servers.

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
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
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
    ChatResponseOptions,
    capabilities,
    chat_response_options,
)
from llm_proxy.dialects.openai.chat_encoder import ChatEncoder
from llm_proxy.dialects.openai.chat_message_decoder import ChatMessageDecoder
from llm_proxy.dialects.openai.provider_variants import family_member
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Metadata, Part, TokenCounting, Turn

_PATH: Final = "/chat/completions"


class OpenAIChat:
    """The dialect `openai-chat`."""

    name = "openai-chat"
    volatile_paths: tuple[str, ...] = ()
    key_headers = ("openai-beta",)
    id_paths = (
        "$.messages[*].id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """A POST to `.../chat/completions` or its like, whatever a provider puts in front."""
        return request.method == "POST" and api.CHATS.fullmatch(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model_of(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return api.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The messages of the body."""
        body = lenient_json.parse_object(request.body)
        return chat_request_decoder.decode_request(body) if body else None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.codec_of_events_or_whole(head, streams=self.streams(request))

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        return choices_decoder.completeness(response)

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn a choice; an error without choices is a turn of its own."""
        return choices_decoder.decode_turns(response, _ChatContent)

    def output_chars(self, codec: str, message: bytes) -> int:
        """What the deltas of its choices say."""
        if codec != "sse":
            return 0
        choices = lenient_json.object_items(api.decode_event(message).get("choices"))
        return sum(
            chat_message_decoder.delta_output_chars(_message_of_choice(choice, streamed=True))
            for choice in choices
        )

    def keep_alive_message(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """With usage asked for."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return response_encoding.json_post_request(
            "/v1" + _PATH, {"model": model, **options, "messages": []}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """In the words of the member of the family that speaks."""
        words = capabilities(
            self._response_options(request), family_member(context.provider), turns
        )
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Chunks up to `[DONE]`, or one document."""
        values = self.convert(request, turns, context).turns
        if values[0].failure and not self.streams(request):
            return self.error_response(
                errors.status_of_failure(values[0].failure), values[0].failure, context
            )
        spoken = ChatEncoder(
            self._response_options(request), family_member(context.provider), context
        )
        return spoken.encode_response(values)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """In the shape of the member of the family that speaks."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """Of requests and tokens."""
        return errors.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """None: every request is for a turn."""
        return None

    def _response_options(self, request: Request) -> ChatResponseOptions:
        return chat_response_options(lenient_json.parse_object(request.body))


class _ChatContent:
    """The message of one choice, as its deltas come."""

    def __init__(self) -> None:
        self._message_of_choice = ChatMessageDecoder()

    def feed(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one delta, or one whole message."""
        message = _message_of_choice(choice, streamed=streamed)
        self._message_of_choice.feed(message, streamed=streamed)
        return lenient_json.named_metadata(message, OF_MESSAGE)

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        return self._message_of_choice.result()


def _message_of_choice(choice: Fields, *, streamed: bool) -> Fields:
    """The delta, or the whole message; Perplexity always sends both, side by side."""
    first, second = ("delta", "message") if streamed else ("message", "delta")
    return lenient_json.object_fields(choice.get(first if first in choice else second))
