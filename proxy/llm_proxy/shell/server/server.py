"""Serves requests: guards, routing, mode, response, journal."""

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
from llm_proxy.display import format_percent
from llm_proxy.errors import (
    CassetteError,
    LlmProxyError,
    Miss,
    NotRepresentable,
    RequestRefused,
    RespondFunctionFailed,
    ScriptExhausted,
    UpstreamFailed,
    printable,
)
from llm_proxy.exchange import Headers, Request
from llm_proxy.faults.request_faults import RequestFaults
from llm_proxy.modes import Mode, ModeResponse
from llm_proxy.routing import RoutedRequest, route
from llm_proxy.shell.server.control import ControlPages, is_control_path
from llm_proxy.shell.server.entry_fields import (
    LONGEST_PATH,
    log_faults,
    redact_scripted_response,
    set_request_fields,
    set_response_fields,
    storable_path,
    storable_text,
)
from llm_proxy.shell.server.error_responses import send_error
from llm_proxy.shell.server.fault_middleware import FaultMiddleware, SentResponse
from llm_proxy.shell.server.intake import ConnectionListener, RequestAdmission, read_body
from llm_proxy.shell.server.journal import Journal, JournalEntry, SimulatedDetails
from llm_proxy.shell.server.perform import WriteLateness, perform
from llm_proxy.shell.server.request_decompression import decompress_request
from llm_proxy.shell.server.response_writer import ResponseWriter

log: Final = logging.getLogger("llm_proxy")

_LIVE: Final = ("record", "auto")
"""The modes that ask upstreams."""
_TARGET: Final = re.compile("[\x21-\x7e]*")
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class ProxyServer:
    """Answers every request with what the mode gives."""

    def __init__(
        self,
        mode: Mode,
        admission: RequestAdmission,
        journal: Journal,
        control: ControlPages,
        injecting: FaultMiddleware,
    ) -> None:
        self._mode = mode
        self._fault_middleware = injecting
        self._admission = admission
        self._journal = journal
        self._control = control
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping = False

    @property
    def active_count(self) -> int:
        """Requests that are being answered."""
        return len(self._tasks)

    def listener(self, **options: Any) -> ConnectionListener:
        """The protocol factory that hands every request to us; `options` are aiohttp's."""
        return ConnectionListener(self._handle_request, handler_cancellation=True, **options)

    def wind_down(self) -> None:
        """Close each connection after the answer that is under way, or next on it."""
        self._stopping = True

    def abort_all(self) -> None:
        """Break off every answer that is under way."""
        for task in self._tasks:
            task.cancel()

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        wire = ResponseWriter(request)
        entry = self._open_entry(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # aiohttp runs every handler in a task
        self._tasks.add(task)
        if self._stopping:
            wire.close_afterwards()
        try:
            await self._serve_request(request, wire, entry)
        except ConnectionError:
            entry.ending = entry.ending or "client_gone"
        except asyncio.CancelledError:
            # What we break off ourselves may cancel us as a client does that leaves.
            entry.ending = entry.ending or ("cut" if self._stopping else "client_gone")
            raise
        except Exception:  # the outermost frame: a fault of ours must not look like an answer
            log.exception("a fault in llm-proxy; please report it")
            entry.origin, entry.ending = "error", "cut"
            await _was_reset(wire)
        finally:
            self._tasks.discard(task)
            entry.bytes = wire.sent_bytes
            entry.note = entry.note or wire.closing_note
            if wire.head is not None:
                set_response_fields(entry, wire.head)
        return wire

    async def _serve_request(
        self, request: web.BaseRequest, wire: ResponseWriter, entry: JournalEntry
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._admission.guards.check(request)
            body = await read_body(request, self._admission.limits)
            if is_control_path(request.path):
                await self._control.respond(request, body, wire)
                return
            arrived = loop.time()
            sent = _to_request(request, body)
            plain = await decompress_request(sent, self._admission.limits.max_body)
            routed = self._admission.retries.join(
                route(sent, arrived, loop.time, plain, self._admission.routing)
            )
        except RequestRefused as refused:
            entry.origin = "refused"
            entry.note = storable_text(str(refused), _to_request(request, b""))
            wire.close_afterwards()
            await send_error(wire, OPAQUE, refused)
            return
        lateness = WriteLateness()
        try:
            await self._respond(routed, wire, entry, lateness)
        except (ConnectionError, asyncio.CancelledError):
            if not entry.ending:
                self._log_client_left(routed, wire)
            raise
        finally:
            self._admission.retries.finish(routed, succeeded=_succeeded(wire, entry))
            entry.ms = round(routed.elapsed_ms(), 3)
            entry.late_mean_ms = round(lateness.mean, 3)
            entry.late_worst_ms = round(lateness.worst, 3)
            entry.timed_writes = lateness.waits

    def _open_entry(self, request: web.BaseRequest) -> JournalEntry:
        """The journal's entry of a request; one for our own pages is not kept."""
        if is_control_path(request.path):
            return JournalEntry(0, "", request.method, request.path)
        return self._journal.open_entry(
            "", request.method, storable_path(_to_request(request, b""))
        )

    async def _respond(
        self,
        routed: RoutedRequest,
        wire: ResponseWriter,
        entry: JournalEntry,
        lateness: WriteLateness,
    ) -> None:
        entry.session = routed.session
        entry.at_ms = round(self._fault_middleware.ms_since_start(routed.arrived_at), 3)
        injection: RequestFaults | None = None
        sent_response = SentResponse(routed)
        try:
            entry.continues = await self._fault_middleware.continued_request(routed)
            injection = await self._fault_middleware.faults_for(routed)
            instead = injection.replacement_response() if injection is not None else None
            if instead is not None:
                source: Source = instead
                entry.origin = "fault"
            else:
                source, injection = await self._respond_with_faults(routed, entry, injection)
            if injection is not None:
                source = await self._fault_middleware.inject(source, injection, sent_response)
            await perform(source, routed, wire, lateness)
            entry.ending = "cut" if wire.was_aborted else "sent"
        except LlmProxyError as error:
            self._record_error(error, entry, routed)
            await send_error(wire, routed.dialect, error)
        finally:
            if injection is not None:
                entry.faults = injection.final_records()
                log_faults(routed, entry)
                self._fault_middleware.watch_response(entry, routed, sent_response)
                self._fault_middleware.report_to_meters(injection, sent_response)
            await set_request_fields(entry, routed)

    async def _respond_with_faults(
        self, routed: RoutedRequest, entry: JournalEntry, injection: RequestFaults | None
    ) -> tuple[Source, RequestFaults | None]:
        """The mode's answer, and what strikes it, with what its scenario adds to that."""
        answer = await self._mode.respond(routed)
        entry.origin = answer.origin
        entry.pace = answer.pace
        entry.likeness = answer.similarity
        entry.renamed = answer.renamed_count
        self._count_response(answer, routed, entry)
        injection = self._fault_middleware.add_scenario_faults(routed, answer, injection)
        instead = (
            injection.replacement_response()
            if injection is not None and not answer.is_live
            else None
        )
        return answer.source if instead is None else instead, injection

    def _count_response(
        self, answer: ModeResponse, routed: RoutedRequest, entry: JournalEntry
    ) -> None:
        """Count an answer, and say in log and journal what a simulated one follows."""
        if not answer.is_simulated:
            if not answer.is_live:
                self._journal.counts.replayed += 1
                self._journal.usage.record_played(answer.origin, answer.recorded_at)
            self._count_nearest_response(answer, routed)
            return
        self._journal.counts.simulated += 1
        text = f"{routed.request.method} {printable(routed.stored_request.path, LONGEST_PATH)}"
        notes = answer.scripted_response.notes if answer.scripted_response is not None else ()
        log.info("%s: %s", text, "; ".join((answer.origin, *notes)))
        if answer.scripted_response is not None:
            direction = redact_scripted_response(answer.scripted_response, routed)
            entry.simulated = SimulatedDetails.from_scripted(direction, answer.source)
            for warning in direction.warnings:
                log.warning("%s: %s", text, warning)
            if why := direction.unsuccessful:
                self._journal.add_failed_session(routed.session, why)

    def _count_nearest_response(self, answer: ModeResponse, routed: RoutedRequest) -> None:
        if answer.similarity is None:
            return
        self._journal.counts.nearest += 1
        log.warning(
            "%s: no cassette is the same; the nearest answers, which is %s alike: %s",
            misses.request_summary(routed),
            format_percent(answer.similarity),
            printable(answer.origin, LONGEST_PATH),
        )

    def _record_error(
        self, error: LlmProxyError, entry: JournalEntry, routed: RoutedRequest
    ) -> None:
        entry.note = storable_text(str(error), routed.decompressed)
        if isinstance(error, Miss):
            entry.origin = "miss"
            self._journal.add_miss(error.missed)
            log.warning("%s", error.detail)
            return
        entry.origin = "refused" if isinstance(error, RequestRefused) else "error"
        if isinstance(error, ScriptExhausted | RespondFunctionFailed | NotRepresentable):
            self._journal.counts.simulated += 1
            self._journal.add_failed_session(entry.session, entry.note)
        if isinstance(error, CassetteError):
            self._journal.add_miss(misses.miss_unusable(routed, error))
        elif isinstance(error, UpstreamFailed) and not self._stopping:
            # What a stop breaks off is no failure of the upstream's.
            self._journal.counts.upstream_failed += 1
        # The operator's own code is shown with its traceback; others' may hold a secret.
        cause = error.__cause__ if isinstance(error, RespondFunctionFailed) else None
        log.warning("%s", entry.note, exc_info=cause)

    def _log_client_left(self, routed: RoutedRequest, wire: ResponseWriter) -> None:
        """Say that a client left before any answer; while we stop, it is not its own doing."""
        if wire.is_started or self._stopping:
            return
        self._journal.counts.left += 1
        log.info(
            "%s %s: the client left after %.1f s, before %s",
            routed.request.method,
            printable(routed.stored_request.path, LONGEST_PATH),
            routed.elapsed_ms() / 1000,
            "the upstream had answered" if self._mode.name in _LIVE else "it was answered",
        )


def _succeeded(wire: ResponseWriter, entry: JournalEntry) -> bool:
    flag = wire.head is not None and wire.head.status < HTTPStatus.BAD_REQUEST
    return flag and entry.ending == "sent"


async def _was_reset(wire: ResponseWriter) -> None:
    try:
        await wire.abort("rst")
    except ConnectionError:
        return  # the client has gone of its own accord


def _to_request(request: web.BaseRequest, body: bytes) -> Request:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    )
    target = request.raw_path
    if _TARGET.fullmatch(target) is None:
        # What has no place in a request line is percent-encoded; all else stays as it came.
        target = quote(target.encode("utf-8", "surrogateescape"), safe=_PRINTABLE)
    path, _, query = target.partition("?")
    return Request(request.method, path, query, headers, body)
