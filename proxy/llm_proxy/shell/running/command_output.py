"""Captures the output of a command, and keeps its end."""

from __future__ import annotations

import os
from typing import IO, Final

_TAIL_BYTES: Final = 8 * 1024
"""Bytes of the end of the output that are kept."""


class CommandOutput:
    """A file that a command prints to; it is truncated before it fills the disk."""

    def __init__(self, file: IO[bytes], max_bytes: int = 64 * 1024 * 1024) -> None:
        """`max_bytes` is the size beyond which the file is truncated."""
        self.file = file
        self._max_bytes = max_bytes
        self._kept_tail = b""
        """The end of the output when the file was last truncated."""
        _open_for_append(file)

    def trim_if_large(self) -> None:
        """Truncate the file if it has grown too large; the end of its content is kept."""
        if os.fstat(self.file.fileno()).st_size > self._max_bytes:
            self._kept_tail = self._read_tail()
            os.ftruncate(self.file.fileno(), 0)

    def last_output(self) -> str:
        """The end of the output, at most 8 kB."""
        return (self._kept_tail + self._read_tail())[-_TAIL_BYTES:].decode("utf-8", "replace")

    def _read_tail(self) -> bytes:
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(max(0, size - _TAIL_BYTES))
        return self.file.read()


def _open_for_append(file: IO[bytes]) -> None:
    """Set `O_APPEND`, so that all writers append even after the file was truncated."""
    import fcntl  # noqa: PLC0415 # not on every platform

    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags | os.O_APPEND)
