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
from llm_proxy.shell.running.settings_checks import auto_may_go_live, check_folders, may_record
from llm_proxy.shell.running.simulation import SequentialOffload, is_simulating, make_simulate_mode
from llm_proxy.shell.server.journal import Journal, RecordedFile
from llm_proxy.shell.upstream.live import LiveUpstream
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner

log: Final = logging.getLogger("llm_proxy")

ModeName = Literal["record", "replay", "auto", "simulate"]


@dataclass(frozen=True, slots=True)
class ModeSources:
    """What a mode responds from; None for a source that the mode does not use."""

    library: Library
    """The library as it is when the run begins."""
    pace_registry: PaceRegistry
    upstream: LiveUpstream | None
    recorder: SpoolRecorder | None
    simulate_mode: SimulateMode | None
    takes: LibraryTakes | None


async def open_mode_sources(
    mode: ModeName, settings: Settings, journal: Journal, stack: AsyncExitStack
) -> ModeSources:
    """Open the sources of this mode; `stack` closes them, and files the recordings."""
    if may_record(mode, settings):
        await asyncio.to_thread(check_folders, settings)
    paces = PaceRegistry(settings.pace, settings.seed)
    simulate = (
        await make_simulate_mode(mode, settings, paces) if is_simulating(mode, settings) else None
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
    """Create the mode of that name."""
    player = TakePlayer(sources.pace_registry, SequentialOffload(), settings.matching.nearest)
    match name, sources:
        case "simulate", ModeSources(simulate_mode=SimulateMode() as simulate):
            return simulate
        case "record", ModeSources(
            upstream=LiveUpstream() as upstream, recorder=SpoolRecorder() as recorder
        ):
            return RecordMode(upstream, recorder)
        case "auto", ModeSources(
            upstream=LiveUpstream() as upstream,
            recorder=SpoolRecorder() as recorder,
            takes=LibraryTakes() as takes,
        ):
            on_miss_setting = settings.on_miss
            on_miss = sources.simulate_mode or (
                "fail" if on_miss_setting == "scenario" else on_miss_setting
            )
            return AutoMode(takes, upstream, recorder, player, on_miss)
        case _, ModeSources(takes=LibraryTakes() as takes):
            return ReplayMode(takes, player, settings.after_last, sources.simulate_mode)
        case _:
            raise AssertionError(f"{name} lacks what it answers with")


def _library_takes(settings: Settings, library: Library) -> LibraryTakes:
    rules = settings.matching.rules
    return LibraryTakes(library, allow_partial=settings.allow_partial, rules=rules)


async def _make_recorder(
    mode: ModeName, settings: Settings, library: Library, journal: Journal
) -> SpoolRecorder:
    """The recorder; in `auto` with its own copy of the library's index, which it adds to."""

    def on_filed(request_description: str, filed_cassette: FiledCassette) -> None:
        journal.add_recorded_file(
            RecordedFile(
                str(filed_cassette.path),
                str(filed_cassette.outcome),
                filed_cassette.outcome.is_complete,
            )
        )
        log.info("%s: %s (%s)", filed_cassette.path, filed_cassette.outcome, request_description)

    def on_failed(request_description: str, reason: str) -> None:
        journal.add_recording_failure(reason)
        log.error("not recorded: %s: %s", request_description, reason)

    recorder_library = library if mode == "record" else library.with_copied_index()
    events = RecorderEvents(on_filed, on_failed)
    recorder = SpoolRecorder(
        recorder_library, settings.spool, events, replaces_older=mode == "record"
    )
    await recorder.wait_until_scanned()
    return recorder


def _upstream_settings(settings: Settings) -> UpstreamSettings:
    return UpstreamSettings(
        base_urls=settings.upstreams,
        replacing_v1=settings.client_chosen_upstreams,
        idle_timeout_s=settings.idle_timeout,
        proxy_url=settings.upstream_proxy,
        finish_on_disconnect=settings.finish_on_disconnect,
    )


async def _live_upstream(mode: ModeName, settings: Settings) -> LiveUpstream:
    """The live upstream, with a signer if one is configured and requests may go live."""
    signer: AwsSigner | None = None
    if settings.sign is not None and (mode == "record" or auto_may_go_live(settings)):
        bedrock_url = providers.upstream_url(BEDROCK, settings.upstreams)
        signer = await asyncio.to_thread(AwsSigner, bedrock_url)
    return LiveUpstream(_upstream_settings(settings), signer)
