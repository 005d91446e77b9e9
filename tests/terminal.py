"""The command line on a terminal: what a person at a screen gets, escape sequences and all."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from cli_process import environment


def on_terminal(*arguments: str, folder: Path, columns: int = 120, **env: str) -> tuple[int, str]:
    """The exit code of `llm-proxy`, and what its terminal of so many columns received."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "llm_proxy", *arguments],
        cwd=folder,
        env=environment(folder, **{"TERM": "xterm-256color", "LANG": "C.UTF-8", **env}),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    received = b""
    while piece := _read(master):
        received += piece
    os.close(master)
    return process.wait(20), received.decode()


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # the last process that had the terminal is gone
        return b""
