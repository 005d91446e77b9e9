"""The dialect `openai-completions`: legacy text completions.

Many servers still have it: vLLM, llama.cpp, Together, DeepSeek and Mistral (fill-in-the-middle).
Writer's stream differs: events of `{"value": ...}` without IDs, choices or an end, so nothing can
prove it complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, lenient_json, request_decoding, response_encoding
from llm_proxy.dialects.base import Completeness, ConvertedResponseTurns, Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors, shared_format
from llm_proxy.dialects.openai.choices_encoder import ResponseOptions, response_options
from llm_proxy.dialects.openai.completions_encoder import CompletionEncoder, capabilities
from llm_proxy.dialects.openai.provider_variants import provider_variant
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Failure, Metadata, Part, Text, Turn

_PATH: Final = "/completions"
_FIM_PATH: Final = "/fim/completions"
"""Fill-in-the-middle completions, which respond with messages: not this dialect."""


class OpenAICompletions(Dialect):
    """The dialect `openai-completions`."""

    name = "openai-completions"
    cassette_key_headers = ("openai-beta",)

    def matches(self, request: Request) -> bool:
        """Whether it is a POST to `.../completions` behind any prefix, and not a chat."""
        path = request.path
        if (
            request.method != "POST"
            or path.endswith(_FIM_PATH)
            or shared_format.CHAT_PATH.fullmatch(path)
        ):
            return False
        return path.endswith(_PATH)

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path."""
        return shared_format.requested_model(request)

    def streams(self, request: Request) -> bool:
        """Whether the body has `"stream": true`."""
        return shared_format.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The prompt as one user message; several prompts become one message."""
        body = lenient_json.parse_object(request.body)
        settings = body.get("temperature"), body.get("top_p")
        return request_decoding.prompt_conversation(body.get("prompt"), *settings) if body else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete at `[DONE]`, when every choice is finished, or at an error in the stream."""
        return choices_decoder.completeness(response)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice, by index; several prompts have n choices each."""
        return choices_decoder.decode_choices(
            response, _CompletionContentDecoder
        ) or _decode_writer_provider_stream(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of text in its choices."""
        if codec != "sse":
            return 0
        fields = shared_format.decode_event(message)
        texts = [choice.get("text") for choice in lenient_json.array_objects(fields.get("choices"))]
        return sum(len(lenient_json.str_or_empty(value)) for value in (*texts, fields.get("value")))

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return shared_format.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request with an empty prompt; a stream requests usage."""
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return response_encoding.json_post_request(
            "/v1" + _PATH, {"model": model, **options, "prompt": ""}
        )

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Converts the turns to plain text."""
        wire_capabilities = capabilities(
            self._response_options(request), provider_variant(context.provider)
        )
        return conversion.convert(turns, wire_capabilities, self.model(request), context)

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Chunks up to `[DONE]`, one JSON document, or an HTTP error for a failed non-stream."""
        converted = self.representable_turns(request, turns, context).turns
        if converted[0].failure and not self.streams(request):
            return self.error_response(
                errors.status_of_failure(converted[0].failure), converted[0].failure, context
            )
        encoder = CompletionEncoder(
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

    def _response_options(self, request: Request) -> ResponseOptions:
        return response_options(lenient_json.parse_object(request.body))


class _CompletionContentDecoder:
    """Decodes the text of one choice from its pieces; an echoed prompt is part of it."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()

    def feed(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Decode one piece, or the whole text; returns no metadata."""
        if text := lenient_json.str_or_empty(choice.get("text")):
            self._fragments.add_fragment(Text(text))
        return ()

    def decoded_parts(self) -> tuple[Part, ...]:
        """The text so far, as at most one part."""
        return self._fragments.joined_parts()


def _decode_writer_provider_stream(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn of Writer's stream; none where no event has a `value`."""
    if response.codec_name != "sse":
        return ()
    fragments = FragmentJoiner()
    for document in map(shared_format.decode_event, response.framed_messages):
        if text := lenient_json.str_or_empty(document.get("value")):
            fragments.add_fragment(Text(text))
    parts = fragments.joined_parts()
    return (Turn(parts),) if parts else ()
