"""Control pages that show the run: health, journal, misses, failed sessions."""

from __future__ import annotations

from llm_proxy.modes import Mode
from llm_proxy.shell.server.control.page import READS, Answered, PageRequest
from llm_proxy.shell.server.journal import Journal
from llm_proxy.version import __version__


class StatusPages:
    """What the mode and the journal tell."""

    def __init__(self, mode: Mode, journal: Journal) -> None:
        self._mode = mode
        self._journal = journal

    async def __call__(self, page_request: PageRequest, /) -> Answered | None:
        """The page, where it is one of these."""
        if page_request.method not in READS:
            return None
        match page_request.path:
            case "/_proxy/health":
                return 200, {"ok": True, "mode": self._mode.name, "version": __version__}
            case "/_proxy/journal":
                return 200, self._journal.document()
            case "/_proxy/misses":
                return 200, {"misses": self._journal.misses}
            case "/_proxy/unsuccessful":
                return 200, {"unsuccessful": self._journal.unsuccessful}
            case _:
                return None
