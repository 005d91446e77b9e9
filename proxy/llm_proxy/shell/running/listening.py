"""Binds the server's socket and computes its URL."""

from __future__ import annotations

import errno
import os
import socket

from aiohttp import web

from llm_proxy.errors import UsageError
from llm_proxy.shell.running.listener_gate import LISTEN_BACKLOG
from llm_proxy.shell.running.settings import Settings


async def listen(runner: web.ServerRunner, settings: Settings) -> str:
    """Listen on the host and port in `settings`; returns the URL that clients can connect to.

    Raises `UsageError` if that is not possible.
    """
    port = await _bind_port(runner, settings)
    _refuse_own_upstream(settings, port)
    return f"http://{_connectable_host(settings.host)}:{port}"


async def _bind_port(runner: web.ServerRunner, settings: Settings) -> int:
    host, port = settings.host, settings.port
    try:
        await web.TCPSite(runner, host, port, backlog=LISTEN_BACKLOG, reuse_port=False).start()
    except socket.gaierror:
        raise UsageError(f"--host {host}: there is no such address here") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} of {host} is in use: stop the program that has it, or give "
                "--port 0 for any free one"
            ) from None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"cannot listen on {host}:{port} ({reason}): give --host an address of this machine, "
            "and --port one that you may use"
        ) from None
    return int(runner.addresses[0][1])


def _connectable_host(host: str) -> str:
    """A host that clients can connect to: never `localhost`, which may be another server's."""
    match host:
        case "0.0.0.0" | "" | "localhost":  # noqa: S104 # chosen by the operator
            return "127.0.0.1"
        case "::":
            return "[::1]"
        case _:
            return f"[{host}]" if ":" in host else host


def _refuse_own_upstream(settings: Settings, port: int) -> None:
    for name, address in settings.upstreams.items():
        for own_host in ("127.0.0.1", "localhost", "[::1]", settings.host):
            if address.split("://", 1)[-1].split("/", 1)[0].lower() == f"{own_host}:{port}":
                raise UsageError(f"--upstream {name}={address} is this proxy itself")
