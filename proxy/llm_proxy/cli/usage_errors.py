"""Formats click's usage errors as one sentence: the place, the value, and what is expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

import click
from click.core import ParameterSource

_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)")


def error_sentence(error: click.ClickException) -> str:
    """What click found, in our words."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "llm-proxy"
    match error:
        case click.NoSuchOption() if context is not None:
            return _unknown_option_message(error.option_name, context)
        case click.MissingParameter() if error.param is not None:
            source = _parameter_source(error.param, context)
            return f"{command} needs {source}: {command} --help shows how"
        case click.BadParameter() if error.param is not None:
            return f"{_parameter_source(error.param, context)}: {error.message.rstrip('.')}"
    words = " ".join(error.format_message().split()).rstrip(".")
    if (extra := _EXTRA.fullmatch(words)) is not None:
        return f"{command} takes no further argument {extra[1]!r}: {command} --help shows how"
    return f"{_simplify_message(words)}: {command} --help shows how"


def unknown_command_message(name: str, commands: Iterable[str], aliases: Iterable[str]) -> str:
    """What is said of a command that is none."""
    commands = list(commands)
    near = difflib.get_close_matches(name, [*commands, *aliases], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(commands)}"
    return f"there is no command {name!r}: {hint}"


def _unknown_option_message(name: str, context: click.Context) -> str:
    command = context.command_path
    there = {
        option.lstrip("-"): option  # the dashes are alike in all of them
        for param in context.command.get_params(context)
        if isinstance(param, click.Option)
        for option in param.opts
    }
    near = difflib.get_close_matches(name.lstrip("-"), there, 1)
    if near:
        hint = f"did you mean {there[near[0]]}?"
    elif context.parent is None:
        hint = f"those of a command come after it, as in {command} record {name}"
    else:
        hint = f"{command} --help lists what there is"
    return f"{command} has no option {name}: {hint}"


def _parameter_source(param: click.Parameter, context: click.Context | None) -> str:
    """Where a value was given: the option, the variable, or the argument."""
    source = context.get_parameter_source(param.name or "") if context is not None else None
    if source is ParameterSource.ENVIRONMENT and isinstance(param.envvar, str):
        return param.envvar
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name


def _simplify_message(words: str) -> str:
    """`Option '--pace' requires an argument` as `--pace requires an argument`."""
    return re.sub(r"^Option '(\S+)' ", r"\1 ", words)
