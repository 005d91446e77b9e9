"""The messages of a cassette as a table: when each came, what it added, and what it is.

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
from llm_proxy.cli.output.printing import Line, Span, line
from llm_proxy.cli.show.turn_text import contribution
from llm_proxy.framing.eventstream import read_frame
from llm_proxy.timeline import Arrival

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
class Layout:
    """How a cassette is drawn."""

    width: int
    """Columns."""
    full: bool = False
    """Whether everything is shown, however long."""
    ascii_only: bool = False


def message_table(cassette: Cassette, layout: Layout) -> Iterator[Line]:
    """The table; nothing where there are no messages."""
    arrivals = timeline.arrivals(cassette.messages, cassette.reads)
    if not arrivals:
        return
    shown = _shown(arrivals, layout)
    additions = _additions(cassette, shown)
    columns = _Columns(max(arrival.gap for arrival in arrivals), any(additions), layout)
    shows = _SHOWN.get(cassette.codec, _as_text)
    yield columns.title()
    before = 0
    for arrival, addition in zip(shown, additions, strict=True):
        if missing := arrival.number - before - 1:
            more = display.counted(missing, "more message")
            yield line(Span(f"{'…':>6} {more}: --full shows all", "dim"))
        yield columns.row(arrival, addition, shows(arrival.message))
        before = arrival.number


def _shown(arrivals: Sequence[Arrival], layout: Layout) -> Sequence[Arrival]:
    if layout.full or len(arrivals) <= _FIRST + _LAST + 1:
        return arrivals
    return [*arrivals[:_FIRST], *arrivals[-_LAST:]]


def _additions(cassette: Cassette, shown: Sequence[Arrival]) -> list[str]:
    """What each message added; nothing where there is one message, which says it all."""
    if len(cassette.messages) == 1:
        return [""]
    return [display.one_line(contribution(cassette, arrival.message)) for arrival in shown]


def _as_text(message: bytes) -> str:
    return message.decode("utf-8", "backslashreplace")


def _frame(message: bytes) -> str:
    """A frame of an AWS event stream as its type and its payload; as text where it is none."""
    frame = read_frame(message)
    if frame is None:
        return _as_text(message)
    return " ".join(filter(None, (*map(frame.header, _TYPES), _as_text(frame.payload))))


_SHOWN: Final[Mapping[str, Callable[[bytes], str]]] = {"eventstream": _frame}
"""How the messages of a codec are shown that are no text."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """How a message is laid out in columns."""

    longest: float
    """ms: the gap that fills the bar."""
    tells: bool
    """Whether there is a column for what messages add."""
    layout: Layout

    def title(self) -> Line:
        """The line above the rows."""
        adds = f"{'adds':{_ADDS}} " if self.tells else ""
        text = f"{'#':>6} {'at ms':>10} {'gap ms':>9} {'':{_BAR}} {adds}message"
        return line(Span(text, "bold"))

    def row(self, arrival: Arrival, addition: str, text: str) -> Line:
        """One message, which is shown as `text`."""
        figures = f"{arrival.number:>6} {arrival.at:>10.2f} {arrival.gap:>9.2f} "
        bar = timeline.bar(arrival.gap, self.longest, _BAR, ascii_only=self.layout.ascii_only)
        adds = display.padded(display.cut(addition, _ADDS), _ADDS) + " " if self.tells else ""
        taken = len(figures) + _BAR + 1 + (_ADDS + 1 if self.tells else 0)
        message = display.one_line(text)
        if not self.layout.full:
            message = display.cut(message, max(_LEAST, self.layout.width - taken))
        return line(figures, Span(f"{bar:{_BAR}} ", "bar"), adds, Span(message, "dim"))
