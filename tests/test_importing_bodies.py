"""Imports are lossless: a body is stored as it was sent, or its exchange is refused.

Each exchange writer writes bodies as the tool that it is named after.
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

import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import importing
from llm_proxy.exchange import Headers
from llm_proxy.importing import ImportSettings, RefusedItem, conversion
from llm_proxy.importing.file_parsing import parse_file_content
from llm_proxy.importing.source import PARSED_BODY, NotImportable
from llm_proxy.routing import RoutingSettings
from test_importing_formats import netstring
from test_importing_hostile import read_or_refuse

URL: Final = "https://api.openai.com/v1/chat/completions"
SETTINGS: Final = ImportSettings(RoutingSettings(), "llm-proxy", "2026-01-01T00:00:00.000Z")
Fields = dict[str, Any]


@dataclass(frozen=True)
class SentBody:
    """A body and how it was sent."""

    plain: bytes
    content_type: str
    is_coded: bool = False
    is_counted: bool = True

    @property
    def wire(self) -> bytes:
        return gzip.compress(self.plain, mtime=0) if self.is_coded else self.plain

    @property
    def headers(self) -> Headers:
        coding = (("content-encoding", "gzip"),) if self.is_coded else ()
        length = (("content-length", str(len(self.wire))),) if self.is_counted else ()
        return (("content-type", self.content_type), *coding, *length)

    @property
    def lists(self) -> dict[str, list[str]]:
        return {name: [value] for name, value in self.headers}


_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


_PLAIN_BODIES: Final = st.one_of(
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
sent_bodies: Final = st.builds(
    lambda body, is_coded, is_counted: SentBody(body[0], body[1], is_coded, is_counted),
    _PLAIN_BODIES,
    st.booleans(),
    st.booleans(),
)


def decode_if_text(data: bytes) -> str | bytes:
    """UTF-8 bytes as text and other bytes as they are, as VCR.py and Go store them."""
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


def to_base64(data: bytes) -> str:
    return b64encode(data).decode()


# The message fields in which the tools store the bodies of requests and responses.


def as_text(body: SentBody) -> Fields:
    return {"body": decode_if_text(body.wire)}


def as_string(body: SentBody) -> Fields:
    return {"body": {"string": decode_if_text(body.wire)}}


def as_decoded_string(body: SentBody) -> Fields:
    return {"body": {"string": decode_if_text(body.plain)}}


def as_binary(body: SentBody) -> Fields:
    return {"body": {"string": body.wire, "encoding": "ASCII-8BIT"}}


def as_base64_string(body: SentBody) -> Fields:
    return {"body": {"base64_string": to_base64(body.wire), "encoding": "ASCII-8BIT"}}


def as_raw_gzip(body: SentBody) -> Fields:
    return {"body": {"raw_gzip": to_base64(zlib.compress(body.wire))}}


def as_latin_1(body: SentBody) -> Fields:
    return {"body": {"string": body.wire.decode("latin-1"), "encoding": "ISO-8859-1"}}


def as_encoding(body: SentBody) -> Fields:
    return {"body": to_base64(body.wire), "bodyEncoding": "base64"}


def as_content(body: SentBody) -> Fields:
    return {"content": body.plain.decode("utf-8", "ignore"), "http_version": "HTTP/1.1"}


def as_parsed(body: SentBody) -> Fields:
    is_parsed = body.content_type == "application/json"
    return {"parsed_body": json.loads(body.plain)} if is_parsed else as_string(body)


def as_parsed_text(body: SentBody) -> Fields:
    return as_parsed(body) if body.content_type == "application/json" else as_text(body)


# The documents in which the tools store an exchange of two such messages.


def to_yaml(document: Any) -> bytes:
    return yaml.dump(document).encode()


def to_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def vcr(
    request_fields: Fields, response_fields: Fields, *, status: object = None, name: str = "uri"
) -> Fields:
    request = {"method": "POST", name: URL, **request_fields}
    response = {"status": status or {"code": 200, "message": "OK"}, **response_fields}
    return {"version": 1, "interactions": [{"request": request, "response": response}]}


def ruby(request_fields: Fields, response_fields: Fields) -> Fields:
    return {
        "http_interactions": vcr(request_fields, response_fields)["interactions"],
        "recorded_with": "VCR 6.4.0",
    }


def go_vcr(request_fields: Fields, response_fields: Fields) -> Fields:
    return vcr(request_fields, {"code": 200, **response_fields}, status="200 OK", name="url")


def datadog(request_fields: Fields, response_fields: Fields) -> Fields:
    [interaction] = vcr(request_fields, response_fields, name="url")["interactions"]
    return dict(interaction)


def reel(request_fields: Fields, response_fields: Fields) -> Fields:
    kept = {name: value for name, value in request_fields.items() if name != "headers"}
    request = {"method": "POST", "path": "/v1/x", "fingerprint": "f", **kept}
    return {"schema_version": 1, "request": request, "response": {"status": 200, **response_fields}}


def har(request_fields: Fields, response_fields: Fields) -> Fields:
    request = {"method": "POST", "url": URL, **request_fields}
    response = {"status": 200, "statusText": "OK", **response_fields}
    return {"log": {"entries": [{"request": request, "response": response}]}}


def mitmproxy(request_fields: Fields, response_fields: Fields) -> Fields:
    request = {"method": b"POST", "host": "api.openai.com", "path": b"/v1/x", **request_fields}
    response = {"status_code": 200, "reason": b"OK", **response_fields}
    return {"version": 21, "type": "http", "request": request, "response": response}


def nock(request_fields: Fields, response_fields: Fields) -> list[Fields]:
    return [{"scope": "https://api.openai.com:443", "method": "POST", "path": "/v1/x",
             "status": 200, **request_fields, **response_fields}]  # fmt: skip


ExchangeWriter = Callable[[SentBody, SentBody], bytes]


def write_exchange(
    write: Callable[[Any], bytes],
    document: Callable[[Fields, Fields], Any],
    request: Callable[[SentBody], Fields],
    response: Callable[[SentBody], Fields],
    request_body: SentBody,
    response_body: SentBody,
) -> bytes:
    return write(
        document(
            {"headers": request_body.lists, **request(request_body)},
            {"headers": response_body.lists, **response(response_body)},
        )
    )


def as_datadog(body: SentBody) -> Fields:
    kept = decode_if_text(body.plain)
    if isinstance(kept, bytes) or "\0" in kept:
        return {"body": "base64:" + to_base64(body.plain)}
    assume(not kept.startswith("base64:"))  # which the agent itself decodes as base64
    return {"body": kept}


def as_reel(body: SentBody) -> Fields:
    if not is_json(body.plain):
        return {"body": {"__reel_raw_base64__": to_base64(body.plain)} if body.plain else None}
    assume(body.plain.strip() != b"null")  # which a reel file cannot distinguish from no body
    return {"body": json.loads(body.plain)}


def as_har(name: str, body: SentBody) -> Fields:
    kept = decode_if_text(body.plain)
    if isinstance(kept, bytes):
        return as_har_in_base64(name, body)
    return {name: {"text": kept, "size": len(body.plain)} if name == "content" else {"text": kept}}


def as_har_in_base64(name: str, body: SentBody) -> Fields:
    return {name: {"text": to_base64(body.plain), "encoding": "base64"}}


def as_polly(name: str, body: SentBody) -> Fields:
    if not body.is_coded:
        return as_har(name, body)
    pieces = [to_base64(body.wire[:9]), to_base64(body.wire[9:])]
    return {name: {"text": json.dumps(pieces), "encoding": "base64", "size": len(body.wire)}}


def as_nock(wire: bytes) -> Any:
    try:
        return json.loads(wire)
    except UnicodeDecodeError:
        return wire.hex()
    except ValueError:
        return decode_if_text(wire) if isinstance(decode_if_text(wire), str) else wire.hex()


def write_nock(request_body: SentBody, response_body: SentBody) -> bytes:
    for body in (
        request_body,
        response_body,
    ):  # only its length distinguishes a JSON string from text
        is_string = is_json(body.plain) and isinstance(json.loads(body.plain), str)
        assume(body.is_counted or not is_string)
    request_fields = {"body": as_nock(request_body.wire), "reqheaders": dict(request_body.headers)}
    response = as_nock(response_body.wire)
    if response_body.is_coded:
        response = [response_body.wire[:9].hex(), response_body.wire[9:].hex()]
    flag = not response_body.is_coded and isinstance(decode_if_text(response_body.wire), bytes)
    raw = [word for pair in response_body.headers for word in pair]
    answer = {"response": response, "rawHeaders": raw, "responseIsBinary": flag}
    return to_json(nock(request_fields, answer))


def write_httprr(
    request_body: SentBody, response_body: SentBody, *, is_chunked: bool = False
) -> bytes:
    first_lines = f"POST {URL} HTTP/1.1", "HTTP/1.1 200 OK"
    written: list[bytes] = []
    for line, message in zip(first_lines, (request_body, response_body), strict=True):
        headers, body = list(message.headers), message.wire
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


def har_messages(name: str) -> tuple[Callable[[SentBody], Fields], Callable[[SentBody], Fields]]:
    as_har_body = {"har": as_har, "har, base64": as_har_in_base64, "har, Polly.JS": as_polly}[name]
    return partial(as_har_body, "postData"), partial(as_har_body, "content")


def as_flow(body: SentBody) -> Fields:
    return {"headers": [[name.encode(), value.encode()] for name, value in body.headers],
            "content": body.wire}  # fmt: skip


def exchange_writer(
    write: Callable[[Any], bytes],
    document: Callable[[Fields, Fields], Any],
    request: Callable[[SentBody], Fields],
    response: Callable[[SentBody], Fields] | None = None,
) -> ExchangeWriter:
    return partial(write_exchange, write, document, request, response or request)


LOSSLESS: Final[Mapping[str, ExchangeWriter]] = MappingProxyType(
    {
        "vcr, text": exchange_writer(to_yaml, vcr, as_text, as_string),
        "vcr, decoded": exchange_writer(to_yaml, vcr, as_text, as_decoded_string),
        "vcr, binary": exchange_writer(to_yaml, vcr, as_text, as_binary),
        "vcr, base64_string": exchange_writer(to_yaml, vcr, as_text, as_base64_string),
        "vcr, parsed_body": exchange_writer(to_yaml, vcr, as_parsed_text, as_parsed),
        "vcr, bodyEncoding": exchange_writer(to_json, vcr, as_encoding),
        "vcr-ruby, binary": exchange_writer(to_yaml, ruby, as_binary),
        "vcr-ruby, base64_string": exchange_writer(to_json, ruby, as_base64_string),
        "vcr-ruby, ISO-8859-1": exchange_writer(to_yaml, ruby, as_latin_1),
        "vcr-ruby, by R": exchange_writer(to_yaml, ruby, as_raw_gzip),
        "go-vcr": exchange_writer(to_yaml, go_vcr, as_text),
        "go-vcr, bodyEncoding": exchange_writer(to_yaml, go_vcr, as_encoding),
        "datadog": exchange_writer(to_json, datadog, as_datadog),
        "reel": exchange_writer(to_json, reel, as_reel),
        "har": exchange_writer(to_json, har, *har_messages("har")),
        "har, base64": exchange_writer(to_json, har, *har_messages("har, base64")),
        "har, Polly.JS": exchange_writer(to_json, har, *har_messages("har, Polly.JS")),
        "mitmproxy": exchange_writer(netstring, mitmproxy, as_flow),
        "httprr": write_httprr,
        "httprr, chunked": partial(write_httprr, is_chunked=True),
    }
)
"""Formats that store every body completely."""

LOSSY: Final[Mapping[str, ExchangeWriter]] = MappingProxyType(
    {"vcr, content": exchange_writer(to_yaml, vcr, as_text, as_content), "nock": write_nock}
)
"""Formats that are ambiguous or incomplete, so that a body may be refused."""

EMPTY_TEXT: Final = SentBody(b"", "text/plain", is_coded=True, is_counted=False)
EMPTY_JSON_STRING: Final = SentBody(b'""', "application/json", is_coded=False, is_counted=True)


def decode_gzip(coding: str, body: bytes) -> bytes:
    assert coding == "gzip"
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


def refusal_reason(data: bytes, request_body: SentBody, response_body: SentBody) -> str:
    """Why the only exchange is refused; empty if both bodies are imported as they were sent."""
    [found] = importing.parse_recording(parse_file_content(data)).exchanges
    if isinstance(found, RefusedItem):
        assert found.number == 1
        return found.reason
    exchange = conversion.decode_exchange_bodies(found.exchange, decode_gzip)
    try:
        cassette = importing.convert_to_cassette(exchange, SETTINGS, "test")
    except NotImportable as error:
        return str(error)
    stored = b"".join(read.received_bytes for read in cassette.reads)
    for body, source in (
        (exchange.request.body, request_body.plain),
        (stored, response_body.plain),
    ):
        if body != source:
            assert PARSED_BODY in exchange.losses
            assert json.loads(body) == json.loads(source)
    return ""


@each_row("name", LOSSLESS)
@given(sent_bodies, sent_bodies)
def test_a_body_is_imported_as_it_was_sent(
    name: str, request_body: SentBody, response_body: SentBody
) -> None:
    assert (
        refusal_reason(LOSSLESS[name](request_body, response_body), request_body, response_body)
        == ""
    )


@each_row("name", LOSSY)
@example(EMPTY_JSON_STRING, EMPTY_TEXT)
@given(sent_bodies, sent_bodies)
def test_a_body_in_a_lossy_format_is_imported_as_it_was_sent_or_refused(
    name: str, request_body: SentBody, response_body: SentBody
) -> None:
    why = refusal_reason(LOSSY[name](request_body, response_body), request_body, response_body)
    assert why == "" or "body" in why


_NAMES: Final = st.sampled_from(("content_b64", "rawBody", "data", "chunks", "text2")) | st.text(
    "abcdefgh", min_size=7, max_size=9
)
_VALUES: Final = st.one_of(
    st.sampled_from([True, "x", "text that is much longer"]),
    st.lists(st.text("xyz"), min_size=1),
    st.dictionaries(st.text("xyz"), st.text("xyz"), min_size=1),
)
DOCUMENT_FORMATS: Final = {
    "vcr": (to_yaml, vcr), "vcr-ruby": (to_yaml, ruby), "go-vcr": (to_yaml, go_vcr),
    "datadog": (to_json, datadog), "reel": (to_json, reel), "har": (to_json, har),
    "mitmproxy": (netstring, mitmproxy), "nock": (to_json, nock),
}  # fmt: skip


@given(field=_NAMES, value=_VALUES, is_request=st.booleans())
@each_row("name", DOCUMENT_FORMATS)
def test_an_exchange_with_a_field_that_is_not_known_is_refused_by_its_name(
    name: str, field: str, value: object, is_request: bool
) -> None:
    write, document = DOCUMENT_FORMATS[name]
    empty: Fields = {"content": b""} if name == "mitmproxy" else {}
    unknown_field = {field: value}
    data = write(
        document(
            empty | (unknown_field if is_request else {}),
            empty | ({} if is_request else unknown_field),
        )
    )

    [found] = importing.parse_recording(parse_file_content(data)).exchanges

    assert isinstance(found, RefusedItem)
    assert f"unknown field '{field}' in the" in found.reason


_FIELDS: Final = (
    "headers", "body", "bodyEncoding", "content", "parsed_body", "postData", "reqheaders",
    "response", "rawHeaders", "responseIsBinary", "stream_chunks", "status", "scope", "path", "url",
)  # fmt: skip
_OBJECTS: Final = st.dictionaries(
    st.sampled_from(("string", "encoding", "base64_string", "raw_gzip", "text", "params", "size")),
    _JSON,
)


@given(field=st.sampled_from(_FIELDS), value=_JSON | _OBJECTS, is_request=st.booleans())
@each_row("name", DOCUMENT_FORMATS)
def test_whatever_stands_in_a_field_of_any_format_is_read_or_refused(
    name: str, field: str, value: object, is_request: bool
) -> None:
    write, document = DOCUMENT_FORMATS[name]
    changed_field = {field: value}
    read_or_refuse(
        write(document(changed_field if is_request else {}, {} if is_request else changed_field))
    )


def vcr_recording(request: Fields, response: Fields) -> bytes:
    return to_json(vcr(request, response))


UNREADABLE: Final = {
    "an encoding": (vcr_recording({}, {"body": "6869", "bodyEncoding": "hex"}),
                    "a body has the unknown encoding 'hex'"),
    "a flawed encoding": (vcr_recording({}, {"body": "%", "bodyEncoding": "base64"}),
                          "a body is not valid base64"),
    "another object": (vcr_recording({}, {"body": {"string": "a", "more": "b"}}),
                       "unknown field 'more' in a body; this field may contain part of the body"),
    "two bodies": (vcr_recording({}, {"body": {"string": "a"}, "content": "b"}),
                   "a request or response has two bodies, in body and content"),
    "two strings": (vcr_recording({}, {"body": {"string": "a", "base64_string": "Yg=="}}),
                    "a body has more than one of the fields string, base64_string, raw_gzip"),
    "a file": (to_json(ruby({}, {"body": {"on_disk": "body.bin"}})),
               "a body is stored in a separate file, which import does not read"),
    "fields": (to_json(ruby({"body": {"fields": {"a": "b"}}}, {})),
               "a body is stored as form fields, which is not supported"),
    "characters": (to_json(ruby({}, {"body": {"string": "\u20ac", "encoding": "ISO-8859-1"}})),
                   "the text of a body cannot be encoded as 'ISO-8859-1'"),
    "a form or JSON": (vcr_recording({"body": {"a": "b"}}, {}),
                       ("cannot tell whether the request body is a form or JSON: the body is "
                        "stored as an object, and the request has no content type")),
    "a form": (vcr_recording({"headers": {"Content-Type": "application/x-www-form-urlencoded"},
                         "body": {"a": 1}}, {}),
               ("a body is stored as JSON, but its content type is "
                "application/x-www-form-urlencoded")),
    "bytes as text": (vcr_recording({}, {"content": "a", "headers": {"Content-Length": "2"}}),
                      ("a body may be incomplete: "
                       "the recording tool drops bytes that are not valid UTF-8")),
    "no request of go-vcr": (to_yaml(go_vcr({"content_length": 3}, {})),
                             "the request body was not recorded"),
    "a size of HAR": (to_json(har({}, {"content": {"text": "", "size": 3}})),
                      "the response body was not recorded"),
    "a part of HAR": (to_json(har({}, {"content": {"text": "ab", "size": 3}})),
                      "the response body is incomplete: 2 of 3 bytes"),
    "a request of HAR": (to_json(har({"bodySize": 3}, {})),
                         "the request body was not recorded"),
    "messages of HAR": (to_json({"log": {"entries": [
                            har({}, {"content": {"size": 0}})["log"]["entries"][0]
                            | {"_eventSourceMessages": [{"data": "a"}]}]}}),
                        ("the response body is stored only as event or WebSocket messages; "
                         "llm-proxy import cannot read these messages")),
    "an encoding of HAR": (to_json(har({}, {"content": {"text": "6869", "encoding": "hex"}})),
                           "a body has the unknown encoding 'hex'"),
    "a file of HAR": (to_json(har({"postData": {"mimeType": "multipart/form-data", "params": [
                          {"name": "file", "fileName": "a.png"}]}}, {})),
                      ("the request body is stored as form parameters, but the content type is not "
                       "application/x-www-form-urlencoded")),
    "two of reel": (to_json(reel({}, {"body": 1, "stream_chunks": [{"data": 1}]})),
                    "the response has two bodies, in body and stream_chunks"),
    "no list of reel": (to_json(reel({}, {"stream_chunks": {"data": 1}})),
                        "stream_chunks is not a list"),
    "no hex of nock": (to_json(nock({}, {"response": "x", "responseIsBinary": True})),
                       "a body is not valid hex"),
    "text or hex of nock": (to_json(nock({"body": "ffee"}, {})),
                            ("the request body is ambiguous: it may be text, a JSON string or hex, "
                             "and no header shows which")),
}  # fmt: skip


@each_row("name", UNREADABLE)
def test_a_body_that_is_not_understood_is_refused_with_the_reason(name: str) -> None:
    data, why = UNREADABLE[name]
    assert list(importing.parse_recording(parse_file_content(data)).exchanges) == [
        RefusedItem(1, why)
    ]


def test_a_response_of_which_only_the_head_was_kept_is_refused() -> None:
    empty_body = SentBody(b"", "text/plain")
    data = vcr_recording({}, {"headers": {"Content-Length": "3"}, "body": {"string": ""}})
    assert (
        refusal_reason(data, empty_body, empty_body)
        == "the response body is empty, but content-length is 3"
    )
