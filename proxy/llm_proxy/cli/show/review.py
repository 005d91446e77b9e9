"""Renders a cassette for review (`git diff`), without times.

The text does not depend on the terminal or the file's path, so that `git diff` of two takes shows
only what changed in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.cli.output.printing import Line, styled_line
from llm_proxy.cli.show.message_table import CassetteLayout
from llm_proxy.cli.show.summary import (
    LabelledLine,
    align_labels,
    meta_lines,
    raw_message_lines,
    turn_lines,
)
from llm_proxy.errors import CassetteError
from llm_proxy.outcome import cassette_outcome

_UNCUT: Final = CassetteLayout(width_columns=0, show_all=True)


def review_lines(cassette: Cassette) -> Iterator[Line]:
    """A cassette without times; messages as decoded turns, or raw where there are none."""
    for rows in (
        meta_lines(cassette, cassette_outcome(cassette)),
        _request_lines(cassette),
        _response_lines(cassette),
        turn_lines(cassette, _UNCUT),
    ):
        yield from align_labels(rows)
        yield styled_line()
    if not cassette_response_turns(cassette):
        yield from raw_message_lines(cassette)
        yield styled_line()
    yield from align_labels(_ending_lines(cassette))


def unreadable_file_lines(error: CassetteError, content: bytes) -> Iterator[Line]:
    """A file that is not a valid cassette: the reason, and its content."""
    place = "" if error.line is None else f"line {error.line}: "
    yield styled_line(f"unreadable: {place}{display.escape_line(error.reason)}")
    for line in content.decode("utf-8", "backslashreplace").splitlines():
        yield styled_line(display.escape_line(line))


def _request_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    request = cassette.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    yield "request", styled_line(f"{request.method} {target}")
    yield from _header_lines(request.headers)
    if request.redacted_count:
        yield (
            "",
            styled_line(f"{display.count_with_noun(request.redacted_count, 'secret')} replaced"),
        )
    for line in _pretty_body(request.body).splitlines():
        yield "", styled_line(line)


def _response_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    head = cassette.response_head
    coding = f", came as {cassette.content_coding}" if cassette.content_coding else ""
    yield (
        "response",
        styled_line(f"{head.status} {head.reason}".rstrip(), f"  ({cassette.codec_name}{coding})"),
    )
    yield from _header_lines(head.headers)


def _header_lines(pairs: tuple[tuple[str, str], ...]) -> Iterator[LabelledLine]:
    for name, value in pairs:
        yield "", styled_line(f"{name}: {value}")


def _pretty_body(body: bytes) -> str:
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, TypeError):  # not JSON, or nested too deep for orjson.dumps
        return body.decode("utf-8", "backslashreplace")


def _ending_lines(cassette: Cassette) -> Iterator[LabelledLine]:
    end = cassette.response_end
    secrets = (
        f", {display.count_with_noun(end.redacted_count, 'secret')} replaced"
        if end.redacted_count
        else ""
    )
    messages = display.count_with_noun(len(cassette.framed_messages), "message")
    yield (
        "ending",
        styled_line(f"{end.ending.value}, {end.size_bytes:,} bytes in {messages}{secrets}"),
    )
    yield "sha256", styled_line(end.sha256)
