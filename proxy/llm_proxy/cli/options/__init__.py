"""Options: their declaration, their sources, and the settings built from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llm_proxy.cli.options.config import CONFIG_OPTION
from llm_proxy.cli.options.declaration import (
    cassettes_option,
    match_option,
    normalise_option,
    scenarios_option,
    spool_option,
)
from llm_proxy.cli.options.server import (
    AFTER_LAST_OPTION,
    DEFAULT_PORT,
    FAULT_OPTIONS,
    LIBRARY_CHECK_OPTIONS,
    LIVE_OPTIONS,
    MATCHING_OPTIONS,
    ON_MISS_OPTION,
    SERVER_OPTIONS,
    SIMULATION_OPTIONS,
    UPSTREAM_OPTIONS,
)
from llm_proxy.cli.options.settings import build_settings

F = TypeVar("F", bound=Callable[..., Any])


def server_options(function: F) -> F:
    """Decorator: all server options, the same for every mode, so scripts switch the mode alone."""
    options = (
        *SERVER_OPTIONS,
        *MATCHING_OPTIONS,
        *LIVE_OPTIONS,
        AFTER_LAST_OPTION,
        ON_MISS_OPTION,
        *LIBRARY_CHECK_OPTIONS,
        *SIMULATION_OPTIONS,
        *FAULT_OPTIONS,
        CONFIG_OPTION,
    )
    for option in reversed(options):
        function = option(function)
    return function


def upstream_options(function: F) -> F:
    """Decorator: the options of a command that sends requests to providers without serving."""
    for option in reversed(UPSTREAM_OPTIONS):
        function = option(function)
    return function


__all__ = [
    "CONFIG_OPTION",
    "DEFAULT_PORT",
    "build_settings",
    "cassettes_option",
    "match_option",
    "normalise_option",
    "scenarios_option",
    "server_options",
    "spool_option",
    "upstream_options",
]
