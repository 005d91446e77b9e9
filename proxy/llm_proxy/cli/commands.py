"""Command groups that import a command only when it runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import click

from llm_proxy.cli.usage_errors import unknown_command_message
from llm_proxy.errors import UsageError

_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})


class CommandEntry(NamedTuple):
    """Where a command is, and what the list of commands says of it."""

    module: str
    """Below `llm_proxy.cli`; the command has its own name there, or `function`."""
    help: str
    function: str = ""


class LazyCommandGroup(click.Group):
    """A group whose commands stand in a table."""

    def __init__(
        self,
        *args: Any,
        table: Mapping[str, CommandEntry],
        aliases: Mapping[str, str] = _NO_ALIASES,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.help = verbatim_paragraph(self.help)
        self._table = table
        self._aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name or an alias."""
        name = self._aliases.get(cmd_name, cmd_name)
        if name not in self._table:
            return None
        command_entry = self._table[name]
        command: click.Command = getattr(
            import_module(f"llm_proxy.cli.{command_entry.module}"), command_entry.function or name
        )
        command.help = verbatim_paragraph(command.help)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command_entry.help) for name, command_entry in self._table.items()]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that arguments begin with.  Raises `UsageError` where there is none."""
        if args[0] not in self._table and args[0] not in self._aliases and args[0][:1] != "-":
            raise UsageError(unknown_command_message(args[0], self._table, self._aliases))
        name, command, rest = super().resolve_command(ctx, args)
        return command.name if command is not None else name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a mistake in its options knows that it is its own."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None and (name := ctx.invoked_subcommand):
                # click's parser does not say whose options it read
                command = self.get_command(ctx, name) or self
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def verbatim_paragraph(text: str | None) -> str | None:
    r"""`text` with click's mark for a paragraph to be left as it is; docstrings spell it `\b`."""
    return text and text.replace("\\b\n", "\b\n")
