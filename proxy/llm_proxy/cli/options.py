"""The options: one table for the command line, the environment, settings files and `Settings`.

The names of server options are those of the fields of `Settings`, and the keys of a settings file;
the types of options parse their values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click

from llm_proxy.ages import parse_max_age
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.grammar import parse_rule as parse_fault_rule
from llm_proxy.matching.option_grammar import parse_match_settings, parse_rule, parse_rules
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import DEFAULT_PROVIDER
from llm_proxy.redaction import parse_redaction_rules
from llm_proxy.routing import is_valid_name
from llm_proxy.shell.running.settings import (
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
        self.problem = f"not a whole number {limits}"


class SecondsType(_NamedProblemType, click.FloatRange):
    """A duration in seconds: a finite number above 0."""

    name = "seconds"
    problem = "not a number of seconds above 0"

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

    problem = "neither true nor false"


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


class SettingOption:
    """Decorator: an option that the command line, the environment and settings files can set."""

    def __init__(self, option: str, **attributes: Any) -> None:
        self.name = option.removeprefix("--").replace("-", "_")
        self._option = option
        self._attributes = attributes
        if attributes.get("is_flag"):
            attributes["type"] = _BoolType()

    def __call__(self, function: F) -> F:
        """`function` with the option, which the variable LLM_PROXY_NAME sets too."""
        return click.option(
            self._option,
            envvar=f"LLM_PROXY_{self.name.upper()}",
            show_default=True,
            show_envvar=True,
            **self._attributes,
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
            f"'{printable_excerpt(name, 100)}' is no session name: use letters, digits, dot, dash "
            "and underscore, at most 100 of them"
        )


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


cassettes_option = SettingOption(
    "--cassettes", type=PATH_TYPE, default=Path("cassettes"), help="The library's folder."
)
shared_library_option = SettingOption(
    "--shared-library", is_flag=True,
    help="Make files and folders of the library as the umask says, for its group to read or "
         "write; without it they are its owner's alone.",
)  # fmt: skip
spool_option = SettingOption(
    "--spool", type=PATH_TYPE,
    help="Where running recordings are kept.  [default: below XDG_STATE_HOME]",
)  # fmt: skip
scenarios_option = SettingOption(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="A file of scenarios, or a folder of such files.",
)  # fmt: skip
_normalise_option = SettingOption(
    "--normalise", multiple=True, metavar="RULE", type=CheckedTextType("rule", parse_rule),
    callback=lambda _ctx, _param, texts: parse_rules(texts),
    help="What does not count when a cassette is looked for: uuids, ignore=JSONPATH, claude-code, "
         "…; see docs/reference/matching.md. Repeatable.",
)  # fmt: skip
"""Its value is a `RuleSet` with the default redaction."""
_REDACTION_OPTIONS: Final = (
    SettingOption(
        "--redact", multiple=True, metavar="RULE",
        type=CheckedTextType("rule", lambda text: parse_redaction_rules([text])),
        help="What is redacted beyond secrets: email, phone, home-paths, the name of a field, a "
             "JSONPath, or regex=PATTERN; see docs/explanation/security.md. Repeatable.",
    ),
    SettingOption(
        "--no-redact", multiple=True, metavar="NAME",
        type=CheckedTextType("rule", lambda name: parse_redaction_rules(disabled=[name])),
        help="A redaction rule that is wrong for this project, such as twilio-id. Repeatable.",
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
    "--match", metavar="HOW", default="normalised",
    type=ParsedType("way to match", parse_match_settings),
    help="exact (no rules), normalised (those of --normalise), or nearest:0.9, by which the most "
         "alike one answers where none is the same.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")

UPSTREAM_OPTIONS: Final = (
    SettingOption("--upstream", multiple=True, metavar="NAME=URL",
           type=CheckedTextType("upstream", _check_upstream),
           help="Where a provider is; `default` stands for all of them. Repeatable."),
    SettingOption("--upstream-proxy", metavar="URL", type=ParsedType("URL", _parse_optional_url),
           help="An HTTP proxy on the way to the providers."),
    SettingOption("--sign", type=ChoiceType(["aws"]),
           help="Sign requests for Bedrock anew with your AWS credentials; needs botocore."),
    SettingOption("--idle-timeout", type=SecondsType(), default=300.0,
           help="The longest silence of a provider, in seconds."),
)  # fmt: skip
"""Options for requests to providers."""

SERVER_OPTIONS: Final = (
    cassettes_option,
    shared_library_option,
    SettingOption("--host", default="127.0.0.1", help="The address to listen on."),
    SettingOption("--port", type=IntRangeType(0, 65535),
           help=f"The port to listen on; 0 takes any free one.  [default: {DEFAULT_PORT}, or 0 "
                "with a COMMAND]"),
    SettingOption("--port-file", type=PATH_TYPE,
           help="Write the port to this file once we listen."),
    SettingOption("--pace", default="recorded", type=ParsedType("pace", parse_pace),
           help="When answers go out: recorded, instant, 4x, 50tps, ttft=300ms,gap=30..80ms, "
                "profile:gpt-4o, …; see docs/reference/pacing.md."),
    SettingOption("--allow-partial", is_flag=True,
           help="Replay takes that are not complete too, ended as they ended."),
    SettingOption("--strict", is_flag=True,
           help="Exit with 1 when any request was a miss, or not as its scenario expects."),
    SettingOption("--journal", type=PATH_TYPE,
           help="At the end write to this file what was asked and answered: for verdict, report."),
    SettingOption("--max-body", type=IntRangeType(1), default=64 * 1024 * 1024,
           help="The largest request body, in bytes."),
    SettingOption("--allow-host", multiple=True, metavar="NAME",
           help="A further Host name that we answer for, such as a container's."),
    SettingOption("--allow-origin", multiple=True, metavar="ORIGIN",
           help="A web origin whose pages may use the proxy."),
    SettingOption("--log-format", type=ChoiceType(["text", "json"]), default="text",
           help="How the log on stderr is written."),

    # Which cassette answers a request.
    SettingOption("--session", default=DEFAULT_SESSION, metavar="NAME",
           type=CheckedTextType("session", check_session_name),
           help="The session of requests that name none."),
    *MATCH_RULE_OPTIONS,
    match_option,
    SettingOption("--collapse-retries", is_flag=True,
           help="Take a request that an SDK repeats for the one that it repeats: no take of its "
                "own."),

    # The modes that connect to a provider; without effect in the others.
    *UPSTREAM_OPTIONS,
    SettingOption("--finish-on-disconnect", is_flag=True,
           help="Read an answer to its end for the recording, also when the client has left."),
    spool_option,

    SettingOption("--after-last", type=ChoiceType(["repeat", "cycle", "fail"]), default="repeat",
           help="In replay: what answers a request that comes more often than it was recorded."),
    SettingOption("--on-miss", type=ChoiceType(["record", "passthrough", "scenario", "fail"]),
           help="In auto and replay: what happens to a request that is not on disk.  [default: "
                "record in auto; in replay scenario where --scenarios, --mock or --respond is "
                "given, else fail]"),

    # Checks of the library at the end of a run.
    SettingOption("--fail-on-unused", is_flag=True,
           help="Exit with 1 when a cassette was not played in the run."),
    SettingOption("--max-age", metavar="AGE[,fail]", type=ParsedType("age", parse_max_age),
           help="Warn of cassettes that are played and older: 90d, 12w, 1y; with ',fail', exit "
                "with 1."),

    # Scripted, mocked and synthesised responses.
    SettingOption("--scenarios", type=PATH_TYPE, help="A scenario document, or a folder of them."),
    SettingOption("--mock", metavar="OPTIONS",
           help="A mock, as YAML or JSON: '{reply: Hello}', '{replies: [One, Two]}'."),
    SettingOption("--respond", metavar="MODULE:FUNCTION",
           help="Your function that says what a mock answers."),
    SettingOption("--on-unknown", type=ChoiceType(["error", "synthesis"]), default="error",
           help="What answers a request that no scenario does, where there are some."),
    SettingOption("--seed", type=IntRangeType(0), default=0,
           help="What ids and chance are made of."),
    SettingOption("--clock", type=ChoiceType(["fixed", "real"]), default="fixed",
           help="The time that answers name: the same in each run, or the machine's."),
    SettingOption("--silence", type=SecondsType(), default=660.0,
           help="When a scripted time-out, or the silence of a fault, ends for clients that "
                "wait for ever, in seconds."),

    SettingOption("--fault", multiple=True, metavar="RULE",
           type=ParsedType("rule", parse_fault_rule),
           help="What goes wrong, where, when and for whom: 'reset,after=3,nth=2'. Repeatable."),
    SettingOption("--faults", type=PATH_TYPE, metavar="FILE",
           help="A file of such rules: YAML or JSON, with a list called faults."),
    SettingOption("--fault-header", is_flag=True,
           help="Let a request bring rules along, in the header x-llm-proxy-fault."),
)  # fmt: skip
"""All options of servers, and all settings that a settings file may hold."""


def server_options(function: F) -> F:
    """Decorator: all server options, the same for every mode, so scripts switch the mode alone."""
    return decorate(function, (*SERVER_OPTIONS, CONFIG_OPTION))


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
            raise UsageError(f"{path}: {name} must be one value, not a list")
        if not all(isinstance(value, str | int | float) for value in values):
            raise UsageError(f"{path}: {name} holds a value that is neither text nor a number")
        if option.type is PATH_TYPE:
            values = [path.parent / str(value) for value in values]
        texts = list(map(str, values))
        defaults[name] = texts if takes_many else texts[0]
        try:
            option.type_cast_value(ctx, defaults[name])
        except click.BadParameter as error:
            raise UsageError(f"{path}: {name}: {error.message.rstrip('.')}") from None
    ctx.default_map = defaults
    return path


CONFIG_OPTION: Final = click.option(
    "--config", type=PATH_TYPE, is_eager=True, expose_value=False, callback=_load_config,
    envvar="LLM_PROXY_CONFIG", show_envvar=True,
    help="A settings file.  [default: the nearest llm-proxy.toml or pyproject.toml]",
)  # fmt: skip


def build_settings(
    values: Mapping[str, Any], command: tuple[str, ...], *, contacts_provider: bool
) -> Settings:
    """The frozen settings for the values of `SERVER_OPTIONS`.

    `contacts_provider` is whether requests may be sent to a provider.  Only then, and only with
    a `command`, base URLs in the environment become upstreams.  Raises `UsageError` for invalid
    values.
    """
    rules = _pop_redaction(dict(values))["normalise"]
    if values["match"].is_exact:
        rules = rules.as_exact()
    upstreams, client_chosen_upstreams = _all_upstreams(
        values["upstream"], adopts=bool(command) and contacts_provider
    )
    faults = values["fault"]
    if values["faults"] is not None:
        faults += read_fault_rules(values["faults"])
    if values["journal"] is not None:
        check_journal_path(values["journal"])
    default_values = {
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
            "nearest": values["match"].minimum_similarity,
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
