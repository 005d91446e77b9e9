"""A provider that is reached over HTTP: a dialect, a base URL, and a key or AWS credentials.

Requests are encoded and responses decoded by the dialects of `llm_proxy`, and sent by its upstream
client, which notices every way in which a connection can fail.  A request is sent again, as
official SDKs do, after a connection error before the response, and after the statuses 408, 409,
429 and 5xx, unless `x-should-retry` forbids it; never after the first byte of a response.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

import aiohttp

from llm_chat.cancellation import wait_until_done
from llm_chat.events import ErrorEvent, ProviderEvent, Retry
from llm_chat.streamed_response import FailedAttempt, InvalidResponse, StreamedResponse
from llm_proxy import providers
from llm_proxy.actions import Abort, Begin, Burst, Send
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import request_dialects
from llm_proxy.errors import NotRepresentable, RequestRefused, UpstreamFailed, UsageError, name_hint
from llm_proxy.exchange import Request
from llm_proxy.redaction import environment_secret_spellings, operator_secrets, redact_text
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.running.settings import checked_http_url
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings, os_error_text
from llm_proxy.shell.upstream.signing import environment_region
from llm_proxy.version import __version__

_FIRST_WAIT_S: Final = 0.5
_MAX_WAIT_S: Final = 8.0
_QUIET_S: Final = 1.0
"""Seconds of silence after which a response that is complete counts as ended, though the server
has not ended its body."""

_MIN_SECRET_CHARS: Final = 8
_ERROR_BODY_LIMIT_S: Final = 5.0
"""Seconds to wait for the body of an error, which only explains the status."""
_IDLE_MARGIN_S: Final = 1.0
"""Seconds that the upstream client waits longer: its end of a silent response names no reason."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How a provider is reached."""

    base_url: str
    """As in the environment variable of its SDK: with `/v1` for those of OpenAI's family.

    With `signs_requests` it may be empty: requests go to AWS, in the configured region."""
    api_key: str = field(default="", repr=False)
    timeout_s: float = 600.0
    """Seconds without a head, and then without content, after which a response has failed."""
    max_retries: int = 2
    connect_timeout_s: float = 10.0
    signs_requests: bool = False
    """Whether requests for Bedrock are signed with the AWS credentials of this machine, if there is
    no API key.  Requires the extra `aws`."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a URL that is not plain http or https, and an invalid key."""
        try:
            if self.base_url or not self.signs_requests:
                checked_http_url("base_url", self.base_url)
        except UsageError as error:
            raise ValueError(str(error)) from None
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ValueError("api_key: expected printable ASCII characters")


class HttpProvider:
    """A provider over HTTP.  It keeps connections open until `aclose`."""

    ends_without_terminator = False
    """Whether the end of a body ends a response that lacks its terminator."""
    skips_malformed_messages = False
    """Whether messages of a stream that cannot be parsed are skipped; else they are errors."""

    def __init__(
        self,
        name: str,
        dialect: str,
        settings: HttpSettings,
        *,
        provider: str = "",
        replaces_v1: bool = False,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`dialect` is the name of the API: `openai-chat`, `anthropic`.

        `provider` is one of those in `llm_proxy.providers`: it decides the header of the key, and
        the fields in which its requests differ; by default it is the one that defined the API.
        With `replaces_v1`, the base URL replaces the `/v1` of the API's paths.  `sleep` waits
        between attempts, for this many seconds.  Raises `ValueError` for a dialect whose requests
        cannot be encoded.
        """
        self.name = name
        self.settings = settings
        if dialect not in (known := request_dialects()):
            raise ValueError(f"unknown dialect {dialect!r}; {name_hint(dialect, known)}")
        self._dialect = known[dialect]
        sample_request = self._dialect.sample_request("model", stream=True)
        self._wire_provider = provider or providers.provider_of_request(sample_request)
        self._replaces_v1 = replaces_v1
        self._sleep = sleep
        self._clients: dict[asyncio.AbstractEventLoop, asyncio.Task[LiveUpstream]] = {}
        """What opens a client, by event loop, to which connections belong."""

    async def aclose(self) -> None:
        """Close all connections of this event loop; a later request opens new ones."""
        if (opening := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            with suppress(UsageError):
                client = await opening
                await client.__aexit__()

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Request a response and yield its events: the last is a `ResponseEnd` or an `ErrorEvent`.

        Never raises for a failure of the provider.  Closing the generator closes the connection.
        """
        try:
            wire_request = self._with_headers(self._encode_request(request))
        except NotRepresentable as error:
            yield ErrorEvent(str(error), "NOT_REPRESENTABLE")
            return
        for attempt in count(1):
            async with aclosing(self._attempt(wire_request)) as events:
                async for event in events:
                    match event:
                        case FailedAttempt(is_temporary=True) if (
                            attempt <= self.settings.max_retries
                        ):
                            wait_s = event.retry_after_s or backoff_s(attempt)
                            yield Retry(attempt, wait_s, self._without_secrets(event.error))
                            break
                        case FailedAttempt():
                            yield self._without_secrets(event.error)
                            return
                        case ErrorEvent():
                            yield self._without_secrets(event)
                            return
                        case _:
                            yield event
                else:
                    return
            await self._sleep(wait_s)

    async def _attempt(
        self, request: Request
    ) -> AsyncGenerator[ProviderEvent | FailedAttempt, None]:
        """Send the request once; a `FailedAttempt` is the only event."""
        response = StreamedResponse(
            self._dialect, request, skips_malformed_messages=self.skips_malformed_messages
        )
        is_aborted = False
        try:
            async with aclosing(self._bursts(request, response)) as bursts:
                async for burst in bursts:
                    for action in burst:
                        match action:
                            case Begin(head):
                                response.begin(head)
                            case Send(data):
                                for event in response.feed(data):
                                    yield event
                            case Abort():
                                is_aborted = True
                            case _:
                                pass
            if response.is_error:
                yield response.failed_attempt()
                return
            for event in response.end(
                is_aborted=is_aborted, ends_without_terminator=self.ends_without_terminator
            ):
                yield event
        except UpstreamFailed as failure:
            yield FailedAttempt(self._connection_error(failure), is_temporary=True)
        except RequestRefused as error:
            yield FailedAttempt(ErrorEvent(str(error)))
        except UsageError as error:
            yield FailedAttempt(ErrorEvent(str(error), "NOT_CONFIGURED"))
        except (InvalidResponse, TimeoutError) as error:
            if response.is_error:  # the status says more than a broken body
                yield response.failed_attempt()
            elif isinstance(error, InvalidResponse):
                yield ErrorEvent("the response is invalid", "INVALID_RESPONSE", str(error))
            elif response.has_begun:
                yield ErrorEvent(f"no content for {self.settings.timeout_s:g} s", "TIMEOUT")
            else:
                yield FailedAttempt(self._timeout_error, is_temporary=True)

    async def _bursts(
        self, request: Request, response: StreamedResponse
    ) -> AsyncGenerator[Burst, None]:
        """The bursts of the response, until its end.

        A response that is complete may be left open by the server.  Raises `TimeoutError` when
        there has been no head or no content for too long, though the connection is kept alive.
        """
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + self.settings.timeout_s
        async with aclosing(self._stream(request)) as source:
            while True:
                if clock() >= deadline_s:
                    if response.is_complete:
                        return
                    raise TimeoutError
                step = asyncio.ensure_future(anext(source))
                try:
                    while not step.done():
                        remaining_s = max(0.0, deadline_s - clock())
                        await asyncio.wait([step], timeout=min(_QUIET_S, remaining_s))
                        if not step.done() and response.is_complete:
                            return
                        if not step.done() and clock() >= deadline_s:
                            raise TimeoutError
                finally:
                    step.cancel()
                    await wait_until_done(step)
                try:
                    burst = step.result()
                except StopAsyncIteration:
                    return
                progress = response.progress
                yield burst
                if response.progress > progress:
                    limit_s = self.settings.timeout_s
                    deadline_s = clock() + (
                        min(limit_s, _ERROR_BODY_LIMIT_S) if response.is_error else limit_s
                    )

    async def _stream(self, request: Request) -> AsyncGenerator[Burst, None]:
        """Send a request and yield the actions of its response.

        Raises `UpstreamFailed` if there is no response, and `UsageError` as `_client` does.
        """
        loop = asyncio.get_running_loop()
        client = await self._client(loop)
        routed = RoutedRequest(
            request,
            request,
            session="",
            provider=self._wire_provider,
            dialect=self._dialect,
            arrived_at_s=loop.time(),
            clock=loop.time,
        )
        async with aclosing(client.stream(routed, None)) as bursts:
            async for burst in bursts:
                yield burst

    async def _client(self, loop: asyncio.AbstractEventLoop) -> LiveUpstream:
        """The client of this event loop; concurrent first requests wait for the same.

        Raises `UsageError` if requests are to be signed, and cannot be: the next request tries
        again.
        """
        for other in [each for each in [*self._clients] if each.is_closed()]:
            self._clients.pop(other, None)
        if (opening := self._clients.get(loop)) is None:
            opening = self._clients[loop] = loop.create_task(self._open_client())
        try:
            return await asyncio.shield(opening)  # another request may wait for it
        except UsageError:
            if self._clients.get(loop) is opening:
                del self._clients[loop]
            raise

    async def _open_client(self) -> LiveUpstream:
        base_url, key = self.settings.base_url, self.settings.api_key
        if key and not base_url:
            sample = self._dialect.sample_request("model", stream=True)
            base_url = providers.signed_url(sample.path, environment_region())
        settings = UpstreamSettings(
            {self._wire_provider: base_url} if base_url else {},
            frozenset((self._wire_provider,)) if self._replaces_v1 else frozenset(),
            idle_timeout_s=self.settings.timeout_s + _IDLE_MARGIN_S,
            connect_timeout_s=self.settings.connect_timeout_s,
            signs_requests=self.settings.signs_requests and not key,
        )
        return await LiveUpstream(settings).__aenter__()

    def _encode_request(self, conversation: Conversation) -> Request:
        return self._dialect.encode_request(conversation, provider=self._wire_provider)

    def _with_headers(self, request: Request) -> Request:
        """The request with the user agent and the key."""
        key = self.settings.api_key
        headers = [*request.headers, ("user-agent", f"llm-chat/{__version__}")]
        if key:
            headers.append(providers.credential_header(self._wire_provider, key))
        return replace(request, headers=tuple(headers))

    def _without_secrets(self, error: ErrorEvent) -> ErrorEvent:
        """The error without the key and other credentials, which some servers repeat."""
        key = self.settings.api_key
        is_secret = len(key) >= _MIN_SECRET_CHARS  # else a word of the message, perhaps
        secrets = operator_secrets(environment_secret_spellings(os.environ))
        message, code, detail = (
            redact_text(text.replace(key, "***") if is_secret else text, secrets)
            for text in (error.message, error.code, error.detail)
        )
        return replace(error, message=message, code=code, detail=detail)

    def _connection_error(self, failure: UpstreamFailed) -> ErrorEvent:
        """The error for a request to which no response came."""
        base_url = self.settings.base_url
        server = f"{self.server_label} at {base_url}" if base_url else self.server_label
        connect_error = f"Failed to connect to {server}"
        match failure.__cause__:
            case aiohttp.ClientConnectorError(os_error=error):
                return ErrorEvent(connect_error, "CONNECTION_FAILED", os_error_text(error))
            case aiohttp.ServerTimeoutError():
                limit = f"no connection within {self.settings.connect_timeout_s:g} s"
                return ErrorEvent(connect_error, "CONNECTION_FAILED", limit)
            case TimeoutError():
                return self._timeout_error
            case _:
                detail = str(failure).partition("; ")[0]
                return ErrorEvent(f"No response from {server}", "CONNECTION_LOST", detail)

    @property
    def _timeout_error(self) -> ErrorEvent:
        return ErrorEvent(f"no response within {self.settings.timeout_s:g} s", "TIMEOUT")

    @property
    def supports_stop_sequences(self) -> bool:
        """Whether its requests can have stop sequences."""
        conversation = Conversation((), model="model", stop_sequences=("stop",))
        try:
            self._encode_request(conversation)
        except NotRepresentable:
            return False
        return True

    @property
    def missing_key_variable(self) -> str:
        """The variable to set where the public address of a provider would refuse requests.

        Empty if there is a key, or if the server may need none.
        """
        name, base_url = self._wire_provider, self.settings.base_url
        configured_urls = {} if base_url == providers.upstream_url(name, {}) else {name: base_url}
        lacks_key = not self.settings.api_key and providers.needs_api_key(name, configured_urls)
        return providers.key_env_vars(name)[0] if lacks_key else ""

    @property
    def server_label(self) -> str:
        """What error messages call the server."""
        return self.name


def backoff_s(attempt: int) -> float:
    """Seconds to wait after this attempt: doubled each time, and up to a quarter less by chance."""
    longest_s = min(_FIRST_WAIT_S * 2.0 ** (attempt - 1), _MAX_WAIT_S)
    return longest_s * random.uniform(0.75, 1.0)  # noqa: S311 # only spreads the load
