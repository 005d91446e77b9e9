"""Builds what a mode responds from: cassettes, providers, a recorder, scenarios."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy import providers
from llm_proxy.modes import AutoMode, Mode, RecordMode, ReplayMode, SimulateMode, TakePlayer
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTakes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.running.pace_registry import PaceRegistry
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.settings_checks import auto_goes_live, check_folders, records_anything
from llm_proxy.shell.running.simulation import SequentialOffload, is_simulating, make_simulator
from llm_proxy.shell.server.journal import Journal, RecordedFile
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

log: Final = logging.getLogger("llm_proxy")

ModeName = Literal["record", "replay", "auto", "simulate"]


@dataclass(frozen=True, slots=True)
class ModeSources:
    """What a mode may answer with; None for what it never does."""

    library: Library
    """As it is when the run begins."""
    paces: PaceRegistry
    upstream: LiveUpstream | None
    recorder: SpoolRecorder | None
    simulate: SimulateMode | None
    takes: LibraryTakes | None


async def mode_sources(
    mode: ModeName, settings: Settings, journal: Journal, stack: AsyncExitStack
) -> ModeSources:
    """What answers in this mode; the stack sees recordings into the library, and lets go of it."""
    if records_anything(mode, settings):
        await asyncio.to_thread(check_folders, settings)
    paces = PaceRegistry(settings.pace, settings.seed)
    simulate = (
        await make_simulator(mode, settings, paces) if is_simulating(mode, settings) else None
    )
    library = Library(settings.cassettes)
    if mode != "simulate":
        await asyncio.to_thread(library.refresh)
    recorder: SpoolRecorder | None = None
    upstream: LiveUpstream | None = None
    if mode in {"record", "auto"}:
        recorder = await _make_recorder(mode, settings, library, journal)
        stack.push_async_callback(recorder.close)
        upstream = await stack.enter_async_context(await _live_upstream(mode, settings))
    takes = _library_takes(settings, library) if mode in {"replay", "auto"} else None
    return ModeSources(library, paces, upstream, recorder, simulate, takes)


def make_mode(name: ModeName, settings: Settings, sources: ModeSources) -> Mode:
    """The mode of that name."""
    player = TakePlayer(sources.paces, SequentialOffload(), settings.matching.nearest)
    match name, sources:
        case "simulate", ModeSources(simulate=SimulateMode() as simulate):
            return simulate
        case "record", ModeSources(
            upstream=LiveUpstream() as upstream, recorder=SpoolRecorder() as keeper
        ):
            return RecordMode(upstream, keeper)
        case "auto", ModeSources(
            upstream=LiveUpstream() as upstream,
            recorder=SpoolRecorder() as keeper,
            takes=LibraryTakes() as takes,
        ):
            otherwise = settings.on_miss
            on_miss = sources.simulate or ("fail" if otherwise == "scenario" else otherwise)
            return AutoMode(takes, upstream, keeper, player, on_miss)
        case _, ModeSources(takes=LibraryTakes() as takes):
            return ReplayMode(takes, player, settings.after_last, sources.simulate)
        case _:
            raise AssertionError(f"{name} lacks what it answers with")


def _library_takes(settings: Settings, library: Library) -> LibraryTakes:
    rules = settings.matching.rules
    return LibraryTakes(library, allow_partial=settings.allow_partial, rules=rules)


async def _make_recorder(
    mode: ModeName, settings: Settings, library: Library, journal: Journal
) -> SpoolRecorder:
    """The recorder, with a view of the library of its own: it adds to it as it goes."""

    def filed(label: str, filed_cassette: FiledCassette) -> None:
        journal.add_recorded(
            RecordedFile(
                str(filed_cassette.path),
                str(filed_cassette.outcome),
                filed_cassette.outcome.complete,
            )
        )
        log.info("%s: %s (%s)", filed_cassette.path, filed_cassette.outcome, label)

    def failed(what: str, why: str) -> None:
        journal.add_recording_failure(why)
        log.error("not recorded: %s: %s", what, why)

    own = library if mode == "record" else library.shared_view()
    events = RecorderEvents(filed, failed)
    recorder = SpoolRecorder(own, settings.spool, events, renew=mode == "record")
    await recorder.wait_until_scanned()
    return recorder


def _upstream_settings(settings: Settings) -> UpstreamSettings:
    return UpstreamSettings(
        base_urls=settings.upstreams,
        in_place_of_v1=settings.client_chosen_upstreams,
        idle_timeout=settings.idle_timeout,
        proxy=settings.upstream_proxy,
        finish_on_disconnect=settings.finish_on_disconnect,
    )


async def _live_upstream(mode: ModeName, settings: Settings) -> LiveUpstream:
    """The providers, with what signs requests on their way where any may be sent."""
    signer: AwsSigner | None = None
    if settings.sign is not None and (mode == "record" or auto_goes_live(settings)):
        bedrock = providers.upstream_address(BEDROCK, settings.upstreams)
        signer = await asyncio.to_thread(AwsSigner, bedrock)
    return LiveUpstream(_upstream_settings(settings), signer)
