"""The control page protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

Answered = tuple[int, Mapping[str, Any]]
"""The status, and the document that is given as JSON."""

READS: Final = ("GET", "HEAD")
"""The methods of pages that only tell something."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for one of our pages."""

    method: str
    path: str
    body: bytes


class ControlPage(Protocol):
    """A page, or some that belong together."""

    async def __call__(self, page_request: PageRequest, /) -> Answered | None:
        """What it answers; None where the request is for another page."""
