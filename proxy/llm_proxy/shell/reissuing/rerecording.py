"""Cassettes asked again and replaced: all takes of a request together, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import turns_of
from llm_proxy.errors import CassetteError, LlmProxyError, printable
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.replacing import replace_takes
from llm_proxy.shell.recording.cassette_filer import Filed
from llm_proxy.shell.reissuing.reissuer import Again, Asking, asking_again
from llm_proxy.shell.reissuing.take_group import Group


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a group."""

    group: Group
    failure: str
    """Why its old takes were kept; empty where they were replaced."""
    files: tuple[Path, ...]
    """The new takes."""
    seconds: float


async def rerecorded(
    asking: Asking, library: Library, groups: Sequence[Group], jobs: int
) -> AsyncGenerator[Done, None]:
    """Ask these groups again, so many at once; gives each as it is done.

    Takes of a group are asked one after the other, in their order.  Raises `UsageError` where
    requests cannot be signed.
    """
    left = iter(groups)
    async with asking_again(asking, library.root) as again:
        running = {_started(again, library, it) for it in islice(left, jobs)}
        try:
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                running |= {_started(again, library, it) for it in islice(left, len(done))}
                for each in done:
                    yield each.result()
        finally:
            for each in running:
                each.cancel()
            for each in running:
                with suppress(asyncio.CancelledError, LlmProxyError):
                    await each


def _started(again: Again, library: Library, group: Group) -> asyncio.Task[Done]:
    return asyncio.ensure_future(_rerecorded(again, library, group))


async def _rerecorded(again: Again, library: Library, group: Group) -> Done:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        new = [await _asked(again, library, path) for path in group.files]
        takes = [(it.path, it.cassette) for it in new]
        placing = asyncio.ensure_future(
            asyncio.to_thread(replace_takes, library, group.files, takes)
        )
        try:
            files = await asyncio.shield(placing)
        except asyncio.CancelledError:
            await placing  # all takes or none: their folder is deleted after that
            raise
    except LlmProxyError as error:
        return Done(group, str(error), (), loop.time() - began)
    return Done(group, "", tuple(files), loop.time() - began)


async def _asked(again: Again, library: Library, path: Path) -> Filed:
    """The new take in the place of this one.

    Raises `LlmProxyError` where there is none, or it is no better.
    """
    old = await asyncio.to_thread(library.load, path)
    new = await again.ask(old.file, old.meta, old.request)
    if not new.outcome.complete:
        raise CassetteError(old.file, None, f"the new answer is {new.outcome}; this one is kept")
    status = new.cassette.head.status
    if status >= HTTPStatus.BAD_REQUEST and status != old.head.status:
        raise CassetteError(old.file, None, f"the new answer is {_error(new.cassette)}; it is kept")
    return new


def _error(it: Cassette) -> str:
    """An answer that is an error, in a few words."""
    said = next((turn.failure.message for turn in turns_of(it) if turn.failure), "")
    what = f"an error, {it.head.status} {it.head.reason}".rstrip()
    return f"{what}: {printable(said, 200)}" if said else what
