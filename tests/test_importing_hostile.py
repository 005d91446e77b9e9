"""Import of malformed or hostile files: they are refused with a reason that names the place."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import importing
from llm_proxy.cassette import parse_cassette, spool
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Request
from llm_proxy.importing import (
    ImportSettings,
    NumberedExchange,
    RefusedItem,
    conversion,
    fields,
    file_parsing,
    formats,
)
from llm_proxy.importing.file_parsing import parse_file_content, parse_yaml
from llm_proxy.importing.source import (
    NotImportable,
    SourceExchange,
    SourceMessage,
    UnreadableFile,
)
from llm_proxy.routing import RoutingSettings
from llm_proxy.yaml_composer import MAX_DEPTH
from test_importing_formats import SOURCES, VCR, flow, netstring, reel

TOO_DEEP = f"values are nested more than {MAX_DEPTH} levels deep"
NO_TAG = "is for a language-specific object, which is not supported"
SETTINGS = ImportSettings(RoutingSettings(), "llm-proxy", "2026-01-01T00:00:00.000Z")


def read_or_refuse(data: bytes) -> None:
    """Read a whole file as an import does; ignore refusals."""
    try:
        for result in importing.parse_recording(parse_file_content(data)).exchanges:
            if isinstance(result, NumberedExchange):
                try:
                    plain = conversion.decode_exchange_bodies(result.exchange, lambda *_: None)
                    cassette = importing.convert_to_cassette(plain, SETTINGS, "test")
                    lines = spool.cassette_lines_from_spool(cassette.to_spool_content("library"))
                    parse_cassette("file", b"".join(lines))
                except (NotImportable, CassetteError):
                    continue
    except UnreadableFile:
        return


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


@given(st.sampled_from(sorted(SOURCES)), st.data())
def test_a_recording_that_was_spoilt_anywhere_is_read_or_refused(
    name: str, data: st.DataObject
) -> None:
    recording = SOURCES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(recording) - 1))
        cut = data.draw(st.integers(0, 8))
        recording = recording[:at] + data.draw(st.binary(max_size=8)) + recording[at + cut :]
    read_or_refuse(recording)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(_JSON, st.sampled_from(["request", "response"]))
def test_any_value_in_a_field_is_read_or_refused(value: object, field: str) -> None:
    plain: dict[str, dict[str, object]] = {
        "request": {"uri": "https://h/", "method": "GET"},
        "response": {"status": 200},
    }
    changes = value if isinstance(value, dict) else {"body": value}
    interaction = plain | {field: {**plain[field], **changes}}
    read_or_refuse(json.dumps({"interactions": [interaction], "version": 1}).encode())


def refusal_reason(data: bytes) -> str:
    with pytest.raises(UnreadableFile) as refused:
        list(importing.parse_recording(parse_file_content(data)).exchanges)
    return str(refused.value)


def test_aliases_that_repeat_each_other_are_counted_in_full() -> None:
    bomb = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )

    # Without a count, the 9 ** 12 values would outlast the time limit of a test.
    assert refusal_reason(bomb.encode()).startswith("line 8: the values exceed")


@each_row(
    ("text", "sentence"),
    [
        ("version: 1\na: &a [*a]\n", "line 2: alias *a does not refer to an earlier anchor"),
        ("version: 1\na: !!python/object/apply:os.system [id]\n",
         f"line 2: the YAML tag !!python/object/apply:os.system {NO_TAG}"),
        ("version: 1\na: !!python/name:os.system x\n",
         f"line 2: the YAML tag !!python/name:os.system {NO_TAG}"),
        ("version: 1\na: !!binary '%'\n", "line 2: invalid base64"),
        ("version: 1\na: 'x\n", "line 3: invalid YAML: found unexpected end of stream"),
        ("version: 1\n? [a]\n: b\n", "line 2: a field name is not text"),
        ("version: 1\na: " + "[" * 200, f"line 2: {TOO_DEEP}"),
    ],
)  # fmt: skip
def test_yaml_is_refused_with_its_line(text: str, sentence: str) -> None:
    assert refusal_reason(text.encode()) == sentence


def test_numbers_and_words_that_tools_leave_without_quotes_mean_what_they_meant() -> None:
    text = "[1, -2, 0.5, 1.0e-05, 1e3, 0x10, 010, yes, 12:30, 2026-01-01, true, null, ~, .5, '1']"
    assert parse_yaml(text.encode()) == [
        1, -2, 0.5, 1e-05, "1e3", "0x10", "010", "yes", "12:30", "2026-01-01", True, None, None,
        ".5", "1",
    ]  # fmt: skip


@each_row(
    ("data", "sentence"),
    [
        (flow()[:-9], "byte 0: the file is truncated"),
        (netstring({"a": 1}) + b"9:x", "byte 11: the file is truncated"),
        (netstring({"a": 1}) + b"x", "byte 11: expected a size"),
        (b"10:1:a;3:1x2#}", "byte 7: unknown value type"),
        (netstring({"a": 1})[:-2] + b"?}", "byte 6: unknown value type"),
    ],
)
def test_a_flow_file_is_refused_with_its_byte(data: bytes, sentence: str) -> None:
    assert refusal_reason(data) == sentence


def test_values_of_a_flow_that_stand_too_deep_are_refused() -> None:
    deep: object = 1
    for _ in range(60):
        deep = [deep]
    assert "more than 50 levels deep" in refusal_reason(netstring({"a": deep}))


def test_a_file_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_parsing, "MAX_FILE_BYTES", 1000)
    assert (
        refusal_reason(gzip.compress(bytes(5000)))
        == "the file decompresses to more than 1,000 bytes"
    )
    assert refusal_reason(bytes(1001)) == "the file is larger than 1,000 bytes"
    assert refusal_reason(gzip.compress(b"x" * 500)[:-9]) == "the gzip data is truncated"
    assert refusal_reason(b"\x1f\x8bxxxxxxxxxxxx").startswith("invalid gzip data: ")


def test_a_session_cannot_be_chosen_by_a_file() -> None:
    text = VCR.replace("/v1/chat", "/@other/~groq/v1/chat")
    [result] = importing.parse_recording(parse_file_content(text.encode())).exchanges
    assert isinstance(result, NumberedExchange)

    cassette = importing.convert_to_cassette(result.exchange, SETTINGS, "vcr")

    assert (cassette.meta.session, cassette.meta.provider) == ("default", "openai")
    assert cassette.request.path == "/@other/~groq/v1/chat/completions"


def test_heads_cannot_be_forged() -> None:
    flows = flow(
        response={
            "status_code": 200, "reason": b"OK\r\nx: y",
            "headers": [[b"content-type", b"text/plain\r\nset-cookie: a=b"], [b"a b", b"c"]],
            "content": b"hi",
        }
    )  # fmt: skip
    [result] = importing.parse_recording(parse_file_content(flows)).exchanges
    assert isinstance(result, NumberedExchange)

    cassette = importing.convert_to_cassette(result.exchange, SETTINGS, "mitmproxy")

    head = cassette.head.to_response_head()
    assert head.headers == (("content-type", "text/plain set-cookie: a=b"),)
    assert "\r" not in head.reason


def test_a_body_that_no_head_of_its_status_may_have_is_refused() -> None:
    request = Request("POST", "/v1/x", "", (), b"")
    exchange = SourceExchange(request, "", 204, "No Content", (), b"hi")
    with pytest.raises(
        NotImportable, match="has a body, but a 204 response to POST cannot have one"
    ):
        importing.convert_to_cassette(exchange, SETTINGS, "test")


def test_a_flow_without_headers_is_read_or_refused() -> None:
    flow_without_headers = {"type": "http", "response": {"status_code": 200, "content": b""}}
    for request in ({}, {"content": b""}, {"content": b"", "method": b"GET", "host": "h"}):
        read_or_refuse(netstring({**flow_without_headers, "request": request}))


def test_gzips_that_were_joined_unpack_to_all_of_them() -> None:
    lines = [reel().strip() + b"\n"] * 2
    assert file_parsing.gunzip(b"".join(map(gzip.compress, lines)) + bytes(9)) == b"".join(lines)
    assert refusal_reason(gzip.compress(lines[0]) + b"x") == "unexpected data after the gzip data"
    assert refusal_reason(gzip.compress(b"") * 101) == "the file has more than 100 gzip members"


def test_a_head_ends_its_lines_as_http_does() -> None:
    _, message = fields.parse_http_message(
        b"HTTP/1.1 200 OK\r\nx-name: \xc3\x85ngstr\xc3\xb6m\r\n\r\n", "response"
    )
    assert message.headers == (("x-name", "\xc3\x85ngstr\xc3\xb6m"),)


def test_a_header_beyond_latin_1_is_stored_as_utf_8() -> None:
    assert fields.parse_headers({"x-name": "\u013b\n\ud800"}) == (("x-name", "\xc4\xbb ?"),)


def test_reasons_quote_no_secret_of_a_url_and_have_a_limited_length() -> None:
    with pytest.raises(NotImportable) as refused:
        fields.build_exchange(
            "GET", "https://me:word@[::1/v1?key=sk-1#x", SourceMessage((), b""), 200, "",
            SourceMessage((), b""),
        )  # fmt: skip
    assert str(refused.value) == "'https://[::1/v1' is not a valid URL"
    entries = [{"request": {"method": "GET", "url": "https://h/"},
                "response": {"status": 0, "_error": "\x1b[31m" + "x" * 10_000}}]  # fmt: skip
    file = parse_file_content(json.dumps({"log": {"entries": entries}}).encode())
    [refused_item] = importing.parse_recording(file).exchanges
    assert isinstance(refused_item, RefusedItem)
    assert len(refused_item.reason) == 500
    assert refused_item.reason.startswith("no response was recorded: \\x1b[31mxxx")


def test_a_file_of_very_many_values_is_refused_before_they_take_memory() -> None:
    assert (
        refusal_reason(b"[" + b"1," * 8_000_001)
        == "the file has more than 8,000,000 values; split it"
    )


def test_a_file_of_very_many_exchanges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert formats.MAX_EXCHANGES == 100_000
    monkeypatch.setattr(formats, "MAX_EXCHANGES", 1000)
    many = b'{"log": {"entries": [' + b"1," * 1000 + b"1]}}"
    assert refusal_reason(many) == "the file has more than 1,000 exchanges; split it"
