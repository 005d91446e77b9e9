"""`recover`: makes cassettes of recordings that a crash interrupted."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click

from llm_proxy.cli.options import (
    CONFIG_OPTION,
    cassettes_option,
    shared_library_option,
    spool_option,
)
from llm_proxy.cli.output import StyledText, print_lines, print_note, styled_outcome
from llm_proxy.display import (
    count_with_noun,
    folder_name,
    path_as_unicode_text,
    shell_quoted_path,
)
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.recovery import (
    DeletedFile,
    ForeignSpool,
    KeptFile,
    RecoveredRecording,
)
from llm_proxy.shell.running.settings import default_spool_folder


@click.command
@cassettes_option
@shared_library_option
@spool_option
@CONFIG_OPTION
def recover(cassettes: Path, *, shared_library: bool, spool: Path | None) -> None:
    r"""Make cassettes from recordings interrupted by a crash or a full disk.

    While llm-proxy records a response, it stores the data in a spool file outside the library. If
    llm-proxy is killed or cannot write to the library, the spool remains. This command converts
    each spool to a cassette with all received bytes. If the recording was interrupted before the
    response ended, the ending in the cassette is "killed". Recordings in progress and existing
    takes are not changed. Recordings that are already in the library are not added again.

    \b
    Examples:
      llm-proxy recover
      llm-proxy recover --cassettes tests/cassettes
      llm-proxy recover && llm-proxy ls --partial

    If a spool is unreadable, the command keeps the spool, prints an error and exits with 1.
    """
    folder = spool or default_spool_folder(os.environ)
    result_count = recovered_count = partial_count = kept_count = 0
    other_library_counts: Counter[Path] = Counter()
    target = Library(cassettes, is_shared=shared_library)
    # The results themselves hold whole cassettes: only counts are kept of them.
    for result in recovery.recover_spools(target, folder, environment_secret_spellings(os.environ)):
        result_count += 1
        match result:
            case RecoveredRecording(filed_cassette=filed):
                recovered_count += 1
                partial_count += not filed.outcome.is_complete
                messages = count_with_noun(len(filed.cassette.framed_messages), "message")
                size = f"{filed.cassette.response_end.size_bytes:,} bytes"
                recovered = f"recovered {path_as_unicode_text(filed.path)}: {messages}, {size}, "
                print_lines([(recovered, styled_outcome(filed.outcome))])
            case DeletedFile(path, why):
                text = f"deleted {path_as_unicode_text(path)}: {why}"
                print_lines([StyledText(text, "dim")])
            case KeptFile(reason=why):
                kept_count += 1
                print_note(why)
            case ForeignSpool(library_folder=library):
                other_library_counts[library] += 1
    if result_count == other_library_counts.total():
        print_note(
            f"no interrupted recordings for {folder_name(cassettes)} in {folder_name(folder)}"
        )
    if recovered_count:
        advice = "; replay partial cassettes with --allow-partial, or record them again"
        print_note(
            f"{count_with_noun(recovered_count, 'recording')} recovered, {partial_count:,} partial"
            f"{advice if partial_count else ''}"
        )
    for library, count in sorted(other_library_counts.items()):
        print_note(
            f"{count_with_noun(count, 'interrupted recording')} of another library; run "
            f"llm-proxy recover --cassettes {shell_quoted_path(library)}"
            f"{f' --spool {shell_quoted_path(spool)}' if spool else ''}"
        )
    raise click.exceptions.Exit(1 if kept_count else 0)
