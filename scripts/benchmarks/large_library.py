"""How long a library of 100,000 cassettes takes to open, and what a hit in it costs.

The cassettes are links: of a few that were recorded, and of small files for the rest, which
nothing opens.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import server_processes
import socket_client
from record_latency import body
from result_table import Row, median_p95

START: Final = 2.0
"""Seconds to the port of a library of 100,000 cassettes, at most."""
DEARER: Final = 10.0
"""%: how much more than in a small library a hit in a large one may cost."""
MANY: Final = 100_000
_FEW: Final = 100
_IN_FOLDER: Final = 1000
"""Cassettes of one model."""
_SCAN: Final = """
import os, sys
def scan(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            scan(entry.path)
scan(sys.argv[1])
"""


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    """The figures, of two libraries that are made first."""
    small, large = folder / "small", folder / "large"
    _record(small)
    shutil.copytree(small, large)
    _fill(large / "cassettes", MANY - _FEW)
    rounds = 2 if quick else 5
    empty = folder / "empty"
    empty.mkdir()
    floor = min(_scanned(large / "cassettes") for _ in range(3))
    for mode in ("replay", "auto", "record"):
        none = min(_started(empty, mode) for _ in range(rounds))
        value = min(_started(large, mode) for _ in range(rounds))
        beside = {"no cassettes": none, "python and scandir": floor}
        yield Row("library", f"{mode} opens {MANY:,}", value, "s", beside, START)
    yield _hits(small, large, 200 if quick else 2000)


def _question(port: int, number: int) -> bytes:
    return socket_client.request(port, body(2048, f"library {number}"), "x-bench: 5 0.1 1")


def _record(folder: Path) -> None:
    """Record the few."""
    folder.mkdir()
    with ExitStack() as stack:
        provider = stack.enter_context(server_processes.server("provider"))
        upstream = f"default=http://127.0.0.1:{provider}"
        port = stack.enter_context(
            server_processes.llm_proxy(folder, "record", "--upstream", upstream)
        )
        for number in range(_FEW):
            with socket_client.connect(port) as sock:
                socket_client.ask(sock, _question(port, number))


def _fill(cassettes: Path, count: int) -> None:
    """Put that many more there; a file can have no more than so many names."""
    for begin in range(0, count, _IN_FOLDER):
        models = cassettes / "openai-chat" / f"model-{begin // _IN_FOLDER}"
        models.mkdir()
        names = (
            f"{hashlib.sha256(str(number).encode()).hexdigest()[:16]}-1.jsonl"
            for number in range(begin, min(begin + _IN_FOLDER, count))
        )
        first = models / next(names)
        first.write_text("{}\n")
        for name in names:
            os.link(first, models / name)


def _scanned(cassettes: Path) -> float:
    """Seconds in which a Python of its own walks through a folder."""
    began = time.monotonic()
    subprocess.run((sys.executable, "-c", _SCAN, str(cassettes)), check=True)
    return time.monotonic() - began


def _started(folder: Path, mode: str) -> float:
    """Seconds from the command to its port."""
    began = time.monotonic()
    with server_processes.llm_proxy(folder, mode):
        return time.monotonic() - began


def _hits(small: Path, large: Path, count: int) -> Row:
    """Hits in turns, each of another cassette: the first of each reads it, the others do not."""
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(
                server_processes.llm_proxy(folder, "replay", "--pace", "instant")
            )
            for name, folder in ((f"of {_FEW}", small), (f"of {MANY:,}", large))
        }
        socks = {
            name: stack.enter_context(socket_client.connect(port)) for name, port in ports.items()
        }
        times: dict[str, list[float]] = {name: [] for name in ports}
        for number in range(count):
            for name, port in ports.items():
                answer = socket_client.ask(socks[name], _question(port, number % _FEW))
                times[name].append(answer.first)
    beside: dict[str, float] = {}
    for name, figures in times.items():
        beside |= median_p95(figures[_FEW:], f"ms {name}") | {f"ms first {name}": _first(figures)}
    few, many = (median(figures[_FEW:]) for figures in times.values())
    return Row("library", "a hit, dearer than in a small one by", 100 * (many / few - 1), "%",
               beside, DEARER)  # fmt: skip


def _first(figures: Sequence[float]) -> float:
    """The median of the hits that read their cassettes."""
    return median(figures[:_FEW])
