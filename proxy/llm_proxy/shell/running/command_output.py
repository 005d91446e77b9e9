"""Captures the output of a command, and keeps its end."""

from __future__ import annotations

import os
from typing import IO, Final

_KEPT: Final = 8 * 1024
"""Bytes, the last, that can be told in the end."""


class CommandOutput:
    """A file that a command prints to, however much: it is emptied before it fills the disk."""

    def __init__(self, file: IO[bytes], most: int = 64 * 1024 * 1024) -> None:
        """`most` is the size from which it is emptied, in bytes."""
        self.file = file
        self._max_size = most
        self._kept_tail = b""
        """The end of what was there when the file was last emptied."""
        _open_for_append(file)

    def trim_if_large(self) -> None:
        """Empty the file where it has grown too large; its end is remembered."""
        if os.fstat(self.file.fileno()).st_size > self._max_size:
            self._kept_tail = self._read_end()
            os.ftruncate(self.file.fileno(), 0)

    def last_output(self) -> str:
        """The last that was printed."""
        return (self._kept_tail + self._read_end())[-_KEPT:].decode("utf-8", "replace")

    def _read_end(self) -> bytes:
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(max(0, size - _KEPT))
        return self.file.read()


def _open_for_append(file: IO[bytes]) -> None:
    """Have everybody write at its end, also where it has become shorter."""
    import fcntl  # noqa: PLC0415 # not on every platform

    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
