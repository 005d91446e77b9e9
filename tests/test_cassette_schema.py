from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import orjson
import pytest

from case_tables import each_row
from cassette_builders import HEAD, META, REQUEST, make_cassette
from llm_proxy.cassette.model import (
    CassetteMeta,
    EndLine,
    HeadLine,
    ReadStarts,
    RequestLine,
    StoredHead,
    encode_line,
    request_line,
    rounded_offset_ms,
    validation_error_sentence,
)
from llm_proxy.exchange import Ending

T = TypeVar("T")


@each_row(
    ("at", "rounded"), [(0.0, 0.0), (12.344999, 12.34), (12.346, 12.35), (3_600_000.004, 3.6e6)]
)
def test_times_are_written_to_the_hundredth_of_a_ms(at: float, rounded: float) -> None:
    assert rounded_offset_ms(at) == rounded


def _read_back(line: msgspec.Struct | dict[str, Any], line_type: type[T]) -> T:
    return msgspec.convert(orjson.loads(encode_line(line)), line_type)


def test_each_line_gives_back_its_value() -> None:
    end = make_cassette(b"data: 1\n\n", ending=Ending.RST).response_end
    assert _read_back(META, CassetteMeta) == META
    assert _read_back(request_line(REQUEST), RequestLine).to_stored_request() == REQUEST
    head_line = {"response": StoredHead.from_response_head(HEAD, 1.0, "sse")}
    assert _read_back(head_line, HeadLine).response.to_response_head() == HEAD
    assert _read_back({"end": end}, EndLine).end == end


def test_default_values_are_not_written() -> None:
    assert encode_line({"response": StoredHead.from_response_head(HEAD, 1.0, "sse")}) == (
        b'{"response":{"at":1.0,"status":200,"reason":"OK","framing":"chunked","codec":"sse",'
        b'"headers":[["Content-Type","text/event-stream"]]}}\n'
    )


@each_row(
    "line_type",
    [CassetteMeta, RequestLine, HeadLine, EndLine],
)
@each_row("value", [[], None, 1, "x", {}, {"other": 1}])
def test_what_is_no_such_line_is_refused(line_type: type[msgspec.Struct], value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, line_type)


def _line_with_change(line: msgspec.Struct | dict[str, Any], path: str, to: object) -> object:
    """A line as it is written, with one value replaced; `...` deletes it."""
    document = orjson.loads(encode_line(line))
    *holders, name = (int(step) if step.isdigit() else step for step in path.split("."))
    holder = document
    for step in holders:
        holder = holder[step]
    if to is ...:
        del holder[name]
    else:
        holder[name] = to
    return document


LINES: dict[str, tuple[msgspec.Struct | dict[str, Any], type[msgspec.Struct]]] = {
    "meta": (META, CassetteMeta),
    "request": (request_line(REQUEST), RequestLine),
    "head": ({"response": StoredHead.from_response_head(HEAD, 1.0, "sse")}, HeadLine),
    "end": ({"end": make_cassette(b"").response_end}, EndLine),
}


@each_row(
    ("line", "path", "to", "sentence"),
    [
        ("head", "response.status", "200", "response.status: expected an integer, got a string"),
        (
            "head",
            "response.status",
            20.5,
            "response.status: expected an integer, got a fraction",
        ),
        ("head", "response.status", 99, "response.status: expected a number of at least 200"),
        ("head", "response.status", 1000, "response.status: expected a number of at most 999"),
        ("head", "response.at", None, "response.at: expected a number, got null"),
        ("head", "response.at", 3e7, "response.at: expected a number of at most 21600000"),
        (
            "head",
            "response.reason",
            "\n",
            ("response.reason: expected Latin-1 text without control characters"),
        ),
        ("head", "response.headers", {}, "response.headers: expected a list, got an object"),
        (
            "head",
            "response.headers.0",
            ["a"],
            "response.headers[0]: expected a list of 2 values, got 1",
        ),
        (
            "head",
            "response.headers.0.0",
            "a:",
            (
                "response.headers[0][0]: expected an HTTP token (letters, digits and "
                "punctuation, no spaces)"
            ),
        ),
        (
            "head",
            "response.framing",
            "both",
            "response.framing: expected one of chunked, length, close, none; got 'both'",
        ),
        ("head", "response.codec", ..., "response.codec is missing"),
        (
            "head",
            "response.length",
            "1",
            "response.length: expected an integer or null, got a string",
        ),
        ("head", "response", [], "response: expected an object, got a list"),
        (
            "end",
            "end.ending",
            "fine",
            (
                "end.ending: expected one of clean, fin, rst, stalled, malformed, "
                "client_gone, recorder_error, killed; got 'fine'"
            ),
        ),
        ("end", "end.bytes", True, "end.bytes: expected an integer, got a boolean"),
        ("end", "end.sha256", "0", "end.sha256: expected 64 lowercase hexadecimal digits"),
        ("request", "request.more", 1, "request.more is an unknown field"),
        (
            "request",
            "request.path",
            "/ ",
            ("request.path: expected printable ASCII without spaces that starts with a slash"),
        ),
        ("request", "request", ..., "request is missing"),
        ("meta", "more", 1, "more is an unknown field"),
        ("meta", "tool", ..., "tool is missing"),
        ("meta", "model", "m" * 1001, "model: expected a string of at most 1000 characters"),
        (
            "meta",
            "model",
            "\x1b",
            "model: expected text without control characters or bidirectional marks",
        ),
    ],
)
def test_a_refusal_names_the_field_what_it_must_be_and_what_it_is(
    line: str, path: str, to: object, sentence: str
) -> None:
    written, line_type = LINES[line]
    document = _line_with_change(written, path, to)
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, line_type)
    assert validation_error_sentence(caught.value) == sentence


@each_row(
    ("at", "sentence"),
    [
        ("1", "at: expected a number or a list, got a string"),
        ([1], "at[0]: expected a list, got an integer"),
        ([[1]], "at[0]: expected a list of 2 values, got 1"),
        ([[0, 1], [0, "x"]], "at[1][1]: expected a number, got a string"),
    ],
    ids=["text", "no pair", "half a pair", "no time"],
)
def test_a_value_that_stands_alone_is_called_by_its_name(at: object, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(at, ReadStarts)
    assert validation_error_sentence(caught.value, "at") == sentence
