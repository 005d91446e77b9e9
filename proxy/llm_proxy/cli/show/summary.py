"""Renders a cassette as lines: request, response, turns and timeline."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from llm_proxy import display, last_message, timeline
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.cli.output.printing import Line, StyledText, styled_line, styled_outcome
from llm_proxy.cli.show.message_table import TableLayout, message_table
from llm_proxy.cli.show.turn_text import named_texts
from llm_proxy.exchange import Ending, Outcome
from llm_proxy.outcome import outcome_of

_INDENT: Final = 12
"""Columns of the names before the lines."""
_TEXT_LINES: Final = 12
_TEXT_LENGTH: Final = 1200
"""Characters of a text that are shown at most."""
_WIDEST: Final = 72
"""Columns of the sparkline."""

Row = tuple[str, Line]
"""A name, often empty, and a line."""


def cassette_lines(cassette: Cassette, layout: TableLayout) -> Iterator[Line]:
    """All of it."""
    found = outcome_of(cassette)
    yield styled_line(StyledText(display.escape_path(cassette.file), "bold"))
    for rows in (
        meta_lines(cassette, found),
        _request_lines(cassette, layout),
        _response_lines(cassette),
        turn_lines(cassette, layout),
        _timeline_lines(cassette, layout),
    ):
        yield from align_labels(rows)
        yield styled_line()
    if cassette.messages:
        yield from message_table(cassette, layout)
        yield styled_line()
    yield from align_labels(_ending_lines(cassette))


def raw_messages(cassette: Cassette) -> Iterator[Line]:
    """The raw messages, each as it is but for its control characters, and without its last LF."""
    for message in cassette.messages:
        yield styled_line(message.decode("utf-8", "backslashreplace").removesuffix("\n"))


def align_labels(rows: Iterator[Row]) -> Iterator[Line]:
    """Rows as lines, their names in a column of their own."""
    for name, spans in rows:
        yield (StyledText(f"{name:<{_INDENT}}", "bold"), *spans)


def meta_lines(cassette: Cassette, found: Outcome) -> Iterator[Row]:
    """What this file is."""
    meta = cassette.meta
    model = f", model {meta.model}" if meta.model else ""
    proof = f"  ({found.reason})" if found.complete and found.proven else ""
    yield "outcome", styled_line(styled_outcome(found), StyledText(proof, "dim"))
    yield "recorded", styled_line(f"{meta.recorded} by {meta.tool}")
    yield "dialect", styled_line(f"{meta.dialect}, provider {meta.provider}{model}")
    yield "session", styled_line(meta.session)
    yield "key", styled_line(meta.key, StyledText(f"  (rules {meta.key_rules})", "dim"))


def _request_lines(cassette: Cassette, layout: TableLayout) -> Iterator[Row]:
    request = cassette.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    notes = [f"{len(request.body):,} bytes"] if request.body else ["no body"]
    if request.redacted:
        notes.append(f"{display.count_noun(request.redacted, 'secret')} replaced")
    yield (
        "request",
        styled_line(f"{request.method} {target}", StyledText(f"  ({', '.join(notes)})", "dim")),
    )
    for name, value in request.headers:
        yield "", styled_line(StyledText(f"{name}: {value}", "dim"))
    if (asked := last_message.last_message(request.body)) is not None:
        role = f"{asked.role}: " if asked.role else ""
        shown = role + display.escape_line(asked.text)
        yield (
            "",
            styled_line(shown if layout.full else display.truncate(shown, layout.width - _INDENT)),
        )


def _response_lines(cassette: Cassette) -> Iterator[Row]:
    head = cassette.head
    bad = "" if head.status < HTTPStatus.BAD_REQUEST else "doubtful"
    coding = f", came as {cassette.decoded}" if cassette.decoded else ""
    delay = display.format_duration(cassette.head_at_ms)
    notes = f"  (after {delay}; {head.framing}, {cassette.codec}{coding})"
    yield (
        "response",
        styled_line(
            StyledText(f"{head.status} {head.reason}".rstrip(), bad), StyledText(notes, "dim")
        ),
    )
    for name, value in head.headers:
        yield "", styled_line(StyledText(f"{name}: {value}", "dim"))


def turn_lines(cassette: Cassette, layout: TableLayout) -> Iterator[Row]:
    """The decoded turns."""
    turns = cassette_turns(cassette)
    if not turns:
        yield (
            "said",
            styled_line(
                StyledText(f"nothing that the dialect {cassette.meta.dialect} can read", "dim")
            ),
        )
    for number, turn in enumerate(turns, 1):
        if len(turns) > 1:
            yield "turn", styled_line(f"{number} of {len(turns)}")
        for name, text in named_texts(turn):
            yield from _text_block_lines(name, text, layout)


def _text_block_lines(name: str, text: str, layout: TableLayout) -> Iterator[Row]:
    """A text with its own lines, cut where it is long."""
    shown = text if layout.full else "\n".join(text[:_TEXT_LENGTH].split("\n")[:_TEXT_LINES])
    for index, content in enumerate(shown.split("\n")):
        yield name if index == 0 else "", styled_line(content)
    if missing := len(text) - len(shown):
        more = display.count_noun(missing, "more character")
        yield "", styled_line(StyledText(f"… {more}: --full shows all", "dim"))


def _timeline_lines(cassette: Cassette, layout: TableLayout) -> Iterator[Row]:
    reads = display.count_noun(len(cassette.reads), "read")
    count = display.count_noun(len(cassette.messages), "message")
    yield "timeline", styled_line(f"{count} in {reads}, {cassette.end.size:,} bytes")
    if not cassette.reads:
        return
    width = min(layout.width - _INDENT, _WIDEST)
    end = display.format_duration(cassette.end.at_ms)
    spark = timeline.render_sparkline(
        cassette.reads, cassette.end.at_ms, width, ascii_only=layout.ascii_only
    )
    yield "", styled_line(StyledText(spark, "bar"))
    yield "", styled_line(StyledText(f"0{end:>{width - 1}}", "dim"))


def _ending_lines(cassette: Cassette) -> Iterator[Row]:
    """How it ended: the evidence, and the checksum that proves the body."""
    end = cassette.end
    style = "good" if end.ending is Ending.CLEAN else "bad"
    secrets = f", {display.count_noun(end.redacted, 'secret')} replaced" if end.redacted else ""
    after = f" after {display.format_duration(end.at_ms)}, {end.size:,} bytes{secrets}"
    yield "ending", styled_line(StyledText(end.ending.value, style), after)
    yield "sha256", styled_line(end.sha256)
