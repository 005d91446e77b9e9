"""What costs no network: starting up, cutting, writing and reading."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from result_table import Row

from llm_proxy import framing
from llm_proxy.cassette import CassetteWriter, Meta, StoredRequest, read_cassette
from llm_proxy.exchange import Ending, Read, ResponseHead

HELP_TARGET: Final = 0.15
"""Seconds of CPU."""
_EVENT: Final = (
    b'data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1700000000,"model":'
    b'"bench","choices":[{"index":0,"delta":{"content":" gr\xc3\xbc\xc3\x9fe"},'
    b'"finish_reason":null}]}\n\n'
)
_PIECE: Final = 150
"""Bytes of a read."""


def rows(*, quick: bool) -> Iterator[Row]:
    """The figures."""
    runs = 5 if quick else 20
    cpu = [_cpu(sys.executable, "-m", "llm_proxy", "--help") for _ in range(runs)]
    bare = [_cpu(sys.executable, "-c", "pass") for _ in range(runs)]
    yield Row("command line", "llm-proxy --help, CPU", median(cpu), "s",
              {"python -c pass": median(bare)}, HELP_TARGET)  # fmt: skip
    yield from _speeds(2000 if quick else 20000)


def _cpu(*command: str) -> float:
    """Seconds of CPU, user and system, of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} fails")
    return usage.ru_utime + usage.ru_stime


def _speeds(events: int) -> Iterator[Row]:
    body = b"".join(_EVENT % number for number in range(events))
    pieces = [body[at : at + _PIECE] for at in range(0, len(body), _PIECE)]
    reads = [Read(float(number), piece) for number, piece in enumerate(pieces)]
    cassette = _written(reads)

    def speed(name: str, work: Callable[[], object], beside: dict[str, float]) -> Row:
        return Row("speed", name, _megabytes(len(body), work), "MB/s", beside)

    yield speed("cut into events", lambda: _cut(pieces),
                {"at once": _megabytes(len(body), lambda: _cut([body]))})  # fmt: skip
    yield speed("write a cassette", lambda: _written(reads), {})
    yield speed("load a cassette", lambda: read_cassette("bench", cassette), {})


def _cut(pieces: list[bytes]) -> None:
    codec = framing.new_codec("sse")
    for piece in pieces:
        codec.feed(piece)
    codec.close()


def _written(reads: list[Read]) -> bytes:
    writer = CassetteWriter("sse")
    meta = Meta("bench", "now", "openai-chat", "openai", "bench", "default", "0" * 64, 1, 1)
    request = StoredRequest("POST", "/v1/chat/completions", "", (), b"{}")
    lines = [
        writer.encode_opening(meta, request),
        writer.encode_head(ResponseHead(200, "OK", (), "chunked"), 0.0),
    ]
    lines += map(writer.encode_read, reads)
    return b"".join([*lines, writer.encode_ending(Ending.CLEAN, reads[-1].at_ms)])


def _megabytes(size: int, work: Callable[[], object]) -> float:
    """MB a second: the best of five runs."""
    best = min(_seconds(work) for _ in range(5))
    return size / 1e6 / best


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
