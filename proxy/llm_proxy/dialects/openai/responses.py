"""The dialect `openai-responses`: typed events about items, and the complete response at the end.

A stream ends with an event that holds the whole response (`response.completed`, `.incomplete`,
`.failed`), or with an `error`, flat at OpenAI and nested at Azure and gateways.  There is no
`[DONE]`; the one that OpenRouter sends proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, lenient_json, response_encoding
from llm_proxy.dialects.base import (
    Completeness,
    ConvertedResponseTurns,
    Dialect,
    DialectResponse,
    MetadataNames,
)
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import (
    errors,
    responses_auxiliary,
    responses_decoder,
    responses_request_decoder,
    shared_format,
)
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER
from llm_proxy.dialects.openai.responses_capabilities import (
    ResponsesOptions,
    capabilities,
    responses_options,
)
from llm_proxy.dialects.openai.responses_encoder import ResponsesEncoder
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Failure, Turn

_PATH_END_BY_METHOD: Final = {
    "POST": re.compile(r"/responses(?:/compact|/input_tokens|/[^/]+/cancel)?\Z"),
    "GET": re.compile(r"/responses/[^/]+(?:/input_items)?\Z"),
    "DELETE": re.compile(r"/responses/[^/]+\Z"),
}
"""The ends of the dialect's paths, by method."""
_TURN_PATH_END: Final = re.compile(r"/responses(?:/compact)?\Z")
"""The ends of the paths that create a turn."""
_OUTPUT_TYPE_SUFFIXES: Final = (".delta", ".partial_image")
"""Suffixes of event types that add to the output."""
_BINARY_DELTA_SUFFIX: Final = ".audio.delta"
"""The suffix of event types whose delta is base64, not text."""
_SEQUENCE_NUMBER: Final = re.compile("[0-9]{1,9}")


class OpenAIResponses(Dialect):
    """The dialect `openai-responses`."""

    name = "openai-responses"
    volatile_json_paths = ("$.client_metadata", "$.prompt_cache_key", "$.input[*].id")
    cassette_key_headers = ("openai-beta",)
    metadata_names = MetadataNames(("openai", "azure"), "openai", redacted_name="encrypted_content")
    provider_variants = tuple(VARIANT_BY_PROVIDER)
    id_json_paths = (
        "$.input[*].call_id",
        "$.input[*].approval_request_id",
    )

    def matches(self, request: Request) -> bool:
        """Whether it creates, compacts, counts, cancels, fetches or deletes a response."""
        path = _PATH_END_BY_METHOD.get(request.method)
        return path is not None and path.search(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path."""
        return shared_format.requested_model(request)

    def streams(self, request: Request) -> bool:
        """Whether the body, or the query of a GET, sets `stream`."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return shared_format.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation; None for token counts and stored responses, which make no turn."""
        body = lenient_json.parse_object(request.body)
        requests_turn = request.method == "POST" and _TURN_PATH_END.search(request.path)
        return responses_request_decoder.decode_request(body) if body and requests_turn else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete at the event with the whole response, or at an error in the stream."""
        return responses_decoder.completeness(response)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where the body holds no response."""
        return responses_decoder.decode_response(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta; an audio delta or a partial image counts as one."""
        if codec != "sse":
            return 0
        fields = shared_format.decode_event(message)
        kind = lenient_json.str_or_empty(fields.get("type"))
        delta = (
            ""
            if kind.endswith(_BINARY_DELTA_SUFFIX)
            else lenient_json.str_or_empty(fields.get("delta"))
        )
        return max(len(delta), 1) if kind.endswith(_OUTPUT_TYPE_SUFFIXES) else 0

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return shared_format.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request with an empty input, without instructions or tools."""
        options = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1/responses", {"model": model, **options, "input": ""}
        )

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Converts the turn to output items, each with its own ID."""
        wire_capabilities = capabilities(self._response_options(request), context, turns)
        return conversion.convert(turns, wire_capabilities, self.model(request), context)

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to the whole response, the response document, or an HTTP error."""
        [turn] = self.representable_turns(request, turns, context).turns
        options = self._response_options(request)
        if turn.failure and not options.stream:
            return self.error_response(errors.ERRORS.status(turn.failure), turn.failure, context)
        return ResponsesEncoder(options, context).encode_response(turn)

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

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """A token count, or 404 for a stored response; None where a turn is requested."""
        return responses_auxiliary.auxiliary_response(request, context)

    def _response_options(self, request: Request) -> ResponsesOptions:
        sequence_number = _SEQUENCE_NUMBER.fullmatch(
            parse_qs(request.query).get("starting_after", [""])[0]
        )
        resume_after_sequence = int(sequence_number[0]) if sequence_number else -1
        return responses_options(
            request, stream=self.streams(request), resume_after_sequence=resume_after_sequence
        )
