"""What the official SDKs raise where a scenario fails, and how many requests they send: measured.

PYTHONPATH=proxy:tests python tests/failure_table.py prints the table of tests/scenario_failures.md;
it needs the judge google-genai (scripts/judges google-genai).

The SDKs have their defaults but for two: they wait at most 10 ms before a retry, and 0.6 s for a
response that does not come.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import httpx2
import ollama

import judge_runner
from fast_retry_sdks import FastRetryAnthropic, FastRetryOpenAI
from llm_proxy.routing import SESSION_HEADER, RoutedRequest
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    RefuseMismatch,
    ReportScriptExhausted,
    ScriptedAction,
)
from scripted_server import ScriptedMode, serve_mode
from sdk_clients import KEY
from waiting import wait_until

Table = dict[tuple[str, str], dict[str, str]]
"""By failure and mode, then by column: what is raised, and the number of requests."""

GOOGLE: Final = "google-genai"
_READ_TIMEOUTS_S: Final = {"timeout": 0.6}
"""Read timeouts, in seconds, by failure status."""
_TIMEOUT_S: Final = 30.0
_SDK_MODULES: Final = frozenset(("anthropic", "builtins", "google", "ollama", "openai"))
"""Packages whose exceptions are shown without the package name."""

CASES: Final[dict[str, ScriptedAction]] = {
    "`failure_throws`": FailResponse("thrown"),
    "`failure_throws`, not retryable": FailResponse("thrown", retryable=False),
    "`model_error`": FailResponse("model_error"),
    "`model_error`, not retryable": FailResponse("model_error", retryable=False),
    "`model_error` with `status: 504`": FailResponse("model_error", error_fields={"status": 504}),
    "`rate_limit`": FailResponse("rate_limit"),
    "`rate_limit` of 20 ms": FailResponse("rate_limit", retry_after_ms=20),
    "`rate_limit` of 121 s": FailResponse("rate_limit", retry_after_ms=121_000),
    "`timeout`": FailResponse("timeout"),
    "`invalid_response`": FailResponse("invalid_response"),
    "`network_error`": FailResponse("network_error"),
    "`network_error`, not retryable": FailResponse("network_error", retryable=False),
    "no reply left": ReportScriptExhausted("mock helper has 2 replies, but this is request 3"),
    "mismatch": RefuseMismatch("Expected tools not available: lookup"),
}
"""Each failure that a client can distinguish from others."""

MODES: Final = ("stream", "whole")


@dataclass(frozen=True, slots=True)
class SdkRequest:
    """One failure, requested in one mode by one SDK."""

    column: str
    case_index: int
    mode: str

    @property
    def session_id(self) -> str:
        """The session of its requests."""
        return f"{self.column}.{self.case_index}.{self.mode}"

    @property
    def model(self) -> str:
        """The requested model, which tells the server how to fail."""
        return f"model-{self.case_index}"

    @property
    def is_stream(self) -> bool:
        """Whether a stream is requested."""
        return self.mode == "stream"

    @property
    def read_timeout_s(self) -> float:
        """The SDK's read timeout, in seconds."""
        failure = list(CASES.values())[self.case_index]
        return _READ_TIMEOUTS_S.get(
            failure.failure_status if isinstance(failure, FailResponse) else "", _TIMEOUT_S
        )

    @property
    def request_options(self) -> dict[str, Any]:
        """The request options for the SDKs of OpenAI and Anthropic."""
        timeout = httpx2.Timeout(_TIMEOUT_S, read=self.read_timeout_s)
        return {"extra_headers": {SESSION_HEADER: self.session_id}, "timeout": timeout}


async def _read_to_end(response: Any) -> None:
    """Read a response to its end."""
    if hasattr(response, "__aiter__"):
        async for _ in response:
            pass


_MESSAGES: Final[list[Any]] = [{"role": "user", "content": "Hi"}]


async def _ask_openai(url: str, requests: Sequence[SdkRequest]) -> dict[str, str]:
    async with FastRetryOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:

        async def chat(request: SdkRequest) -> None:
            create: Any = client.chat.completions.create
            await _read_to_end(
                await create(
                    model=request.model,
                    messages=_MESSAGES,
                    stream=request.is_stream,
                    **request.request_options,
                )
            )

        async def create_response(request: SdkRequest) -> None:
            create: Any = client.responses.create
            await _read_to_end(
                await create(
                    model=request.model,
                    input="Hi",
                    stream=request.is_stream,
                    **request.request_options,
                )
            )

        return {
            request.session_id: await _exception_of(
                create_response if request.column == "openai-responses" else chat, request
            )
            for request in requests
        }


async def _ask_anthropic(url: str, requests: Sequence[SdkRequest]) -> dict[str, str]:
    async with FastRetryAnthropic(base_url=url, api_key=KEY) as client:

        async def message(request: SdkRequest) -> None:
            create: Any = client.messages.create
            arguments = {"model": request.model, "max_tokens": 9, "messages": _MESSAGES}
            await _read_to_end(
                await create(**arguments, stream=request.is_stream, **request.request_options)
            )

        return {request.session_id: await _exception_of(message, request) for request in requests}


async def _ask_ollama(url: str, requests: Sequence[SdkRequest]) -> dict[str, str]:
    async with ollama.AsyncClient(url) as client:
        http_client = client._client

        async def chat(request: SdkRequest) -> None:
            http_client.headers[SESSION_HEADER] = request.session_id
            http_client.timeout = httpx.Timeout(_TIMEOUT_S, read=request.read_timeout_s)
            create: Any = client.chat
            await _read_to_end(await create(request.model, _MESSAGES, stream=request.is_stream))

        return {request.session_id: await _exception_of(chat, request) for request in requests}


async def _exception_of(send: Callable[[SdkRequest], Awaitable[None]], request: SdkRequest) -> str:
    """The name of the exception that an SDK raises."""
    try:
        await send(request)
    except Exception as error:  # whatever it is, an application would get it
        return _exception_name(type(error).__module__, type(error).__name__)
    return "nothing"


def _exception_name(module: str, name: str) -> str:
    """The name of an exception, with its package unless that is the SDK."""
    root = module.partition(".")[0]
    return f"`{name}`" if root in _SDK_MODULES else f"`{root}.{name}`" if name else "nothing"


async def _ask_google(url: str, requests: Sequence[SdkRequest]) -> dict[str, str]:
    """Run the SDK in its own environment."""
    request_documents = [
        {
            "id": request.session_id,
            "model": request.model,
            "stream": request.is_stream,
            "limit": request.read_timeout_s,
            "waits": request.column == GOOGLE,
        }
        for request in requests
    ]
    program = judge_runner.FOLDER / GOOGLE / "raised_exceptions.py"
    results = json.loads(
        await judge_runner.run_program(program, {"url": url, "asks": request_documents})
    )
    return {
        request.session_id: _exception_name(*results[request.session_id]) for request in requests
    }


COLUMNS: Final[dict[str, Callable[[str, Sequence[SdkRequest]], Awaitable[dict[str, str]]]]] = {
    "openai-chat": _ask_openai,
    "openai-responses": _ask_openai,
    "anthropic": _ask_anthropic,
    GOOGLE: _ask_google,
    "ollama": _ask_ollama,
}
"""For each SDK, the function that sends its requests; exception names by session id."""


def _failure_for(call: RoutedRequest) -> ScriptedAction:
    return list(CASES.values())[int(call.model.rpartition("-")[2])]


async def measure(columns: Sequence[str]) -> Table:
    """Measure what each SDK of these columns raises, and its number of requests."""
    requests = {
        column: [SdkRequest(column, case, mode) for case in range(len(CASES)) for mode in MODES]
        for column in columns
    }
    async with serve_mode(ScriptedMode(_failure_for)) as stage:
        raised = await asyncio.gather(
            *(COLUMNS[column](stage.url, requests[column]) for column in columns)
        )
        await wait_until(lambda: stage.server.active_request_count == 0)
        counts = Counter(entry.session for entry in stage.journal.entries)
    return {
        (name, mode): {
            column: f"{exceptions[request.session_id]} ({counts[request.session_id]})"
            for column, exceptions in zip(columns, raised, strict=True)
            for request in [SdkRequest(column, case, mode)]
        }
        for case, name in enumerate(CASES)
        for mode in MODES
    }


def render_table(table: Table) -> str:
    """The table as Markdown; modes with equal cells share a row."""
    columns = next(iter(table.values()))
    rows = [("failure", "mode", *(f"`{column}`" for column in columns))]
    rows += [("---",) * len(rows[0])]
    for name in CASES:
        stream, whole = (table[name, mode] for mode in MODES)
        rows_by_mode = (
            {"either": stream}
            if stream == whole
            else dict(zip(MODES, (stream, whole), strict=True))
        )
        rows += ((name, mode, *row.values()) for mode, row in rows_by_mode.items())
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def parse_table(page: str) -> Table:
    """Parse the table at the end of a page."""
    lines = [line.strip("|\n ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    (_, _, *columns), _, *rows = lines[
        lines.index(next(line for line in lines if line[0] == "failure")) :
    ]
    return {
        (name, mode): dict(zip((column.strip("`") for column in columns), cells, strict=True))
        for name, mode_cell, *cells in rows
        for mode in (MODES if mode_cell == "either" else (mode_cell,))
    }


if __name__ == "__main__":
    sys.stdout.write(render_table(asyncio.run(measure(list(COLUMNS)))))
