"""The providers `ollama` and `local`: Ollama's API, with its models.

Source: owner's document 002, "Local Provider Adapter"; Ollama's API reference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson

from llm_chat.errors import ChatError, UnknownModel
from llm_chat.events import ErrorEvent, Retry
from llm_chat.http_provider import HttpProvider, HttpSettings, backoff_s
from llm_chat.provider import ModelInfo, PullProgress
from llm_chat.streamed_response import InvalidResponse, StreamedResponse
from llm_chat.token_limits import estimate_tokens
from llm_proxy import framing, providers
from llm_proxy.actions import Abort, Begin, Send
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_items,
    get_object,
    get_objects,
    get_text,
    parse_object,
    value_as_text,
)
from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Request
from llm_proxy.shell.content_decoders import MAX_DECODED_BYTES

DEFAULT_BASE_URL: Final = providers.upstream_url("ollama", {}) or ""
_PULLED: Final = "success"
"""The last status of a download."""
_START_SERVER: Final = "start the server with `ollama serve`, or set OLLAMA_HOST to its address"
_DETAILS: Final = MappingProxyType(
    {"family": "family", "parameters": "parameter_size", "quantisation": "quantization_level"}
)
"""Names of properties, each with the field in the details of a model."""
_LENGTHS: Final = MappingProxyType(
    {"context length": "context_length", "embedding length": "embedding_length"}
)
"""Names of properties, each with the field for the architecture of a model."""
_TEXTS: Final = MappingProxyType(
    {"options": "parameters", "system": "system", "template": "template"}
)
"""Names of properties, each with the field of a model."""


class _TemporaryFailure(ChatError):
    """A request that may succeed if it is sent again."""

    def __init__(self, event: ErrorEvent, next_step: str = "") -> None:
        self.event = event
        super().__init__("; ".join(filter(None, (str(event), next_step))))


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
        """Information on one model.  Raises `ChatError`; `UnknownModel` if the server lacks it."""
        document = await self._document("POST", "/api/show", _model_fields(name))
        model = _model_info({"name": name, **document})
        return replace(model, properties=_properties(document), document=dict(document))

    async def delete_model(self, name: str) -> None:
        """Delete a model.  Raises `ChatError`; `UnknownModel` if the server lacks it."""
        await self._read("DELETE", "/api/delete", _model_fields(name))

    async def pull_model(
        self, name: str, on_progress: Callable[[PullProgress], None] | None = None
    ) -> None:
        """Download a model; `on_progress` is called for each report.

        The server keeps the layers of a download that is interrupted, so the same request resumes
        it.  A connection that is lost in mid-download is resumed up to `max_retries` times without
        new bytes in between.  Raises `ChatError`, also if the last report is not that of success.
        """
        report = on_progress or (lambda _: None)
        completed: dict[str, int] = {}
        attempt = 0
        status = ""
        while True:
            try:
                async with aclosing(self._pull_reports(name)) as reports:
                    async for progress in reports:
                        if (progress.completed or 0) > completed.get(progress.digest, -1):
                            completed[progress.digest] = progress.completed or 0
                            attempt = 0
                        status = progress.status or status
                        report(progress)
                message = f"POST /api/pull: the download ended after the status {status!r}"
                failure = _TemporaryFailure(ErrorEvent(message))
            except _TemporaryFailure as error:
                failure = error
            if status == _PULLED:
                return
            attempt += 1
            if not completed or attempt > self.settings.max_retries:
                raise failure
            retry = Retry(attempt, backoff_s(attempt), failure.event)
            report(PullProgress("retrying", retry=retry))
            await self._sleep(retry.wait_s)

    async def _pull_reports(self, name: str) -> AsyncGenerator[PullProgress, None]:
        """The reports of one request.  Raises `ChatError`."""
        splitter = framing.new_codec("ndjson")
        fields: Fields = {**_model_fields(name), "stream": True}
        async with aclosing(self._body("POST", "/api/pull", fields)) as pieces:
            async for piece in pieces:
                for report in self._parsed_reports(splitter.feed(piece)):
                    yield report
        for report in self._parsed_reports(splitter.close()):
            yield report

    def _parsed_reports(self, lines: Sequence[bytes]) -> Iterator[PullProgress]:
        """The reports in lines; a line without JSON is skipped.  Raises `ChatError`."""
        for line in lines:
            fields = parse_object(line)
            if error := fields.get("error"):
                event = ErrorEvent(json_api.decode_failure(error).message)
                raise ChatError(f"POST /api/pull: {self._without_secrets(event)}")
            if fields:
                yield PullProgress(
                    get_text(fields, "status"),
                    get_integer(fields, "completed"),
                    get_integer(fields, "total"),
                    get_text(fields, "digest"),
                )

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
                                lost = ErrorEvent(f"{method} {path}: the connection was lost")
                                raise _TemporaryFailure(lost)
                            case _:
                                pass
        except UpstreamFailed as failure:
            event = self._connection_error(failure)
            is_running = event.code != "CONNECTION_FAILED"
            raise _TemporaryFailure(event, "" if is_running else _START_SERVER) from failure
        except (InvalidResponse, TimeoutError) as error:
            if not response.is_error:  # of an error, the status says enough
                message = f"{method} {path}: {self._timeout_error}"
                raise _TemporaryFailure(ErrorEvent(message)) from error
        if response.is_error:
            failed = response.failed_attempt()
            event = ErrorEvent(f"{method} {path}: {self._without_secrets(failed.error)}")
            if failed.is_temporary:
                raise _TemporaryFailure(event)
            is_unknown = fields is not None and failed.error.code == "404"
            raise (UnknownModel if is_unknown else ChatError)(str(event))


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


def _model_fields(name: str) -> Fields:
    """The name of a model in a request: document 002 and old servers have `name`, SDKs `model`."""
    return {"name": name, "model": name}


def _model_info(model: Fields) -> ModelInfo:
    return ModelInfo(
        get_text(model, "name"),
        get_integer(model, "size"),
        get_text(model, "modified_at"),
        model.get("details"),
        document=dict(model),
    )


def _properties(document: Fields) -> Mapping[str, str]:
    """The properties in a description of a model, without those that are empty."""
    details, information = get_object(document, "details"), get_object(document, "model_info")
    architecture = get_text(information, "general.architecture")
    capabilities = map(value_as_text, get_items(document, "capabilities"))
    properties = {
        **{name: get_text(details, key) for name, key in _DETAILS.items()},
        **{name: get_text(information, f"{architecture}.{key}") for name, key in _LENGTHS.items()},
        "capabilities": ", ".join(capabilities),
        **{name: get_text(document, key).strip() for name, key in _TEXTS.items()},
        "license": get_text(document, "license").strip().partition("\n")[0],
    }
    return {name: text for name, text in properties.items() if text}
