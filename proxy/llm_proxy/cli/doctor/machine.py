"""Checks of versions, environment, port and event loop."""

from __future__ import annotations

import asyncio
import ipaddress
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.cli.doctor.listeners import Occupant, listener
from llm_proxy.cli.doctor.results import Level, Verdict
from llm_proxy.errors import UsageError
from llm_proxy.shell.content_decoders import decoder
from llm_proxy.shell.running.environment import ADOPTED, BASE_URLS, base_url, counting
from llm_proxy.shell.running.settings import checked_url
from llm_proxy.version import __version__

_FLOORS: Final = {"aiohttp": (3, 14, 4), "orjson": (3, 11, 6), "click": (8, 2), "rich": (14,)}
"""The oldest releases that this tool is safe with."""
_PYTHON: Final = (3, 11)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = frozenset((_LOOPBACK, "localhost", "::1"))
_PROXIES: Final = ("http_proxy", "all_proxy")
"""What clients ask for the way to an http:// address."""


def verdicts(environ: Mapping[str, str], port: int) -> Iterator[Verdict]:
    """All of them."""
    yield from _versions()
    yield _parser()
    yield _event_loop()
    yield _decoders()
    found = listener(_LOOPBACK, port)
    yield port_verdict(port, found)
    yield proxy_verdict(environ)
    yield from base_url_verdicts(environ, port, found)


def _versions() -> Iterator[Verdict]:
    python = platform.python_version()
    old = tuple(map(int, platform.python_version_tuple()[:2])) < _PYTHON
    text = f"llm-proxy {__version__} on {platform.python_implementation()} {python}"
    yield Verdict("llm-proxy", Level.PROBLEM if old else Level.OK, text)
    for package, floor in _FLOORS.items():
        yield package_verdict(package, floor)


def package_verdict(package: str, floor: tuple[int, ...]) -> Verdict:
    """Whether a package that we rest on is there, and new enough."""
    least = ".".join(map(str, floor))
    try:
        found = version(package)
    except PackageNotFoundError:
        text = f"not installed: pip install '{package}>={least}'"
        return Verdict(package, Level.PROBLEM, text)
    if _numbers(found) < floor:
        text = f"{found} is too old: pip install --upgrade '{package}>={least}'"
        return Verdict(package, Level.PROBLEM, text)
    return Verdict(package, Level.OK, found)


def _numbers(release: str) -> tuple[int, ...]:
    """`3.14.4rc1` as (3, 14, 4): enough to compare with a floor."""
    numbers: list[int] = []
    for part in release.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _parser() -> Verdict:
    from aiohttp import http_parser  # noqa: PLC0415 # slow, and doctor alone looks at it

    in_c = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
    return parser_verdict(in_c=in_c)


def parser_verdict(*, in_c: bool) -> Verdict:
    """Which of aiohttp's two HTTP parsers is in use."""
    if in_c:
        return Verdict("HTTP parser", Level.OK, "aiohttp's, in C")
    text = (
        "aiohttp's in pure Python, several times slower and another one than is tested most: "
        "install aiohttp from a wheel, and leave AIOHTTP_NO_EXTENSIONS unset"
    )
    return Verdict("HTTP parser", Level.WARNING, text)


def _event_loop() -> Verdict:
    loop = asyncio.new_event_loop()
    loop.close()
    kind = type(loop)
    return Verdict("event loop", Level.OK, f"{kind.__module__}.{kind.__name__}")


def _decoders() -> Verdict:
    there = [coding for coding in ("gzip", "deflate", "br", "zstd") if decoder(coding)]
    missing = [coding for coding in ("br", "zstd") if coding not in there]
    text = ", ".join(there)
    if missing:
        text += (
            f"; without {' and '.join(missing)} a response that comes so although plain text was "
            "asked for is stored as it came: pip install 'llm-proxy-replay[speedups]'"
        )
    return Verdict("decoders", Level.OK, text)


def port_verdict(port: int, found: Occupant | None) -> Verdict:
    """Whether the default port is free."""
    name = f"port {port}"
    if found is None:
        return Verdict(name, Level.OK, "free")
    if found.ours:
        return Verdict(name, Level.OK, f"llm-proxy {found.ours} serves there")
    who = f" by {found.process}" if found.process else ""
    text = f"taken{who}: stop it, or give --port 0 for any free one (a COMMAND needs neither)"
    return Verdict(name, Level.WARNING, text)


def proxy_verdict(environ: Mapping[str, str]) -> Verdict:
    """Whether clients would look for us behind a proxy."""
    named = [name for name in environ if name.lower() in _PROXIES and environ[name]]
    if not named:
        return Verdict("proxies", Level.OK, "none in the environment")
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if _covers(exempt):
        return Verdict("proxies", Level.OK, f"{', '.join(named)}; not for {_LOOPBACK}")
    hosts = ",".join(filter(None, (exempt, _LOOPBACK, "localhost")))
    text = (
        f"{' and '.join(named)} would take requests for {_LOOPBACK} to that proxy: "
        f"export NO_PROXY={hosts} no_proxy={hosts} (a COMMAND of ours has them set)"
    )
    return Verdict("proxies", Level.WARNING, text)


def _covers(exempt: str) -> bool:
    """Whether a NO_PROXY keeps requests for loopback away from proxies."""
    for entry in exempt.split(","):
        host = entry.strip().partition(":")[0]
        if host in {"*", _LOOPBACK}:
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(_LOOPBACK) in ipaddress.ip_network(host, strict=False):
                return True
    return False


def base_url_verdicts(
    environ: Mapping[str, str], port: int, found: Occupant | None
) -> Iterator[Verdict]:
    """Where the clients of this environment are pointed."""
    taken = counting(environ)
    pointed = {name: url for name in BASE_URLS if (url := base_url(name, environ))}
    if not pointed:
        yield Verdict("base URLs", Level.OK, "none in the environment: clients ask the providers")
    for name, url in pointed.items():
        try:
            checked = checked_url("", url)
        except UsageError as error:
            yield Verdict(name, Level.WARNING, _unusable(name, str(error), taken))
        else:
            yield _pointed(name, checked, _adoption(name, taken), (port, found))


def _unusable(name: str, why: str, taken: Mapping[str, str]) -> str:
    """What is said of a value that is no plain URL."""
    if name not in taken:
        return f"{why.removeprefix(': ')}; correct it, or unset it ({_adoption(name, taken)})"
    return (
        f"{why.removeprefix(': ')}; record and auto -- COMMAND refuse it: correct it, unset it, or "
        f"give --upstream {taken[name]}=URL, which wins"
    )


def _adoption(name: str, taken: Mapping[str, str]) -> str:
    """What `record` and `auto` make of a variable."""
    if name in taken:
        return "record and auto -- COMMAND take it as the upstream"
    winner = next(it for it, provider in taken.items() if provider == ADOPTED[name])
    return f"record and auto -- COMMAND take {winner} instead as the upstream"


def _pointed(name: str, url: str, adoption: str, ours: tuple[int, Occupant | None]) -> Verdict:
    parts = urlsplit(url)
    port, found = ours
    if parts.hostname not in _LOCAL or parts.port != port:
        return Verdict(name, Level.OK, f"{url}: clients in this shell ask there; {adoption}")
    if found is None:
        text = f"{url}, where nothing listens: start llm-proxy, or unset {name}"
        return Verdict(name, Level.WARNING, text)
    return Verdict(name, Level.OK, f"{url}, the default port of llm-proxy")
