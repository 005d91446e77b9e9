"""`doctor` checks of versions, environment, port and event loop."""

from __future__ import annotations

import asyncio
import ipaddress
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.cli.doctor.listeners import PortOccupant, find_listener
from llm_proxy.cli.doctor.results import CheckLevel, CheckResult
from llm_proxy.errors import UsageError
from llm_proxy.shell.content_decoders import new_decoder
from llm_proxy.shell.running.environment import (
    ADOPTED,
    BASE_URLS,
    base_url_variables,
    normalized_base_url,
)
from llm_proxy.shell.running.settings import checked_http_url
from llm_proxy.version import __version__

_FLOORS: Final = {"aiohttp": (3, 14, 4), "orjson": (3, 11, 6), "click": (8, 2), "rich": (14,)}
"""The oldest releases that this tool is safe with."""
_PYTHON: Final = (3, 11)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = frozenset((_LOOPBACK, "localhost", "::1"))
_PROXIES: Final = ("http_proxy", "all_proxy")
"""What clients ask for the way to an http:// address."""


def machine_checks(environ: Mapping[str, str], port: int) -> Iterator[CheckResult]:
    """All of them."""
    yield from _check_versions()
    yield _check_parser()
    yield _check_event_loop()
    yield _check_decoders()
    found = find_listener(_LOOPBACK, port)
    yield check_port(port, found)
    yield check_proxy_variables(environ)
    yield from check_base_urls(environ, port, found)


def _check_versions() -> Iterator[CheckResult]:
    python = platform.python_version()
    old = tuple(map(int, platform.python_version_tuple()[:2])) < _PYTHON
    text = f"llm-proxy {__version__} on {platform.python_implementation()} {python}"
    yield CheckResult("llm-proxy", CheckLevel.PROBLEM if old else CheckLevel.OK, text)
    for package, floor in _FLOORS.items():
        yield check_package(package, floor)


def check_package(package: str, floor: tuple[int, ...]) -> CheckResult:
    """Whether a package that we rest on is there, and new enough."""
    least = ".".join(map(str, floor))
    try:
        found = version(package)
    except PackageNotFoundError:
        text = f"not installed: pip install '{package}>={least}'"
        return CheckResult(package, CheckLevel.PROBLEM, text)
    if _version_numbers(found) < floor:
        text = f"{found} is too old: pip install --upgrade '{package}>={least}'"
        return CheckResult(package, CheckLevel.PROBLEM, text)
    return CheckResult(package, CheckLevel.OK, found)


def _version_numbers(release: str) -> tuple[int, ...]:
    """`3.14.4rc1` as (3, 14, 4): enough to compare with a floor."""
    numbers: list[int] = []
    for part in release.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _check_parser() -> CheckResult:
    from aiohttp import http_parser  # noqa: PLC0415 # slow, and doctor alone looks at it

    in_c = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
    return check_http_parser(in_c=in_c)


def check_http_parser(*, in_c: bool) -> CheckResult:
    """Which of aiohttp's two HTTP parsers is in use."""
    if in_c:
        return CheckResult("HTTP parser", CheckLevel.OK, "aiohttp's, in C")
    text = (
        "aiohttp's in pure Python, several times slower and another one than is tested most: "
        "install aiohttp from a wheel, and leave AIOHTTP_NO_EXTENSIONS unset"
    )
    return CheckResult("HTTP parser", CheckLevel.WARNING, text)


def _check_event_loop() -> CheckResult:
    loop = asyncio.new_event_loop()
    loop.close()
    kind = type(loop)
    return CheckResult("event loop", CheckLevel.OK, f"{kind.__module__}.{kind.__name__}")


def _check_decoders() -> CheckResult:
    there = [coding for coding in ("gzip", "deflate", "br", "zstd") if new_decoder(coding)]
    missing = [coding for coding in ("br", "zstd") if coding not in there]
    text = ", ".join(there)
    if missing:
        text += (
            f"; without {' and '.join(missing)} a response that comes so although plain text was "
            "asked for is stored as it came: pip install 'llm-proxy-replay[speedups]'"
        )
    return CheckResult("decoders", CheckLevel.OK, text)


def check_port(port: int, found: PortOccupant | None) -> CheckResult:
    """Whether the default port is free."""
    name = f"port {port}"
    if found is None:
        return CheckResult(name, CheckLevel.OK, "free")
    if found.our_mode:
        return CheckResult(name, CheckLevel.OK, f"llm-proxy {found.our_mode} serves there")
    who = f" by {found.process}" if found.process else ""
    text = f"taken{who}: stop it, or give --port 0 for any free one (a COMMAND needs neither)"
    return CheckResult(name, CheckLevel.WARNING, text)


def check_proxy_variables(environ: Mapping[str, str]) -> CheckResult:
    """Whether clients would look for us behind a proxy."""
    named = [name for name in environ if name.lower() in _PROXIES and environ[name]]
    if not named:
        return CheckResult("proxies", CheckLevel.OK, "none in the environment")
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if _no_proxy_covers_loopback(exempt):
        return CheckResult("proxies", CheckLevel.OK, f"{', '.join(named)}; not for {_LOOPBACK}")
    hosts = ",".join(filter(None, (exempt, _LOOPBACK, "localhost")))
    text = (
        f"{' and '.join(named)} would take requests for {_LOOPBACK} to that proxy: "
        f"export NO_PROXY={hosts} no_proxy={hosts} (a COMMAND of ours has them set)"
    )
    return CheckResult("proxies", CheckLevel.WARNING, text)


def _no_proxy_covers_loopback(exempt: str) -> bool:
    for entry in exempt.split(","):
        host = entry.strip().partition(":")[0]
        if host in {"*", _LOOPBACK}:
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(_LOOPBACK) in ipaddress.ip_network(host, strict=False):
                return True
    return False


def check_base_urls(
    environ: Mapping[str, str], port: int, found: PortOccupant | None
) -> Iterator[CheckResult]:
    """Where the clients of this environment are pointed."""
    taken = base_url_variables(environ)
    pointed = {name: url for name in BASE_URLS if (url := normalized_base_url(name, environ))}
    if not pointed:
        yield CheckResult(
            "base URLs", CheckLevel.OK, "none in the environment: clients ask the providers"
        )
    for name, url in pointed.items():
        try:
            checked = checked_http_url("", url)
        except UsageError as error:
            yield CheckResult(
                name, CheckLevel.WARNING, _unusable_url_verdict(name, str(error), taken)
            )
        else:
            yield _base_url_verdict(name, checked, _adoption_text(name, taken), (port, found))


def _unusable_url_verdict(name: str, why: str, taken: Mapping[str, str]) -> str:
    if name not in taken:
        return f"{why.removeprefix(': ')}; correct it, or unset it ({_adoption_text(name, taken)})"
    return (
        f"{why.removeprefix(': ')}; record and auto -- COMMAND refuse it: correct it, unset it, or "
        f"give --upstream {taken[name]}=URL, which wins"
    )


def _adoption_text(name: str, taken: Mapping[str, str]) -> str:
    """What `record` and `auto` make of a variable."""
    if name in taken:
        return "record and auto -- COMMAND take it as the upstream"
    winner = next(text for text, provider in taken.items() if provider == ADOPTED[name])
    return f"record and auto -- COMMAND take {winner} instead as the upstream"


def _base_url_verdict(
    name: str, url: str, adoption: str, ours: tuple[int, PortOccupant | None]
) -> CheckResult:
    parts = urlsplit(url)
    port, found = ours
    if parts.hostname not in _LOCAL or parts.port != port:
        return CheckResult(
            name, CheckLevel.OK, f"{url}: clients in this shell ask there; {adoption}"
        )
    if found is None:
        text = f"{url}, where nothing listens: start llm-proxy, or unset {name}"
        return CheckResult(name, CheckLevel.WARNING, text)
    return CheckResult(name, CheckLevel.OK, f"{url}, the default port of llm-proxy")
