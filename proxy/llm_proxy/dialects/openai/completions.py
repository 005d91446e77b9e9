"""The dialect `openai-completions`: legacy text completions.

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
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import ResponseOptions, response_options
from llm_proxy.dialects.openai.completions_encoder import CompletionEncoder, capabilities
from llm_proxy.dialects.openai.provider_variants import family_member
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, Metadata, Part, Text, TokenCounting, Turn

_PATH: Final = "/completions"
_MESSAGES: Final = "/fim/completions"
"""Completions that answer in messages, beside chats."""


class OpenAICompletions:
    """The dialect `openai-completions`."""

    name = "openai-completions"
    volatile_paths: tuple[str, ...] = ()
    key_headers = ("openai-beta",)
    id_paths: tuple[str, ...] = ()
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """A POST to `.../completions`, whatever a provider puts in front."""
        path = request.path
        if request.method != "POST" or path.endswith(_MESSAGES) or api.CHATS.fullmatch(path):
            return False
        return path.endswith(_PATH)

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model_of(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says `"stream": true`."""
        return api.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The prompt, as what a user says; several prompts are said at once."""
        body = lenient_json.parse_object(request.body)
        settings = body.get("temperature"), body.get("top_p")
        return request_decoding.prompt_conversation(body.get("prompt"), *settings) if body else None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.codec_of_events_or_whole(head, streams=self.streams(request))

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by `[DONE]`, by every choice finished, or by an error in the stream."""
        return choices_decoder.completeness(response)

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn a choice: of several prompts, n choices each, in the order of their index."""
        return choices_decoder.decode_turns(response, _CompletionContent) or _decode_writer_stream(
            response
        )

    def output_chars(self, codec: str, message: bytes) -> int:
        """What its choices say."""
        if codec != "sse":
            return 0
        fields = api.decode_event(message)
        texts = [
            object_item.get("text")
            for object_item in lenient_json.object_items(fields.get("choices"))
        ]
        return sum(len(lenient_json.str_or_empty(value)) for value in (*texts, fields.get("value")))

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
            "/v1" + _PATH, {"model": model, **options, "prompt": ""}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """In words alone."""
        words = capabilities(self._response_options(request), family_member(context.provider))
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
        spoken = CompletionEncoder(
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

    def _response_options(self, request: Request) -> ResponseOptions:
        return response_options(lenient_json.parse_object(request.body))


class _CompletionContent:
    """The text of one choice, as its pieces come; an echoed prompt is part of it."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()

    def feed(self, choice: Fields, *, streamed: bool) -> Metadata:
        """Read one piece, or the whole text."""
        if text := lenient_json.str_or_empty(choice.get("text")):
            self._fragments.add(Text(text))
        return ()

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        return self._fragments.joined_parts()


def _decode_writer_stream(response: DialectResponse) -> tuple[Turn, ...]:
    """Writer's stream."""
    if response.codec != "sse":
        return ()
    fragments = FragmentJoiner()
    for document in map(api.decode_event, response.messages):
        if text := lenient_json.str_or_empty(document.get("value")):
            fragments.add(Text(text))
    parts = fragments.joined_parts()
    return (Turn(parts),) if parts else ()
