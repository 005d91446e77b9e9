"""The commands `record`, `replay`, `auto` and `simulate`: their options and help alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
from click.core import ParameterSource

from llm_proxy.cli.commands import GroupedCommand, click_error_message
from llm_proxy.cli.options import build_settings, server_options, unknown_variables
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.shell.running.settings import ModeName, Settings, is_ci

_LIVE_ON_MISS: Final = ("record", "passthrough")
"""The values of `--on-miss` that contact a provider."""
_PARENT_AS_COMMAND: Final = ("python",)
"""The command of a proxy that another process controls: that process, whose clients it serves."""
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a variable's name in the log."""


def _server_command(function: Callable[..., None]) -> click.Command:
    """A command with its server options, and a COMMAND to run.

    Arguments after the name of COMMAND are its own, even where the two dashes are missing.
    """
    argument = click.argument(
        "command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]"
    )
    command = click.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False})
    return command(server_options(function.__name__)(argument(function)))


@_server_command
def record(command: tuple[str, ...], **values: Any) -> None:
    r"""Forward requests to the provider and record every response.

    With COMMAND, the proxy listens on a free port, sets the base-URL variables of all providers,
    runs COMMAND and returns its exit code. Without COMMAND, the proxy runs until you press Ctrl-C.
    API keys are forwarded but never stored. A new recording replaces older recordings of the same
    request.

    \b
    Examples:
      llm-proxy record -- pytest tests/
      llm-proxy record --upstream openai=http://127.0.0.1:8000 -- python app.py
      llm-proxy record      then: export OPENAI_BASE_URL=http://127.0.0.1:4777/v1
    """
    _run_mode("record", values, command)


@_server_command
def replay(command: tuple[str, ...], **values: Any) -> None:
    r"""Respond from cassettes, without any network access.

    The nth identical request of a session gets the nth take. A request without a matching cassette
    is a miss: llm-proxy responds with HTTP 424 and lists the differences from the nearest cassette.

    \b
    Examples:
      llm-proxy replay -- pytest tests/
      llm-proxy replay --pace instant --strict -- pytest tests/
      llm-proxy replay --pace ttft=300ms,gap=30..80ms --seed 7
    """
    _run_mode("replay", values, command)


@_server_command
def auto(command: tuple[str, ...], **values: Any) -> None:
    r"""Replay recorded requests and record the others.

    The nth identical request in a session gets take n if take n existed when the run started. Other
    requests are forwarded and recorded; with --again replay, each only once per run. If CI is set,
    auto behaves like replay.

    \b
    Examples:
      llm-proxy auto -- pytest tests/
      llm-proxy auto --again replay -- python app.py
    """
    _run_mode("auto", values, command)


@_server_command
def simulate(command: tuple[str, ...], **values: Any) -> None:
    r"""Respond with scenarios, a mock or generated responses, without a key or network access.

    A scenario file defines the turns of a conversation. Without scenarios or a mock, llm-proxy
    generates responses; identical requests receive identical responses. Changed scenario files are
    reloaded.

    \b
    Examples:
      llm-proxy simulate -- pytest tests/
      llm-proxy simulate --scenarios scenarios/ --strict -- pytest tests/
      llm-proxy simulate --mock '{replies: [Hello, Goodbye]}' --port 4777
      llm-proxy simulate --respond answers:respond -- python app.py
    """
    _run_mode("simulate", values, command)


def check_offline_on_miss(values: dict[str, Any]) -> None:
    """Resolve `on_miss` for a command that never connects to a provider.

    A value of `auto` in the environment or the settings file, which are shared, counts as unset.
    Raises `UsageError` for one on the command line.
    """
    context = click.get_current_context()
    source = context.get_parameter_source("on_miss")
    if values["on_miss"] in _LIVE_ON_MISS and source is ParameterSource.COMMANDLINE:
        raise UsageError(
            f"--on-miss {values['on_miss']}: {context.command_path} never connects to a provider; "
            "use llm-proxy auto"
        )
    values["on_miss"] = offline_on_miss(values)


def offline_on_miss(values: Mapping[str, Any]) -> str:
    """`on_miss` where no provider may be contacted: by default `fail`, or `scenario` with some."""
    if values["on_miss"] not in {None, *_LIVE_ON_MISS}:
        return str(values["on_miss"])
    is_scripted = any(values[name] for name in ("scenarios", "mock", "respond"))
    return "scenario" if is_scripted else "fail"


def resolve_settings(
    mode: ModeName, option_values: dict[str, Any], command: tuple[str, ...]
) -> tuple[ModeName, Settings]:
    """The mode that runs, and its settings: in CI, `auto` runs as `replay`.

    Call it in the context of a server command.  Raises `UsageError` for invalid values.
    """
    is_replay_in_ci = mode == "auto" and is_ci(os.environ)
    if mode == "replay":
        check_offline_on_miss(option_values)
    elif is_replay_in_ci:
        option_values["on_miss"] = offline_on_miss(option_values)
    elif mode == "auto":
        option_values["on_miss"] = option_values["on_miss"] or "record"
    contacts_provider = mode == "record" or option_values.get("on_miss") in _LIVE_ON_MISS
    settings = build_settings(option_values, command, contacts_provider=contacts_provider)
    return ("replay" if is_replay_in_ci else mode), settings


def parse_server_options(
    mode: str, arguments: Sequence[str], defaults: Mapping[str, str], respond: object = None
) -> tuple[ModeName, Settings]:
    """The mode and settings of a server command that another process starts and controls.

    `defaults` are those of options, by name with underscores; the environment and the settings file
    take precedence.  `respond` is the function that a mock calls.  Raises `UsageError`.
    """
    commands: dict[str, tuple[ModeName, click.Command]] = {
        "record": ("record", record), "replay": ("replay", replay),
        "auto": ("auto", auto), "simulate": ("simulate", simulate),
    }  # fmt: skip
    if mode not in commands:
        raise UsageError(f"unknown mode {mode!r}; {name_hint(mode, commands)}")
    mode_name, command = commands[mode]
    try:
        with command.make_context(
            f"llm-proxy {mode}", list(arguments), default_map=dict(defaults)
        ) as context:
            values = {name: context.params[name] for name in context.params if name != "command"}
            if respond is not None:
                values["respond"] = respond
            return resolve_settings(mode_name, values, _PARENT_AS_COMMAND)
    except click.ClickException as error:
        raise UsageError(click_error_message(error)) from None


def unknown_variable_warnings(environ: Mapping[str, str]) -> list[str]:
    """A warning for each variable with the prefix LLM_PROXY_ that no command reads."""
    return [
        f"{printable_excerpt(name, _MAX_NAME_CHARS)}: {message}"
        for name, message in unknown_variables(environ).items()
    ]


def _run_mode(mode: ModeName, option_values: dict[str, Any], command: tuple[str, ...]) -> None:
    # Report a mistake before anything heavy is imported.
    running_mode, settings = resolve_settings(mode, option_values, command)

    from llm_proxy.shell.running import serving  # noqa: PLC0415 # only to serve

    serving.configure_logging(settings.log_format)
    log = logging.getLogger("llm_proxy")
    for warning in unknown_variable_warnings(os.environ):
        log.warning("%s", warning)
    if running_mode != mode:
        log.info("the environment variable CI is set, so auto only replays cassettes")
    raise click.exceptions.Exit(serving.serve(running_mode, settings, command, command_line=mode))
