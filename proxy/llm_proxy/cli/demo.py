"""`demo`: records a stream, stops its provider, replays the recording, and compares the two."""

from __future__ import annotations

import hashlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import orjson

from llm_proxy import display, timeline
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.output import StyledText, is_stdout_ascii_only, print_lines, terminal_columns
from llm_proxy.errors import UsageError
from llm_proxy.framing.sse import parse_event
from llm_proxy.shell.private_files import make_private_folder

if TYPE_CHECKING:
    from llm_proxy.shell.demo import DemoResult, Reads

_MAX_COLUMNS: Final = 100
"""Width of the output on a wide terminal."""
_INDENT: Final = 11
"""Width of the labels."""
_LINE_START: Final = " " * _INDENT + "| "


@click.command
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Record into this folder and keep the cassette.",
)
def demo(keep: Path | None) -> None:
    r"""Record a stream, stop the provider, replay the stream, and compare the two.

    The demo needs no API key and no network, because it starts a small provider on 127.0.0.1.
    Without --keep, the demo deletes its files when it ends. The exit code is 0 if the replay
    contains the same bytes in the same reads as the recording, and 1 otherwise.

    \b
    Examples:
      llm-proxy demo
      llm-proxy demo --keep cassettes     then: llm-proxy show, llm-proxy replay
    """
    if keep is not None:
        try:
            make_private_folder(keep)
        except FileExistsError:
            raise UsageError(f"--keep: {keep} is not a folder") from None
        except OSError as error:
            raise UsageError(f"--keep: cannot create {keep}: {error.strerror}") from None
    print_lines(["llm-proxy demo: record a stream, replay it, and compare the timing"])

    async def play() -> DemoResult:
        from llm_proxy.shell.demo import run_demo  # noqa: PLC0415 # it imports the server, which is slow

        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as folder:
            return await run_demo(
                keep or Path(folder, "cassettes"),
                Path(folder, "spool"),
                show_step=lambda name, text: _print_rows((name, text)),
                show_message=_print_text,
            )

    result = run_until_signal(play())
    differences = [("DIFFERENT", text) for text in find_differences(result)]
    equal = ("equal", "the replay contains the same bytes in the same reads as the recording")
    _print_rows(*comparison_rows(result))
    _print_rows(*differences or [equal])
    show_command = f"llm-proxy show {display.shell_quoted_path(result.cassette_path)}"
    deleted = "deleted; run llm-proxy demo --keep DIR to keep it"
    _print_rows(("cassette", deleted if keep is None else show_command))
    _print_rows(
        ("next", "llm-proxy record -- python app.py  record the responses of your provider"),
        ("", "llm-proxy ls                       list the recordings"),
        ("", "llm-proxy replay -- python app.py  replay them without a key or network access"),
    )
    raise click.exceptions.Exit(1 if differences else 0)


def _print_text(message: bytes) -> None:
    """Print the text of one event; characters that stdout cannot encode become `?`."""
    event = parse_event(message).data or b""
    for choice in orjson.loads(event)["choices"] if event.startswith(b"{") else ():
        begin = _LINE_START if "role" in choice["delta"] else ""
        end = "\n" if choice["finish_reason"] else ""
        text = choice["delta"].get("content", "").replace("\n", f"\n{_LINE_START}")
        text = f"{begin}{text}{end}"
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _print_rows(*rows: tuple[str, str]) -> None:
    """Print an empty line, then rows of a label, often empty, and a text."""
    print_lines(["", *((StyledText(f"{name:<{_INDENT}}", "bold"), text) for name, text in rows)])


def comparison_rows(result: DemoResult) -> list[tuple[str, str]]:
    """The timelines of the recording and the replay, then the figures of both."""
    both = {"recorded": result.cassette.reads, "replayed": result.replayed_reads}
    columns = min(terminal_columns(), _MAX_COLUMNS) - _INDENT
    ascii_only = is_stdout_ascii_only()
    end_ms = max(reads[-1].at_ms for reads in both.values())
    end = f"{end_ms / 1000:.1f} s"
    errors_ms = [abs(one.at_ms - other.at_ms) for one, other in zip(*both.values(), strict=False)]
    largest_ms, median_ms = max(errors_ms), statistics.median(errors_ms)
    return [
        ("timeline", f"0{end:>{columns - 1}}"),
        *(
            (name, timeline.render_sparkline(reads, end_ms, columns, ascii_only=ascii_only))
            for name, reads in both.items()
        ),
        ("", ""),
        *((name, _figures(reads)) for name, reads in both.items()),
        ("", f"difference in read times: largest {largest_ms:.1f} ms, median {median_ms:.1f} ms"),
    ]


def _figures(reads: Reads) -> str:
    body = b"".join(_pieces(reads))
    times = f"{reads[0].at_ms:.1f} to {reads[-1].at_ms:.1f} ms"
    checksum = hashlib.sha256(body).hexdigest()[:12]
    return f"{len(reads)} reads from {times}, {len(body):,} bytes, sha256 {checksum}"


def _pieces(reads: Reads) -> list[bytes]:
    return [read.received_bytes for read in reads]


def find_differences(result: DemoResult) -> list[str]:
    """The checks that failed, as sentences; empty if the replay is exact."""
    outcome = cassette_outcome(result.cassette)
    sent_body, stored_body = result.provider_body, result.cassette.response_body
    recorded, replayed = _pieces(result.cassette.reads), _pieces(result.replayed_reads)
    checks = {
        f"the cassette is {outcome}": outcome.is_complete,
        "the client received different bytes than the provider sent": (
            result.live_body == sent_body
        ),
        "the cassette stores different bytes than the provider sent": stored_body == sent_body,
        "the bytes of the replay differ from the cassette": b"".join(replayed) == stored_body,
        "the reads of the replay differ from the cassette": replayed == recorded,
    }
    return [difference for difference, is_equal in checks.items() if not is_equal]
