"""Formats click's errors as one sentence: the parameter, the value, and what is expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

import click
from click.core import ParameterSource

_EXTRA_ARGUMENTS: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)")


def click_error_message(error: click.ClickException) -> str:
    """The message of a click error, as one sentence."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "llm-proxy"
    match error:
        case click.NoSuchOption() if context is not None:
            return _unknown_option_message(error.option_name, context)
        case click.MissingParameter() if error.param is not None:
            label = _parameter_label(error.param, context)
            return f"{command} needs {label}: {command} --help shows how"
        case click.BadParameter() if error.param is not None:
            return f"{_parameter_label(error.param, context)}: {error.message.rstrip('.')}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if (extra_match := _EXTRA_ARGUMENTS.fullmatch(message)) is not None:
        return f"{command} takes no further argument {extra_match[1]!r}: {command} --help shows how"
    return f"{_strip_option_prefix(message)}: {command} --help shows how"


def unknown_command_message(name: str, commands: Iterable[str], aliases: Iterable[str]) -> str:
    """The message for an unknown command, with the closest name or the list of commands."""
    commands = list(commands)
    close_matches = difflib.get_close_matches(name, [*commands, *aliases], 1)
    hint = (
        f"did you mean {close_matches[0]}?" if close_matches else f"there are {', '.join(commands)}"
    )
    return f"there is no command {name!r}: {hint}"


def _unknown_option_message(name: str, context: click.Context) -> str:
    command = context.command_path
    options_by_name = {
        option.lstrip("-"): option  # all share the dashes, which would count as similarity
        for param in context.command.get_params(context)
        if isinstance(param, click.Option)
        for option in param.opts
    }
    close_matches = difflib.get_close_matches(name.lstrip("-"), options_by_name, 1)
    if close_matches:
        hint = f"did you mean {options_by_name[close_matches[0]]}?"
    elif context.parent is None:
        hint = f"those of a command come after it, as in {command} record {name}"
    else:
        hint = f"{command} --help lists what there is"
    return f"{command} has no option {name}: {hint}"


def _parameter_label(param: click.Parameter, context: click.Context | None) -> str:
    """The name of the option, environment variable or argument that set a value."""
    source = context.get_parameter_source(param.name or "") if context is not None else None
    if source is ParameterSource.ENVIRONMENT and isinstance(param.envvar, str):
        return param.envvar
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


def _strip_option_prefix(message: str) -> str:
    """`Option '--pace' requires an argument` as `--pace requires an argument`."""
    return re.sub(r"^Option '(\S+)' ", r"\1 ", message)
