"""A cassette as a reviewer compares it: what was asked and said, and no times.

The same text wherever it is printed and wherever the file lies, so that `git diff` of two takes
shows what changed in them and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import turns_of
from llm_proxy.cli.output.printing import Line, line
from llm_proxy.cli.show.message_table import Layout
from llm_proxy.cli.show.summary import Row, about, labelled, raw_messages, said
from llm_proxy.errors import CassetteError
from llm_proxy.outcome import outcome

_UNCUT: Final = Layout(width=0, full=True)


def review(cassette: Cassette) -> Iterator[Line]:
    """All that is stored, but for the times; the messages as the turns that they make."""
    for rows in (
        about(cassette, outcome(cassette)),
        _request(cassette),
        _response(cassette),
        said(cassette, _UNCUT),
    ):
        yield from labelled(rows)
        yield line()
    if not turns_of(cassette):
        yield from raw_messages(cassette)
        yield line()
    yield from labelled(_end(cassette))


def unreadable(error: CassetteError, content: bytes) -> Iterator[Line]:
    """A file that is no cassette: why, and what stands in it."""
    place = "" if error.line is None else f"line {error.line}: "
    yield line(f"unreadable: {place}{display.one_line(error.why)}")
    for each in content.decode("utf-8", "backslashreplace").splitlines():
        yield line(display.one_line(each))


def _request(it: Cassette) -> Iterator[Row]:
    request = it.request
    target = f"{request.path}?{request.query}" if request.query else request.path
    yield "request", line(f"{request.method} {target}")
    yield from _headers(request.headers)
    if request.redacted:
        yield "", line(f"{display.counted(request.redacted, 'secret')} replaced")
    for each in _readable(request.body).splitlines():
        yield "", line(each)


def _response(it: Cassette) -> Iterator[Row]:
    head = it.head
    coding = f", came as {it.decoded}" if it.decoded else ""
    yield "response", line(f"{head.status} {head.reason}".rstrip(), f"  ({it.codec}{coding})")
    yield from _headers(head.headers)


def _headers(pairs: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for name, value in pairs:
        yield "", line(f"{name}: {value}")


def _readable(body: bytes) -> str:
    """A body with one value of its JSON a line."""
    try:
        return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, TypeError):  # not JSON, or nested too deep to be written again
        return body.decode("utf-8", "backslashreplace")


def _end(it: Cassette) -> Iterator[Row]:
    end = it.end
    secrets = f", {display.counted(end.redacted, 'secret')} replaced" if end.redacted else ""
    messages = display.counted(len(it.messages), "message")
    yield "ending", line(f"{end.ending.value}, {end.size:,} bytes in {messages}{secrets}")
    yield "sha256", line(end.sha256)
