"""Declares an option once for the command line, the environment and the settings file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from llm_proxy.cli.option_types import BoolType, CheckedTextType
from llm_proxy.matching.option_grammar import parse_match_settings, parse_rule

F = TypeVar("F", bound=Callable[..., Any])

PATH_TYPE: Final = click.Path(path_type=Path, readable=False)
"""A file or folder path; checked when it is used, so that errors are ours and not click's."""


def env_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """A click option that the environment variable LLM_PROXY_NAME sets too."""
    env_name = names[0].lstrip("-").partition("/")[0].replace("-", "_").upper()
    if attributes.get("is_flag"):
        attributes["type"] = BoolType()
    return click.option(
        *names, envvar=f"LLM_PROXY_{env_name}", show_default=True, show_envvar=True, **attributes
    )


cassettes_option = env_option(
    "--cassettes", type=PATH_TYPE, default=Path("cassettes"), help="The library's folder."
)
spool_option = env_option(
    "--spool", type=PATH_TYPE,
    help="Where running recordings are kept.  [default: below XDG_STATE_HOME]",
)  # fmt: skip
scenarios_option = env_option(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="A file of scenarios, or a folder of such files.",
)  # fmt: skip
normalise_option = env_option(
    "--normalise", multiple=True, metavar="RULE", type=CheckedTextType("rule", parse_rule),
    help="What does not count when a cassette is looked for: uuids, ignore=JSONPATH, claude-code, "
         "…; see docs/matching.md. Repeatable.",
)  # fmt: skip
match_option = env_option(
    "--match", metavar="HOW", default="normalised",
    type=CheckedTextType("way to match", parse_match_settings),
    help="exact (no rules), normalised (those of --normalise), or nearest:0.9, by which the most "
         "alike one answers where none is the same.",
)  # fmt: skip
