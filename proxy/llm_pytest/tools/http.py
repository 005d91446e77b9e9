"""The tools `http_*`: real requests, to allowed hosts only.

Each request has a connection of its own: a server that closes an idle connection never fails one.
Redirects are followed here, because each hop must lead to an allowed host.

`http_get` repeats its request itself (`until_path`).  A replayed model answers at once: if the
model repeated the request, the same call would come earlier than while recording, and get a
response that the model has never seen.

Source: RFC 9110 section 15.4 (redirects); RFC 6265 (cookies); RFC 7617 (Basic).
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urljoin

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from msgspec import UNSET, Meta, UnsetType
from yarl import URL

from llm_proxy.errors import printable_excerpt
from llm_proxy.turns import Json
from llm_pytest.plugin_base import LLMPlugin, ToolError
from llm_pytest.secrets import Secrets
from llm_pytest.tools.json_values import are_equal, find_value
from llm_pytest.tools.responses import DOCUMENT_PATHS, HttpResponse, ResponseLog
from llm_pytest.tools.targets import AllowedHosts, Target, is_local_name, parse_target

MAX_BODY_BYTES: Final = 10_000_000
MAX_REDIRECTS: Final = 10
DEFAULT_TIMEOUT_S: Final = 10.0
MAX_TIMEOUT_S: Final = 60.0
_FIRST_DELAY_S: Final = 0.2
_MAX_DELAY_S: Final = 1.0
_REDIRECT_STATUSES: Final = frozenset((301, 302, 303, 307, 308))
_ORIGIN_HEADERS: Final = frozenset(("authorization", "cookie", "proxy-authorization"))
"""Headers that are not sent to another origin."""
_BODY_HEADERS: Final = frozenset(
    ("content-encoding", "content-language", "content-location", "content-type")
)
_FRAMING_HEADERS: Final = frozenset(
    ("connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade")
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_MAX_SHOWN_CHARS: Final = 100
_MAX_HEADER_CHARS: Final = 10_000
_LOOPBACK: Final = (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6))

_Condition = Callable[[HttpResponse], bool]
"""Whether a response is the one to wait for."""
_Fields = dict[str, Any]
"""Texts, numbers, booleans and lists of them by name: a schema of that would be long."""
_Url = Annotated[str, Meta(description="An absolute URL: http://HOST:PORT/PATH.")]
_Headers = Annotated[dict[str, str] | None, Meta(description="Request headers.")]
_Query = Annotated[
    _Fields | None,
    Meta(description="Query parameters, added to the URL; a list repeats its parameter."),
]
_JsonBody = Annotated[Any, Meta(description="The body as a JSON value.")]
_Form = Annotated[
    _Fields | None,
    Meta(description="The body as form fields, URL-encoded."),
]
_Body = Annotated[
    str | None, Meta(description="The body as text; set the header content-type with it.")
]
_Timeout = Annotated[
    float, Meta(gt=0, le=MAX_TIMEOUT_S, description="Seconds to wait for the whole response.")
]
_TimeoutOfAll = Annotated[
    float,
    Meta(
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Seconds to wait for the whole response; with until_path, for the change.",
    ),
]
_UntilPath = Annotated[
    str,
    Meta(
        description="To wait for a change: the request is repeated until the value at this "
        "JSONPath into the response, such as $.json.state, equals until."
    ),
]
_Until = Annotated[
    Any, Meta(description="The JSON value to wait for. Default: any value except null.")
]
_FollowRedirects = Annotated[
    bool, Meta(description="Set to false to get the redirect response itself.")
]
_BasicAuth = Annotated[
    str, Meta(description="USER:PASSWORD for HTTP Basic authentication; the tool encodes it.")
]


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    target: Target
    headers: Mapping[str, str]
    body: bytes | None = None

    def redirected(self, status: int, location: str) -> _Request:
        """The request that follows a redirect.  Raises `ToolError` for an invalid location."""
        try:
            target = parse_target(urljoin(self.target.url, location))
        except ValueError:  # in the brackets of an IPv6 address
            raise ToolError(f"{location!a} is not a valid URL") from None
        dropped: frozenset[str] = frozenset()
        if not target.has_origin_of(self.target):
            dropped |= _ORIGIN_HEADERS
        method, body = self.method, self.body
        if status == 303 or (status in {301, 302} and method == "POST"):
            method, body = "GET", None
            dropped |= _BODY_HEADERS
        kept = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        return _Request(method, target, kept, body)


def _tool_with_body(method: str) -> Callable[..., Coroutine[Any, Any, dict[str, Json]]]:
    """The method of `HttpTools` that sends a request with a body."""

    async def send(
        self: HttpTools,
        url: _Url,
        headers: _Headers = None,
        query: _Query = None,
        json: _JsonBody = UNSET,
        form: _Form = None,
        body: _Body = None,
        timeout: _Timeout = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 # an argument of the model
        follow_redirects: _FollowRedirects = True,
        basic_auth: _BasicAuth = "",
    ) -> dict[str, Json]:
        content = (json, form, body)
        return await self._send(
            lambda: _new_request(method, url, headers, query, basic_auth, content),
            timeout,
            follow_redirects,
        )

    send.__doc__ = (
        f"Send a {method} request, with at most one of json, form and body. "
        "The result is like that of http_get."
    )
    return send


class HttpTools(LLMPlugin):
    """Sends HTTP requests.  All requests of a test share their cookies."""

    name = "http"

    def __init__(self, allowed_hosts: Sequence[str] = (), secrets: Secrets | None = None) -> None:
        """`allowed_hosts` are those besides this machine: `HOST`, `HOST:PORT`, `*.HOST`.

        `secrets` learns those of responses.  Raises `ValueError` for an invalid host.
        """
        self.responses = ResponseLog()
        self._secrets = secrets or Secrets()
        self._allowed_hosts = AllowedHosts(allowed_hosts)
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self,
        url: _Url,
        headers: _Headers = None,
        query: _Query = None,
        timeout: _TimeoutOfAll = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 # an argument of the model
        follow_redirects: _FollowRedirects = True,
        basic_auth: _BasicAuth = "",
        until_path: _UntilPath = "",
        until: _Until = UNSET,
    ) -> dict[str, Json]:
        """Send a GET request.

        The result has the id of the response, its status, some of its headers, and its body as
        json, as text, or as size and SHA-256. The assert_* tools check the latest response.
        """
        return await self._send(
            lambda: _new_request("GET", url, headers, query, basic_auth),
            timeout,
            follow_redirects,
            lambda: _new_condition(until_path, until),
        )

    post = _tool_with_body("POST")
    put = _tool_with_body("PUT")
    patch = _tool_with_body("PATCH")
    delete = _tool_with_body("DELETE")

    async def cleanup(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self,
        build_request: Callable[[], _Request],
        time_limit_s: float,
        follow_redirects: bool,
        build_condition: Callable[[], _Condition | None] = lambda: None,
    ) -> dict[str, Json]:
        """Send a request, add its response to `responses`, and return what the model gets.

        A request that cannot be built takes an id too, so that the latest response is never that
        of another request.
        """
        response_id = self.responses.begin()
        try:
            condition = build_condition()
            response = await self._last_response(
                response_id, build_request(), time_limit_s, follow_redirects, condition
            )
        except UnicodeEncodeError:
            reason = "the request has a character that UTF-8 cannot represent"
            self.responses.end(response_id, reason)
            raise ToolError(reason) from None
        except ToolError as error:
            self.responses.end(response_id, str(error))
            raise
        self.responses.end(response_id, response)
        summary = response.summary(self._secrets)
        return summary if condition is None else summary | {"until": condition(response)}

    async def _last_response(
        self,
        response_id: str,
        request: _Request,
        time_limit_s: float,
        follow_redirects: bool,
        condition: _Condition | None,
    ) -> HttpResponse:
        """The response of a request, which is repeated until `condition` is true.

        At the end of the time, the last complete response.  Raises `ToolError`.
        """
        last: HttpResponse | ToolError = ToolError(
            f"no complete response from {request.target.place} within {time_limit_s:g} s"
        )
        delay_s = _FIRST_DELAY_S
        with suppress(TimeoutError):
            async with asyncio.timeout(time_limit_s):
                while True:
                    try:
                        last = await self._exchange(response_id, request, follow_redirects)
                    except _ConnectionFailed as error:  # the service may be starting
                        last = error
                    if condition is None or (isinstance(last, HttpResponse) and condition(last)):
                        break
                    await asyncio.sleep(delay_s)
                    delay_s = min(delay_s * 1.5, _MAX_DELAY_S)
        if isinstance(last, ToolError):
            raise last
        return last

    async def _exchange(
        self, response_id: str, request: _Request, follow_redirects: bool
    ) -> HttpResponse:
        """The last response of a request and its redirects.  Raises `ToolError`."""
        begin = time.monotonic()
        hops = 0
        self._allowed_hosts.check(request.target)
        while True:
            received = await self._receive(request, follow_redirects)
            if not isinstance(received, _Redirect):
                break
            if hops == MAX_REDIRECTS:
                raise ToolError(f"more than {MAX_REDIRECTS} redirects")
            hops += 1
            request = self._redirected(request, received)
        return HttpResponse(
            response_id,
            received.status,
            request.target.url,
            received.headers,
            received.body,
            elapsed_ms=(time.monotonic() - begin) * 1000,
            is_redirected=hops > 0,
        )

    def _redirected(self, request: _Request, redirect: _Redirect) -> _Request:
        """The request that follows a redirect.  Raises `ToolError`."""
        try:
            redirected = request.redirected(redirect.status, redirect.location)
            self._allowed_hosts.check(redirected.target)
        except ToolError as error:
            place = request.target.place
            raise ToolError(f"cannot follow the redirect of {place}: {error}") from None
        return redirected

    async def _receive(self, request: _Request, follow_redirects: bool) -> _Received | _Redirect:
        """The response of one request, without the body of a redirect that is followed."""
        target = request.target
        url = URL(target.url, encoded=True)  # sent as it is: `%2F` is not `/`
        if (url.host, url.port) != (target.host, target.port):
            raise ToolError(f"{target.url} is not a valid URL; use http://HOST:PORT/PATH")
        try:
            async with self._opened_session().request(
                request.method, url, headers=request.headers, data=request.body,
                allow_redirects=False,
            ) as response:  # fmt: skip
                location = response.headers.get("location")
                if follow_redirects and location and response.status in _REDIRECT_STATUSES:
                    return _Redirect(response.status, location)
                body = await _read_body(response, target)
                headers = tuple(
                    (name.lower(), printable_excerpt(value, _MAX_HEADER_CHARS))
                    for name, value in response.headers.items()
                )
                return _Received(response.status, headers, body)
        except aiohttp.ClientError as error:
            raise _ConnectionFailed(_failure_text(error, target)) from None

    def _opened_session(self) -> aiohttp.ClientSession:
        """The session of the test; it belongs to the event loop that runs."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=_Resolver(), force_close=True),
                cookie_jar=aiohttp.CookieJar(unsafe=True),  # of addresses too
                timeout=aiohttp.ClientTimeout(),
                headers={"User-Agent": "llm-pytest", "Accept-Encoding": "gzip, deflate"},
            )
        return self._session


class _ConnectionFailed(ToolError):
    """There is no complete response, but a repeated request may have one."""


@dataclass(frozen=True, slots=True)
class _Received:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Redirect:
    status: int
    location: str


class _Resolver(AbstractResolver):
    """Resolves names, without a look-up of those of this machine."""

    def __init__(self) -> None:
        self._names = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if not is_local_name(host):
            return await self._names.resolve(host, port, family)
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=address_family, proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address, address_family in _LOOPBACK
            if family in {socket.AF_UNSPEC, address_family}
        ]  # fmt: skip

    async def close(self) -> None:
        await self._names.close()


async def _read_body(response: aiohttp.ClientResponse, target: Target) -> bytes:
    """The body, up to `MAX_BODY_BYTES`."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ToolError(
                f"the response of {target.place} is too large; the limit is "
                f"{MAX_BODY_BYTES // 1_000_000} MB"
            )
    return bytes(body)


def _failure_text(error: aiohttp.ClientError, target: Target) -> str:
    """Why there is no response, in words that no version of Python or aiohttp changes."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"there is no host with the name {target.host}"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {target.place} is not valid"
        case aiohttp.ClientSSLError():
            return f"{target.place} does not accept TLS connections"
        case aiohttp.ClientConnectorError():
            return f"connection refused by {target.place}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return f"{target.place} closed the connection before the response"
        case _:
            return f"{target.place} sent an incomplete or invalid HTTP response"


def _new_condition(path: str, expected: Json | UnsetType) -> _Condition | None:
    """The condition of `until_path` and `until`, if there is one.  Raises `ToolError`."""
    if not path:
        if expected is not UNSET:
            raise ToolError("set until only with until_path")
        return None
    find_value(path, {})  # an invalid path is an error before the first request
    if not path.startswith(DOCUMENT_PATHS):
        raise ToolError(f"until_path starts with one of {', '.join(DOCUMENT_PATHS)}")

    def is_reached(response: HttpResponse) -> bool:
        value = find_value(path, response.document())
        if value is UNSET:
            return False
        return value is not None if expected is UNSET else are_equal(value, expected)

    return is_reached


def _new_request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None,
    query: _Fields | None,
    basic_auth: str,
    content: tuple[Any, _Fields | None, str | None] = (UNSET, None, None),
) -> _Request:
    """The request of a call.  Raises `ToolError` for arguments that cannot be sent."""
    target = parse_target(url)
    if query:
        separator = "&" if "?" in target.rest else "?"
        target = replace(target, rest=target.rest + separator + _url_encoded(query))
    json, form, text = content
    if (json is not UNSET) + (form is not None) + (text is not None) > 1:
        raise ToolError("a request has one body; set only one of json, form and body")
    added: dict[str, str] = {}
    body: bytes | None = None
    if json is not UNSET:
        body, added["Content-Type"] = msgspec.json.encode(json), "application/json"
    elif form is not None:
        body = _url_encoded(form).encode()
        added["Content-Type"] = "application/x-www-form-urlencoded"
    elif text is not None:
        body, added["Content-Type"] = text.encode(), "text/plain; charset=utf-8"
    if basic_auth:
        added["Authorization"] = f"Basic {base64.b64encode(basic_auth.encode()).decode()}"
    given = dict(headers or {})
    for name, value in given.items():
        _check_header(name, value)
    names = {name.lower() for name in given}
    if basic_auth and "authorization" in names:
        raise ToolError("set either basic_auth or the header authorization")
    added = {name: value for name, value in added.items() if name.lower() not in names}
    return _Request(method, target, added | given, body)


def _check_header(name: str, value: str) -> None:
    """Raises `ToolError` for a header that cannot be sent, or that the tool sets itself."""
    shown = printable_excerpt(name, _MAX_SHOWN_CHARS)
    if not _HEADER_NAME.fullmatch(name):
        raise ToolError(f"{shown!r} is not a valid header name")
    if name.lower() in _FRAMING_HEADERS:
        raise ToolError(f"the header {shown} cannot be set; the tool sets it itself")
    if not _HEADER_VALUE.fullmatch(value):
        raise ToolError(f"the value of the header {shown} has characters that cannot be sent")


def _url_encoded(fields: _Fields) -> str:
    """Fields as a query or form; booleans as in JSON.  Raises `ToolError` for another value."""
    pairs = [
        (name, item)
        for name, value in fields.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    for name, item in pairs:
        if not isinstance(item, str | int | float):
            shown = printable_excerpt(name, _MAX_SHOWN_CHARS)
            raise ToolError(f"{shown}: expected a text, a number, a boolean or a list of them")
    return urlencode(
        [(name, str(item).lower() if isinstance(item, bool) else item) for name, item in pairs]
    )
