"""Control pages that show the run: health, journal, misses, failed sessions."""

from __future__ import annotations

from llm_proxy.modes import Mode
from llm_proxy.shell.server.control.page import READ_METHODS, PageRequest, PageResponse
from llm_proxy.shell.server.journal import Journal
from llm_proxy.version import __version__


class StatusPages:
    """Pages that show the state of the mode and of the journal."""

    def __init__(self, mode: Mode, journal: Journal) -> None:
        self._mode = mode
        self._journal = journal

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The response; None if the request is for another page."""
        if page_request.method not in READ_METHODS:
            return None
        match page_request.path:
            case "/_proxy/health":
                return 200, {"ok": True, "mode": self._mode.name, "version": __version__}
            case "/_proxy/journal":
                return 200, self._journal.to_json_document()
            case "/_proxy/misses":
                return 200, {"misses": self._journal.misses}
            case "/_proxy/unsuccessful":
                return 200, {"unsuccessful": self._journal.failed_sessions}
            case _:
                return None
