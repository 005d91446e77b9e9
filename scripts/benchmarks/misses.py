"""How long a miss among 10,000 cassettes takes, and the first one, which reads the library."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from socket import socket
from statistics import median
from typing import Final

import server_processes
import socket_client
from result_table import Row, median_p95

from llm_proxy.cassette import CassetteEncoder, CassetteMeta, StoredRequest
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.matching import KEY_RULES_VERSION, request_key

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
        write_library(folder / str(count), count)
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


def write_library(folder: Path, count: int) -> None:
    """Write a library of so many chats of 6 kB each."""
    for number in range(count):
        body = json.dumps(_chat_body(number)).encode()
        request = StoredRequest("POST", "/v1/chat/completions", "", (), body)
        key = request_key("openai", request)
        meta = CassetteMeta(
            "bench", "now", "openai-chat", "openai", "m", "default", key, KEY_RULES_VERSION, 1
        )
        writer = CassetteEncoder("sse")
        head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
        lines = [writer.encode_opening(meta, request), writer.encode_head(head, 0.0)]
        lines += [
            writer.encode_completed_messages(Read(1.0, _SSE_BODY)),
            writer.encode_ending(Ending.CLEAN, 1.0),
        ]
        path = folder / "cassettes" / "openai-chat" / "m" / f"{key[:16]}-1.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))


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
    return {"model": "m", "stream": True, "messages": messages, "tools": tools}


def _miss_times_ms(folder: Path, count: int) -> list[float]:
    """The times of misses of different requests; the first waits until the library is read."""
    times_ms: list[float] = []
    with (
        server_processes.run_llm_proxy(folder, "replay") as port,
        socket_client.connect(port) as sock,
    ):
        for number in range(count):
            body = json.dumps(_chat_body(number) | {"temperature": 0.5}).encode()
            sock.sendall(socket_client.encode_chat_request(port, body))
            start = time.monotonic()
            _read_miss(sock)
            times_ms.append((time.monotonic() - start) * 1000)
    return times_ms


def _read_miss(sock: socket) -> bytes:
    """The body of one complete response, which has a Content-Length."""
    raw = b""
    while True:
        data = sock.recv(262144)
        assert data, "llm-proxy closed the connection"
        raw += data
        head, separator, body = raw.partition(b"\r\n\r\n")
        if separator:
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(body) >= size:
                assert head.startswith(b"HTTP/1.1 424"), head
                return body
