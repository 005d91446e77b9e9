"""The server options, the same on every command that serves."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from llm_proxy.cli.option_types import Checked, Count, OneOf, Seconds, Truth
from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar import rule_of, rules_of
from llm_proxy.faults.rule import Rule
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import ANY
from llm_proxy.shell.running.journal_file import check_place
from llm_proxy.shell.running.settings import (
    Settings,
    Simulating,
    checked_url,
    default_spool,
    find_config,
    parse_upstreams,
    read_config,
)

F = TypeVar("F", bound=Callable[..., Any])

PORT: Final = 4777


def _upstream(pair: str) -> None:
    """Raises `UsageError` for a pair that is no `NAME=URL`."""
    try:
        parse_upstreams((pair,))
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--upstream ")) from None


def _url(url: str) -> None:
    """Raises `UsageError` for what is no plain http or https URL; an empty text stands for none."""
    try:
        if url.strip():
            checked_url("", url.strip())
    except UsageError as error:
        raise UsageError(str(error).removeprefix(": ")) from None


def _fault(text: str) -> None:
    """Raises `UsageError` for a text that is no rule."""
    rule_of(text)


def _option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """An option that the environment sets too, as LLM_PROXY_NAME."""
    name = names[0].lstrip("-").partition("/")[0].replace("-", "_").upper()
    if attributes.get("is_flag"):
        attributes["type"] = Truth()
    return click.option(
        *names, envvar=f"LLM_PROXY_{name}", show_default=True, show_envvar=True, **attributes
    )


_FOLDER: Final = click.Path(path_type=Path, readable=False)
"""A path that is looked at when it is used, and complained about in our own words."""

cassettes = _option(
    "--cassettes", type=_FOLDER, default=Path("cassettes"), help="The library's folder."
)
spool = _option(
    "--spool", type=_FOLDER,
    help="Where running recordings are kept.  [default: below XDG_STATE_HOME]",
)  # fmt: skip
scenarios = _option(
    "--scenarios", type=_FOLDER, default=Path("scenarios"),
    help="A file of scenarios, or a folder of such files.",
)  # fmt: skip

SERVER: Final[tuple[Callable[[Any], Any], ...]] = (
    cassettes,
    _option("--host", default="127.0.0.1", help="The address to listen on."),
    _option("--port", type=Count(0, 65535),
            help=f"The port to listen on; 0 takes any free one.  [default: {PORT}, or 0 with a "
                 "COMMAND]"),
    _option("--port-file", type=_FOLDER, help="Write the port to this file once we listen."),
    _option("--pace", default="recorded", type=Checked("pace", parse_pace),
            help="When answers go out: recorded, instant, 4x, 50tps, ttft=300ms,gap=30..80ms, "
                 "profile:gpt-4o, …; see docs/pacing.md."),
    _option("--allow-partial", is_flag=True,
            help="Replay takes that are not complete too, ended as they ended."),
    _option("--strict", is_flag=True,
            help="Exit with 1 when any request was a miss, or not as its scenario expects."),
    _option("--journal", type=_FOLDER,
            help="At the end write to this file what was asked and answered: for verdict, report."),
    _option("--max-body", type=Count(1), default=64 * 1024 * 1024,
            help="The largest request body, in bytes."),
    _option("--allow-host", multiple=True, metavar="NAME",
            help="A further Host name that we answer for, such as a container's."),
    _option("--allow-origin", multiple=True, metavar="ORIGIN",
            help="A web origin whose pages may use the proxy."),
    _option("--log-format", type=OneOf(["text", "json"]), default="text",
            help="How the log on stderr is written."),
)  # fmt: skip
"""Options of all modes."""

LIVE: Final[tuple[Callable[[Any], Any], ...]] = (
    _option("--upstream", multiple=True, metavar="NAME=URL", type=Checked("upstream", _upstream),
            help="Where a provider is; `default` stands for all of them. Repeatable."),
    _option("--upstream-proxy", metavar="URL", type=Checked("URL", _url),
            help="An HTTP proxy on the way to the providers."),
    _option("--sign", type=OneOf(["aws"]),
            help="Sign requests for Bedrock anew with your AWS credentials; needs botocore."),
    _option("--idle-timeout", type=Seconds(), default=300.0,
            help="The longest silence of a provider, in seconds."),
    _option("--finish-on-disconnect", is_flag=True,
            help="Read an answer to its end for the recording, also when the client has left."),
    spool,
)  # fmt: skip
"""Options of the modes that talk to a provider; without effect in the others."""

AFTER_LAST: Final = _option(
    "--after-last", type=OneOf(["repeat", "cycle", "fail"]), default="repeat",
    help="In replay: what answers a request that comes more often than it was recorded.",
)  # fmt: skip
ON_MISS: Final = _option(
    "--on-miss", type=OneOf(["record", "passthrough", "scenario", "fail"]),
    help="In auto and replay: what happens to a request that is not on disk.  [default: record in "
         "auto; in replay scenario where --scenarios, --mock or --respond is given, else fail]",
)  # fmt: skip


FAULTS: Final[tuple[Callable[[Any], Any], ...]] = (
    _option("--fault", multiple=True, metavar="RULE", type=Checked("rule", _fault),
            help="What goes wrong, where, when and for whom: 'reset,after=3,nth=2'. Repeatable."),
    _option("--faults", type=_FOLDER, metavar="FILE",
            help="A file of such rules: YAML or JSON, with a list called faults."),
    _option("--fault-header", is_flag=True,
            help="Let a request bring rules along, in the header x-llm-proxy-fault."),
)  # fmt: skip
"""Options of what goes wrong on the way to clients."""

SIMULATION: Final[tuple[Callable[[Any], Any], ...]] = (
    _option("--scenarios", type=_FOLDER, help="A scenario document, or a folder of them."),
    _option("--mock", metavar="OPTIONS",
            help="A mock, as YAML or JSON: '{reply: Hello}', '{replies: [One, Two]}'."),
    _option("--respond", metavar="MODULE:FUNCTION",
            help="Your function that says what a mock answers."),
    _option("--on-unknown", type=OneOf(["error", "synthesis"]), default="error",
            help="What answers a request that no scenario does, where there are some."),
    _option("--seed", type=Count(0), default=0, help="What ids and chance are made of."),
    _option("--clock", type=OneOf(["fixed", "real"]), default="fixed",
            help="The time that answers name: the same in each run, or the machine's."),
    _option("--silence", type=Seconds(), default=660.0,
            help="When a scripted time-out, or the silence of a fault, ends for clients that "
                 "wait for ever, in seconds."),
)  # fmt: skip
"""Options of answers that are scripted or made up."""

SERVER_NAMES: Final = (
    "cassettes", "host", "port", "port_file", "pace", "allow_partial", "strict", "max_body",
    "allow_host", "allow_origin", "log_format", "upstream", "upstream_proxy", "sign",
    "idle_timeout", "finish_on_disconnect", "spool", "after_last", "on_miss", "scenarios", "mock",
    "respond", "on_unknown", "seed", "clock", "silence", "fault", "faults", "fault_header",
    "journal",
)  # fmt: skip
"""Every setting that a file may hold."""


def _config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    """Make the settings of the file the defaults of this command."""
    path = value or find_config(Path.cwd())
    if path is not None:
        settings = read_config(path, SERVER_NAMES)
        options = {param.name: param for param in ctx.command.params}
        ctx.default_map = {
            name: _from_file(path, ctx, options[name], setting)
            for name, setting in settings.items()
            if name in options
        }
    return path


def _from_file(path: Path, ctx: click.Context, option: click.Parameter, setting: Any) -> Any:
    """A setting as its option takes it; a relative path is relative to the file's folder.

    Raises `UsageError` for one that the option does not take.
    """
    many = option.nargs != 1 or bool(getattr(option, "multiple", False))
    values = setting if isinstance(setting, list) else [setting]
    if isinstance(setting, list) and not many:
        raise UsageError(f"{path}: {option.name} must be one value, not a list")
    if not all(isinstance(it, str | int | float) for it in values):
        raise UsageError(f"{path}: {option.name} holds a value that is neither text nor a number")
    folder = path.parent if option.type is _FOLDER else None
    typed = [str(folder / str(it)) if folder else str(it) for it in values]
    try:
        option.type_cast_value(ctx, typed if many else typed[0])
    except click.BadParameter as error:
        raise UsageError(f"{path}: {option.name}: {error.message.rstrip('.')}") from None
    return typed if many else typed[0]


CONFIG: Final = click.option(
    "--config", type=_FOLDER, is_eager=True, expose_value=False, callback=_config,
    envvar="LLM_PROXY_CONFIG", show_envvar=True,
    help="A settings file.  [default: the nearest llm-proxy.toml or pyproject.toml]",
)  # fmt: skip


def server_options(function: F) -> F:
    """All server options, the same on every command that serves: scripts switch the mode alone."""
    for option in reversed((*SERVER, *LIVE, AFTER_LAST, ON_MISS, *SIMULATION, *FAULTS, CONFIG)):
        function = option(function)
    return function


def settings_of(values: dict[str, Any], command: tuple[str, ...], *, live: bool) -> Settings:
    """The frozen settings for option values; `live` where a provider may be asked.

    Raises `UsageError` for values that make none.
    """
    environ = os.environ
    port = values["port"]
    given = parse_upstreams(values.get("upstream", ()))
    adopted = _adopted(given, environ) if command and live else {}
    return Settings(
        cassettes=values["cassettes"],
        host=values["host"],
        port=(0 if command else PORT) if port is None else port,
        port_file=values["port_file"],
        upstreams=adopted | given,
        clients_own=_clients_own(adopted),
        upstream_proxy=_proxy(values.get("upstream_proxy") or ""),
        idle_timeout=values.get("idle_timeout", 300.0),
        finish_on_disconnect=values.get("finish_on_disconnect", False),
        max_body=values["max_body"],
        pace=parse_pace(values["pace"]),
        after_last=values.get("after_last", "repeat"),
        on_miss=values.get("on_miss") or "record",
        allow_partial=values["allow_partial"],
        strict=values["strict"],
        allow_hosts=frozenset(name.lower() for name in values["allow_host"]),
        allow_origins=frozenset(values["allow_origin"]),
        spool=values.get("spool") or default_spool(environ),
        log_format=values["log_format"],
        sign=values.get("sign"),
        seed=values["seed"],
        faults=_faults(values),
        fault_header=values["fault_header"],
        journal=_journal(values["journal"]),
        simulating=Simulating(
            scenarios=values["scenarios"],
            mock=values["mock"] or "",
            respond=values["respond"] or "",
            on_unknown=values["on_unknown"],
            clock=values["clock"],
            silence=values["silence"],
        ),
    )


def _faults(values: dict[str, Any]) -> tuple[Rule, ...]:
    """The rules of the command line, and behind them those of the file."""
    given = rules_of(values["fault"])
    if values["faults"] is None:
        return given
    from llm_proxy.shell.running.faulting import read_rules  # noqa: PLC0415 # only where one is given

    return given + read_rules(values["faults"])


def _journal(path: Path | None) -> Path | None:
    if path is not None:
        check_place(path)
    return path


def _adopted(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses that the environment of a COMMAND names, where nothing that is given wins."""
    from llm_proxy.shell.running.environment import adopted_upstreams  # noqa: PLC0415 # only to serve

    return {} if ANY in given else adopted_upstreams(environ, given)


def _clients_own(adopted: Mapping[str, str]) -> frozenset[str]:
    from llm_proxy.shell.running.environment import with_our_v1  # noqa: PLC0415 # only to serve

    return with_our_v1(adopted)


def _proxy(url: str) -> str | None:
    return checked_url("--upstream-proxy", url.strip()) if url.strip() else None
