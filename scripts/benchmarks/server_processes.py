"""Runs llm-proxy and the reference servers as processes, for as long as they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_REFERENCE_SERVERS: Final = Path(__file__).with_name("reference_servers.py")
_TIMEOUT_S: Final = 20.0
"""Seconds for a server to start, or to end."""


@contextmanager
def run_reference_server(*arguments: str) -> Iterator[int]:
    """Run `reference_servers.py` with these arguments; yields its port."""
    command = (sys.executable, str(_REFERENCE_SERVERS), *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            _terminate(process)


@contextmanager
def run_llm_proxy(folder: Path, mode: str, *options: str) -> Iterator[int]:
    """Run an llm-proxy with all its files below `folder`; yields its port."""
    port_file = folder / f"{mode}.port"
    command = (
        *(sys.executable, "-m", "llm_proxy", mode, "--port", "0", "--port-file", str(port_file)),
        *options,
    )
    with (folder / f"{mode}.log").open("ab") as log:
        process = subprocess.Popen(command, stderr=log, env=_isolated_environment(folder))
    with process:
        try:
            yield _wait_for_port(process, port_file, Path(log.name))
        finally:
            _terminate(process)


@contextmanager
def run_recorder(folder: Path) -> Iterator[int]:
    """Run `llm-proxy record` before a provider of streams; yields its port."""
    with run_reference_server("provider") as provider_port:
        upstream = f"default=http://127.0.0.1:{provider_port}"
        with run_llm_proxy(folder, "record", "--upstream", upstream) as port:
            yield port


def _wait_for_port(process: subprocess.Popen[bytes], port_file: Path, log: Path) -> int:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(FileNotFoundError):
            return int(port_file.read_text())
        time.sleep(0.02)
    sys.exit(f"llm-proxy does not come up:\n{log.read_text()}")


def _terminate(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _isolated_environment(folder: Path) -> dict[str, str]:
    """The environment without other variables of llm-proxy, and with folders of its own."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("LLM_PROXY_")
    }
    return inherited | {
        "XDG_STATE_HOME": str(folder),
        "LLM_PROXY_CASSETTES": str(folder / "cassettes"),
    }
