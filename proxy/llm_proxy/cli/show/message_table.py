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
from llm_proxy.cli.show.turn_text import message_contribution
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.timeline import MessageArrival

_FIRST: Final = 20
_LAST: Final = 5
"""Messages of a long stream that are shown, from its beginning and from its end."""
_BAR: Final = 10
_ADDS: Final = 20
"""Columns of the bar, and of what a message adds."""
_LEAST: Final = 20
"""Columns of a message that are shown at least."""


_TYPES: Final = (":event-type", ":exception-type", ":error-code", ":error-message")
"""Headers that say what a frame is: an event, an exception, or an error without a payload."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a cassette is drawn."""

    width: int
    """Columns."""
    full: bool = False
    """Whether everything is shown, however long."""
    ascii_only: bool = False


def message_table(cassette: Cassette, layout: TableLayout) -> Iterator[Line]:
    """The table; nothing where there are no messages."""
    arrivals = timeline.message_arrivals(cassette.messages, cassette.reads)
    if not arrivals:
        return
    shown = _shown_arrivals(arrivals, layout)
    additions = _message_contributions(cassette, shown)
    columns = _MessageColumns(max(arrival.gap_ms for arrival in arrivals), any(additions), layout)
    shows = _SHOWN.get(cassette.codec, _message_text)
    yield columns.title_line()
    before = 0
    for arrival, addition in zip(shown, additions, strict=True):
        if missing := arrival.number - before - 1:
            more = display.count_noun(missing, "more message")
            yield styled_line(StyledText(f"{'…':>6} {more}: --full shows all", "dim"))
        yield columns.message_row(arrival, addition, shows(arrival.message))
        before = arrival.number


def _shown_arrivals(
    arrivals: Sequence[MessageArrival], layout: TableLayout
) -> Sequence[MessageArrival]:
    if layout.full or len(arrivals) <= _FIRST + _LAST + 1:
        return arrivals
    return [*arrivals[:_FIRST], *arrivals[-_LAST:]]


def _message_contributions(cassette: Cassette, shown: Sequence[MessageArrival]) -> list[str]:
    """What each message added; nothing where there is one message, which says it all."""
    if len(cassette.messages) == 1:
        return [""]
    return [
        display.escape_line(message_contribution(cassette, arrival.message)) for arrival in shown
    ]


def _message_text(message: bytes) -> str:
    return message.decode("utf-8", "backslashreplace")


def _frame_text(message: bytes) -> str:
    """A frame of an AWS event stream as its type and its payload; as text where it is none."""
    frame = parse_frame(message)
    if frame is None:
        return _message_text(message)
    return " ".join(filter(None, (*map(frame.header, _TYPES), _message_text(frame.payload))))


_SHOWN: Final[Mapping[str, Callable[[bytes], str]]] = {"eventstream": _frame_text}
"""How the messages of a codec are shown that are no text."""


@dataclass(frozen=True, slots=True)
class _MessageColumns:
    """How a message is laid out in columns."""

    longest_name: float
    """ms: the gap that fills the bar."""
    has_contributions: bool
    """Whether there is a column for what messages add."""
    layout: TableLayout

    def title_line(self) -> Line:
        """The line above the rows."""
        adds = f"{'adds':{_ADDS}} " if self.has_contributions else ""
        text = f"{'#':>6} {'at ms':>10} {'gap ms':>9} {'':{_BAR}} {adds}message"
        return styled_line(StyledText(text, "bold"))

    def message_row(self, arrival: MessageArrival, addition: str, text: str) -> Line:
        """One message, which is shown as `text`."""
        figures = f"{arrival.number:>6} {arrival.at_ms:>10.2f} {arrival.gap_ms:>9.2f} "
        bar = timeline.render_bar(
            arrival.gap_ms, self.longest_name, _BAR, ascii_only=self.layout.ascii_only
        )
        adds = (
            display.pad(display.truncate(addition, _ADDS), _ADDS) + " "
            if self.has_contributions
            else ""
        )
        taken = len(figures) + _BAR + 1 + (_ADDS + 1 if self.has_contributions else 0)
        message = display.escape_line(text)
        if not self.layout.full:
            message = display.truncate(message, max(_LEAST, self.layout.width - taken))
        return styled_line(
            figures, StyledText(f"{bar:{_BAR}} ", "bar"), adds, StyledText(message, "dim")
        )
