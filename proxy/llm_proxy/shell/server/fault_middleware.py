"""Injects faults into responses: complete ones as values, live ones as they arrive.

mode ─▶ source ─▶ rules ─▶ perform
│
└─ a live response that a rule has ended is still read to its end, for the recording
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final

from llm_proxy.actions import Abort, Action, ActionSource, Begin, Burst, Send
from llm_proxy.errors import LlmProxyError, RequestRefused, UsageError, printable_excerpt
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.request_faults import RequestFaults
from llm_proxy.faults.rewriting import RewriterChain, RewritingTooExpensive, rewrite_response
from llm_proxy.faults.rewriting.chain import without_content_length
from llm_proxy.faults.rule import FaultRule, Trigger
from llm_proxy.faults.spoiled_responses import SpoiledResponses, is_spoiled_by, response_text
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import FAULT_HEADER, RoutedRequest
from llm_proxy.shell.server.journal_entry_fields import OFFLOAD_BODY_BYTES

log: Final = logging.getLogger("llm_proxy")

_OFFLOAD_RESPONSE_BYTES: Final = 64 * 1024
"""Response body size above which a response is rewritten in a thread."""
_MAX_INLINE_REWRITERS: Final = 3
"""Largest number of rewriters that run on the event loop."""
_MAX_KEPT_BODY_BYTES: Final = 1024 * 1024
"""Bytes of a sent body that are kept for inspection; the rest is ignored."""
_SCOPE_ERROR: Final = (
    "fault '{0}': {1} is no matter of one request: give it with --fault, or PUT it to "
    "/_proxy/faults"
)
_MAX_HEADER_RULES: Final = 20
"""Maximum number of rules in the headers of one request."""
_MAX_RULE_CHARS: Final = 200
"""Maximum length of a rule in a message."""
_TRIGGER_ERROR: Final = (
    f"fault '{{}}': a rule in the header {FAULT_HEADER} is for this request alone, so nothing is "
    "counted: leave nth, first, every, times, per and window out"
)
_HEADER_DISABLED_ERROR: Final = (
    f"the header {FAULT_HEADER} is not heard here: start the proxy with --fault-header"
)


class FaultMiddleware:
    """Injects the faults of the run's rules into responses."""

    def __init__(self, engine: FaultEngine, *, allows_header: bool = False) -> None:
        """`allows_header` lets clients send rules in a header."""
        self.engine = engine
        self._started_at_s = asyncio.get_running_loop().time()
        self._allows_header = allows_header
        self._spoiled_responses = SpoiledResponses()
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

    def set_rules(self, rules: tuple[FaultRule, ...]) -> None:
        """Replace the runtime rules by `rules`, from now on."""
        self._set_rules_at(rules, self.elapsed_run_ms())

    def _set_rules_at(self, rules: tuple[FaultRule, ...], at_ms: float) -> None:
        self.engine.set_runtime_rules(rules, at_ms)
        self.rules_changed_event.set()

    def set_rules_on_first_request(self, rules: tuple[FaultRule, ...]) -> None:
        """Set these rules when the first request arrives."""
        self._pending_rules = rules

    async def faults_for(self, routed: RoutedRequest) -> RequestFaults | None:
        """The faults to inject into this request's response; None if there are none.

        Raises `RequestRefused` for a fault header that is invalid or not allowed.
        """
        header_rules = self._request_header_rules(routed)
        if self._pending_rules:
            self._set_rules_at(self._pending_rules, self.ms_since_start(routed.arrived_at_s))
            self._pending_rules = ()
        if not self.engine.may_apply(routed):
            return None
        if (
            len(routed.decompressed_request.body) > OFFLOAD_BODY_BYTES
        ):  # the key takes long: do not block other streams
            await asyncio.to_thread(lambda: routed.key)
            if self.engine.has_metered_rules:
                await asyncio.to_thread(lambda: routed.conversation)
        return self.engine.select_faults(
            routed, header_rules, self.ms_since_start(routed.arrived_at_s)
        )

    def add_scenario_faults(
        self,
        routed: RoutedRequest,
        mode_response: ModeResponse,
        request_faults: RequestFaults | None,
    ) -> RequestFaults | None:
        """`request_faults` with the faults of the scenario that responds added."""
        rules = (
            mode_response.scripted_response.fault_rules
            if mode_response.scripted_response is not None
            else ()
        )
        if not rules:
            return request_faults
        return self.engine.select_scenario_faults(
            routed, request_faults, rules, self.ms_since_start(routed.arrived_at_s)
        )

    def reset_session(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self.engine.reset_session(session)
        self._spoiled_responses.forget_session(session)

    async def inject_faults(
        self, source: ActionSource, request_faults: RequestFaults, sent_response: SentResponse
    ) -> ActionSource:
        """The response with its faults injected; `sent_response` collects what is sent."""
        if isinstance(source, tuple):
            burst = await _inject_into_whole_response(source, request_faults)
            sent_response.add_burst(burst)
            return burst
        chain, resizes = request_faults.build_rewriter_chain()
        return self._inject_into_live_response(source, chain, resizes, sent_response)

    def update_spoiled_responses(
        self, entry: JournalEntry, routed: RoutedRequest, sent_response: SentResponse
    ) -> None:
        """Remember a spoiled response, to recognise it in the session's next requests.

        An unspoiled response with the same text makes it forgotten.
        """
        is_spoiled = is_spoiled_by(entry.faults)
        if sent_response.head is None or not (
            is_spoiled or self._spoiled_responses.has_spoiled_response(entry.session)
        ):
            return
        read_text = partial(
            response_text,
            routed.dialect,
            routed.decompressed_request,
            sent_response.head,
            bytes(sent_response.body),
        )
        if len(sent_response.body) > OFFLOAD_BODY_BYTES:
            self._start_background_task(
                self._update_spoiled_in_thread(entry, read_text, is_spoiled=is_spoiled)
            )
        else:
            self._update_spoiled(entry, read_text(), is_spoiled=is_spoiled)

    async def _update_spoiled_in_thread(
        self, entry: JournalEntry, read_text: Callable[[], str], *, is_spoiled: bool
    ) -> None:
        self._update_spoiled(entry, await asyncio.to_thread(read_text), is_spoiled=is_spoiled)

    def _update_spoiled(self, entry: JournalEntry, text: str, *, is_spoiled: bool) -> None:
        if is_spoiled:
            self._spoiled_responses.remember_spoiled(entry.session, text, entry.number)
        else:
            self._spoiled_responses.forget_text(entry.session, text)

    def report_to_meters(self, request_faults: RequestFaults, sent_response: SentResponse) -> None:
        """Report what was sent to the rules that meter usage, such as quotas."""
        if sent_response.head is None or not request_faults.has_response_sent_callbacks:
            return
        report = partial(
            request_faults.run_response_sent_callbacks,
            sent_response.head,
            bytes(sent_response.body),
        )
        if len(sent_response.body) > OFFLOAD_BODY_BYTES:
            self._start_background_task(asyncio.to_thread(report))
        else:
            report()

    async def continued_request_number(self, routed: RoutedRequest) -> int | None:
        """The number of the request whose spoiled response is in this one's history, if any."""
        if not self._spoiled_responses:
            return None
        if len(routed.decompressed_request.body) > OFFLOAD_BODY_BYTES:
            await asyncio.to_thread(lambda: routed.conversation)
        if routed.conversation is None:
            return None
        return self._spoiled_responses.continued_request_number(routed.session, routed.conversation)

    def _request_header_rules(self, routed: RoutedRequest) -> tuple[FaultRule, ...]:
        if not routed.requested_faults:
            return ()
        if not self._allows_header:
            raise RequestRefused(400, _HEADER_DISABLED_ERROR)
        if len(routed.requested_faults) > _MAX_HEADER_RULES:
            raise RequestRefused(
                400, f"a request may have {_MAX_HEADER_RULES} headers {FAULT_HEADER}"
            )
        try:
            rules = parse_rules(routed.requested_faults)
        except UsageError as error:
            raise RequestRefused(400, str(error)) from None
        for rule in rules:
            if rule.kind.scope != "request":
                raise RequestRefused(
                    400,
                    _SCOPE_ERROR.format(
                        printable_excerpt(rule.text, _MAX_RULE_CHARS), rule.kind.name
                    ),
                )
            if rule.trigger != Trigger(probability=rule.trigger.probability):
                raise RequestRefused(
                    400, _TRIGGER_ERROR.format(printable_excerpt(rule.text, _MAX_RULE_CHARS))
                )
        return rules

    async def _inject_into_live_response(
        self,
        source: AsyncGenerator[Burst, None],
        chain: RewriterChain,
        resizes: bool,
        sent_response: SentResponse,
    ) -> AsyncGenerator[Burst, None]:
        """Yield a live response with its faults injected, as it arrives.

        If a rule ends it, its source is still read to the end: the recording holds the provider's
        whole response.
        """
        pending_burst: asyncio.Future[Burst | None] | None = None
        has_more = True
        try:
            while has_more and not chain.is_over:
                pending_burst = pending_burst or asyncio.ensure_future(_next_burst(source))
                if not await _wait_for_burst(
                    pending_burst, chain.next_trigger_ms, sent_response.routed
                ):
                    released = _advance_chain(
                        chain, partial(chain.tick, sent_response.routed.elapsed_ms())
                    )
                else:
                    burst, pending_burst = await pending_burst, None
                    has_more = burst is not None
                    released = _advance_chain(
                        chain, chain.close if burst is None else partial(chain.feed, burst)
                    )
                burst = tuple(map(without_content_length, released) if resizes else released)
                sent_response.add_burst(burst)
                yield burst
        finally:
            if has_more and chain.is_over:
                self._start_background_task(_drain_source(source, pending_burst))
            else:
                if pending_burst is not None:
                    pending_burst.cancel()
                    await asyncio.wait([pending_burst])
                await source.aclose()

    def _start_background_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)


def _advance_chain(chain: RewriterChain, advance: Callable[[], list[Action]]) -> list[Action]:
    try:
        return advance()
    except RewritingTooExpensive as error:  # what was sent cannot be taken back
        log.warning("an answer is broken off: %s", error)
        chain.is_over = True
        return [Abort("rst")]


class SentResponse:
    """The head and the first bytes of the body of a response, as they were sent."""

    def __init__(self, routed: RoutedRequest) -> None:
        self.routed = routed
        self.head: ResponseHead | None = None
        self.body = bytearray()

    def add_burst(self, burst: Burst) -> None:
        """Add the actions of a burst up to an `Abort`."""
        for action in burst:
            if isinstance(action, Begin):
                self.head = action.head
            elif isinstance(action, Send) and len(self.body) < _MAX_KEPT_BODY_BYTES:
                self.body += action.data
            elif isinstance(action, Abort):
                return


async def _inject_into_whole_response(source: Burst, request_faults: RequestFaults) -> Burst:
    """A complete response with its faults injected; unchanged if rewriting is too expensive."""
    chain, _ = request_faults.build_rewriter_chain()
    body_bytes = sum(len(action.data) for action in source if isinstance(action, Send))
    try:
        if (
            body_bytes > _OFFLOAD_RESPONSE_BYTES or len(chain.rewriters) > _MAX_INLINE_REWRITERS
        ):  # do not block other streams
            return await asyncio.to_thread(rewrite_response, source, chain)
        return rewrite_response(source, chain)
    except RewritingTooExpensive as error:
        request_faults.mark_skipped(str(error))
        return source


async def _next_burst(source: AsyncGenerator[Burst, None]) -> Burst | None:
    """The next burst; None at the end."""
    return await anext(source, None)


async def _wait_for_burst(
    pending_burst: asyncio.Future[Any], alarm_ms: float | None, routed: RoutedRequest
) -> bool:
    """Wait for a burst until `alarm_ms`, in ms since the request was read in full.

    Returns whether it arrived.
    """
    timeout_s = None if alarm_ms is None else max(alarm_ms - routed.elapsed_ms(), 0) / 1000
    await asyncio.wait([pending_burst], timeout=timeout_s)
    return pending_burst.done()


async def _drain_source(
    source: AsyncGenerator[Burst, None], pending_burst: asyncio.Future[Burst | None] | None
) -> None:
    """Read a live response to its end, for the recording alone."""
    async with aclosing(source):
        with suppress(LlmProxyError):  # an upstream failure, which no client gets any more
            burst = await pending_burst if pending_burst is not None else ()
            while burst is not None:
                burst = await anext(source, None)
