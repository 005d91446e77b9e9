"""Command groups that import a command only when it runs, and the wording of usage errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from llm_proxy.errors import UsageError

_EXTRA_ARGUMENTS: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)")
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})


class CommandEntry(NamedTuple):
    """The module and function of a command, and its line in the list of commands."""

    module_name: str
    """Module path relative to `llm_proxy.cli`."""
    short_help: str
    function_name: str = ""
    """Name of the command function in that module; empty where it is the command's name."""


class LazyCommandGroup(click.Group):
    """A group whose commands come from a table; `aliases` are further names of commands."""

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, CommandEntry],
        aliases: Mapping[str, str] = _NO_ALIASES,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.help = unescape_no_rewrap_markers(self.help)
        self._table = table
        self._aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of a name or an alias; None where there is none."""
        name = self._aliases.get(cmd_name, cmd_name)
        if name not in self._table:
            return None
        command_entry = self._table[name]
        command: click.Command = getattr(
            import_module(f"llm_proxy.cli.{command_entry.module_name}"),
            command_entry.function_name or name,
        )
        command.help = unescape_no_rewrap_markers(command.help)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command_entry.short_help) for name, command_entry in self._table.items()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first argument.  Raises `UsageError` where there is none."""
        if args[0] not in self._table and args[0] not in self._aliases and args[0][:1] != "-":
            close_matches = difflib.get_close_matches(args[0], [*self._table, *self._aliases], 1)
            hint = f"there are {', '.join(self._table)}"
            if close_matches:
                hint = f"did you mean {close_matches[0]}?"
            raise UsageError(f"there is no command {args[0]!r}: {hint}")
        name, command, remaining_args = super().resolve_command(ctx, args)
        return command.name if command is not None else name, command, remaining_args

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; attach its context to a usage error that has none."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and (name := ctx.invoked_subcommand):
                # click's parser does not set the context of the command whose options it parsed
                command = self.get_command(ctx, name) or self
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def unescape_no_rewrap_markers(text: str | None) -> str | None:
    r"""`text` with each literal `\b` line replaced by click's mark for text not to rewrap."""
    return text and text.replace("\\b\n", "\b\n")


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
    # `Option '--pace' requires an argument` as `--pace requires an argument`.
    message = re.sub(r"^Option '(\S+)' ", r"\1 ", message)
    return f"{message}: {command} --help shows how"


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
