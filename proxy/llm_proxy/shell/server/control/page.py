"""The control page protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

PageResponse = tuple[int, Mapping[str, Any]]
"""The status, and the document that is sent as JSON."""

READ_METHODS: Final = ("GET", "HEAD")
"""The methods of pages that only show something."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a control page."""

    method: str
    path: str
    body: bytes


class ControlPage(Protocol):
    """One control page, or several that belong together."""

    async def __call__(self, page_request: PageRequest, /) -> PageResponse | None:
        """The page's response; None if the request is for another page."""
