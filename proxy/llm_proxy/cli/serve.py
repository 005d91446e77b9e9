"""The commands `record`, `replay`, `auto` and `simulate`: their options and help alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import click

from llm_proxy.cli.options import build_settings, server_options
from llm_proxy.shell.running.settings import is_ci


def _server_command(function: Callable[..., None]) -> click.Command:
    """A command with the server options, and a COMMAND to run.

    Arguments after the name of COMMAND are its own, even where the two dashes are missing.
    """
    argument = click.argument(
        "command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]"
    )
    command = click.command(context_settings={"allow_interspersed_args": False})
    return command(server_options(argument(function)))


@_server_command
def record(command: tuple[str, ...], **values: Any) -> None:
    r"""Pass requests on to the live provider and keep every stream.

    With a COMMAND behind two dashes, the proxy takes a free port, points the base-URL variables
    of every provider at itself, runs the command, and gives its exit code. Without one it
    serves until Ctrl-C. Keys go to the provider and never to the disk.

    \b
    Examples:
      llm-proxy record -- pytest tests/
      llm-proxy record --upstream openai=http://127.0.0.1:8000 -- python app.py
      llm-proxy record --port 4777       then: export OPENAI_BASE_URL=http://127.0.0.1:4777/v1

    When a request was recorded before, its new takes replace the old ones as soon as the first
    of them is complete.
    """
    _run_mode("record", values, command)


@_server_command
def replay(command: tuple[str, ...], **values: Any) -> None:
    r"""Answer from cassettes alone, with no network at all.

    The nth time that a request is asked, its nth take answers. A request that was never
    recorded is answered with HTTP 424 and the nearest cassette, with what differs.

    \b
    Examples:
      llm-proxy replay -- pytest tests/
      llm-proxy replay --pace instant --strict -- pytest tests/
      llm-proxy replay --pace 0.5x --port 4777
      llm-proxy replay --pace ttft=300ms,gap=30..80ms --seed 7
    """
    _run_mode("replay", values, command)


@_server_command
def auto(command: tuple[str, ...], **values: Any) -> None:
    r"""Replay what is there, record what is not.

    The nth time that a request is asked, its nth take answers if it was there at the start;
    otherwise the provider does, and its answer becomes take n. Where CI is set, nothing is
    recorded: auto behaves as replay.

    \b
    Examples:
      llm-proxy auto -- pytest tests/
      llm-proxy auto --on-miss passthrough -- python app.py
    """
    _run_mode("auto", values, command)


@_server_command
def simulate(command: tuple[str, ...], **values: Any) -> None:
    r"""Answer from scenarios, from a mock, or with made-up text: no key, no network, no recording.

    A scenario document scripts the turns of a conversation; it is chosen by the first user
    message, by a header, or by what it matches. Where none is loaded, answers are made up: the
    same request always gets the same one. Every dialect is spoken, streaming or not.

    \b
    Examples:
      llm-proxy simulate -- pytest tests/
      llm-proxy simulate --scenarios scenarios/ --strict -- pytest tests/
      llm-proxy simulate --mock '{replies: [Hello, Goodbye]}' --port 4777
      llm-proxy simulate --respond answers:respond -- python app.py

    Scenario files are read again when they change. llm-proxy scenario lint checks them.
    """
    _run_mode("simulate", values, command)


def _run_mode(mode: Any, option_values: dict[str, Any], command: tuple[str, ...]) -> None:
    is_replay_only = mode == "replay" or (mode == "auto" and is_ci(os.environ))
    is_offline_auto = mode == "auto" and option_values["on_miss"] in {"fail", "scenario"}
    if option_values["on_miss"] is None:
        is_scripted = any(option_values[item] for item in ("scenarios", "mock", "respond"))
        option_values["on_miss"] = "scenario" if is_replay_only and is_scripted else "record"
    contacts_provider = mode != "simulate" and not is_replay_only and not is_offline_auto
    # Report a mistake before anything heavy is imported.
    settings = build_settings(option_values, command, contacts_provider=contacts_provider)

    from llm_proxy.shell.running import serving  # noqa: PLC0415 # only to serve

    serving.configure_logging(settings.log_format)
    if mode == "auto" and is_replay_only:
        logging.getLogger("llm_proxy").info("CI is set: auto replays, and records nothing")
        raise click.exceptions.Exit(serving.serve("replay", settings, command, command_line=mode))
    raise click.exceptions.Exit(serving.serve(mode, settings, command))
