"""Renders a cassette as lines: request, response, turns and timeline."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from llm_proxy import display, last_message, timeline
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.cli.output.printing import Line, StyledText, styled_line, styled_outcome
from llm_proxy.cli.show.message_table import CassetteLayout, message_table_lines
from llm_proxy.cli.show.turn_text import labelled_texts
from llm_proxy.exchange import Ending, Outcome
from llm_proxy.outcome import cassette_outcome

_LABEL_COLUMNS: Final = 12
"""Width of the labels."""
_MAX_TEXT_LINES: Final = 12
_MAX_TEXT_CHARS: Final = 1200
"""Lines and characters of a text that are shown at most."""
_MAX_SPARKLINE_COLUMNS: Final = 72
"""Maximum width of the sparkline."""

LabelledLine = tuple[str, Line]
"""A label, often empty, and a line."""


def cassette_lines(cassette: Cassette, layout: CassetteLayout) -> Iterator[Line]:
    """The whole cassette as lines."""
    outcome = cassette_outcome(cassette)
    yield styled_line(StyledText(display.path_as_unicode_text(cassette.file), "bold"))
    for rows in (
        meta_lines(cassette, outcome),
        _request_lines(cassette, layout),
        _response_lines(cassette),
        turn_lines(cassette, layout),
        _timeline_lines(cassette, layout),
    ):
        yield from align_labels(rows)
        yield styled_line()
    if cassette.framed_messages:
        yield from message_table_lines(cassette, layout)
        yield styled_line()
    yield from align_labels(_ending_lines(cassette))


def raw_message_lines(cassette: Cassette) -> Iterator[Line]:
    """The raw messages as lines, each without its last LF; printing escapes control characters."""
    for message in cassette.framed_messages:
        yield styled_line(message.decode("utf-8", "backslashreplace").removesuffix("\n"))


def align_labels(rows: Iterator[LabelledLine]) -> Iterator[Line]:
    """Rows as lines, with the labels padded to a column."""
    for name, spans in rows:
        yield (StyledText(f"{name:<{_LABEL_COLUMNS}}", "bold"), *spans)


def meta_lines(cassette: Cassette, outcome: Outcome) -> Iterator[LabelledLine]:
    """Outcome, recording time, dialect, session and key."""
    meta = cassette.meta
    model = f", model {meta.model}" if meta.model else ""
    proof = f"  ({outcome.reason})" if outcome.is_complete and outcome.is_proven else ""
    yield "outcome", styled_line(styled_outcome(outcome), StyledText(proof, "dim"))
    yield "recorded", styled_line(f"{meta.recorded_at} by {meta.recording_tool}")
    yield "dialect", styled_line(f"{meta.dialect}, provider {meta.provider}{model}")
    yield "session", styled_line(meta.session)
    yield "key", styled_line(meta.key, StyledText(f"  (rules {meta.key_rules_version})", "dim"))


def _request_lines(cassette: Cassette, layout: CassetteLayout) -> Iterator[LabelledLine]:
    request = cassette.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    notes = [f"{len(request.body):,} bytes"] if request.body else ["no body"]
    if request.redacted_count:
        notes.append(f"{display.count_with_noun(request.redacted_count, 'secret')} replaced")
    yield (
        "request",
        styled_line(f"{request.method} {target}", StyledText(f"  ({', '.join(notes)})", "dim")),
    )
    for name, value in request.headers:
        yield "", styled_line(StyledText(f"{name}: {value}", "dim"))
    if (last_request_message := last_message.last_message(request.body)) is not None:
        role = f"{last_request_message.role}: " if last_request_message.role else ""
        shown = role + display.escape_line(last_request_message.text)
        yield (
            "",
            styled_line(
                shown
                if layout.show_all
                else display.truncate_to_width(shown, layout.width_columns - _LABEL_COLUMNS)
            ),
        )


def _response_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    head = cassette.response_head
    bad = "" if head.status < HTTPStatus.BAD_REQUEST else "doubtful"
    coding = f", came as {cassette.content_coding}" if cassette.content_coding else ""
    delay = display.format_duration(cassette.response_head_at_ms)
    notes = f"  (after {delay}; {head.framing}, {cassette.codec_name}{coding})"
    yield (
        "response",
        styled_line(
            StyledText(f"{head.status} {head.reason}".rstrip(), bad), StyledText(notes, "dim")
        ),
    )
    for name, value in head.headers:
        yield "", styled_line(StyledText(f"{name}: {value}", "dim"))


def turn_lines(cassette: Cassette, layout: CassetteLayout) -> Iterator[LabelledLine]:
    """The decoded turns, or a note where the dialect decodes none."""
    turns = cassette_response_turns(cassette)
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
        for name, text in labelled_texts(turn):
            yield from _text_block_lines(name, text, layout)


def _text_block_lines(name: str, text: str, layout: CassetteLayout) -> Iterator[LabelledLine]:
    """A text as rows, the first with the label; truncated unless `show_all` is set."""
    shown = (
        text if layout.show_all else "\n".join(text[:_MAX_TEXT_CHARS].split("\n")[:_MAX_TEXT_LINES])
    )
    for index, content in enumerate(shown.split("\n")):
        yield name if index == 0 else "", styled_line(content)
    if missing := len(text) - len(shown):
        more = display.count_with_noun(missing, "more character")
        yield "", styled_line(StyledText(f"… {more}: --full shows all", "dim"))


def _timeline_lines(cassette: Cassette, layout: CassetteLayout) -> Iterator[LabelledLine]:
    reads = display.count_with_noun(len(cassette.reads), "read")
    count = display.count_with_noun(len(cassette.framed_messages), "message")
    yield "timeline", styled_line(f"{count} in {reads}, {cassette.response_end.size_bytes:,} bytes")
    if not cassette.reads:
        return
    width = min(layout.width_columns - _LABEL_COLUMNS, _MAX_SPARKLINE_COLUMNS)
    end = display.format_duration(cassette.response_end.at_ms)
    spark = timeline.render_sparkline(
        cassette.reads, cassette.response_end.at_ms, width, ascii_only=layout.ascii_only
    )
    yield "", styled_line(StyledText(spark, "bar"))
    yield "", styled_line(StyledText(f"0{end:>{width - 1}}", "dim"))


def _ending_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    """How the response ended, and the checksum of its body."""
    end = cassette.response_end
    style = "good" if end.ending is Ending.CLEAN else "bad"
    secrets = (
        f", {display.count_with_noun(end.redacted_count, 'secret')} replaced"
        if end.redacted_count
        else ""
    )
    after = f" after {display.format_duration(end.at_ms)}, {end.size_bytes:,} bytes{secrets}"
    yield "ending", styled_line(StyledText(end.ending.value, style), after)
    yield "sha256", styled_line(end.sha256)
