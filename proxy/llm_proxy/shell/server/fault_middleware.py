"""Injects faults into responses: complete ones as values, live ones as they arrive.

mode ─▶ source ─▶ rules ─▶ perform
│
└─ a live response that a rule has ended is still read to its end, for the recording
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

from llm_proxy.actions import Abort, ActionSource, Begin, Burst, Send
from llm_proxy.errors import LlmProxyError, RequestRefused, UsageError, printable_excerpt
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.engine import FaultEngine, RequestFaults
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.rewriting import RewriterChain, RewritingTooExpensive
from llm_proxy.faults.rule import FaultRule, Trigger
from llm_proxy.faults.spoiled_responses import (
    SpoiledResponses,
    decode_sent_response,
    is_spoiled_by,
)
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import FAULT_HEADER, LARGE_BODY_BYTES, RoutedRequest
from llm_proxy.turns import Turn

log: Final = logging.getLogger("llm_proxy")

_OFFLOAD_RESPONSE_BYTES: Final = 64 * 1024
"""Response body size above which a response is rewritten in a thread."""
_MAX_INLINE_REWRITERS: Final = 3
"""Largest number of rewriters that run on the event loop."""
_MAX_KEPT_BODY_BYTES: Final = 1024 * 1024
"""Bytes of a sent body that are kept for inspection; the rest is ignored."""
_MAX_HEADER_RULES: Final = 20
"""Maximum number of rules in the headers of one request."""
_MAX_LOGGED_CHARS: Final = 200
"""Maximum length of a rule in a message, and of any text from outside in the log."""


class FaultMiddleware:
    """Injects the faults of the run's rules into responses."""

    def __init__(self, engine: FaultEngine, *, allows_header: bool = False) -> None:
        """`allows_header` lets clients send rules in a header."""
        self.engine = engine
        self._started_at_s = asyncio.get_running_loop().time()
        self._allows_header = allows_header
        self.spoiled_responses = SpoiledResponses()
        """The responses that faults have spoiled, to recognise them in later requests."""
        self.rules_changed_event = asyncio.Event()
        """Set whenever the rules change; the waiting task clears it."""
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._pending_rules: tuple[FaultRule, ...] = ()

    def ms_since_start(self, loop_time_s: float) -> float:
        """A time of the event loop's clock, in ms since the run began."""
        return (loop_time_s - self._started_at_s) * 1000

    def elapsed_run_ms(self) -> float:
        """The current time, in ms since the run began."""
        return self.ms_since_start(asyncio.get_running_loop().time())

    def set_rules(self, rules: tuple[FaultRule, ...], at_ms: float | None = None) -> None:
        """Replace the runtime rules by `rules`, from now on, or from `at_ms` of the run."""
        self.engine.set_runtime_rules(rules, self.elapsed_run_ms() if at_ms is None else at_ms)
        self.rules_changed_event.set()

    def set_session_rules(self, session: str, rules: tuple[FaultRule, ...]) -> None:
        """Replace the rules of a session from now on."""
        self.engine.set_session_rules(session, rules, self.elapsed_run_ms())
        self.rules_changed_event.set()

    def set_rules_on_first_request(self, rules: tuple[FaultRule, ...]) -> None:
        """Set these rules when the first request arrives."""
        self._pending_rules = rules

    def reset_session(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self.engine.reset_session(session)
        self.spoiled_responses.forget_session(session)

    async def select_faults(
        self, routed: RoutedRequest, redact: Callable[[str], str]
    ) -> RequestFaults | None:
        """The faults to inject into this request's response; None if there are none.

        `redact` removes the request's secrets from a text: a fault header may contain some.
        Raises `RequestRefused` for a fault header that is invalid or not allowed.
        """
        header_rules = [
            replace(rule, text=redact(rule.text)) for rule in self._request_header_rules(routed)
        ]
        arrived_ms = self.ms_since_start(routed.arrived_at_s)
        if self._pending_rules:
            self.set_rules(self._pending_rules, arrived_ms)
            self._pending_rules = ()
        engine = self.engine
        if not (header_rules or engine.run_rules):
            return None
        if routed.is_large:
            await asyncio.to_thread(lambda: routed.key)  # it takes long: do not block other streams
            if engine.has_metered_rules:
                await asyncio.to_thread(lambda: routed.conversation)
        return engine.select_faults(routed, header_rules, arrived_ms)

    def _request_header_rules(self, routed: RoutedRequest) -> tuple[FaultRule, ...]:
        if not routed.requested_faults:
            return ()
        if not self._allows_header:
            raise RequestRefused(
                400,
                f"the header {FAULT_HEADER} is disabled; to enable it, start llm-proxy with "
                "--fault-header",
            )
        if len(routed.requested_faults) > _MAX_HEADER_RULES:
            raise RequestRefused(
                400, f"the request has more than {_MAX_HEADER_RULES} {FAULT_HEADER} headers"
            )
        try:
            rules = parse_rules(routed.requested_faults)
        except UsageError as error:
            raise RequestRefused(400, str(error)) from None
        for rule in rules:
            reason = ""
            if rule.kind.scope != "request":
                reason = (
                    f"{rule.kind.name} cannot be set for a single request; use --fault or "
                    "PUT /_proxy/faults"
                )
            elif rule.trigger != Trigger(probability=rule.trigger.probability):
                reason = (
                    f"the header {FAULT_HEADER} applies only to the current request; remove "
                    "nth=, first=, every=, times=, per= and window= from the rule"
                )
            if reason:
                rule_text = printable_excerpt(rule.text, _MAX_LOGGED_CHARS)
                raise RequestRefused(400, f"fault '{rule_text}': {reason}")
        return rules

    async def continued_request_number(self, routed: RoutedRequest) -> int | None:
        """The number of the request whose spoiled response is in this one's history, if any."""
        if not self.spoiled_responses.request_numbers:
            return None
        if routed.is_large:
            await asyncio.to_thread(lambda: routed.conversation)
        if routed.conversation is None:
            return None
        return self.spoiled_responses.continued_request_number(routed.session, routed.conversation)

    def start_background_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that nothing waits for."""
        task = asyncio.ensure_future(coroutine)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


class FaultedResponse:
    """The response to one request, with the faults that are injected into it.

    Call `respond` first, and `finish` at the end, however the response ended.
    """

    def __init__(
        self,
        middleware: FaultMiddleware,
        routed: RoutedRequest,
        entry: JournalEntry,
        redact: Callable[[str], str],
    ) -> None:
        """`redact` removes the request's secrets from a text."""
        self._middleware = middleware
        self._redact = redact
        self._routed = routed
        self._entry = entry
        self._request_faults: RequestFaults | None = None
        self._sent_head: ResponseHead | None = None
        self._sent_body = bytearray()
        """The beginning of the body as it is sent."""

    async def respond(
        self, get_mode_response: Callable[[], Awaitable[ModeResponse]]
    ) -> ActionSource:
        """The actions of the mode's response with its faults, or of a fault in place of it.

        Every request is answered through here, also without any rule.  Raises whatever
        `get_mode_response` and the source raise, and `RequestRefused` for a fault header that
        is invalid or not allowed.
        """
        middleware, routed, entry = self._middleware, self._routed, self._entry
        arrived_ms = middleware.ms_since_start(routed.arrived_at_s)
        entry.at_ms = round(arrived_ms, 3)
        entry.continues = await middleware.continued_request_number(routed)
        faults = self._request_faults = await middleware.select_faults(routed, self._redact)
        source: ActionSource | None = None if faults is None else faults.replacement_response()
        if source is not None:
            entry.origin = "fault"
        else:
            mode_response = await get_mode_response()
            source, scripted_response = (
                mode_response.action_source,
                mode_response.scripted_response,
            )
            if scripted_response is not None and scripted_response.fault_rules:
                faults = self._request_faults = middleware.engine.select_scenario_faults(
                    routed, faults, scripted_response.fault_rules, arrived_ms
                )
            if faults is not None and not mode_response.is_live:
                source = faults.replacement_response() or source
        if faults is None:
            return source
        chain = faults.build_rewriter_chain()
        if not isinstance(source, tuple):
            return self._inject_into_live_response(source, chain)
        burst = await _rewrite_whole_response(source, chain, faults)
        self._add_sent(burst)
        return burst

    def finish(self) -> None:
        """Journal and log the faults, and inspect what was sent.

        The rules that meter usage get it, and a spoiled response is remembered, to be recognised in
        the session's next requests.
        """
        routed, entry, spoiled = self._routed, self._entry, self._middleware.spoiled_responses
        if self._request_faults is None:
            return
        entry.faults = self._request_faults.finalize_records()
        path = printable_excerpt(routed.stored_request.path, _MAX_LOGGED_CHARS)
        for fault in entry.faults:
            skipped = printable_excerpt(fault.skipped, _MAX_LOGGED_CHARS)
            log.info(
                "%s %s: fault %s: %s",
                routed.request.method,
                path,
                printable_excerpt(fault.rule, _MAX_LOGGED_CHARS),
                f"not injected ({skipped})" if skipped else "injected",
            )
        if (head := self._sent_head) is None:
            return
        body, callbacks = bytes(self._sent_body), self._request_faults.response_sent_callbacks
        is_spoiled = is_spoiled_by(entry.faults)
        needs_turns = is_spoiled or spoiled.has_spoiled_response(entry.session)

        def inspect() -> tuple[Turn, ...]:
            for report_sent_response in callbacks:
                report_sent_response(head, body)
            if not needs_turns:
                return ()
            return decode_sent_response(routed.dialect, routed.decompressed_request, head, body)

        def remember(turns: tuple[Turn, ...]) -> None:
            if needs_turns:
                spoiled.add_response(entry.session, turns, entry.number, is_spoiled=is_spoiled)

        async def inspect_in_thread() -> None:
            remember(await asyncio.to_thread(inspect))

        if len(body) <= LARGE_BODY_BYTES:
            remember(inspect())
        elif needs_turns or callbacks:
            self._middleware.start_background_task(inspect_in_thread())

    def _add_sent(self, burst: Burst) -> None:
        for action in burst:
            if isinstance(action, Begin):
                self._sent_head = action.head
            elif isinstance(action, Send) and len(self._sent_body) < _MAX_KEPT_BODY_BYTES:
                self._sent_body += action.data
            elif isinstance(action, Abort):
                return

    async def _inject_into_live_response(
        self, source: AsyncGenerator[Burst, None], chain: RewriterChain
    ) -> AsyncGenerator[Burst, None]:
        """Yield a live response with its faults injected, as it arrives.

        If a rule ends it, its source is still read to the end: the recording holds the provider's
        whole response.
        """
        pending_burst: asyncio.Future[Burst | None] | None = None
        has_more = True
        try:
            while has_more and not chain.is_over:
                pending_burst = pending_burst or asyncio.ensure_future(anext(source, None))
                timeout_s = None
                if (trigger_ms := chain.next_trigger_ms) is not None:
                    timeout_s = max(trigger_ms - self._routed.elapsed_ms(), 0) / 1000
                await asyncio.wait([pending_burst], timeout=timeout_s)
                try:
                    if not pending_burst.done():
                        actions = chain.tick(self._routed.elapsed_ms())
                    else:
                        source_burst, pending_burst = pending_burst.result(), None
                        has_more = source_burst is not None
                        actions = (
                            chain.close() if source_burst is None else chain.feed(source_burst)
                        )
                except RewritingTooExpensive as error:  # what was sent cannot be taken back
                    log.warning("response aborted: %s", error)
                    chain.is_over = True
                    actions = [Abort("rst")]
                burst = tuple(actions)
                self._add_sent(burst)
                yield burst
        finally:
            if has_more and chain.is_over:
                self._middleware.start_background_task(_drain_source(source, pending_burst))
            else:
                if pending_burst is not None:
                    pending_burst.cancel()
                    await asyncio.wait([pending_burst])
                await source.aclose()


async def _rewrite_whole_response(
    source: Burst, chain: RewriterChain, request_faults: RequestFaults
) -> Burst:
    """A complete response with its faults injected; unchanged if rewriting is too expensive."""
    body_bytes = sum(len(action.data) for action in source if isinstance(action, Send))
    try:
        if body_bytes > _OFFLOAD_RESPONSE_BYTES or len(chain.rewriters) > _MAX_INLINE_REWRITERS:
            # Other streams are not blocked meanwhile.
            return await asyncio.to_thread(chain.rewrite_response, source)
        return chain.rewrite_response(source)
    except RewritingTooExpensive as error:
        request_faults.mark_skipped(str(error))
        return source


async def _drain_source(
    source: AsyncGenerator[Burst, None], pending_burst: asyncio.Future[Burst | None] | None
) -> None:
    """Read a live response to its end, for the recording alone."""
    async with aclosing(source):
        with suppress(LlmProxyError):  # an upstream failure, which no client gets any more
            burst = await pending_burst if pending_burst is not None else ()
            while burst is not None:
                burst = await anext(source, None)
