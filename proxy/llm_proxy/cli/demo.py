"""`demo`: records a stream, stops its provider, replays the recording, and compares the two."""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import orjson

from llm_proxy import display, framing, timeline
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.output import StyledText, is_stdout_ascii_only, print_lines, terminal_columns
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Read
from llm_proxy.framing.sse import parse_event

if TYPE_CHECKING:
    from llm_proxy.shell.demo import DemoResult

_MAX_COLUMNS: Final = 100
"""Width of the output on a wide terminal."""
_INDENT: Final = 11
"""Width of the labels."""
_QUOTE_PREFIX: Final = "| "
_SHOWN_LINES: Final = slice(4, 6)
"""The lines of the cassette that are shown before its last."""
_BUSY_ERROR_MS: Final = 20.0
"""A larger timing error, in ms, occurs only on a machine that is busy with other things."""

_FIGURES: Final = "{:>9}{:>11}{:>12}{:>7}{:>8}   {}"
"""A row of the figures: times of the first and last read, median gap, reads, bytes, checksum."""

LabelledText = tuple[str, str]
"""A label, often empty, and a line of text."""


@click.command
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Record into this folder, and leave the cassette there.",
)
def demo(keep: Path | None) -> None:
    r"""Record a stream, stop its provider, replay the recording; then compare the two.

    It needs no key and no network: a small provider of its own streams on loopback. Everything
    it writes lies in a temporary folder that is gone afterwards. The exit code is 0 when the
    replay gave the recorded bytes in the recorded pieces, and 1 when anything differs.

    \b
    Examples:
      llm-proxy demo
      llm-proxy demo --keep cassettes     then: llm-proxy show, llm-proxy replay
    """
    if keep is not None:
        if keep.exists() and not keep.is_dir():
            raise UsageError(f"--keep: {str(keep)!r} is a file: give a folder")
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--keep {keep} cannot be made: {error.strerror}") from None
    print_lines(
        ["llm-proxy demo: a stream recorded, its provider stopped, the recording played back"]
    )
    screen = _Screen()

    async def play() -> DemoResult:
        from llm_proxy.shell import demo as stage  # noqa: PLC0415 # it imports the server, which is slow

        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as temporary:
            folder = Path(temporary)
            return await stage.run_demo(
                keep or folder / "cassettes",
                folder / "spool",
                on_step=lambda name, text: screen.show_lines([(name, text)]),
                on_chunk_received=screen.show_received,
            )

    result = run_until_signal(play())
    differences = find_differences(result)
    for rows in (
        comparison_lines(result, screen.text_columns, ascii_only=is_stdout_ascii_only()),
        cassette_lines(result, screen.text_columns, keep),
        result_lines(result, differences),
        _next_step_lines(result, keep),
    ):
        screen.show_lines(rows)
    raise click.exceptions.Exit(1 if differences else 0)


class _Screen:
    """Prints labelled lines, and streamed text word by word as it arrives."""

    def __init__(self) -> None:
        self.text_columns = min(terminal_columns(), _MAX_COLUMNS) - _INDENT
        self._codec = framing.new_codec("sse")
        self._column = 0
        """Width of the streamed text on the current line; 0 at the beginning of a line."""

    def show_lines(self, rows: Sequence[LabelledText]) -> None:
        """Print an empty line, then these rows."""
        if self._column:
            click.echo()
        self._column = 0
        print_lines(
            ["", *((StyledText(f"{name:<{_INDENT}}", "bold"), text) for name, text in rows)]
        )

    def show_received(self, read: Read) -> None:
        """Print the chat text in bytes that the client received, wrapped at word boundaries."""
        for message in self._codec.feed(read.received_bytes):
            event = parse_event(message).data or b""
            if event.startswith(b"{"):
                for choice in orjson.loads(event)["choices"]:
                    self._show_word(choice["delta"].get("content", ""))

    def _show_word(self, word: str) -> None:
        line_break = ""
        if self._column and self._column + display.display_width(word) > self.text_columns:
            line_break, self._column = "\n", 0
        if self._column == 0 and word:
            line_break += " " * _INDENT + _QUOTE_PREFIX
            self._column = len(_QUOTE_PREFIX)
            word = word.lstrip()
        self._column += display.display_width(word)
        encoding = sys.stdout.encoding or "ascii"
        click.echo((line_break + word).encode(encoding, "replace").decode(encoding), nl=False)


def comparison_lines(result: DemoResult, width: int, *, ascii_only: bool) -> list[LabelledText]:
    """The timelines of the recording and the replay, and a table of their figures."""
    both = {"recorded": result.cassette.reads, "replayed": result.replayed_response.reads}
    end_ms = max(read.at_ms for reads in both.values() for read in reads)
    middle, end = f"{end_ms / 2000:.1f} s", f"{end_ms / 1000:.1f} s"
    errors = [abs(one.at_ms - other.at_ms) for one, other in zip(*both.values(), strict=False)]
    median = statistics.median(errors)
    busy = "; this machine is busy" if max(errors) > _BUSY_ERROR_MS else ""
    return [
        ("timeline", f"{'0':<{width // 2}}{middle:<{width - width // 2 - len(end)}}{end}"),
        *(
            (name, timeline.render_sparkline(reads, end_ms, width, ascii_only=ascii_only))
            for name, reads in both.items()
        ),
        ("", ""),
        ("", _FIGURES.format("first", "last", "median gap", "reads", "bytes", "sha256")),
        *((name, _figures_row(reads)) for name, reads in both.items()),
        ("", f"largest error of any read {max(errors):.1f} ms, median {median:.1f} ms{busy}"),
    ]


def _figures_row(reads: Sequence[Read]) -> str:
    gap_ms = statistics.median(after.at_ms - before.at_ms for before, after in pairwise(reads))
    times_ms = (reads[0].at_ms, reads[-1].at_ms, gap_ms)
    body = b"".join(read.received_bytes for read in reads)
    return _FIGURES.format(
        *(f"{ms:.1f} ms" for ms in times_ms), len(reads), f"{len(body):,}", _short_sha256(body)
    )


def _short_sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:12]


def cassette_lines(result: DemoResult, width: int, keep: Path | None) -> list[LabelledText]:
    """The path of the cassette, and some of its lines; `keep` None means it was temporary."""
    content = result.cassette_file_content
    lines = content.decode("utf-8", "replace").splitlines()
    fate = "gone with its temporary folder (--keep DIR keeps it)" if keep is None else "kept"
    return [
        ("cassette", str((keep or Path("cassettes")) / result.cassette_relative_path)),
        ("", f"{len(lines)} lines, {len(content) / 1024:.0f} KB; {fate}"),
        *(
            ("", display.truncate_to_width(line, width))
            for line in ("…", *lines[_SHOWN_LINES], "…", lines[-1])
        ),
    ]


def find_differences(result: DemoResult) -> list[str]:
    """The checks that failed, as sentences; empty where the replay is exact."""
    cassette, sent_body = result.cassette, result.provider_response_body
    live, replayed = result.live_response, result.replayed_response
    outcome = cassette_outcome(cassette)
    recorded_sizes, replayed_sizes = (
        [len(read.received_bytes) for read in reads] for reads in (cassette.reads, replayed.reads)
    )
    checks = {
        f"the cassette is {outcome}": outcome.is_complete,
        "the recording passed other bytes on than the provider sent": live.body == sent_body,
        "the cassette holds other bytes than the provider sent": cassette.response_body
        == sent_body,
        "the replay has another status": replayed.status == live.status == 200,
        "the replay has other bytes than were recorded": replayed.body == cassette.response_body,
        "the replay is cut into other reads": replayed_sizes == recorded_sizes,
    }
    return [label for label, fine in checks.items() if not fine]


def result_lines(result: DemoResult, differences: Sequence[str]) -> list[LabelledText]:
    """One row if the replay is equal, else a row for each difference."""
    if differences:
        return [("DIFFERENT", difference) for difference in differences]
    body = result.provider_response_body
    count = f"all {len(body):,} bytes (sha256 {_short_sha256(body)})"
    return [("equal", f"{count}, in the same {len(result.cassette.reads)} reads")]


def _next_step_lines(result: DemoResult, keep: Path | None) -> list[LabelledText]:
    shown = "ls"
    if keep is not None:
        shown = f"show {display.shell_quoted_path(keep / result.cassette_relative_path)}"
    steps = {
        "llm-proxy record -- python app.py": "keep what your provider answers",
        f"llm-proxy {shown}": "see what was kept",
        "llm-proxy replay -- python app.py": "the same answers: no key, no network",
    }
    width = max(map(len, steps)) + 2
    first, *others = (f"{command:<{width}}{text}" for command, text in steps.items())
    return [("next", first), *(("", line) for line in others)]
