"""The control page with the verdict on this run's clients so far."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from llm_proxy.shell.server.control.page import READ_METHODS, PageRequest, PageResponse
from llm_proxy.shell.server.journal import Journal
from llm_proxy.verdict.attempts import parse_journal
from llm_proxy.verdict.document import verdict_document
from llm_proxy.verdict.judging import judge_run


class VerdictPage:
    """`/_proxy/verdict`: the verdict on the clients, from the journal so far."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if page_request.method not in READ_METHODS or page_request.path != "/_proxy/verdict":
            return None
        # In a thread: the journal may be long.
        return 200, await asyncio.to_thread(_verdict_document, self._journal.to_json_document())


def _verdict_document(journal: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict, from serialised JSON as for a journal file."""
    return verdict_document(judge_run(parse_journal(orjson.dumps(journal), "the journal").entries))
