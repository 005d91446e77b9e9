"""The page that tells the verdict on the clients of this run, as far as it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from llm_proxy.shell.server.control.page import READS, Answered, Asked
from llm_proxy.shell.server.journal import Journal
from llm_proxy.verdict.attempts import read_run
from llm_proxy.verdict.document import document
from llm_proxy.verdict.judging import verdict


class Judged:
    """What the journal says of the clients."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, asked: Asked, /) -> Answered | None:
        """The page, where it is asked for."""
        if asked.method not in READS or asked.path != "/_proxy/verdict":
            return None
        # The journal may be long: a thread reads it.
        return 200, await asyncio.to_thread(_judged, self._journal.document())


def _judged(journal: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict, by the same words that a file or a client of the page is judged by."""
    return document(verdict(read_run(orjson.dumps(journal), "the journal").entries))
