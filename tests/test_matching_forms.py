"""Form bodies: the boundary does not count, and malformed forms count byte for byte."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.cassette import StoredRequest
from llm_proxy.matching import key_document, request_key
from llm_proxy.matching.keys import parse_form

TYPE = "multipart/form-data; boundary=X"
DISPOSITION_PREFIX = b"Content-Disposition: form-data; "


def multipart(*parts: bytes, boundary: bytes = b"X", end: bytes = b"--\r\n") -> bytes:
    """Encode a form of these parts."""
    return b"".join(b"--%b\r\n%b\r\n" % (boundary, item) for item in parts) + b"--" + boundary + end


def part(disposition: bytes, content: bytes = b"v", *headers: bytes) -> bytes:
    return b"\r\n".join((DISPOSITION_PREFIX + disposition, *headers, b"", content))


def parse_part(encoded: bytes) -> Any:
    """Parse a form with this single part."""
    found = parse_form(TYPE, multipart(encoded))
    assert found is not None
    [field] = found
    return field


@each_row(
    ("disposition", "field"),
    [
        (b'name="a"', {"name": "a"}),
        (b"name=a", {"name": "a"}),
        (b'NAME = "a" ; filename="b"', {"name": "a", "filename": "b"}),
        (b'name="a b; c=d"', {"name": "a b; c=d"}),
        (rb'name="a";filename="\"hi\"; name=x"', {"name": "a", "filename": r"\"hi\"; name=x"}),
        (rb'name="a"; filename="C:\dir\f.txt"', {"name": "a", "filename": r"C:\dir\f.txt"}),
        (b'name="a"; filename="%22.txt"', {"name": "a", "filename": "%22.txt"}),
        (b'name=""', {"name": ""}),
        ('name="ä€"'.encode(), {"name": "ä€"}),
        (b'name="\xe4"', {"name": "ä"}),
        (
            b"name=\"a\"; filename=\"x\"; filename*=UTF-8''%e2%82%ac",
            {"name": "a", "filename": "x", "filename*": "UTF-8''%e2%82%ac"},
        ),
    ],
)  # fmt: skip
def test_a_part_has_the_fields_of_its_disposition(
    disposition: bytes, field: dict[str, str]
) -> None:
    assert parse_part(part(disposition)) == field | {"value": "v"}


@each_row(
    ("disposition", "name"),
    [
        ('form-data; name="a"; name="b"', {"name": "a"}),
        ('form-data; name="a"; filename="C:\\', {"name": "a", "filename": ""}),
        ('attachment; name="a"', {"name": "a"}),
        ("form-data", None),
        ("what?", {}),
    ],
)
def test_an_unusual_disposition_is_kept_verbatim(
    disposition: str, name: dict[str, str] | None
) -> None:
    one = b"Content-Disposition: %b\r\n\r\nv" % disposition.encode()
    more = {} if name is None else {**name, "disposition": disposition}
    assert parse_part(one) == more | {"value": "v"}


def test_a_part_has_a_type_and_further_headers() -> None:
    one = part(
        b'name="a"', b"v", b"content-TYPE: text/plain; charset=utf-8", b"Content-Length: 1",
        b"Content-Transfer-Encoding: base64", b"Content-ID: <1>",
    )  # fmt: skip
    assert parse_part(one) == {
        "name": "a",
        "type": "text/plain; charset=utf-8",
        "headers": {"content-transfer-encoding": "base64", "content-id": "<1>"},
        "value": "v",
    }


@each_row("content", [b"\xff\x00", b"\x89PNG\r\n\x1a\n\r\n", b"a" * 70_000])
def test_a_binary_or_long_part_is_represented_by_its_hash(content: bytes) -> None:
    assert parse_part(part(b'name="a"', content)) == {
        "name": "a",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }


def test_preamble_and_epilogue_are_ignored() -> None:
    body = b"a preamble\r\n" + multipart(part(b'name="a"')) + b"and an epilogue"
    assert parse_form(TYPE, body) == [{"name": "a", "value": "v"}]


@each_row(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=X", b"X"),
        ('multipart/form-data; boundary="X"', b"X"),
        ('Multipart/Form-Data;charset=utf-8 ; BOUNDARY = "a b;c=d"', b"a b;c=d"),
        ("multipart/mixed; boundary=----WebKit7MA4; charset=x", b"----WebKit7MA4"),
        ("multipart/form-data; boundary==_x'()+_,-./:=?", b"=_x'()+_,-./:=?"),
        ('multipart/related; type="a; boundary=wrong"; boundary=X', b"X"),
    ],
)  # fmt: skip
def test_a_boundary_is_found_however_it_is_spelled(content_type: str, boundary: bytes) -> None:
    body = multipart(part(b'name="a"'), part(b'name="b"', b"w"), boundary=boundary)
    assert parse_form(content_type, body) == [
        {"name": "a", "value": "v"},
        {"name": "b", "value": "w"},
    ]


@each_row(
    ("content_type", "body"),
    [
        (TYPE, multipart(part(b'name="a"'), end=b"\r\n")),
        (TYPE, multipart(part(b'name="a"'), end=b"")),
        (TYPE, b"--X--\r\n"),
        (TYPE, b""),
        (TYPE, multipart(part(b'name="a"')).replace(b"\r\n", b"\n")),
        (TYPE, multipart(b"no head")),
        (TYPE, multipart(part(b'name="a"', b"v\r\n--X0 goes on"))),
        (TYPE, multipart(part(b'name="a"'), boundary=b"Y")),
        ("multipart/form-data", multipart(part(b'name="a"'))),
        ('multipart/form-data; boundary=""', multipart(part(b'name="a"'))),
        ("multipart/form-data; xboundary=X", multipart(part(b'name="a"'))),
        ("text/plain; boundary=X", multipart(part(b'name="a"'))),
        ("application/x-www-form-urlencoded", b"a"),
        ("application/x-www-form-urlencoded", b"a=1&"),
        ("application/x-www-form-urlencoded", b"a=%ff"),
        ("application/x-www-form-urlencoded", b"a=\xff"),
    ],
    ids=[
        "no end", "no end and no line's end", "no part", "empty", "bare line feeds", "no head",
        "a delimiter within", "another boundary", "no boundary", "an empty boundary",
        "no boundary but the like", "another type", "no value", "half a pair", "no UTF-8 encoded",
        "no UTF-8",
    ],
)  # fmt: skip
def test_a_malformed_form_counts_byte_for_byte(content_type: str, body: bytes) -> None:
    request = StoredRequest("POST", "/x", "", (("content-type", content_type),), body)
    document = key_document("openai", request)

    assert parse_form(content_type, body) is None
    assert (document.body_kind, document.canonical_body()) == ("text", body)


def test_the_pairs_of_an_encoded_form_are_fields() -> None:
    body = b"a=1&b=x%20y+z&a=%c3%a4&c="
    assert parse_form("application/x-www-form-urlencoded; charset=utf-8", body) == [
        {"name": "a", "value": "1"},
        {"name": "b", "value": "x y z"},
        {"name": "a", "value": "ä"},
        {"name": "c", "value": ""},
    ]


def _key(body: bytes, content_type: str = TYPE) -> str:
    request = StoredRequest("POST", "/x", "", (("content-type", content_type),), body)
    return request_key("openai", request)


@each_row(
    ("one", "other"),
    [
        (part(b'name="a"'), part(b'name="b"')),
        (part(b"name=a"), part(b"name=b")),
        (part(b'name="a"'), part(b'name="a"; filename="f"')),
        (part(b'name="a"; filename="f"'), part(b'name="a"; filename="g"')),
        (
            part(b"name=\"a\"; filename*=UTF-8''%c3%a4"),
            part(b"name=\"a\"; filename*=UTF-8''%c3%b6"),
        ),
        (part(rb'name="a"; filename="C:\a\"'), part(rb'name="a"; filename="C:\b\"')),
        (part(b'name="a"'), part(b'name="a"', b"v", b"Content-Type: text/plain")),
        (part(b'name="a"'), part(b'name="a"', b"v", b"Content-Transfer-Encoding: base64")),
        (part(b'name="a"', b"\xff"), part(b'name="a"', b"\xfe")),
        (part(b'name="a"', b"v"), part(b'name="a"', b"v ")),
        (part(b'name="a"', b"\xff" * 65_537), part(b'name="a"', b"\xff" * 65_538)),
    ],
)
def test_forms_that_differ_have_different_keys(one: bytes, other: bytes) -> None:
    assert _key(multipart(one)) != _key(multipart(other))
    assert _key(multipart(one, other)) != _key(multipart(other, one))
    assert _key(multipart(one)) != _key(multipart(one, one))


@given(
    contents=st.lists(st.binary(max_size=20), min_size=1, max_size=4),
    boundaries=st.tuples(*[st.from_regex("[A-Za-z0-9]{24}", fullmatch=True)] * 2),
)
def test_no_boundary_changes_the_key(contents: list[bytes], boundaries: tuple[str, str]) -> None:
    parts = [part(b'name="a"', content) for content in contents]
    one, other = (
        _key(
            multipart(*parts, boundary=boundary.encode()),
            f"multipart/form-data; boundary={boundary}",
        )
        for boundary in boundaries
    )
    assert one == other
