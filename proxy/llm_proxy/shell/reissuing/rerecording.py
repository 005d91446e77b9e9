"""Re-records cassettes: all takes of a request together, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.errors import CassetteError, LlmProxyError, printable_excerpt
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.replacing import replace_takes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.reissuing.reissuer import Reissuer, ReissueSettings, open_reissuer
from llm_proxy.shell.reissuing.take_group import TakeGroup


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
    async with open_reissuer(settings, library.root) as reissuer:
        running_tasks = {
            _rerecord_in_task(reissuer, library, take_group)
            for take_group in islice(remaining, max_concurrent)
        }
        try:
            while running_tasks:
                done, running_tasks = await asyncio.wait(
                    running_tasks, return_when=asyncio.FIRST_COMPLETED
                )
                running_tasks |= {
                    _rerecord_in_task(reissuer, library, take_group)
                    for take_group in islice(remaining, len(done))
                }
                for task in done:
                    yield task.result()
        finally:
            for task in running_tasks:
                task.cancel()
            for task in running_tasks:
                with suppress(asyncio.CancelledError, LlmProxyError):
                    await task


def _rerecord_in_task(
    reissuer: Reissuer, library: Library, group: TakeGroup
) -> asyncio.Task[RerecordedGroup]:
    return asyncio.ensure_future(_rerecord_group(reissuer, library, group))


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
            old_cassette.file, None, f"the new answer is {new_take.outcome}; this one is kept"
        )
    status = new_take.cassette.response_head.status
    if status >= HTTPStatus.BAD_REQUEST and status != old_cassette.response_head.status:
        raise CassetteError(
            old_cassette.file,
            None,
            f"the new answer is {_error_summary(new_take.cassette)}; it is kept",
        )
    return new_take


def _error_summary(cassette: Cassette) -> str:
    error_message = next(
        (turn.failure.message for turn in cassette_response_turns(cassette) if turn.failure), ""
    )
    summary = f"an error, {cassette.response_head.status} {cassette.response_head.reason}".rstrip()
    return f"{summary}: {printable_excerpt(error_message, 200)}" if error_message else summary
