"""Finds the process that listens on a port of this machine."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

_TIMEOUT_S: Final = 1.0
"""Socket timeout of the health request."""
_MAX_HEALTH_BYTES: Final = 65536
_LISTEN_STATE: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


@dataclass(frozen=True, slots=True)
class PortListener:
    """The process that listens on a port, as far as it is known."""

    llm_proxy_mode: str = ""
    """The mode (`record`, `replay`, …) where it is an llm-proxy; else empty."""
    process_label: str = ""
    """Name and id of the process; empty where the system does not show them."""


def find_listener(host: str, port: int) -> PortListener | None:
    """The listener on a port; None where the port is free."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return PortListener(_llm_proxy_mode(host, port), _listening_process_label(port))
    return None


def _llm_proxy_mode(host: str, port: int) -> str:
    """The mode of the llm-proxy that listens there; empty for any other process."""
    with closing(http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)) as connection:
        try:
            connection.request("GET", "/_proxy/health")
            health = orjson.loads(connection.getresponse().read(_MAX_HEALTH_BYTES))
        except (OSError, http.client.HTTPException, ValueError):
            return ""
    return str(health.get("mode", "")) if isinstance(health, dict) else ""


def _listening_process_label(port: int) -> str:
    """Name and id of the listening process; empty where the system does not show them."""
    sockets = {f"socket:[{inode}]" for inode in _listening_socket_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*/fd") if sockets else ():
        try:
            if any(str(link.readlink()) in sockets for link in folder.iterdir()):
                name = (folder.parent / "comm").read_text("utf-8", "replace").strip()
                return f"{name} (process {folder.parent.name})"
        except OSError:  # a process of another user, or one that has ended
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
            if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTEN_STATE:
                inodes.add(fields[9])
    return inodes
