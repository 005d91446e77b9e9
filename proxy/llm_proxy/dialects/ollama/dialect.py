"""The dialect `ollama`: chats, completions, model transfers and model lists.

A stream is NDJSON, and it is the default: a request streams unless it says `"stream": false`.
Ollama's cloud labels its streams `application/json`, so the request decides how a response is
cut, not the content type.  A stream ends in a line with `"done": true` (transfers: with
`"status": "success"`), or in a line with `"error"`.  What is asked about models, and embeddings,
come as one document; copying and deleting a model answer with a body that is declared empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
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

_STREAMED: Final = (paths.CHAT, paths.GENERATE, paths.PULL, paths.PUSH, paths.CREATE)
_WHOLE: Final = (paths.SHOW, paths.COPY, paths.EMBED, paths.EMBEDDINGS)
_PATHS: Final = {
    "POST": (*_STREAMED, *_WHOLE),
    "GET": (paths.TAGS, paths.RUNNING, paths.VERSION),
    "DELETE": (paths.DELETE,),
}

_TELLING: Final = frozenset(("message", "response", "image", "done", "error", "status"))
"""A line with none of these fields is not Ollama's."""


class Ollama:
    """The dialect `ollama`."""

    name = "ollama"
    volatile_paths: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    id_paths = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    token_counting = TokenCounting()
    overloaded_status = 503

    def matches(self, request: Request) -> bool:
        """The paths of chats, embeddings and models; a HEAD has no body to understand."""
        return request.path in _PATHS.get(request.method, ())

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients call it; the `source` of a copy."""
        fields = lenient_json.parse_object(request.body)
        names = (
            lenient_json.printable_text(fields.get(name)) for name in ("model", "name", "source")
        )
        return next(filter(None, names), "")

    def streams(self, request: Request) -> bool:
        """On paths that stream, yes, unless the body says `"stream": false`."""
        if request.path not in _STREAMED:
            return False
        return lenient_json.parse_object(request.body).get("stream") is not False

    def decode_request(self, request: Request) -> Conversation | None:
        """A chat or a prompt; none where a model is only to be loaded."""
        body = lenient_json.parse_object(request.body)
        if not auxiliary_responses.requests_turn(request.path, body):
            return None
        read = (
            request_decoder.decode_chat_request
            if request.path == paths.CHAT
            else request_decoder.decode_generate_request
        )
        return read(body)

    def codec(self, request: Request, head: ResponseHead) -> str:
        """Lines where the request streams and nothing went wrong, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """Whole by its last line; one document, and an HTTP error, as any JSON API."""
        if response.codec != "ndjson" or not json_api.succeeded(response.head):
            if json_api.succeeded(response.head) and _is_empty_by_headers(response.head):
                return Completeness(is_complete=True, reason="empty, as declared")
            return json_api.completeness(response)
        for line in reversed(response.messages):
            fields = lenient_json.parse_object(line)
            if error := fields.get("error"):
                return json_api.completeness_by_error(json_api.decode_failure(error))
            if fields.get("done") is True:
                return Completeness(is_complete=True, reason="done: true")
            if fields.get("status") == "success":
                return Completeness(is_complete=True, reason="status: success")
        return Completeness(is_complete=False, reason=_missing_ending(response))

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where nothing was said: embeddings, models, what is not Ollama's."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        spelled = (
            response.messages if response.codec == "ndjson" else [json_api.joined_body(response)]
        )
        items = [
            line
            for line in map(lenient_json.parse_object, spelled)
            if not _TELLING.isdisjoint(line)
        ]
        return (line_decoder.decode_turn(items),) if items else ()

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a line says."""
        return (
            line_decoder.line_output_chars(lenient_json.parse_object(message))
            if codec == "ndjson"
            else 0
        )

    def keep_alive_message(self, codec: str) -> bytes:
        """None: a blank line crashes Ollama's own client."""
        return b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """Ollama's errors are a message and nothing else."""
        return orjson.dumps(errors.error_document(message))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A chat; it says so where it is not to stream."""
        fields = {"role": "user", "content": "Hello"}
        return response_encoding.json_post_request(
            paths.CHAT, {"model": model, "messages": [fields], "stream": stream}
        )

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """In the words of a chat, or of a completion."""
        words = capabilities(request.path, stream=self.streams(request))
        return conversion.convert(turns, words, self.model(request), context)

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Lines up to the one that is done, or one document."""
        (turn,) = self.convert(request, turns, context).turns
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
        """In words, and nothing else."""
        return errors.error_response(status, failure, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """None tells limits."""
        return ()

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """Models, their transfers, embeddings, and the loading of a model."""
        return auxiliary_responses.auxiliary_response_of(
            self.model(request), request, context, stream=self.streams(request)
        )


def _is_empty_by_headers(head: ResponseHead) -> bool:
    """Whether it is an answer to copying or deleting; an answer in words has a content type."""
    return head.length == 0 and not header_value(head.headers, "content-type")


def _missing_ending(response: DialectResponse) -> str:
    if not json_api.joined_body(response).strip():
        return "empty body"
    status = lenient_json.printable_text(
        lenient_json.parse_object(response.messages[-1]).get("status")
    )
    return f"no success after status: {status}" if status else "no line with done: true"
