"""`recover`: recordings that a crash broke off, made cassettes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, cassettes, spool
from llm_proxy.cli.output.printing import Line, Span, line, outcome_span, print_lines, print_note
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovering
from llm_proxy.shell.recording.recovering import Deleted, Foreign, Kept, Recovered, Result
from llm_proxy.shell.running.settings import default_spool


@click.command
@cassettes
@spool
@CONFIG
def recover(cassettes: Path, spool: Path | None) -> None:
    r"""Make cassettes of recordings that a crash broke off.

    A recording is spooled outside the library while it runs. When the proxy is killed, the
    spool stays; here it becomes a cassette with the ending "killed", which holds every byte
    that had arrived. Recordings that run are not touched, and no take is overwritten.

    \b
    Examples:
      llm-proxy recover
      llm-proxy recover --cassettes tests/cassettes
      llm-proxy recover && llm-proxy ls --partial

    A spool that cannot be read is kept and named, and makes the exit code 1.
    """
    folder = spool or default_spool(os.environ)
    results: list[Result] = []
    for result in recovering.recover(Library(cassettes), folder):
        results.append(result)
        match result:
            case Recovered() | Deleted():
                print_lines([_result_line(result)])
            case Kept(why=why):
                print_note(why)
            case Foreign():
                pass
    _print_summary(results, cassettes, folder)
    raise click.exceptions.Exit(1 if any(isinstance(it, Kept) for it in results) else 0)


def _result_line(it: Recovered | Deleted) -> Line:
    match it:
        case Recovered(filed=filed):
            cassette = filed.cassette
            count = display.counted(len(cassette.messages), "message")
            size = f"{cassette.end.size:,} bytes"
            return line(
                f"recovered {display.path_text(filed.path)}: {count}, {size}, ",
                outcome_span(filed.outcome),
            )
        case Deleted(path, why):
            return line(Span(f"deleted {display.path_text(path)}: {why}", "dim"))


def _print_summary(results: list[Result], cassettes: Path, folder: Path) -> None:
    """Say what there was to do, and what is left for others."""
    ours = [it for it in results if not isinstance(it, Foreign)]
    if not ours:
        print_note(f"nothing to recover for {cassettes}: no recording was broken off ({folder})")
    if back := sum(isinstance(it, Recovered) for it in ours):
        print_note(
            f"{display.counted(back, 'recording')} recovered; replay --allow-partial plays them, "
            "record replaces them"
        )
    others = Counter(it.library for it in results if isinstance(it, Foreign))
    for library, count in sorted(others.items()):
        print_note(
            f"{display.counted(count, 'recording')} of another library: "
            f"llm-proxy recover --cassettes {display.shell_word(library)}"
        )
