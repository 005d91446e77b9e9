"""A client that is as near to the wire as Python gets: sockets, and a clock beside each read.

All clocks here and in `servers` are CLOCK_MONOTONIC, which every process of a machine shares.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_STAMP: Final = re.compile(rb'"t":(\d+)')
_END: Final = b"\r\n0\r\n\r\n"
_PATIENCE: Final = 60.0
"""Seconds in which something must arrive."""


@dataclass
class Answer:
    """One answer as it arrived."""

    asked: int = 0
    """When the first byte of the request was sent, in ns."""
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    """When each read of the socket came, in ns, and its bytes."""

    @property
    def first(self) -> float:
        """ms from the request to the first byte."""
        return (self.reads[0][0] - self.asked) / 1e6

    def stamped(self) -> list[tuple[int, int]]:
        """When each event was written, as it says itself, and when it was here in full, in ns."""
        raw = b"".join(data for _, data in self.reads)
        return [(int(it[1]), self._arrival(it.end())) for it in _STAMP.finditer(raw)]

    def chunks(self) -> list[float]:
        """When each HTTP chunk was here in full, in ms from the request."""
        raw = b"".join(data for _, data in self.reads)
        at = raw.index(b"\r\n\r\n") + 4
        times: list[float] = []
        while True:
            line = raw.index(b"\r\n", at)
            size = int(raw[at:line], 16)
            if not size:
                return times
            at = line + 2 + size + 2
            times.append((self._arrival(at) - self.asked) / 1e6)

    def _arrival(self, offset: int) -> int:
        position = 0
        for moment, data in self.reads:
            position += len(data)
            if position >= offset:
                return moment
        raise ValueError(f"there are no {offset} bytes")


def connect(port: int) -> socket.socket:
    """A connection to a server of ours."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def request(port: int, body: bytes, *headers: str) -> bytes:
    """A streaming chat request."""
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        "Authorization: Bearer sk-bench-0123456789abcdef",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(sock: socket.socket, question: bytes) -> Answer:
    """One chunked answer, read to its end; the connection stays open."""
    return ask_together([sock], [question])[0]


def ask_together(
    socks: Sequence[socket.socket], questions: Sequence[bytes], apart: float = 0.0
) -> list[Answer]:
    """As many chunked answers at the same time as there are connections, begun `apart` seconds."""
    answers = [Answer() for _ in socks]
    waiting = deque(zip(socks, questions, answers, strict=True))
    start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        while waiting or selector.get_map():
            due = start + (len(answers) - len(waiting)) * apart
            if waiting and time.monotonic() >= due:
                sock, question, answer = waiting.popleft()
                selector.register(sock, selectors.EVENT_READ, answer)
                answer.asked = time.monotonic_ns()
                sock.sendall(question)
                continue
            ready = selector.select(max(0.0, due - time.monotonic()) if waiting else _PATIENCE)
            if not ready and not waiting:
                raise TimeoutError("a server of the benchmark is silent")
            for key, _ in ready:
                if _take(key.fileobj, key.data):
                    selector.unregister(key.fileobj)
    return answers


def _take(sock: object, answer: Answer) -> bool:
    """Read once; whether the answer is over."""
    assert isinstance(sock, socket.socket)
    data = sock.recv(262144)
    answer.reads.append((time.monotonic_ns(), data))
    if not data:
        raise ConnectionError("a server of the benchmark closed the connection")
    if len(data) < len(_END):
        data = b"".join(it for _, it in answer.reads[-8:])
    return data.endswith(_END)


def throughput(port: int, question: bytes, requests: int, connections: int) -> float:
    """Answers a second, of equal size each, over connections that are kept."""
    size = _size(port, question)
    socks = [connect(port) for _ in range(connections)]
    left = dict.fromkeys(socks, 0)
    begun = done = 0
    start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
            sock.sendall(question)
            left[sock], begun = size, begun + 1
        while done < requests:
            for key, _ in selector.select(_PATIENCE):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                left[ready] -= len(ready.recv(262144))
                if left[ready] == 0:
                    done += 1
                    if begun < requests:
                        ready.sendall(question)
                        left[ready], begun = size, begun + 1
    elapsed = time.monotonic() - start
    for sock in socks:
        sock.close()
    return requests / elapsed


def body(port: int, question: bytes) -> bytes:
    """The body of an answer, without its framing."""
    head, _, rest = _raw(port, question).partition(b"\r\n\r\n")
    if b"content-length:" in head.lower():
        return rest
    pieces: list[bytes] = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        pieces.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return b"".join(pieces)


def _size(port: int, question: bytes) -> int:
    """The size of an answer, head and framing included."""
    return len(_raw(port, question))


def _raw(port: int, question: bytes) -> bytes:
    """An answer as it comes over the wire."""
    with connect(port) as sock:
        sock.sendall(question)
        raw = b""
        while not _is_whole(raw):
            data = sock.recv(262144)
            if not data:
                raise ConnectionError("a server of the benchmark closed the connection")
            raw += data
    return raw


def _is_whole(raw: bytes) -> bool:
    head, separator, body = raw.partition(b"\r\n\r\n")
    declared = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if not separator:
        return False
    return len(body) == int(declared[1]) if declared else raw.endswith(_END)
