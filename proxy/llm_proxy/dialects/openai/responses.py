"""The dialect `openai-responses`: typed events about items, and the complete response at the end.

A stream ends with an event that holds the whole response (`response.completed`, `.incomplete`,
`.failed`), or with an `error`, flat at OpenAI and nested at Azure and gateways.  There is no
`[DONE]`; the one that OpenRouter sends proves nothing.

Nothing is stored here: fetching, cancelling or deleting a response fails with 404, as OpenAI does
for a response of another account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
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
    responses_format,
    responses_request_decoder,
    shared_format,
)
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Failure, Json, Turn

_PATH_END_BY_METHOD: Final = {
    "POST": re.compile(r"/responses(?:/compact|/input_tokens|/[^/]+/cancel)?\Z"),
    "GET": re.compile(r"/responses/[^/]+(?:/input_items)?\Z"),
    "DELETE": re.compile(r"/responses/[^/]+\Z"),
}
"""The ends of the dialect's paths, by method."""
_TURN_PATH_END: Final = re.compile(r"/responses(?:/compact)?\Z")
"""The ends of the paths that create a turn."""
_INPUT_TOKENS_PATH: Final = "/responses/input_tokens"
"""The end of the path of the token count endpoint."""
_STORED_RESPONSE_PATH: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel|/input_items)?\Z")

_OUTPUT_TYPE_SUFFIXES: Final = (".delta", ".partial_image")
"""Suffixes of event types that add to the output."""
_BINARY_DELTA_SUFFIX: Final = ".audio.delta"
"""The suffix of event types whose delta is base64, not text."""

_COUNTED_FIELDS: Final = ("instructions", "input", "tools", "text")
"""The fields of a request whose strings are counted."""
_UNCOUNTED_FIELDS: Final = frozenset(
    ("type", "role", "id", "call_id", "status", "image_url", "file_data")
)
"""Fields whose strings the model does not read as text."""
_MAX_DEPTH: Final = 32


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
    errors = errors.ERRORS

    def matches(self, request: Request) -> bool:
        """Whether it creates, compacts, counts, cancels, fetches or deletes a response."""
        path = _PATH_END_BY_METHOD.get(request.method)
        return path is not None and path.search(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment in the path."""
        return shared_format.requested_model(request)

    def streams(self, request: Request) -> bool:
        """Whether the body, or the query of a GET, sets `stream`."""
        return responses_format.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation; None for token counts and stored responses, which make no turn."""
        body = lenient_json.parse_object(request.body)
        requests_turn = request.method == "POST" and _TURN_PATH_END.search(request.path)
        return responses_request_decoder.decode_request(body) if body and requests_turn else None

    def completeness(self, response: DialectResponse) -> Completeness:
        """Complete at the event with the whole response, or at an error in the stream."""
        return responses_format.completeness(response)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where the body holds no response."""
        return responses_format.decode_response(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta; an audio delta or a partial image counts as one."""
        if codec != "sse":
            return 0
        fields = shared_format.decode_event(message)
        kind = lenient_json.str_or_empty(fields.get("type"))
        if not kind.endswith(_OUTPUT_TYPE_SUFFIXES):
            return 0
        if kind.endswith(_BINARY_DELTA_SUFFIX):
            return 1
        return max(len(lenient_json.str_or_empty(fields.get("delta"))), 1)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return shared_format.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request with an empty input, without instructions or tools."""
        options = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1/responses", {"model": model, **options, "input": ""}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """Output items; audio only in streams."""
        options = responses_format.response_options(request)
        return responses_format.wire_format(options, turns, context)

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to the whole response, or a document."""
        [turn] = turns
        options = responses_format.response_options(request)
        return responses_format.encode_turn(turn, options, context)

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Those of the whole stream, also where the request resumes one midway."""
        query = "stream=true" if self.streams(request) else ""
        return super().representable_turns(replace(request, query=query), turns, context)

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
        if request.path.endswith(_INPUT_TOKENS_PATH):
            body = lenient_json.parse_object(request.body)
            texts = _collect_strings([body.get(name) for name in _COUNTED_FIELDS], _MAX_DEPTH + 1)
            count = estimates_and_fakes.estimated_token_count("".join(texts))
            document = {"object": "response.input_tokens", "input_tokens": count}
            return response_encoding.json_response(
                document, errors.common_response_headers(context)
            )
        stored_match = _STORED_RESPONSE_PATH.search(request.path)
        if stored_match is None or request.path.endswith(responses_format.COMPACT_PATH):
            return None
        message = f"Response with id '{unquote(stored_match['id'])}' not found."
        failure = Failure(message, "invalid_request_error", "not_found")
        return errors.error_response(404, failure, context)


def _collect_strings(value: Json, max_depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() if max_depth:
            for item in value:
                yield from _collect_strings(item, max_depth - 1)
        case dict() if max_depth:
            for name, item in value.items():
                if name not in _UNCOUNTED_FIELDS:
                    yield from _collect_strings(item, max_depth - 1)
        case _:
            return
