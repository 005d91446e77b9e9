"""Opens the listening sockets; closes and reopens them for the fault `refuse`."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.kind import MeteredFault
from llm_proxy.faults.rule import ActiveRule
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.journal import Journal

log: Final = logging.getLogger("llm_proxy")

_LISTEN_BACKLOG: Final = 1024
_REOPEN_RETRY_MS: Final = 1000.0
"""ms until the next attempt to listen on a port that another program has taken."""
_MAX_RULE_CHARS: Final = 200
"""Maximum length of a rule in the log."""


async def listen(runner: web.ServerRunner, settings: Settings) -> str:
    """Listen on the host and port in `settings`; returns the URL that clients can connect to.

    Raises `UsageError` if that is not possible.
    """
    host, port = settings.host, settings.port
    try:
        await web.TCPSite(runner, host, port, backlog=_LISTEN_BACKLOG, reuse_port=False).start()
    except socket.gaierror:
        raise UsageError(f"--host {host}: unknown host") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} on {host} is in use; stop the program that uses it, or set --port 0 "
                "for any free port"
            ) from None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}; set --host to an address of this machine, "
            "and --port to a port that you may use"
        ) from None
    port = int(runner.addresses[0][1])
    for name, address in settings.upstreams.items():
        for own_host in ("127.0.0.1", "localhost", "[::1]", host):
            if address.split("://", 1)[-1].split("/", 1)[0].lower() == f"{own_host}:{port}":
                raise UsageError(
                    f"--upstream {name}={address}: this is the address of llm-proxy itself; "
                    "set the address of the provider"
                )
    return f"http://{_connectable_host(host)}:{port}"


def _connectable_host(host: str) -> str:
    """A host that clients can connect to: never `localhost`, which may be another server's."""
    match host:
        case "0.0.0.0" | "" | "localhost":  # noqa: S104 # chosen by the operator
            return "127.0.0.1"
        case "::":
            return "[::1]"
        case _:
            return f"[{host}]" if ":" in host else host


class ListenerGate:
    """Closes a runner's listening sockets in the windows of `refuse`, and reopens them afterwards.

    Meanwhile each port is bound by a socket that does not listen: connections are refused, and
    no other program gets the port.
    """

    def __init__(
        self, runner: web.ServerRunner, fault_middleware: FaultMiddleware, journal: Journal
    ) -> None:
        self._runner = runner
        self._journal = journal
        self._fault_middleware = fault_middleware
        self._addresses: list[Any] = list(runner.addresses)
        self._held_sockets: list[socket.socket] = []
        self._is_open = True
        self._apply_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Apply the rules now, and whenever they require a change, until `stop`."""
        delay_s = await self._apply_refusal_rules()
        self._apply_task = asyncio.create_task(self._keep_applying_refusal_rules(delay_s))

    async def stop(self) -> None:
        """Stop listening, for good."""
        if self._apply_task is not None:
            self._apply_task.cancel()
            await asyncio.wait([self._apply_task])
        for site in self._runner.sites:
            await site.stop()
        self._release_sockets()

    async def _keep_applying_refusal_rules(self, delay_s: float | None) -> None:
        rules_changed_event = self._fault_middleware.rules_changed_event
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await rules_changed_event.wait()
            rules_changed_event.clear()
            delay_s = await self._apply_refusal_rules()

    async def _apply_refusal_rules(self) -> float | None:
        """Close or open the listener; returns the seconds until the next change, if one is due."""
        now_ms = self._fault_middleware.elapsed_run_ms()
        windows = list(_closure_windows(self._fault_middleware.engine))
        open_windows = [window for window in windows if window[0] <= now_ms < window[1]]
        if open_windows and self._is_open:
            _, end, active_rule = max(open_windows, key=lambda window: window[1])
            rule_text = printable_excerpt(active_rule.rule.text, _MAX_RULE_CHARS)
            log.info("listener closed for %.3g s by fault %s", (end - now_ms) / 1000, rule_text)
            await self._close_listener()
        elif not open_windows and not self._is_open:
            await self._open_listener()
        edges_ms = [edge for begin, end, _ in windows for edge in (begin, end) if edge > now_ms]
        if not open_windows and not self._is_open:
            edges_ms.append(now_ms + _REOPEN_RETRY_MS)
        if not edges_ms:
            return None
        return max(min(edges_ms) - self._fault_middleware.elapsed_run_ms(), 0) / 1000

    async def _close_listener(self) -> None:
        self._is_open = False
        for site in self._runner.sites:
            await site.stop()
        await asyncio.sleep(0)  # some event loops close a socket in their next iteration
        # If another program has taken the port, binding is retried when the window ends.
        with suppress(OSError):
            self._held_sockets = _bind_sockets(self._addresses)
        self._journal.add_listener_closure(self._fault_middleware.elapsed_run_ms())

    async def _open_listener(self) -> None:
        try:
            self._held_sockets = self._held_sockets or _bind_sockets(self._addresses)
            for sock in self._held_sockets:
                await web.SockSite(self._runner, sock, backlog=_LISTEN_BACKLOG).start()
        except OSError as error:
            for site in self._runner.sites:
                await site.stop()
            self._release_sockets()
            reason = os.strerror(error.errno) if error.errno else str(error)
            log.warning("cannot reopen the listener: %s; retrying", reason)
            return
        self._held_sockets = []
        self._is_open = True
        self._journal.end_listener_closure(self._fault_middleware.elapsed_run_ms())
        log.info("listener reopened")

    def _release_sockets(self) -> None:
        for sock in self._held_sockets:
            sock.close()
        self._held_sockets = []


def _closure_windows(engine: FaultEngine) -> Iterator[tuple[float, float, ActiveRule]]:
    """Begin and end of each window, in ms since the run began, and its rule."""
    for active_rule in engine.run_rules:
        match active_rule.rule.mechanism:
            case MeteredFault(listener_window_ms=(begin, end)):
                since_ms = active_rule.active_since_ms
                yield since_ms + begin, since_ms + end, active_rule
            case _:
                pass


def _bind_sockets(addresses: list[Any]) -> list[socket.socket]:
    """Sockets that are bound to these addresses, and do not listen.  Raises `OSError`."""
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            if os.name == "posix":  # elsewhere it would let another program bind the port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets
