"""The providers `ollama` and `local`: Ollama's API, with its models.

Source: owner's document 002, "Local Provider Adapter"; Ollama's API reference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import orjson

from llm_chat.errors import ChatError
from llm_chat.events import ErrorEvent
from llm_chat.http_provider import HttpProvider, HttpSettings
from llm_chat.provider import ModelInfo, PullProgress
from llm_chat.streamed_response import InvalidResponse, StreamedResponse
from llm_chat.token_limits import estimate_tokens
from llm_proxy import framing
from llm_proxy.actions import Abort, Begin, Send
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_objects,
    get_text,
    parse_object,
)
from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Request
from llm_proxy.shell.content_decoders import MAX_DECODED_BYTES

DEFAULT_BASE_URL: Final = "http://127.0.0.1:11434"
_PULLED: Final = "success"
"""The last status of a download."""


class OllamaProvider(HttpProvider):
    """A server with Ollama's API.  As at other providers, a response that is cut is an error."""

    def __init__(
        self,
        settings: HttpSettings | None = None,
        *,
        name: str = "ollama",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """By default the server is at `DEFAULT_BASE_URL`."""
        super().__init__(name, "ollama", settings or HttpSettings(DEFAULT_BASE_URL), sleep=sleep)

    async def count_tokens(self, request: Conversation) -> int:
        """The estimate: the server counts no tokens."""
        return estimate_tokens(request)

    async def list_models(self) -> list[ModelInfo]:
        """The models on the server.  Raises `ChatError`."""
        document = await self._document("GET", "/api/tags")
        return [_model_info(model) for model in get_objects(document, "models")]

    async def show_model(self, name: str) -> ModelInfo:
        """Information on one model.  Raises `ChatError`."""
        document = await self._document("POST", "/api/show", {"name": name})
        return _model_info({"name": name, **document})

    async def delete_model(self, name: str) -> None:
        """Delete a model.  Raises `ChatError`."""
        await self._read("DELETE", "/api/delete", {"name": name})

    async def pull_model(
        self, name: str, on_progress: Callable[[PullProgress], None] | None = None
    ) -> None:
        """Download a model; `on_progress` is called for each report.

        Raises `ChatError`, also if the last report is not that of success.
        """
        splitter = framing.new_codec("ndjson")
        fields: Fields = {"name": name, "stream": True}
        status = ""
        async with aclosing(self._body("POST", "/api/pull", fields)) as pieces:
            async for piece in pieces:
                for line in splitter.feed(piece):
                    status = self._report(line, on_progress) or status
        for line in splitter.close():
            status = self._report(line, on_progress) or status
        if status != _PULLED:
            raise ChatError(f"POST /api/pull: the download ended after the status {status!r}")

    def _report(self, line: bytes, on_progress: Callable[[PullProgress], None] | None) -> str:
        """Report one line of a download, and return its status; one without JSON is skipped."""
        fields = parse_object(line)
        if error := fields.get("error"):
            event = ErrorEvent(json_api.decode_failure(error).message)
            raise ChatError(f"POST /api/pull: {self._without_key(event)}")
        if fields and on_progress is not None:
            on_progress(
                PullProgress(
                    get_text(fields, "status"),
                    get_integer(fields, "completed"),
                    get_integer(fields, "total"),
                )
            )
        return get_text(fields, "status")

    async def _document(self, method: str, path: str, fields: Fields | None = None) -> Fields:
        document = parse_object(await self._read(method, path, fields))
        if not document:
            raise ChatError(f"{method} {path}: the response is not a JSON object")
        return document

    async def _read(self, method: str, path: str, fields: Fields | None) -> bytes:
        """The whole body of a successful response.  Raises `ChatError`."""
        body = bytearray()
        limit_s = self.settings.timeout_s
        try:
            async with (
                asyncio.timeout(limit_s),
                aclosing(self._body(method, path, fields)) as pieces,
            ):
                async for piece in pieces:
                    body += piece
                    if len(body) > MAX_DECODED_BYTES:
                        raise ChatError(
                            f"{method} {path}: the response has more than {MAX_DECODED_BYTES} bytes"
                        )
        except TimeoutError:
            raise ChatError(f"{method} {path}: no response within {limit_s:g} s") from None
        return bytes(body)

    async def _body(
        self, method: str, path: str, fields: Fields | None
    ) -> AsyncGenerator[bytes, None]:
        """The body of a successful response.  Raises `ChatError` for any other."""
        headers = () if fields is None else (("content-type", "application/json"),)
        request = self._with_headers(
            Request(method, path, "", headers, b"" if fields is None else orjson.dumps(fields))
        )
        response = StreamedResponse(self._dialect, request)
        try:
            async with aclosing(self._bursts(request, response)) as bursts:
                async for burst in bursts:
                    for action in burst:
                        match action:
                            case Begin(head):
                                response.begin(head)
                            case Send(data) if response.is_error:
                                for _ in response.feed(data):
                                    pass  # an error has no events
                            case Send(data):
                                response.progress += 1
                                yield data
                            case Abort() if not response.is_error:
                                raise ChatError(f"{method} {path}: the connection was lost")
                            case _:
                                pass
        except UpstreamFailed as failure:
            raise ChatError(str(self._connection_error(failure))) from failure
        except (InvalidResponse, TimeoutError) as error:
            if not response.is_error:  # of an error, the status says enough
                limit_s = self.settings.timeout_s
                raise ChatError(f"{method} {path}: no response within {limit_s:g} s") from error
        if response.is_error:
            raise ChatError(
                f"{method} {path}: {self._without_key(response.failed_attempt().error)}"
            )


class LocalProvider(OllamaProvider):
    """The provider `local` of document 002, which accepts more and retries nothing.

    A line that is not JSON is skipped, and the end of the body ends a response: a response that is
    cut may look complete.
    """

    ends_without_terminator = True
    skips_malformed_messages = True

    def __init__(
        self,
        settings: HttpSettings | None = None,
        *,
        name: str = "local",
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """By default the server is at `DEFAULT_BASE_URL`, and requests are not retried."""
        settings = settings or HttpSettings(DEFAULT_BASE_URL, max_retries=0)
        super().__init__(settings, name=name, sleep=sleep)

    @property
    def server_label(self) -> str:
        """What error messages call the server."""
        return "local server"


def _model_info(model: Fields) -> ModelInfo:
    return ModelInfo(
        get_text(model, "name"),
        get_integer(model, "size"),
        get_text(model, "modified_at"),
        model.get("details"),
    )
