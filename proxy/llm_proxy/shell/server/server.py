"""Serves requests: guards, routing, mode, response, journal."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from llm_proxy import misses
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
    printable_excerpt,
)
from llm_proxy.exchange import Headers, Request
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import Mode, ModeResponse
from llm_proxy.routing import RoutedRequest, route_request
from llm_proxy.shell.server.action_performer import WriteLateness, perform_actions
from llm_proxy.shell.server.control import ControlPages, is_control_path
from llm_proxy.shell.server.error_responses import send_error
from llm_proxy.shell.server.fault_middleware import FaultedResponse, FaultMiddleware
from llm_proxy.shell.server.intake import ConnectionFactory, RequestAdmission, read_body
from llm_proxy.shell.server.journal import Journal, simulated_details
from llm_proxy.shell.server.journal_entry_fields import (
    MAX_LOGGED_CHARS,
    redact_scripted_response,
    redacted_path,
    redacted_text,
    set_request_fields,
    set_response_fields,
)
from llm_proxy.shell.server.request_decompression import decompress_request
from llm_proxy.shell.server.response_writer import ResponseWriter

log: Final = logging.getLogger("llm_proxy")

_LIVE_MODES: Final = ("record", "auto")
"""The modes that send requests to upstreams."""
_VALID_TARGET: Final = re.compile("[\x21-\x7e]*")
_VISIBLE_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))


class ProxyServer:
    """Responds to every request with the mode's response, and journals it."""

    def __init__(
        self,
        mode: Mode,
        admission: RequestAdmission,
        journal: Journal,
        control_pages: ControlPages,
        fault_middleware: FaultMiddleware,
    ) -> None:
        self._mode = mode
        self._fault_middleware = fault_middleware
        self._admission = admission
        self._journal = journal
        self._control_pages = control_pages
        self._request_tasks: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    @property
    def active_request_count(self) -> int:
        """The number of requests in progress."""
        return len(self._request_tasks)

    def connection_factory(self, **options: Any) -> ConnectionFactory:
        """The protocol factory whose requests this server handles; `options` are aiohttp's."""
        return ConnectionFactory(self._handle_request, handler_cancellation=True, **options)

    def disable_keep_alive(self) -> None:
        """Close each connection after its current response, or its next one if it is idle."""
        self._is_stopping = True

    def cancel_responses(self) -> None:
        """Cancel every response in progress."""
        for task in self._request_tasks:
            task.cancel()

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        writer = ResponseWriter(request)
        entry = self._open_journal_entry(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # aiohttp runs every handler in a task
        self._request_tasks.add(task)
        if self._is_stopping:
            writer.disable_keep_alive()
        try:
            await self._serve_request(request, writer, entry)
        except ConnectionError:
            entry.ending = entry.ending or "client_gone"
        except asyncio.CancelledError:
            # A cancellation by `cancel_responses` looks like one by a client that disconnects.
            entry.ending = entry.ending or ("cut" if self._is_stopping else "client_gone")
            raise
        except Exception:  # the outermost frame: an internal error must not look like a response
            log.exception("a fault in llm-proxy; please report it")
            entry.origin, entry.ending = "error", "cut"
            await _abort_with_reset(writer)
        finally:
            self._request_tasks.discard(task)
            entry.bytes = writer.sent_body_bytes
            entry.note = entry.note or writer.close_reason
            if writer.written_head is not None:
                set_response_fields(entry, writer.written_head)
        return writer

    async def _serve_request(
        self, request: web.BaseRequest, writer: ResponseWriter, entry: JournalEntry
    ) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._admission.guards.check(request)
            body = await read_body(request, self._admission.limits)
            if is_control_path(request.path):
                await self._control_pages.respond(request, body, writer)
                return
            arrived_at_s = loop.time()
            client_request = _to_request(request, body)
            decompressed = await decompress_request(
                client_request, self._admission.limits.max_body_bytes
            )
            routed = self._admission.retry_tracker.assign_logical_request(
                route_request(
                    client_request,
                    arrived_at_s,
                    loop.time,
                    decompressed,
                    self._admission.routing_settings,
                )
            )
        except RequestRefused as refusal:
            entry.origin = "refused"
            entry.note = redacted_text(str(refusal), _to_request(request, b""))
            writer.disable_keep_alive()
            await send_error(writer, OPAQUE, refusal)
            return
        lateness = WriteLateness()
        try:
            await self._respond(routed, writer, entry, lateness)
        except (ConnectionError, asyncio.CancelledError):
            if not entry.ending:
                self._log_client_left(routed, writer)
            raise
        finally:
            self._admission.retry_tracker.end_attempt(routed, succeeded=_succeeded(writer, entry))
            entry.ms = round(routed.elapsed_ms(), 3)
            entry.late_mean_ms = round(lateness.mean_ms, 3)
            entry.late_worst_ms = round(lateness.worst_ms, 3)
            entry.timed_writes = lateness.write_count

    def _open_journal_entry(self, request: web.BaseRequest) -> JournalEntry:
        """The journal entry of a request; for a control page, one that is not kept."""
        if is_control_path(request.path):
            return JournalEntry(0, "", request.method, request.path)
        return self._journal.open_entry(
            "", request.method, redacted_path(_to_request(request, b""))
        )

    async def _respond(
        self,
        routed: RoutedRequest,
        writer: ResponseWriter,
        entry: JournalEntry,
        lateness: WriteLateness,
    ) -> None:
        entry.session = routed.session
        faulted_response = FaultedResponse(self._fault_middleware, routed, entry)
        try:
            source = await faulted_response.get_actions(partial(self._mode_response, routed, entry))
            await perform_actions(source, routed, writer, lateness)
            entry.ending = "cut" if writer.was_aborted else "sent"
        except LlmProxyError as error:
            self._journal_error(error, entry, routed)
            await send_error(writer, routed.dialect, error)
        finally:
            faulted_response.finish()
            await set_request_fields(entry, routed)

    async def _mode_response(self, routed: RoutedRequest, entry: JournalEntry) -> ModeResponse:
        mode_response = await self._mode.respond(routed)
        entry.origin = mode_response.origin
        entry.pace = mode_response.pace
        entry.likeness = mode_response.similarity
        entry.renamed = mode_response.replaced_value_count
        self._count_response(mode_response, routed, entry)
        return mode_response

    def _count_response(
        self, mode_response: ModeResponse, routed: RoutedRequest, entry: JournalEntry
    ) -> None:
        """Count a response; log and journal the details of a simulated one."""
        if not mode_response.is_simulated:
            if not mode_response.is_live:
                self._journal.counts.replayed += 1
                self._journal.library_usage.mark_played(
                    mode_response.origin, mode_response.recorded_at
                )
            self._report_nearest_match(mode_response, routed)
            return
        self._journal.counts.simulated += 1
        request_line = (
            f"{routed.request.method} "
            f"{printable_excerpt(routed.stored_request.path, MAX_LOGGED_CHARS)}"
        )
        notes = (
            mode_response.scripted_response.journal_notes
            if mode_response.scripted_response is not None
            else ()
        )
        log.info("%s: %s", request_line, "; ".join((mode_response.origin, *notes)))
        if mode_response.scripted_response is not None:
            scripted_response = redact_scripted_response(mode_response.scripted_response, routed)
            entry.simulated = simulated_details(scripted_response, mode_response.action_source)
            for warning in scripted_response.warnings:
                log.warning("%s: %s", request_line, warning)
            if reason := scripted_response.session_failure_reason:
                self._journal.add_failed_session(routed.session, reason)

    def _report_nearest_match(self, mode_response: ModeResponse, routed: RoutedRequest) -> None:
        if mode_response.similarity is None:
            return
        self._journal.counts.answered_by_nearest += 1
        log.warning(
            "%s: no cassette is the same; the nearest answers, which is %s alike: %s",
            misses.request_summary(routed),
            format_percent(mode_response.similarity),
            printable_excerpt(mode_response.origin, MAX_LOGGED_CHARS),
        )

    def _journal_error(
        self, error: LlmProxyError, entry: JournalEntry, routed: RoutedRequest
    ) -> None:
        entry.note = redacted_text(str(error), routed.decompressed_request)
        if isinstance(error, Miss):
            entry.origin = "miss"
            self._journal.add_miss(error.report)
            log.warning("%s", error.detail)
            return
        entry.origin = "refused" if isinstance(error, RequestRefused) else "error"
        if isinstance(error, ScriptExhausted | RespondFunctionFailed | NotRepresentable):
            self._journal.counts.simulated += 1
            self._journal.add_failed_session(entry.session, entry.note)
        if isinstance(error, CassetteError):
            self._journal.add_miss(misses.unusable_cassette_report(routed, error))
        elif isinstance(error, UpstreamFailed) and not self._is_stopping:
            # A response that is cut off by a stop is no failure of the upstream.
            self._journal.counts.upstream_failed += 1
        # Only the operator's own code is logged with its traceback: others' may hold a secret.
        cause = error.__cause__ if isinstance(error, RespondFunctionFailed) else None
        log.warning("%s", entry.note, exc_info=cause)

    def _log_client_left(self, routed: RoutedRequest, writer: ResponseWriter) -> None:
        """Log and count a client that left before any response, unless the proxy is stopping."""
        if writer.is_started or self._is_stopping:
            return
        self._journal.counts.clients_left += 1
        log.info(
            "%s %s: the client left after %.1f s, before %s",
            routed.request.method,
            printable_excerpt(routed.stored_request.path, MAX_LOGGED_CHARS),
            routed.elapsed_ms() / 1000,
            "the upstream had answered" if self._mode.name in _LIVE_MODES else "it was answered",
        )


def _succeeded(writer: ResponseWriter, entry: JournalEntry) -> bool:
    is_success_status = (
        writer.written_head is not None and writer.written_head.status < HTTPStatus.BAD_REQUEST
    )
    return is_success_status and entry.ending == "sent"


async def _abort_with_reset(writer: ResponseWriter) -> None:
    try:
        await writer.abort("rst")
    except ConnectionError:
        return  # the client has gone


def _to_request(request: web.BaseRequest, body: bytes) -> Request:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    )
    target = request.raw_path
    if _VALID_TARGET.fullmatch(target) is None:
        # Characters that are invalid in a request line are percent-encoded; others are kept.
        target = quote(target.encode("utf-8", "surrogateescape"), safe=_VISIBLE_ASCII)
    path, _, query = target.partition("?")
    return Request(request.method, path, query, headers, body)
