"""The control page with the verdict on this run's clients so far."""

from __future__ import annotations

import asyncio

from llm_proxy.shell.server.control.page import READ_METHODS, PageRequest, PageResponse
from llm_proxy.shell.server.journal import Journal
from llm_proxy.verdict.judging import judge_run, verdict_document


class VerdictPage:
    """`/_proxy/verdict`: the verdict on the clients, from the journal so far."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if page_request.method not in READ_METHODS or page_request.path != "/_proxy/verdict":
            return None
        # In a thread: the journal may be long.
        return 200, await asyncio.to_thread(
            lambda entries: verdict_document(judge_run(entries)), self._journal.copied_entries()
        )
