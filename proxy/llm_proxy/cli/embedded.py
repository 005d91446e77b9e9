"""`python -m llm_proxy.cli.embedded`: a proxy for the process that starts it.

The first line on stdin is a `ServerStart`; the first line on stdout is the ready document, or
`{"error": …}`.  `shell.running.embedded` describes what follows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from llm_proxy.cli.options import SERVER_OPTIONS, source_of_setting
from llm_proxy.cli.serve import parse_server_options, unknown_variable_warnings
from llm_proxy.errors import LlmProxyError, UsageError, name_hint
from llm_proxy.matching.looser_rules import looser_rules
from llm_proxy.matching.presets import TEST_PRESET
from llm_proxy.session_documents import ReadyDocument, ServerStart
from llm_proxy.shell.running.embedded import EmbeddedProxy, ParentPipes, run_embedded
from llm_proxy.shell.running.serving import configure_logging, start_warnings
from llm_proxy.shell.running.settings import ModeName, Settings, looser_settings

log: Final = logging.getLogger("llm_proxy")

_SCENARIOS: Final = Path("scenarios")
"""The default folder of scenarios, if it exists: the session of a test names one of them."""

_WITHOUT_EFFECT: Final = frozenset(
    ("fail-on-unused", "journal", "log-format", "max-age", "port-file", "strict")
)
"""Options that concern the end of a command, or its output."""

_MARKER_OPTIONS: Final = ("match", "normalise")
"""Options that a marker can set for one test."""

OptionPairs = Sequence[tuple[str, str]]
"""Command-line options with their values; an option that takes several comes several times."""


async def run_server(
    start: ServerStart,
    serve: Callable[[ReadyDocument, EmbeddedProxy], Awaitable[None]],
    respond: object = None,
) -> bool:
    """Run a proxy until `serve` returns; returns whether the disk hangs.

    `respond` is the function that a mock calls.  Raises `UsageError` if the proxy cannot run.
    """

    def parse(mode: str, options: OptionPairs) -> tuple[ModeName, Settings]:
        mode = mode or start.mode
        own_names = {
            option.name.replace("_", "-") for option in SERVER_OPTIONS if mode in option.commands
        }
        run_pairs = [pair for pair in start.options if pair[0] in own_names]
        defaults = dict(start.defaults)
        if mode == "simulate" and _SCENARIOS.is_dir():
            defaults.setdefault("scenarios", str(_SCENARIOS))

        def parse_pairs(pairs: OptionPairs) -> tuple[ModeName, Settings]:
            arguments = [f"--{name}={value}" if value else f"--{name}" for name, value in pairs]
            return parse_server_options(mode, arguments, defaults, respond)

        mode_name, settings = parse_pairs([*run_pairs, *options])
        if ("normalise", TEST_PRESET) in options:
            _refuse_looser(looser_settings(mode_name, settings), start.options, options)
            # A session's rules replace those of the environment and the settings file, which are
            # refused nevertheless: whoever has set them expects that they apply.
            _, run_settings = parse_pairs(run_pairs)
            _refuse_looser(looser_rules(run_settings.match_rules), start.options)
        return mode_name, replace(settings, record_command=start.record_command)

    names = {option.name.replace("_", "-") for option in SERVER_OPTIONS}
    known_names = names - _WITHOUT_EFFECT
    for name, _ in start.options:
        if name not in known_names:
            raise UsageError(f"unknown option {name!r}; {name_hint(name, sorted(known_names))}")
    mode, settings = parse(start.mode, ())
    for warning in (
        *unknown_variable_warnings(os.environ),
        *await asyncio.to_thread(start_warnings, mode, settings),
    ):
        log.warning("%s", warning)
    return await run_embedded(mode, settings, parse, serve)


def _refuse_looser(
    looser: Iterable[tuple[str, str]], run_options: OptionPairs, session_options: OptionPairs = ()
) -> None:
    """Raise `UsageError` if a setting could hide a failure from a test that a model runs."""
    for name, value in looser:
        if (name, value) in session_options:
            place = "the session of this test"
        elif (name, value) in run_options:
            place = "the options of this run"
        else:
            place = source_of_setting(name)
        alternative = ", or set it by the marker llm_proxy of other tests"
        raise UsageError(
            f"{place}: {name} = {value} is not allowed for a test that a model runs, because a "
            "replay could pass although the tested program has changed; remove the setting"
            + (alternative if name in _MARKER_OPTIONS else "")
        )


def main() -> None:
    """Serve for the parent process until it closes the pipe or ends."""
    pipes = ParentPipes()
    line = pipes.read_line()
    if not line:
        return
    start = msgspec.json.decode(line, type=ServerStart)
    configure_logging("text")
    if start.is_quiet:
        log.setLevel(logging.WARNING)
    try:
        is_disk_hanging = asyncio.run(run_server(start, pipes.serve))
    except LlmProxyError as error:
        pipes.write(ReadyDocument(error=str(error)))
        sys.exit(2)
    if is_disk_hanging:  # Python would wait for the thread that hangs on the disk
        logging.shutdown()
        os._exit(1)


if __name__ == "__main__":
    main()
