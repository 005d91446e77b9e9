"""Runs the command line on a pseudo-terminal, to see its output with escape sequences."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cli_process import start_command_on

CONTROLLING_TERMINAL = """
import fcntl, os, termios
os.setsid()
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
"""
"""Makes stdout the controlling terminal of a process, which Ctrl-C reaches from then on."""


def run_on_terminal(
    *arguments: str,
    folder: Path,
    columns: int = 120,
    env: Mapping[str, str] | None = None,
    preparation: str = "",
    once_ready: Callable[[int, str], object] = lambda _terminal, _output: None,
    keys: Sequence[tuple[str, str]] = (),
) -> tuple[int, str]:
    """Run `llm-proxy`; return its exit code and the output to its terminal of so many columns.

    The Python statements of `preparation` run before it in its process.  `once_ready` is called
    with the terminal and the output so far, after the command has printed `ready`.  Of `keys`, the
    second text of each pair is typed once the first one has appeared after those before it.
    """
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    wait = start_command_on(
        (slave, slave, slave),
        *arguments,
        folder=folder,
        env={"TERM": "xterm-256color"} | dict(env or {}),
        preparation=preparation,
    )
    os.close(slave)
    received, seen_length, remaining_keys = b"", 0, [*keys]
    is_ready = False
    while piece := _read(terminal):
        received += piece
        if b"ready" in received and not is_ready:
            is_ready = True
            once_ready(terminal, received.decode())
        while remaining_keys:
            expected, typed = remaining_keys[0]
            index = received.find(expected.encode(), seen_length)
            if index < 0:
                break
            seen_length = index + len(expected.encode())
            del remaining_keys[0]
            os.write(terminal, typed.encode())
    os.close(terminal)
    return wait(), received.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the last process on the terminal has exited
        return b""
