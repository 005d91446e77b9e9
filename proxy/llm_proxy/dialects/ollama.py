"""Ollama's own API: chats and completions, and the progress of model transfers.

A stream is NDJSON, and it is the default: a request streams unless it says `"stream": false`.
Ollama's cloud labels its streams `application/json`, so the request decides how a response is
cut, not the content type.  A stream ends in a line with `"done": true` (transfers: with
`"status": "success"`), or in a line with `"error"`.
"""

from __future__ import annotations

from typing import Final

import orjson

from llm_proxy.dialects import plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request
from llm_proxy.turns import Finish, Reasoning, Text, ToolCall, Turn, Usage

_PATHS: Final = ("/api/chat", "/api/generate", "/api/pull", "/api/push", "/api/create")

_TELLING: Final = frozenset(("message", "response", "done", "error", "status"))
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
        """A POST to one of the paths that stream."""
        return request.method == "POST" and request.path in _PATHS

    def model(self, request: Request) -> str:
        """The body's `model`; `name`, as old clients call it in transfers."""
        asked = reading.document(request.body)
        return reading.words(asked.get("model")) or reading.words(asked.get("name"))

    def streams(self, request: Request) -> bool:
        """Yes, unless the body says `"stream": false`."""
        return reading.document(request.body).get("stream") is not False

    def codec(self, request: Request, head: Head) -> str:
        """Lines where the request streams and nothing went wrong, whatever the content type."""
        return "ndjson" if head.status == 200 and self.streams(request) else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by its last line; one document, and an HTTP error, as any JSON API."""
        if response.codec != "ndjson" or not plain.succeeded(response.head):
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
        """One turn, or none where nothing of Ollama's can be read.

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
    error = next((line["error"] for line in lines if line.get("error")), None)
    raw = _finish_raw(lines[-1] if end is None else end)
    calls = any(isinstance(part, ToolCall) for part in parts)
    return Turn(
        parts,
        finish=Finish.TOOL_CALLS if calls and raw == "stop" else _finish(raw),
        finish_raw=raw or "",
        usage=_usage(end or {}),
        failure=plain.failure(error) if error else None,
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
