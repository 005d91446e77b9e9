"""`show`: prints one cassette: request, response, turns, timeline and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import click
import orjson

from llm_proxy import display, timeline
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome, cassette_response_turns
from llm_proxy.cli.json_documents import cassette_document
from llm_proxy.cli.library import find_cassette_path
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option
from llm_proxy.cli.output import (
    Line,
    StyledText,
    is_stdout_ascii_only,
    print_json,
    print_lines,
    styled_outcome,
    terminal_columns,
    write_terminal_safe_bytes,
)
from llm_proxy.dialects import DialectResponse
from llm_proxy.display import count_with_noun
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.exchange import Ending, Headers
from llm_proxy.framing.eventstream import parse_frame
from llm_proxy.last_message import last_message
from llm_proxy.shell.library.library import Library
from llm_proxy.timeline import MessageArrival
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult, Turn, Usage

_LABEL_COLUMNS: Final = 12
"""Width of the labels."""
_MAX_TEXT_LINES: Final = 12
_MAX_TEXT_CHARS: Final = 1200
"""Lines and characters of a text that are shown at most."""
_MAX_SPARKLINE_COLUMNS: Final = 72
"""Maximum width of the sparkline."""
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

LabelledLine = tuple[str, Line]
"""A label, often empty, and a line."""


@click.command
@click.argument("cassette")
@cassettes_option
@CONFIG_OPTION
@click.option("--full", is_flag=True, help="Show all messages and texts in full.")
@click.option("--messages", "only_messages", is_flag=True, help="Show only the raw messages.")
@click.option("--body", is_flag=True, help="Write the stored body to stdout, byte for byte.")
@click.option("--review", is_flag=True, help="Show the content without the timing, for git diff.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
def show(cassette: str, cassettes: Path, *, full: bool, **forms: bool) -> None:
    r"""Show one cassette: its request, response, conversation and timing.

    CASSETTE is a file, or the first characters of a cassette's name or key. The
    time shown for a message is when its last byte arrived; the gap is the time since the previous
    message. Control characters in recorded text are shown as escapes such as \x1b.

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
            "--messages, --body, --review and --json cannot be combined; set only one of them"
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
        print_lines(_raw_message_lines(loaded))
    else:
        layout = _Layout(terminal_columns(), show_all=full, ascii_only=is_stdout_ascii_only())
        print_lines(_cassette_lines(loaded, layout))


@dataclass(frozen=True, slots=True)
class _Layout:
    """How `show` lays out a cassette."""

    width_columns: int
    """Width of the output."""
    show_all: bool = False
    """Whether nothing is truncated or left out."""
    ascii_only: bool = False


def _cassette_lines(cassette: Cassette, layout: _Layout) -> Iterator[Line]:
    """The whole cassette as lines."""
    yield StyledText(display.path_as_unicode_text(cassette.file), "bold")
    for rows in (
        _meta_lines(cassette),
        _request_lines(cassette, layout),
        _response_lines(cassette),
        _turn_lines(cassette, layout),
        _timeline_lines(cassette, layout),
    ):
        yield from _align_labels(rows)
        yield ""
    if cassette.framed_messages:
        yield from _message_table_lines(cassette, layout)
        yield ""
    end = cassette.response_end
    style = "good" if end.ending is Ending.CLEAN else "bad"
    after = f" after {display.format_duration(end.at_ms)}, {end.size_bytes:,} bytes"
    secrets = _replaced_secrets(end.redacted_count, ", ")
    ending = (StyledText(end.ending.value, style), after + secrets)
    yield from _align_labels((("ending", ending), ("sha256", end.sha256)))


def _review_lines(library: Library, path: Path) -> Iterator[Line]:
    """A cassette for review, without times; of an unreadable one the reason and the content.

    The text does not depend on the terminal or the file's path, so that `git diff` of two takes
    shows only what changed in them.  git aborts a diff if textconv fails.
    """
    try:
        cassette = library.load_cassette(path)
    except CassetteError as error:
        place = "" if error.line is None else f"line {error.line}: "
        yield f"unreadable: {place}{display.escape_line(error.reason)}"
        content = path.read_bytes().decode("utf-8", "backslashreplace")
        yield from map(display.escape_line, content.splitlines())
        return
    head, end = cassette.response_head, cassette.response_end
    coding = f", received as {cassette.content_coding}" if cassette.content_coding else ""
    status = f"{head.status} {head.reason}".rstrip()
    for rows in (
        _meta_lines(cassette),
        _review_request_lines(cassette),
        (
            ("response", f"{status}  ({cassette.codec_name}{coding})"),
            *_header_lines(head.headers),
        ),
        _turn_lines(cassette, _Layout(width_columns=0, show_all=True)),
    ):
        yield from _align_labels(rows)
        yield ""
    if not cassette_response_turns(cassette):
        yield from _raw_message_lines(cassette)
        yield ""
    messages = count_with_noun(len(cassette.framed_messages), "message")
    secrets = _replaced_secrets(end.redacted_count, ", ")
    ending = f"{end.ending.value}, {end.size_bytes:,} bytes in {messages}{secrets}"
    yield from _align_labels((("ending", ending), ("sha256", end.sha256)))


def _review_request_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    request = cassette.request
    yield "request", f"{request.method} {request.request_target}"
    yield from _header_lines(request.headers)
    if request.redacted_count:
        yield "", _replaced_secrets(request.redacted_count)
    try:
        body = orjson.dumps(orjson.loads(request.body), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, TypeError):  # not JSON, or nested too deep for orjson.dumps
        body = request.body.decode("utf-8", "backslashreplace")
    for line in body.splitlines():
        yield "", line


def _raw_message_lines(cassette: Cassette) -> Iterator[Line]:
    """The raw messages as lines, each without its last LF; printing escapes control characters."""
    for message in cassette.framed_messages:
        yield message.decode("utf-8", "backslashreplace").removesuffix("\n")


def _align_labels(rows: Iterable[LabelledLine]) -> Iterator[Line]:
    for name, line in rows:
        label = StyledText(f"{name:<{_LABEL_COLUMNS}}", "bold")
        yield (label, line) if isinstance(line, str) else (label, *line)


def _meta_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    meta, outcome = cassette.meta, cassette_outcome(cassette)
    model = f", model {meta.model}" if meta.model else ""
    proof = f"  ({outcome.reason})" if outcome.is_complete and outcome.is_proven else ""
    yield "outcome", (styled_outcome(outcome), StyledText(proof, "dim"))
    yield "recorded", f"{meta.recorded_at} by {meta.recording_tool}"
    yield "dialect", f"{meta.dialect}, provider {meta.provider}{model}"
    yield "session", meta.session
    yield "key", (meta.key, StyledText(f"  (rules {meta.key_rules_version})", "dim"))


def _header_lines(headers: Headers, style: str = "") -> Iterator[LabelledLine]:
    for name, value in headers:
        yield "", StyledText(f"{name}: {value}", style)


def _replaced_secrets(count: int, separator: str = "") -> str:
    return f"{separator}{count_with_noun(count, 'secret')} replaced" if count else ""


def _request_lines(cassette: Cassette, layout: _Layout) -> Iterator[LabelledLine]:
    request = cassette.request
    size = f"{len(request.body):,} bytes" if request.body else "no body"
    notes = f"  ({size}{_replaced_secrets(request.redacted_count, ', ')})"
    target = f"{request.method} {request.request_target}"
    yield "request", (target, StyledText(notes, "dim"))
    yield from _header_lines(request.headers, "dim")
    if (message := last_message(request.body)) is not None:
        role = f"{message.role}: " if message.role else ""
        shown = role + display.escape_line(message.text)
        if not layout.show_all:
            shown = display.truncate_to_width(shown, layout.width_columns - _LABEL_COLUMNS)
        yield "", shown


def _response_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    head = cassette.response_head
    status = StyledText(
        f"{head.status} {head.reason}".rstrip(),
        "" if head.status < HTTPStatus.BAD_REQUEST else "doubtful",
    )
    coding = f", received as {cassette.content_coding}" if cassette.content_coding else ""
    delay = display.format_duration(cassette.response_head_at_ms)
    notes = f"  (after {delay}; {head.framing}, {cassette.codec_name}{coding})"
    yield "response", (status, StyledText(notes, "dim"))
    yield from _header_lines(head.headers, "dim")


def _turn_lines(cassette: Cassette, layout: _Layout) -> Iterator[LabelledLine]:
    """The decoded turns, or a note where the dialect decodes none."""
    turns = cassette_response_turns(cassette)
    if not turns:
        note = f"none: this response cannot be decoded as {cassette.meta.dialect}"
        yield "turns", StyledText(note, "dim")
    for number, turn in enumerate(turns, 1):
        if len(turns) > 1:
            yield "turn", f"{number} of {len(turns)}"
        for name, text in labelled_texts(turn):
            shown = text
            if not layout.show_all:
                shown = "\n".join(text[:_MAX_TEXT_CHARS].split("\n")[:_MAX_TEXT_LINES])
            first_line, *lines = shown.split("\n")
            yield name, first_line
            yield from (("", line) for line in lines)
            if missing := len(text) - len(shown):
                more = count_with_noun(missing, "more character")
                yield "", StyledText(f"… {more} (set --full to show all)", "dim")


def _timeline_lines(cassette: Cassette, layout: _Layout) -> Iterator[LabelledLine]:
    reads = count_with_noun(len(cassette.reads), "read")
    count = count_with_noun(len(cassette.framed_messages), "message")
    end = cassette.response_end
    yield "timeline", f"{count} in {reads}, {end.size_bytes:,} bytes"
    if not cassette.reads:
        return
    width = min(layout.width_columns - _LABEL_COLUMNS, _MAX_SPARKLINE_COLUMNS)
    sparkline = timeline.render_sparkline(
        cassette.reads, end.at_ms, width, ascii_only=layout.ascii_only
    )
    yield "", StyledText(sparkline, "bar")
    yield "", StyledText(f"0{display.format_duration(end.at_ms):>{width - 1}}", "dim")


def _message_table_lines(cassette: Cassette, layout: _Layout) -> Iterator[Line]:
    """The messages as a table; none where there are no messages.

    #  TIME MS  GAP MS               CONTENT   MESSAGE
    1   38.78   38.78 ████████████   "G"       data: {"choices":[...
    2   45.54    6.76 ██             "reet"    data: {"choices":[...
    """
    arrivals = timeline.message_arrivals(cassette.framed_messages, cassette.reads)
    if not arrivals:
        return
    shown: Sequence[MessageArrival] = arrivals
    if not layout.show_all and len(arrivals) > _SHOWN_AT_START + _SHOWN_AT_END + 1:
        shown = [*arrivals[:_SHOWN_AT_START], *arrivals[-_SHOWN_AT_END:]]
    contributions = [""]
    if len(arrivals) > 1:
        contributions = [_contribution_text(cassette, arrival.message_bytes) for arrival in shown]
    has_contributions = any(contributions)
    longest_gap_ms = max(arrival.gap_ms for arrival in arrivals)

    content = f"{'CONTENT':{_CONTRIBUTION_COLUMNS}} " if has_contributions else ""
    title = f"{'#':>6} {'TIME MS':>10} {'GAP MS':>9} {'':{_BAR_COLUMNS}} {content}MESSAGE"
    yield StyledText(title, "bold")
    before = 0
    for arrival, contribution in zip(shown, contributions, strict=True):
        if missing := arrival.number - before - 1:
            more = count_with_noun(missing, "more message")
            yield StyledText(f"{'…':>6} {more} (set --full to show all)", "dim")
        before = arrival.number
        figures = f"{arrival.number:>6} {arrival.at_ms:>10.2f} {arrival.gap_ms:>9.2f} "
        bar = timeline.render_bar(
            arrival.gap_ms, longest_gap_ms, _BAR_COLUMNS, ascii_only=layout.ascii_only
        )
        if has_contributions:
            cut = display.truncate_to_width(contribution, _CONTRIBUTION_COLUMNS)
            content = display.pad_to_width(cut, _CONTRIBUTION_COLUMNS) + " "
        message = display.escape_line(_message_text(cassette, arrival.message_bytes))
        if not layout.show_all:
            used_columns = len(figures) + _BAR_COLUMNS + 1
            used_columns += _CONTRIBUTION_COLUMNS + 1 if has_contributions else 0
            message = display.truncate_to_width(
                message, max(_MIN_MESSAGE_COLUMNS, layout.width_columns - used_columns)
            )
        styled_bar = StyledText(f"{bar:{_BAR_COLUMNS}} ", "bar")
        yield figures, styled_bar, content, StyledText(message, "dim")


def _message_text(cassette: Cassette, message: bytes) -> str:
    """A message as text; of an AWS event-stream frame its type and payload."""
    frame = parse_frame(message) if cassette.codec_name == "eventstream" else None
    if frame is None:
        return message.decode("utf-8", "backslashreplace")
    payload = frame.payload.decode("utf-8", "backslashreplace")
    return " ".join(filter(None, (*map(frame.header, _FRAME_TYPE_HEADERS), payload)))


def labelled_texts(turn: Turn) -> Iterator[tuple[str, str]]:
    """Labels and texts of several lines: all parts in order, failure or finish, usage, model."""
    for part in turn.parts:
        yield from _part_texts(part)
    if (failure := turn.failure) is not None:
        notes = ", ".join(filter(None, (failure.type, failure.code)))
        yield "error", f"{failure.message} ({notes})" if notes else failure.message
    elif turn.finish is None:
        yield "finish", "none: the response ended without a finish reason"
    if turn.finish is not None:
        raw = f"  (provider value {turn.finish_raw!r})" if turn.finish_raw != turn.finish else ""
        yield "finish", f"{turn.finish}{raw}"
    if turn.usage is not None:
        yield "usage", _usage_text(turn.usage)
    if turn.model:
        yield "model", turn.model


def _part_texts(part: Part) -> Iterator[tuple[str, str]]:
    match part:
        case Text():
            yield "text", part.text
            for citation in part.citations:
                notes = (citation.title, citation.url, citation.quoted)
                yield "citation", " ".join(filter(None, notes))
        case Reasoning():
            label, opaque = "encrypted", part.redacted
            if not opaque:
                label, opaque = "signature", part.signature
            note = f"({label}: {count_with_noun(len(opaque), 'character')})" if opaque else ""
            yield "reasoning", "\n".join(filter(None, (part.text, note)))
        case ToolCall():
            yield "tool call", f"{part.name or '(no name)'} {part.id}".rstrip()
            yield "", part.arguments or "(no arguments)"
        case ToolResult():
            yield "tool result", f"{part.name} {part.call_id}".strip()
            yield "", f"error: {part.content}" if part.failed else part.content
        case Refusal():
            yield "refusal", part.text
        case Media():
            where = part.url or count_with_noun(len(part.base64), "character") + " of base64"
            texts = (f"{part.media_type} {where}".strip(), part.transcript)
            yield "media", "\n".join(filter(None, texts))


def _usage_text(usage: Usage) -> str:
    counts = {
        "input": usage.input,
        "output": usage.output,
        "total": usage.total,
        "cache read": usage.cache_read,
        "cache write": usage.cache_write,
        "reasoning": usage.reasoning,
    }
    items = [f"{count:,} {label}" for label, count in counts.items() if count is not None]
    return f"{', '.join(items)} (tokens)" if items else "not reported"


def _contribution_text(cassette: Cassette, message: bytes) -> str:
    """What one message of a stream adds to the response, on one short line; often empty."""
    response = DialectResponse(cassette.response_head, cassette.codec_name, (message,))
    texts: list[str] = []
    for turn in cassette_dialect(cassette).decode_response(response):
        texts += map(_short_part_text, turn.parts)
        if turn.failure is not None:
            texts.append(f"! {turn.failure.message}")
        if turn.finish is not None:
            texts.append(f"[{turn.finish}]")
        elif turn.usage is not None and not turn.parts and turn.failure is None:
            texts.append("[usage]")
    return display.escape_line(" ".join(filter(None, texts)))


def _short_part_text(part: Part) -> str:
    match part:
        case Text(text=text) | Refusal(text=text):
            return f'"{text}"' if text else ""
        case Reasoning(text=text):
            return f"~{text}" if text else ""
        case ToolCall():
            return f"{part.name}({part.arguments}"
        case ToolResult():
            return f"= {part.content}"
        case Media():
            return part.transcript or f"[{part.media_type}]"
