"""Ollama's own API: chats and completions, the progress of model transfers, and the models.

A stream is NDJSON, and it is the default: a request streams unless it says `"stream": false`.
Ollama's cloud labels its streams `application/json`, so the request decides how a response is
cut, not the content type.  A stream ends in a line with `"done": true` (transfers: with
`"status": "success"`), or in a line with `"error"`.  What is asked about models, and embeddings,
come as one document; copying and deleting a model answer with a body that is declared empty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson

from llm_proxy.dialects import plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.turns import Failure, Finish, Media, Reasoning, Text, ToolCall, Turn, Usage

_STREAMED: Final = ("/api/chat", "/api/generate", "/api/pull", "/api/push", "/api/create")
_WHOLE: Final = ("/api/show", "/api/copy", "/api/embed", "/api/embeddings")
_PATHS: Final = {
    "POST": (*_STREAMED, *_WHOLE),
    "GET": ("/api/tags", "/api/ps", "/api/version"),
    "DELETE": ("/api/delete",),
}

_TELLING: Final = frozenset(("message", "response", "image", "done", "error", "status"))
"""A line with none of these fields is not Ollama's."""

_FINISH: Final = {"stop": Finish.STOP, "length": Finish.LENGTH, "success": Finish.STOP}
"""`load` and `unload` are `OTHER`; so is the silence of old servers."""

_METADATA: Final = (
    "remote_model",
    "remote_host",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)


class Ollama:
    """The dialect `ollama`."""

    name = "ollama"

    def claims(self, request: Request) -> bool:
        """The paths of chats, embeddings and models; a HEAD has no body to understand."""
        return request.path in _PATHS.get(request.method, ())

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients call it; the `source` of a copy."""
        asked = reading.document(request.body)
        names = (reading.words(asked.get(name)) for name in ("model", "name", "source"))
        return next(filter(None, names), "")

    def streams(self, request: Request) -> bool:
        """On paths that stream, yes, unless the body says `"stream": false`."""
        if request.path not in _STREAMED:
            return False
        return reading.document(request.body).get("stream") is not False

    def codec(self, request: Request, head: Head) -> str:
        """Lines where the request streams and nothing went wrong, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by its last line; one document, and an HTTP error, as any JSON API."""
        if response.codec != "ndjson" or not plain.succeeded(response.head):
            if response.head.length == 0 and plain.succeeded(response.head):
                return Judgement(whole=True, reason="empty, as declared")
            return plain.judge(response)
        for line in reversed(response.messages):
            said = reading.document(line)
            if error := said.get("error"):
                return plain.in_band(plain.failure(error))
            if said.get("done") is True:
                return Judgement(whole=True, reason="done: true")
            if said.get("status") == "success":
                return Judgement(whole=True, reason="status: success")
        return Judgement(whole=False, reason=_missing(response))

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn, or none where nothing was said: embeddings, models, what is not Ollama's.

        Ollama says `stop` also where the model stops for its tools; the turn says `TOOL_CALLS`.
        """
        if not plain.succeeded(response.head):
            return (Turn((), failure=plain.http_failure(response)),)
        lines = response.messages if response.codec == "ndjson" else [plain.body(response)]
        said = [line for line in map(reading.document, lines) if not _TELLING.isdisjoint(line)]
        return (_turn(said),) if said else ()

    def error(self, status: int, kind: str, message: str) -> bytes:
        """Ollama's errors are a message and nothing else."""
        return orjson.dumps({"error": message})


def _missing(response: Response) -> str:
    """What a stream that does not say its end lacks."""
    if not plain.body(response).strip():
        return "empty body"
    status = reading.words(reading.document(response.messages[-1]).get("status"))
    return f"no success after status: {status}" if status else "no line with done: true"


def _turn(lines: list[Fields]) -> Turn:
    fragments = Fragments()
    for line in lines:
        _take(line, fragments)
    parts = fragments.parts()
    end = next((line for line in reversed(lines) if line.get("done") is True), None)
    failed = next((line for line in lines if line.get("error")), None)
    raw = _finish_raw(lines[-1] if end is None else end)
    calls = any(isinstance(part, ToolCall) for part in parts)
    return Turn(
        parts,
        finish=Finish.TOOL_CALLS if calls and raw == "stop" else _finish(raw),
        finish_raw=raw or "",
        usage=_usage(end or {}),
        failure=_failure(failed) if failed else None,
        model=next(filter(None, (reading.words(line.get("model")) for line in lines)), ""),
        metadata=reading.metadata(end or {}, _METADATA),
    )


def _take(line: Fields, fragments: Fragments) -> None:
    """Read one line; of a response that does not stream it is the only one."""
    message = reading.fields(line.get("message")) or line
    if thought := reading.text(message.get("thinking")):
        fragments.add(Reasoning(thought))
    if said := reading.text(message.get("content")) or reading.text(line.get("response")):
        fragments.add(Text(said))
    for image in (line.get("image"), *reading.array(message.get("images"))):
        if drawn := reading.text(image):
            fragments.add(Media("image/*", base64=drawn), key=None)
    for call in reading.objects(message.get("tool_calls")):
        function = reading.fields(call.get("function"))
        arguments = function.get("arguments")
        fragments.add(
            ToolCall(
                id=reading.words(call.get("id")),
                name=reading.words(function.get("name")),
                arguments=reading.words(arguments),
            ),
            key=None,  # each call comes whole
        )


def _failure(line: Fields) -> Failure:
    """An error line; Ollama's cloud gives the HTTP status beside it."""
    failure = plain.failure(line["error"])
    return replace(failure, code=failure.code or reading.words(line.get("status")))


def _finish_raw(end: Fields) -> str | None:
    """The word of the line that ends the stream; None where the line ends nothing."""
    if end.get("done") is True:
        return reading.words(end.get("done_reason"))
    return "success" if end.get("status") == "success" else None


def _finish(raw: str | None) -> Finish | None:
    return None if raw is None else _FINISH.get(raw, Finish.OTHER)


def _usage(end: Fields) -> Usage | None:
    read, written = (
        reading.count(end.get("prompt_eval_count")),
        reading.count(end.get("eval_count")),
    )
    return None if read is None and written is None else Usage(input=read, output=written)
