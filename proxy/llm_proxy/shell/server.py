"""Requests in, responses out: guards, routing, the mode, the wire, the journal."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import web

from llm_proxy.dialects import OPAQUE, Dialect
from llm_proxy.errors import (
    CassetteError,
    LlmProxyError,
    Miss,
    RequestRefused,
    UpstreamFailed,
)
from llm_proxy.exchange import Head, Headers, Request
from llm_proxy.modes import Mode
from llm_proxy.routing import Call, route
from llm_proxy.shell.control import Control
from llm_proxy.shell.guards import Guards
from llm_proxy.shell.journal import Entry, Journal
from llm_proxy.shell.perform import Lateness, perform
from llm_proxy.shell.wire import Wire

log: Final = logging.getLogger("llm_proxy")

_TARGET: Final = "".join(map(chr, range(0x21, 0x7F)))

MISS_STATUS: Final = 424
"""No SDK retries it, and no client has a habit on it."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a client may ask of us."""

    max_body: int = 64 * 1024 * 1024
    """Bytes of a request body."""
    body_timeout: float = 60.0
    """Seconds for a request body to arrive."""


class Server:
    """Answers every request with what the mode gives."""

    def __init__(self, mode: Mode, guards: Guards, limits: ServerLimits, journal: Journal) -> None:
        self._mode = mode
        self._guards = guards
        self._limits = limits
        self._journal = journal
        self._control = Control(mode, journal)
        self.active = 0
        """Requests that are being answered."""

    def application(self) -> web.Application:
        """The aiohttp application that hands every request to us."""
        app = web.Application(client_max_size=self._limits.max_body)
        app.router.add_route("*", "/{path:.*}", self._handle, expect_handler=self._expect)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        wire = Wire(request)
        entry = self._journal.open("", request.method, request.path)
        self.active += 1
        try:
            await self._serve(request, wire, entry)
        except ConnectionError:
            entry.ending = "client_gone"
        except asyncio.CancelledError:
            entry.ending = "client_gone"
            raise
        except Exception:  # the outermost frame: a fault of ours must not look like an answer
            log.exception("a fault in llm-proxy; please report it")
            await wire.abort("rst")
        finally:
            self.active -= 1
        return wire

    async def _serve(self, request: web.Request, wire: Wire, entry: Entry) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._guards.check(request)
            body = await self._body(request)
            if request.path.startswith("/_proxy/"):
                entry.origin = "control"
                await self._control.answer(request, wire)
                return
            call = route(_request(request, body), loop.time(), loop.time)
        except RequestRefused as refused:
            await self._refuse(wire, entry, refused)
            return
        lateness = Lateness()
        try:
            await self._answer(call, wire, entry, lateness)
        finally:
            entry.status = wire.head_status
            entry.bytes = wire.sent
            entry.ms = round(call.elapsed(), 3)
            entry.late_mean_ms = round(lateness.mean, 3)
            entry.late_worst_ms = round(lateness.worst, 3)

    async def _answer(self, call: Call, wire: Wire, entry: Entry, lateness: Lateness) -> None:
        try:
            answer = await self._mode.answer(call)
            entry.origin = answer.origin
            await perform(answer.source, call, wire, lateness)
            entry.ending = "cut" if wire.cut else "sent"
        except (Miss, CassetteError, UpstreamFailed) as error:
            self._remember(error, entry)
            await _fail(wire, call.dialect, error)
        finally:
            _describe(entry, call)

    async def _refuse(self, wire: Wire, entry: Entry, refused: RequestRefused) -> None:
        entry.origin, entry.note = "refused", str(refused)
        wire.close_afterwards()
        await _fail(wire, OPAQUE, refused)

    def _remember(self, error: LlmProxyError, entry: Entry) -> None:
        """Say in log and journal that a request was not answered."""
        entry.note = str(error)
        if isinstance(error, Miss):
            entry.origin = "miss"
            self._journal.misses.append(error.detail)
            log.warning("%s", error.detail)
        else:
            entry.origin = "error"
            log.warning("%s", error)

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise RequestRefused(
                413, f"the request body is larger than {self._limits.max_body} bytes (--max-body)"
            ) from None
        except TimeoutError:
            raise RequestRefused(
                408, f"the request body did not arrive in {self._limits.body_timeout:g} s"
            ) from None
        except web.RequestPayloadError as error:
            raise RequestRefused(400, f"the request body is malformed: {error}") from None

    async def _expect(self, request: web.Request) -> web.StreamResponse | None:
        """Answer `Expect: 100-continue` once the guards have let the request pass."""
        wire = Wire(request)
        try:
            self._guards.check(request)
            _check_expectation(request)
        except RequestRefused as refused:
            await self._refuse(wire, self._journal.open("", request.method, request.path), refused)
            return wire
        if request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return None


async def _fail(wire: Wire, dialect: Dialect, error: LlmProxyError) -> None:
    """Answer with an error of our own, in the dialect's shape."""
    status, kind = _as_http(error)
    body = dialect.error(status, kind, str(error))
    headers: list[tuple[str, str]] = [
        ("Content-Type", "application/json"),
        ("x-llm-proxy-error", kind),
    ]
    if status < 500:  # a failed upstream may be asked again, as it would be without us
        headers.append(("x-should-retry", "false"))
    wire.begin(Head(status, "llm-proxy", tuple(headers), "length", len(body)))
    wire.send(body)
    await wire.finish()


def _as_http(error: LlmProxyError) -> tuple[int, str]:
    """The status and the error type that an error is answered with."""
    match error:
        case Miss():
            return MISS_STATUS, "cassette_not_found"
        case CassetteError():
            return MISS_STATUS, "cassette_unusable"
        case UpstreamFailed(status=status):
            return status, "upstream_failed"
        case RequestRefused(status=status):
            return status, "request_refused"
        case _:
            return 500, "llm_proxy_error"


def _check_expectation(request: web.Request) -> None:
    if request.headers.get("Expect", "").lower() != "100-continue":
        raise RequestRefused(417, "the only expectation that is met is 100-continue")


def _request(request: web.Request, body: bytes) -> Request:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    )
    # Bytes that have no place in a request line are percent-encoded; all else stays as it came.
    target = quote(request.raw_path.encode("utf-8", "surrogateescape"), safe=_TARGET)
    path, _, query = target.partition("?")
    return Request(request.method, path, query, headers, body)


def _describe(entry: Entry, call: Call) -> None:
    entry.session = call.session
    entry.path = call.stored.path
    entry.provider = call.provider
    entry.dialect = call.dialect.name
    entry.model = call.dialect.model(call.request)
    entry.key = call.key[:16]
