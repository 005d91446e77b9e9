"""A hostile cassette is refused with its file and line, and has no other effect."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import (
    FILE_NAME,
    HEAD,
    META,
    REQUEST,
    encode_cassette,
    make_cassette,
    make_head,
)
from llm_proxy.cassette import Cassette, parse_cassette, parse_cassette_opening, reader
from llm_proxy.cassette.reader import Lines
from llm_proxy.errors import CassetteError, CassetteTooNew
from llm_proxy.exchange import Ending, Read
from thoroughness import quick_or_thorough

Line = dict[str, Any]

GOOD: Final = encode_cassette(end_at=34.5)
FULL: Final = encode_cassette(
    [Read(20.0, b'{"a":1}\n{"b"'), Read(21.0, b":2}\n\xff\n")],
    codec="ndjson",
    head=replace(HEAD, framing="length", content_length=19),
    ending=Ending.FIN,
    request=replace(REQUEST, query="a=b", redacted_count=2, body=b"\xff"),
)
"""Has every field that a line can have, except `data`, `event` and `text`."""
DEEP: Final = orjson.Fragment(b"[" * 300 + b"]" * 300)
DEEPEST: Final = orjson.Fragment(b"[" * 1000 + b"]" * 1000)


def parse_lines(content: bytes) -> list[Line]:
    return [orjson.loads(line) for line in content.splitlines()]


def join_lines(lines: list[Line]) -> bytes:
    return b"".join(map(dump_line, lines))


def dump_line(line: object) -> bytes:
    return orjson.dumps(line) + b"\n"


def read_error(content: bytes) -> CassetteError:
    """The error with which the reader refuses this content."""
    with pytest.raises(CassetteError) as caught:
        parse_cassette(FILE_NAME, content)
    return caught.value


def assert_consistent(loaded: Cassette) -> None:
    """Check that the fields of a cassette are consistent with each other."""
    assert b"".join(loaded.framed_messages) == loaded.response_body
    assert hashlib.sha256(loaded.response_body).hexdigest() == loaded.response_end.sha256
    assert len(loaded.response_body) == loaded.response_end.size_bytes
    times = [
        loaded.response_head_at_ms,
        *(read.at_ms for read in loaded.reads),
        loaded.response_end.at_ms,
    ]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= 6 * 60 * 60 * 1000
    assert all(read.received_bytes for read in loaded.reads)
    texts = (
        loaded.meta.recording_tool,
        loaded.meta.model,
        loaded.meta.dialect,
        loaded.meta.session,
        loaded.meta.provider,
    )
    assert not [text for text in texts if set(text) & set("\x00\x1b\n\r\x7f\x9b\u202e")]
    fields = (
        "".join(f"{name}{value}" for name, value in loaded.response_head.headers)
        + loaded.response_head.reason
    )
    assert not set(fields) & set("\r\n\0")


def error_of(read_function: Callable[[str, bytes], object], content: bytes) -> CassetteError | None:
    """The error with which `read` refuses this content; None if it is accepted."""
    try:
        read_function(FILE_NAME, content)
    except CassetteError as error:
        return error
    return None


def assert_read_or_refused(content: bytes) -> CassetteError | None:
    """Check that the content gives a consistent cassette or an error with file and line."""
    error = error_of(parse_cassette, content)
    if error is None:
        assert_consistent(parse_cassette(FILE_NAME, content))
    else:
        assert error.file == FILE_NAME
        assert str(error).startswith(FILE_NAME)
        assert str(error).isprintable()
        assert len(str(error)) < 600
        assert (error.line is None) == (not content)
        assert error.line is None or 1 <= error.line <= content.count(b"\n") + 2
    opening = error_of(parse_cassette_opening, content)
    assert opening is None or opening.line in (1, 2)
    return error


WRONG: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e308, 2**63, 2**64 - 1, "", "x", "1", "\x1b[2J",
    "a\r\nSet-Cookie: b", "\u202e", "\x9b", "\0", "x" * 2000, "content-length", [], {}, [[]], [0],
    [[0, 0]], [[1, 1e308]], [[-1, 5]], [[0, 5], [0, 6]], [[2**63, 5]], [["a", "b"]],
    {"at": 1}, {"json": 1}, DEEP, DEEPEST,
)  # fmt: skip


def json_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value, at any depth."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from json_paths(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from json_paths(item, (*path, index))


def apply_change(
    lines: list[Line], path: tuple[Any, ...], change: Callable[[Any, Any], None]
) -> bytes:
    """The file with one value changed: `change` gets the container and the key or index in it."""
    edited = [*lines]
    edited[path[0]] = copy.deepcopy(lines[path[0]])
    holder: Any = edited
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return join_lines(edited)


def mutants(content: bytes) -> Iterator[bytes]:
    """The file with each value changed in every way, one at a time."""
    lines = parse_lines(content)
    for path in json_paths(lines):
        for wrong in WRONG:
            change = partial(_replace_value, replacement=wrong)
            yield apply_change(lines, path, change)
        yield apply_change(lines, path, lambda holder, name: holder.__delitem__(name))
        yield apply_change(lines, path, _duplicate)


def _replace_value(holder: Any, name: Any, replacement: Any) -> None:
    holder[name] = replacement


def _duplicate(holder: Any, name: Any) -> None:
    if isinstance(holder, list):
        holder.insert(name, copy.deepcopy(holder[name]))
    else:
        holder[f"{name}\x1b"] = holder[name]


@each_row("content", [GOOD, FULL], ids=["stream", "every field"])
def test_a_change_of_any_field_does_nothing_but_refuse_the_file_in_our_own_words(
    content: bytes,
) -> None:
    assert_consistent(parse_cassette(FILE_NAME, content))
    errors = map(assert_read_or_refused, mutants(content))
    reasons = {error.reason for error in errors if error}
    assert len(reasons) > 100
    assert [
        reason for reason in reasons if re.search("[`$]|Expected|Object|Invalid|regex|enum", reason)
    ] == []


@each_row("content", [GOOD, FULL], ids=["stream", "every field"])
def test_a_file_torn_at_any_byte_is_refused(content: bytes) -> None:
    for length in range(len(content)):
        assert_read_or_refused(content[:length])
        assert read_error(content[:length]).reason


@each_row("content", [GOOD, FULL], ids=["stream", "every field"])
def test_an_opening_is_read_once_it_is_there(content: bytes) -> None:
    first, second = content.splitlines(keepends=True)[:2]
    opening = len(first + second)
    for length in range(len(content) + 1):
        if length < opening:
            with pytest.raises(CassetteError):
                parse_cassette_opening(FILE_NAME, content[:length])
        else:
            meta, request = parse_cassette_opening(FILE_NAME, content[:length])
            assert (meta.model, request.path) == (META.model, REQUEST.path)


def test_no_changed_byte_does_anything_but_refuse_the_file() -> None:
    wrong = b'\0\n\r"{}[],:0-9ex\x1b\xff'
    for at in range(len(FULL)):
        for byte in quick_or_thorough(wrong[at % 4 :: 4], wrong):
            assert_read_or_refused(FULL[:at] + bytes([byte]) + FULL[at + 1 :])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(content: bytes) -> None:
    assert_read_or_refused(content)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
made_up_lines = st.sampled_from(parse_lines(GOOD) + parse_lines(FULL)) | st.fixed_dictionaries(
    {},
    optional={
        "at": json_values,
        "data": json_values,
        "event": json_values,
        "text": st.text(),
        "base64": st.sampled_from(["", "YQ==", "YQ", "*"]),
        "cassette": json_values,
        "request": json_values,
        "response": json_values,
        "end": json_values,
    },
)


@given(st.lists(made_up_lines.map(dump_line), max_size=8).map(b"".join))
def test_any_lines_are_refused_or_hold_together(content: bytes) -> None:
    assert_read_or_refused(content)


def edit_line(content: bytes, number: int, *path: Any, to: Any) -> bytes:
    """The file with one value of one line changed."""
    return apply_change(
        parse_lines(content), (number - 1, *path), lambda holder, name: holder.__setitem__(name, to)
    )


def edit_meta(name: str, to: Any) -> bytes:
    return edit_line(GOOD, 1, name, to=to)


def edit_response(name: str, to: Any) -> bytes:
    return edit_line(GOOD, 3, "response", name, to=to)


def without_line(number: int) -> bytes:
    lines = GOOD.splitlines(keepends=True)
    return b"".join(lines[: number - 1] + lines[number:])


def edit_header(name: str, value: str) -> bytes:
    return edit_response("headers", [[name, value]])


@each_row(
    ("content", "line", "reason"),
    [
        pytest.param(b"", None, "empty", id="empty"),
        pytest.param(b"\n", 1, "invalid JSON: ", id="an empty line"),
        pytest.param(b"{}\n", 1, 'no format number in "cassette"', id="format missing"),
        pytest.param(edit_meta("cassette", 0), 1, "not a cassette", id="format 0"),
        pytest.param(edit_meta("cassette", -1), 1, "not a cassette", id="format -1"),
        pytest.param(edit_meta("cassette", to=True), 1, "not a cassette", id="format true"),
        pytest.param(edit_meta("cassette", "1"), 1, "not a cassette", id="format in quotes"),
        pytest.param(edit_meta("cassette", 1.0), 1, "not a cassette", id="format 1.0"),
        pytest.param(edit_meta("cassette", None), 1, "not a cassette", id="format null"),
        pytest.param(b"[1]\n" + GOOD, 1, "not a JSON object", id="a line that is a list"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, 1, "invalid JSON", id="byte order mark"),
        pytest.param(GOOD[:-1], 7, "last line is incomplete", id="the last line end is missing"),
        pytest.param(GOOD + b"{}\n", 8, "truncated", id="a line too many"),
        pytest.param(GOOD + GOOD, 7, "a message needs", id="two in one"),
        pytest.param(without_line(7), 6, "truncated", id="no end line"),
        pytest.param(without_line(3), 3, "unknown field", id="no head"),
        pytest.param(without_line(2), 2, "unknown field", id="no request"),
        pytest.param(without_line(4), 4, "first byte", id="the first message is missing"),
        pytest.param(without_line(5), 6, "bytes", id="a message is missing"),
        pytest.param(GOOD.splitlines(keepends=True)[0], 2, "truncated", id="line 1 alone"),
        pytest.param(b"{" * 3000 + b"\n", 1, "invalid JSON", id="deep and broken"),
        pytest.param(
            b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"\n", 1, "invalid JSON", id="2000 levels"
        ),
        pytest.param(edit_meta("extra", 1), 1, "extra is an unknown field", id="unknown field"),
        pytest.param(
            edit_meta("model", "a\x1b[2J"), 1, "model: expected ", id="escape sequence in the model"
        ),
        pytest.param(
            edit_meta("tool", "a\u202eb"),
            1,
            "tool: expected ",
            id="a mark that turns the direction",
        ),
        pytest.param(
            edit_meta("session", "a\x9bb"), 1, "session: expected ", id="C1 control in the session"
        ),
        pytest.param(edit_meta("model", "m" * 1001), 1, "model: expected ", id="a very long model"),
        pytest.param(edit_meta("key", "0" * 63), 1, "key: expected ", id="a key that is too short"),
        pytest.param(
            edit_meta("key", "0" * 63 + "\n"), 1, "key: expected ", id="a key with a line end"
        ),
        pytest.param(edit_meta("key", "../" * 22), 1, "key: expected ", id="a key that is a path"),
        pytest.param(
            edit_line(GOOD, 2, "request", "path", to="/a b"), 2, "path", id="space in a path"
        ),
        pytest.param(edit_line(GOOD, 2, "request", "path", to="/\n"), 2, "path", id="LF in a path"),
        pytest.param(
            edit_line(GOOD, 2, "request", "path", to="@evil.example/v1"),
            2,
            "path: expected printable ASCII without spaces that starts with a slash",
            id="a path that makes the address before it another host's",
        ),
        pytest.param(
            edit_line(GOOD, 2, "request", "path", to=".evil.example/v1"),
            2,
            "path: expected printable ASCII without spaces that starts with a slash",
            id="a path that goes on with a host's name",
        ),
        pytest.param(
            edit_line(GOOD, 2, "request", "method", to="GET /x"), 2, "method", id="method"
        ),
        pytest.param(edit_line(GOOD, 2, "request", "json", to=DEEP), 2, "deep", id="deep request"),
        pytest.param(
            edit_line(GOOD, 2, "request", "text", to="x"),
            2,
            "a message needs",
            id="two request bodies",
        ),
        pytest.param(
            edit_line(FULL, 2, "request", "base64", to="*"),
            2,
            "invalid base64",
            id="a request that is no base64",
        ),
        pytest.param(edit_header("a", "b\r\nSet-Cookie: c"), 3, "headers", id="CRLF in a header"),
        pytest.param(edit_header("a\r\nb", "c"), 3, "headers", id="CRLF in a header's name"),
        pytest.param(edit_header("a:", "b"), 3, "headers", id="colon in a header's name"),
        pytest.param(edit_header("", "b"), 3, "headers", id="a header without a name"),
        pytest.param(edit_header("a", "\u20ac"), 3, "headers", id="a header beyond Latin-1"),
        pytest.param(edit_header("Content-Length", "1"), 3, "is not allowed", id="content-length"),
        pytest.param(
            edit_header("transfer-ENCODING", "x"), 3, "is not allowed", id="transfer-encoding"
        ),
        pytest.param(edit_header("Connection", "close"), 3, "is not allowed", id="connection"),
        pytest.param(edit_header("Upgrade", "h2c"), 3, "is not allowed", id="upgrade"),
        pytest.param(edit_response("reason", "OK\r\nA: b"), 3, "reason", id="CRLF in the reason"),
        pytest.param(edit_response("status", 101), 3, "status", id="status 101"),
        pytest.param(edit_response("status", 1000), 3, "status", id="status 1000"),
        pytest.param(edit_response("status", 204), 3, "cannot have a body", id="a 204 with a body"),
        pytest.param(edit_response("status", 304), 3, "cannot have a body", id="a 304 with a body"),
        pytest.param(
            edit_line(GOOD, 2, "request", "method", to="HEAD"),
            3,
            "cannot have a body",
            id="HEAD with a body",
        ),
        pytest.param(
            edit_response("framing", "none"), 3, "the body has", id="framing none, a body"
        ),
        pytest.param(edit_response("framing", "both"), 3, "framing", id="unknown framing"),
        pytest.param(edit_response("codec", "xml"), 3, "known: eventstream", id="unknown codec"),
        pytest.param(edit_response("length", -1), 3, "length", id="negative length"),
        pytest.param(edit_response("at", -1), 3, "at", id="a head before the request"),
        pytest.param(edit_response("at", 1e12), 3, "at", id="a head in thirty years"),
        pytest.param(
            edit_response("at", 20.5),
            4,
            "earlier than the previous read",
            id="a read before the head",
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", to=33.0),
            6,
            "earlier than the previous read",
            id="times go back",
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", to=1e9), 6, "exceeds 6 hours", id="a read in eleven days"
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", to=True), 6, "at: expected", id="a time that is true"
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", to=None), 6, "at: expected", id="a time that is null"
        ),
        pytest.param(edit_line(GOOD, 6, "at", to="34"), 6, "at: expected", id="a time in quotes"),
        pytest.param(
            edit_line(GOOD, 6, "at", to=[34]), 6, "at[0]: expected", id="a time without offset"
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", 0, 0, to=14),
            6,
            "past the end of the message",
            id="offset at end",
        ),
        pytest.param(
            edit_line(GOOD, 6, "at", 0, 0, to=2**63),
            6,
            "past the end of the message",
            id="offset 2**63",
        ),
        pytest.param(edit_line(GOOD, 6, "at", 0, 0, to=-1), 6, "out of order", id="offset -1"),
        pytest.param(
            edit_line(GOOD, 4, "at", 2, 0, to=52), 4, "out of order", id="the same offset"
        ),
        pytest.param(edit_line(GOOD, 4, "at", 0, 0, to=1), 4, "first byte", id="first offset 1"),
        pytest.param(edit_line(GOOD, 4, "at", to=[]), 4, "first byte", id="no reads"),
        pytest.param(edit_line(GOOD, 5, "data", to=DEEP), 5, "deep", id="a deep message"),
        pytest.param(edit_line(GOOD, 5, "data", to=DEEPEST), 5, "deep", id="a very deep message"),
        pytest.param(edit_line(GOOD, 5, "note", to=1), 5, "a message needs", id="an unknown field"),
        pytest.param(
            edit_line(GOOD, 5, "text", to="x"), 5, "a message needs", id="two messages in one"
        ),
        pytest.param(edit_line(GOOD, 6, "text", to="data: [DONF]\n\n"), 7, "SHA-256", id="edited"),
        pytest.param(
            edit_line(GOOD, 6, "text", to="data: [DONE]\n"), 7, "143 bytes", id="shortened"
        ),
        pytest.param(
            edit_line(GOOD, 7, "end", "ending", to="fine"), 7, "ending", id="unknown ending"
        ),
        pytest.param(
            edit_line(GOOD, 7, "end", "at", to=33.9), 7, "33.9", id="the end before a read"
        ),
        pytest.param(edit_line(GOOD, 7, "end", "at", to=1e300), 7, "at", id="the end in ages"),
        pytest.param(edit_line(GOOD, 7, "end", "bytes", to=145), 7, "144 bytes", id="wrong count"),
        pytest.param(edit_line(GOOD, 7, "end", "sha256", to="0" * 64), 7, "edited", id="wrong sum"),
        pytest.param(edit_line(GOOD, 7, "more", to=1), 7, "unknown field", id="end line with more"),
        pytest.param(
            edit_meta("extra", 1).replace(b',"text"', b",text"),
            6,
            "invalid JSON",
            id="what is no JSON comes before an unknown field",
        ),
        pytest.param(
            edit_meta("cassette", 2).replace(b',"text"', b",text"),
            6,
            "invalid JSON",
            id="what is no JSON comes before a newer format",
        ),
    ],
)
def test_what_is_no_cassette_is_refused_by_line(
    content: bytes, line: int | None, reason: str
) -> None:
    error = read_error(content)
    assert error.line == line
    assert reason in error.reason
    assert type(error) is CassetteError


def test_a_body_that_ends_before_its_head_is_refused() -> None:
    content = encode_cassette([], end_at=10.0)
    assert parse_cassette(FILE_NAME, content).reads == ()
    assert read_error(edit_line(content, 4, "end", "at", to=9.9)).line == 4


def test_a_response_without_a_body_has_no_reads() -> None:
    for status in (200, 204, 304):
        loaded = make_cassette(head=make_head(status, "none"))
        assert (loaded.reads, loaded.framed_messages, loaded.response_body) == ((), (), b"")


def test_a_message_of_no_bytes_is_harmless() -> None:
    lines = parse_lines(GOOD)
    lines.insert(3, {"text": ""})
    assert (
        parse_cassette(FILE_NAME, join_lines(lines)).response_body
        == parse_cassette(FILE_NAME, GOOD).response_body
    )


@each_row("tool", ["llm-proxy 7", "a\x1b[2Jb", {"a": [1]}, None, "x" * 5000])
def test_a_newer_format_is_refused_with_the_version_that_is_needed(tool: Any) -> None:
    for number in (2, 2**63):
        content = edit_line(edit_meta("cassette", number), 1, "tool", to=tool)
        for read in (parse_cassette, parse_cassette_opening):
            with pytest.raises(
                CassetteTooNew, match=rf"format {number} is not supported.*; upgrade"
            ) as caught:
                read(FILE_NAME, content)
            assert caught.value.line == 1
            assert str(caught.value).isprintable()


def test_too_large_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", len(GOOD))
    assert_consistent(parse_cassette(FILE_NAME, GOOD))
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", len(GOOD) - 1)
    assert "larger than" in read_error(GOOD).reason


def test_too_many_lines_are_refused_before_they_are_looked_at() -> None:
    error = read_error(b"\n" * (reader.MAX_LINES + 1))
    assert (error.line, error.reason) == (
        reader.MAX_LINES,
        f"the file has more than {reader.MAX_LINES:,} lines",
    )


class CountedLine(dict[str, Any]):
    """A parsed line that counts how many of its kind are in memory."""

    alive_count = peak_count = 0

    def __init__(self, fields: Line) -> None:
        super().__init__(fields)
        CountedLine.alive_count += 1
        CountedLine.peak_count = max(CountedLine.peak_count, CountedLine.alive_count)

    def __del__(self) -> None:
        CountedLine.alive_count -= 1


def test_a_long_file_is_never_in_memory_as_parsed_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_cassette([Read(20.0 + number, b'data: {"a":1}\n\n') for number in range(1000)])
    expected, loads = parse_cassette(FILE_NAME, content), orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda line: CountedLine(loads(line)))
    assert parse_cassette(FILE_NAME, content) == expected
    assert (len(expected.framed_messages), CountedLine.alive_count) == (1000, 0)
    assert 0 < CountedLine.peak_count < 10


def test_an_older_format_is_read_after_its_migration_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def step(lines: Lines) -> Lines:
        """The older format had its end line second, and a remark as its last line."""
        first, end, *others, _ = lines
        return [first, *others, end]

    first, *others, end = GOOD.splitlines(keepends=True)
    older = b"".join([first, end, *others, b'{"remark":1}\n'])
    expected = parse_cassette(FILE_NAME, GOOD)
    monkeypatch.setattr(reader, "FORMAT_VERSION", 2)
    monkeypatch.setattr(reader, "MIGRATIONS", MappingProxyType({1: step}))
    loaded = parse_cassette(FILE_NAME, older)
    assert loaded == expected
    assert read_error(older.replace(b',"text"', b",text")).line == 7


@each_row(
    "content",
    [GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b'{"end":{', b'{ "end" : { ')],
    ids=["line ends of Windows", "JSON with spaces"],
)
def test_what_tools_do_to_a_text_file_changes_nothing(content: bytes) -> None:
    assert parse_cassette(FILE_NAME, content) == parse_cassette(FILE_NAME, GOOD)
