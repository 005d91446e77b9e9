"""How long a miss among 10,000 cassettes takes, and the first one, which reads the library."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import cassette_files
import server_processes
import socket_client
from result_table import Row, median_p95

from llm_proxy.exchange import Read

TARGET_MS: Final = 100.0
LARGE_COUNT: Final = 10_000
_SMALL_COUNT: Final = 100
_WORDS_PER_REQUEST: Final = 600
"""About 5 kB."""
_SSE_BODY: Final = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n'
)


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Create libraries of chats with different texts, measure misses, and yield the rows."""
    for count in (_SMALL_COUNT, LARGE_COUNT):
        for number in range(count):
            body = json.dumps(_chat_body(number)).encode()
            library = folder / str(count) / "cassettes"
            cassette_files.write_cassette(library, body, [Read(1.0, _SSE_BODY)])
    small_first_ms, *small_ms = _miss_times_ms(folder / str(_SMALL_COUNT), 20)
    references = {f"ms of {_SMALL_COUNT}": median(small_ms)}
    first_ms, *times_ms = _miss_times_ms(folder / str(LARGE_COUNT), 20 if is_quick else 60)
    references |= median_p95(times_ms)
    yield Row("miss", f"among {LARGE_COUNT:,}", median(times_ms), "ms", references, TARGET_MS)
    references = {f"ms of {_SMALL_COUNT}": small_first_ms}
    more_runs = range(1 if is_quick else 4)
    first_times_ms = [_miss_times_ms(folder / str(LARGE_COUNT), 1)[0] for _ in more_runs]
    name = f"the first among {LARGE_COUNT:,}, at once"
    yield Row("miss", name, min(first_ms, *first_times_ms), "ms", references)


def _chat_body(number: int) -> dict[str, object]:
    """A chat of several turns, with the same tools in all chats."""
    rng = Random(number)
    turns = 2 * rng.randrange(1, 5) + 1
    words = [hashlib.sha256(str(index).encode()).hexdigest()[:7] for index in range(2000)]
    messages = [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": " ".join(rng.choices(words, k=_WORDS_PER_REQUEST // turns)),
        }
        for turn in range(turns)
    ]
    tools = [{"type": "function", "function": {"name": name}} for name in ("search", "read", "run")]
    return {"model": "bench", "stream": True, "messages": messages, "tools": tools}


def _miss_times_ms(folder: Path, count: int) -> list[float]:
    """The times of misses of different requests; the first waits until the library is read."""
    times_ms: list[float] = []
    with (
        server_processes.run_llm_proxy(folder, "replay") as port,
        socket_client.connect(port) as sock,
    ):
        for number in range(count):
            body = json.dumps(_chat_body(number) | {"temperature": 0.5}).encode()
            request = socket_client.encode_chat_request(port, body)
            start = time.monotonic()
            response = socket_client.fetch_response(sock, request)
            times_ms.append((time.monotonic() - start) * 1000)
            assert response.startswith(b"HTTP/1.1 424"), response
    return times_ms
