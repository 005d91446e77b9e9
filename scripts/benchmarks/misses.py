"""How long a miss among 10,000 cassettes takes, and the first one before the library is read."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import server_processes
import socket_client
from result_table import Row, median_p95

from llm_proxy.cassette import CassetteWriter, Meta, StoredRequest
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.matching import KEY_RULES, request_key

TARGET: Final = 100.0
"""ms."""
MANY: Final = 10_000
_FEW: Final = 100
_WORDS: Final = 600
"""Words of a request: some 5 kB."""
_EVENT: Final = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\ndata: [DONE]\n\n'


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """The figures, of libraries of chats that differ in their words."""
    for count in (_FEW, MANY):
        fill(folder / str(count), count)
    first, *few = _misses(folder / str(_FEW), 20)
    beside = {f"ms of {_FEW}": median(few)}
    cold, *times = _misses(folder / str(MANY), 20 if quick else 60)
    yield Row("miss", f"among {MANY:,}", median(times), "ms", beside | median_p95(times), TARGET)
    beside = {f"ms of {_FEW}": first}
    cold = min(cold, *(_misses(folder / str(MANY), 1)[0] for _ in range(1 if quick else 4)))
    yield Row("miss", f"the first among {MANY:,}, at once", cold, "ms", beside)


def fill(folder: Path, count: int) -> None:
    """Make a library of that many chats, 6 kB each."""
    for number in range(count):
        body = json.dumps(_asked(number)).encode()
        request = StoredRequest("POST", "/v1/chat/completions", "", (), body)
        name = request_key("openai", request)
        meta = Meta("bench", "now", "openai-chat", "openai", "m", "default", name, KEY_RULES, 1)
        writer = CassetteWriter("sse")
        head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
        lines = [writer.encode_opening(meta, request), writer.encode_head(head, 0.0)]
        lines += [writer.encode_read(Read(1.0, _EVENT)), writer.encode_ending(Ending.CLEAN, 1.0)]
        path = folder / "cassettes" / "openai-chat" / "m" / f"{name[:16]}-1.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))


def _asked(number: int) -> dict[str, object]:
    """A chat of some turns, with tools that all of them have."""
    chance = Random(number)
    turns = 2 * chance.randrange(1, 5) + 1
    words = [hashlib.sha256(str(word).encode()).hexdigest()[:7] for word in range(2000)]
    said = [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": " ".join(chance.choices(words, k=_WORDS // turns)),
        }
        for turn in range(turns)
    ]
    tools = [{"type": "function", "function": {"name": name}} for name in ("search", "read", "run")]
    return {"model": "m", "stream": True, "messages": said, "tools": tools}


def _misses(folder: Path, count: int) -> list[float]:
    """ms of misses, each of another request; the first waits until the library is read."""
    times: list[float] = []
    with server_processes.llm_proxy(folder, "replay") as port, socket_client.connect(port) as sock:
        for number in range(count):
            body = json.dumps(_asked(number) | {"temperature": 0.5}).encode()
            sock.sendall(socket_client.request(port, body))
            began = time.monotonic()
            _answer(sock.recv)
            times.append((time.monotonic() - began) * 1000)
    return times


def _answer(receive: object) -> bytes:
    """One whole answer, which says how long it is."""
    assert callable(receive)
    raw = b""
    while True:
        data = receive(262144)
        assert data, "llm-proxy closed the connection"
        raw += data
        head, separator, body = raw.partition(b"\r\n\r\n")
        if separator:
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(body) >= size:
                assert head.startswith(b"HTTP/1.1 424"), head
                return body
