"""One request of an official SDK under a fault, and the SDK's result."""

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
from fault_sdk_results import SdkResult
from llm_proxy.routing import SESSION_HEADER

TIMEOUT_S: Final = 30.0
"""Timeout, in seconds, of a connection and of a response that will come."""
_SILENT_TIMEOUT_S: Final = 0.6
"""Read timeout, in seconds, where nothing more will come."""
_MAX_CONCURRENT: Final = 4
"""The maximum of concurrent requests of an SDK."""


@dataclass(frozen=True, slots=True)
class SdkRequest:
    """One request by one SDK, under the rule and in the mode of a case."""

    column: str
    case: Case

    @property
    def session_id(self) -> str:
        """The session of the request and its retries."""
        return f"{self.case.session_prefix}.{self.column}"

    @property
    def is_stream(self) -> bool:
        """Whether a stream is requested."""
        return self.case.is_stream

    @property
    def uses_helper(self) -> bool:
        """Whether the SDK's helper `.stream()` is used."""
        return self.case.mode == "helper"

    @property
    def read_timeout_s(self) -> float:
        """The SDK's read timeout, in seconds."""
        return _SILENT_TIMEOUT_S if self.case.is_silent else TIMEOUT_S

    @property
    def request_options(self) -> dict[str, Any]:
        """The request options for the SDKs of OpenAI and Anthropic."""
        timeout = httpx2.Timeout(TIMEOUT_S, read=self.read_timeout_s)
        return {"extra_headers": {SESSION_HEADER: self.session_id}, "timeout": timeout}

    def tool_arguments(self, tool: dict[str, Any]) -> dict[str, Any]:
        """The keyword argument that offers the tool; none where the fault needs no tool."""
        return {"tools": [tool]} if self.case.needs_tool else {}


def value_at(value: Any, *path: str | int) -> Any:
    """The value at a path in an SDK's object, of any type under a fault; else None."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = getattr(value, step, None)
    return value


def list_at(value: Any, *path: str | int) -> Iterable[Any]:
    """The list at a path; empty where there is no list."""
    items = value_at(value, *path)
    return items if isinstance(items, list) else ()


def count_requests(client: Any, counts: Counter[str]) -> None:
    """Count the requests that an httpx client sends, or tries to send, by session."""

    async def count_request(request: Any) -> None:
        counts[request.headers[SESSION_HEADER]] += 1

    client.event_hooks = {"request": [count_request]}


SendRequest = Callable[[SdkRequest], Awaitable[list[Any]]]
"""Sends a request; returns all objects that the SDK yields."""
ReadResult = Callable[[SdkRequest, list[Any]], SdkResult]
"""Makes a result of a request and the objects that the SDK yielded."""


async def sdk_results(
    requests: Sequence[SdkRequest], send: SendRequest, read_result: ReadResult
) -> dict[str, SdkResult]:
    """The results of an SDK's requests, by session."""
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def send_one(request: SdkRequest) -> SdkResult:
        async with semaphore:
            try:
                for _ in range(request.case.requests_before):
                    await send(request)
                pieces = await send(request)
            except Exception as error:  # whatever it is, an application would get it
                if _is_raised_by_tests(error):
                    raise
                return SdkResult((type(error).__module__, type(error).__name__))
        if pieces and isinstance(pieces[0], str):
            return SdkResult(other_type=type(pieces[0]).__name__)
        return read_result(request, pieces)

    return {
        request.session_id: result
        for request, result in zip(
            requests, await asyncio.gather(*map(send_one, requests)), strict=True
        )
    }


def _is_raised_by_tests(error: Exception) -> bool:
    """Whether a bug in these test files raised it, not an SDK."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return Path(frame.f_code.co_filename).parent == Path(__file__).parent


async def collect_pieces(request: SdkRequest, response: Any) -> list[Any]:
    """All events of a stream, or the one response object."""
    return [piece async for piece in response] if request.is_stream else [response]
