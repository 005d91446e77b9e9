"""The control page with the verdict on this run's clients so far."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from llm_proxy.shell.server.control.page import READS, Answered, PageRequest
from llm_proxy.shell.server.journal import Journal
from llm_proxy.verdict.attempts import parse_run
from llm_proxy.verdict.document import verdict_document
from llm_proxy.verdict.judging import judge_run


class VerdictPage:
    """What the journal says of the clients."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, page_request: PageRequest, /) -> Answered | None:
        """The page, where it is asked for."""
        if page_request.method not in READS or page_request.path != "/_proxy/verdict":
            return None
        # The journal may be long: a thread reads it.
        return 200, await asyncio.to_thread(_verdict_document, self._journal.document())


def _verdict_document(journal: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict, by the same words that a file or a client of the page is judged by."""
    return verdict_document(judge_run(parse_run(orjson.dumps(journal), "the journal").entries))
