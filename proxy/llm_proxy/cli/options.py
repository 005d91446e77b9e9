"""The options: one table for the command line, the environment, settings files and `Settings`.

The names of server options are those of the fields of `Settings`, and the keys of a settings file;
the types of options parse their values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click

from llm_proxy.ages import parse_max_age
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.faults.grammar import parse_rule as parse_fault_rule
from llm_proxy.matching.option_grammar import parse_match_settings, parse_rule, parse_rules
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import DEFAULT_PROVIDER
from llm_proxy.redaction import parse_redaction_rules
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.running.settings import (
    CONFIG_FILE_NAME,
    Settings,
    check_journal_path,
    checked_http_url,
    default_spool_folder,
    find_config,
    parse_upstreams,
    read_config,
    read_fault_rules,
    state_folder,
)

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing import ReissueSettings

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT: Final = 4777
_VARIABLE_PREFIX: Final = "LLM_PROXY_"
_CONFIG_VARIABLE: Final = "LLM_PROXY_CONFIG"
_MODE_VARIABLE: Final = "LLM_PROXY_MODE"
"""The variable with the mode of the pytest plugin."""
URL_VARIABLE: Final = "LLM_PROXY_URL"
"""The variable with the URL of a running proxy, which it also sets for its command."""
PATH_TYPE: Final = click.Path(path_type=Path, readable=False)
"""A file or folder path; checked when it is used, so that errors are ours and not click's."""


class _NamedProblemType(click.ParamType):  # type: ignore[type-arg] # click 8.2 has none
    """Base of types whose errors name the value and, by `problem`, what is expected."""

    problem: str

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.refuse(value, param)

    def refuse(self, value: Any, param: click.Parameter | None) -> NoReturn:
        raise click.BadParameter(f"{str(value)!r} is {self.problem}", param=param)


class IntRangeType(_NamedProblemType, click.IntRange):
    """An integer within limits, both inclusive; `maximum` None for no upper limit."""

    name = "number"

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        super().__init__(minimum, maximum)
        limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        self.problem = f"not an integer {limits}"


class SecondsType(_NamedProblemType, click.FloatRange):
    """A duration in seconds: a finite number above 0."""

    name = "seconds"
    problem = "not a positive number of seconds"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of seconds."""
        seconds = super().convert(value, param, ctx)
        return seconds if math.isfinite(seconds) else self.refuse(value, param)


class ChoiceType(_NamedProblemType, click.Choice[str]):
    """One of a fixed set of texts."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices)
        self.problem = f"not one of {', '.join(choices)}"


class _BoolType(_NamedProblemType, click.types.BoolParamType):
    """The value of a flag in the environment or in a settings file."""

    problem = "not true or false"


class ParsedType(click.types.StringParamType):
    """What `parse` makes of a text; `parse` raises `UsageError` for an invalid one."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value."""
        try:
            return self._parse(value)
        except UsageError as error:
            raise click.BadParameter(str(error), param=param) from None


class CheckedTextType(ParsedType):
    """Text that is validated by `check`, which raises `UsageError` for an invalid one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text, unchanged."""
        super().convert(value, param, ctx)
        return value


class GroupedOption(click.Option):
    """An option that `--help` shows under the heading `group`."""

    def __init__(self, *args: Any, group: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group
        """The heading; `Options` if empty."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """What follows the help text: its default, without the range, which errors name."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def grouped_option(group: str) -> Callable[..., Callable[[F], F]]:
    """`click.option` for options that `--help` shows under the heading `group`."""
    return partial(click.option, cls=GroupedOption, group=group)


class SettingOption:
    """Decorator: an option that the command line, the environment and settings files can set."""

    def __init__(
        self, option: str, group: str = "", commands: Sequence[str] = (), **attributes: Any
    ) -> None:
        """`commands` are the server commands in which the option has an effect."""
        self.name = option.removeprefix("--").replace("-", "_")
        self.variable = f"{_VARIABLE_PREFIX}{self.name.upper()}"
        """The environment variable that sets the option."""
        self.commands = commands
        self._option = option
        self._attributes = {"group": group, **attributes}
        if attributes.get("is_flag"):
            self._attributes["type"] = _BoolType()

    def __call__(self, function: F) -> F:
        """`function` with the option."""
        return click.option(
            self._option, cls=GroupedOption, envvar=self.variable, **self._attributes
        )(function)


def decorate(function: F, options: Sequence[Callable[[Any], Any]]) -> F:
    """`function` with these options, in this order."""
    for option in reversed(options):
        function = option(function)
    return function


def check_session_name(name: str) -> None:
    """Raise `UsageError` for an invalid session name."""
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable_excerpt(name, 100)}' is not a valid session name: use at most 100 "
            "letters, digits, dots, dashes and underscores"
        )


def _parse_token_limit(pair: str) -> tuple[str, int]:
    model, _, tokens = pair.rpartition("=")
    if not model or not tokens.isascii() or not tokens.isdecimal() or int(tokens) < 1:
        raise UsageError(
            f"expected MODEL=TOKENS with at least 1 token, got {printable_excerpt(pair, 100)!r}"
        )
    return model, int(tokens)


def _check_upstream(pair: str) -> None:
    try:
        parse_upstreams((pair,))
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--upstream ")) from None


def _parse_optional_url(url: str) -> str | None:
    """A plain http or https URL; None for an empty text.  Raises `UsageError` for others."""
    try:
        return checked_http_url("", url.strip()) if url.strip() else None
    except UsageError as error:
        raise UsageError(str(error).removeprefix(": ")) from None


_RECORDING: Final = ("record", "auto")
"""The server commands that connect to providers."""
_REPLAYING: Final = ("replay", "auto", "chaos")
_SIMULATING: Final = ("replay", "auto", "simulate", "chaos")
"""The server commands in which scenarios can answer."""
_SERVING: Final = ("record", "replay", "auto", "simulate")
_ALL: Final = (*_SERVING, "chaos")
_WITH_CASSETTES: Final = ("record", *_REPLAYING)

cassettes_option = SettingOption(
    "--cassettes", "Cassettes", _WITH_CASSETTES, type=PATH_TYPE, default=Path("cassettes"),
    help="Cassette folder (default: cassettes).",
)  # fmt: skip
shared_library_option = SettingOption(
    "--shared-library", "Cassettes", _RECORDING, is_flag=True,
    help="Set file permissions according to the umask.",
)  # fmt: skip
spool_option = SettingOption(
    "--spool", "Live provider", _RECORDING, type=PATH_TYPE,
    help="Folder for unfinished recordings.",
)  # fmt: skip
scenarios_option = SettingOption(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="Scenario file or folder (default: scenarios).",
)  # fmt: skip
_normalise_option = SettingOption(
    "--normalise", "Matching", _ALL, multiple=True, metavar="RULE",
    type=CheckedTextType("rule", parse_rule),
    callback=lambda _ctx, _param, texts: parse_rules(texts),
    help="Matching rule, such as uuids. Repeatable.",
)  # fmt: skip
"""Its value is a `RuleSet` with the default redaction."""
_REDACTION_OPTIONS: Final = (
    SettingOption(
        "--redact", "Redaction", _ALL, multiple=True, metavar="RULE",
        type=CheckedTextType("rule", lambda text: parse_redaction_rules([text])),
        help="Redaction rule, such as email. Repeatable.",
    ),
    SettingOption(
        "--no-redact", "Redaction", _ALL, multiple=True, metavar="NAME",
        type=CheckedTextType("rule", lambda name: parse_redaction_rules(disabled=[name])),
        help="Disable this redaction rule. Repeatable.",
    ),
)  # fmt: skip
MATCH_RULE_OPTIONS: Final = (_normalise_option, *_REDACTION_OPTIONS)


def match_rules_option(function: F) -> F:
    """Decorator: `--normalise`, `--redact` and `--no-redact` as one argument, `normalise`."""

    @wraps(function)
    def with_rules(*args: Any, **values: Any) -> Any:
        return function(*args, **_pop_redaction(values))

    return cast("F", decorate(with_rules, MATCH_RULE_OPTIONS))


def redaction_option(function: F) -> F:
    """Decorator: `--redact` and `--no-redact` as one argument, `rules`."""

    @wraps(function)
    def with_rules(*args: Any, redact: Any, no_redact: Any, **values: Any) -> Any:
        return function(*args, rules=parse_redaction_rules(redact, no_redact), **values)

    return cast("F", decorate(with_rules, _REDACTION_OPTIONS))


def _pop_redaction(values: dict[str, Any]) -> dict[str, Any]:
    """The values of options, with those for redaction as a part of `normalise`."""
    added, disabled = values.pop("redact"), values.pop("no_redact")
    redaction = parse_redaction_rules(added, disabled)
    return values | {"normalise": replace(values["normalise"], redaction=redaction)}


match_option = SettingOption(
    "--match", "Matching", _WITH_CASSETTES, metavar="HOW", default="normalised",
    type=ParsedType("way to match", parse_match_settings),
    help="Matching: exact, normalised (default), nearest:0.9.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

UPSTREAM_OPTIONS: Final = (
    SettingOption("--upstream", "Live provider", (*_RECORDING, "chat"), multiple=True,
           metavar="NAME=URL", type=CheckedTextType("upstream", _check_upstream),
           help="Base URL of a provider. Repeatable."),
    SettingOption("--upstream-proxy", "Live provider", _RECORDING, metavar="URL",
           type=ParsedType("URL", _parse_optional_url),
           help="HTTP proxy for requests to providers."),
    SettingOption("--sign", "Live provider", _RECORDING, type=ChoiceType(["aws"]),
           help="Sign Bedrock requests with your AWS credentials."),
    SettingOption("--idle-timeout", "Live provider", _RECORDING, type=SecondsType(),
           default=300.0, help="Maximum wait for provider data (default: 300)."),
)  # fmt: skip
"""Options for requests to providers."""

_ON_MISS_TYPE: Final = ChoiceType(["record", "passthrough", "scenario", "fail"])
"""Of all commands: they share the environment and the settings file."""
SERVER_OPTIONS: Final = (
    cassettes_option,
    SettingOption("--session", "Cassettes", _ALL, default=DEFAULT_SESSION, metavar="NAME",
           type=CheckedTextType("session", check_session_name),
           help="Session used if a request does not set one."),
    SettingOption("--allow-partial", "Cassettes", _REPLAYING, is_flag=True,
           help="Also replay incomplete takes."),
    SettingOption("--after-last", "Cassettes", _REPLAYING, metavar="HOW", default="repeat",
           type=ChoiceType(["repeat", "cycle", "fail"]),
           help="After the last take: repeat (default), cycle, fail."),
    SettingOption("--on-miss", "Cassettes", ("auto",), metavar="HOW", type=_ON_MISS_TYPE,
           help="Miss: record (default), passthrough, scenario, fail."),
    SettingOption("--on-miss", "Cassettes", ("replay", "chaos"), metavar="HOW",
           type=_ON_MISS_TYPE, help="On a miss: scenario or fail."),
    SettingOption("--again", "Cassettes", ("auto",), metavar="HOW", default="record",
           type=ChoiceType(["record", "replay"]),
           help="If recorded in this run: record (default), replay."),
    shared_library_option,

    *UPSTREAM_OPTIONS,
    SettingOption("--finish-on-disconnect", "Live provider", _RECORDING, is_flag=True,
           help="Keep recording if the client disconnects."),
    spool_option,

    _normalise_option,
    match_option,
    SettingOption("--collapse-retries", "Matching", _WITH_CASSETTES, is_flag=True,
           help="Treat an SDK's retries as one request."),
    *_REDACTION_OPTIONS,

    SettingOption("--scenarios", "Scenarios", _SIMULATING, type=PATH_TYPE,
           help="Scenario file or folder."),
    SettingOption("--mock", "Scenarios", _SIMULATING, metavar="OPTIONS",
           help="Mock as YAML or JSON, such as '{reply: Hello}'."),
    SettingOption("--respond", "Scenarios", _SIMULATING, metavar="MODULE:NAME",
           help="Python function that returns mock replies."),
    SettingOption("--on-unknown", "Scenarios", _SIMULATING, metavar="HOW", default="error",
           type=ChoiceType(["error", "synthesis"]),
           help="If no scenario matches: error (default), synthesis."),
    SettingOption("--on-mismatch", "Scenarios", _SIMULATING, metavar="HOW", default="auto",
           type=ChoiceType(["auto", "report", "error"]),
           help="On a mismatch: auto (default), report, error."),

    SettingOption("--pace", "Timing and chance", _SIMULATING, default="recorded",
           type=ParsedType("pace", parse_pace), show_default=True,
           help="Pace: instant, 4x, 50tps, …"),
    SettingOption("--seed", "Timing and chance", _ALL, type=IntRangeType(0), default=0,
           help="Seed for ids and random choices (default: 0)."),
    SettingOption("--clock", "Timing and chance", _ALL, metavar="WHICH", default="fixed",
           type=ChoiceType(["fixed", "real"]),
           help="Clock of generated times: fixed (default), real."),
    SettingOption("--silence", "Timing and chance", _ALL, type=SecondsType(), default=660.0,
           show_default=True, help="Maximum simulated hang."),

    SettingOption("--fault", "Faults", _ALL, multiple=True, metavar="RULE",
           type=ParsedType("rule", parse_fault_rule),
           help="Inject a fault such as 'reset,after=3'. Repeatable."),
    SettingOption("--faults", "Faults", _ALL, type=PATH_TYPE, metavar="FILE",
           help="File with a list of fault rules."),
    SettingOption("--fault-header", "Faults", _ALL, is_flag=True,
           help="Accept fault rules in x-llm-proxy-fault headers."),

    SettingOption("--strict", "Checks and reports", _SERVING, is_flag=True,
           help="Exit with 1 if a request fails, or none arrives."),
    SettingOption("--fail-on-unused", "Checks and reports", ("replay", "auto"), is_flag=True,
           help="Exit with 1 if a cassette was not played."),
    SettingOption("--max-age", "Checks and reports", ("replay", "auto"), metavar="AGE[,fail]",
           type=ParsedType("age", parse_max_age),
           help="Report played cassettes older than AGE."),
    SettingOption("--journal", "Checks and reports", _SERVING, type=PATH_TYPE,
           help="Write the journal of the run to this file."),

    SettingOption("--host", "Server", _ALL, default="127.0.0.1",
           help="Address to listen on (default: 127.0.0.1)."),
    SettingOption("--port", "Server", _SERVING, type=IntRangeType(0, 65535),
           help=f"Port (default: {DEFAULT_PORT}; with COMMAND: any free port)."),
    SettingOption("--port-file", "Server", _SERVING, type=PATH_TYPE,
           help="Write the port to this file."),
    SettingOption("--max-body", "Server", _ALL, type=IntRangeType(1), default=64 * 1024 * 1024,
           help="Maximum request size in bytes (default: 67108864)."),
    SettingOption("--allow-host", "Server", _ALL, multiple=True, metavar="NAME",
           help="Also accept this Host header. Repeatable."),
    SettingOption("--allow-origin", "Server", _ALL, multiple=True, metavar="ORIGIN",
           help="Accept requests from this web origin. Repeatable."),
    SettingOption("--log-format", "Server", _SERVING, metavar="FORMAT", default="text",
           type=ChoiceType(["text", "json"]),
           help="Log format: text (default) or json."),

    SettingOption("--token-limit", "Chat", ("chat",), multiple=True, metavar="MODEL=TOKENS",
           type=ParsedType("token limit", _parse_token_limit),
           help="Token limit of a model. Repeatable."),
)  # fmt: skip
"""All options of servers, and all settings that a settings file may hold."""


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with the prefix LLM_PROXY_ that no command reads, each with a message."""
    names = {
        *(option.variable for option in SERVER_OPTIONS),
        *(_CONFIG_VARIABLE, URL_VARIABLE, _MODE_VARIABLE),
    }
    otherwise = "unset the variable; for a list of options, run llm-proxy COMMAND --help"
    return {
        name: "unknown environment variable; "
        + name_hint(name, sorted(names), otherwise, shared_prefix=_VARIABLE_PREFIX)
        for name in sorted(environ)
        if name.startswith(_VARIABLE_PREFIX) and name not in names
    }


def source_of_setting(option: str) -> str:
    """Where an option that is on no command line is set: the variable, or the settings file."""
    variable = f"{_VARIABLE_PREFIX}{option.replace('-', '_').upper()}"
    if os.environ.get(variable):
        return variable
    config = os.environ.get(_CONFIG_VARIABLE) or find_config(Path.cwd())
    return CONFIG_FILE_NAME if config is None else str(config)


def server_options(command: str) -> Callable[[F], F]:
    """Decorator: the server options that have an effect in this command."""
    options = [option for option in SERVER_OPTIONS if command in option.commands]
    return lambda function: decorate(function, (*options, CONFIG_OPTION))


def upstream_options(function: F) -> F:
    """Decorator: the options of a command that sends requests to providers without serving."""
    return decorate(function, UPSTREAM_OPTIONS)


def _load_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    """Take the values of a settings file as the defaults of a command.

    Raises `UsageError` for a value that its option rejects.
    """
    path = value or find_config(Path.cwd())
    if path is None:
        return None
    params = {param.name: param for param in ctx.command.params}
    defaults: dict[str, Any] = {}
    for name, setting in read_config(path, [option.name for option in SERVER_OPTIONS]).items():
        if (option := params.get(name)) is None:
            continue
        takes_many = option.nargs != 1 or bool(getattr(option, "multiple", False))
        values = setting if isinstance(setting, list) else [setting]
        if isinstance(setting, list) and not takes_many:
            raise UsageError(f"{path}: {name}: expected one value, got a list")
        if not all(isinstance(value, str | int | float) for value in values):
            raise UsageError(
                f"{path}: {name}: expected a string, a number, or a list of strings and numbers"
            )
        if option.type is PATH_TYPE:
            values = [path.parent / str(value) for value in values]
        texts = list(map(str, values))
        defaults[name] = texts if takes_many else texts[0]
        try:
            option.type_cast_value(ctx, defaults[name])
        except click.BadParameter as error:
            raise UsageError(f"{path}: {name}: {error.message.rstrip('.')}") from None
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


CONFIG_OPTION: Final = click.option(
    "--config", cls=GroupedOption, group="Options", type=PATH_TYPE, is_eager=True,
    expose_value=False, callback=_load_config, envvar=_CONFIG_VARIABLE,
    help="Settings file (default: nearest llm-proxy.toml).",
)  # fmt: skip


def build_settings(
    values: Mapping[str, Any], command: tuple[str, ...], *, contacts_provider: bool
) -> Settings:
    """The frozen settings for the values of a command's `server_options`.

    `contacts_provider` is whether requests may be sent to a provider.  Only then, and only with
    a `command`, base URLs in the environment become upstreams.  Raises `UsageError` for invalid
    values.
    """
    rules = _pop_redaction(dict(values))["normalise"]
    match_settings = values.get("match")
    if match_settings is not None and match_settings.is_exact:
        rules = rules.as_exact()
    upstreams, client_chosen_upstreams = _all_upstreams(
        values.get("upstream", ()), adopts=bool(command) and contacts_provider
    )
    faults = values["fault"]
    if values["faults"] is not None:
        faults += read_fault_rules(values["faults"])
    if values.get("journal") is not None:
        check_journal_path(values["journal"])
    default_values = {
        "cassettes": Path("cassettes"),
        "port": 0 if command else DEFAULT_PORT,
        "spool": default_spool_folder(os.environ),
    }
    names = [field.name for field in fields(Settings) if values.get(field.name) is not None]
    return Settings(
        **default_values
        | {name: values[name] for name in names}
        | {
            "upstreams": upstreams,
            "client_chosen_upstreams": client_chosen_upstreams,
            "allow_hosts": frozenset(name.lower() for name in values["allow_host"]),
            "allow_origins": frozenset(values["allow_origin"]),
            "faults": faults,
            "state": state_folder(os.environ),
            "match_rules": rules,
            "nearest": None if match_settings is None else match_settings.minimum_similarity,
        }
    )


def _all_upstreams(pairs: Sequence[str], *, adopts: bool) -> tuple[dict[str, str], frozenset[str]]:
    """Base URLs by provider, and the providers whose clients chose a URL with a `/v1`.

    They come from `NAME=URL` pairs, and with `adopts` from the environment for the other
    providers.  Raises `UsageError` for an invalid URL.
    """
    from llm_proxy.shell.running import environment  # noqa: PLC0415 # only to serve

    explicit = parse_upstreams(pairs)
    adopts = adopts and DEFAULT_PROVIDER not in explicit
    adopted = environment.adopted_upstreams(os.environ, explicit) if adopts else {}
    return adopted | explicit, environment.providers_with_v1(adopted)


def build_reissue_settings(values: Mapping[str, Any]) -> ReissueSettings:
    """The settings for sending requests, from the options of providers and `--normalise`.

    Raises `UsageError` for invalid values.
    """
    from llm_proxy.shell.reissuing import ReissueSettings, api_keys_from_environ  # noqa: PLC0415 # only to send requests
    from llm_proxy.shell.upstream.live import UpstreamSettings  # noqa: PLC0415 # only to send requests

    base_urls, client_chosen_upstreams = _all_upstreams(values["upstream"], adopts=True)
    return ReissueSettings(
        UpstreamSettings(
            base_urls=base_urls,
            replacing_v1=client_chosen_upstreams,
            idle_timeout_s=values["idle_timeout"],
            proxy_url=values["upstream_proxy"],
            signs_requests=values["sign"] is not None,
        ),
        api_keys_from_environ(os.environ),
        values["normalise"],
    )
