"""Renders a cassette for review (`git diff`), without times.

The same text wherever it is printed and wherever the file lies, so that `git diff` of two takes
shows what changed in them and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.cli.output.printing import Line, styled_line
from llm_proxy.cli.show.message_table import TableLayout
from llm_proxy.cli.show.summary import Row, align_labels, meta_lines, raw_messages, turn_lines
from llm_proxy.errors import CassetteError
from llm_proxy.outcome import outcome_of

_UNCUT: Final = TableLayout(width=0, full=True)


def review_lines(cassette: Cassette) -> Iterator[Line]:
    """All that is stored, but for the times; the messages as the turns that they make."""
    for rows in (
        meta_lines(cassette, outcome_of(cassette)),
        _request_lines(cassette),
        _response_lines(cassette),
        turn_lines(cassette, _UNCUT),
    ):
        yield from align_labels(rows)
        yield styled_line()
    if not cassette_turns(cassette):
        yield from raw_messages(cassette)
        yield styled_line()
    yield from align_labels(_ending_lines(cassette))


def unreadable_file_lines(error: CassetteError, content: bytes) -> Iterator[Line]:
    """A file that is no cassette: why, and what stands in it."""
    place = "" if error.line is None else f"line {error.line}: "
    yield styled_line(f"unreadable: {place}{display.escape_line(error.why)}")
    for line in content.decode("utf-8", "backslashreplace").splitlines():
        yield styled_line(display.escape_line(line))


def _request_lines(cassette: Cassette) -> Iterator[Row]:
    request = cassette.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    yield "request", styled_line(f"{request.method} {target}")
    yield from _header_lines(request.headers)
    if request.redacted:
        yield "", styled_line(f"{display.count_noun(request.redacted, 'secret')} replaced")
    for line in _pretty_body(request.body).splitlines():
        yield "", styled_line(line)


def _response_lines(cassette: Cassette) -> Iterator[Row]:
    head = cassette.head
    coding = f", came as {cassette.decoded}" if cassette.decoded else ""
    yield (
        "response",
        styled_line(f"{head.status} {head.reason}".rstrip(), f"  ({cassette.codec}{coding})"),
    )
    yield from _header_lines(head.headers)


def _header_lines(pairs: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for name, value in pairs:
        yield "", styled_line(f"{name}: {value}")


def _pretty_body(body: bytes) -> str:
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, TypeError):  # not JSON, or nested too deep to be written again
        return body.decode("utf-8", "backslashreplace")


def _ending_lines(cassette: Cassette) -> Iterator[Row]:
    end = cassette.end
    secrets = f", {display.count_noun(end.redacted, 'secret')} replaced" if end.redacted else ""
    messages = display.count_noun(len(cassette.messages), "message")
    yield "ending", styled_line(f"{end.ending.value}, {end.size:,} bytes in {messages}{secrets}")
    yield "sha256", styled_line(end.sha256)
