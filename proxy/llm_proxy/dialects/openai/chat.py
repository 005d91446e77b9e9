"""The dialect `openai-chat`: Chat Completions of OpenAI and compatible servers.

A stream is SSE without event names: chunks of deltas, one `finish_reason` per choice, a usage
chunk without choices if requested, and `data: [DONE]`.  Real servers omit the `[DONE]`
(Perplexity, Hugging Face), name an event `error` (Groq), put an `error` beside empty choices
(OpenRouter) or write a line `error: {...}` that is not SSE (GPUStack, old llama.cpp).
Each of these ends a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, ConvertedResponseTurns, Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import (
    chat_message_decoder,
    chat_request_decoder,
    choices_decoder,
    errors,
    shared_format,
)
from llm_proxy.dialects.openai.chat_capabilities import (
    MESSAGE_METADATA_FIELDS,
    ChatResponseOptions,
    capabilities,
    chat_response_options,
)
from llm_proxy.dialects.openai.chat_encoder import ChatEncoder
from llm_proxy.dialects.openai.chat_message_decoder import ChatMessageDecoder
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER, provider_variant
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Failure, Metadata, Part, Turn

_PATH: Final = "/chat/completions"


class OpenAIChat(Dialect):
    """The dialect `openai-chat`."""

    name = "openai-chat"
    cassette_key_headers = ("openai-beta",)
    provider_variants = tuple(VARIANT_BY_PROVIDER)
    sends_messages_as_choices = True
    id_json_paths = (
        "$.messages[*].id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )

    def matches(self, request: Request) -> bool:
        """Whether it is a POST to `.../chat/completions` or similar, behind any prefix."""
        return (
            request.method == "POST" and shared_format.CHAT_PATH.fullmatch(request.path) is not None
        )

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path."""
        return shared_format.requested_model(request)

    def streams(self, request: Request) -> bool:
        """Whether the body has `"stream": true`."""
        return shared_format.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The messages, tools and sampling parameters of the body; None if it is not an object."""
        body = lenient_json.parse_object(request.body)
        return chat_request_decoder.decode_request(body) if body else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete at `[DONE]`, when every choice is finished, or at an error in the stream."""
        return choices_decoder.completeness(response)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice; an error without choices is one turn."""
        return choices_decoder.decode_choices(response, _ChatContentDecoder)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters in the deltas of its choices."""
        if codec != "sse":
            return 0
        choices = lenient_json.array_objects(shared_format.decode_event(message).get("choices"))
        return sum(
            chat_message_decoder.delta_output_chars(_delta_or_message(choice, streamed=True))
            for choice in choices
        )

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return shared_format.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request without messages; a stream requests usage."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return response_encoding.json_post_request(
            "/v1" + _PATH, {"model": model, **options, "messages": []}
        )

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Converts the turns to what the provider's variant of the format can represent."""
        wire_capabilities = capabilities(
            self._response_options(request), provider_variant(context.provider), turns
        )
        return conversion.convert(turns, wire_capabilities, self.model(request), context)

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Chunks up to `[DONE]`, one JSON document, or an HTTP error for a failed non-stream."""
        converted = self.representable_turns(request, turns, context).turns
        if converted[0].failure and not self.streams(request):
            return self.error_response(
                errors.ERRORS.status(converted[0].failure), converted[0].failure, context
            )
        encoder = ChatEncoder(
            self._response_options(request), provider_variant(context.provider), context
        )
        return encoder.encode_response(converted)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error in the format of the context's provider."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The `x-ratelimit-*` headers of requests and tokens."""
        return errors.rate_limit_headers(context)

    def _response_options(self, request: Request) -> ChatResponseOptions:
        return chat_response_options(lenient_json.parse_object(request.body))


class _ChatContentDecoder:
    """Decodes the message of one choice from its deltas."""

    def __init__(self) -> None:
        self._message_decoder = ChatMessageDecoder()

    def feed(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Decode one delta or one whole message; returns the message's metadata."""
        message = _delta_or_message(choice, streamed=streamed)
        self._message_decoder.feed(message, streamed=streamed)
        return lenient_json.select_metadata(message, MESSAGE_METADATA_FIELDS)

    def decoded_parts(self) -> tuple[Part, ...]:
        """The parts of the message so far."""
        return self._message_decoder.decoded_parts()


def _delta_or_message(choice: Fields, *, streamed: bool) -> Fields:
    """The `delta` of a stream, else the `message`; Perplexity always sends both."""
    preferred_field, fallback_field = ("delta", "message") if streamed else ("message", "delta")
    return lenient_json.object_fields(
        choice.get(preferred_field if preferred_field in choice else fallback_field)
    )
