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

from llm_proxy.cli.doctor.listeners import PortListener, find_listener
from llm_proxy.cli.doctor.results import CheckLevel, CheckResult
from llm_proxy.errors import UsageError
from llm_proxy.shell.content_decoders import new_decoder
from llm_proxy.shell.running.environment import (
    BASE_URL_PATHS,
    UPSTREAM_VARIABLES,
    configured_base_url_variables,
    normalized_base_url,
)
from llm_proxy.shell.running.settings import checked_http_url
from llm_proxy.version import __version__

_MIN_VERSIONS: Final = {"aiohttp": (3, 14, 4), "orjson": (3, 11, 6), "click": (8, 2), "rich": (14,)}
"""The oldest versions of packages that this tool is safe with."""
_MIN_PYTHON: Final = (3, 11)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_HOSTS: Final = frozenset((_LOOPBACK, "localhost", "::1"))
_PROXY_VARIABLES: Final = ("http_proxy", "all_proxy")
"""Variables, in lower case, from which clients take the proxy for http:// URLs."""


def run_machine_checks(environ: Mapping[str, str], port: int) -> Iterator[CheckResult]:
    """Run all checks of the machine and the environment; `port` is the proxy's default port."""
    yield from _check_versions()
    yield _check_http_parser()
    yield _check_event_loop()
    yield _check_content_decoders()
    listener = find_listener(_LOOPBACK, port)
    yield check_port(port, listener)
    yield check_proxy_variables(environ)
    yield from check_base_urls(environ, port, listener)


def _check_versions() -> Iterator[CheckResult]:
    python = platform.python_version()
    old = tuple(map(int, platform.python_version_tuple()[:2])) < _MIN_PYTHON
    text = f"llm-proxy {__version__} on {platform.python_implementation()} {python}"
    yield CheckResult("llm-proxy", CheckLevel.PROBLEM if old else CheckLevel.OK, text)
    for package, min_version in _MIN_VERSIONS.items():
        yield check_package(package, min_version)


def check_package(package: str, min_version: tuple[int, ...]) -> CheckResult:
    """Check that a required package is installed and new enough."""
    min_version_text = ".".join(map(str, min_version))
    try:
        installed_version = version(package)
    except PackageNotFoundError:
        text = f"not installed: pip install '{package}>={min_version_text}'"
        return CheckResult(package, CheckLevel.PROBLEM, text)
    if _version_numbers(installed_version) < min_version:
        text = (
            f"{installed_version} is too old: pip install --upgrade '{package}>={min_version_text}'"
        )
        return CheckResult(package, CheckLevel.PROBLEM, text)
    return CheckResult(package, CheckLevel.OK, installed_version)


def _version_numbers(release: str) -> tuple[int, ...]:
    """`3.14.4rc1` as (3, 14, 4): enough to compare with a minimum version."""
    numbers: list[int] = []
    for part in release.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _check_http_parser() -> CheckResult:
    from aiohttp import http_parser  # noqa: PLC0415 # slow, and only doctor needs it

    is_c_parser = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
    return http_parser_result(is_c_parser=is_c_parser)


def http_parser_result(*, is_c_parser: bool) -> CheckResult:
    """The result for aiohttp's parser in C, or for the one in pure Python."""
    if is_c_parser:
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


def _check_content_decoders() -> CheckResult:
    available = [coding for coding in ("gzip", "deflate", "br", "zstd") if new_decoder(coding)]
    missing = [coding for coding in ("br", "zstd") if coding not in available]
    text = ", ".join(available)
    if missing:
        text += (
            f"; without {' and '.join(missing)} a response that comes so although plain text was "
            "asked for is stored as it came: pip install 'llm-proxy-replay[speedups]'"
        )
    return CheckResult("decoders", CheckLevel.OK, text)


def check_port(port: int, listener: PortListener | None) -> CheckResult:
    """The result for the default port, given what listens on it."""
    name = f"port {port}"
    if listener is None:
        return CheckResult(name, CheckLevel.OK, "free")
    if listener.llm_proxy_mode:
        return CheckResult(name, CheckLevel.OK, f"llm-proxy {listener.llm_proxy_mode} serves there")
    who = f" by {listener.process_label}" if listener.process_label else ""
    text = f"taken{who}: stop it, or give --port 0 for any free one (a COMMAND needs neither)"
    return CheckResult(name, CheckLevel.WARNING, text)


def check_proxy_variables(environ: Mapping[str, str]) -> CheckResult:
    """Check that proxy variables do not divert requests for loopback."""
    named = [name for name in environ if name.lower() in _PROXY_VARIABLES and environ[name]]
    if not named:
        return CheckResult("proxies", CheckLevel.OK, "none in the environment")
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if _no_proxy_covers_loopback(no_proxy):
        return CheckResult("proxies", CheckLevel.OK, f"{', '.join(named)}; not for {_LOOPBACK}")
    hosts = ",".join(filter(None, (no_proxy, _LOOPBACK, "localhost")))
    text = (
        f"{' and '.join(named)} would take requests for {_LOOPBACK} to that proxy: "
        f"export NO_PROXY={hosts} no_proxy={hosts} (a COMMAND of ours has them set)"
    )
    return CheckResult("proxies", CheckLevel.WARNING, text)


def _no_proxy_covers_loopback(no_proxy: str) -> bool:
    for entry in no_proxy.split(","):
        host = entry.strip().partition(":")[0]
        if host in {"*", _LOOPBACK}:
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(_LOOPBACK) in ipaddress.ip_network(host, strict=False):
                return True
    return False


def check_base_urls(
    environ: Mapping[str, str], port: int, listener: PortListener | None
) -> Iterator[CheckResult]:
    """Check the base URLs that clients take from the environment."""
    adopted_variables = configured_base_url_variables(environ)
    base_urls = {
        name: url for name in BASE_URL_PATHS if (url := normalized_base_url(name, environ))
    }
    if not base_urls:
        yield CheckResult(
            "base URLs", CheckLevel.OK, "none in the environment: clients ask the providers"
        )
    for name, url in base_urls.items():
        try:
            checked = checked_http_url("", url)
        except UsageError as error:
            yield CheckResult(
                name, CheckLevel.WARNING, _unusable_url_text(name, str(error), adopted_variables)
            )
        else:
            yield _base_url_result(
                name, checked, _adoption_text(name, adopted_variables), (port, listener)
            )


def _unusable_url_text(name: str, why: str, adopted_variables: Mapping[str, str]) -> str:
    if name not in adopted_variables:
        return (
            f"{why.removeprefix(': ')}; correct it, or unset it "
            f"({_adoption_text(name, adopted_variables)})"
        )
    return (
        f"{why.removeprefix(': ')}; record and auto -- COMMAND refuse it: correct it, unset it, or "
        f"give --upstream {adopted_variables[name]}=URL, which wins"
    )


def _adoption_text(name: str, adopted_variables: Mapping[str, str]) -> str:
    """How `record` and `auto` use a base-URL variable, as text."""
    if name in adopted_variables:
        return "record and auto -- COMMAND take it as the upstream"
    winner = next(
        text for text, provider in adopted_variables.items() if provider == UPSTREAM_VARIABLES[name]
    )
    return f"record and auto -- COMMAND take {winner} instead as the upstream"


def _base_url_result(
    name: str, url: str, adoption: str, port_and_listener: tuple[int, PortListener | None]
) -> CheckResult:
    parts = urlsplit(url)
    port, listener = port_and_listener
    if parts.hostname not in _LOCAL_HOSTS or parts.port != port:
        return CheckResult(
            name, CheckLevel.OK, f"{url}: clients in this shell ask there; {adoption}"
        )
    if listener is None:
        text = f"{url}, where nothing listens: start llm-proxy, or unset {name}"
        return CheckResult(name, CheckLevel.WARNING, text)
    return CheckResult(name, CheckLevel.OK, f"{url}, the default port of llm-proxy")
