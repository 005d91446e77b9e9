"""Ollama's own API: chats and completions, the progress of model transfers, and the models.

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
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.ollama import (
    auxiliary_responses,
    errors,
    line_decoder,
    paths,
    request_decoder,
)
from llm_proxy.dialects.ollama.chat_capabilities import vocabulary
from llm_proxy.dialects.ollama.chat_encoder import ChatSpeech
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.turns import Counting, Failure, Turn

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
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids = (
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    counting = Counting()
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """The paths of chats, embeddings and models; a HEAD has no body to understand."""
        return request.path in _PATHS.get(request.method, ())

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients call it; the `source` of a copy."""
        asked = lenient_json.document(request.body)
        names = (lenient_json.words(asked.get(name)) for name in ("model", "name", "source"))
        return next(filter(None, names), "")

    def streams(self, request: Request) -> bool:
        """On paths that stream, yes, unless the body says `"stream": false`."""
        if request.path not in _STREAMED:
            return False
        return lenient_json.document(request.body).get("stream") is not False

    def conversation(self, request: Request) -> Conversation | None:
        """A chat or a prompt; none where a model is only to be loaded."""
        body = lenient_json.document(request.body)
        if not auxiliary_responses.asks_for_words(request.path, body):
            return None
        read = request_decoder.chat if request.path == paths.CHAT else request_decoder.generate
        return read(body)

    def codec(self, request: Request, head: Head) -> str:
        """Lines where the request streams and nothing went wrong, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by its last line; one document, and an HTTP error, as any JSON API."""
        if response.codec != "ndjson" or not json_api.succeeded(response.head):
            if json_api.succeeded(response.head) and _is_declared_empty(response.head):
                return Judgement(whole=True, reason="empty, as declared")
            return json_api.judge(response)
        for line in reversed(response.messages):
            said = lenient_json.document(line)
            if error := said.get("error"):
                return json_api.in_band(json_api.failure(error))
            if said.get("done") is True:
                return Judgement(whole=True, reason="done: true")
            if said.get("status") == "success":
                return Judgement(whole=True, reason="status: success")
        return Judgement(whole=False, reason=_missing(response))

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing was said: embeddings, models, what is not Ollama's."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.http_failure(response)),)
        spelled = response.messages if response.codec == "ndjson" else [json_api.body(response)]
        said = [
            line for line in map(lenient_json.document, spelled) if not _TELLING.isdisjoint(line)
        ]
        return (line_decoder.turn(said),) if said else ()

    def says(self, codec: str, message: bytes) -> int:
        """What a line says."""
        return line_decoder.says(lenient_json.document(message)) if codec == "ndjson" else 0

    def keep_alive(self, codec: str) -> bytes:
        """None: a blank line crashes Ollama's own client."""
        return b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Ollama's errors are a message and nothing else."""
        return orjson.dumps(errors.shape(message))

    def typical(self, model: str, *, stream: bool) -> Request:
        """A chat; it says so where it is not to stream."""
        said = {"role": "user", "content": "Hello"}
        return response_encoding.post(
            paths.CHAT, {"model": model, "messages": [said], "stream": stream}
        )

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """In the words of a chat, or of a completion."""
        words = vocabulary(request.path, stream=self.streams(request))
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Lines up to the one that is done, or one document."""
        (told,) = self.fit(request, turns, delivery).turns
        stream = self.streams(request)
        if told.failure and not stream:
            failure = next((it.failure for it in turns if it.failure), told.failure)
            return errors.refuse(errors.status(failure), told.failure)
        return ChatSpeech(request.path, stream, delivery).response(told)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In words, and nothing else."""
        return errors.refuse(status, failure, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """None tells limits."""
        return ()

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """Models, their transfers, embeddings, and the loading of a model."""
        return auxiliary_responses.answer(
            self.model(request), request, delivery, stream=self.streams(request)
        )


def _is_declared_empty(head: Head) -> bool:
    """Whether it is an answer to copying or deleting; an answer in words has a content type."""
    return head.length == 0 and not header(head.headers, "content-type")


def _missing(response: Response) -> str:
    """What a stream that does not say its end lacks."""
    if not json_api.body(response).strip():
        return "empty body"
    status = lenient_json.words(lenient_json.document(response.messages[-1]).get("status"))
    return f"no success after status: {status}" if status else "no line with done: true"
