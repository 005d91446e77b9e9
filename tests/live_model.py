"""A real model on llama.cpp's server, for the tests marked `live`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

CHAT_TEMPLATE: Final = Path(__file__).parents[1] / "scripts" / "record-examples.jinja"
"""A chat template with tools: the model's own has none."""
_STARTUP_SECONDS: Final = 60.0
"""The maximum time in seconds for the model to load."""


@contextmanager
def running_model(log: Path, *options: str) -> Iterator[str]:
    """The URL of a running server, which has these further options and writes its log to `log`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [os.environ["LLM_PROXY_LIVE_SERVER"], "-m", os.environ["LLM_PROXY_LIVE_MODEL"],
             "--host", "127.0.0.1", "--port", str(port),
             "-c", "1024", "-np", "1", "-t", "1", "--offline", *options],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _STARTUP_SECONDS
        while not _is_healthy(url):
            assert server.poll() is None, log.read_text("utf-8", "replace")[-2000:]
            assert time.monotonic() < deadline, "the model is not up"
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _is_healthy(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as response:  # noqa: S310 # our own URL
        return bool(response.status == 200)
    return False
