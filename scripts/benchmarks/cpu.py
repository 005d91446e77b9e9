"""The work without network: start-up, parsing, writing and loading."""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from cassette_files import encode_cassette
from result_table import Row

from llm_proxy import framing
from llm_proxy.cassette import CassetteMeta, StoredRequest, parse_cassette
from llm_proxy.exchange import Read

HELP_TARGET_S: Final = 0.15
"""CPU time."""
_EVENT_TEMPLATE: Final = (
    b'data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1700000000,"model":'
    b'"bench","choices":[{"index":0,"delta":{"content":" gr\xc3\xbc\xc3\x9fe"},'
    b'"finish_reason":null}]}\n\n'
)
_READ_SIZE: Final = 150
_META: Final = CassetteMeta(
    "bench", "now", "openai-chat", "openai", "bench", "default", "0" * 64, 1, 1
)
_REQUEST: Final = StoredRequest("POST", "/v1/chat/completions", "", (), b"{}")


def measure(_folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the rows."""
    runs = 5 if is_quick else 20
    help_times_s = [_cpu_time_s(sys.executable, "-m", "llm_proxy", "--help") for _ in range(runs)]
    python_times_s = [_cpu_time_s(sys.executable, "-c", "pass") for _ in range(runs)]
    yield Row("command line", "llm-proxy --help, CPU", median(help_times_s), "s",
              {"python -c pass": median(python_times_s)}, HELP_TARGET_S)  # fmt: skip
    yield from _throughput_rows(2000 if is_quick else 20000)


def _cpu_time_s(*command: str) -> float:
    """The CPU time of a command, user and system."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} fails")
    return usage.ru_utime + usage.ru_stime


def _throughput_rows(event_count: int) -> Iterator[Row]:
    body = b"".join(_EVENT_TEMPLATE % number for number in range(event_count))
    chunks = [body[start : start + _READ_SIZE] for start in range(0, len(body), _READ_SIZE)]
    reads = [Read(float(number), chunk) for number, chunk in enumerate(chunks)]
    cassette = encode_cassette(_META, _REQUEST, reads)

    def row(name: str, work: Callable[[], object], references: dict[str, float]) -> Row:
        return Row("speed", name, _megabytes_per_second(len(body), work), "MB/s", references)

    yield row("cut into events", lambda: _parse_events(chunks),
              {"at once": _megabytes_per_second(len(body),
                                                lambda: _parse_events([body]))})  # fmt: skip
    yield row("write a cassette", lambda: encode_cassette(_META, _REQUEST, reads), {})
    yield row("load a cassette", lambda: parse_cassette("bench", cassette), {})


def _parse_events(chunks: list[bytes]) -> None:
    codec = framing.new_codec("sse")
    for chunk in chunks:
        codec.feed(chunk)
    codec.close()


def _megabytes_per_second(size: int, work: Callable[[], object]) -> float:
    """The best of five runs."""
    setup = "import gc; gc.enable()"  # as in the program
    return size / 1e6 / min(timeit.repeat(work, setup, number=1))
