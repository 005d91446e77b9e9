"""What the official SDKs raise where a scenario fails, and how often they ask: measured.

PYTHONPATH=proxy:tests python tests/failure_table.py prints the table of docs/scenario-failures.md;
it needs the judge google-genai (scripts/judges google-genai).

The SDKs are as they come, but for two things: they wait at most 10 ms before they ask again, and
0.6 s for an answer that does not come.
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
from fast_retry_sdks import HastyAnthropic, HastyOpenAI
from llm_proxy.routing import SESSION_HEADER, RoutedRequest
from llm_proxy.scenario.scripted_response import FailResponse, ReportExhausted
from scripted_server import Directed, directed
from sdk_clients import KEY
from waiting import until

Table = dict[tuple[str, str], dict[str, str]]
"""By failure and mode, and then by column, what is raised and how many requests there are."""

GOOGLE: Final = "google-genai"
_PATIENCE: Final = {"timeout": 0.6}
"""Seconds that are waited for an answer."""
_LONG: Final = 30.0
_OWN: Final = frozenset(("anthropic", "builtins", "google", "ollama", "openai"))
"""Modules whose exceptions need no surname."""

CASES: Final[dict[str, FailResponse | ReportExhausted]] = {
    "`failure_throws`": FailResponse("thrown"),
    "`failure_throws`, not retryable": FailResponse("thrown", retryable=False),
    "`model_error`": FailResponse("model_error"),
    "`model_error`, not retryable": FailResponse("model_error", retryable=False),
    "`model_error` with `status: 504`": FailResponse("model_error", error={"status": 504}),
    "`rate_limit`": FailResponse("rate_limit"),
    "`rate_limit` of 20 ms": FailResponse("rate_limit", retry_after_ms=20),
    "`rate_limit` of 121 s": FailResponse("rate_limit", retry_after_ms=121_000),
    "`timeout`": FailResponse("timeout"),
    "`invalid_response`": FailResponse("invalid_response"),
    "`network_error`": FailResponse("network_error"),
    "`network_error`, not retryable": FailResponse("network_error", retryable=False),
    "no reply left": ReportExhausted("mock helper has 2 replies, and this is call 3"),
}
"""Each failure that a client can tell from others."""

MODES: Final = ("stream", "whole")


@dataclass(frozen=True, slots=True)
class Ask:
    """One failure, met in one mode by one SDK."""

    column: str
    case: int
    mode: str

    @property
    def id(self) -> str:
        """The session of its requests."""
        return f"{self.column}.{self.case}.{self.mode}"

    @property
    def model(self) -> str:
        """The model that it asks for: by it the server knows how to fail."""
        return f"model-{self.case}"

    @property
    def streams(self) -> bool:
        """Whether it asks for a stream."""
        return self.mode == "stream"

    @property
    def limit(self) -> float:
        """Seconds that it waits for an answer."""
        fail = list(CASES.values())[self.case]
        return _PATIENCE.get(fail.status if isinstance(fail, FailResponse) else "", _LONG)

    @property
    def told(self) -> dict[str, Any]:
        """What the SDKs of OpenAI and Anthropic are told of it."""
        timeout = httpx2.Timeout(_LONG, read=self.limit)
        return {"extra_headers": {SESSION_HEADER: self.id}, "timeout": timeout}


async def _heard(answer: Any) -> None:
    """Hear an answer to its end."""
    if hasattr(answer, "__aiter__"):
        async for _ in answer:
            pass


_MESSAGES: Final[list[Any]] = [{"role": "user", "content": "Hi"}]


async def _ask_openai(url: str, asks: Sequence[Ask]) -> dict[str, str]:
    async with HastyOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:

        async def chat(it: Ask) -> None:
            create: Any = client.chat.completions.create
            await _heard(
                await create(model=it.model, messages=_MESSAGES, stream=it.streams, **it.told)
            )

        async def response(it: Ask) -> None:
            create: Any = client.responses.create
            await _heard(await create(model=it.model, input="Hi", stream=it.streams, **it.told))

        return {
            ask.id: await _raised(response if ask.column == "openai-responses" else chat, ask)
            for ask in asks
        }


async def _ask_anthropic(url: str, asks: Sequence[Ask]) -> dict[str, str]:
    async with HastyAnthropic(base_url=url, api_key=KEY) as client:

        async def message(it: Ask) -> None:
            create: Any = client.messages.create
            about = {"model": it.model, "max_tokens": 9, "messages": _MESSAGES}
            await _heard(await create(**about, stream=it.streams, **it.told))

        return {ask.id: await _raised(message, ask) for ask in asks}


async def _ask_ollama(url: str, asks: Sequence[Ask]) -> dict[str, str]:
    async with ollama.AsyncClient(url) as client:
        ours = client._client

        async def chat(it: Ask) -> None:
            ours.headers[SESSION_HEADER] = it.id
            ours.timeout = httpx.Timeout(_LONG, read=it.limit)
            create: Any = client.chat
            await _heard(await create(it.model, _MESSAGES, stream=it.streams))

        return {ask.id: await _raised(chat, ask) for ask in asks}


async def _raised(ask: Callable[[Ask], Awaitable[None]], it: Ask) -> str:
    """The name of what an SDK raises."""
    try:
        await ask(it)
    except Exception as error:  # whatever it is, it is what an application has to do with
        return _named(type(error).__module__, type(error).__name__)
    return "nothing"


def _named(module: str, name: str) -> str:
    """The name of an exception, with where it is from if that is not the SDK."""
    root = module.partition(".")[0]
    return f"`{name}`" if root in _OWN else f"`{root}.{name}`" if name else "nothing"


async def _ask_google(url: str, asks: Sequence[Ask]) -> dict[str, str]:
    """In its own environment."""
    given = [
        {
            "id": ask.id, "model": ask.model, "stream": ask.streams, "limit": ask.limit,
            "waits": ask.column == GOOGLE,
        }
        for ask in asks
    ]  # fmt: skip
    program = judge_runner.FOLDER / GOOGLE / "failures.py"
    told = json.loads(await judge_runner.run(program, {"url": url, "asks": given}))
    return {ask.id: _named(*told[ask.id]) for ask in asks}


COLUMNS: Final[dict[str, Callable[[str, Sequence[Ask]], Awaitable[dict[str, str]]]]] = {
    "openai-chat": _ask_openai,
    "openai-responses": _ask_openai,
    "anthropic": _ask_anthropic,
    GOOGLE: _ask_google,
    "ollama": _ask_ollama,
}
"""Each SDK, and what asks it."""


def _how_to_fail(call: RoutedRequest) -> FailResponse | ReportExhausted:
    return list(CASES.values())[int(call.model.rpartition("-")[2])]


async def measured(columns: Sequence[str]) -> Table:
    """What each SDK of these columns raises, and how often it asks."""
    asks = {
        column: [Ask(column, case, mode) for case in range(len(CASES)) for mode in MODES]
        for column in columns
    }
    async with directed(Directed(_how_to_fail)) as stage:
        raised = await asyncio.gather(*(COLUMNS[item](stage.url, asks[item]) for item in columns))
        await until(lambda: stage.server.active_count == 0)
        counts = Counter(entry.session for entry in stage.journal.entries)
    return {
        (name, mode): {
            column: f"{told[item.id]} ({counts[item.id]})"
            for column, told in zip(columns, raised, strict=True)
            for item in [Ask(column, case, mode)]
        }
        for case, name in enumerate(CASES)
        for mode in MODES
    }


def written(table: Table) -> str:
    """The table as it stands in the documentation; where modes agree they share a row."""
    columns = next(iter(table.values()))
    rows = [("failure", "asked for", *(f"`{column}`" for column in columns))]
    rows += [("---",) * len(rows[0])]
    for name in CASES:
        stream, whole = (table[name, mode] for mode in MODES)
        shown = (
            {"either": stream}
            if stream == whole
            else dict(zip(MODES, (stream, whole), strict=True))
        )
        rows += ((name, mode, *row.values()) for mode, row in shown.items())
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def read(page: str) -> Table:
    """The table that a page ends with."""
    lines = [
        splitline.strip("|\n ").split(" | ")
        for splitline in page.splitlines()
        if splitline.startswith("| ")
    ]
    (_, _, *columns), _, *rows = lines[
        lines.index(next(line for line in lines if line[0] == "failure")) :
    ]
    return {
        (name, mode): dict(zip((column.strip("`") for column in columns), cells, strict=True))
        for name, shown, *cells in rows
        for mode in (MODES if shown == "either" else (shown,))
    }


if __name__ == "__main__":
    sys.stdout.write(written(asyncio.run(measured(list(COLUMNS)))))
