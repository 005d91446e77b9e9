"""`scenario`: the commands for scenario files."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import click

from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup

_COMMANDS: Final = MappingProxyType(
    {
        "ls": CommandEntry("scenario.ls", "List scenarios, one a row."),
        "try": CommandEntry("scenario.try_", "Say which scenario answers a request.", "try_"),
        "from": CommandEntry("scenario.from_", "Make a scenario of recorded exchanges.", "from_"),
        "lint": CommandEntry("scenario.lint", "Check scenario files, and tell every mistake."),
    }
)


@click.group(cls=LazyCommandGroup, table=_COMMANDS)
def scenario() -> None:
    r"""List scenarios, check their files, and try them.

    A scenario scripts the answers of a conversation. Its file is YAML or JSON, and holds one
    scenario, a list of them, or an object of scenarios and a mock.

    \b
    Examples:
      llm-proxy scenario ls
      llm-proxy scenario lint tests/scenarios
    """
