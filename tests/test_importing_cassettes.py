"""An imported exchange is stored like a recorded one: redacted, keyed, framed, and timed."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace

from case_tables import each_row
from llm_proxy import importing
from llm_proxy.cassette import Cassette, parse_cassette, spool
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending, Headers, Read, Request
from llm_proxy.importing import ImportSettings, conversion
from llm_proxy.importing.source import (
    ALREADY_DECODED,
    LENGTH_MISMATCH,
    UNDECODABLE_CODING,
    SourceExchange,
)
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import parse_pace
from llm_proxy.providers import provider_of_host, strip_base_path
from llm_proxy.routing import RoutingSettings, route_request

BODY = b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"stream":true}'
JSON = (("Content-Type", "application/json"),)
SSE = (("Content-Type", "text/event-stream"),)


def event(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
EVENTS = (event("Hel"), event("lo"), END, b"data: [DONE]\n\n")
SETTINGS = ImportSettings(RoutingSettings(), "llm-proxy 1", "2026-01-01T00:00:00.000Z")


def chat_request(
    path: str = "/v1/chat/completions", headers: Headers = JSON, query: str = ""
) -> Request:
    return Request("POST", path, query, headers, BODY)


PLAIN = SourceExchange(chat_request(), "api.openai.com", 200, "OK", SSE, b"".join(EVENTS))


def stored_cassette(exchange: SourceExchange, settings: ImportSettings = SETTINGS) -> Cassette:
    """Write the cassette of an exchange and read it back."""
    imported = importing.convert_to_cassette(exchange, settings, "vcr")
    lines = spool.cassette_lines_from_spool(imported.to_spool_content("library"))
    return parse_cassette("file", b"".join(lines))


def test_a_cassette_names_its_source_format_and_its_recording_time() -> None:
    unknown = stored_cassette(PLAIN).meta
    known = stored_cassette(replace(PLAIN, recorded_at="2025-03-07T02:12:29.000Z")).meta

    assert (unknown.recording_tool, unknown.recorded_at) == (
        "llm-proxy 1, imported from vcr",
        SETTINGS.imported_at,
    )
    assert known.recorded_at == "2025-03-07T02:12:29.000Z"
    assert (known.dialect, known.provider, known.model) == ("openai-chat", "openai", "gpt-4o")


def test_its_key_is_that_of_the_same_request_to_a_proxy() -> None:
    assert stored_cassette(PLAIN).meta.key == route_request(chat_request(), 0.0, float).key


def test_a_model_is_stored_in_printable_characters_as_in_a_recording() -> None:
    body = BODY.replace(b"gpt-4o", rb"a\u001bb")
    imported = importing.convert_to_cassette(
        replace(PLAIN, request=replace(chat_request(), body=body)), SETTINGS, "vcr"
    )

    assert (
        imported.meta
        == stored_cassette(replace(PLAIN, request=replace(chat_request(), body=body))).meta
    )
    assert imported.meta.model == r"a\x1bb"


def test_normaliser_rules_apply_as_they_do_to_a_recording() -> None:
    rules = parse_rules(["uuids", "ignore=$.messages"])
    settings = replace(SETTINGS, routing_settings=RoutingSettings("mine", rules))

    meta = stored_cassette(PLAIN, settings).meta

    assert (meta.session, meta.match_rules) == ("mine", ("uuids@1", "ignore@1=$.messages"))
    assert (
        meta.key
        == route_request(chat_request(), 0.0, float, settings=settings.routing_settings).key
    )


def test_a_session_that_was_chosen_is_that_of_requests_that_name_another() -> None:
    """Requests recorded in front of an llm-proxy may name another session."""
    other = replace(PLAIN, request=chat_request(headers=(*JSON, ("x-llm-proxy-session", "other"))))

    assert stored_cassette(other).meta.session == "other"
    assert (
        stored_cassette(
            other, replace(SETTINGS, routing_settings=RoutingSettings("mine"))
        ).meta.session
        == "mine"
    )


def test_without_times_each_message_is_a_read_at_once() -> None:
    cassette = stored_cassette(PLAIN)

    assert cassette.reads == tuple(Read(0.0, item) for item in EVENTS)
    assert (
        cassette.response_head_at_ms,
        cassette.response_end.at_ms,
        cassette.response_end.ending,
    ) == (
        0.0,
        0.0,
        Ending.CLEAN,
    )
    assert cassette_outcome(cassette).is_complete


def test_between_a_head_and_an_end_pieces_come_evenly() -> None:
    cassette = stored_cassette(replace(PLAIN, head_at_ms=100.0, end_at_ms=500.0))

    assert cassette.response_head_at_ms == 100
    assert [read.at_ms for read in cassette.reads] == [200, 300, 400, 500]
    assert cassette.response_end.at_ms == 500


def test_times_of_pieces_are_kept_whatever_the_pace() -> None:
    reads = (Read(0.0, EVENTS[0] + EVENTS[1][:5]), Read(70.0, EVENTS[1][5:] + EVENTS[2]))
    timed = replace(
        PLAIN, reads=reads, response_body=b"".join(read.received_bytes for read in reads)
    )

    assert stored_cassette(timed, replace(SETTINGS, pace=parse_pace("10tps"))).reads == reads


def test_a_body_that_has_reads_is_not_decoded() -> None:
    timed = replace(
        PLAIN,
        reads=(Read(0.0, PLAIN.response_body),),
        response_headers=(*SSE, ("Content-Encoding", "gzip")),
    )
    assert conversion.decode_exchange_bodies(timed, decode_gzip) == timed


def test_a_pace_generates_times_and_the_seed_repeats_them() -> None:
    settings = replace(SETTINGS, pace=parse_pace("ttft=300ms,gap=10..80ms"))

    cassette = stored_cassette(PLAIN, settings)

    assert cassette.response_head_at_ms == 300
    assert 310 <= cassette.reads[1].at_ms <= 380
    assert cassette.response_body == PLAIN.response_body
    assert cassette.meta.recording_tool.endswith(
        "imported from vcr, with generated times (ttft=300ms,gap=10..80ms)"
    )
    assert stored_cassette(PLAIN, settings) == cassette
    assert stored_cassette(PLAIN, replace(settings, seed=7)).reads != cassette.reads


def test_secrets_of_the_request_are_in_nothing_that_is_stored() -> None:
    secret = "sk-abcdefgh12345678"
    headers = (*JSON, ("Authorization", f"Bearer {secret}"), ("X-Other", "x"))
    exchange_with_secrets = replace(
        PLAIN,
        request=chat_request(headers=headers, query=f"key={secret}&beta=1"),
        response_headers=(*SSE, ("Set-Cookie", "a=b"), ("x-request-id", "req_1")),
        response_body=event(f"your key is {secret}") + END,
    )

    imported = importing.convert_to_cassette(exchange_with_secrets, SETTINGS, "vcr")
    lines = spool.cassette_lines_from_spool(imported.to_spool_content("library"))
    cassette = stored_cassette(exchange_with_secrets)

    assert secret.encode() not in b"".join(lines)
    assert cassette.request.headers == (("content-type", "application/json"),)
    assert cassette.request.query == "key=[redacted]&beta=1"
    assert cassette.response_head.headers == (*SSE, ("x-request-id", "[redacted]"))
    assert cassette.response_end.redacted_count == 1
    assert b"your key is [redacted-client]" in cassette.response_body


def decode_gzip(coding: str, body: bytes) -> bytes | None:
    if coding != "gzip":
        return None
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


def without_coding(body: bytes, coding: str = "gzip") -> SourceExchange:
    """Decode an exchange whose head declares a compressed body."""
    headers = (*SSE, ("Content-Encoding", coding), ("Content-Length", str(len(body))))
    return conversion.decode_exchange_bodies(
        replace(PLAIN, response_headers=headers, response_body=body), decode_gzip
    )


def test_a_compressed_body_is_stored_decoded_with_a_mark() -> None:
    cassette = stored_cassette(without_coding(gzip.compress(PLAIN.response_body)))

    assert (cassette.response_body, cassette.content_coding) == (PLAIN.response_body, "gzip")
    assert cassette.response_head.headers == SSE


def test_a_head_that_only_says_that_its_body_is_compressed_is_repaired() -> None:
    exchange = without_coding(PLAIN.response_body)

    assert exchange.losses == (ALREADY_DECODED,)
    assert stored_cassette(exchange).response_head.headers == SSE
    assert (stored_cassette(exchange).response_body, stored_cassette(exchange).content_coding) == (
        PLAIN.response_body,
        "",
    )


def test_what_cannot_be_decoded_here_stays_as_it_is_and_text_does_not_count_as_coded() -> None:
    binary, text = without_coding(b"\xff\x00\xfe", "br"), without_coding(PLAIN.response_body, "br")

    assert (binary.losses, text.losses) == ((UNDECODABLE_CODING,), (ALREADY_DECODED,))
    assert ("Content-Encoding", "br") in stored_cassette(binary).response_head.headers
    assert stored_cassette(text).response_head.headers == SSE


def test_a_request_that_was_compressed_has_the_key_of_the_plain_one() -> None:
    packed = replace(
        PLAIN.request,
        headers=(*JSON, ("content-encoding", "gzip")),
        body=gzip.compress(BODY),
    )
    exchange = conversion.decode_exchange_bodies(replace(PLAIN, request=packed), decode_gzip)
    assert stored_cassette(exchange).meta.key == stored_cassette(PLAIN).meta.key


@each_row(
    ("headers", "framing", "length"),
    [
        ((), "chunked", None),
        ((("transfer-encoding", "chunked"),), "chunked", None),
        ((("content-length", str(len(PLAIN.response_body))),), "length", len(PLAIN.response_body)),
        ((("content-length", "7"),), "length", len(PLAIN.response_body)),
    ],
)
def test_a_body_is_framed_as_http_1_delimits_it(
    headers: Headers, framing: str, length: int | None
) -> None:
    imported = importing.convert_to_cassette(
        replace(PLAIN, response_headers=(*SSE, *headers)), SETTINGS, "vcr"
    )

    head = imported.head.to_response_head()

    assert (head.framing, head.content_length) == (framing, length)
    assert (LENGTH_MISMATCH in imported.losses) is (headers == (("content-length", "7"),))


def test_a_document_without_a_length_gets_one() -> None:
    document = replace(PLAIN, response_headers=JSON, response_body=b'{"id":"1"}')
    assert stored_cassette(document).response_head.framing == "length"
    assert stored_cassette(document).response_head.content_length == 10


@each_row(
    ("host", "path", "provider"),
    [
        ("api.openai.com", "/v1/chat/completions", "openai"),
        ("api.mistral.ai", "/v1/chat/completions", "mistral"),
        ("api.deepseek.com", "/chat/completions", "deepseek"),
        ("me.openai.azure.com", "/openai/v1/responses", "azure"),
        ("localhost", "/v1/chat/completions", None),
        ("gateway.example", "/v1/chat/completions", None),
        ("127.0.0.1", "/api/chat", None),
    ],
)
def test_the_host_determines_the_provider(host: str, path: str, provider: str | None) -> None:
    assert provider_of_host(host, path) == provider


def test_the_path_determines_the_provider_of_an_unknown_host_unless_one_is_configured() -> None:
    elsewhere = replace(PLAIN, host="gateway.example")
    assert stored_cassette(elsewhere).meta.provider == "openai"
    assert (
        stored_cassette(elsewhere, replace(SETTINGS, provider="together")).meta.provider
        == "together"
    )


def test_what_a_base_url_holds_of_a_path_is_no_part_of_the_request() -> None:
    path = "/inference/v1/chat/completions"
    assert strip_base_path("fireworks", path) == "/v1/chat/completions"
    assert stored_cassette(
        replace(PLAIN, request=chat_request(path), host="api.fireworks.ai")
    ).request.path == ("/v1/chat/completions")


def test_an_answer_that_broke_off_ends_as_it_ended() -> None:
    cut = replace(
        PLAIN, response_body=EVENTS[0], response_headers=(*SSE, ("content-length", "900"))
    )
    cassette = stored_cassette(replace(cut, ending=Ending.FIN))
    assert (cassette.response_end.ending, cassette.response_head.content_length) == (
        Ending.FIN,
        900,
    )
    assert not cassette_outcome(cassette).is_complete
