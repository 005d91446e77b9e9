"""One request of an official SDK that meets a fault, and what the SDK makes of the answer."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from fault_cases import Case
from fault_sdk_results import Heard
from llm_proxy.routing import SESSION_HEADER

LONG: Final = 30.0
"""Seconds that are waited for a connection, and for what will come."""
_PATIENCE: Final = 0.6
"""Seconds that are waited for more where nothing comes."""
_AT_ONCE: Final = 4
"""Requests of an SDK that are under way together."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One rule, met in one mode by one SDK."""

    column: str
    case: Case

    @property
    def id(self) -> str:
        """The session of its requests."""
        return f"{self.case.id}.{self.column}"

    @property
    def streams(self) -> bool:
        """Whether it asks for a stream."""
        return self.case.streams

    @property
    def helped(self) -> bool:
        """Whether it asks by the helper `.stream()`."""
        return self.case.mode == "helper"

    @property
    def limit(self) -> float:
        """Seconds that it waits for more."""
        return _PATIENCE if self.case.is_silent else LONG

    @property
    def told(self) -> dict[str, Any]:
        """What the SDKs of OpenAI and Anthropic are told of it."""
        timeout = httpx2.Timeout(LONG, read=self.limit)
        return {"extra_headers": {SESSION_HEADER: self.id}, "timeout": timeout}

    def tools(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The tool as it is offered, where that is needed."""
        return {"tools": [tool]} if self.case.needs_tool else {}


def at(value: Any, *path: str | int) -> Any:
    """What lies there in an object of an SDK, which a fault may have made of anything."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = getattr(value, step, None)
    return value


def many(value: Any, *path: str | int) -> Iterable[Any]:
    """The list that lies there; none where there is no list."""
    found = at(value, *path)
    return found if isinstance(found, list) else ()


def note_requests(client: Any, sent: Counter[str]) -> None:
    """Have a client of httpx count by session what it sends, or tries to."""

    async def note(request: Any) -> None:
        sent[request.headers[SESSION_HEADER]] += 1

    client.event_hooks = {"request": [note]}


Pieces = Callable[[Ask], Awaitable[list[Any]]]
"""Asks, and gives all that an SDK gives."""
Read = Callable[[Ask, list[Any]], Heard]
"""What was heard in it."""


async def heard_by(asks: Sequence[Ask], pieces: Pieces, read: Read) -> dict[str, Heard]:
    """What an SDK makes of its answers, by session."""
    together = asyncio.Semaphore(_AT_ONCE)

    async def one(it: Ask) -> Heard:
        async with together:
            try:
                for _ in range(it.case.before):
                    await pieces(it)
                found = await pieces(it)
            except Exception as error:  # whatever it is, an application has to do with it
                if _is_ours(error):
                    raise
                return Heard((type(error).__module__, type(error).__name__))
        if found and isinstance(found[0], str):
            return Heard(other=type(found[0]).__name__)
        return read(it, found)

    return {
        it.id: heard for it, heard in zip(asks, await asyncio.gather(*map(one, asks)), strict=True)
    }


def _is_ours(error: Exception) -> bool:
    """Whether a mistake in these files raised it, and no SDK."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return Path(frame.f_code.co_filename).parent == Path(__file__).parent


async def given(it: Ask, answer: Any) -> list[Any]:
    """All that an answer holds, to its end."""
    return [piece async for piece in answer] if it.streams else [answer]
