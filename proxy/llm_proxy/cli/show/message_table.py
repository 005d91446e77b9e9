"""Renders the messages of a cassette as a table: arrival, contribution, content.

#   at ms  gap ms                adds      message
1   38.78   38.78 ████████████   "G"       data: {"choices":[...
2   45.54    6.76 ██             "reet"    data: {"choices":[...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy import display, timeline
from llm_proxy.cassette import Cassette
from llm_proxy.cli.output.printing import Line, StyledText, styled_line
from llm_proxy.cli.show.turn_text import stream_message_contribution
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.timeline import MessageArrival

_SHOWN_AT_START: Final = 20
_SHOWN_AT_END: Final = 5
"""How many messages of a long stream are shown, from its beginning and from its end."""
_BAR_COLUMNS: Final = 10
_CONTRIBUTION_COLUMNS: Final = 20
"""Width of the bar, and of what a message adds to the response."""
_MIN_MESSAGE_COLUMNS: Final = 20
"""Minimum width of the message column."""


_FRAME_TYPE_HEADERS: Final = (":event-type", ":exception-type", ":error-code", ":error-message")
"""Headers with the type of a frame: an event, an exception, or an error without a payload."""


@dataclass(frozen=True, slots=True)
class CassetteLayout:
    """How `show` lays out a cassette: width, truncation and character set."""

    width_columns: int
    """Width of the output."""
    show_all: bool = False
    """Whether nothing is truncated or left out."""
    ascii_only: bool = False


def message_table_lines(cassette: Cassette, layout: CassetteLayout) -> Iterator[Line]:
    """The table as lines; none where there are no messages."""
    arrivals = timeline.message_arrivals(cassette.framed_messages, cassette.reads)
    if not arrivals:
        return
    shown = _shown_arrivals(arrivals, layout)
    contributions = _stream_message_contributions(cassette, shown)
    columns = _MessageRowFormatter(
        max(arrival.gap_ms for arrival in arrivals), any(contributions), layout
    )
    render_message = _MESSAGE_RENDERERS.get(cassette.codec_name, _raw_message_text)
    yield columns.title_line()
    before = 0
    for arrival, contribution in zip(shown, contributions, strict=True):
        if missing := arrival.number - before - 1:
            more = display.count_with_noun(missing, "more message")
            yield styled_line(StyledText(f"{'…':>6} {more}: --full shows all", "dim"))
        yield columns.message_line(arrival, contribution, render_message(arrival.message_bytes))
        before = arrival.number


def _shown_arrivals(
    arrivals: Sequence[MessageArrival], layout: CassetteLayout
) -> Sequence[MessageArrival]:
    if layout.show_all or len(arrivals) <= _SHOWN_AT_START + _SHOWN_AT_END + 1:
        return arrivals
    return [*arrivals[:_SHOWN_AT_START], *arrivals[-_SHOWN_AT_END:]]


def _stream_message_contributions(cassette: Cassette, shown: Sequence[MessageArrival]) -> list[str]:
    """What each message adds to the response; empty for a single message."""
    if len(cassette.framed_messages) == 1:
        return [""]
    return [
        display.escape_line(stream_message_contribution(cassette, arrival.message_bytes))
        for arrival in shown
    ]


def _raw_message_text(message: bytes) -> str:
    return message.decode("utf-8", "backslashreplace")


def _frame_text(message: bytes) -> str:
    """Type and payload of an AWS event-stream frame; the text of a message that is no frame."""
    frame = parse_frame(message)
    if frame is None:
        return _raw_message_text(message)
    return " ".join(
        filter(None, (*map(frame.header, _FRAME_TYPE_HEADERS), _raw_message_text(frame.payload)))
    )


_MESSAGE_RENDERERS: Final[Mapping[str, Callable[[bytes], str]]] = {"eventstream": _frame_text}
"""Functions that render the messages of codecs whose messages are not text."""


@dataclass(frozen=True, slots=True)
class _MessageRowFormatter:
    """Formats messages as rows of the table."""

    longest_gap_ms: float
    """The gap that fills the whole bar."""
    has_contributions: bool
    """Whether the table has a column for what messages add."""
    layout: CassetteLayout

    def title_line(self) -> Line:
        """The line above the rows."""
        adds = f"{'adds':{_CONTRIBUTION_COLUMNS}} " if self.has_contributions else ""
        text = f"{'#':>6} {'at ms':>10} {'gap ms':>9} {'':{_BAR_COLUMNS}} {adds}message"
        return styled_line(StyledText(text, "bold"))

    def message_line(self, arrival: MessageArrival, contribution: str, text: str) -> Line:
        """The row of a message; `text` is its content as it is shown."""
        figures = f"{arrival.number:>6} {arrival.at_ms:>10.2f} {arrival.gap_ms:>9.2f} "
        bar = timeline.render_bar(
            arrival.gap_ms, self.longest_gap_ms, _BAR_COLUMNS, ascii_only=self.layout.ascii_only
        )
        adds = (
            display.pad_to_width(
                display.truncate_to_width(contribution, _CONTRIBUTION_COLUMNS),
                _CONTRIBUTION_COLUMNS,
            )
            + " "
            if self.has_contributions
            else ""
        )
        taken = (
            len(figures)
            + _BAR_COLUMNS
            + 1
            + (_CONTRIBUTION_COLUMNS + 1 if self.has_contributions else 0)
        )
        message = display.escape_line(text)
        if not self.layout.show_all:
            message = display.truncate_to_width(
                message, max(_MIN_MESSAGE_COLUMNS, self.layout.width_columns - taken)
            )
        return styled_line(
            figures, StyledText(f"{bar:{_BAR_COLUMNS}} ", "bar"), adds, StyledText(message, "dim")
        )
