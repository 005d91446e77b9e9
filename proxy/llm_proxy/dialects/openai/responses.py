"""The dialect `openai-responses`: typed events about items, and the complete response at the end.

A stream ends with an event that holds the whole response (`response.completed`, `.incomplete`,
`.failed`), or with an `error`, which OpenAI spells flat and Azure and gateways nested.  There is
no `[DONE]`; the one that OpenRouter sends proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import (
    api,
    errors,
    responses_auxiliary,
    responses_decoder,
    responses_request_decoder,
)
from llm_proxy.dialects.openai.responses_capabilities import (
    ResponsesOptions,
    capabilities,
    responses_options,
)
from llm_proxy.dialects.openai.responses_encoder import ResponsesEncoder
from llm_proxy.exchange import Headers, Request, ResponseHead
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, TokenCounting, Turn

_PATHS: Final = {
    "POST": re.compile(r"/responses(?:/compact|/input_tokens|/[^/]+/cancel)?\Z"),
    "GET": re.compile(r"/responses/[^/]+(?:/input_items)?\Z"),
    "DELETE": re.compile(r"/responses/[^/]+\Z"),
}
"""The ends of the paths, by method."""
_MAKES: Final = re.compile(r"/responses(?:/compact)?\Z")
"""The ends of the paths on which a turn is made."""
_SAYS: Final = (".delta", ".partial_image")
"""How the types of events end that add to what was said."""
_CODED: Final = ".audio.delta"
"""And of those, the ones whose delta is no text."""
_NUMBER: Final = re.compile("[0-9]{1,9}")


class OpenAIResponses:
    """The dialect `openai-responses`."""

    name = "openai-responses"
    volatile_paths = ("$.client_metadata", "$.prompt_cache_key", "$.input[*].id")
    key_headers = ("openai-beta",)
    id_paths = (
        "$.input[*].call_id",
        "$.input[*].approval_request_id",
    )
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """Whatever is about a response: to create, compact, count, cancel, fetch or delete one."""
        path = _PATHS.get(request.method)
        return path is not None and path.search(request.path) is not None

    def model(self, request: Request) -> str:
        """The body's `model`, else the Azure deployment that the path names."""
        return api.model_of(request)

    def streams(self, request: Request) -> bool:
        """Only where the body says so, or the query of a response that is fetched."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return api.requests_stream(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The items of the input; none where nothing is made: counts, and what is stored."""
        body = lenient_json.parse_object(request.body)
        makes = request.method == "POST" and _MAKES.search(request.path)
        return responses_request_decoder.decode_request(body) if body and makes else None

    def codec(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; where there is none, by what was asked for."""
        return json_api.codec_of_events_or_whole(head, streams=self.streams(request))

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by the event that holds the whole response, or by an error in the stream."""
        return responses_decoder.completeness(response)

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where nothing of a response can be read."""
        return responses_decoder.decode_turns(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a delta says; one of sound, or an image in the making, counts as a character."""
        if codec != "sse":
            return 0
        fields = api.decode_event(message)
        kind = lenient_json.str_or_empty(fields.get("type"))
        delta = "" if kind.endswith(_CODED) else lenient_json.str_or_empty(fields.get("delta"))
        return max(len(delta), 1) if kind.endswith(_SAYS) else 0

    def keep_alive_message(self, codec: str) -> bytes:
        """A comment, as gateways send it."""
        return sse.KEEP_ALIVE if codec == "sse" else b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error_body(kind, message)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """Without instructions or tools."""
        options = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1/responses", {"model": model, **options, "input": ""}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """As the items of a response, each with an id of its own."""
        words = capabilities(self._response_options(request), context, turns)
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to the one that holds the whole response, or that one alone."""
        [turn] = self.convert(request, turns, context).turns
        manner = self._response_options(request)
        if turn.failure and not manner.stream:
            return self.error_response(
                errors.status_of_failure(turn.failure), turn.failure, context
            )
        return ResponsesEncoder(manner, context).encode_response(turn)

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
        """How long a request is; that what was stored is not found."""
        return responses_auxiliary.auxiliary_response_of(request, context)

    def _response_options(self, request: Request) -> ResponsesOptions:
        number = _NUMBER.fullmatch(parse_qs(request.query).get("starting_after", [""])[0])
        after = int(number[0]) if number else -1
        return responses_options(request, stream=self.streams(request), after=after)
