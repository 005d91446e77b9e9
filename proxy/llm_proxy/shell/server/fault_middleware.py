"""Faults on their way to clients: whole answers as values, live ones as they arrive.

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
from llm_proxy.exchange import Head
from llm_proxy.faults.engine import Injector
from llm_proxy.faults.grammar import rules_of
from llm_proxy.faults.request_faults import Injection
from llm_proxy.faults.rewriting import Chain, TooMuch, rewritten
from llm_proxy.faults.rewriting.chain import unmeasured
from llm_proxy.faults.rule import Occasion, Rule
from llm_proxy.faults.spoiled_responses import Watch, is_spoiled, said
from llm_proxy.modes import Answer
from llm_proxy.routing import FAULT_HEADER, Call
from llm_proxy.shell.server.entry_fields import LARGE
from llm_proxy.shell.server.journal import Entry

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


class Injecting:
    """Injects what the rules of the run ask for."""

    def __init__(self, injector: Injector, *, hears_headers: bool = False) -> None:
        """`hears_headers` lets clients bring rules along."""
        self.injector = injector
        self._began = asyncio.get_running_loop().time()
        self._hears_headers = hears_headers
        self._watch = Watch()
        self.changed = asyncio.Event()
        """Set whenever other rules hold; whoever waits for it clears it."""
        self._aside: set[asyncio.Task[None]] = set()
        self._armed: tuple[Rule, ...] = ()

    def since(self, moment: float) -> float:
        """A moment of the loop's clock, in ms since the run began."""
        return (moment - self._began) * 1000

    def now(self) -> float:
        """ms since the run began."""
        return self.since(asyncio.get_running_loop().time())

    def put(self, rules: tuple[Rule, ...]) -> None:
        """Have these rules hold from now on, in place of those that were put before."""
        self._put(rules, self.now())

    def _put(self, rules: tuple[Rule, ...], moment: float) -> None:
        self.injector.put(rules, moment)
        self.changed.set()

    def arm(self, rules: tuple[Rule, ...]) -> None:
        """Put these rules when the first request comes."""
        self._armed = rules

    async def meet(self, call: Call) -> Injection | None:
        """What strikes this request; None where nothing does.

        Raises `RequestRefused` for a header that is no rule, or that nobody hears.
        """
        own = self._own(call)
        if self._armed:
            self._put(self._armed, self.since(call.arrived))
            self._armed = ()
        if not self.injector.wants(call):
            return None
        if len(call.plain.body) > LARGE:  # other streams need not wait for its key
            await asyncio.to_thread(lambda: call.key)
            if self.injector.keeps_account:
                await asyncio.to_thread(lambda: call.conversation)
        return self.injector.meet(call, own, self.since(call.arrived))

    def script(self, call: Call, answer: Answer, injection: Injection | None) -> Injection | None:
        """The same, with the rules of the scenario that answers."""
        rules = answer.direction.faults if answer.direction is not None else ()
        if not rules:
            return injection
        return self.injector.script(call, injection, rules, self.since(call.arrived))

    def reset(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self.injector.reset(session)
        self._watch.forget(session)

    async def spoil(self, source: Source, injection: Injection, heard: Heard) -> Source:
        """The answer as it goes out; `heard` is told what does."""
        if isinstance(source, tuple):
            burst = await _whole(source, injection)
            heard.take(burst)
            return burst
        chain, resizes = injection.chain()
        return self._live(source, chain, resizes, heard)

    def watch(self, entry: Entry, call: Call, heard: Heard) -> None:
        """Remember what a client was left with, for what it asks next."""
        spoiled = is_spoiled(entry.faults)
        if heard.head is None or not (spoiled or self._watch.watches(entry.session)):
            return
        read = partial(said, call.dialect, call.plain, heard.head, bytes(heard.body))
        if len(heard.body) > LARGE:
            self._follow(self._note_later(entry, read, spoiled=spoiled))
        else:
            self._note(entry, read(), spoiled=spoiled)

    async def _note_later(self, entry: Entry, read: Callable[[], str], *, spoiled: bool) -> None:
        self._note(entry, await asyncio.to_thread(read), spoiled=spoiled)

    def _note(self, entry: Entry, text: str, *, spoiled: bool) -> None:
        if spoiled:
            self._watch.remember(entry.session, text, entry.number)
        else:
            self._watch.clear(entry.session, text)

    def account(self, injection: Injection, heard: Heard) -> None:
        """Tell the rules that keep account of it what went out."""
        if heard.head is None or not injection.has_account:
            return
        tell = partial(injection.account, heard.head, bytes(heard.body))
        if len(heard.body) > LARGE:
            self._follow(asyncio.to_thread(tell))
        else:
            tell()

    async def continued(self, call: Call) -> int | None:
        """The number of the request whose spoiled answer this one goes on from."""
        if not self._watch:
            return None
        if len(call.plain.body) > LARGE:
            await asyncio.to_thread(lambda: call.conversation)
        if call.conversation is None:
            return None
        return self._watch.continued(call.session, call.conversation)

    def _own(self, call: Call) -> tuple[Rule, ...]:
        """The rules that a request brings along."""
        if not call.faults:
            return ()
        if not self._hears_headers:
            raise RequestRefused(400, _HEADERS_OFF)
        if len(call.faults) > _MOST:
            raise RequestRefused(400, f"a request may have {_MOST} headers {FAULT_HEADER}")
        try:
            rules = rules_of(call.faults)
        except UsageError as error:
            raise RequestRefused(400, str(error)) from None
        for rule in rules:
            if rule.kind.scope != "request":
                raise RequestRefused(
                    400, _MUST_STAND.format(printable(rule.text, _SHOWN), rule.kind.name)
                )
            if rule.occasion != Occasion(probability=rule.occasion.probability):
                raise RequestRefused(400, _COUNTS.format(printable(rule.text, _SHOWN)))
        return rules

    async def _live(
        self, source: AsyncGenerator[Burst, None], chain: Chain, resizes: bool, heard: Heard
    ) -> AsyncGenerator[Burst, None]:
        """A live answer, as it arrives.

        Where a rule ends it, its source is read to the end all the same: the recording tells what
        the provider said.
        """
        coming: asyncio.Future[Burst | None] | None = None
        is_there = True
        try:
            while is_there and not chain.over:
                coming = coming or asyncio.ensure_future(_next(source))
                if not await _comes(coming, chain.alarm, heard.call):
                    gone = _gone(chain, partial(chain.tick, heard.call.elapsed()))
                else:
                    burst, coming = await coming, None
                    is_there = burst is not None
                    gone = _gone(
                        chain, chain.close if burst is None else partial(chain.feed, burst)
                    )
                burst = tuple(map(unmeasured, gone) if resizes else gone)
                heard.take(burst)
                yield burst
        finally:
            if is_there and chain.over:
                self._follow(_rest(source, coming))
            else:
                if coming is not None:
                    coming.cancel()
                    await asyncio.wait([coming])
                await source.aclose()

    def _follow(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no client waits for."""
        task = asyncio.ensure_future(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


def _gone(chain: Chain, step: Callable[[], list[Action]]) -> list[Action]:
    """What goes out by the next step of a live answer."""
    try:
        return step()
    except TooMuch as why:  # what has gone out cannot be taken back
        log.warning("an answer is broken off: %s", why)
        chain.over = True
        return [Abort("rst")]


class Heard:
    """What of an answer has gone out."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.head: Head | None = None
        self.body = bytearray()

    def take(self, burst: Burst) -> None:
        """These actions go out."""
        for action in burst:
            if isinstance(action, Begin):
                self.head = action.head
            elif isinstance(action, Send) and len(self.body) < _HEARD:
                self.body += action.data
            elif isinstance(action, Abort):
                return


async def _whole(source: Burst, injection: Injection) -> Burst:
    """A whole answer as it goes out; as it is, where its rules make too much work."""
    chain, _ = injection.chain()
    size = sum(len(it.data) for it in source if isinstance(it, Send))
    try:
        if size > _LARGE_ANSWER or len(chain.rewriters) > _FEW:  # others need not wait for it
            return await asyncio.to_thread(rewritten, source, chain)
        return rewritten(source, chain)
    except TooMuch as why:
        injection.abandon(str(why))
        return source


async def _next(source: AsyncGenerator[Burst, None]) -> Burst | None:
    """The next burst; None at the end."""
    return await anext(source, None)


async def _comes(coming: asyncio.Future[Any], alarm: float | None, call: Call) -> bool:
    """Wait for it, until the moment `alarm`, in ms since the request was read in full."""
    left = None if alarm is None else max(alarm - call.elapsed(), 0) / 1000
    await asyncio.wait([coming], timeout=left)
    return coming.done()


async def _rest(
    source: AsyncGenerator[Burst, None], coming: asyncio.Future[Burst | None] | None
) -> None:
    """Read a live answer to its end, for nobody but the recording."""
    async with aclosing(source):
        with suppress(LlmProxyError):  # the upstream's own failure, of which no client hears
            burst = await coming if coming is not None else ()
            while burst is not None:
                burst = await anext(source, None)
