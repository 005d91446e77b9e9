"""Sends stored requests to their providers again, and replaces their takes by the new responses.

All takes of a request are replaced together, or none.  The recorder is the one of `record`, with
a temporary library: the operator's library is not changed until the new response has been checked.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Final

from llm_proxy import providers
from llm_proxy.cassette import Cassette, CassetteMeta, StoredRequest
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.errors import (
    CassetteError,
    LlmProxyError,
    SpoolError,
    UsageError,
    printable_excerpt,
)
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.reissue import reissued_request
from llm_proxy.routing import RoutingSettings, route_request
from llm_proxy.shell.library.library import Library, TakeGroup, locked_folder, sync_folder
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings

_FOLDER_PREFIX: Final = ".rerecorded-"
"""Name prefix of a folder of unchecked new responses; library scans skip it."""


@dataclass(frozen=True, slots=True)
class ReissueSettings:
    """How stored requests are sent to their providers."""

    upstream_settings: UpstreamSettings
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """API keys by provider name."""
    rules: RuleSet = NO_RULES
    """The matching rules for the keys of the new cassettes."""


def api_keys_from_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The API keys in the environment variables `environ`, by provider name."""
    api_keys = {
        provider.name: next(
            (key for name in provider.key_env_vars if (key := environ.get(name, "").strip())), ""
        )
        for provider in providers.PROVIDERS
    }
    return {provider: key for provider, key in api_keys.items() if key}


def check_api_keys(settings: ReissueSettings, provider_names: set[str]) -> None:
    """Raise `UsageError` if one of these has no API key and is used at its public address."""
    for name in sorted(provider_names - settings.api_keys.keys()):
        if providers.needs_api_key(name, settings.upstream_settings.base_urls):
            variables = " or ".join(providers.key_env_vars(name))
            raise UsageError(f"no API key for {name}; set {variables}, or --upstream {name}=URL")


@dataclass(slots=True)
class Reissuer:
    """Sends stored requests again.  `open_reissuer` creates one."""

    settings: ReissueSettings
    upstream: LiveUpstream
    folder: Path
    """The folder of new cassettes."""
    is_shared: bool = False
    """Whether they get the mode that the umask gives."""
    _count: int = 0

    async def reissue(self, file: str, meta: CassetteMeta, stored: StoredRequest) -> FiledCassette:
        """Send a stored request again; returns the new response as a cassette in no library.

        Raises `CassetteError` for a request that cannot be rebuilt, `UpstreamFailed` if no
        response came, `RequestRefused` for a request that cannot be sent, and `SpoolError` if the
        response could not be recorded, or may belong to another request.
        """
        settings = self.settings
        is_signed = (
            meta.provider == providers.SIGNED_PROVIDER and settings.upstream_settings.signs_requests
        )
        key = "" if is_signed else settings.api_keys.get(meta.provider, "")
        request = reissued_request(file, meta, stored, key)
        clock = asyncio.get_running_loop().time
        routing = RoutingSettings(
            meta.session, settings.rules, environment_secret_spellings(os.environ)
        )
        routed = route_request(request, clock(), clock, settings=routing)
        routed = replace(routed, provider=meta.provider, session=meta.session)
        self._count += 1
        folder = self.folder / str(self._count)
        filed_cassettes: list[FiledCassette] = []
        loss_reasons: list[str] = []
        events = RecorderEvents(
            lambda _, filed_cassette: filed_cassettes.append(filed_cassette),
            lambda _, why: loss_reasons.append(why),
        )
        recorder = SpoolRecorder(
            Library(folder / "cassettes", is_shared=self.is_shared),
            folder / "spool",
            events,
            replaces_older=False,
        )
        try:
            burst_stream = self.upstream.stream(routed, partial(recorder.start_recording, routed))
            async with aclosing(burst_stream) as bursts:
                async for _ in bursts:
                    pass  # recorded by the recorder
        finally:
            await recorder.close()
        loss_reasons += self.upstream.surplus_warnings
        if loss_reasons or not filed_cassettes:
            raise SpoolError("; ".join(loss_reasons) or "no response was recorded")
        return filed_cassettes[0]


@asynccontextmanager
async def open_reissuer(
    settings: ReissueSettings, library: Library | None = None
) -> AsyncIterator[Reissuer]:
    """A `Reissuer`; on exit, new cassettes that were not moved elsewhere are deleted.

    They are in a folder of `library`, from which they can be renamed to their places in it, or in
    the folder of temporary files.  Raises `UsageError` if requests cannot be signed, or the folder
    cannot be written.
    """
    parent_folder = library.root if library is not None else None
    try:
        temporary = tempfile.TemporaryDirectory(prefix=_FOLDER_PREFIX, dir=parent_folder)
    except OSError as error:
        folder_name = parent_folder or "the temporary folder"
        raise UsageError(
            f"cannot write {folder_name}: {error.strerror}; no request was sent"
        ) from None
    with temporary as folder:
        async with LiveUpstream(settings.upstream_settings) as upstream:
            is_shared = library is not None and library.is_shared
            yield Reissuer(settings, upstream, Path(folder), is_shared)


async def fetch_live_response(settings: ReissueSettings, cassette: Cassette) -> Cassette:
    """The provider's current response to a cassette's request, as it would be recorded; not kept.

    Raises the same errors as `Reissuer.reissue`.
    """
    async with open_reissuer(settings) as reissuer:
        return (await reissuer.reissue(cassette.file, cassette.meta, cassette.request)).cassette


@dataclass(frozen=True, slots=True)
class RerecordedGroup:
    """The result of re-recording one group."""

    group: TakeGroup
    failure: str
    """Why the old takes were kept; empty if they were replaced."""
    new_paths: tuple[Path, ...]
    """The files of the new takes."""
    duration_s: float


async def rerecord_groups(
    settings: ReissueSettings, library: Library, groups: Sequence[TakeGroup], max_concurrent: int
) -> AsyncGenerator[RerecordedGroup, None]:
    """Re-record these groups, at most `max_concurrent` at a time, and yield each when it is done.

    Takes of a group are re-recorded one after the other, in order.  Raises `UsageError` if
    requests cannot be signed.
    """
    remaining = iter(groups)
    async with open_reissuer(settings, library) as reissuer:
        tasks = {
            asyncio.ensure_future(_rerecord_group(reissuer, library, group))
            for group in islice(remaining, max_concurrent)
        }
        try:
            while tasks:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                tasks |= {
                    asyncio.ensure_future(_rerecord_group(reissuer, library, group))
                    for group in islice(remaining, len(done))
                }
                for task in done:
                    yield task.result()
        finally:
            for unfinished in tasks:
                unfinished.cancel()
            for unfinished in tasks:
                with suppress(asyncio.CancelledError, LlmProxyError):
                    await unfinished


async def _rerecord_group(
    reissuer: Reissuer, library: Library, group: TakeGroup
) -> RerecordedGroup:
    loop = asyncio.get_running_loop()
    started_at_s = loop.time()
    try:
        new_takes = [await _rerecord_take(reissuer, library, path) for path in group.paths]
        takes = [(filed_cassette.path, filed_cassette.cassette) for filed_cassette in new_takes]
        replace_task = asyncio.ensure_future(
            asyncio.to_thread(replace_takes, library, group.paths, takes)
        )
        try:
            new_paths = await asyncio.shield(replace_task)
        except asyncio.CancelledError:
            await replace_task  # all takes or none: their temporary folder is deleted afterwards
            raise
    except LlmProxyError as error:
        return RerecordedGroup(group, str(error), (), loop.time() - started_at_s)
    return RerecordedGroup(group, "", tuple(new_paths), loop.time() - started_at_s)


async def _rerecord_take(reissuer: Reissuer, library: Library, path: Path) -> FiledCassette:
    """Record a new take of this one's request.

    Raises `LlmProxyError` if there is none, it is incomplete, or it is a new error response.
    """
    old_cassette = await asyncio.to_thread(library.load_cassette, path)
    new_take = await reissuer.reissue(old_cassette.file, old_cassette.meta, old_cassette.request)
    if not new_take.outcome.is_complete:
        raise CassetteError(
            old_cassette.file, None, f"the new response is {new_take.outcome}; the old take is kept"
        )
    status = new_take.cassette.response_head.status
    if status >= HTTPStatus.BAD_REQUEST and status != old_cassette.response_head.status:
        turns = cassette_response_turns(new_take.cassette)
        message = next((turn.failure.message for turn in turns if turn.failure), "")
        summary = f"an error, {status} {new_take.cassette.response_head.reason}".rstrip()
        if message:
            summary += f": {printable_excerpt(message, 200)}"
        raise CassetteError(
            old_cassette.file, None, f"the new response is {summary}; the old take is kept"
        )
    return new_take


def replace_takes(
    library: Library, old_paths: Sequence[Path], new_takes: Sequence[tuple[Path, Cassette]]
) -> list[Path]:
    """Move the new takes, each a file on the library's file system, in place of the old ones.

    Returns their new paths; they become takes 1, 2, 3… in their order.  Each move is atomic, and
    old takes are deleted last.  Raises `SpoolError` if the library cannot be written, or another
    process's take has one of the paths.
    """
    targets = [
        library.path_for_take(cassette.meta, cassette.request, number)
        for number, (_, cassette) in enumerate(new_takes, 1)
    ]
    try:
        with locked_folder(library.root):
            for target in targets:
                if target not in old_paths and target.exists():
                    raise SpoolError(
                        f"{target} is not one of the replaced takes; another process may have "
                        "recorded this file; no cassette was changed"
                    )
            for (path, _), target in zip(new_takes, targets, strict=True):
                library.make_folder(target.parent)
                path.replace(target)
            for path in set(old_paths) - set(targets):
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in (*targets, *old_paths)}:
                sync_folder(folder)
    except OSError as error:
        raise SpoolError(f"cannot write {library.root}: {error.strerror}") from None
    return targets
