"""Declares an option once for the command line, the environment and the settings file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from llm_proxy.cli.option_types import BoolType, CheckedTextType
from llm_proxy.matching.grammar import parse_match, parse_rule

F = TypeVar("F", bound=Callable[..., Any])

FOLDER: Final = click.Path(path_type=Path, readable=False)
"""A path that is looked at when it is used, and complained about in our own words."""


def option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """An option that the environment sets too, as LLM_PROXY_NAME."""
    name = names[0].lstrip("-").partition("/")[0].replace("-", "_").upper()
    if attributes.get("is_flag"):
        attributes["type"] = BoolType()
    return click.option(
        *names, envvar=f"LLM_PROXY_{name}", show_default=True, show_envvar=True, **attributes
    )


cassettes = option(
    "--cassettes", type=FOLDER, default=Path("cassettes"), help="The library's folder."
)
spool = option(
    "--spool", type=FOLDER,
    help="Where running recordings are kept.  [default: below XDG_STATE_HOME]",
)  # fmt: skip
scenarios = option(
    "--scenarios", type=FOLDER, default=Path("scenarios"),
    help="A file of scenarios, or a folder of such files.",
)  # fmt: skip
normalise = option(
    "--normalise", multiple=True, metavar="RULE", type=CheckedTextType("rule", parse_rule),
    help="What does not count when a cassette is looked for: uuids, ignore=JSONPATH, claude-code, "
         "…; see docs/matching.md. Repeatable.",
)  # fmt: skip
match = option(
    "--match", metavar="HOW", default="normalised",
    type=CheckedTextType("way to match", parse_match),
    help="exact (no rules), normalised (those of --normalise), or nearest:0.9, by which the most "
         "alike one answers where none is the same.",
)  # fmt: skip
