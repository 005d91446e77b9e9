"""`recover`: recordings that a crash broke off, made cassettes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG, cassettes, spool
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_lines,
    print_note,
    styled_line,
    styled_outcome,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.recovery import (
    DeletedFile,
    ForeignSpool,
    KeptFile,
    RecoveredRecording,
    Result,
)
from llm_proxy.shell.running.settings import default_spool


@click.command
@cassettes
@spool
@CONFIG
def recover(cassettes: Path, spool: Path | None) -> None:
    r"""Make cassettes of recordings that a crash or a full disk kept out of the library.

    A recording is spooled outside the library while it runs. When the proxy is killed, or the
    library cannot be written, the spool stays. Here it becomes a cassette that holds every byte
    that had arrived, with the ending that the recorder saw, or "killed" where it saw none.
    Recordings that run are not touched, no take is overwritten, and a recording whose cassette
    is in the library already is not put there again.

    \b
    Examples:
      llm-proxy recover
      llm-proxy recover --cassettes tests/cassettes
      llm-proxy recover && llm-proxy ls --partial

    A spool that cannot be read is kept and named, and makes the exit code 1.
    """
    folder = spool or default_spool(os.environ)
    counts: Counter[type[Result]] = Counter()
    partial = 0
    others: Counter[Path] = Counter()
    for result in recovery.recover_spools(Library(cassettes), folder):
        counts[type(result)] += 1  # the results themselves hold whole cassettes
        match result:
            case RecoveredRecording() | DeletedFile():
                partial += (
                    isinstance(result, RecoveredRecording) and not result.filed.outcome.complete
                )
                print_lines([_result_line(result)])
            case KeptFile(reason=why):
                print_note(why)
            case ForeignSpool(library=library):
                others[library] += 1
    if counts.total() == others.total():
        print_note(f"nothing to recover for {cassettes}: no recording was broken off ({folder})")
    _print_summary(counts[RecoveredRecording], partial, others)
    raise click.exceptions.Exit(1 if counts[KeptFile] else 0)


def _result_line(recovered_recording: RecoveredRecording | DeletedFile) -> Line:
    match recovered_recording:
        case RecoveredRecording(filed=filed):
            cassette = filed.cassette
            count = display.count_noun(len(cassette.messages), "message")
            size = f"{cassette.end.size:,} bytes"
            return styled_line(
                f"recovered {display.escape_path(filed.path)}: {count}, {size}, ",
                styled_outcome(filed.outcome),
            )
        case DeletedFile(path, why):
            return styled_line(StyledText(f"deleted {display.escape_path(path)}: {why}", "dim"))


def _print_summary(recovered: int, partial: int, others: Counter[Path]) -> None:
    if recovered:
        advice = "; replay --allow-partial plays them, record replaces them"
        print_note(
            f"{display.count_noun(recovered, 'recording')} recovered, {partial} of them partial"
            f"{advice if partial else ''}"
        )
    for library, count in sorted(others.items()):
        print_note(
            f"{display.count_noun(count, 'recording')} of another library: "
            f"llm-proxy recover --cassettes {display.shell_word(library)}"
        )
