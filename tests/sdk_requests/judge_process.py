"""How requests are sent by an SDK: in the process of the tests, or by a judge in its own.

A judge's folder then has a program `send_request.py`, which passes a function to
`request_sender.run`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Protocol

import pytest

import judge_runner
from sdk_requests.conversations import Arguments


class Send(Protocol):
    """Sends a request."""

    async def __call__(self, url: str, arguments: Arguments, *, stream: bool) -> None:
        """Send a request as a user of the SDK does; an error status is no failure."""


Sender = Callable[[], AbstractAsyncContextManager[Send]]
"""Starts what sends the requests of a test; skips the test where that is not installed."""


def in_this_process(send: Send) -> Sender:
    """An SDK in the environment of the tests."""
    return lambda: nullcontext(send)


def in_judge(name: str) -> Sender:
    """An SDK in the environment of this judge, with one process for all requests of a test."""
    return partial(_running_judge, name)


@asynccontextmanager
async def _running_judge(name: str) -> AsyncIterator[Send]:
    if reason := judge_runner.missing_reason(name):
        pytest.skip(reason)
    program = judge_runner.FOLDER / name / "send_request.py"
    async with judge_runner.running_program(program) as process:

        async def send(url: str, arguments: Arguments, *, stream: bool) -> None:
            request = {"url": url, "arguments": arguments, "stream": stream}
            await process.write_line(json.dumps(request, default=_bytes_as_json))
            assert await process.read_line(), f"judge {name}: {process.stderr_text()}"

        yield send


def _bytes_as_json(value: Any) -> Any:
    assert isinstance(value, bytes)
    return {"base64 of bytes": b64encode(value).decode()}
