"""Requests in, responses out: guards, routing, the mode, the wire, the journal."""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from llm_proxy import misses
from llm_proxy.actions import Source
from llm_proxy.dialects import OPAQUE
from llm_proxy.display import percent
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
from llm_proxy.exchange import Headers, Request
from llm_proxy.faults.request_faults import Injection
from llm_proxy.modes import Answer, Mode
from llm_proxy.routing import Call, route
from llm_proxy.shell.server.control import Control, is_ours
from llm_proxy.shell.server.entry_fields import (
    LONGEST_PATH,
    describe,
    log_faults,
    path_of,
    tell,
    text_of,
    without_secrets,
)
from llm_proxy.shell.server.error_responses import fail
from llm_proxy.shell.server.fault_middleware import Heard, Injecting
from llm_proxy.shell.server.intake import Admission, Listener, body_of
from llm_proxy.shell.server.journal import Entry, Journal, Simulated
from llm_proxy.shell.server.perform import Lateness, perform
from llm_proxy.shell.server.request_decompression import uncoded
from llm_proxy.shell.server.response_writer import Wire

log: Final = logging.getLogger("llm_proxy")

_LIVE: Final = ("record", "auto")
"""The modes that ask upstreams."""
_TARGET: Final = re.compile("[\x21-\x7e]*")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class Server:
    """Answers every request with what the mode gives."""

    def __init__(
        self,
        mode: Mode,
        admission: Admission,
        journal: Journal,
        control: Control,
        injecting: Injecting,
    ) -> None:
        self._mode = mode
        self._injecting = injecting
        self._admission = admission
        self._journal = journal
        self._control = control
        self._answering: set[asyncio.Task[Any]] = set()
        self._stopping = False

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
            entry.ending = entry.ending or "client_gone"
        except asyncio.CancelledError:
            # What we break off ourselves may cancel us as a client does that leaves.
            entry.ending = entry.ending or ("cut" if self._stopping else "client_gone")
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
                tell(entry, wire.head)
        return wire

    async def _serve(self, request: web.BaseRequest, wire: Wire, entry: Entry) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._admission.guards.check(request)
            body = await body_of(request, self._admission.limits)
            if is_ours(request.path):
                await self._control.answer(request, body, wire)
                return
            arrived = loop.time()
            asked = _request(request, body)
            plain = await uncoded(asked, self._admission.limits.max_body)
            call = self._admission.retries.joined(
                route(asked, arrived, loop.time, plain, self._admission.routing)
            )
        except RequestRefused as refused:
            entry.origin = "refused"
            entry.note = text_of(str(refused), _request(request, b""))
            wire.close_afterwards()
            await fail(wire, OPAQUE, refused)
            return
        lateness = Lateness()
        try:
            await self._answer(call, wire, entry, lateness)
        except (ConnectionError, asyncio.CancelledError):
            if not entry.ending:
                self._note_leaving(call, wire)
            raise
        finally:
            self._admission.retries.ended(call, well=_is_well(wire, entry))
            entry.ms = round(call.elapsed(), 3)
            entry.late_mean_ms = round(lateness.mean, 3)
            entry.late_worst_ms = round(lateness.worst, 3)
            entry.timed_writes = lateness.waits

    def _entry(self, request: web.BaseRequest) -> Entry:
        """The journal's entry of a request; one for our own pages is not kept."""
        if is_ours(request.path):
            return Entry(0, "", request.method, request.path)
        return self._journal.open("", request.method, path_of(_request(request, b"")))

    async def _answer(self, call: Call, wire: Wire, entry: Entry, lateness: Lateness) -> None:
        entry.session = call.session
        entry.at_ms = round(self._injecting.since(call.arrived), 3)
        injection: Injection | None = None
        heard = Heard(call)
        try:
            entry.continues = await self._injecting.continued(call)
            injection = await self._injecting.meet(call)
            instead = injection.instead() if injection is not None else None
            if instead is not None:
                source: Source = instead
                entry.origin = "fault"
            else:
                source, injection = await self._asked(call, entry, injection)
            if injection is not None:
                source = await self._injecting.spoil(source, injection, heard)
            await perform(source, call, wire, lateness)
            entry.ending = "cut" if wire.cut else "sent"
        except LlmProxyError as error:
            self._remember(error, entry, call)
            await fail(wire, call.dialect, error)
        finally:
            if injection is not None:
                entry.faults = injection.settle()
                log_faults(call, entry)
                self._injecting.watch(entry, call, heard)
                self._injecting.account(injection, heard)
            await describe(entry, call)

    async def _asked(
        self, call: Call, entry: Entry, injection: Injection | None
    ) -> tuple[Source, Injection | None]:
        """The mode's answer, and what strikes it, with what its scenario adds to that."""
        answer = await self._mode.answer(call)
        entry.origin = answer.origin
        entry.pace = answer.pace
        entry.likeness = answer.likeness
        entry.renamed = answer.renamed
        self._count(answer, call, entry)
        injection = self._injecting.script(call, answer, injection)
        instead = injection.instead() if injection is not None and not answer.live else None
        return answer.source if instead is None else instead, injection

    def _count(self, answer: Answer, call: Call, entry: Entry) -> None:
        """Count an answer, and say in log and journal what a simulated one follows."""
        if not answer.simulated:
            if not answer.live:
                self._journal.counts.replayed += 1
                self._journal.usage.play(answer.origin, answer.recorded)
            self._count_nearest(answer, call)
            return
        self._journal.counts.simulated += 1
        asked = f"{call.request.method} {printable(call.stored.path, LONGEST_PATH)}"
        notes = answer.direction.notes if answer.direction is not None else ()
        log.info("%s: %s", asked, "; ".join((answer.origin, *notes)))
        if answer.direction is not None:
            direction = without_secrets(answer.direction, call)
            entry.simulated = Simulated.of(direction, answer.source)
            for warning in direction.warnings:
                log.warning("%s: %s", asked, warning)
            if why := direction.unsuccessful:
                self._journal.fail(call.session, why)

    def _count_nearest(self, answer: Answer, call: Call) -> None:
        """Count an answer of a cassette that is not the same, and warn of it."""
        if answer.likeness is None:
            return
        self._journal.counts.nearest += 1
        log.warning(
            "%s: no cassette is the same; the nearest answers, which is %s alike: %s",
            misses.asked_for(call),
            percent(answer.likeness),
            printable(answer.origin, LONGEST_PATH),
        )

    def _remember(self, error: LlmProxyError, entry: Entry, call: Call) -> None:
        """Say in log and journal that a request was not answered."""
        entry.note = text_of(str(error), call.plain)
        if isinstance(error, Miss):
            entry.origin = "miss"
            self._journal.miss(error.missed)
            log.warning("%s", error.detail)
            return
        entry.origin = "refused" if isinstance(error, RequestRefused) else "error"
        if isinstance(error, ScriptExhausted | RespondFailed | CannotSay):
            self._journal.counts.simulated += 1
            self._journal.fail(entry.session, entry.note)
        if isinstance(error, CassetteError):
            self._journal.miss(misses.unusable(call, error))
        elif isinstance(error, UpstreamFailed) and not self._stopping:
            # What a stop breaks off is no failure of the upstream's.
            self._journal.counts.upstream_failed += 1
        # The operator's own code is shown with its traceback; others' may hold a secret.
        cause = error.__cause__ if isinstance(error, RespondFailed) else None
        log.warning("%s", entry.note, exc_info=cause)

    def _note_leaving(self, call: Call, wire: Wire) -> None:
        """Say that a client left before any answer; while we stop, it is not its own doing."""
        if wire.begun or self._stopping:
            return
        self._journal.counts.left += 1
        log.info(
            "%s %s: the client left after %.1f s, before %s",
            call.request.method,
            printable(call.stored.path, LONGEST_PATH),
            call.elapsed() / 1000,
            "the upstream had answered" if self._mode.name in _LIVE else "it was answered",
        )


def _is_well(wire: Wire, entry: Entry) -> bool:
    """Whether a client has what it asked for, and will not ask for it again."""
    told = wire.head is not None and wire.head.status < HTTPStatus.BAD_REQUEST
    return told and entry.ending == "sent"


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
