"""Handles each request: guards, body, routing, the mode's response, faults, writing, journal."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from llm_proxy import misses
from llm_proxy.dialects import OPAQUE
from llm_proxy.display import format_percent
from llm_proxy.errors import (
    CassetteError,
    LateRequest,
    LlmProxyError,
    Miss,
    NotRepresentable,
    RequestRefused,
    RespondFunctionFailed,
    ScriptExhausted,
    UpstreamFailed,
    printable_excerpt,
)
from llm_proxy.exchange import Headers, Request, header_value, retry_after_ms
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import ModeResponse
from llm_proxy.modes.base import UNRECORDED
from llm_proxy.providers import has_dummy_key, missing_key_warning
from llm_proxy.redaction import (
    client_secrets,
    displayable_target,
    operator_secrets,
    redact_text,
    request_credential_spellings,
)
from llm_proxy.routing import RoutedRequest, is_control_path, route_request
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultedResponse, FaultMiddleware
from llm_proxy.shell.server.intake import (
    ConnectionFactory,
    RequestAdmission,
    decompress_request,
    read_body,
)
from llm_proxy.shell.server.journal import Journal, simulated_details
from llm_proxy.shell.server.response_writer import ResponseWriter, perform_actions, send_error
from llm_proxy.shell.server.sessions import SessionRegistry

log: Final = logging.getLogger("llm_proxy")

_VALID_TARGET: Final = re.compile("[\x21-\x7e]*")
_VISIBLE_ASCII: Final = "".join(map(chr, range(0x21, 0x7F)))
_MAX_LOGGED_CHARS: Final = 200
"""Maximum length in the log of a path, and of other text from outside."""


MISS_LABEL: Final[Mapping[str, str]] = MappingProxyType({"label": "miss"})
"""The `extra` of log records about misses: the log shows them under this label."""


class ProxyServer:
    """Responds to every request with the mode's response, and journals it."""

    def __init__(
        self,
        sessions: SessionRegistry,
        admission: RequestAdmission,
        journal: Journal,
        control_pages: ControlPages,
        fault_middleware: FaultMiddleware,
        key_variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`key_variables` are the API key variables by provider that a dummy key is reported by."""
        self._sessions = sessions
        self._key_variables = dict(key_variables)
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
        if is_control_path(request.path):
            entry = JournalEntry(0)  # it is not kept
        else:
            client_request = _to_request(request, b"")
            path = self._redacted_text(displayable_target(client_request.path), client_request)
            entry = self._journal.open_entry("", request.method, path)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # aiohttp runs every handler in a task
        self._request_tasks.add(task)
        if self._is_stopping:
            writer.disable_keep_alive()
        try:
            routed = await self._admit(request, writer, entry)
            if routed is not None:
                await self._respond(routed, writer, entry)
        except ConnectionError:
            entry.ending = entry.ending or "client_gone"
        except asyncio.CancelledError:
            # A cancellation by `cancel_responses` looks like one by a client that disconnects.
            entry.ending = entry.ending or ("cut" if self._is_stopping else "client_gone")
            raise
        except Exception:  # the outermost frame: an internal error must not look like a response
            log.exception("internal error in llm-proxy; please report it")
            entry.origin, entry.ending = "error", "cut"
            with suppress(ConnectionError):  # the client has gone
                await writer.abort("rst")
        finally:
            self._request_tasks.discard(task)
            entry.bytes = writer.sent_body_bytes
            entry.note = entry.note or writer.close_reason
            if (head := writer.written_head) is not None:
                entry.status = head.status
                entry.retry_after_ms = retry_after_ms(head.headers)
                should_retry = header_value(head.headers, "x-should-retry")
                entry.should_retry = (
                    None if should_retry is None else should_retry.lower() == "true"
                )
        return writer

    async def _admit(
        self, request: web.BaseRequest, writer: ResponseWriter, entry: JournalEntry
    ) -> RoutedRequest | None:
        """The routed request; None if it is refused, or for a control page, which responds."""
        admission, clock = self._admission, asyncio.get_running_loop().time
        try:
            admission.guards.check(request)
            body = await read_body(request, admission)
            if is_control_path(request.path):
                await self._control_pages.respond(request, body, writer)
                return None
            arrived_at_s = clock()
            client_request = _to_request(request, body)
            decompressed = await decompress_request(client_request, admission.max_body_bytes)
            routing_settings = admission.routing_settings
            default_session = self._sessions.default_session(routing_settings.default_session)
            if default_session != routing_settings.default_session:
                routing_settings = replace(routing_settings, default_session=default_session)
            routed = route_request(
                client_request, arrived_at_s, clock, decompressed, routing_settings
            )
            match_rules = self._sessions.mode_of(routed.session).match_rules
            if match_rules is not routed.match_rules:
                routed = replace(routed, match_rules=match_rules)
        except RequestRefused as refusal:
            entry.origin = "refused"
            self._journal.counts.refused += not is_control_path(request.path)
            entry.note = self._redacted_text(str(refusal), _to_request(request, b""))
            writer.disable_keep_alive()
            await send_error(writer, OPAQUE, refusal)
            return None
        tracker = admission.retry_tracker
        return routed if tracker is None else tracker.assign_logical_request(routed)

    async def _respond(
        self, routed: RoutedRequest, writer: ResponseWriter, entry: JournalEntry
    ) -> None:
        entry.session = routed.session
        running_session = self._sessions.running(routed.session)
        if running_session is not None:
            running_session.add_call(routed, entry, writer)
        redact = partial(self._redacted_text, request=routed.decompressed_request)
        faulted_response = FaultedResponse(self._fault_middleware, routed, entry, redact)
        try:
            try:
                if self._sessions.is_late(routed):
                    raise self._sessions.late_request(routed, _request_line(routed))
                source = await faulted_response.respond(partial(self._mode_response, routed, entry))
                await perform_actions(source, routed, writer)
                entry.ending = "cut" if writer.was_aborted else "sent"
            except LlmProxyError as caught:
                error = caught
                if isinstance(error, Miss):
                    late = self._sessions.late_request_of_miss(routed, _request_line(routed))
                    error = late or error
                self._journal_error(error, entry, routed)
                await send_error(writer, routed.dialect, error)
        except (ConnectionError, asyncio.CancelledError):
            if not (entry.ending or writer.written_head or self._is_stopping):
                self._journal.counts.clients_left += 1
                is_live_mode = self._sessions.mode_of(routed.session).upstream is not None
                log.info(
                    "%s: client disconnected after %.1f s, before %s responded",
                    _request_line(routed),
                    routed.elapsed_ms() / 1000,
                    "the upstream" if is_live_mode else "llm-proxy",
                )
            raise
        finally:
            entry.ms = round(routed.elapsed_ms(), 3)
            entry.timed_writes = writer.timed_write_count
            entry.late_mean_ms = round(writer.total_late_ms / max(entry.timed_writes, 1), 3)
            entry.late_worst_ms = round(writer.worst_late_ms, 3)
            if self._admission.retry_tracker is not None:
                head = writer.written_head
                is_success = head is not None and head.status < HTTPStatus.BAD_REQUEST
                self._admission.retry_tracker.end_attempt(
                    routed, succeeded=is_success and entry.ending == "sent"
                )
            faulted_response.finish()
            self._journal.counts.injected_faults += len(entry.injected_faults)
            if routed.is_large:  # it takes long: do not block other streams
                description = asyncio.create_task(
                    asyncio.to_thread(_describe_request, entry, routed)
                )
                try:
                    await asyncio.shield(description)
                finally:  # a client that has its response leaves, which cancels this task
                    await description
            else:
                _describe_request(entry, routed)

    async def _mode_response(self, routed: RoutedRequest, entry: JournalEntry) -> ModeResponse:
        """The mode's response, journaled; a simulated one, and a similar cassette's, is logged."""
        mode_response = await self._sessions.mode_of(routed.session).mode.respond(routed)
        entry.origin = mode_response.origin
        entry.pace = mode_response.pace
        entry.similarity = mode_response.similarity
        entry.replaced_values = mode_response.replaced_value_count
        counts = self._journal.counts
        if mode_response.is_simulated:
            counts.simulated += 1
            self._journal_simulated(mode_response, entry, routed)
            return mode_response
        if mode_response.is_live:
            counts.passed_through += mode_response.origin == UNRECORDED
            self._warn_of_dummy_key(routed)
        else:
            counts.replayed += 1
            self._journal.library_usage.mark_played(mode_response.origin, mode_response.recorded_at)
        if mode_response.similarity is not None:
            counts.answered_by_nearest += 1
            log.warning(
                "%s: no cassette matches; using the nearest one (similarity %s): %s",
                misses.request_summary(routed),
                format_percent(mode_response.similarity),
                printable_excerpt(mode_response.origin, _MAX_LOGGED_CHARS),
            )
        return mode_response

    def _journal_simulated(
        self, response: ModeResponse, entry: JournalEntry, routed: RoutedRequest
    ) -> None:
        scripted = response.scripted_response
        warnings: tuple[str, ...] = ()
        if scripted is not None:
            redacted = partial(self._redacted_text, request=routed.decompressed_request)
            scripted = replace(
                scripted,
                session_failure_reason=redacted(scripted.session_failure_reason),
                warnings=tuple(map(redacted, scripted.warnings)),
                journal_notes=tuple(map(redacted, scripted.journal_notes)),
            )
            entry.simulated = simulated_details(scripted, response.action_source)
            if scripted.session_failure_reason and not self._journal.add_mismatch(
                routed.session, scripted
            ):
                return  # it is in the log already
            warnings = scripted.warnings
        notes = () if scripted is None else scripted.journal_notes
        log.info("%s: %s", _request_line(routed), "; ".join((response.origin, *notes)))
        for warning in warnings:
            log.warning("%s: %s", _request_line(routed), warning)

    def _warn_of_dummy_key(self, routed: RoutedRequest) -> None:
        """Warn, once for each provider, that it gets the dummy API key of the command."""
        variable = self._key_variables.get(routed.provider)
        if variable is not None and has_dummy_key(routed.request):
            del self._key_variables[routed.provider]
            log.warning("%s", missing_key_warning(routed.provider, variable))

    def _redacted_text(self, text: str, request: Request) -> str:
        """`text`, which may quote the request, without the secrets that are known."""
        environment_secrets = self._admission.routing_settings.environment_secrets
        secrets = client_secrets(request_credential_spellings(request))
        rules = self._admission.routing_settings.match_rules.redaction
        return redact_text(text, operator_secrets(environment_secrets) | secrets, rules)

    def _journal_error(
        self, error: LlmProxyError, entry: JournalEntry, routed: RoutedRequest
    ) -> None:
        entry.note = self._redacted_text(str(error), routed.decompressed_request)
        if isinstance(error, Miss):
            entry.origin = "miss"
            if self._journal.add_miss(error.report):
                log.warning("%s", error.detail, extra=MISS_LABEL)
            return
        entry.origin = "refused" if isinstance(error, RequestRefused | LateRequest) else "error"
        self._journal.counts.refused += entry.origin == "refused"
        if isinstance(error, ScriptExhausted | RespondFunctionFailed | NotRepresentable):
            self._journal.counts.simulated += 1
            self._journal.add_failed_session(entry.session, entry.note)
        label: Mapping[str, str] = {}
        if isinstance(error, CassetteError):
            if not self._journal.add_miss(misses.unusable_cassette_report(routed, error)):
                return
            label = MISS_LABEL
        elif isinstance(error, UpstreamFailed) and not self._is_stopping:
            # A response that is cut off by a stop is no failure of the upstream.
            self._journal.counts.upstream_failed += 1
        # Only the operator's own code is logged with its traceback: others' may hold a secret.
        cause = error.__cause__ if isinstance(error, RespondFunctionFailed) else None
        log.warning("%s", entry.note, exc_info=cause, extra=label)


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


def _describe_request(entry: JournalEntry, routed: RoutedRequest) -> None:
    entry.path = routed.stored_request.path
    entry.provider = routed.provider
    entry.dialect = routed.dialect.name
    entry.model = routed.model
    entry.key = routed.key[:16]
    entry.streams = routed.dialect.streams(routed.decompressed_request)
    entry.retry_count = routed.sdk_retry_count


def _request_line(routed: RoutedRequest) -> str:
    path = printable_excerpt(routed.stored_request.path, _MAX_LOGGED_CHARS)
    return f"{routed.request.method} {path}"
