"""`doctor`: checks this machine, this environment and this library for problems."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import os
import platform
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click
import orjson

from llm_proxy import display
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.library import (
    count_keyed_by_other_rules,
    name_in_library,
    older_rules_message,
    other_rules_message,
    read_cassettes,
)
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    DEFAULT_PORT,
    cassettes_option,
    json_option,
    match_rules_option,
    spool_option,
    unknown_variables,
)
from llm_proxy.cli.output import StyledText, print_json, print_lines, print_note
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, SpoolError, UsageError
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.providers import BASE_URL_VARIABLES
from llm_proxy.redaction import has_older_rules
from llm_proxy.shell.content_decoders import new_decoder
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.spooling import count_abandoned_spools
from llm_proxy.shell.running.environment import (
    configured_base_url_variables,
    normalized_base_url,
)
from llm_proxy.shell.running.settings import (
    checked_http_url,
    default_spool_folder,
    recover_command,
)
from llm_proxy.version import __version__


class CheckLevel(StrEnum):
    """The severity of a check result."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not as a user may expect."""
    PROBLEM = "problem"
    """It does not work."""


OK, WARNING, PROBLEM = CheckLevel


class CheckResult(NamedTuple):
    """The result of one check: a line of `doctor`."""

    name: str
    """What was checked, such as `port 4777` or the name of a package."""
    level: CheckLevel
    text: str
    """What was found, and for any level but OK what to do."""


_FOLDER_OPTIONS: Final = {"library": "cassettes", "spool": "spool"}
"""The option that sets the folder of each check."""
_ADOPTING_COMMANDS: Final = "with -- COMMAND, record and auto"
"""The commands that use base URLs of the environment as upstreams."""
_STYLES: Final = {OK: "good", WARNING: "doubtful", PROBLEM: "bad"}
_LEVEL_COLUMNS: Final = max(map(len, CheckLevel))
_NAME_COLUMNS: Final = 15
"""Width of the name of a check."""
_MIN_VERSIONS: Final = {"aiohttp": (3, 14, 4), "orjson": (3, 11, 6), "click": (8, 2), "rich": (14,)}
"""The oldest versions of packages that this tool is safe with."""
_MIN_PYTHON: Final = (3, 11)
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_HOSTS: Final = frozenset((_LOOPBACK, "localhost", "::1"))
_PROXY_VARIABLES: Final = ("http_proxy", "all_proxy")
"""Variables, in lower case, from which clients take the proxy for http:// URLs."""
_MAX_SHOWN_FILES: Final = 5
"""Files that one line names at most."""
_HEALTH_TIMEOUT_S: Final = 1.0
"""Socket timeout of the health request."""
_MAX_HEALTH_BYTES: Final = 65536
_LISTEN_STATE: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


@click.command
@cassettes_option
@spool_option
@match_rules_option
@CONFIG_OPTION
@json_option
def doctor(cassettes: Path, spool: Path | None, normalise: RuleSet, *, as_json: bool) -> None:
    r"""Check this machine and the library for problems.

    The checks cover package versions, the HTTP parser, the event loop, the decoders, the port, the
    proxies, base URLs and LLM_PROXY_ variables in the environment, the library, and interrupted
    recordings. Each line reports ok, a warning or a problem; the exit code is 1 if there is a
    problem. The command does not change files.

    \b
    Examples:
      llm-proxy doctor
      llm-proxy doctor --cassettes tests/cassettes
      llm-proxy doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    spool = spool or default_spool_folder(os.environ)
    results = [
        *_run_machine_checks(os.environ, DEFAULT_PORT),
        *run_library_checks(cassettes, spool, normalise),
    ]
    problem_count = sum(result.level is PROBLEM for result in results)
    if as_json:
        checks = [
            {"name": name, "level": level.value, "text": display.path_as_unicode_text(text)}
            for name, level, text in results
        ]
        print_json({"ok": not problem_count, "checks": checks})
    else:
        print_lines(
            (
                StyledText(f"{level:<{_LEVEL_COLUMNS}}", _STYLES[level]),
                "  ",
                StyledText(f"{name:<{_NAME_COLUMNS}} ", "bold"),
                display.escape_line(text),
            )
            for name, level, text in results
        )
        warning_count = sum(result.level is WARNING for result in results)
        problems = count_with_noun(problem_count, "problem")
        print_note(f"{problems}, {count_with_noun(warning_count, 'warning')}")
    raise click.exceptions.Exit(1 if problem_count else 0)


def _run_machine_checks(environ: Mapping[str, str], port: int) -> Iterator[CheckResult]:
    """Check versions, environment, port and event loop; `port` is the proxy's default port."""
    python = platform.python_version()
    is_old = tuple(map(int, platform.python_version_tuple()[:2])) < _MIN_PYTHON
    text = f"llm-proxy {__version__} on {platform.python_implementation()} {python}"
    if is_old:
        text += f"; install Python {'.'.join(map(str, _MIN_PYTHON))} or newer"
    yield CheckResult("llm-proxy", PROBLEM if is_old else OK, text)
    for package, min_version in _MIN_VERSIONS.items():
        yield check_package(package, min_version)

    from aiohttp import http_parser  # noqa: PLC0415 # slow, and only doctor needs it

    is_c_parser = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
    yield http_parser_result(is_c_parser=is_c_parser)
    loop = asyncio.new_event_loop()
    loop.close()
    yield CheckResult("event loop", OK, f"{type(loop).__module__}.{type(loop).__name__}")
    available = [coding for coding in ("gzip", "deflate", "br", "zstd") if new_decoder(coding)]
    missing = [coding for coding in ("br", "zstd") if coding not in available]
    text = ", ".join(available)
    if missing:
        text += (
            f"; responses compressed with {' or '.join(missing)} are stored without being "
            "decoded; to decode them, run pip install 'llm-proxy-replay[speedups]'"
        )
    yield CheckResult("decoders", OK, text)

    listener = find_listener(_LOOPBACK, port)
    yield check_port(port, listener)
    yield check_proxy_variables(environ)
    yield from check_base_urls(environ, port, listener)
    yield from check_own_variables(environ)


def check_package(package: str, min_version: tuple[int, ...]) -> CheckResult:
    """Check that a required package is installed and new enough."""
    requirement = f"'{package}>={'.'.join(map(str, min_version))}'"
    try:
        installed_version = version(package)
    except PackageNotFoundError:
        text = f"not installed; run pip install {requirement}"
        return CheckResult(package, PROBLEM, text)
    # `3.14.4rc1` as (3, 14, 4): enough to compare with a minimum version.
    leading_digits = re.match(r"\d+(?:\.\d+)*", installed_version)
    numbers = leading_digits[0].split(".") if leading_digits else ()
    if tuple(map(int, numbers)) < min_version:
        text = f"{installed_version} is too old; run pip install --upgrade {requirement}"
        return CheckResult(package, PROBLEM, text)
    return CheckResult(package, OK, installed_version)


def http_parser_result(*, is_c_parser: bool) -> CheckResult:
    """The result for aiohttp's parser in C, or for the one in pure Python."""
    if is_c_parser:
        return CheckResult("HTTP parser", OK, "aiohttp's C parser")
    text = (
        "aiohttp uses its Python parser, which is several times slower than its C parser; install "
        "aiohttp from a wheel, and unset AIOHTTP_NO_EXTENSIONS"
    )
    return CheckResult("HTTP parser", WARNING, text)


class PortListener(NamedTuple):
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
    with closing(http.client.HTTPConnection(host, port, timeout=_HEALTH_TIMEOUT_S)) as connection:
        try:
            connection.request("GET", "/_proxy/health")
            health = orjson.loads(connection.getresponse().read(_MAX_HEALTH_BYTES))
        except (OSError, http.client.HTTPException, ValueError):
            return ""
    return str(health.get("mode", "")) if isinstance(health, dict) else ""


def _listening_process_label(port: int) -> str:
    """Name and id of the listening process; empty where the system does not show them."""
    sockets: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for row in Path(table).read_text("ascii").splitlines()[1:]:
                fields = row.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTEN_STATE:
                    sockets.add(f"socket:[{fields[9]}]")
    for folder in Path("/proc").glob("[0-9]*/fd") if sockets else ():
        with suppress(OSError):  # a process of another user, or one that has ended
            if any(str(link.readlink()) in sockets for link in folder.iterdir()):
                name = (folder.parent / "comm").read_text("utf-8", "replace").strip()
                return f"{name} (process {folder.parent.name})"
    return ""


def check_port(port: int, listener: PortListener | None) -> CheckResult:
    """The result for the default port, given what listens on it."""
    name = f"port {port}"
    if listener is None:
        return CheckResult(name, OK, "free")
    if listener.llm_proxy_mode:
        return CheckResult(name, OK, f"used by llm-proxy {listener.llm_proxy_mode}")
    process = listener.process_label or "another process"
    text = (
        f"used by {process}; stop that process, set --port 0, or let llm-proxy run the client "
        "(-- COMMAND)"
    )
    return CheckResult(name, WARNING, text)


def check_proxy_variables(environ: Mapping[str, str]) -> CheckResult:
    """Check that proxy variables do not divert requests for loopback."""
    named = [name for name in environ if name.lower() in _PROXY_VARIABLES and environ[name]]
    if not named:
        return CheckResult("proxies", OK, "no proxy variable is set")
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if any(_covers_loopback(entry) for entry in no_proxy.split(",")):
        return CheckResult("proxies", OK, f"{', '.join(named)}, but not for {_LOOPBACK}")
    hosts = ",".join(filter(None, (no_proxy, _LOOPBACK, "localhost")))
    text = (
        f"requests to {_LOOPBACK} go through the proxy set in {' and '.join(named)}; run "
        f"export NO_PROXY={hosts} no_proxy={hosts}, or let llm-proxy run the client (-- COMMAND)"
    )
    return CheckResult("proxies", WARNING, text)


def _covers_loopback(no_proxy_entry: str) -> bool:
    host = no_proxy_entry.strip().partition(":")[0]
    if host in {"*", _LOOPBACK}:
        return True
    try:
        return ipaddress.ip_address(_LOOPBACK) in ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False


def check_base_urls(
    environ: Mapping[str, str], port: int, listener: PortListener | None
) -> Iterator[CheckResult]:
    """Check the base URLs that clients take from the environment."""
    adopted_variables = configured_base_url_variables(environ)
    base_urls = {
        name: url for name in BASE_URL_VARIABLES if (url := normalized_base_url(name, environ))
    }
    if not base_urls:
        text = "no base-URL variable is set; clients send requests directly to the providers"
        yield CheckResult("base URLs", OK, text)
    for name, url in base_urls.items():
        adoption = f"{_ADOPTING_COMMANDS} forward requests to that URL"
        if name not in adopted_variables:
            adoption = f"{_ADOPTING_COMMANDS} do not use that URL"
            for winner, provider in adopted_variables.items():
                if provider == BASE_URL_VARIABLES[name].provider:
                    adoption = f"{_ADOPTING_COMMANDS} use {winner} instead"
        try:
            checked_url = checked_http_url("", url)
        except UsageError as error:
            problem = str(error).removeprefix(": ")
            text = f"{problem}; correct or unset {name}"
            if name in adopted_variables:
                text += f", or set --upstream {adopted_variables[name]}=URL"
            else:
                text += f" ({adoption})"
            yield CheckResult(name, WARNING, text)
            continue
        parts = urlsplit(checked_url)
        if parts.hostname not in _LOCAL_HOSTS or parts.port != port:
            text = f"clients in this shell send requests to {checked_url}; {adoption}"
            yield CheckResult(name, OK, text)
        elif listener is None:
            text = f"no server listens at {checked_url}; start llm-proxy, or unset {name}"
            yield CheckResult(name, WARNING, text)
        else:
            yield CheckResult(name, OK, f"{checked_url}, the default address of llm-proxy")


def check_own_variables(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check that the environment holds no unknown setting, which may be a misspelt one."""
    unknown = unknown_variables(environ)
    if not unknown:
        yield CheckResult("settings", OK, "no unknown LLM_PROXY_ variable is set")
    for name, problem in unknown.items():
        yield CheckResult(name, WARNING, problem)


def run_library_checks(
    cassettes: Path, spool: Path, rules: RuleSet = NO_RULES
) -> Iterator[CheckResult]:
    """Run all checks of the library and the spool folder."""
    yield from _check_cassettes(cassettes, rules)
    yield _check_writable("library", cassettes)
    yield _check_writable("spool", spool)
    if spool.is_dir():  # only the owner may see running recordings
        mode = stat.S_IMODE(spool.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            text = (
                f"other users can access {display.folder_name(spool)} (mode {mode:o}); run "
                f"chmod 700 {display.shell_quoted_path(spool)}"
            )
            yield CheckResult("spool", WARNING, text)
        else:
            text = f"only you can access {display.folder_name(spool)} (mode {mode:o})"
            yield CheckResult("spool", OK, text)
    yield _check_abandoned_spools(cassettes, spool)


def _check_cassettes(root: Path, rules: RuleSet) -> Iterator[CheckResult]:
    """Check that cassettes can be read, are complete, and are keyed by these rules."""
    library = Library(root)
    try:
        library.refresh()
    except UsageError as error:
        yield CheckResult("library", PROBLEM, str(error))
        return
    paths = library.cassette_paths()
    if not paths:
        text = (
            f"no cassettes in {display.folder_name(root)}; record some with "
            "llm-proxy record -- COMMAND"
        )
        yield CheckResult("library", OK, text)
        return
    partial_names: list[str] = []
    errors: list[CassetteError] = []
    older_count = 0
    for path, cassette in read_cassettes(library, paths):
        if isinstance(cassette, CassetteError):
            errors.append(cassette)
            continue
        older_count += has_older_rules(cassette.meta.redaction_rules_version)
        if not cassette_outcome(cassette).is_complete:
            partial_names.append(name_in_library(library, path))
    if len(paths) > len(errors):
        count = count_with_noun(len(paths) - len(errors), "cassette")
        yield CheckResult("library", OK, f"{count} in {display.folder_name(root)} can be read")
    if partial_names:
        names = ", ".join(partial_names[:_MAX_SHOWN_FILES])
        if (more := len(partial_names) - _MAX_SHOWN_FILES) > 0:
            names += f", and {more} more"
        partial = count_with_noun(len(partial_names), "partial cassette")
        text = f"{partial}: {names}; record again, or replay with --allow-partial"
        yield CheckResult("library", WARNING, text)
    if older_count:
        yield CheckResult("library", WARNING, older_rules_message(older_count))
    if other_rules_count := count_keyed_by_other_rules(paths, rules):
        yield CheckResult("library", WARNING, other_rules_message(other_rules_count))
    for cassette_error in errors[:_MAX_SHOWN_FILES]:
        text = f"{cassette_error}; delete the file, or record the response again"
        yield CheckResult("library", PROBLEM, text)
    if (more := len(errors) - _MAX_SHOWN_FILES) > 0:
        text = f"{count_with_noun(more, 'more unreadable file')}; run llm-proxy verify"
        yield CheckResult("library", PROBLEM, text)


def _check_writable(name: str, folder: Path) -> CheckResult:
    """Check that a folder is writable, or can be created where it does not exist."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        text = f"not a folder: {existing} (set --{_FOLDER_OPTIONS[name]})"
        return CheckResult(name, PROBLEM, text)
    if not os.access(existing, os.W_OK | os.X_OK):
        option = f"--{_FOLDER_OPTIONS[name]}"
        text = f"cannot write to {existing}; change the folder's permissions, or set {option}"
        return CheckResult(name, PROBLEM, text)
    text = f"{display.folder_name(folder)} is writable"
    if existing != folder:
        text = (
            f"{display.folder_name(folder)} does not exist yet; the first recording will create it"
        )
    return CheckResult(name, OK, text)


def _check_abandoned_spools(cassettes: Path, spool: Path) -> CheckResult:
    try:
        counts = count_abandoned_spools(spool, cassettes)
    except SpoolError as error:
        return CheckResult("spool", PROBLEM, str(error))
    labels = (f"of {display.folder_name(cassettes)}", "of other libraries", "that cannot be read")
    items = [
        f"{count_with_noun(count, 'interrupted recording')} {label}"
        for count, label in zip(counts, labels, strict=True)
        if count
    ]
    if not items:
        return CheckResult("spool", OK, "no interrupted recordings")
    recover = recover_command(cassettes, spool, os.environ)
    return CheckResult("spool", WARNING, f"{', '.join(items)}; run {recover}")
