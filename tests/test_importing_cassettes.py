"""An imported exchange is stored as if it had been recorded: redacted, keyed, framed, timed."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace

import pytest

from llm_proxy import importing
from llm_proxy.cassette import Cassette, read_cassette, spool
from llm_proxy.exchange import Ending, Headers, Read, Request
from llm_proxy.importing import ImportSettings, codings
from llm_proxy.importing.hosts import provider_of_host, relative_to_base_url
from llm_proxy.importing.source import DECODED, EDITED, STILL_CODED, SourceExchange
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.outcome import outcome_of
from llm_proxy.pacing import parse_pace
from llm_proxy.routing import RoutingSettings, route

BODY = b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"stream":true}'
JSON = (("Content-Type", "application/json"),)
SSE = (("Content-Type", "text/event-stream"),)


def event(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
EVENTS = (event("Hel"), event("lo"), END, b"data: [DONE]\n\n")
HOW = ImportSettings(RoutingSettings(), "llm-proxy 1", "2026-01-01T00:00:00.000Z")


def asked(path: str = "/v1/chat/completions", headers: Headers = JSON, query: str = "") -> Request:
    return Request("POST", path, query, headers, BODY)


PLAIN = SourceExchange(asked(), "api.openai.com", 200, "OK", SSE, b"".join(EVENTS))


def stored(it: SourceExchange, how: ImportSettings = HOW) -> Cassette:
    """The cassette of an exchange, written and read."""
    made = importing.make_cassette(it, how, "vcr")
    lines = spool.assemble_cassette(made.to_spool_content("library"))
    return read_cassette("file", b"".join(lines))


def test_it_says_where_it_comes_from_and_when_it_was_recorded() -> None:
    unknown = stored(PLAIN).meta
    known = stored(replace(PLAIN, recorded="2025-03-07T02:12:29.000Z")).meta

    assert (unknown.tool, unknown.recorded) == ("llm-proxy 1, imported from vcr", HOW.now)
    assert known.recorded == "2025-03-07T02:12:29.000Z"
    assert (known.dialect, known.provider, known.model) == ("openai-chat", "openai", "gpt-4o")


def test_its_key_is_that_of_the_same_request_to_a_proxy() -> None:
    assert stored(PLAIN).meta.key == route(asked(), 0.0, float).key


def test_a_model_is_told_in_printable_characters_as_that_of_a_recording() -> None:
    body = BODY.replace(b"gpt-4o", rb"a\u001bb")
    made = importing.make_cassette(replace(PLAIN, request=replace(asked(), body=body)), HOW, "vcr")

    assert made.meta == stored(replace(PLAIN, request=replace(asked(), body=body))).meta
    assert made.meta.model == r"a\x1bb"


def test_rules_loosen_it_as_they_loosen_a_recording() -> None:
    rules = parse_rules(["uuids", "ignore=$.messages"])
    how = replace(HOW, routing=RoutingSettings("mine", rules))

    meta = stored(PLAIN, how).meta

    assert (meta.session, meta.rules) == ("mine", ("uuids@1", "ignore@1=$.messages"))
    assert meta.key == route(asked(), 0.0, float, settings=how.routing).key


def test_a_session_that_was_chosen_is_that_of_requests_that_name_another() -> None:
    """As those do that were recorded in front of a proxy of ours."""
    other = replace(PLAIN, request=asked(headers=(*JSON, ("x-llm-proxy-session", "other"))))

    assert stored(other).meta.session == "other"
    assert stored(other, replace(HOW, routing=RoutingSettings("mine"))).meta.session == "mine"


def test_without_times_each_message_is_a_read_at_once() -> None:
    it = stored(PLAIN)

    assert it.reads == tuple(Read(0.0, item) for item in EVENTS)
    assert (it.head_at_ms, it.end.at_ms, it.end.ending) == (0.0, 0.0, Ending.CLEAN)
    assert outcome_of(it).complete


def test_between_a_head_and_an_end_pieces_come_evenly() -> None:
    it = stored(replace(PLAIN, head_at=100.0, end_at=500.0))

    assert it.head_at_ms == 100
    assert [read.at_ms for read in it.reads] == [200, 300, 400, 500]
    assert it.end.at_ms == 500


def test_times_of_pieces_are_kept_whatever_the_pace() -> None:
    reads = (Read(0.0, EVENTS[0] + EVENTS[1][:5]), Read(70.0, EVENTS[1][5:] + EVENTS[2]))
    timed = replace(PLAIN, reads=reads, body=b"".join(read.data for read in reads))

    assert stored(timed, replace(HOW, pace=parse_pace("10tps"))).reads == reads


def test_a_pace_lays_times_down_and_the_seed_repeats_them() -> None:
    how = replace(HOW, pace=parse_pace("ttft=300ms,gap=10..80ms"))

    it = stored(PLAIN, how)

    assert it.head_at_ms == 300
    assert 310 <= it.reads[1].at_ms <= 380
    assert it.body == PLAIN.body
    assert it.meta.tool.endswith("imported from vcr, its times made up by ttft=300ms,gap=10..80ms")
    assert stored(PLAIN, how) == it
    assert stored(PLAIN, replace(how, seed=7)).reads != it.reads


def test_secrets_of_the_request_are_in_nothing_that_is_stored() -> None:
    secret = "sk-abcdefgh12345678"
    headers = (*JSON, ("Authorization", f"Bearer {secret}"), ("X-Other", "x"))
    leak = replace(
        PLAIN,
        request=asked(headers=headers, query=f"key={secret}&beta=1"),
        headers=(*SSE, ("Set-Cookie", "a=b"), ("x-request-id", "req_1")),
        body=event(f"your key is {secret}") + END,
    )

    made = importing.make_cassette(leak, HOW, "vcr")
    lines = spool.assemble_cassette(made.to_spool_content("library"))
    it = stored(leak)

    assert secret.encode() not in b"".join(lines)
    assert it.request.headers == (("content-type", "application/json"),)
    assert it.request.query == "key=[redacted]&beta=1"
    assert it.head.headers == (*SSE, ("x-request-id", "[redacted]"))
    assert it.end.redacted == 1
    assert b"your key is [redacted]" in it.body


def undo(coding: str, body: bytes) -> bytes | None:
    if coding != "gzip":
        return None
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None


def coded(body: bytes, coding: str = "gzip") -> SourceExchange:
    """The exchange whose head says that its body is compressed, without its coding."""
    headers = (*SSE, ("Content-Encoding", coding), ("Content-Length", str(len(body))))
    return codings.without_content_codings(replace(PLAIN, headers=headers, body=body), undo)


def test_a_compressed_body_is_stored_decoded_with_a_mark() -> None:
    it = stored(coded(gzip.compress(PLAIN.body)))

    assert (it.body, it.decoded) == (PLAIN.body, "gzip")
    assert it.head.headers == SSE


def test_a_head_that_only_says_that_its_body_is_compressed_is_repaired() -> None:
    it = coded(PLAIN.body)

    assert it.losses == (DECODED,)
    assert stored(it).head.headers == SSE
    assert (stored(it).body, stored(it).decoded) == (PLAIN.body, "")


def test_what_cannot_be_decoded_here_stays_as_it_is_and_text_does_not_count_as_coded() -> None:
    binary, text = coded(b"\xff\x00\xfe", "br"), coded(PLAIN.body, "br")

    assert (binary.losses, text.losses) == ((STILL_CODED,), (DECODED,))
    assert ("Content-Encoding", "br") in stored(binary).head.headers
    assert stored(text).head.headers == SSE


def test_a_request_that_was_compressed_has_the_key_of_the_plain_one() -> None:
    packed = replace(
        PLAIN.request,
        headers=(*JSON, ("content-encoding", "gzip")),
        body=gzip.compress(BODY),
    )
    it = codings.without_content_codings(replace(PLAIN, request=packed), undo)
    assert stored(it).meta.key == stored(PLAIN).meta.key


@pytest.mark.parametrize(
    ("headers", "framing", "length"),
    [
        ((), "chunked", None),
        ((("transfer-encoding", "chunked"),), "chunked", None),
        ((("content-length", str(len(PLAIN.body))),), "length", len(PLAIN.body)),
        ((("content-length", "7"),), "length", len(PLAIN.body)),
    ],
)
def test_a_body_is_framed_as_http_1_delimits_it(
    headers: Headers, framing: str, length: int | None
) -> None:
    made = importing.make_cassette(replace(PLAIN, headers=(*SSE, *headers)), HOW, "vcr")

    head = made.head.to_value()

    assert (head.framing, head.length) == (framing, length)
    assert (EDITED in made.losses) is (headers == (("content-length", "7"),))


def test_a_document_without_a_length_gets_one() -> None:
    document = replace(PLAIN, headers=JSON, body=b'{"id":"1"}')
    assert stored(document).head.framing == "length"
    assert stored(document).head.length == 10


@pytest.mark.parametrize(
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
def test_the_host_says_whose_a_request_is(host: str, path: str, provider: str | None) -> None:
    assert provider_of_host(asked(path), host) == provider


def test_the_path_says_it_where_the_host_is_unknown_and_an_operator_may_say_another() -> None:
    elsewhere = replace(PLAIN, host="gateway.example")
    assert stored(elsewhere).meta.provider == "openai"
    assert stored(elsewhere, replace(HOW, provider="together")).meta.provider == "together"


def test_what_a_base_url_holds_of_a_path_is_no_part_of_the_request() -> None:
    path = "/inference/v1/chat/completions"
    assert relative_to_base_url(asked(path), "fireworks").path == "/v1/chat/completions"
    assert stored(replace(PLAIN, request=asked(path), host="api.fireworks.ai")).request.path == (
        "/v1/chat/completions"
    )


def test_an_answer_that_broke_off_ends_as_it_ended() -> None:
    cut = replace(PLAIN, body=EVENTS[0], headers=(*SSE, ("content-length", "900")))
    it = stored(replace(cut, ending=Ending.FIN))
    assert (it.end.ending, it.head.length) == (Ending.FIN, 900)
    assert not outcome_of(it).complete
