"""The help texts in docs/reference/cli.md.

PYTHONPATH=proxy:tests .venv/bin/python tests/cli_page.py writes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from llm_proxy.cli import cli

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
_HELP_BLOCK: Final = re.compile(r"(?ms)^### ([a-z -]+)\n\n```text\n.*?^```$")


def find_command(name: str) -> click.Command:
    """The command of a name such as `scenario ls`."""
    command: click.Command | None = cli
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    return command


def help_text(name: str) -> str:
    """What `llm-proxy NAME --help` prints on a terminal of 80 columns."""
    command = find_command(name)
    command._help_option = None  # else click keeps the one of an earlier context
    context = click.Context(
        command,
        info_name=f"llm-proxy {name}",
        terminal_width=78,
        help_option_names=cli.context_settings["help_option_names"],
    )
    return context.get_help()


def documented_commands(page: str) -> list[str]:
    """The commands whose help the page shows."""
    return [match[1] for match in _HELP_BLOCK.finditer(page)]


def with_current_help(page: str) -> str:
    """The page with each help text as it is now."""
    return _HELP_BLOCK.sub(
        lambda match: f"### {match[1]}\n\n```text\n{help_text(match[1])}\n```", page
    )


if __name__ == "__main__":
    PAGE.write_text(with_current_help(PAGE.read_text("utf-8")), "utf-8")
