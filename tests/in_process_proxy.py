"""Runs the proxy in the test process."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from llm_proxy.cassette import Cassette
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import RunningProxy, run_proxy
from llm_proxy.shell.running.settings import ModeName, Settings


def settings(folder: Path, **changes: Any) -> Settings:
    """Settings for a server on a free port, with all its files below `folder`."""
    defaults = Settings(
        cassettes=folder / "cassettes", spool=folder / "spool", port=0, idle_timeout=30.0
    )
    return dataclasses.replace(defaults, **changes)


@asynccontextmanager
async def proxy(
    mode: ModeName, folder: Path, upstream: str = "", **changes: Any
) -> AsyncIterator[RunningProxy]:
    """Run a proxy; `upstream` serves every provider.  On exit, all recordings are on disk."""
    upstreams = {"default": upstream} if upstream else {}
    async with run_proxy(mode, settings(folder, upstreams=upstreams, **changes)) as running_proxy:
        yield running_proxy


def load_cassettes(folder: Path) -> list[Cassette]:
    """Load every cassette that was recorded below `folder`, in order of the file names."""
    library = Library(folder / "cassettes")
    library.refresh()
    return [library.load_cassette(path) for path in library.cassette_paths()]
