"""A cassette as lines for people: request, response, what was said, and the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from llm_proxy import display, last_message, timeline
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import turns_of
from llm_proxy.cli.output.printing import Line, Span, line, outcome_span
from llm_proxy.cli.show.message_table import Layout, message_table
from llm_proxy.cli.show.turn_text import turn_text
from llm_proxy.exchange import Ending, Outcome
from llm_proxy.outcome import outcome

_INDENT: Final = 12
"""Columns of the names before the lines."""
_TEXT_LINES: Final = 12
_TEXT_LENGTH: Final = 1200
"""Characters of a text that are shown at most."""
_WIDEST: Final = 72
"""Columns of the sparkline."""

Row = tuple[str, Line]
"""A name, often empty, and a line."""


def page(cassette: Cassette, layout: Layout) -> Iterator[Line]:
    """All of it."""
    found = outcome(cassette)
    yield line(Span(display.path_text(cassette.file), "bold"))
    for rows in (
        about(cassette, found),
        _request(cassette, layout),
        _response(cassette),
        said(cassette, layout),
        _times(cassette, layout),
    ):
        yield from labelled(rows)
        yield line()
    if cassette.messages:
        yield from message_table(cassette, layout)
        yield line()
    yield from labelled(_end(cassette))


def raw_messages(cassette: Cassette) -> Iterator[Line]:
    """The raw messages, each as it is but for its control characters, and without its last LF."""
    for message in cassette.messages:
        yield line(message.decode("utf-8", "backslashreplace").removesuffix("\n"))


def labelled(rows: Iterator[Row]) -> Iterator[Line]:
    """Rows as lines, their names in a column of their own."""
    for name, spans in rows:
        yield (Span(f"{name:<{_INDENT}}", "bold"), *spans)


def about(it: Cassette, found: Outcome) -> Iterator[Row]:
    """What this file is."""
    meta = it.meta
    model = f", model {meta.model}" if meta.model else ""
    proof = f"  ({found.reason})" if found.complete and found.proven else ""
    yield "outcome", line(outcome_span(found), Span(proof, "dim"))
    yield "recorded", line(f"{meta.recorded} by {meta.tool}")
    yield "dialect", line(f"{meta.dialect}, provider {meta.provider}{model}")
    yield "session", line(meta.session)
    yield "key", line(meta.key, Span(f"  (rules {meta.key_rules})", "dim"))


def _request(it: Cassette, layout: Layout) -> Iterator[Row]:
    request = it.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    notes = [f"{len(request.body):,} bytes"] if request.body else ["no body"]
    if request.redacted:
        notes.append(f"{display.counted(request.redacted, 'secret')} replaced")
    yield "request", line(f"{request.method} {target}", Span(f"  ({', '.join(notes)})", "dim"))
    for name, value in request.headers:
        yield "", line(Span(f"{name}: {value}", "dim"))
    if (asked := last_message.question(request.body)) is not None:
        role = f"{asked.role}: " if asked.role else ""
        shown = role + display.one_line(asked.text)
        yield "", line(shown if layout.full else display.cut(shown, layout.width - _INDENT))


def _response(it: Cassette) -> Iterator[Row]:
    head = it.head
    bad = "" if head.status < HTTPStatus.BAD_REQUEST else "doubtful"
    coding = f", came as {it.decoded}" if it.decoded else ""
    notes = f"  (after {display.duration(it.head_at)}; {head.framing}, {it.codec}{coding})"
    yield (
        "response",
        line(Span(f"{head.status} {head.reason}".rstrip(), bad), Span(notes, "dim")),
    )
    for name, value in head.headers:
        yield "", line(Span(f"{name}: {value}", "dim"))


def said(it: Cassette, layout: Layout) -> Iterator[Row]:
    """The decoded turns."""
    turns = turns_of(it)
    if not turns:
        yield "said", line(Span(f"nothing that the dialect {it.meta.dialect} can read", "dim"))
    for number, turn in enumerate(turns, 1):
        if len(turns) > 1:
            yield "turn", line(f"{number} of {len(turns)}")
        for name, text in turn_text(turn):
            yield from _paragraph(name, text, layout)


def _paragraph(name: str, text: str, layout: Layout) -> Iterator[Row]:
    """A text with its own lines, cut where it is long."""
    shown = text if layout.full else "\n".join(text[:_TEXT_LENGTH].split("\n")[:_TEXT_LINES])
    for index, each in enumerate(shown.split("\n")):
        yield name if index == 0 else "", line(each)
    if missing := len(text) - len(shown):
        more = display.counted(missing, "more character")
        yield "", line(Span(f"… {more}: --full shows all", "dim"))


def _times(it: Cassette, layout: Layout) -> Iterator[Row]:
    reads = display.counted(len(it.reads), "read")
    count = display.counted(len(it.messages), "message")
    yield "timeline", line(f"{count} in {reads}, {it.end.size:,} bytes")
    if not it.reads:
        return
    width = min(layout.width - _INDENT, _WIDEST)
    end = display.duration(it.end.at)
    spark = timeline.sparkline(it.reads, it.end.at, width, ascii_only=layout.ascii_only)
    yield "", line(Span(spark, "bar"))
    yield "", line(Span(f"0{end:>{width - 1}}", "dim"))


def _end(it: Cassette) -> Iterator[Row]:
    """How it ended: the evidence, and the checksum that proves the body."""
    end = it.end
    style = "good" if end.ending is Ending.CLEAN else "bad"
    secrets = f", {display.counted(end.redacted, 'secret')} replaced" if end.redacted else ""
    after = f" after {display.duration(end.at)}, {end.size:,} bytes{secrets}"
    yield "ending", line(Span(end.ending.value, style), after)
    yield "sha256", line(end.sha256)
