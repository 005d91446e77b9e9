"""Refuses requests by host and origin before anything else is done.

Listening on localhost alone is no protection: a web page can reach the proxy by DNS rebinding or
by a cross-site POST.  So the `Host` must be the proxy's, and a browser's request must not come
from another origin.

Messages quote client input in ASCII only: bytes that are not UTF-8 arrive as lone surrogates,
which JSON cannot hold.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aiohttp import HttpVersion11, web

from llm_proxy.errors import RequestRefused
from llm_proxy.redaction import displayable_target

_LOCALHOST: Final = "localhost"
_HOST_HEADER: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:]+)\]|(?P<name>[^\[\]:@/\s]+))(?::(?P<port>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class RequestGuards:
    """Which requests are accepted, by host, origin and `Via`."""

    allow_hosts: frozenset[str] = frozenset()
    """Further host names of the proxy, such as a container's."""
    allow_origins: frozenset[str] = frozenset()
    """Origins of web pages that may send requests."""
    via_pseudonym: str = ""
    """The pseudonym of this process in `Via`; empty if it has no upstream."""

    def check(self, request: web.BaseRequest) -> None:
        """Raise `RequestRefused` for a request that is not meant for this proxy."""
        target = request.raw_path
        if not target.startswith("/"):
            shown = displayable_target(target)
            raise RequestRefused(400, f"{shown!a} is no path: this is no forward proxy")
        if request.version < HttpVersion11 and "Transfer-Encoding" in request.headers:
            raise RequestRefused(400, "HTTP/1.0 has no Transfer-Encoding: send a Content-Length")
        if request.headers.get("Upgrade", "").lower() == "websocket":
            raise RequestRefused(426, "WebSockets are not recorded; use the provider's HTTP API")
        if self.via_pseudonym and self.via_pseudonym in ",".join(request.headers.getall("Via", [])):
            raise RequestRefused(508, "this proxy sent this request: an upstream leads to it")
        self._check_host(request)
        self._check_origin(request)

    def _check_host(self, request: web.BaseRequest) -> None:
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            raise RequestRefused(400, "a request needs one Host header")
        sockname = request.transport and request.transport.get_extra_info("sockname")
        port = sockname[1] if sockname else None
        if not _is_own_host(hosts[0], port, self.allow_hosts):
            name, _ = _split_host(hosts[0])
            if _is_local_name(name):
                raise RequestRefused(
                    421,
                    f"the host is right, the port of {hosts[0]!a} is not: this proxy listens on "
                    f"{port}; behind a mapped port start it with --allow-host {name}",
                )
            raise RequestRefused(
                421,
                f"this proxy does not answer for the host {hosts[0]!a}: start it with "
                "--allow-host NAME if that is one of its names",
            )

    def _check_origin(self, request: web.BaseRequest) -> None:
        origin = request.headers.get("Origin")
        if origin in self.allow_origins:
            return
        site = request.headers.get("Sec-Fetch-Site", "none")
        if origin is not None or site in {"cross-site", "same-site"}:
            page = f"of {origin!a}" if origin is not None else "of another site"
            raise RequestRefused(
                403,
                f"a web page {page} may not use this proxy: start it with --allow-origin ORIGIN "
                "if it may",
            )


@lru_cache(64)  # one client always sends the same header
def _is_own_host(host: str, port: int | None, allowed: frozenset[str]) -> bool:
    name, named_port = _split_host(host)
    if name in allowed or host.lower() in allowed:
        return True
    return _is_local_name(name) and (named_port or "80") == str(port)


def _split_host(host: str) -> tuple[str, str]:
    """Name and port of a Host header; the port may be empty, and both are if it is malformed."""
    match = _HOST_HEADER.fullmatch(host)
    if match is None:
        return "", ""
    return (match["v6"] or match["name"]).lower(), match["port"] or ""


def _is_local_name(name: str) -> bool:
    """Whether this name always means the local machine: localhost or a loopback address."""
    if name == _LOCALHOST:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None
