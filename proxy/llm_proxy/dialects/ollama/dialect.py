"""The dialect `ollama`: chats, completions, model transfers and model lists.

A stream is NDJSON, and it is the default: a request streams unless it has `"stream": false`.
Ollama's cloud labels its streams `application/json`, so the request selects the codec of a
response, not the content type.  A stream ends in a line with `"done": true` (transfers: with
`"status": "success"`), or in a line with `"error"`.  Embeddings and model information are one
document; the response to copying or deleting a model declares an empty body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, MetadataNames
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import get_text, parse_object
from llm_proxy.dialects.ollama import auxiliary_responses, chat, requests
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.turns import Failure, Turn

_STREAMING_PATHS: Final = (chat.CHAT, chat.GENERATE, *auxiliary_responses.TRANSFER_PATHS)


class Ollama(Dialect):
    """The dialect `ollama`."""

    name = "ollama"
    id_json_paths = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    tool_result_json_paths = ("$.messages[role=tool].content",)
    errors = chat.ERRORS
    metadata_names = MetadataNames(("ollama",), "openai")

    def matches(self, request: Request) -> bool:
        """The paths of chats, embeddings and models; a HEAD request has no body to decode."""
        return request.path in auxiliary_responses.PATHS_BY_METHOD.get(request.method, ())

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients spell it; the `source` of a copy."""
        fields = parse_object(request.body)
        names = (get_text(fields, name) for name in ("model", "name", "source"))
        return next(filter(None, names), "")

    def streams(self, request: Request) -> bool:
        """True on paths that stream, unless the body has `"stream": false`."""
        if request.path not in _STREAMING_PATHS:
            return False
        return parse_object(request.body).get("stream") is not False

    def decode_request(self, request: Request) -> Conversation | None:
        """A chat or a completion; None for a request that only loads or unloads a model."""
        body = parse_object(request.body)
        if not auxiliary_responses.is_generation_request(request.path, body):
            return None
        return replace(requests.decode_request(request.path, body), model=self.model(request))

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `/api/chat`, with options and an explicit `stream`."""
        return requests.encode_request(conversation, stream=stream)

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """NDJSON where the request streams and the status is 200, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """By the last line of a stream; a document and an HTTP error as in any JSON API."""
        if response.codec_name != "ndjson" or not json_api.succeeded(response.head):
            if json_api.succeeded(response.head) and _is_empty_by_headers(response.head):
                return Completeness(is_complete=True, reason="Content-Length 0")
            return json_api.completeness(response)
        for line in reversed(response.framed_messages):
            fields = parse_object(line)
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
        return json_api.decoded_turns(self.response_decoder(response.codec_name), response)

    def response_decoder(self, codec_name: str) -> chat.LinesDecoder:
        """A decoder of lines, of which a response that does not stream is one."""
        return chat.LinesDecoder()

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of a line."""
        return chat.line_output_chars(parse_object(message)) if codec == "ndjson" else 0

    def keep_alive_message(self, codec: str) -> bytes:
        """None: a blank line crashes Ollama's own client."""
        return b""

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A message and nothing else."""
        return orjson.dumps(chat.error_document(message))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A chat with an explicit `stream`, since streaming is the default."""
        fields = {"role": "user", "content": "Hello"}
        return response_encoding.json_post_request(
            chat.CHAT, {"model": model, "messages": [fields], "stream": stream}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """That of a chat or a completion."""
        return chat.wire_format(request.path, stream=self.streams(request))

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Lines up to `"done": true`, or one document."""
        [turn] = turns
        return chat.encode_turn(turn, request.path, context, stream=self.streams(request))

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """A message and nothing else: no headers for limits or request ids."""
        return chat.error_response(status, failure, retry_after)

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
    if not response.body.strip():
        return "empty body"
    status = get_text(parse_object(response.framed_messages[-1]), "status")
    return f"no success after status: {status}" if status else "no line with done: true"
