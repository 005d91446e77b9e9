"""The dialect `openai-completions`: legacy text completions.

Many servers still have it: vLLM, llama.cpp, Together, DeepSeek and Mistral (fill-in-the-middle).
Writer's stream differs: events of `{"value": ...}` without IDs, choices or an end, so nothing can
prove it complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json, request_decoding, response_encoding
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors, shared_format
from llm_proxy.dialects.openai.choices_encoder import (
    ChoicesStreamEncoder,
    ResponseOptions,
    response_envelope,
    response_includes_usage,
    response_options,
)
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER, provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Failure, FinishReason, Metadata, Part, Text, Turn

_PATH: Final = "/completions"
_FIM_PATH: Final = "/fim/completions"
"""Fill-in-the-middle completions, which respond with messages: not this dialect."""

_FINISH: Final = FinishReasons(
    choices_decoder.FINISH_BY_REASON,
    {
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "length",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.ERROR: "error",
    },
)


class OpenAICompletions(Dialect):
    """The dialect `openai-completions`."""

    name = "openai-completions"
    cassette_key_headers = ("openai-beta",)
    provider_variants = tuple(VARIANT_BY_PROVIDER)
    sends_messages_as_choices = True
    errors = errors.ERRORS

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

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """Plain text; usage if the request and the provider have it."""
        options = self._response_options(request)
        has_usage = response_includes_usage(options, provider_variant(context.provider))
        return WireFormat(
            dialect=self.name,
            is_streamed=options.stream,
            parts=frozenset((Text,)),
            finish=_FINISH,
            usage=choices_decoder.USAGE if has_usage else UsageFields({}),
            metadata=(
                *choices_decoder.RESPONSE_METADATA_FIELDS,
                *choices_decoder.CHOICE_METADATA_FIELDS,
                choices_decoder.LOGPROBS,
            ),
            response_metadata=choices_decoder.RESPONSE_METADATA_FIELDS,
            id_prefix="cmpl-",
            has_choices=True,
        )

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Chunks up to `[DONE]`, or one document; each turn is one choice."""
        options, variant = self._response_options(request), provider_variant(context.provider)
        headers = errors.common_response_headers(context)
        envelope = response_envelope(turns[0], "text_completion", context)
        if options.stream:
            pieces = [_encode_pieces(at, turn, context) for at, turn in enumerate(turns)]
            final_choices = [_encode_choice(at, "", turn) for at, turn in enumerate(turns)]
            encoder = ChoicesStreamEncoder(
                options, variant, envelope, context.choices_are_successive
            )
            events = encoder.encode_events(turns[0], pieces, final_choices)
            return response_encoding.stream_response(
                "sse", shared_format.EVENT_STREAM_CONTENT_TYPE, events, headers
            )
        choices = [_encode_choice(at, turn.text, turn) for at, turn in enumerate(turns)]
        usage = choices_decoder.encode_usage(turns[0].usage)
        document = {**envelope, "choices": choices, "usage": usage}
        return response_encoding.json_response(document, headers)

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


def _encode_pieces(index: int, turn: Turn, context: EncodeContext) -> Iterator[Document]:
    """The choice objects before the finish; an empty one for a turn without parts or finish."""
    if not turn.parts and turn.finish is None:
        yield _encode_choice(index, "")
    for piece in context.split_text(turn.text):
        yield _encode_choice(index, piece)


def _encode_choice(index: int, text: str, finished_turn: Turn | None = None) -> Document:
    """A choice object; with `finished_turn`, also its finish reason and log probabilities."""
    metadata = dict(finished_turn.metadata) if finished_turn else {}
    logprobs = lenient_json.object_fields(metadata.get(choices_decoder.LOGPROBS))
    names = choices_decoder.CHOICE_METADATA_FIELDS
    return {
        "text": text,
        "index": index,
        "logprobs": choices_decoder.nonempty_logprobs(logprobs) or None,
        "finish_reason": finished_turn.finish_raw if finished_turn else None,
        **{name: metadata[name] for name in names if name in metadata},
    }
