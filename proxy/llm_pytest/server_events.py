"""What the process of the MCP server reports to the runner of a test: events, through a file."""

from __future__ import annotations

import fcntl
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from llm_pytest.evidence import ToolCallRecord

SERVER_NAME: Final = "llm_pytest"
"""The name of the server in the configuration of its client."""
ALLOWED_HOSTS_VARIABLE: Final = "LLM_PYTEST_ALLOWED_HOSTS"
"""In the environment of the server: hosts that the tools may reach, separated by commas."""
INSERTED_VARIABLE: Final = "LLM_PYTEST_INSERTED"
"""In the environment of the server: names of variables whose values the tools insert."""
EVENTS_FILE_VARIABLE: Final = "LLM_PYTEST_EVENTS_FILE"
"""In the environment of the server: the file of its events."""
END_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The signals that end the server."""
CLEANUP_LIMIT_S: Final = 5.0
"""Seconds that the tools may take to clean up."""


class ServerEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the server reports: one of these."""

    is_ready: bool = False
    """Whether all tools are loaded."""
    failure: str = ""
    """Why the server cannot start, in one sentence."""
    call: ToolCallRecord | None = None
    """A call that has ended."""


class EventWriter:
    """Appends events to a file as JSON lines, and keeps it locked while this process runs."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)  # open to the end of the process
        # The end of the process releases it, also where the process cannot be waited for.
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def add(self, event: ServerEvent) -> None:
        """Append an event."""
        self._file.write(msgspec.json.encode(event) + b"\n")


class EventReader:
    """Reads the events of a file while they are appended."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._file = path.open("rb")  # closed by close()
        self._rest = b""

    def new_events(self) -> Iterator[ServerEvent]:
        """The events since the last time."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            document = msgspec.json.decode(line)
            if "call" in document:
                # msgspec does not decode a recursive type, such as that of a JSON value.
                document["call"] = ToolCallRecord(**document["call"])
            yield ServerEvent(**document)

    @property
    def has_writer(self) -> bool:
        """Whether a server still runs."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Close the file."""
        self._file.close()
