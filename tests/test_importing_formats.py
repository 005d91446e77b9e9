"""Import formats: one small file of each tool, as the tool writes it, becomes an exchange."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest

from case_tables import each_row
from llm_proxy import importing
from llm_proxy.exchange import Ending, Read
from llm_proxy.importing import NumberedExchange, RefusedItem
from llm_proxy.importing.file_parsing import parse_file_content
from llm_proxy.importing.formats.go_vcr import parse_go_duration_ms
from llm_proxy.importing.source import (
    FORM_PARAMETERS,
    NO_DATE,
    NO_EVENT_BYTES,
    NO_READ_TIMES,
    NO_TIMES,
    PARSED_BODY,
    SourceExchange,
    UnreadableFile,
)

REQUEST_BODY = '{"model":"gpt-4o","messages":[]}'
STREAM = 'data: {"a":1}\n\ndata: [DONE]\n\n'

VCR = """\
interactions:
- request:
    body: '{"model":"gpt-4o","messages":[]}'
    headers:
      Accept: &kind
      - text/event-stream
      Content-Type:
      - application/json
    method: POST
    uri: https://api.openai.com/v1/chat/completions?beta=1
  response:
    body:
      string: "data: {\\"a\\":1}\\n\\ndata: [DONE]\\n\\n"
    headers:
      Content-Type: *kind
      Date:
      - Fri, 07 Mar 2025 02:12:29 GMT
    status:
      code: 200
      message: OK
version: 1
"""

VCR_RUBY = """\
---
http_interactions:
- request:
    method: post
    uri: https://api.openai.com/v1/chat/completions
    body:
      encoding: UTF-8
      string: '{"model":"gpt-4o","messages":[]}'
    headers:
      Content-Type:
      - application/json
  response:
    status:
      code: 200
      message: OK
    headers:
      Content-Type:
      - text/event-stream
    body:
      encoding: ASCII-8BIT
      string: !binary |-
        ZGF0YTogeyJhIjoxfQoKZGF0YTogW0RPTkVdCgo=
  recorded_at: Mon, 08 Jun 2026 18:46:15 GMT
recorded_with: VCR 6.4.0
"""

VCR_R = """\
http_interactions:
- request:
    method: POST
    uri: https://api.openai.com/v1/chat/completions
    body:
      string: '{"model":"gpt-4o","messages":[]}'
  response:
    status: 200
    headers:
      content-type: text/event-stream
    body:
      string: "data: {\\"a\\":1}\\n\\ndata: [DONE]\\n\\n"
  recorded_at: 2026-08-02 17:44:13
recorded_with: VCR-vcr/2.1.0
"""

GO_VCR_1 = """\
---
version: 1
interactions:
- request:
    body: '{"model":"gpt-4o","messages":[]}'
    form: {}
    headers:
      Content-Type:
      - application/json
    url: https://api.openai.com/v1/chat/completions
    method: POST
  response:
    body: "data: {\\"a\\":1}\\n\\ndata: [DONE]\\n\\n"
    headers:
      Content-Type:
      - text/event-stream
    status: 200 OK
    code: 200
    duration: ""
"""

GO_VCR_2 = """\
---
version: 2
interactions:
    - id: 0
      request:
        proto: HTTP/1.1
        content_length: 32
        host: api.openai.com
        body: '{"model":"gpt-4o","messages":[]}'
        headers:
            Content-Type:
                - application/json
        url: https://api.openai.com/v1/chat/completions
        method: POST
      response:
        proto: HTTP/2.0
        content_length: -1
        uncompressed: true
        body: "data: {\\"a\\":1}\\n\\ndata: [DONE]\\n\\n"
        headers:
            Content-Encoding:
                - gzip
            Content-Type:
                - text/event-stream
        status: 200 OK
        code: 200
        duration: 1.5s
"""


def httprr(request_body: str = REQUEST_BODY, response_body: str = STREAM, head: str = "") -> bytes:
    request = (
        "POST https://api.openai.com/v1/chat/completions HTTP/1.1\r\nHost: api.openai.com\r\n"
        f"Content-Type: application/json\r\n\r\n{request_body}"
    ).encode()
    response = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{head}\r\n{response_body}"
    ).encode()
    return b"httprr trace v1\n%d %d\n" % (len(request), len(response)) + request + response


def har(**changes: Any) -> bytes:
    entry = {
        "startedDateTime": "2026-05-15T12:23:11.250+02:00",
        "time": 1010,
        "timings": {"send": 10, "wait": 400, "receive": 600},
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/chat/completions",
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "postData": {"mimeType": "application/json", "text": REQUEST_BODY},
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "headers": [{"name": "content-type", "value": "text/event-stream"}],
            "content": {
                "mimeType": "text/event-stream",
                "text": base64.b64encode(STREAM.encode()).decode(),
                "encoding": "base64",
            },
        },
    }
    return json.dumps({"log": {"version": "1.2", "entries": [entry | changes]}}).encode()


def netstring(value: Any) -> bytes:
    """Encode a value as mitmproxy does."""
    match value:
        case None:
            text, kind = b"", b"~"
        case bool():
            text, kind = str(value).lower().encode(), b"!"
        case int():
            text, kind = str(value).encode(), b"#"
        case float():
            text, kind = repr(value).encode(), b"^"
        case str():
            text, kind = value.encode(), b";"
        case bytes():
            text, kind = value, b","
        case dict():
            text = b"".join(netstring(name) + netstring(item) for name, item in value.items())
            kind = b"}"
        case _:
            text, kind = b"".join(map(netstring, value)), b"]"
    return b"%d:%b%b" % (len(text), text, kind)


def flow(**changes: Any) -> bytes:
    request = {
        "method": b"POST",
        "scheme": b"https",
        "host": "api.openai.com",
        "port": 443,
        "path": b"/v1/chat/completions",
        "headers": [[b"content-type", b"application/json"]],
        "content": REQUEST_BODY.encode(),
        "timestamp_start": 1700000000.0,
        "timestamp_end": 1700000000.1,
    }
    response = {
        "status_code": 200, "reason": b"OK", "headers": [[b"content-type", b"text/event-stream"]],
        "content": STREAM.encode(), "timestamp_start": 1700000000.5,
        "timestamp_end": 1700000001.1,
    }  # fmt: skip
    plain = {"version": 21, "type": "http", "error": None, "websocket": None}
    return netstring(plain | {"request": request, "response": response} | changes)


def reel(**response: Any) -> bytes:
    chunks = [
        {"data": {"a": 1}, "t_offset_ms": 0, "event": None},
        {"data": "[DONE]", "t_offset_ms": 120, "event": None},
    ]
    entry = {
        "schema_version": 1, "id": "1", "ts": "2026-05-15T10:23:11Z", "provider": "openai",
        "request": {"method": "POST", "path": "/v1/chat/completions", "fingerprint": "f",
                    "body": json.loads(REQUEST_BODY)},
        "response": {"status": 200, "headers": {"content-type": "text/event-stream"},
                     "body": None, "stream_chunks": chunks} | response,
        "meta": {},
    }  # fmt: skip
    first = {"match": {"mode": "normalized"}}
    return b"\n".join(json.dumps(item).encode() for item in (first, entry)) + b"\n"


VCR_AIOHTTP = VCR.replace(
    "      Accept: &kind\n      - text/event-stream\n      Content-Type:\n",
    "      ? !!python/object/new:multidict._multidict.istr\n      - Accept\n"
    "      : &kind [text/event-stream]\n"
    "      ? !!python/object/new:multidict._multidict.istr\n      - Content-Type\n      :\n",
)

VCR_HTTPX = (
    VCR.replace("    body:\n      string: ", "    content: ")
    .replace("    status:\n      code: 200\n      message: OK\n", "    status_code: 200\n")
    .replace("version: 1", "    http_version: HTTP/1.1\nversion: 1")
)


def nock(**changes: Any) -> bytes:
    fixture = {
        "scope": "https://api.openai.com:443", "method": "POST", "path": "/v1/chat/completions",
        "body": json.loads(REQUEST_BODY), "status": 200, "response": STREAM,
        "rawHeaders": ["content-type", "text/event-stream",
                       "Date", "Fri, 07 Mar 2025 02:12:29 GMT"],
        "responseIsBinary": False,
    }  # fmt: skip
    return json.dumps([fixture | changes]).encode()


def datadog(request_body: str = REQUEST_BODY, response_body: str = STREAM) -> bytes:
    request = {
        "method": "POST", "url": "https://api.openai.com/v1/chat/completions",
        "headers": {"Content-Type": "application/json"}, "body": request_body,
    }  # fmt: skip
    response = {
        "status": {"code": 200, "message": "OK"}, "headers": {"Content-Type": "text/event-stream"},
        "body": response_body,
    }  # fmt: skip
    return json.dumps({"request": request, "response": response}, indent=2).encode()


SOURCES = {
    "vcr": VCR.encode(),
    "vcr, of aiohttp": VCR_AIOHTTP.encode(),
    "vcr, of httpx": VCR_HTTPX.encode(),
    "vcr-ruby": VCR_RUBY.encode(),
    "vcr-ruby, by R": VCR_R.encode(),
    "go-vcr, version 1": GO_VCR_1.encode(),
    "go-vcr, version 2": GO_VCR_2.encode(),
    "httprr": httprr(),
    "har": har(),
    "mitmproxy": flow(),
    "reel": reel(),
    "nock": nock(),
    "datadog": datadog(),
}


def read_exchanges(data: bytes) -> list[NumberedExchange | RefusedItem]:
    return list(importing.parse_recording(parse_file_content(data)).exchanges)


def only_exchange(data: bytes) -> SourceExchange:
    [result] = read_exchanges(data)
    assert isinstance(result, NumberedExchange), result
    return result.exchange


def refusals(data: bytes) -> list[tuple[int, str]]:
    return [
        (item.number, item.reason) for item in read_exchanges(data) if isinstance(item, RefusedItem)
    ]


@each_row("name", SOURCES)
def test_each_format_is_detected_from_the_file_contents(name: str) -> None:
    recording = importing.parse_recording(parse_file_content(SOURCES[name]))
    exchange = only_exchange(SOURCES[name])

    assert recording.format.name == name.partition(",")[0]
    assert (exchange.request.method, exchange.request.path) == ("POST", "/v1/chat/completions")
    assert exchange.host == "api.openai.com"
    assert exchange.request.body == REQUEST_BODY.encode()
    assert exchange.status == 200
    assert exchange.response_body == STREAM.encode()


@each_row("name", SOURCES)
def test_a_file_may_be_gzipped_whatever_it_is(name: str) -> None:
    packed = gzip.compress(SOURCES[name])
    assert only_exchange(packed) == only_exchange(SOURCES[name])


@each_row(
    ("name", "losses", "recorded"),
    [
        ("vcr", (NO_TIMES,), "2025-03-07T02:12:29.000Z"),
        ("vcr-ruby", (NO_TIMES,), "2026-06-08T18:46:15.000Z"),
        ("vcr-ruby, by R", (NO_TIMES,), "2026-08-02T17:44:13.000Z"),
        ("go-vcr, version 1", (NO_TIMES, NO_DATE), ""),
        ("go-vcr, version 2", (NO_READ_TIMES, NO_DATE), ""),
        ("httprr", (NO_TIMES, NO_DATE), ""),
        ("har", (NO_READ_TIMES,), "2026-05-15T10:23:11.250Z"),
        ("mitmproxy", (NO_READ_TIMES,), "2023-11-14T22:13:20.100Z"),
        ("reel", (NO_EVENT_BYTES, PARSED_BODY), "2026-05-15T10:23:11.000Z"),
        ("nock", (NO_TIMES, PARSED_BODY), "2025-03-07T02:12:29.000Z"),
        ("datadog", (NO_TIMES, NO_DATE), ""),
    ],
)
def test_information_missing_from_a_file_is_reported_as_losses(
    name: str, losses: Sequence[object], recorded: str
) -> None:
    exchange = only_exchange(SOURCES[name])
    assert (exchange.losses, exchange.recorded_at) == (losses, recorded)


def test_the_times_that_a_file_holds_are_kept() -> None:
    times = {name: only_exchange(data) for name, data in SOURCES.items()}
    assert times["go-vcr, version 2"].head_at_ms == 1500
    assert (times["har"].head_at_ms, times["har"].end_at_ms) == (400, 1000)
    assert times["mitmproxy"].head_at_ms == pytest.approx(400, abs=0.01)
    assert times["mitmproxy"].end_at_ms == pytest.approx(1000, abs=0.01)
    assert times["reel"].reads == (
        Read(0.0, b'data: {"a":1}\n\n'),
        Read(120.0, b"data: [DONE]\n\n"),
    )


@each_row(
    ("text", "ms"),
    [("342.058959ms", 342.058959), ("1m2.5s", 62500), ("1h", 3.6e6), ("15µs", 0.015),
     (1_500_000, 1.5), ("", None), ("soon", None), ("0s", None), (None, None)],
)  # fmt: skip
def test_a_duration_of_gos_is_read(text: object, ms: float | None) -> None:
    assert parse_go_duration_ms(text) == (ms if ms is None else pytest.approx(ms))


def test_a_cassette_of_vcr_py_may_be_json() -> None:
    document = {
        "version": 1,
        "interactions": [
            {
                "request": {
                    "method": "POST",
                    "uri": "https://h/v1",
                    "body": REQUEST_BODY,
                    "headers": {},
                },
                "response": {
                    "status": {"code": 200, "message": "OK"},
                    "headers": {},
                    "body": {"base64_string": base64.b64encode(b"\xff\x00").decode()},
                },
            }
        ],
    }
    assert only_exchange(json.dumps(document).encode()).response_body == b"\xff\x00"


def test_a_body_that_was_kept_parsed_is_written_anew() -> None:
    kept = VCR.replace(
        """    body: '{"model":"gpt-4o","messages":[]}'\n""",
        "    parsed_body: {model: gpt-4o, id: 12e5, on: no, n: 1, t: 0.5, none: null}\n",
    )
    exchange = only_exchange(kept.encode())
    assert json.loads(exchange.request.body) == {
        "model": "gpt-4o", "id": "12e5", "on": "no", "n": 1, "t": 0.5, "none": None,
    }  # fmt: skip
    assert PARSED_BODY in exchange.losses


def test_text_in_quotes_stays_text_and_bytes_stay_bytes() -> None:
    kept = VCR.replace(
        """    body: '{"model":"gpt-4o","messages":[]}'\n""", "    body: !!binary |\n      /wA=\n"
    )
    assert only_exchange(kept.encode()).request.body == b"\xff\x00"
    assert only_exchange(VCR.replace('"data: {', '"12: {').encode()).response_body.startswith(
        b"12: {"
    )


@each_row(
    ("body", "kept"),
    [
        ("!!python/object/new:_io.BytesIO {state: !!python/tuple [!!binary /wA=, 0, null]}",
         b"\xff\x00"),
        ("!!python/object/new:_io.BytesIO {state: !!python/tuple [text, 0, null]}", b"text"),
        ('!!python/object/apply:builtins.bytearray ["\\xFF", latin-1]', b"\xff"),
        ("!!python/object/apply:builtins.bytearray []", b""),
        ("!!python/object/apply:builtins.iter {args: [[!!binary /wA=, !!binary /wA=]], state: 0}",
         b"\xff\x00\xff\x00"),
        ("!!python/object/new:multidict._multidict_py.istr {args: [text]}", b"text"),
        ("!!python/bytes /wA=", b"\xff\x00"),
    ],
)  # fmt: skip
def test_text_and_bytes_that_vcr_py_keeps_as_objects_are_read(body: str, kept: bytes) -> None:
    data = VCR.replace("""body: '{"model":"gpt-4o","messages":[]}'""", f"body: {body}")
    assert only_exchange(data.encode()).request.body == kept


@each_row(
    "tag",
    [
        "!!python/object:aiohttp.formdata.FormData {_fields: []}",
        "!!python/object/apply:os.system [id]",
        "!!python/object/new:_io.BytesIO {state: [0]}",
        "!!python/object/new:_io.BytesIO {other: [text]}",
        "!!python/object/apply:builtins.bytearray [text, cp037]",
        "!!python/object/apply:builtins.iter [[1]]",
        "!!python/object/apply:builtins.eval [text]",
        "!!python/object/new:os.istr [text]",
        "!!python/name:os.system x",
    ],
)
def test_an_exchange_with_an_object_of_a_program_is_refused_and_the_others_are_not(
    tag: str,
) -> None:
    body, name = """body: '{"model":"gpt-4o","messages":[]}'""", tag.partition(" ")[0]
    spoilt = VCR.replace(body, f"body: {tag}")
    why = f"line 3: the YAML tag {name} is for a language-specific object"
    why += ", which is not supported"
    assert refusals(spoilt.encode()) == [(1, why)]
    both = VCR.replace("version: 1\n", "") + spoilt.partition("\n")[2].replace("*kind", "x")
    assert [
        number for number, _ in refusals(both.replace("&kind", "").replace("*kind", "x").encode())
    ] == [2]


def test_chunks_that_a_program_sent_are_no_part_of_its_body() -> None:
    chunked = VCR.replace(
        """body: '{"model":"gpt-4o","messages":[]}'""", 'body: "2\\r\\nhi\\r\\n0\\r\\n\\r\\n"'
    ).replace("Accept: &kind\n", "Transfer-Encoding: [chunked]\n      Accept: &kind\n")
    assert only_exchange(chunked.encode()).request.body == b"hi"


def test_a_body_may_hold_what_looks_like_yaml() -> None:
    assert (
        only_exchange(httprr(response_body="interactions:\n- [\n")).response_body
        == b"interactions:\n- [\n"
    )


def test_a_file_of_two_documents_is_refused() -> None:
    with pytest.raises(
        UnreadableFile, match=r"^line 22: the file contains more than one YAML document; save each"
    ):
        read_exchanges((VCR + "---\n" + VCR).encode())


def test_a_document_with_a_request_is_not_reported_as_a_lone_answer() -> None:
    with pytest.raises(UnreadableFile, match=r"^unknown format; supported: "):
        read_exchanges(b'{"request": {"to": "h"}, "response": {"text": "hi"}}')


@each_row(
    ("changes", "body"),
    [
        ({"response": {"a": [1]}}, b'{"a":[1]}'),
        ({"response": "ff00", "responseIsBinary": True}, b"\xff\x00"),
        ({"response": ["ff", "00"], "rawHeaders": ["content-encoding", "x"]}, b"\xff\x00"),
        ({"response": ["ff", "00"]}, b'["ff","00"]'),
        ({"response": ["a", "b"], "rawHeaders": ["content-encoding", "x"]}, b'["a","b"]'),
        ({"response": "ff00"}, b"ff00"),
        ({"response": ""}, b""),
        ({"response": None}, b"null"),
        ({"response": "hi", "rawHeaders": {"content-type": "application/json",
                                           "content-length": "4"}}, b'"hi"'),
        ({"response": "hi", "rawHeaders": ["content-type", "application/json",
                                           "content-length", "2"]}, b"hi"),
        ({"status": None, "reply": "200", "headers": {"content-type": "text/plain"}}, None),
    ],
)  # fmt: skip
def test_a_fixture_of_nock_keeps_bodies_in_many_ways(
    changes: dict[str, Any], body: bytes | None
) -> None:
    fixture = nock(**changes)
    if "reply" in changes:
        fixture = fixture.replace(b'"status": null, ', b"")
    assert only_exchange(fixture).response_body == (STREAM.encode() if body is None else body)


def test_bytes_of_datadogs_test_agent_are_in_base64() -> None:
    exchange = only_exchange(datadog("base64:/wA=", "base64:AAE="))
    assert (exchange.request.body, exchange.response_body) == (b"\xff\x00", b"\x00\x01")


def test_a_trace_of_httprr_may_be_chunked() -> None:
    chunked = f"{len(STREAM):x}\r\n{STREAM}\r\n0\r\n\r\n"
    head = "Transfer-Encoding: chunked\r\n"
    assert only_exchange(httprr(response_body=chunked, head=head)).response_body == STREAM.encode()
    assert refusals(httprr(response_body=chunked[:-6], head=head)) == [
        (1, "the response body is truncated inside a chunk")
    ]
    assert (
        only_exchange(
            httprr(response_body=chunked[:-2] + "x-a: b\r\n\r\n", head=head)
        ).response_body
        == STREAM.encode()
    )
    assert refusals(httprr(response_body=chunked + "more", head=head)) == [
        (1, "unexpected data after the last chunk of the response")
    ]


def test_a_form_that_was_kept_as_parameters_is_written_anew() -> None:
    request = {
        "method": "POST",
        "url": "https://h/form",
        "headers": [],
        "postData": {"params": [{"name": "a", "value": "1 2"}, {"name": "b", "value": "ü"}]},
    }
    exchange = only_exchange(har(request=request))
    assert exchange.request.body == b"a=1+2&b=%C3%BC"
    assert FORM_PARAMETERS in exchange.losses


@each_row(
    ("text", "size", "body"),
    [
        ("\u00e2\u20ac", 5, "\u00e2\u20ac".encode()),
        ("caf\u00c3\u00a9", 5, b"caf\xc3\xa9"),
        ("caf\u00e9", 4, b"caf\xc3\xa9"),
        ("caf\u00e9", 5, b"caf\xc3\xa9"),
        ("\x00\x00\u00ab", 3, b"\x00\x00\xab"),
        ("caf\u00c3\u00a9", None, "caf\u00c3\u00a9".encode()),
    ],
    ids=["other", "UTF-8 as Latin-1", "characters counted", "bytes counted", "binary", "no size"],
)
def test_bytes_that_became_characters_are_bytes_again(
    text: str, size: int | None, body: bytes
) -> None:
    content = {"mimeType": "text/event-stream", "text": text, "size": size}
    response = {"status": 200, "statusText": "OK", "headers": [], "content": content}
    assert only_exchange(har(response=response)).response_body == body


@each_row(
    ("response", "why"),
    [
        ({"status": 0, "_error": "net::ERR_ABORTED"}, "no response was recorded: net::ERR_ABORTED"),
        ({"status": 101}, "the response status is 101; it must be from 200 to 999"),
        ({}, "the response has no valid status"),
        ({"status": 200, "content": {"size": 9}}, "the response body was not recorded"),
        (None, "the response is missing or not an object"),
    ],
)
def test_an_exchange_without_an_answer_is_refused_with_its_number(
    response: object, why: str
) -> None:
    assert refusals(har(response=response)) == [(1, why)]


@each_row("url", [None, " ", 5])
def test_an_exchange_without_a_url_is_refused(url: object) -> None:
    assert refusals(har(request={"method": "GET", "url": url})) == [(1, "the request has no URL")]


def test_flows_that_are_no_exchange_are_refused_and_the_others_are_not() -> None:
    data = b"".join(
        (
            flow(),
            flow(response=None, error={"msg": "no route", "timestamp": 1.0}),
            flow(type="tcp"),
            flow(websocket={"messages": []}),
            flow(),
        )
    )
    assert [item.number for item in read_exchanges(data)] == [1, 2, 3, 4, 5]
    assert refusals(data) == [
        (2, "no response was recorded: no route"),
        (3, "unsupported flow type 'tcp'; only HTTP flows can be imported"),
        (4, "the flow is a WebSocket connection, which cannot be imported"),
    ]


def test_a_flow_that_broke_off_keeps_its_ending() -> None:
    broken = only_exchange(flow(error={"msg": "peer closed", "timestamp": 1700000001.2}))
    assert broken.ending is Ending.FIN


@each_row(
    ("data", "beginning"),
    [
        (STREAM.encode(), "the file contains only a response"),
        (b'{"candidates":[]}', "the file contains only a response"),
        (b'{"choices":[]}\n{"choices":[]}\n', "the file contains only a response"),
        (b"# Notes\n", "unknown format; supported: "),
        (b"", "unknown format; supported: "),
        (b"version: 1\ninteractions: []\n", "unknown format; supported: "),
    ],
)  # fmt: skip
def test_a_file_without_requests_is_refused_with_the_reason(data: bytes, beginning: str) -> None:
    with pytest.raises(UnreadableFile, match=f"^{beginning}"):
        list(importing.parse_recording(parse_file_content(data)).exchanges)
