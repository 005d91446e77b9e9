"""Options: declaration, sources, and the settings that they produce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llm_proxy.cli.options.config import CONFIG
from llm_proxy.cli.options.declaration import cassettes, match, normalise, scenarios, spool
from llm_proxy.cli.options.server import (
    AFTER_LAST,
    ASKING,
    CARE,
    FAULTS,
    LIVE,
    MATCHING,
    ON_MISS,
    PORT,
    SERVER,
    SIMULATION,
)
from llm_proxy.cli.options.settings import settings_of

F = TypeVar("F", bound=Callable[..., Any])


def server_options(function: F) -> F:
    """All server options, the same on every command that serves: scripts switch the mode alone."""
    groups = (*SERVER, *MATCHING, *LIVE, AFTER_LAST, ON_MISS, *CARE, *SIMULATION, *FAULTS, CONFIG)
    for option in reversed(groups):
        function = option(function)
    return function


def asking_options(function: F) -> F:
    """The options of a command that asks a provider, and serves nobody."""
    for option in reversed(ASKING):
        function = option(function)
    return function


__all__ = [
    "CONFIG",
    "PORT",
    "asking_options",
    "cassettes",
    "match",
    "normalise",
    "scenarios",
    "server_options",
    "settings_of",
    "spool",
]
