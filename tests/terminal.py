"""Runs the command line on a pseudo-terminal, to see its output with escape sequences."""

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


def run_on_terminal(
    *arguments: str, folder: Path, columns: int = 120, **env: str
) -> tuple[int, str]:
    """Run `llm-proxy`; return its exit code and the output to its terminal of so many columns."""
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
    except OSError:  # the last process on the terminal has exited
        return b""
