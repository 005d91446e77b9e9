"""Requests in, responses out: guards, routing, the mode, the wire, the journal."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from llm_proxy import heads
from llm_proxy.dialects import OPAQUE
from llm_proxy.errors import (
    CannotSay,
    CassetteError,
    LlmProxyError,
    Miss,
    RequestRefused,
    RespondFailed,
    ScriptExhausted,
    UpstreamFailed,
    printable,
)
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.modes import Answer, Mode
from llm_proxy.redaction import Redactor
from llm_proxy.routing import Call, route
from llm_proxy.scenario.directions import Direction
from llm_proxy.shell.server.control import Control, is_ours
from llm_proxy.shell.server.failing import fail
from llm_proxy.shell.server.guards import Guards
from llm_proxy.shell.server.intake import Listener, ServerLimits, body_of
from llm_proxy.shell.server.journal import Entry, Journal, Simulated
from llm_proxy.shell.server.perform import Lateness, perform
from llm_proxy.shell.server.uncoding import uncoded
from llm_proxy.shell.server.wire import Wire

log: Final = logging.getLogger("llm_proxy")

_LARGE: Final = 16 * 1024
"""Bytes of a request whose key takes a while."""
_LONGEST_PATH: Final = 200
"""Characters of a path in the log."""
_LIVE: Final = ("record", "auto")
"""The modes that ask upstreams."""
_TARGET: Final = re.compile("[\x21-\x7e]*")
_RETRY_COUNT: Final = "x-stainless-retry-count"
"""By which the SDKs of OpenAI and Anthropic say how often they have asked before."""
_COUNT: Final = re.compile("[0-9]{1,4}")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class Server:
    """Answers every request with what the mode gives."""

    def __init__(
        self,
        mode: Mode,
        guards: Guards,
        limits: ServerLimits,
        journal: Journal,
        control: Control,
    ) -> None:
        self._mode = mode
        self._guards = guards
        self._limits = limits
        self._journal = journal
        self._control = control
        self._answering: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._began = asyncio.get_running_loop().time()

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return len(self._answering)

    def listener(self, **options: Any) -> Listener:
        """The protocol factory that hands every request to us; `options` are aiohttp's."""
        return Listener(self._handle, handler_cancellation=True, **options)

    def wind_down(self) -> None:
        """Close each connection after the answer that is under way, or next on it."""
        self._stopping = True

    def cut(self) -> None:
        """Break off every answer that is under way."""
        for task in self._answering:
            task.cancel()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        wire = Wire(request)
        entry = self._entry(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # aiohttp runs every handler in a task
        self._answering.add(task)
        if self._stopping:
            wire.close_afterwards()
        try:
            await self._serve(request, wire, entry)
        except ConnectionError:
            entry.ending = "client_gone"
        except asyncio.CancelledError:
            entry.ending = "cut" if self._stopping else "client_gone"
            raise
        except Exception:  # the outermost frame: a fault of ours must not look like an answer
            log.exception("a fault in llm-proxy; please report it")
            entry.origin, entry.ending = "error", "cut"
            await _reset(wire)
        finally:
            self._answering.discard(task)
            entry.bytes = wire.sent
            entry.note = entry.note or wire.note
            if wire.head is not None:
                _tell(entry, wire.head)
        return wire

    async def _serve(self, request: web.BaseRequest, wire: Wire, entry: Entry) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._guards.check(request)
            body = await body_of(request, self._limits)
            if is_ours(request.path):
                await self._control.answer(request, body, wire)
                return
            arrived = loop.time()
            asked = _request(request, body)
            call = route(asked, arrived, loop.time, await uncoded(asked, self._limits.max_body))
        except RequestRefused as refused:
            entry.origin, entry.note = "refused", str(refused)
            wire.close_afterwards()
            await fail(wire, OPAQUE, refused)
            return
        lateness = Lateness()
        try:
            await self._answer(call, wire, entry, lateness)
        except (ConnectionError, asyncio.CancelledError):
            self._note_leaving(call, wire)
            raise
        finally:
            entry.ms = round(call.elapsed(), 3)
            entry.late_mean_ms = round(lateness.mean, 3)
            entry.late_worst_ms = round(lateness.worst, 3)

    def _entry(self, request: web.BaseRequest) -> Entry:
        """The journal's entry of a request; one for our own pages is not kept."""
        if is_ours(request.path):
            return Entry(0, "", request.method, request.path)
        return self._journal.open("", request.method, request.path)

    async def _answer(self, call: Call, wire: Wire, entry: Entry, lateness: Lateness) -> None:
        entry.session = call.session
        entry.at_ms = round((call.arrived - self._began) * 1000, 3)
        try:
            answer = await self._mode.answer(call)
            entry.origin = answer.origin
            self._count(answer, call, entry)
            await perform(answer.source, call, wire, lateness)
            entry.ending = "cut" if wire.cut else "sent"
        except LlmProxyError as error:
            self._remember(error, entry)
            await fail(wire, call.dialect, error)
        finally:
            await _describe(entry, call)

    def _count(self, answer: Answer, call: Call, entry: Entry) -> None:
        """Count an answer, and say in log and journal what a simulated one follows."""
        if not answer.simulated:
            self._journal.counts.replayed += not answer.live
            return
        self._journal.counts.simulated += 1
        asked = f"{call.request.method} {printable(call.stored.path, _LONGEST_PATH)}"
        notes = answer.direction.notes if answer.direction is not None else ()
        log.info("%s: %s", asked, "; ".join((answer.origin, *notes)))
        if answer.direction is not None:
            direction = _without_secrets(answer.direction, call)
            entry.simulated = Simulated.of(direction, answer.source)
            for warning in direction.warnings:
                log.warning("%s: %s", asked, warning)
            if why := direction.unsuccessful:
                self._journal.fail(call.session, why)

    def _remember(self, error: LlmProxyError, entry: Entry) -> None:
        """Say in log and journal that a request was not answered."""
        entry.note = str(error)
        if isinstance(error, Miss):
            entry.origin = "miss"
            self._journal.miss(error.detail)
            log.warning("%s", error.detail)
            return
        entry.origin = "refused" if isinstance(error, RequestRefused) else "error"
        if isinstance(error, ScriptExhausted | RespondFailed | CannotSay):
            self._journal.counts.simulated += 1
            self._journal.fail(entry.session, str(error))
        if isinstance(error, CassetteError):
            self._journal.miss(str(error))
        elif isinstance(error, UpstreamFailed) and not self._stopping:
            # What a stop breaks off is no failure of the upstream's.
            self._journal.counts.upstream_failed += 1
        # The operator's own code is shown with its traceback; others' may hold a secret.
        cause = error.__cause__ if isinstance(error, RespondFailed) else None
        log.warning("%s", error, exc_info=cause)

    def _note_leaving(self, call: Call, wire: Wire) -> None:
        """Say that a client left before any answer; while we stop, it is not its own doing."""
        if wire.begun or self._stopping:
            return
        self._journal.counts.left += 1
        log.info(
            "%s %s: the client left after %.1f s, before %s",
            call.request.method,
            printable(call.stored.path, _LONGEST_PATH),
            call.elapsed() / 1000,
            "the upstream had answered" if self._mode.name in _LIVE else "it was answered",
        )


def _without_secrets(direction: Direction, call: Call) -> Direction:
    """A direction whose words may be stored: they quote the request."""
    redactor = Redactor(call.credentials)

    def harmless(text: str) -> str:
        return redactor.whole(text.encode("utf-8", "replace")).decode()

    return replace(
        direction,
        unsuccessful=harmless(direction.unsuccessful),
        warnings=tuple(map(harmless, direction.warnings)),
        notes=tuple(map(harmless, direction.notes)),
    )


async def _reset(wire: Wire) -> None:
    try:
        await wire.abort("rst")
    except ConnectionError:
        return  # the client has gone of its own accord


def _request(request: web.BaseRequest, body: bytes) -> Request:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    )
    target = request.raw_path
    if _TARGET.fullmatch(target) is None:
        # What has no place in a request line is percent-encoded; all else stays as it came.
        target = quote(target.encode("utf-8", "surrogateescape"), safe=_PRINTABLE)
    path, _, query = target.partition("?")
    return Request(request.method, path, query, headers, body)


def _tell(entry: Entry, head: Head) -> None:
    """What a head tells the client."""
    entry.status = head.status
    entry.retry_after_ms = heads.retry_after_ms(head.headers)
    should = header(head.headers, "x-should-retry")
    entry.should_retry = None if should is None else should.lower() == "true"


async def _describe(entry: Entry, call: Call) -> None:
    if len(call.request.body) > _LARGE:  # other streams need not wait for its key
        await asyncio.to_thread(lambda: call.key)
    entry.path = call.stored.path
    entry.provider = call.provider
    entry.dialect = call.dialect.name
    entry.model = call.model
    entry.key = call.key[:16]
    entry.streams = call.dialect.streams(call.plain)
    count = header(call.plain.headers, _RETRY_COUNT) or ""
    entry.retry_count = int(count) if _COUNT.fullmatch(count) else None
