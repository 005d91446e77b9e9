"""What a mode answers with: cassettes, providers, a recorder, scenarios."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy import providers
from llm_proxy.modes import Auto, Mode, Player, Record, Replay, Simulate
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import TakesOnDisk
from llm_proxy.shell.recording.cassette_filer import Filed
from llm_proxy.shell.recording.recorder import Recorder, RecorderEvents
from llm_proxy.shell.running.pace_registry import Paces
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.settings_checks import check_folders, goes_live, records
from llm_proxy.shell.running.simulation import OneByOne, simulates, simulator
from llm_proxy.shell.server.journal import Journal, Recorded
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

log: Final = logging.getLogger("llm_proxy")

ModeName = Literal["record", "replay", "auto", "simulate"]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a mode may answer with; None for what it never does."""

    library: Library
    """As it is when the run begins."""
    paces: Paces
    upstream: LiveUpstream | None
    recorder: Recorder | None
    simulate: Simulate | None
    takes: TakesOnDisk | None


async def sources_of(
    mode: ModeName, settings: Settings, journal: Journal, stack: AsyncExitStack
) -> Sources:
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
    return Sources(library, paces, upstream, recorder, simulate, takes)


def mode_of(name: ModeName, settings: Settings, sources: Sources) -> Mode:
    """The mode of that name."""
    player = Player(sources.paces, OneByOne(), settings.matching.nearest)
    match name, sources:
        case "simulate", Sources(simulate=Simulate() as simulate):
            return simulate
        case "record", Sources(upstream=LiveUpstream() as upstream, recorder=Recorder() as keeper):
            return Record(upstream, keeper)
        case "auto", Sources(
            upstream=LiveUpstream() as upstream,
            recorder=Recorder() as keeper,
            takes=TakesOnDisk() as takes,
        ):
            otherwise = settings.on_miss
            on_miss = sources.simulate or ("fail" if otherwise == "scenario" else otherwise)
            return Auto(takes, upstream, keeper, player, on_miss)
        case _, Sources(takes=TakesOnDisk() as takes):
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
