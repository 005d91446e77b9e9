"""Finds the process that listens on a port of this machine."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

_LIMIT: Final = 1.0
"""Seconds that an answer may take."""
_LARGEST: Final = 65536
_LISTENING: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


@dataclass(frozen=True, slots=True)
class PortOccupant:
    """Whoever has the port."""

    our_mode: str = ""
    """The mode, where it is an llm-proxy."""
    process: str = ""
    """Name and id of the process, where the system tells."""


def find_listener(host: str, port: int) -> PortOccupant | None:
    """Who listens there; None where the port is free."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
            attempt.listen(1)
        except OSError:
            return PortOccupant(_mode_of_proxy_at(host, port), _listening_process(port))
    return None


def _mode_of_proxy_at(host: str, port: int) -> str:
    """The mode of an llm-proxy that serves there; empty for anybody else."""
    with closing(http.client.HTTPConnection(host, port, timeout=_LIMIT)) as connection:
        try:
            connection.request("GET", "/_proxy/health")
            health = orjson.loads(connection.getresponse().read(_LARGEST))
        except (OSError, http.client.HTTPException, ValueError):
            return ""
    return str(health.get("mode", "")) if isinstance(health, dict) else ""


def _listening_process(port: int) -> str:
    """Name and id of the process that listens; empty where the system does not tell us."""
    sockets = {f"socket:[{inode}]" for inode in _listening_socket_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd") if sockets else ():
        try:
            if any(str(link.readlink()) in sockets for link in folder.iterdir()):
                name = (folder.parent / "comm").read_text("utf-8", "replace").strip()
                return f"{name} (process {folder.parent.name})"
        except OSError:  # another user's, or gone
            continue
    return ""


def _listening_socket_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTENING:
                inodes.add(fields[9])
    return inodes
