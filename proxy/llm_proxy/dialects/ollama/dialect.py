"""The dialect `ollama`: chats, completions, model transfers and model lists.

A stream is NDJSON, and it is the default: a request streams unless it has `"stream": false`.
Ollama's cloud labels its streams `application/json`, so the request selects the codec of a
response, not the content type.  A stream ends in a line with `"done": true` (transfers: with
`"status": "success"`), or in a line with `"error"`.  Embeddings and model information are one
document; the response to copying or deleting a model declares an empty body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedResponseTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.ollama import (
    auxiliary_responses,
    errors,
    line_decoder,
    paths,
    request_decoder,
)
from llm_proxy.dialects.ollama.chat_capabilities import capabilities
from llm_proxy.dialects.ollama.chat_encoder import OllamaEncoder
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.turns import Failure, TokenCounting, Turn

_STREAMING_PATHS: Final = (paths.CHAT, paths.GENERATE, paths.PULL, paths.PUSH, paths.CREATE)
_DOCUMENT_PATHS: Final = (paths.SHOW, paths.COPY, paths.EMBED, paths.EMBEDDINGS)
_PATHS_BY_METHOD: Final = {
    "POST": (*_STREAMING_PATHS, *_DOCUMENT_PATHS),
    "GET": (paths.TAGS, paths.RUNNING, paths.VERSION),
    "DELETE": (paths.DELETE,),
}

_RESPONSE_FIELDS: Final = frozenset(("message", "response", "image", "done", "error", "status"))
"""A line with none of these fields is no turn and no transfer of Ollama's."""


class Ollama:
    """The dialect `ollama`."""

    name = "ollama"
    volatile_json_paths: tuple[str, ...] = ()
    cassette_key_headers: tuple[str, ...] = ()
    id_json_paths = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """The paths of chats, embeddings and models; a HEAD request has no body to decode."""
        return request.path in _PATHS_BY_METHOD.get(request.method, ())

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients spell it; the `source` of a copy."""
        fields = lenient_json.parse_object(request.body)
        names = (
            lenient_json.value_as_text(fields.get(name)) for name in ("model", "name", "source")
        )
        return next(filter(None, names), "")

    def streams(self, request: Request) -> bool:
        """True on paths that stream, unless the body has `"stream": false`."""
        if request.path not in _STREAMING_PATHS:
            return False
        return lenient_json.parse_object(request.body).get("stream") is not False

    def decode_request(self, request: Request) -> Conversation | None:
        """A chat or a completion; None for a request that only loads or unloads a model."""
        body = lenient_json.parse_object(request.body)
        if not auxiliary_responses.is_generation_request(request.path, body):
            return None
        decode_body = (
            request_decoder.decode_chat_request
            if request.path == paths.CHAT
            else request_decoder.decode_generate_request
        )
        return decode_body(body)

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """NDJSON where the request streams and the status is 200, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """By the last line of a stream; a document and an HTTP error as in any JSON API."""
        if response.codec_name != "ndjson" or not json_api.succeeded(response.head):
            if json_api.succeeded(response.head) and _is_empty_by_headers(response.head):
                return Completeness(is_complete=True, reason="empty, as declared")
            return json_api.completeness(response)
        for line in reversed(response.framed_messages):
            fields = lenient_json.parse_object(line)
            if error := fields.get("error"):
                return json_api.completed_by_error(json_api.decode_failure(error))
            if fields.get("done") is True:
                return Completeness(is_complete=True, reason="done: true")
            if fields.get("status") == "success":
                return Completeness(is_complete=True, reason="status: success")
        return Completeness(is_complete=False, reason=_incomplete_reason(response))

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn; none for embeddings, model information, and what is not Ollama's."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        messages = (
            response.framed_messages
            if response.codec_name == "ndjson"
            else [json_api.joined_body(response)]
        )
        lines = [
            line
            for line in map(lenient_json.parse_object, messages)
            if not _RESPONSE_FIELDS.isdisjoint(line)
        ]
        return (line_decoder.decode_turn(lines),) if lines else ()

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of a line."""
        return (
            line_decoder.line_output_chars(lenient_json.parse_object(message))
            if codec == "ndjson"
            else 0
        )

    def keep_alive_message(self, codec: str) -> bytes:
        """None: a blank line crashes Ollama's own client."""
        return b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A message and nothing else."""
        return orjson.dumps(errors.error_document(message))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A chat with an explicit `stream`, since streaming is the default."""
        fields = {"role": "user", "content": "Hello"}
        return response_encoding.json_post_request(
            paths.CHAT, {"model": model, "messages": [fields], "stream": stream}
        )

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """To the capabilities of a chat or a completion."""
        response_capabilities = capabilities(request.path, stream=self.streams(request))
        return conversion.convert(turns, response_capabilities, self.model(request), context)

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Lines up to `"done": true`, or one document."""
        (turn,) = self.representable_turns(request, turns, context).turns
        stream = self.streams(request)
        if turn.failure and not stream:
            failure = next((turn.failure for turn in turns if turn.failure), turn.failure)
            return errors.error_response(errors.status_of_failure(failure), turn.failure)
        return OllamaEncoder(request.path, stream, context).encode_response(turn)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """A message and nothing else."""
        return errors.error_response(status, failure, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """None: Ollama sends no limits."""
        return ()

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Models, their transfers, embeddings, and loading or unloading a model."""
        return auxiliary_responses.auxiliary_response(
            self.model(request), request, context, stream=self.streams(request)
        )


def _is_empty_by_headers(head: ResponseHead) -> bool:
    """Whether it answers a copy or delete; any other response has a content type."""
    return head.content_length == 0 and not header_value(head.headers, "content-type")


def _incomplete_reason(response: DialectResponse) -> str:
    if not json_api.joined_body(response).strip():
        return "empty body"
    status = lenient_json.value_as_text(
        lenient_json.parse_object(response.framed_messages[-1]).get("status")
    )
    return f"no success after status: {status}" if status else "no line with done: true"
