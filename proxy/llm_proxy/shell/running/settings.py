"""The frozen settings of a server, from flags, environment and file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from llm_proxy.ages import MaxAge
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError, printable
from llm_proxy.faults.rule import FaultRule
from llm_proxy.matching import PLAIN, RuleSet
from llm_proxy.pacing import Pace
from llm_proxy.take_numbers import AfterLast, OnMiss

Clock = Literal["fixed", "real"]
"""What time made answers name: always the same, or that of the machine."""

OnUnknown = Literal["error", "synthesis"]
"""What answers a request that no scenario does, where there are some."""

Sign = Literal["aws"]
"""Whose signature requests are given on their way."""

CONFIG: Final = "llm-proxy.toml"
_UP_TO_USER: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)
_FROM_QUERY: Final = re.compile(r"[?#].*", re.DOTALL)
_LONGEST_NAME: Final = 15
"""Characters of what may be the bare name of a host."""
_LONGEST_SHOWN: Final = 200
"""Characters of a URL in a message."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What an operator decides about scripted and made-up answers."""

    scenarios: Path | None = None
    """A scenario document, or a folder of them."""
    mock: str = ""
    """A mock's options, as YAML or JSON."""
    respond: str = ""
    """`module:function`, which a mock asks for what it says."""
    on_unknown: OnUnknown = "error"
    clock: Clock = "fixed"
    silence: float = 660.0
    """Seconds after which a scripted time-out ends, where the client waits for ever."""


@dataclass(frozen=True, slots=True)
class MatchingOptions:
    """What an operator decides about which cassette answers."""

    session: str = DEFAULT_SESSION
    """That of requests that name none."""
    rules: RuleSet = PLAIN
    """What keys are loosened by."""
    nearest: float | None = None
    """How alike, from 0 to 1, a cassette must be that answers where none is the same; None where
    none may."""
    collapse_retries: bool = False
    """Whether a request that an SDK repeats is the one that it repeats."""


@dataclass(frozen=True, slots=True)
class LibraryChecks:
    """What an operator wants to know of the library at the end of a run."""

    fail_on_unused: bool = False
    """Whether a cassette that was not played is a failure."""
    max_age: MaxAge | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator decides about a server."""

    cassettes: Path
    host: str
    port: int
    port_file: Path | None
    upstreams: Mapping[str, str]
    upstream_proxy: str | None
    idle_timeout: float
    """Seconds."""
    finish_on_disconnect: bool
    max_body: int
    """Bytes."""
    pace: Pace
    after_last: AfterLast
    on_miss: OnMiss | Literal["scenario"]
    allow_partial: bool
    strict: bool
    allow_hosts: frozenset[str]
    allow_origins: frozenset[str]
    spool: Path
    log_format: str
    client_chosen_upstreams: frozenset[str] = frozenset()
    """Providers whose address stands where clients have our `/v1`: it was theirs before."""
    sign: Sign | None = None
    """None passes the clients' own credentials on."""
    matching: MatchingOptions = MatchingOptions()
    care: LibraryChecks = LibraryChecks()
    simulating: SimulationOptions = SimulationOptions()
    seed: int = 0
    """What made ids and every roll of chance are hashed from."""
    faults: tuple[FaultRule, ...] = ()
    fault_header: bool = False
    """Whether a request may bring faults along."""
    journal: Path | None = None
    """The file that the journal is written to at the end."""
    state: Path | None = None
    """The folder in which it is remembered what was played; None for not at all."""


def parse_upstreams(pairs: Iterable[str]) -> dict[str, str]:
    """Base URLs by provider name, from `NAME=URL` pairs.

    Raises `UsageError` for a pair that is none, or a URL that is not http or https.
    """
    upstreams: dict[str, str] = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"--upstream {pair!r}: write NAME=URL, such as openai=http://127.0.0.1:8000"
            )
        upstreams[name.strip()] = checked_http_url(f"--upstream {name}", url.strip())
    return upstreams


def checked_http_url(label: str, url: str) -> str:
    """`url` with its scheme in small letters, if it is a plain http or https URL.

    Raises `UsageError` otherwise, with what of it can hold no key.
    """
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
        parts = urlsplit("")
    if not valid or not url.isprintable() or " " in url or parts.scheme != scheme.lower():
        raise UsageError(f"{label}: {displayable_url(url)!r} is no http:// or https:// URL")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError(
            f"{label}: {displayable_url(url)!r} is only part of what is given: an upstream is a "
            "URL "
            "without user, query and fragment"
        )
    return f"{parts.scheme}://{rest}"


def displayable_url(url: str) -> str:
    """What may be a URL as it can be shown: without user, password, query and fragment."""
    if len(url) > _LONGEST_NAME and not set(url) & set(".:/"):
        return f"{printable(url, 4)}…"  # a key, where an address should be
    authority = _FROM_QUERY.sub("", url).partition("://")[2].partition("/")[0]
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]*)?|\[[0-9A-Fa-f:]+\](:[0-9]*)?", authority):
        url = _UP_TO_USER.sub(r"\1", url)  # a password may hold anything, a slash too
    return printable(_FROM_QUERY.sub("", url), _LONGEST_SHOWN)


def default_spool(environ: Mapping[str, str]) -> Path:
    """Where running recordings are kept, outside every library."""
    return state_folder(environ) / "spool"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where is kept what outlives a run, and belongs to no library."""
    state = environ.get("XDG_STATE_HOME") or ""
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "llm-proxy"


def find_config(start: Path) -> Path | None:
    """The nearest `llm-proxy.toml`, or `pyproject.toml` with a `[tool.llm-proxy]`, upwards."""
    for folder in (start, *start.parents):
        own, shared = folder / CONFIG, folder / "pyproject.toml"
        if own.is_file():
            return own
        if shared.is_file() and _tool_table(shared):
            return shared
    return None


def read_config(path: Path, known: Iterable[str]) -> dict[str, Any]:
    """The settings of a file, under their option names with underscores.

    Raises `UsageError` for a file that cannot be read and for a name that is no setting.
    """
    document = _tool_table(path) if path.name == "pyproject.toml" else _parse_toml(path)
    settings: dict[str, Any] = {}
    names = sorted(known)
    for key, value in document.items():
        name = key.replace("-", "_")
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise UsageError(f"{path}: {key} is no setting{hint}")
        settings[name] = (
            [f"{content}={url}" for content, url in value.items()]
            if isinstance(value, dict)
            else value
        )
    return settings


def _tool_table(path: Path) -> dict[str, Any]:
    """The table `[tool.llm-proxy]` of a `pyproject.toml`; empty where there is none."""
    tool = _parse_toml(path).get("tool", {})
    table = tool.get("llm-proxy", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.llm-proxy must be a table")
    return table


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether this runs in CI, where nothing is recorded by surprise."""
    return environ.get("CI", "").lower() not in {"", "0", "false"}
