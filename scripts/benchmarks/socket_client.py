"""An HTTP client on plain sockets, which records the time of each read with little overhead.

All clocks here and in `reference_servers` are CLOCK_MONOTONIC, which all processes of a machine
share.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_WRITE_TIME: Final = re.compile(rb'"t":(\d+)')
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_TIMEOUT_S: Final = 60.0
"""Seconds in which data must arrive."""
_READ_SIZE: Final = 262144


@dataclass
class TimedResponse:
    """One response, with the time of each read."""

    request_sent_ns: int = 0
    """When the first byte of the request was sent."""
    reads: list[tuple[int, bytes]] = field(default_factory=list)
    """The time of each read of the socket, in ns, and its bytes."""

    @property
    def first_byte_ms(self) -> float:
        """The time from the request to the first byte."""
        return (self.reads[0][0] - self.request_sent_ns) / 1e6

    def event_times_ns(self) -> list[tuple[int, int]]:
        """The write time of each event, which it contains, and the time when all of it arrived."""
        raw = b"".join(data for _, data in self.reads)
        return [
            (int(match[1]), self._arrival_ns(match.end())) for match in _WRITE_TIME.finditer(raw)
        ]

    def chunk_times_ms(self) -> list[float]:
        """When all of each HTTP chunk had arrived, from the time of the request."""
        return [(arrival_ns - self.request_sent_ns) / 1e6 for arrival_ns, _ in self.timed_chunks()]

    def timed_chunks(self) -> Iterator[tuple[int, bytes]]:
        """The arrival time of each HTTP chunk, and its bytes."""
        raw = b"".join(data for _, data in self.reads)
        position = raw.index(b"\r\n\r\n") + 4
        while True:
            line_end = raw.index(b"\r\n", position)
            size = int(raw[position:line_end], 16)
            if not size:
                return
            begin, position = line_end + 2, line_end + 2 + size + 2
            yield self._arrival_ns(position), raw[begin : begin + size]

    def _arrival_ns(self, offset: int) -> int:
        received = 0
        for read_time_ns, data in self.reads:
            received += len(data)
            if received >= offset:
                return read_time_ns
        raise ValueError(f"there are no {offset} bytes")


def connect(port: int) -> socket.socket:
    """Connect to a server of the benchmark."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def encode_chat_request(port: int, body: bytes, *headers: str) -> bytes:
    """The bytes of a streaming chat request."""
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        "Authorization: Bearer sk-bench-0123456789abcdef",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def send_request(sock: socket.socket, request: bytes) -> TimedResponse:
    """Send a request and read its chunked response to the end; the connection stays open."""
    return send_requests([sock], [request])[0]


def send_requests(
    socks: Sequence[socket.socket], requests: Sequence[bytes], interval_s: float = 0.0
) -> list[TimedResponse]:
    """Send one request on each connection, `interval_s` apart, and read all chunked responses."""
    responses = [TimedResponse() for _ in socks]
    unsent = deque(zip(socks, requests, responses, strict=True))
    start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        while unsent or selector.get_map():
            next_send = start + (len(responses) - len(unsent)) * interval_s
            if unsent and time.monotonic() >= next_send:
                sock, request, response = unsent.popleft()
                selector.register(sock, selectors.EVENT_READ, response)
                response.request_sent_ns = time.monotonic_ns()
                sock.sendall(request)
                continue
            timeout_s = max(0.0, next_send - time.monotonic()) if unsent else _TIMEOUT_S
            ready = selector.select(timeout_s)
            if not ready and not unsent:
                raise TimeoutError("a server of the benchmark is silent")
            for key, _ in ready:
                if _read(key.fileobj, key.data):
                    selector.unregister(key.fileobj)
    return responses


def _read(sock: object, response: TimedResponse) -> bool:
    """Read once; returns whether the response is complete."""
    assert isinstance(sock, socket.socket)
    data = sock.recv(_READ_SIZE)
    response.reads.append((time.monotonic_ns(), data))
    if not data:
        raise ConnectionError("a server of the benchmark closed the connection")
    if len(data) < len(_LAST_CHUNK):
        data = b"".join(read_data for _, read_data in response.reads[-8:])
    return data.endswith(_LAST_CHUNK)


def requests_per_second(port: int, request: bytes, count: int, connections: int) -> float:
    """The rate of responses of equal size, over connections that are kept open."""
    with connect(port) as sock:
        size = len(fetch_response(sock, request))
    socks = [connect(port) for _ in range(connections)]
    remaining = dict.fromkeys(socks, 0)
    started = completed = 0
    start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
            sock.sendall(request)
            remaining[sock], started = size, started + 1
        while completed < count:
            for key, _ in selector.select(_TIMEOUT_S):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                remaining[ready] -= len(ready.recv(_READ_SIZE))
                if remaining[ready] == 0:
                    completed += 1
                    if started < count:
                        ready.sendall(request)
                        remaining[ready], started = size, started + 1
    elapsed_s = time.monotonic() - start
    for sock in socks:
        sock.close()
    return count / elapsed_s


def fetch_response(sock: socket.socket, request: bytes) -> bytes:
    """Send a request; returns the bytes of the response, head and framing included."""
    sock.sendall(request)
    raw = b""
    while True:
        data = sock.recv(_READ_SIZE)
        if not data:
            raise ConnectionError("a server of the benchmark closed the connection")
        raw += data
        head, separator, body = raw.partition(b"\r\n\r\n")
        content_length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        if separator and (
            len(body) == int(content_length[1]) if content_length else raw.endswith(_LAST_CHUNK)
        ):
            return raw
