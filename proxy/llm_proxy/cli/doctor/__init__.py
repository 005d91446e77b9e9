"""`doctor`: what is wrong with this machine, this environment or this library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy import display
from llm_proxy.cli.doctor import library, machine
from llm_proxy.cli.doctor.results import Level, Verdict
from llm_proxy.cli.options import CONFIG, PORT, cassettes, normalise, spool
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.running.settings import default_spool

_STYLES: Final = {Level.OK: "good", Level.WARNING: "doubtful", Level.PROBLEM: "bad"}
_LEVEL: Final = max(map(len, Level))
_NAME: Final = 15
"""Columns."""


@click.command
@cassettes
@spool
@normalise
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def doctor(
    cassettes: Path, spool: Path | None, normalise: tuple[str, ...], *, as_json: bool
) -> None:
    r"""Check this machine and this library for trouble.

    Looks at versions, the HTTP parser, proxies and base URLs in the environment, the port, the
    event loop, the decoders, the library and the recordings that a crash left behind. Each line
    is ok, a warning (it works, but not as you may think) or a problem, which makes the exit
    code 1. Nothing is changed.

    \b
    Examples:
      llm-proxy doctor
      llm-proxy doctor --cassettes tests/cassettes
      llm-proxy doctor --json | jq '.checks[] | select(.level != "ok")'
    """
    verdicts = [
        *machine.verdicts(os.environ, PORT),
        *library.verdicts(cassettes, spool or default_spool(os.environ), rules_of(normalise)),
    ]
    if as_json:
        print_json(_document(verdicts))
    else:
        print_lines(_verdict_line(verdict) for verdict in verdicts)
        print_note(_summary(verdicts))
    raise click.exceptions.Exit(1 if _count(verdicts, Level.PROBLEM) else 0)


def _verdict_line(it: Verdict) -> Line:
    level = Span(f"{it.level:<{_LEVEL}}", _STYLES[it.level])
    return line(level, "  ", Span(f"{it.name:<{_NAME}} ", "bold"), display.one_line(it.text))


def _count(verdicts: Sequence[Verdict], level: Level) -> int:
    return sum(verdict.level is level for verdict in verdicts)


def _summary(verdicts: Sequence[Verdict]) -> str:
    problems = display.counted(_count(verdicts, Level.PROBLEM), "problem")
    return f"{problems}, {display.counted(_count(verdicts, Level.WARNING), 'warning')}"


def _document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "ok": not _count(verdicts, Level.PROBLEM),
        "checks": [
            {"name": it.name, "level": it.level.value, "text": display.path_text(it.text)}
            for it in verdicts
        ],
    }
