"""Command groups that import a command only when it runs, and the wording of usage errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from llm_proxy.errors import UsageError, name_hint

_EXTRA_ARGUMENTS: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)")
_MAX_SHOWN_COMMANDS: Final = 6
"""How many commands with an option are named."""
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})
_MAX_TERM_CHARS: Final = 30
"""The widest first column of a list; click moves the text after a longer term to the next line."""


class CommandEntry(NamedTuple):
    """The module and function of a command, and its line in the list of commands."""

    module_name: str
    """Module path relative to `llm_proxy.cli`."""
    short_help: str
    function_name: str = ""
    """Name of the command function in that module; empty where it is the command's name."""


class GroupedCommand(click.Command):
    """A command whose help shows its options under the headings of their groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of options for each group, then one of the others."""
        rows_by_group: dict[str, list[tuple[str, str]]] = {}
        help_option = self.get_help_option(ctx)
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if row is not None and param is not help_option:
                group = getattr(param, "group", "") or "Options"
                rows_by_group.setdefault(group, []).append(row)
        options = rows_by_group.pop("Options", [])  # the ungrouped ones come last
        if help_option is not None and (row := help_option.get_help_record(ctx)) is not None:
            options.append(row)
        rows_by_group["Options"] = options
        widest = max(len(term) for rows in rows_by_group.values() for term, _ in rows)
        width = min(widest, _MAX_TERM_CHARS)
        formatter.write_paragraph()
        for group, rows in rows_by_group.items():  # without empty lines: there are many groups
            formatter.write_heading(group)
            with formatter.indentation():
                formatter.write_dl([(term.ljust(width), text) for term, text in rows])


class LazyCommandGroup(click.Group):
    """A group whose commands come from a table.

    `sections` are the entries by the heading that the help shows them under; `aliases` are further
    names of commands.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        aliases: Mapping[str, str] = _NO_ALIASES,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.help = unescape_no_rewrap_markers(self.help)
        self._sections = sections
        self._table = {name: entry for table in sections.values() for name, entry in table.items()}
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
        width = max(map(len, self._table))
        for heading, table in self._sections.items():
            with formatter.section(heading):
                rows = [(name.ljust(width), entry.short_help) for name, entry in table.items()]
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named by the first argument.  Raises `UsageError` where there is none."""
        if args[0] not in self._table and args[0] not in self._aliases and args[0][:1] != "-":
            list_hint = f"for a list of commands, run {ctx.command_path} --help"
            hint = name_hint(args[0], [*self._table, *self._aliases], list_hint)
            raise UsageError(f"unknown command {args[0]!r}; {hint}")
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
            return f"missing argument {label}; see {command} --help"
        case click.BadParameter() if error.param is not None:
            return f"{_parameter_label(error.param, context)}: {error.message.rstrip('.')}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if (extra_match := _EXTRA_ARGUMENTS.fullmatch(message)) is not None:
        return f"unexpected argument {extra_match[1]!r}; see {command} --help"
    # `Option '--pace' requires an argument` as `--pace requires an argument`.
    message = re.sub(r"^Option '(\S+)' ", r"\1 ", message)
    return f"{message}; see {command} --help"


def _unknown_option_message(name: str, context: click.Context) -> str:
    command, root = context.command_path, context.find_root()
    own_options = _option_names(context.command, context)
    owners = list(_commands_with_option(name, root.command, root))
    close_matches = difflib.get_close_matches(
        name.lstrip("-"), [option.lstrip("-") for option in own_options], 1
    )  # all share the dashes, which would count as similarity
    if owners and context.parent is not None:
        more = len(owners) - _MAX_SHOWN_COMMANDS
        shown = ", ".join(owners[:_MAX_SHOWN_COMMANDS]) + (f" and {more} more" if more > 0 else "")
        return f"{command} has no option {name}; {name} is an option of {shown}"
    if owners:
        return f"put {name} after the command name: {command} {owners[0]} {name}"
    if close_matches:
        return f"{command} has no option {name}; did you mean --{close_matches[0]}?"
    return f"{command} has no option {name}; see {command} --help"


def _option_names(command: click.Command, context: click.Context) -> list[str]:
    return [
        option
        for param in command.get_params(context)
        if isinstance(param, click.Option)
        for option in param.opts
        if option.startswith("--")
    ]


def _commands_with_option(
    name: str, command: click.Command, context: click.Context, path: str = ""
) -> Iterator[str]:
    """The commands below `command` that have this option, by their names after `llm-proxy`."""
    if path and name in _option_names(command, context) and name != "--help":
        yield path
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            subcommand = command.get_command(context, word)
            if subcommand is not None:
                yield from _commands_with_option(
                    name, subcommand, context, f"{path} {word}".strip()
                )


def _parameter_label(param: click.Parameter, context: click.Context | None) -> str:
    """The name of the option, environment variable or argument that set a value."""
    source = context.get_parameter_source(param.name or "") if context is not None else None
    if source is ParameterSource.ENVIRONMENT and isinstance(param.envvar, str):
        return param.envvar
    return param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
