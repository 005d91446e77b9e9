"""How long a library of 100,000 cassettes takes to open, and what a hit in it costs.

The cassettes are hard links to a few recorded ones and, for the rest, to small files that are
never opened.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import server_processes
import socket_client
from record_latency import chat_body
from result_table import Row, median_p95

START_TARGET_S: Final = 2.0
"""The accepted time until the port of a library of 100,000 cassettes is open."""
HIT_TARGET_PERCENT: Final = 10.0
"""The accepted additional cost of a hit in a large library, compared with a small one."""
LARGE_COUNT: Final = 100_000
_SMALL_COUNT: Final = 100
_CASSETTES_PER_MODEL: Final = 1000
_SCAN_PROGRAM: Final = """
import os, sys
def scan(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            scan(entry.path)
scan(sys.argv[1])
"""


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Create two libraries, measure them, and yield the rows."""
    small, large = folder / "small", folder / "large"
    _record_small_library(small)
    shutil.copytree(small, large)
    _add_cassettes(large / "cassettes", LARGE_COUNT - _SMALL_COUNT)
    rounds = 2 if is_quick else 5
    empty = folder / "empty"
    empty.mkdir()
    scan_s = min(_scan_time_s(large / "cassettes") for _ in range(3))
    for mode in ("replay", "auto", "record"):
        empty_s = min(_startup_duration_s(empty, mode) for _ in range(rounds))
        large_s = min(_startup_duration_s(large, mode) for _ in range(rounds))
        references = {"no cassettes": empty_s, "python and scandir": scan_s}
        name = f"{mode} opens {LARGE_COUNT:,}"
        yield Row("library", name, large_s, "s", references, START_TARGET_S)
    yield _hit_row(small, large, 200 if is_quick else 2000)


def _chat_request(port: int, number: int) -> bytes:
    body = chat_body(2048, f"library {number}")
    return socket_client.encode_chat_request(port, body, "x-bench: 5 0.1 1")


def _record_small_library(folder: Path) -> None:
    folder.mkdir()
    with server_processes.run_recorder(folder) as port:
        for number in range(_SMALL_COUNT):
            with socket_client.connect(port) as sock:
                socket_client.send_request(sock, _chat_request(port, number))


def _add_cassettes(cassettes: Path, count: int) -> None:
    """Add so many cassettes; a new file for each model, since a file has a limit of links."""
    for start in range(0, count, _CASSETTES_PER_MODEL):
        model_folder = cassettes / "openai-chat" / f"model-{start // _CASSETTES_PER_MODEL}"
        model_folder.mkdir()
        names = (
            f"{hashlib.sha256(str(number).encode()).hexdigest()[:16]}-1.jsonl"
            for number in range(start, min(start + _CASSETTES_PER_MODEL, count))
        )
        first = model_folder / next(names)
        first.write_text("{}\n")
        for name in names:
            os.link(first, model_folder / name)


def _scan_time_s(cassettes: Path) -> float:
    """The time in which a new Python process walks through a folder."""
    start = time.monotonic()
    subprocess.run((sys.executable, "-c", _SCAN_PROGRAM, str(cassettes)), check=True)
    return time.monotonic() - start


def _startup_duration_s(folder: Path, mode: str) -> float:
    """The time from the command to the open port."""
    start = time.monotonic()
    with server_processes.run_llm_proxy(folder, mode):
        return time.monotonic() - start


def _hit_row(small: Path, large: Path, count: int) -> Row:
    """Compare hits in both libraries, in turns.

    The first hit of each cassette reads it; later ones do not.
    """
    libraries = ((f"of {_SMALL_COUNT}", small), (f"of {LARGE_COUNT:,}", large))
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(
                server_processes.run_llm_proxy(folder, "replay", "--pace", "instant")
            )
            for name, folder in libraries
        }
        socks = {
            name: stack.enter_context(socket_client.connect(port)) for name, port in ports.items()
        }
        times_ms: dict[str, list[float]] = {name: [] for name in ports}
        for number in range(count):
            for name, port in ports.items():
                request = _chat_request(port, number % _SMALL_COUNT)
                response = socket_client.send_request(socks[name], request)
                times_ms[name].append(response.first_byte_ms)
    references: dict[str, float] = {}
    for name, values in times_ms.items():
        references |= median_p95(values[_SMALL_COUNT:], f"ms {name}")
        references[f"ms first {name}"] = median(values[:_SMALL_COUNT])
    small_ms, large_ms = (median(values[_SMALL_COUNT:]) for values in times_ms.values())
    added_percent = 100 * (large_ms / small_ms - 1)
    return Row("library", "a hit, dearer than in a small one by", added_percent, "%",
               references, HIT_TARGET_PERCENT)  # fmt: skip
