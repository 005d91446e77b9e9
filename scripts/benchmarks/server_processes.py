"""Servers as processes of their own, up for as long as they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_SERVERS: Final = Path(__file__).with_name("reference_servers.py")
_PATIENCE: Final = 20.0
"""Seconds for a server to come up, or to end."""


@contextmanager
def server(*arguments: str) -> Iterator[int]:
    """The port of a server of `reference_servers.py`, started with these arguments."""
    command = (sys.executable, str(_SERVERS), *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            _end(process)


@contextmanager
def llm_proxy(folder: Path, mode: str, *options: str) -> Iterator[int]:
    """The port of an llm-proxy, everything of which lies below `folder`."""
    port_file = folder / f"{mode}.port"
    command = (
        *(sys.executable, "-m", "llm_proxy", mode, "--port", "0", "--port-file", str(port_file)),
        *("--cassettes", str(folder / "cassettes"), *options),
    )
    with (folder / f"{mode}.log").open("ab") as log:
        process = subprocess.Popen(command, stderr=log, env=_plain(folder))
    with process:
        try:
            yield _port(process, port_file, Path(log.name))
        finally:
            _end(process)


def _port(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> int:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(FileNotFoundError):
            return int(port_file.read_text())
        time.sleep(0.02)
    sys.exit(f"llm-proxy does not come up:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def _plain(folder: Path) -> dict[str, str]:
    """The environment without settings of ours, and with a place for spools."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith("LLM_PROXY_")}
    return kept | {"XDG_STATE_HOME": str(folder)}
