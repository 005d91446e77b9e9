"""Where requests of tests go: URLs in one spelling only, and the hosts that are allowed.

A URL is checked before any library parses it: what one parser reads as a path, another reads as a
host.  Names of this machine are never looked up, so that no name server decides where they lead.

Source: RFC 3986; RFC 6761 section 6.3 (`localhost`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from llm_proxy.errors import printable_excerpt
from llm_pytest.plugin_base import ToolError

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
"""A host name.  Its last label begins with a letter: `127.1`, `2130706433` and `0x7f.1` are IPv4
addresses in the eyes of some systems."""
_HOST: Final = rf"(?P<host>{_NAME}|(?:[0-9]{{1,3}}\.){{3}}[0-9]{{1,3}}|\[[0-9a-f:.]+\])"
_PORT: Final = r"(?::(?P<port>[0-9]{1,5}))?"
_URL: Final = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_HOST}{_PORT}(?P<rest>[/?][^#]*)?(?:#.*)?",
    re.IGNORECASE | re.ASCII,
)
_ALLOWED_HOST: Final = re.compile(rf"(?P<wildcard>\*\.)?{_HOST}{_PORT}", re.IGNORECASE | re.ASCII)
_ASCII: Final = "".join(map(chr, range(128)))
_MAX_SHOWN_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    scheme: str
    host: str
    """In lower case; an IPv6 address without brackets, in its shortest spelling."""
    port: int
    rest: str
    """Path and query in ASCII; begins with `/`."""

    @property
    def place(self) -> str:
        """`HOST:PORT`, for messages."""
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, without a default port."""
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        place = _bracketed(self.host) if is_default else self.place
        return f"{self.scheme}://{place}{self.rest}"

    def has_origin_of(self, other: Target) -> bool:
        """Whether scheme, host and port are the same."""
        return (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)


def parse_target(url: str) -> Target:
    """The target of an absolute URL.  Raises `ToolError`."""
    shown = printable_excerpt(url, _MAX_SHOWN_CHARS)
    if not url.isprintable() or " " in url or "\\" in url:
        raise ToolError(
            f"{shown}: a URL has no spaces, control characters and backslashes; percent-encode them"
        )
    match = _URL.fullmatch(url)
    host = _canonical_host(match["host"]) if match else None
    if match is None or host is None:
        raise ToolError(f"{shown} is not a valid URL; use http://HOST:PORT/PATH")
    scheme = match["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        raise ToolError(f"{shown}: the scheme {scheme} is not supported; use http or https")
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port <= 65535:
        raise ToolError(f"{shown}: {port} is not a port number from 1 to 65535")
    rest = quote(match["rest"] or "/", safe=_ASCII)
    return Target(scheme, host, port, rest if rest.startswith("/") else f"/{rest}")


def is_local_name(host: str) -> bool:
    """Whether a name always means this machine."""
    return host == "localhost" or host.endswith(".localhost")


class AllowedHosts:
    """Allows this machine, and the hosts of `entries`: `HOST`, `HOST:PORT` and `*.HOST`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        """Raises `ValueError` for an invalid entry."""
        self._entries: set[tuple[str, int | None]] = set()
        for entry in entries:
            match = _ALLOWED_HOST.fullmatch(entry)
            host = _canonical_host(match["host"]) if match else None
            if (
                match is None
                or host is None
                or (match["wildcard"] and not re.fullmatch(_NAME, host))
            ):
                shown = printable_excerpt(entry, _MAX_SHOWN_CHARS)
                raise ValueError(
                    f"{shown!r} is not a valid host; use example.com, example.com:8080 or "
                    "*.example.com"
                )
            port = int(match["port"]) if match["port"] else None
            self._entries.add(((match["wildcard"] or "") + host, port))

    def check(self, target: Target) -> None:
        """Raises `ToolError` for a host that is not allowed."""
        if _is_loopback(target.host) or is_local_name(target.host):
            return
        labels = target.host.split(".")
        names = [target.host, *("*." + ".".join(labels[i:]) for i in range(1, len(labels)))]
        if not any((name, port) in self._entries for name in names for port in (None, target.port)):
            raise ToolError(
                f"the host {target.host} is not allowed; to allow it, add it to allowed_hosts in "
                "the test definition"
            )


def _canonical_host(host: str) -> str | None:
    """The host in its only spelling; None if it is an invalid address, or one in another."""
    host = host.lower()
    if re.fullmatch(_NAME, host):
        return host
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    is_mapped = getattr(address, "ipv4_mapped", None) is not None
    has_right_brackets = host.startswith("[") == (address.version == 6)
    return str(address) if has_right_brackets and not is_mapped else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
