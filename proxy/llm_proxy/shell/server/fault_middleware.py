"""Injects faults into responses: complete ones as values, live ones as they arrive.

mode ─▶ source ─▶ rules ─▶ perform
│
└─ a live answer that a rule has ended is read on, to its end, for the recording
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Source
from llm_proxy.errors import LlmProxyError, RequestRefused, UsageError, printable
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.request_faults import RequestFaults
from llm_proxy.faults.rewriting import RewriterChain, RewritingTooExpensive, rewrite_response
from llm_proxy.faults.rewriting.chain import without_content_length
from llm_proxy.faults.rule import FaultRule, Trigger
from llm_proxy.faults.spoiled_responses import SpoiledResponses, is_spoiled_by, response_text
from llm_proxy.modes import ModeResponse
from llm_proxy.routing import FAULT_HEADER, RoutedRequest
from llm_proxy.shell.server.entry_fields import LARGE
from llm_proxy.shell.server.journal import JournalEntry

log: Final = logging.getLogger("llm_proxy")

_LARGE_ANSWER: Final = 64 * 1024
"""Bytes of an answer that takes a while to rewrite."""
_FEW: Final = 3
"""Rules that do not take long together."""
_HEARD: Final = 1024 * 1024
"""Bytes of an answer that are looked at once it has gone out; longer ones say no more."""
_MUST_STAND: Final = (
    "fault '{0}': {1} is no matter of one request: give it with --fault, or PUT it to "
    "/_proxy/faults"
)
_MOST: Final = 20
"""Rules that a request may bring along."""
_SHOWN: Final = 200
"""Characters of a rule in a message."""
_COUNTS: Final = (
    f"fault '{{}}': a rule in the header {FAULT_HEADER} is for this request alone, so nothing is "
    "counted: leave nth, first, every, times, per and window out"
)
_HEADERS_OFF: Final = (
    f"the header {FAULT_HEADER} is not heard here: start the proxy with --fault-header"
)


class FaultMiddleware:
    """Injects what the rules of the run ask for."""

    def __init__(self, injector: FaultEngine, *, hears_headers: bool = False) -> None:
        """`hears_headers` lets clients bring rules along."""
        self.engine = injector
        self._started_at = asyncio.get_running_loop().time()
        self._allows_header = hears_headers
        self._spoiled_responses = SpoiledResponses()
        self.rules_changed = asyncio.Event()
        """Set whenever other rules hold; whoever waits for it clears it."""
        self._offload: set[asyncio.Task[None]] = set()
        self._pending_rules: tuple[FaultRule, ...] = ()

    def ms_since_start(self, moment: float) -> float:
        """A moment of the loop's clock, in ms since the run began."""
        return (moment - self._started_at) * 1000

    def now_ms(self) -> float:
        """ms since the run began."""
        return self.ms_since_start(asyncio.get_running_loop().time())

    def set_rules(self, rules: tuple[FaultRule, ...]) -> None:
        """Have these rules hold from now on, in place of those that were put before."""
        self._set_rules_at(rules, self.now_ms())

    def _set_rules_at(self, rules: tuple[FaultRule, ...], moment: float) -> None:
        self.engine.set_rules(rules, moment)
        self.rules_changed.set()

    def set_rules_on_first_request(self, rules: tuple[FaultRule, ...]) -> None:
        """Put these rules when the first request comes."""
        self._pending_rules = rules

    async def faults_for(self, routed: RoutedRequest) -> RequestFaults | None:
        """What strikes this request; None where nothing does.

        Raises `RequestRefused` for a header that is no rule, or that nobody hears.
        """
        own = self._request_header_rules(routed)
        if self._pending_rules:
            self._set_rules_at(self._pending_rules, self.ms_since_start(routed.arrived_at))
            self._pending_rules = ()
        if not self.engine.may_apply(routed):
            return None
        if len(routed.decompressed.body) > LARGE:  # other streams need not wait for its key
            await asyncio.to_thread(lambda: routed.key)
            if self.engine.has_meters:
                await asyncio.to_thread(lambda: routed.conversation)
        return self.engine.faults_for(routed, own, self.ms_since_start(routed.arrived_at))

    def add_scenario_faults(
        self, routed: RoutedRequest, answer: ModeResponse, request_faults: RequestFaults | None
    ) -> RequestFaults | None:
        """The same, with the rules of the scenario that answers."""
        rules = answer.scripted_response.faults if answer.scripted_response is not None else ()
        if not rules:
            return request_faults
        return self.engine.add_scenario_rules(
            routed, request_faults, rules, self.ms_since_start(routed.arrived_at)
        )

    def reset_session(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self.engine.reset_session(session)
        self._spoiled_responses.forget_session(session)

    async def inject(
        self, source: Source, request_faults: RequestFaults, sent: SentResponse
    ) -> Source:
        """The answer as it goes out; `heard` is told what does."""
        if isinstance(source, tuple):
            burst = await _inject_whole(source, request_faults)
            sent.add(burst)
            return burst
        chain, resizes = request_faults.rewriter_chain()
        return self._inject_live(source, chain, resizes, sent)

    def watch_response(
        self, entry: JournalEntry, routed: RoutedRequest, sent: SentResponse
    ) -> None:
        """Remember what a client was left with, for what it asks next."""
        spoiled = is_spoiled_by(entry.faults)
        if sent.head is None or not (spoiled or self._spoiled_responses.has_spoiled(entry.session)):
            return
        read = partial(
            response_text, routed.dialect, routed.decompressed, sent.head, bytes(sent.body)
        )
        if len(sent.body) > LARGE:
            self._start_task(self._remember_in_thread(entry, read, spoiled=spoiled))
        else:
            self._remember_response(entry, read(), spoiled=spoiled)

    async def _remember_in_thread(
        self, entry: JournalEntry, read: Callable[[], str], *, spoiled: bool
    ) -> None:
        self._remember_response(entry, await asyncio.to_thread(read), spoiled=spoiled)

    def _remember_response(self, entry: JournalEntry, text: str, *, spoiled: bool) -> None:
        if spoiled:
            self._spoiled_responses.remember_spoiled(entry.session, text, entry.number)
        else:
            self._spoiled_responses.clear_by_text(entry.session, text)

    def report_to_meters(self, request_faults: RequestFaults, sent: SentResponse) -> None:
        """Tell the rules that keep account of it what went out."""
        if sent.head is None or not request_faults.has_meters:
            return
        tell = partial(request_faults.report_to_meters, sent.head, bytes(sent.body))
        if len(sent.body) > LARGE:
            self._start_task(asyncio.to_thread(tell))
        else:
            tell()

    async def continued_request(self, routed: RoutedRequest) -> int | None:
        """The number of the request whose spoiled answer this one goes on from."""
        if not self._spoiled_responses:
            return None
        if len(routed.decompressed.body) > LARGE:
            await asyncio.to_thread(lambda: routed.conversation)
        if routed.conversation is None:
            return None
        return self._spoiled_responses.continued_request(routed.session, routed.conversation)

    def _request_header_rules(self, routed: RoutedRequest) -> tuple[FaultRule, ...]:
        if not routed.requested_faults:
            return ()
        if not self._allows_header:
            raise RequestRefused(400, _HEADERS_OFF)
        if len(routed.requested_faults) > _MOST:
            raise RequestRefused(400, f"a request may have {_MOST} headers {FAULT_HEADER}")
        try:
            rules = parse_rules(routed.requested_faults)
        except UsageError as error:
            raise RequestRefused(400, str(error)) from None
        for rule in rules:
            if rule.kind.scope != "request":
                raise RequestRefused(
                    400, _MUST_STAND.format(printable(rule.text, _SHOWN), rule.kind.name)
                )
            if rule.trigger != Trigger(probability=rule.trigger.probability):
                raise RequestRefused(400, _COUNTS.format(printable(rule.text, _SHOWN)))
        return rules

    async def _inject_live(
        self,
        source: AsyncGenerator[Burst, None],
        chain: RewriterChain,
        resizes: bool,
        sent: SentResponse,
    ) -> AsyncGenerator[Burst, None]:
        """A live answer, as it arrives.

        Where a rule ends it, its source is read to the end all the same: the recording tells what
        the provider said.
        """
        coming: asyncio.Future[Burst | None] | None = None
        is_there = True
        try:
            while is_there and not chain.is_over:
                coming = coming or asyncio.ensure_future(_next_burst(source))
                if not await _wait_for_burst(coming, chain.next_alarm_ms, sent.call):
                    gone = _next_released(chain, partial(chain.tick, sent.call.elapsed_ms()))
                else:
                    burst, coming = await coming, None
                    is_there = burst is not None
                    gone = _next_released(
                        chain, chain.close if burst is None else partial(chain.feed, burst)
                    )
                burst = tuple(map(without_content_length, gone) if resizes else gone)
                sent.add(burst)
                yield burst
        finally:
            if is_there and chain.is_over:
                self._start_task(_drain_source(source, coming))
            else:
                if coming is not None:
                    coming.cancel()
                    await asyncio.wait([coming])
                await source.aclose()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._offload.add(task)
        task.add_done_callback(self._offload.discard)


def _next_released(chain: RewriterChain, advance: Callable[[], list[Action]]) -> list[Action]:
    try:
        return advance()
    except RewritingTooExpensive as why:  # what has gone out cannot be taken back
        log.warning("an answer is broken off: %s", why)
        chain.is_over = True
        return [Abort("rst")]


class SentResponse:
    """What of an answer has gone out."""

    def __init__(self, routed: RoutedRequest) -> None:
        self.call = routed
        self.head: ResponseHead | None = None
        self.body = bytearray()

    def add(self, burst: Burst) -> None:
        """These actions go out."""
        for action in burst:
            if isinstance(action, Begin):
                self.head = action.head
            elif isinstance(action, Send) and len(self.body) < _HEARD:
                self.body += action.data
            elif isinstance(action, Abort):
                return


async def _inject_whole(source: Burst, request_faults: RequestFaults) -> Burst:
    """A whole answer as it goes out; as it is, where its rules make too much work."""
    chain, _ = request_faults.rewriter_chain()
    size = sum(len(action.data) for action in source if isinstance(action, Send))
    try:
        if size > _LARGE_ANSWER or len(chain.rewriters) > _FEW:  # others need not wait for it
            return await asyncio.to_thread(rewrite_response, source, chain)
        return rewrite_response(source, chain)
    except RewritingTooExpensive as why:
        request_faults.abandon(str(why))
        return source


async def _next_burst(source: AsyncGenerator[Burst, None]) -> Burst | None:
    """The next burst; None at the end."""
    return await anext(source, None)


async def _wait_for_burst(
    coming: asyncio.Future[Any], alarm: float | None, routed: RoutedRequest
) -> bool:
    """Wait for it, until the moment `alarm`, in ms since the request was read in full."""
    left = None if alarm is None else max(alarm - routed.elapsed_ms(), 0) / 1000
    await asyncio.wait([coming], timeout=left)
    return coming.done()


async def _drain_source(
    source: AsyncGenerator[Burst, None], coming: asyncio.Future[Burst | None] | None
) -> None:
    """Read a live answer to its end, for nobody but the recording."""
    async with aclosing(source):
        with suppress(LlmProxyError):  # the upstream's own failure, of which no client hears
            burst = await coming if coming is not None else ()
            while burst is not None:
                burst = await anext(source, None)
