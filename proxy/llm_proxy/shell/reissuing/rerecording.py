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
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.errors import CassetteError, LlmProxyError, printable
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.replacing import replace_takes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.reissuing.reissuer import Reissuer, ReissueSettings, reissuing
from llm_proxy.shell.reissuing.take_group import TakeGroup


@dataclass(frozen=True, slots=True)
class RerecordedGroup:
    """What became of a group."""

    group: TakeGroup
    failure: str
    """Why its old takes were kept; empty where they were replaced."""
    files: tuple[Path, ...]
    """The new takes."""
    seconds: float


async def rerecord(
    asking: ReissueSettings, library: Library, groups: Sequence[TakeGroup], jobs: int
) -> AsyncGenerator[RerecordedGroup, None]:
    """Ask these groups again, so many at once; gives each as it is done.

    Takes of a group are asked one after the other, in their order.  Raises `UsageError` where
    requests cannot be signed.
    """
    left = iter(groups)
    async with reissuing(asking, library.root) as again:
        running = {
            _rerecord_in_task(again, library, take_group) for take_group in islice(left, jobs)
        }
        try:
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                running |= {
                    _rerecord_in_task(again, library, take_group)
                    for take_group in islice(left, len(done))
                }
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            for task in running:
                with suppress(asyncio.CancelledError, LlmProxyError):
                    await task


def _rerecord_in_task(
    again: Reissuer, library: Library, group: TakeGroup
) -> asyncio.Task[RerecordedGroup]:
    return asyncio.ensure_future(_rerecord_group(again, library, group))


async def _rerecord_group(again: Reissuer, library: Library, group: TakeGroup) -> RerecordedGroup:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        new = [await _rerecord_take(again, library, path) for path in group.files]
        takes = [(filed_cassette.path, filed_cassette.cassette) for filed_cassette in new]
        placing = asyncio.ensure_future(
            asyncio.to_thread(replace_takes, library, group.files, takes)
        )
        try:
            files = await asyncio.shield(placing)
        except asyncio.CancelledError:
            await placing  # all takes or none: their folder is deleted after that
            raise
    except LlmProxyError as error:
        return RerecordedGroup(group, str(error), (), loop.time() - began)
    return RerecordedGroup(group, "", tuple(files), loop.time() - began)


async def _rerecord_take(again: Reissuer, library: Library, path: Path) -> FiledCassette:
    """The new take in the place of this one.

    Raises `LlmProxyError` where there is none, or it is no better.
    """
    old = await asyncio.to_thread(library.load_cassette, path)
    new = await again.reissue(old.file, old.meta, old.request)
    if not new.outcome.complete:
        raise CassetteError(old.file, None, f"the new answer is {new.outcome}; this one is kept")
    status = new.cassette.head.status
    if status >= HTTPStatus.BAD_REQUEST and status != old.head.status:
        raise CassetteError(
            old.file, None, f"the new answer is {_error_summary(new.cassette)}; it is kept"
        )
    return new


def _error_summary(cassette: Cassette) -> str:
    text = next((turn.failure.message for turn in cassette_turns(cassette) if turn.failure), "")
    content = f"an error, {cassette.head.status} {cassette.head.reason}".rstrip()
    return f"{content}: {printable(text, 200)}" if text else content
