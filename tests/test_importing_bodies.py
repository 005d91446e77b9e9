"""No import is shorter than its source: a body is stored as it was, or its exchange is refused.

Each spelling writes bodies as the tool does that it is called after.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_proxy import importing
from llm_proxy.exchange import Headers
from llm_proxy.importing import ImportSettings, RefusedItem, codings
from llm_proxy.importing.documents import open_document
from llm_proxy.importing.source import PARSED_BODY, NotImportable
from llm_proxy.routing import RoutingSettings
from test_importing_formats import netstring
from test_importing_hostile import tried

URL: Final = "https://api.openai.com/v1/chat/completions"
HOW: Final = ImportSettings(RoutingSettings(), "llm-proxy", "2026-01-01T00:00:00.000Z")
Fields = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A body, and how it was sent."""

    plain: bytes
    kind: str
    is_coded: bool = False
    is_counted: bool = True

    @property
    def wire(self) -> bytes:
        return gzip.compress(self.plain, mtime=0) if self.is_coded else self.plain

    @property
    def headers(self) -> Headers:
        coding = (("content-encoding", "gzip"),) if self.is_coded else ()
        length = (("content-length", str(len(self.wire))),) if self.is_counted else ()
        return (("content-type", self.kind), *coding, *length)

    @property
    def lists(self) -> dict[str, list[str]]:
        return {name: [value] for name, value in self.headers}


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    plain, kind = draw(
        st.one_of(
            st.tuples(st.text(max_size=40).map(str.encode), st.just("text/plain")),
            st.tuples(
                st.builds(
                    lambda value, indent: json.dumps(value, indent=indent).encode(),
                    _JSON,
                    st.sampled_from([None, 1]),
                ),
                st.just("application/json"),
            ),
            st.tuples(st.binary(max_size=60), st.just("application/octet-stream")),
            st.just((b"", "text/plain")),
        )
    )
    return Sent(plain, kind, draw(st.booleans()), draw(st.booleans()))


def text(data: bytes) -> str | bytes:
    """Bytes as text, where they are, as VCR.py and Go keep them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def base64(data: bytes) -> str:
    return b64encode(data).decode()


# How the tools keep the bodies of requests and of responses: fields of a message.


def as_text(it: Sent) -> Fields:
    return {"body": text(it.wire)}


def as_string(it: Sent) -> Fields:
    return {"body": {"string": text(it.wire)}}


def as_decoded_string(it: Sent) -> Fields:
    return {"body": {"string": text(it.plain)}}


def as_binary(it: Sent) -> Fields:
    return {"body": {"string": it.wire, "encoding": "ASCII-8BIT"}}


def as_base64_string(it: Sent) -> Fields:
    return {"body": {"base64_string": base64(it.wire), "encoding": "ASCII-8BIT"}}


def as_raw_gzip(it: Sent) -> Fields:
    return {"body": {"raw_gzip": base64(zlib.compress(it.wire))}}


def as_latin_1(it: Sent) -> Fields:
    return {"body": {"string": it.wire.decode("latin-1"), "encoding": "ISO-8859-1"}}


def as_encoding(it: Sent) -> Fields:
    return {"body": base64(it.wire), "bodyEncoding": "base64"}


def as_content(it: Sent) -> Fields:
    return {"content": it.plain.decode("utf-8", "ignore"), "http_version": "HTTP/1.1"}


def as_parsed(it: Sent) -> Fields:
    is_parsed = it.kind == "application/json"
    return {"parsed_body": json.loads(it.plain)} if is_parsed else as_string(it)


def as_parsed_text(it: Sent) -> Fields:
    return as_parsed(it) if it.kind == "application/json" else as_text(it)


# How the tools write an exchange of two such messages.


def dumped(document: Any) -> bytes:
    return yaml.dump(document).encode()


def in_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def vcr(asked: Fields, came: Fields, *, status: object = None, name: str = "uri") -> Fields:
    request = {"method": "POST", name: URL, **asked}
    response = {"status": status or {"code": 200, "message": "OK"}, **came}
    return {"version": 1, "interactions": [{"request": request, "response": response}]}


def ruby(asked: Fields, came: Fields) -> Fields:
    return {"http_interactions": vcr(asked, came)["interactions"], "recorded_with": "VCR 6.4.0"}


def go_vcr(asked: Fields, came: Fields) -> Fields:
    return vcr(asked, {"code": 200, **came}, status="200 OK", name="url")


def datadog(asked: Fields, came: Fields) -> Fields:
    [it] = vcr(asked, came, name="url")["interactions"]
    return dict(it)


def reel(asked: Fields, came: Fields) -> Fields:
    kept = {name: value for name, value in asked.items() if name != "headers"}
    request = {"method": "POST", "path": "/v1/x", "fingerprint": "f", **kept}
    return {"schema_version": 1, "request": request, "response": {"status": 200, **came}}


def har(asked: Fields, came: Fields) -> Fields:
    request = {"method": "POST", "url": URL, **asked}
    response = {"status": 200, "statusText": "OK", **came}
    return {"log": {"entries": [{"request": request, "response": response}]}}


def mitmproxy(asked: Fields, came: Fields) -> Fields:
    request = {"method": b"POST", "host": "api.openai.com", "path": b"/v1/x", **asked}
    response = {"status_code": 200, "reason": b"OK", **came}
    return {"version": 21, "type": "http", "request": request, "response": response}


def nock(asked: Fields, came: Fields) -> list[Fields]:
    return [{"scope": "https://api.openai.com:443", "method": "POST", "path": "/v1/x",
             "status": 200, **asked, **came}]  # fmt: skip


Spelled = Callable[[Sent, Sent], bytes]


def messages(
    write: Callable[[Any], bytes],
    document: Callable[[Fields, Fields], Any],
    request: Callable[[Sent], Fields],
    response: Callable[[Sent], Fields],
    asked: Sent,
    came: Sent,
) -> bytes:
    return write(
        document(
            {"headers": asked.lists, **request(asked)}, {"headers": came.lists, **response(came)}
        )
    )


def as_datadog(it: Sent) -> Fields:
    kept = text(it.plain)
    if isinstance(kept, bytes) or "\0" in kept:
        return {"body": "base64:" + base64(it.plain)}
    assume(not kept.startswith("base64:"))  # which the agent itself takes for base64
    return {"body": kept}


def as_reel(it: Sent) -> Fields:
    if not is_json(it.plain):
        return {"body": {"__reel_raw_base64__": base64(it.plain)} if it.plain else None}
    assume(it.plain.strip() != b"null")  # which a tape cannot tell from no body
    return {"body": json.loads(it.plain)}


def as_har(name: str, it: Sent) -> Fields:
    kept = text(it.plain)
    if isinstance(kept, bytes):
        return as_har_in_base64(name, it)
    return {name: {"text": kept, "size": len(it.plain)} if name == "content" else {"text": kept}}


def as_har_in_base64(name: str, it: Sent) -> Fields:
    return {name: {"text": base64(it.plain), "encoding": "base64"}}


def as_polly(name: str, it: Sent) -> Fields:
    if not it.is_coded:
        return as_har(name, it)
    pieces = [base64(it.wire[:9]), base64(it.wire[9:])]
    return {name: {"text": json.dumps(pieces), "encoding": "base64", "size": len(it.wire)}}


def as_nock(wire: bytes) -> Any:
    try:
        return json.loads(wire)
    except UnicodeDecodeError:
        return wire.hex()
    except ValueError:
        return text(wire) if isinstance(text(wire), str) else wire.hex()


def by_nock(asked: Sent, came: Sent) -> bytes:
    for it in (asked, came):  # what is quoted, a fixture cannot tell from text but by its length
        is_string = is_json(it.plain) and isinstance(json.loads(it.plain), str)
        assume(it.is_counted or not is_string)
    sent = {"body": as_nock(asked.wire), "reqheaders": dict(asked.headers)}
    response = as_nock(came.wire)
    if came.is_coded:
        response = [came.wire[:9].hex(), came.wire[9:].hex()]
    flag = not came.is_coded and isinstance(text(came.wire), bytes)
    raw = [word for pair in came.headers for word in pair]
    answer = {"response": response, "rawHeaders": raw, "responseIsBinary": flag}
    return in_json(nock(sent, answer))


def by_httprr(asked: Sent, came: Sent, *, is_chunked: bool = False) -> bytes:
    first = f"POST {URL} HTTP/1.1", "HTTP/1.1 200 OK"
    written: list[bytes] = []
    for line, it in zip(first, (asked, came), strict=True):
        headers, body = list(it.headers), it.wire
        if is_chunked:
            headers = [*(pair for pair in headers if pair[0] != "content-length"),
                       ("transfer-encoding", "chunked")]  # fmt: skip
            pieces = [item for item in (body[:5], body[5:]) if item]
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            body += b"0\r\n\r\n"
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        written.append(f"{line}\r\n{head}\r\n".encode() + body)
    sizes = b"%d %d\n" % (len(written[0]), len(written[1]))
    return b"httprr trace v1\n" + sizes + b"".join(written)


def in_two(name: str) -> tuple[Callable[[Sent], Fields], Callable[[Sent], Fields]]:
    spell = {"har": as_har, "har, base64": as_har_in_base64, "har, Polly.JS": as_polly}[name]
    return partial(spell, "postData"), partial(spell, "content")


def as_flow(it: Sent) -> Fields:
    return {"headers": [[name.encode(), value.encode()] for name, value in it.headers],
            "content": it.wire}  # fmt: skip


def spell(
    write: Callable[[Any], bytes],
    document: Callable[[Fields, Fields], Any],
    request: Callable[[Sent], Fields],
    response: Callable[[Sent], Fields] | None = None,
) -> Spelled:
    return partial(messages, write, document, request, response or request)


WHOLE: Final[Mapping[str, Spelled]] = MappingProxyType(
    {
        "vcr, text": spell(dumped, vcr, as_text, as_string),
        "vcr, decoded": spell(dumped, vcr, as_text, as_decoded_string),
        "vcr, binary": spell(dumped, vcr, as_text, as_binary),
        "vcr, base64_string": spell(dumped, vcr, as_text, as_base64_string),
        "vcr, parsed_body": spell(dumped, vcr, as_parsed_text, as_parsed),
        "vcr, bodyEncoding": spell(in_json, vcr, as_encoding),
        "vcr-ruby, binary": spell(dumped, ruby, as_binary),
        "vcr-ruby, base64_string": spell(in_json, ruby, as_base64_string),
        "vcr-ruby, ISO-8859-1": spell(dumped, ruby, as_latin_1),
        "vcr-ruby, by R": spell(dumped, ruby, as_raw_gzip),
        "go-vcr": spell(dumped, go_vcr, as_text),
        "go-vcr, bodyEncoding": spell(dumped, go_vcr, as_encoding),
        "datadog": spell(in_json, datadog, as_datadog),
        "reel": spell(in_json, reel, as_reel),
        "har": spell(in_json, har, *in_two("har")),
        "har, base64": spell(in_json, har, *in_two("har, base64")),
        "har, Polly.JS": spell(in_json, har, *in_two("har, Polly.JS")),
        "mitmproxy": spell(netstring, mitmproxy, as_flow),
        "httprr": by_httprr,
        "httprr, chunked": partial(by_httprr, is_chunked=True),
    }
)
"""Spellings that hold every body whole."""

LOSSY: Final[Mapping[str, Spelled]] = MappingProxyType(
    {"vcr, content": spell(dumped, vcr, as_text, as_content), "nock": by_nock}
)
"""Spellings that leave something open, or out: a body of theirs may be refused."""


def undone(coding: str, body: bytes) -> bytes:
    assert coding == "gzip"
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


def lost(data: bytes, asked: Sent, came: Sent) -> str:
    """Why its one exchange is refused; empty where both bodies are imported as they were sent."""
    [found] = importing.parse_recording(open_document(data)).exchanges
    if isinstance(found, RefusedItem):
        assert found.number == 1
        return found.reason
    it = codings.without_content_codings(found.exchange, undone)
    try:
        made = importing.make_cassette(it, HOW, "test")
    except NotImportable as error:
        return str(error)
    stored = b"".join(read.data for read in made.timed_body.reads)
    for body, source in ((it.request.body, asked.plain), (stored, came.plain)):
        if body != source:
            assert PARSED_BODY in it.losses
            assert json.loads(body) == json.loads(source)
    return ""


@pytest.mark.parametrize("name", WHOLE)
@given(sent(), sent())
def test_a_body_is_imported_as_it_was_sent(name: str, asked: Sent, came: Sent) -> None:
    assert lost(WHOLE[name](asked, came), asked, came) == ""


@pytest.mark.parametrize("name", LOSSY)
@given(sent(), sent())
def test_a_body_that_was_not_kept_whole_is_imported_as_it_was_sent_or_refused(
    name: str, asked: Sent, came: Sent
) -> None:
    why = lost(LOSSY[name](asked, came), asked, came)
    assert why == "" or "body" in why


_NAMES: Final = st.sampled_from(("content_b64", "rawBody", "data", "chunks", "text2")) | st.text(
    "abcdefgh", min_size=7, max_size=9
)
_VALUES: Final = st.one_of(
    st.sampled_from([True, "x", "text that is much longer"]),
    st.lists(st.text("xyz"), min_size=1),
    st.dictionaries(st.text("xyz"), st.text("xyz"), min_size=1),
)
DOCUMENTS: Final = {
    "vcr": (dumped, vcr), "vcr-ruby": (dumped, ruby), "go-vcr": (dumped, go_vcr),
    "datadog": (in_json, datadog), "reel": (in_json, reel), "har": (in_json, har),
    "mitmproxy": (netstring, mitmproxy), "nock": (in_json, nock),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
@given(_NAMES, _VALUES, st.booleans())
def test_an_exchange_with_a_field_that_is_not_known_is_refused_by_its_name(
    name: str, field: str, value: object, is_asked: bool
) -> None:
    write, document = DOCUMENTS[name]
    empty: Fields = {"content": b""} if name == "mitmproxy" else {}
    more = {field: value}
    data = write(document(empty | (more if is_asked else {}), empty | ({} if is_asked else more)))

    [found] = importing.parse_recording(open_document(data)).exchanges

    assert isinstance(found, RefusedItem)
    assert f"has a field {field}, which is not known" in found.reason


_FIELDS: Final = (
    "headers", "body", "bodyEncoding", "content", "parsed_body", "postData", "reqheaders",
    "response", "rawHeaders", "responseIsBinary", "stream_chunks", "status", "scope", "path", "url",
)  # fmt: skip
_OBJECTS: Final = st.dictionaries(
    st.sampled_from(("string", "encoding", "base64_string", "raw_gzip", "text", "params", "size")),
    _JSON,
)


@pytest.mark.parametrize("name", DOCUMENTS)
@given(st.sampled_from(_FIELDS), _JSON | _OBJECTS, st.booleans())
def test_whatever_stands_in_a_field_of_any_format_is_read_or_refused(
    name: str, field: str, value: object, is_asked: bool
) -> None:
    write, document = DOCUMENTS[name]
    more = {field: value}
    tried(write(document(more if is_asked else {}, {} if is_asked else more)))


def exchange(request: Fields, response: Fields) -> bytes:
    return in_json(vcr(request, response))


UNREAD: Final = {
    "an encoding": (exchange({}, {"body": "6869", "bodyEncoding": "hex"}),
                    "a body has the encoding hex, which is not known"),
    "a flawed encoding": (exchange({}, {"body": "%", "bodyEncoding": "base64"}),
                          "a body is no base64, as it should be"),
    "another object": (exchange({}, {"body": {"string": "a", "more": "b"}}),
                       "its body has a field more, which is not known and may be of a body"),
    "two bodies": (exchange({}, {"body": {"string": "a"}, "content": "b"}),
                   "it has two bodies, body and content: which is meant is not known"),
    "two strings": (exchange({}, {"body": {"string": "a", "base64_string": "Yg=="}}),
                    "it has two bodies: which is meant is not known"),
    "a file": (in_json(ruby({}, {"body": {"on_disk": "body.bin"}})),
               "a body is in a file of its own"),
    "fields": (in_json(ruby({"body": {"fields": {"a": "b"}}}, {})),
               "a body was kept as the fields of a form"),
    "characters": (in_json(ruby({}, {"body": {"string": "\u20ac", "encoding": "ISO-8859-1"}})),
                   "a body cannot be written in its encoding, ISO-8859-1"),
    "a form or JSON": (exchange({"body": {"a": "b"}}, {}),
                       "the body of its request was kept as an object, and may be a form or JSON"),
    "a form": (exchange({"headers": {"Content-Type": "application/x-www-form-urlencoded"},
                         "body": {"a": 1}}, {}),
               "a body of application/x-www-form-urlencoded was kept as an object, and is no JSON"),
    "bytes as text": (exchange({}, {"content": "a", "headers": {"Content-Length": "2"}}),
                      "its body was kept as text, without the bytes that are none"),
    "no request of go-vcr": (dumped(go_vcr({"content_length": 3}, {})),
                             "the body of its request was not kept"),
    "a size of HAR": (in_json(har({}, {"content": {"text": "", "size": 3}})),
                      "the body of its response was not kept"),
    "a part of HAR": (in_json(har({}, {"content": {"text": "ab", "size": 3}})),
                      "the body of its response was not kept whole: 2 bytes of 3"),
    "a request of HAR": (in_json(har({"bodySize": 3}, {})),
                         "the body of its request was not kept"),
    "messages of HAR": (in_json({"log": {"entries": [
                            har({}, {"content": {"size": 0}})["log"]["entries"][0]
                            | {"_eventSourceMessages": [{"data": "a"}]}]}}),
                        "the body of its response was kept as messages alone"),
    "an encoding of HAR": (in_json(har({}, {"content": {"text": "6869", "encoding": "hex"}})),
                           "a body has the encoding hex, which is not known"),
    "a file of HAR": (in_json(har({"postData": {"mimeType": "multipart/form-data", "params": [
                          {"name": "file", "fileName": "a.png"}]}}, {})),
                      "of the body of its request parameters were kept, and it is no plain form"),
    "two of reel": (in_json(reel({}, {"body": 1, "stream_chunks": [{"data": 1}]})),
                    "its response has two bodies, body and stream_chunks"),
    "no hex of nock": (in_json(nock({}, {"response": "x", "responseIsBinary": True})),
                       "a body is no hex, as it should be"),
    "text or hex of nock": (in_json(nock({"body": "ffee"}, {})),
                            ("the body of its request may be text, a string of JSON or hex: "
                             "nothing tells")),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_a_body_that_is_not_understood_is_refused_with_the_reason(name: str) -> None:
    data, why = UNREAD[name]
    assert list(importing.parse_recording(open_document(data)).exchanges) == [RefusedItem(1, why)]


def test_an_answer_of_which_the_head_alone_is_there_is_refused() -> None:
    none = Sent(b"", "text/plain")
    data = exchange({}, {"headers": {"Content-Length": "3"}, "body": {"string": ""}})
    assert lost(data, none, none) == "the body of its response was not kept: 3 bytes by its head"
