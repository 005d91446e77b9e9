"""The frozen settings of a server, from flags, environment and files, and their checks at start."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from llm_proxy import providers
from llm_proxy.ages import MaxAge
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.display import folder_name, shell_quoted_path
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.rule import FaultRule, FaultRulesFile
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.matching.looser_rules import looser_rules
from llm_proxy.pacing import Pace, RecordedPace
from llm_proxy.shell.library.library import walk_cassettes
from llm_proxy.take_numbers import AfterLast, Again, OnMiss

if TYPE_CHECKING:
    from llm_proxy.scenario.scripting import OnMismatch

ModeName = Literal["record", "replay", "auto", "simulate"]
"""The server commands, without `chaos`."""

ClockKind = Literal["fixed", "real"]
"""The time in simulated responses: a fixed one, or the machine's."""

OnUnknown = Literal["error", "synthesis"]
"""What answers a request that no loaded scenario matches."""

SigningMethod = Literal["aws"]
"""How requests are signed before they are sent upstream."""

CONFIG_FILE_NAME: Final = "llm-proxy.toml"
_USER_INFO: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)
_QUERY_AND_FRAGMENT: Final = re.compile(r"[?#].*", re.DOTALL)
_MAX_BARE_HOST_CHARS: Final = 15
"""Maximum length of a URL without `.`, `:` and `/` that is shown: a longer one may be a key."""
_MAX_URL_CHARS: Final = 200
"""Maximum length of a URL in a message."""
_MAX_RULES_FILE_BYTES: Final = 1024 * 1024
"""Maximum size of a file of fault rules."""
_SIMULATION_OPTIONS: Final = (
    *("scenarios", "mock", "respond", "on_unknown", "on_mismatch"),
    *("clock", "silence"),
)
_SHARED_WITH_FAULTS: Final = ("silence", "clock")
"""Simulation options that faults use as well."""
_SUPPORTS_EFFECTIVE_IDS: Final = os.access in os.supports_effective_ids


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a server."""

    cassettes: Path
    spool: Path
    port: int
    host: str = "127.0.0.1"
    upstreams: Mapping[str, str] = field(default_factory=dict)
    idle_timeout: float = 300.0
    """Maximum silence of an upstream, in seconds."""
    finish_on_disconnect: bool = False
    max_body: int = 64 * 1024 * 1024
    """Maximum size of a request body, in bytes."""
    pace: Pace = field(default_factory=RecordedPace)
    after_last: AfterLast = "repeat"
    on_miss: OnMiss | Literal["scenario"] = "record"
    again: Again = "record"
    allow_partial: bool = False
    strict: bool = False
    allow_hosts: frozenset[str] = frozenset()
    allow_origins: frozenset[str] = frozenset()
    log_format: str = "text"
    port_file: Path | None = None
    upstream_proxy: str | None = None
    client_chosen_upstreams: frozenset[str] = frozenset()
    """Providers whose base URL came from a client's variable, and so replaces our `/v1`."""
    sign: SigningMethod | None = None
    """None passes the clients' credentials on."""
    session: str = DEFAULT_SESSION
    """The session of requests that name none."""
    match_rules: RuleSet = NO_RULES
    """The matching rules that keys are computed by."""
    nearest: float | None = None
    """Minimum similarity, from 0 to 1, of a cassette that answers if none matches; None for no
    such answers."""
    collapse_retries: bool = False
    """Whether an SDK's retries count as one request."""
    fail_on_unused: bool = False
    """Whether a cassette that was not played fails the run."""
    max_age: MaxAge | None = None
    """The age beyond which a cassette that is played is reported."""
    scenarios: Path | None = None
    """A scenario document, or a folder of them."""
    mock: str = ""
    """A mock's options, as YAML or JSON."""
    respond: str | Callable[..., Any] = ""
    """The function that a mock calls for its responses, or its name as `module:function`."""
    on_unknown: OnUnknown = "error"
    on_mismatch: OnMismatch = "auto"
    clock: ClockKind = "fixed"
    silence: float = 660.0
    """Seconds after which a scripted time-out ends if the client does not: one minute more than the
    default timeout of the OpenAI and Anthropic SDKs."""
    seed: int = 0
    """The seed of generated ids and of all chance."""
    faults: tuple[FaultRule, ...] = ()
    fault_header: bool = False
    """Whether requests may name faults in a header."""
    shared_library: bool = False
    """Whether new files and folders of the library get the mode that the umask gives."""
    journal: Path | None = None
    """The file that the journal is written to at the end."""
    state: Path | None = None
    """The folder of the last played times; None to store none."""

    record_command: str = "llm-proxy record"
    """The command that error messages advise for recording."""

    def may_record(self, mode: str) -> bool:
        """Whether this mode can record, with these settings."""
        return mode == "record" or (mode == "auto" and self.on_miss == "record")

    def may_go_live(self, mode: str) -> bool:
        """Whether this mode can send requests to providers, with these settings."""
        return mode == "record" or (mode == "auto" and self.on_miss in {"record", "passthrough"})

    def simulates(self, mode: str) -> bool:
        """Whether scenarios can answer requests in this mode, with these settings."""
        return mode == "simulate" or (mode in {"replay", "auto"} and self.on_miss == "scenario")


def looser_settings(mode: str, settings: Settings) -> Iterator[tuple[str, str]]:
    """The settings with which a replay could hide a failure from a test that a model runs.

    Each is the name of an option and its value; none in `simulate`, which replays nothing.
    """
    if mode == "simulate":
        return
    yield from looser_rules(settings.match_rules)
    if settings.nearest is not None:  # the response to another request
        yield "match", f"nearest:{settings.nearest:g}"
    if settings.simulates(mode):  # a scripted verdict
        yield "on-miss", "scenario"
    if settings.allow_partial:  # a response that may lack calls and failures
        yield "allow-partial", "true"


def parse_upstreams(pairs: Iterable[str]) -> dict[str, str]:
    """Base URLs by provider name, from `NAME=URL` pairs.

    Raises `UsageError` for a malformed pair, or a URL that is not http or https.
    """
    upstreams: dict[str, str] = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f"--upstream {pair!r}: expected NAME=URL, such as openai=http://127.0.0.1:8000"
            )
        upstreams[name.strip()] = checked_http_url(f"--upstream {name}", url.strip())
    return upstreams


def checked_http_url(label: str, url: str) -> str:
    """`url` with its scheme in lower case, if it is a plain http or https URL.

    Raises `UsageError` otherwise; the message shows no part that may hold a secret.
    """
    scheme, _, after_scheme = url.partition("://")
    try:
        split_url = urlsplit(url)
        is_valid = (
            split_url.scheme in {"http", "https"}
            and bool(split_url.hostname)
            and split_url.port != 0
        )
    except ValueError:
        is_valid = False
        split_url = urlsplit("")
    if not is_valid or not url.isprintable() or " " in url or split_url.scheme != scheme.lower():
        raise UsageError(f"{label}: {displayable_url(url)!r} is not an http:// or https:// URL")
    if "@" in split_url.netloc or "?" in url or "#" in url:
        raise UsageError(
            f"{label}: expected a URL without user, query and fragment, such as "
            f"{displayable_url(url)!r}"
        )
    return f"{split_url.scheme}://{after_scheme}"


def displayable_url(url: str) -> str:
    """Text that may be a URL, for display: without user, password, query and fragment."""
    if len(url) > _MAX_BARE_HOST_CHARS and not set(url) & set(".:/"):
        return f"{printable_excerpt(url, 4)}…"  # probably a key instead of an address
    authority = _QUERY_AND_FRAGMENT.sub("", url).partition("://")[2].partition("/")[0]
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]*)?|\[[0-9A-Fa-f:]+\](:[0-9]*)?", authority):
        url = _USER_INFO.sub(r"\1", url)  # a password may contain anything, slashes too
    return printable_excerpt(_QUERY_AND_FRAGMENT.sub("", url), _MAX_URL_CHARS)


def default_spool_folder(environ: Mapping[str, str]) -> Path:
    """The default folder of spools, outside every library."""
    return state_folder(environ) / "spool"


def recover_command(cassettes: Path, spool: Path, environ: Mapping[str, str]) -> str:
    """The command that recovers the interrupted recordings of a library."""
    command = f"llm-proxy recover --cassettes {shell_quoted_path(cassettes)}"
    is_default = spool == default_spool_folder(environ)
    return command if is_default else f"{command} --spool {shell_quoted_path(spool)}"


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of state that outlives a run and belongs to no library."""
    state_home = environ.get("XDG_STATE_HOME") or ""
    base = Path(state_home) if state_home.startswith("/") else Path.home() / ".local" / "state"
    return base / "llm-proxy"


def find_config(start: Path) -> Path | None:
    """The nearest `llm-proxy.toml`, or `pyproject.toml` with a `[tool.llm-proxy]`, upwards."""
    for folder in (start, *start.parents):
        own_file, pyproject = folder / CONFIG_FILE_NAME, folder / "pyproject.toml"
        if own_file.is_file():
            return own_file
        if pyproject.is_file() and _tool_table(pyproject):
            return pyproject
    return None


def read_config(path: Path, setting_names: Iterable[str]) -> dict[str, Any]:
    """The settings in a file, by option name with underscores.

    Raises `UsageError` for an unreadable file and for an unknown setting.
    """
    document = _tool_table(path) if path.name == "pyproject.toml" else _parse_toml(path)
    settings: dict[str, Any] = {}
    names = sorted(set(setting_names))
    for key, value in document.items():
        name = key.replace("-", "_")
        if name in {"tool", "llm_proxy"} and isinstance(value, dict):
            raise UsageError(f"{path}: remove the table header; settings must be at the top level")
        if name not in names:
            raise UsageError(f"{path}: unknown setting {key!r}; {name_hint(name, names)}")
        settings[name] = (
            [f"{provider}={url}" for provider, url in value.items()]
            if isinstance(value, dict)
            else value
        )
    return settings


def _tool_table(path: Path) -> dict[str, Any]:
    """The table `[tool.llm-proxy]` of a `pyproject.toml`; empty if there is none."""
    tool = _parse_toml(path).get("tool", {})
    table = tool.get("llm-proxy", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.llm-proxy is not a table")
    return table


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether this runs in CI, where `auto` only replays and records nothing."""
    return environ.get("CI", "").lower() not in {"", "0", "false"}


def read_fault_rules(path: Path) -> tuple[FaultRule, ...]:
    """The rules in a file.  Raises `UsageError` if it is unreadable or invalid."""
    from llm_proxy.scenario.documents import loading  # noqa: PLC0415 # only where a file is given

    try:
        with path.open("rb") as file:
            data = file.read(_MAX_RULES_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read --faults {path}: {error.strerror}") from None
    if len(data) > _MAX_RULES_FILE_BYTES:
        raise UsageError(f"--faults {path} is larger than {_MAX_RULES_FILE_BYTES} bytes")
    return parse_rules(
        loading.parse_struct(FaultRulesFile, str(path), data, list_field="faults").faults
    )


def check_journal_path(path: Path) -> None:
    """Raise `UsageError` if the file could not be written; creates nothing."""
    folder = resolve_link(path).parent
    if path.is_dir():
        raise UsageError(f"--journal {path} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise UsageError(f"--journal {path} is not a regular file")
    if not folder.is_dir():
        raise UsageError(f"--journal {path}: no such folder: {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write --journal {path}: no permission to write to the folder {folder}"
        )


def resolve_link(path: Path) -> Path:
    """The target of a symbolic link, so that replacing it keeps the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path.absolute()


def check_folders(settings: Settings) -> None:
    """Raise `UsageError` if recordings could not be written; creates nothing."""
    for option, folder in (("--cassettes", settings.cassettes), ("--spool", settings.spool)):
        path = folder.absolute()
        # A broken link counts as existing.
        existing = next(item for item in (path, *path.parents) if os.path.lexists(item))
        if not existing.is_dir():
            raise UsageError(f"cannot write to {option} {folder}: {existing} is not a folder")
        if not os.access(existing, os.W_OK | os.X_OK, effective_ids=_SUPPORTS_EFFECTIVE_IDS):
            raise UsageError(
                f"cannot write to {option} {folder}: no permission to write to {existing}"
            )


def settings_warnings(mode: str, settings: Settings) -> Iterator[str]:
    """A warning for each setting that is valid but probably not what is meant."""
    if mode == "simulate":
        return
    ignored = [
        f"--{field.name.replace('_', '-')}"
        for field in fields(Settings)
        if field.name in _SIMULATION_OPTIONS
        and getattr(settings, field.name) != field.default
        and not (field.name in _SHARED_WITH_FAULTS and settings.faults)
    ]
    if ignored and mode != "record" and not settings.simulates(mode):
        verb = "has" if len(ignored) == 1 else "have"
        yield f"{', '.join(ignored)} {verb} no effect without --on-miss scenario"
    if mode == "auto" and settings.again == "replay" and settings.on_miss != "record":
        yield f"--again replay has no effect with --on-miss {settings.on_miss}"
    if mode == "replay":
        if not any(walk_cassettes(settings.cassettes)):
            folder_exists = settings.cassettes.exists()
            problem = "contains no cassettes" if folder_exists else "does not exist"
            yield (
                f"{folder_name(settings.cassettes)} {problem}, so every request is a miss; run "
                "llm-proxy record" + ("" if folder_exists else " or set --cassettes")
            )
        return
    known_names = [*(provider.name for provider in providers.PROVIDERS), providers.DEFAULT_PROVIDER]
    for name, url in settings.upstreams.items():
        if name not in known_names:
            hint = name_hint(name.lower(), known_names)
            yield (
                f"--upstream {name}={url}: unknown provider {name!r}, so only requests to "
                f"/~{name}/... use this address; {hint}"
            )
