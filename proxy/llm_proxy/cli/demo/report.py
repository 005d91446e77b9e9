"""Renders the demo's report: two timelines, a table, the cassette and the verdict."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from llm_proxy import display, framing, timeline
from llm_proxy.exchange import Read
from llm_proxy.framing.sse import parse_event
from llm_proxy.outcome import cassette_outcome

if TYPE_CHECKING:
    from llm_proxy.shell.demo.run import DemoResult

TITLE: Final = "llm-proxy demo: a stream recorded, its provider stopped, the recording played back"
INDENT: Final = 11
"""Width of the labels."""

LabelledText = tuple[str, str]
"""A label, often empty, and a line of text."""

_SHOWN_LINES: Final = slice(4, 6)
"""The lines of the cassette that are shown before its last."""
_SHOWN_HASH_DIGITS: Final = 12
"""Hex digits of a checksum that are shown."""
_BUSY_ERROR_MS: Final = 20.0
"""A larger timing error, in ms, occurs only on a machine that is busy with other things."""


class ChatTextReader:
    """Incremental decoder: the text of an OpenAI chat stream, as its bytes arrive."""

    def __init__(self) -> None:
        self._codec = framing.new_codec("sse")

    def feed(self, data: bytes) -> Iterator[str]:
        """The pieces of text that these bytes complete."""
        for message in self._codec.feed(data):
            event = parse_event(message).data or b""
            if event.startswith(b"{"):
                for choice in orjson.loads(event)["choices"]:
                    yield choice["delta"].get("content", "")


def comparison_lines(demo: DemoResult, width: int, *, ascii_only: bool) -> list[LabelledText]:
    """The timelines of the recording and the replay, and a table of their figures."""
    recorded, replayed = demo.cassette.reads, demo.replayed_response.reads
    end_ms = max(read.at_ms for read in (*recorded, *replayed))
    header = ("first", "last", "median gap", "reads", "bytes", "sha256")
    return [
        ("timeline", _axis_line(end_ms, width)),
        ("recorded", timeline.render_sparkline(recorded, end_ms, width, ascii_only=ascii_only)),
        ("replayed", timeline.render_sparkline(replayed, end_ms, width, ascii_only=ascii_only)),
        ("", ""),
        ("", _align_columns(header)),
        ("recorded", _timing_row(recorded)),
        ("replayed", _timing_row(replayed)),
        ("", _timing_error_text(recorded, replayed)),
    ]


def cassette_lines(demo: DemoResult, width: int, keep: Path | None) -> list[LabelledText]:
    """The path of the cassette, and some of its lines; `keep` None means it was temporary."""
    lines = demo.cassette_file_content.decode("utf-8", "replace").splitlines()
    size = f"{len(lines)} lines, {len(demo.cassette_file_content) / 1024:.0f} KB"
    if keep is None:
        text = f"{size}; gone with its temporary folder (--keep DIR keeps it)"
    else:
        text = f"{size}; kept"
    place = str((keep or Path("cassettes")) / demo.cassette_relative_path)
    shown = ["…", *lines[_SHOWN_LINES], "…", lines[-1]]
    return [
        ("cassette", place),
        ("", text),
        *(("", display.truncate_to_width(line, width)) for line in shown),
    ]


def find_differences(demo: DemoResult) -> list[str]:
    """The checks that failed, as sentences; empty where the replay is exact."""
    kept = demo.cassette
    checks = {
        f"the cassette is {cassette_outcome(kept)}": cassette_outcome(kept).is_complete,
        "the recording passed other bytes on than the provider sent": demo.live_response.body
        == demo.provider_response_body,
        "the cassette holds other bytes than the provider sent": kept.response_body
        == demo.provider_response_body,
        "the replay has another status": demo.replayed_response.status
        == demo.live_response.status
        == 200,
        "the replay has other bytes than were recorded": demo.replayed_response.body
        == kept.response_body,
        "the replay is cut into other reads": _sizes_of_reads(demo.replayed_response.reads)
        == _sizes_of_reads(kept.reads),
    }
    return [label for label, fine in checks.items() if not fine]


def result_lines(demo: DemoResult, differences: Sequence[str]) -> list[LabelledText]:
    """One row if the replay is equal, else a row for each difference."""
    if differences:
        return [("DIFFERENT", difference) for difference in differences]
    size, reads = len(demo.provider_response_body), len(demo.cassette.reads)
    checksum = _short_sha256(demo.provider_response_body)
    return [("equal", f"all {size:,} bytes (sha256 {checksum}), in the same {reads} reads")]


def next_step_lines(demo: DemoResult, keep: Path | None) -> list[LabelledText]:
    """Commands to run next."""
    steps = [
        ("llm-proxy record -- python app.py", "keep what your provider answers"),
        ("llm-proxy ls", "see what was kept"),
        ("llm-proxy replay -- python app.py", "the same answers: no key, no network"),
    ]
    if keep is not None:
        steps[1] = (
            f"llm-proxy show {display.shell_quoted_path(keep / demo.cassette_relative_path)}",
            "see what was kept",
        )
    width = max(len(command) for command, _ in steps) + 2
    lines = [f"{command:<{width}}{label}" for command, label in steps]
    return [("next", lines[0]), *(("", line) for line in lines[1:])]


def _axis_line(end_ms: float, width: int) -> str:
    """A scale from 0 to `end` ms."""
    marks = ("0", f"{end_ms / 2000:.1f} s", f"{end_ms / 1000:.1f} s")
    half = width // 2
    return f"{marks[0]:<{half}}{marks[1]:<{width - half - len(marks[2])}}{marks[2]}"


def _timing_row(reads: Sequence[Read]) -> str:
    gaps = [after.at_ms - before.at_ms for before, after in pairwise(reads)]
    body = b"".join(read.received_bytes for read in reads)
    return _align_columns(
        (
            f"{reads[0].at_ms:.1f} ms",
            f"{reads[-1].at_ms:.1f} ms",
            f"{statistics.median(gaps):.1f} ms",
            f"{len(reads)}",
            f"{len(body):,}",
            _short_sha256(body),
        )
    )


def _align_columns(cells: tuple[str, ...]) -> str:
    first, last, gap, reads, size, checksum = cells
    return f"{first:>9}{last:>11}{gap:>12}{reads:>7}{size:>8}   {checksum}"


def _timing_error_text(recorded: Sequence[Read], replayed: Sequence[Read]) -> str:
    errors = [abs(one.at_ms - other.at_ms) for one, other in zip(recorded, replayed, strict=False)]
    busy = "; this machine is busy" if max(errors) > _BUSY_ERROR_MS else ""
    return (
        f"largest error of any read {max(errors):.1f} ms, "
        f"median {statistics.median(errors):.1f} ms{busy}"
    )


def _sizes_of_reads(reads: Sequence[Read]) -> list[int]:
    return [len(read.received_bytes) for read in reads]


def _short_sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_SHOWN_HASH_DIGITS]
