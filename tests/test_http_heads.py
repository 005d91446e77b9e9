"""HTTP heads: forwarded headers, body framing, and validation on writing."""

from __future__ import annotations

import io
import socket
import string
from http.client import HTTPResponse
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.exchange import (
    HOP_BY_HOP_HEADERS,
    Framing,
    Headers,
    ResponseHead,
    forwarded_request_headers,
    head_lines,
    response_head,
)

CONNECTION_HEADERS = (
    "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
    "TE", "Trailer", "Transfer-Encoding", "Upgrade",
)  # fmt: skip
"""RFC 9110, section 7.6.1, and further headers that proxies commonly remove."""

ACCEPT_IDENTITY = ("Accept-Encoding", "identity")
"""The last header of every forwarded request."""

TOKEN = string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"
CONTROLS = [chr(code) for code in (*range(0x20), 0x7F) if chr(code) != "\t"]
PRINTABLE = "".join(map(chr, [0x09, *range(0x20, 0x7F), *range(0x80, 0x100)]))

names = st.text(TOKEN, min_size=1, max_size=12)
values = st.text(PRINTABLE, max_size=30).map(lambda value: value.strip(" \t"))
header_lists = st.lists(st.tuples(names, values), max_size=8).map(tuple)


def client_response_head(
    *headers: tuple[str, str], status: int = 200, method: str = "POST"
) -> ResponseHead:
    return response_head(status, "OK", headers, method)


def with_case(name: str, case: int) -> str:
    return (name, name.lower(), name.upper())[case]


# --- forwarded headers -----------------------------------------------------------------------


def test_all_hop_by_hop_headers_are_known() -> None:
    assert {name.lower() for name in CONNECTION_HEADERS} == HOP_BY_HOP_HEADERS


@each_row("case", range(3), ids=["as written", "lower", "upper"])
@each_row("name", CONNECTION_HEADERS)
def test_a_hop_by_hop_header_is_forwarded_in_neither_direction(name: str, case: int) -> None:
    headers = (("X-A", "1"), (with_case(name, case), "x"), ("X-B", "2"))

    assert forwarded_request_headers(headers) == (("X-A", "1"), ("X-B", "2"), ACCEPT_IDENTITY)
    assert client_response_head(*headers).headers == (("X-A", "1"), ("X-B", "2"))


@each_row("name", ["Host", "Content-Length", "Accept-Encoding", "Expect"])
def test_headers_that_the_proxy_sets_itself_are_not_taken_from_the_client(name: str) -> None:
    assert forwarded_request_headers(((name.lower(), "x"), ("X-A", "1"))) == (
        ("X-A", "1"),
        ACCEPT_IDENTITY,
    )


@each_row(
    "connection",
    [
        (("Connection", "X-Mine"),),
        (("connection", "close, x-mine"),),
        (("CONNECTION", " X-MINE ,keep-alive"),),
        (("Connection", "close"), ("Connection", "x-mine")),
        (("Connection", ",,x-mine,"),),
    ],
    ids=["alone", "behind another", "in front", "in a second field", "between empty ones"],
)
def test_a_header_named_by_connection_is_hop_by_hop(connection: Headers) -> None:
    headers = (("X-Mine", "1"), *connection, ("x-mine", "2"), ("X-Mine-Too", "3"))

    assert forwarded_request_headers(headers) == (("X-Mine-Too", "3"), ACCEPT_IDENTITY)
    assert client_response_head(*headers).headers == (("X-Mine-Too", "3"),)


def test_repeats_of_a_name_are_sent_in_the_case_of_the_first() -> None:
    headers = (("X-a", "1"), ("x-b", "2"), ("X-A", "3"), ("x-a", "4"))

    assert forwarded_request_headers(headers) == (
        ("X-a", "1"),
        ("x-b", "2"),
        ("X-a", "3"),
        ("X-a", "4"),
        ACCEPT_IDENTITY,
    )


def test_an_answer_keeps_the_case_of_every_field() -> None:
    headers = (("Set-Cookie", "1"), ("set-cookie", "2"))

    assert client_response_head(*headers).headers == headers


@given(
    headers=st.lists(
        st.tuples(
            names | st.builds(with_case, st.sampled_from(CONNECTION_HEADERS), st.integers(0, 2)),
            st.lists(names, max_size=2).map(",".join) | values,
        ),
        max_size=10,
    ).map(tuple)
)
def test_all_end_to_end_headers_are_forwarded_in_order(headers: Headers) -> None:
    connection_values = [value for name, value in headers if name.lower() == "connection"]
    removed = {name.lower() for name in CONNECTION_HEADERS} | {"content-length"}
    removed |= {name.strip().lower() for value in connection_values for name in value.split(",")}
    kept = tuple(pair for pair in headers if pair[0].lower() not in removed)
    removed_from_requests = {"host", "accept-encoding", "expect"}
    expected_request = [
        (name.lower(), value) for name, value in kept if name.lower() not in removed_from_requests
    ]

    assert client_response_head(*headers).headers == kept
    assert [
        (name.lower(), value) for name, value in forwarded_request_headers(headers)[:-1]
    ] == expected_request
    assert forwarded_request_headers(headers)[-1] == ACCEPT_IDENTITY


# --- body framing ------------------------------------------------------------------------------

LENGTH = ("Content-Length", "5")
CHUNKED = ("Transfer-Encoding", "chunked")


@each_row(
    ("method", "status", "headers", "framing", "length"),
    [
        ("GET", 200, (), "close", None),
        ("GET", 200, (LENGTH,), "length", 5),
        ("GET", 200, (("content-length", "0"),), "length", 0),
        ("GET", 200, (CHUNKED,), "chunked", None),
        ("GET", 200, (("transfer-encoding", "Chunked"),), "chunked", None),
        ("GET", 200, (LENGTH, CHUNKED), "chunked", None),
        ("GET", 200, (CHUNKED, LENGTH), "chunked", None),
        ("GET", 200, (("Transfer-Encoding", "gzip, chunked"),), "chunked", None),
        ("GET", 200, (("Transfer-Encoding", "gzip"), CHUNKED), "chunked", None),
        ("GET", 200, (("Transfer-Encoding", "gzip"),), "close", None),
        ("GET", 200, (("Transfer-Encoding", "identity"), LENGTH), "close", None),
        ("GET", 200, (("Content-Length", "+5"),), "close", None),
        ("GET", 200, (("Content-Length", "five"),), "close", None),
        ("HEAD", 200, (LENGTH,), "none", 5),
        ("HEAD", 200, (CHUNKED,), "none", None),
        ("HEAD", 404, (), "none", None),
        ("POST", 204, (), "none", None),
        ("GET", 304, (LENGTH,), "none", 5),
        ("GET", 304, (CHUNKED,), "none", None),
        ("POST", 500, (LENGTH,), "length", 5),
    ],
    ids=[
        "nothing said", "length", "no bytes", "chunked", "in another case", "length and chunked",
        "chunked and length", "chunked at last", "chunked at last, in two fields",
        "not chunked at last", "neither chunked nor by its length", "a sign", "no number", "HEAD",
        "HEAD, chunked", "HEAD, nothing said", "204", "304 with a length", "304, chunked",
        "an error",
    ],
)  # fmt: skip
def test_a_body_is_delimited_as_rfc_9112_says(
    method: str, status: int, headers: Headers, framing: Framing, length: int | None
) -> None:
    head = client_response_head(*headers, status=status, method=method)

    assert (head.framing, head.content_length) == (framing, length)
    assert head.headers == ()


# --- validation on writing -----------------------------------------------------------------------


def test_a_head_is_written_line_by_line() -> None:
    head = ResponseHead(200, "All right", (("X-a", "1"), ("x-A", "\t2 é")), "none")

    assert head_lines(head) == ["HTTP/1.1 200 All right", "X-a: 1", "x-A: \t2 é"]


@each_row("control", CONTROLS)
def test_a_control_character_is_written_nowhere(control: str) -> None:
    text = f"a{control}b"
    for head in (
        ResponseHead(200, text, (), "none"),
        ResponseHead(200, "", ((text, "1"),), "none"),
        ResponseHead(200, "", (("X-A", "1"), ("X-B", text)), "none"),
    ):
        with pytest.raises(ValueError, match=r"is not a valid header (name|value)"):
            head_lines(head)


@each_row("name", ["", "a b", "a:b", "a\t", "é", "(a)", "a,b", 'a"'])
def test_a_header_name_must_be_a_token(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid header name"):
        head_lines(ResponseHead(200, "", ((name, "1"),), "none"))


class _FakeSocket:
    """A socket that has received the given data."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def parse_head(lines: list[str]) -> HTTPResponse:
    """Parse the head with the standard library's client."""
    data = "\r\n".join([*lines, "", ""]).encode("latin-1")
    response = HTTPResponse(cast("socket.socket", cast("Any", _FakeSocket(data))))
    response.begin()
    return response


@given(status=st.integers(200, 599), reason=values, headers=header_lists)
def test_what_is_written_is_read_back(status: int, reason: str, headers: Headers) -> None:
    response = parse_head(head_lines(ResponseHead(status, reason, headers, "none")))

    assert (response.version, response.status, response.reason) == (11, status, reason.strip())
    assert tuple(response.headers.items()) == headers


@given(reason=st.text(), name=st.text(), value=st.text())
def test_no_head_can_hold_another_line(reason: str, name: str, value: str) -> None:
    try:
        lines = head_lines(ResponseHead(200, reason, ((name, value),), "none"))
    except ValueError:
        return
    assert len(lines) == 2
    assert not [line for line in lines if set(line) & set(CONTROLS)]
