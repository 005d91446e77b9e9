"""A server from start to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from aiohttp import web

from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.faults.injector import Injector
from llm_proxy.modes import Auto, Mode, Player, Record, Replay, Simulate
from llm_proxy.routing import Routing
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.takes_on_disk import TakesOnDisk
from llm_proxy.shell.recording.filing import Filed
from llm_proxy.shell.recording.recorder import Recorder, RecorderEvents
from llm_proxy.shell.running.advice import check_folders, goes_live, records
from llm_proxy.shell.running.doors import BACKLOG, Doors
from llm_proxy.shell.running.faulting import check_live, conditions
from llm_proxy.shell.running.paces import Paces
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.simulating import OneByOne, simulates, simulator
from llm_proxy.shell.server.control import Control
from llm_proxy.shell.server.control.faults import Faults
from llm_proxy.shell.server.control.judged import Judged
from llm_proxy.shell.server.control.pace import Pacing
from llm_proxy.shell.server.control.sessions import Sessions
from llm_proxy.shell.server.control.told import Told
from llm_proxy.shell.server.guards import Guards
from llm_proxy.shell.server.injecting import Injecting
from llm_proxy.shell.server.intake import Admission, ServerLimits
from llm_proxy.shell.server.journal import Journal, Recorded
from llm_proxy.shell.server.retries import Retries
from llm_proxy.shell.server.server import Server
from llm_proxy.shell.server.usage import Usage
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

log: Final = logging.getLogger("llm_proxy")

ModeName = Literal["record", "replay", "auto", "simulate"]

_DRAIN: Final = 30.0
"""Seconds that streams have to end in, once we are told to stop."""
_LAST_MOMENT: Final = 0.5
"""Seconds that the clients of cut streams have to take what had arrived."""
_KEEPALIVE: Final = 75.0
"""Seconds that a connection may be idle, or take for the head of a request."""
_SWITCH: Final = 0.0005
"""Seconds after which a busy thread of ours lets the event loop have its turn."""
_LARGEST_HEADER: Final = 64 * 1024


@dataclass
class RunningProxy:
    """A server that is up."""

    url: str
    server: Server
    injecting: Injecting
    journal: Journal
    upstream: LiveUpstream | None
    recorder: Recorder | None
    library: Library
    """As it was when the run began, unless this records alone."""
    stop_listening: Callable[[], Coroutine[None, None, None]]

    def busy(self) -> int:
        """Streams that are not over."""
        return max(self.server.active, self.upstream.running if self.upstream else 0)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take no more requests; let streams end, for 30 s or until `hurry`, then cut them."""
        await self.stop_listening()
        self.server.wind_down()
        await self._until_idle(_DRAIN, hurry)
        if self.upstream is not None:
            await self.upstream.cut()
            await self._until_idle(_LAST_MOMENT, asyncio.Event())
        self.server.cut()

    async def _until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.busy() and not hurry.is_set() and loop.time() < deadline:  # noqa: ASYNC110 # two counters, and only while stopping
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(mode: ModeName, settings: Settings) -> AsyncIterator[RunningProxy]:
    """A server in this mode; on the way out every recording is seen into the library.

    Raises `UsageError` where the settings do not allow it to run.
    """
    check_live(mode, settings.faults)
    sys.setswitchinterval(_SWITCH)
    journal = Journal(Usage(settings.cassettes, settings.care.max_age))
    async with AsyncExitStack() as stack:
        sources = await _sources(mode, settings, journal, stack)
        chosen = await _mode(mode, settings, sources)
        injecting = _injecting(settings, journal)
        server = _server(chosen, settings, journal, sources, injecting)
        listener = server.listener(
            access_log=None,
            keepalive_timeout=_KEEPALIVE,
            auto_decompress=False,
            max_line_size=_LARGEST_HEADER,
            max_field_size=_LARGEST_HEADER,
        )
        runner = web.ServerRunner(listener, shutdown_timeout=_LAST_MOMENT)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(server.wind_down)
        port = await _listen(runner, settings)
        url = f"http://{_shown(settings.host)}:{port}"
        _refuse_self(settings, port)
        if sources.takes is not None:
            sources.takes.indexing.begin(lambda: server.active > 0)
            stack.callback(sources.takes.indexing.stop)
        doors = Doors(runner, injecting)
        stack.push_async_callback(doors.stop)
        await doors.follow()
        upstream, recorder = sources.upstream, sources.recorder
        library = sources.library
        yield RunningProxy(url, server, injecting, journal, upstream, recorder, library, doors.stop)


def _injecting(settings: Settings, journal: Journal) -> Injecting:
    """What injects the faults of the run, of which the journal tells."""
    injector = Injector(settings.faults, conditions(settings))
    journal.tell_rules(lambda: [it.told() for it in injector.standing])
    return Injecting(injector, hears_headers=settings.fault_header)


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a mode may answer with; None for what it never does."""

    library: Library
    """As it is when the run begins."""
    paces: Paces
    upstream: LiveUpstream | None
    recorder: Recorder | None
    simulate: Simulate | None
    takes: TakesOnDisk | None


def _server(
    mode: Mode, settings: Settings, journal: Journal, sources: _Sources, injecting: Injecting
) -> Server:
    """The server of this mode, with its pages."""
    choose = None if sources.simulate is None else sources.simulate.choose
    control = Control(
        (
            Told(mode, journal),
            Judged(journal),
            Sessions(mode, choose, (injecting.reset, sources.paces.reset)),
            Faults(injecting),
            Pacing(sources.paces, mode.name),
        )
    )
    guards = Guards(settings.allow_hosts, settings.allow_origins)
    routing = Routing(settings.matching.session, settings.matching.rules)
    retries = Retries(collapses=settings.matching.collapse_retries)
    admission = Admission(guards, ServerLimits(settings.max_body), routing, retries)
    return Server(mode, admission, journal, control, injecting)


async def _sources(
    mode: ModeName, settings: Settings, journal: Journal, stack: AsyncExitStack
) -> _Sources:
    """What answers in this mode; the stack sees recordings into the library, and lets go of it."""
    if records(mode, settings):
        await asyncio.to_thread(check_folders, settings)
    paces = Paces(settings.pace, settings.seed)
    simulate = await simulator(mode, settings, paces) if simulates(mode, settings) else None
    library = Library(settings.cassettes)
    if mode != "simulate":
        await asyncio.to_thread(library.refresh)
    recorder: Recorder | None = None
    upstream: LiveUpstream | None = None
    if mode in {"record", "auto"}:
        recorder = await _recorder(mode, settings, library, journal)
        stack.push_async_callback(recorder.close)
        upstream = await stack.enter_async_context(await _live(mode, settings))
    takes = _takes(settings, library) if mode in {"replay", "auto"} else None
    return _Sources(library, paces, upstream, recorder, simulate, takes)


async def _mode(name: ModeName, settings: Settings, sources: _Sources) -> Mode:
    """The mode of that name."""
    player = Player(sources.paces, OneByOne(), settings.matching.nearest)
    match name, sources:
        case "simulate", _Sources(simulate=Simulate() as simulate):
            return simulate
        case "record", _Sources(upstream=LiveUpstream() as upstream, recorder=Recorder() as keeper):
            return Record(upstream, keeper)
        case "auto", _Sources(
            upstream=LiveUpstream() as upstream,
            recorder=Recorder() as keeper,
            takes=TakesOnDisk() as takes,
        ):
            otherwise = settings.on_miss
            on_miss = sources.simulate or ("fail" if otherwise == "scenario" else otherwise)
            return Auto(takes, upstream, keeper, player, on_miss)
        case _, _Sources(takes=TakesOnDisk() as takes):
            return Replay(takes, player, settings.after_last, sources.simulate)
        case _:
            raise AssertionError(f"{name} lacks what it answers with")


def _takes(settings: Settings, library: Library) -> TakesOnDisk:
    rules = settings.matching.rules
    return TakesOnDisk(library, allow_partial=settings.allow_partial, rules=rules)


async def _recorder(
    mode: ModeName, settings: Settings, library: Library, journal: Journal
) -> Recorder:
    """The recorder, with a view of the library of its own: it adds to it as it goes."""

    def filed(what: str, it: Filed) -> None:
        journal.keep(Recorded(str(it.path), str(it.outcome), it.outcome.complete))
        log.info("%s: %s (%s)", it.path, it.outcome, what)

    def failed(what: str, why: str) -> None:
        journal.lose(why)
        log.error("not recorded: %s: %s", what, why)

    own = library if mode == "record" else library.twin()
    events = RecorderEvents(filed, failed)
    recorder = Recorder(own, settings.spool, events, renew=mode == "record")
    await recorder.looked()
    return recorder


def _upstream(settings: Settings) -> UpstreamSettings:
    return UpstreamSettings(
        addresses=settings.upstreams,
        in_place_of_v1=settings.clients_own,
        idle=settings.idle_timeout,
        proxy=settings.upstream_proxy,
        finish_on_disconnect=settings.finish_on_disconnect,
    )


async def _live(mode: ModeName, settings: Settings) -> LiveUpstream:
    """The providers, with what signs requests on their way where any may be sent."""
    signer: AwsSigner | None = None
    if settings.sign is not None and (mode == "record" or goes_live(settings)):
        bedrock = providers.address(BEDROCK, settings.upstreams)
        signer = await asyncio.to_thread(AwsSigner, bedrock)
    return LiveUpstream(_upstream(settings), signer)


async def _listen(runner: web.ServerRunner, settings: Settings) -> int:
    host, port = settings.host, settings.port
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG, reuse_port=False).start()
    except socket.gaierror:
        raise UsageError(f"--host {host}: there is no such address here") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} of {host} is in use: stop the program that has it, or give "
                "--port 0 for any free one"
            ) from None
        why = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"cannot listen on {host}:{port} ({why}): give --host an address of this machine, "
            "and --port one that you may use"
        ) from None
    return int(runner.addresses[0][1])


def _shown(host: str) -> str:
    """A host that clients can connect to: never the name `localhost`, which may be another's."""
    match host:
        case "0.0.0.0" | "" | "localhost":  # noqa: S104 # told by the operator, not chosen
            return "127.0.0.1"
        case "::":
            return "[::1]"
        case _:
            return f"[{host}]" if ":" in host else host


def _refuse_self(settings: Settings, port: int) -> None:
    for name, address in settings.upstreams.items():
        for own in ("127.0.0.1", "localhost", "[::1]", settings.host):
            if address.split("://", 1)[-1].split("/", 1)[0] == f"{own}:{port}":
                raise UsageError(f"--upstream {name}={address} is this proxy itself")
