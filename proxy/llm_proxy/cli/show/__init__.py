"""`show`: prints one cassette: request, response, timeline and messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.output.json_documents import cassette_document
from llm_proxy.cli.output.printing import (
    Line,
    is_stdout_ascii_only,
    print_json,
    print_lines,
    terminal_columns,
    write_terminal_safe_bytes,
)
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.cli.show.message_table import CassetteLayout
from llm_proxy.cli.show.review import review_lines, unreadable_file_lines
from llm_proxy.cli.show.summary import cassette_lines, raw_message_lines
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.shell.library.library import Library


@click.command
@click.argument("cassette")
@cassettes_option
@CONFIG_OPTION
@click.option("--full", is_flag=True, help="Show every message and every text uncut.")
@click.option("--messages", "only_messages", is_flag=True, help="Only the raw messages, uncut.")
@click.option("--body", is_flag=True, help="Write the stored body to stdout, byte for byte.")
@click.option("--review", is_flag=True, help="What a reviewer compares, without times: for git.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON document.")
def show(cassette: str, cassettes: Path, *, full: bool, **forms: bool) -> None:
    r"""Show one cassette: what was asked and said, and when each byte came.

    CASSETTE is a file, or the beginning of its name in the library, or of its key. A message
    has arrived when its last byte has; its gap is the time since the one before. Control
    characters in what was recorded are shown as escapes such as \x1b.

    \b
    Examples:
      llm-proxy show dc8593
      llm-proxy show cassettes/openai-chat/gpt-5/dc8593ff1ee7bb84-1.jsonl --full
      llm-proxy show dc8593 --body | sha256sum
      llm-proxy show dc8593 --json | jq .turns
      git config diff.llm-proxy.textconv 'llm-proxy show --review'
    """
    if sum(forms.values()) > 1:
        raise UsageError(
            "--messages, --body, --review and --json exclude each other: give one of them"
        )
    library = Library(cassettes)
    path = find_cassette_path(library, cassette)
    if forms["review"]:
        print_lines(_review_lines(library, path))
        return
    loaded = library.load_cassette(path)
    if forms["as_json"]:
        print_json(cassette_document(loaded))
    elif forms["body"]:
        write_terminal_safe_bytes(loaded.response_body, "--body")
    elif forms["only_messages"]:
        print_lines(raw_message_lines(loaded))
    else:
        print_lines(
            cassette_lines(
                loaded,
                CassetteLayout(
                    terminal_columns(), show_all=full, ascii_only=is_stdout_ascii_only()
                ),
            )
        )


def _review_lines(library: Library, path: Path) -> Iterator[Line]:
    """A file as text for review; also an unreadable one, as git aborts a diff if textconv fails."""
    try:
        yield from review_lines(library.load_cassette(path))
    except CassetteError as error:
        yield from unreadable_file_lines(error, path.read_bytes())
