"""`recover`: makes cassettes of recordings that a crash interrupted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from llm_proxy import display
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, spool_option
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
    RecoveryResult,
)
from llm_proxy.shell.running.settings import default_spool_folder


@click.command
@cassettes_option
@spool_option
@CONFIG_OPTION
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
    folder = spool or default_spool_folder(os.environ)
    counts: Counter[type[RecoveryResult]] = Counter()
    partial_count = 0
    other_library_counts: Counter[Path] = Counter()
    for result in recovery.recover_spools(Library(cassettes), folder):
        counts[type(result)] += 1  # the results themselves hold whole cassettes
        match result:
            case RecoveredRecording() | DeletedFile():
                partial_count += (
                    isinstance(result, RecoveredRecording)
                    and not result.filed_cassette.outcome.is_complete
                )
                print_lines([_result_line(result)])
            case KeptFile(reason=why):
                print_note(why)
            case ForeignSpool(library_folder=library):
                other_library_counts[library] += 1
    if counts.total() == other_library_counts.total():
        print_note(f"nothing to recover for {cassettes}: no recording was broken off ({folder})")
    _print_summary(counts[RecoveredRecording], partial_count, other_library_counts)
    raise click.exceptions.Exit(1 if counts[KeptFile] else 0)


def _result_line(result: RecoveredRecording | DeletedFile) -> Line:
    match result:
        case RecoveredRecording(filed_cassette=filed):
            cassette = filed.cassette
            count = display.count_with_noun(len(cassette.framed_messages), "message")
            size = f"{cassette.response_end.size_bytes:,} bytes"
            return styled_line(
                f"recovered {display.path_as_unicode_text(filed.path)}: {count}, {size}, ",
                styled_outcome(filed.outcome),
            )
        case DeletedFile(path, why):
            return styled_line(
                StyledText(f"deleted {display.path_as_unicode_text(path)}: {why}", "dim")
            )


def _print_summary(
    recovered_count: int, partial_count: int, other_library_counts: Counter[Path]
) -> None:
    if recovered_count:
        advice = "; replay --allow-partial plays them, record replaces them"
        print_note(
            f"{display.count_with_noun(recovered_count, 'recording')} recovered, {partial_count} "
            "of them partial"
            f"{advice if partial_count else ''}"
        )
    for library, count in sorted(other_library_counts.items()):
        print_note(
            f"{display.count_with_noun(count, 'recording')} of another library: "
            f"llm-proxy recover --cassettes {display.shell_quoted_path(library)}"
        )
