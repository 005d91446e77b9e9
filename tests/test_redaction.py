from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import split_at, splits
from dialect_manners import MANNERS, Manner
from llm_proxy import redaction
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.exchange import Headers, Read
from llm_proxy.redaction import PLACEHOLDER, REDACTED_RESPONSE_HEADERS, RedactedPiece, Redactor
from llm_proxy.redaction.headers import STORED_RESPONSE_HEADERS, STORED_RESPONSE_PREFIXES
from llm_proxy.turns import Failure, FinishReason, Text, Turn, Usage
from redactors import redactor_of

KEY = "sk-canary-0123456789"
PLACEHOLDER_BYTES = PLACEHOLDER.encode()


@each_row(
    "name",
    [
        "Authorization", "Proxy-Authorization", "x-api-key", "api-key", "X-Goog-Api-Key", "Cookie",
        "X-Amz-Security-Token", "ocp-apim-subscription-key", "User-Agent", "Host",
        "X-Stainless-Lang", "traceparent", "x-anything-new", "Idempotency-Key", "Referer",
    ],
)  # fmt: skip
def test_a_request_header_that_is_not_known_to_be_harmless_is_not_stored(name: str) -> None:
    assert redaction.storable_request_headers(((name, KEY),)) == ()


def test_harmless_request_headers_are_stored_in_their_order_and_in_lower_case() -> None:
    sent: Headers = (
        ("Content-Type", "application/json"), ("Authorization", "Bearer x"),
        ("Anthropic-Beta", "a"), ("anthropic-beta", "b"), ("ACCEPT", "*/*"),
    )  # fmt: skip
    assert redaction.storable_request_headers(sent) == (
        ("content-type", "application/json"), ("anthropic-beta", "a"), ("anthropic-beta", "b"),
        ("accept", "*/*"),
    )  # fmt: skip


@each_row(
    ("name", "is_kept"),
    [
        ("Content-Type", True),
        ("retry-after", True),
        ("X-Should-Retry", True),
        ("x-ratelimit-remaining-tokens", True),
        ("Anthropic-RateLimit-Requests-Limit", True),
        ("X-Endpoint-Monthly-Call-Limit", True),
        ("num_chars", True),
        ("num_tokens", True),
        ("Set-Cookie", False),
        ("Date", False),
        ("X-Xet-Access-Token", False),
        ("x-anything-new", False),
        ("x-goog-user-project", False),
        ("WWW-Authenticate", True),
        ("Location", True),
    ],
)
def test_a_response_header_is_stored_when_it_is_known_to_be_harmless(
    name: str, is_kept: bool
) -> None:
    assert redaction.storable_response_headers(((name, "v"),)) == (
        ((name, "v"),) if is_kept else ()
    )


CLIENT_HEADERS = json.loads(Path(__file__).with_name("client_headers.json").read_text("utf-8"))
"""The response headers that official clients read, as found in their source."""


def headers_by_client() -> Iterator[tuple[str, str, bool]]:
    """Yield client, header, and whether its value is kept."""
    for client in CLIENT_HEADERS:
        for names, kept in ((client["kept"], True), (client["redacted"], False)):
            yield from ((client["read_by"], name, kept) for name in names)


def test_every_header_that_a_client_reads_is_found_in_a_cassette() -> None:
    table = list(headers_by_client())
    assert len({client for client, _, _ in table}) == 17
    for client, name, kept in table:
        sent = ((name.replace("*", "limit-a").title(), "/v1/x"),)
        expected = ((sent[0][0], "/v1/x" if kept else PLACEHOLDER),)
        assert redaction.storable_response_headers(sent) == expected, client


def test_every_id_that_is_kept_without_its_value_is_read_by_a_client() -> None:
    read = {name for _, name, kept in headers_by_client() if not kept}
    assert REDACTED_RESPONSE_HEADERS - read == {"openai-organization", "openai-project"}


SECURITY_PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "security.md"


def test_all_headers_that_are_kept_are_documented() -> None:
    section = SECURITY_PAGE.read_text("utf-8").partition("### Response headers\n")[2]
    stored, redacted = re.findall(r"(?ms)^```text\n(.*?)^```$", section)[:2]
    rows = "".join(line[12:] for line in stored.splitlines())  # without the names of the groups
    fireworks = re.search(r"fireworks-\* \((.+)\)", rows)
    assert fireworks is not None
    names = rows.replace(fireworks[0], "").split()
    assert len(names) == len(set(names))
    assert set(names) == STORED_RESPONSE_HEADERS | {
        f"{prefix}*" for prefix in STORED_RESPONSE_PREFIXES
    }
    assert set(redacted.split()) == REDACTED_RESPONSE_HEADERS
    for word in fireworks[1].split(", "):
        header = (f"fireworks-a-{word}", "1")
        assert redaction.storable_response_headers((header,)) == (header,)


for_each_manner = each_row("manner", MANNERS, ids=[manner.name for manner in MANNERS])

LIMITS = AccountLimits(RateLimitWindow(60, 59, 1.0), RateLimitWindow(1000, 900, 2.0))
TURN = Turn(
    (Text("hello"),), FinishReason.STOP, usage=Usage(9, 20, total=29, cache_read=2, cache_write=3)
)


def encoded_responses(manner: Manner) -> Iterator[DialectResponse]:
    """Yield a response in this manner, and errors, with all their headers."""
    context = replace(manner.context, account_limits=LIMITS)
    yield manner.dialect.encode_response(manner.request, (TURN,), context)
    for status in (400, 401, 403, 404, 413, 429, 500, 503, 529):
        yield manner.dialect.error_response(status, Failure("no"), context, 36.0)


@for_each_manner
def test_no_header_that_a_dialect_writes_is_lost_in_a_cassette(manner: Manner) -> None:
    for response in encoded_responses(manner):
        written = response.head.headers
        assert [name for name, _ in redaction.storable_response_headers(written)] == [
            name for name, _ in written
        ]


@for_each_manner
def test_header_values_are_decoded_from_a_cassette_too(manner: Manner) -> None:
    response = next(encoded_responses(manner))
    stored_head = replace(
        response.head, headers=redaction.storable_response_headers(response.head.headers)
    )
    stored = replace(response, head=stored_head)
    assert manner.dialect.decode_response(stored) == manner.dialect.decode_response(response)


@each_row("name", sorted(REDACTED_RESPONSE_HEADERS))
def test_an_id_stays_there_without_its_value(name: str) -> None:
    assert redaction.storable_response_headers(((name.upper(), "org-1"),)) == (
        (name.upper(), PLACEHOLDER),
    )


@each_row(
    ("raw", "redacted", "count"),
    [
        ("", "", 0),
        ("alt=sse&key=AIza1", "alt=sse&key=[redacted]", 1),
        ("KEY=a&api_key=b&api-key=c&apikey=d", "KEY={0}&api_key={0}&api-key={0}&apikey={0}", 4),
        ("token=a&access_token=b&accessToken=c", "token={0}&access_token={0}&accessToken={0}", 3),
        ("%6bey=a", "%6bey=[redacted]", 1),
        ("X-Amz-Signature=a&X-Goog-Credential=b", "X-Amz-Signature={0}&X-Goog-Credential={0}", 2),
        ("sig=a&code=b&client_secret=c&auth=d", "sig={0}&code={0}&client_secret={0}&auth={0}", 4),
        ("key=a=b&key=", "key=[redacted]&key=", 1),
        ("key&monkey=a&keys=b&api-version=2", "key&monkey=a&keys=b&api-version=2", 0),
        ("a=%20+&&b", "a=%20+&&b", 0),
    ],
)
def test_a_query_is_stored_without_its_secrets(raw: str, redacted: str, count: int) -> None:
    assert redaction.redact_query(raw) == (redacted.format(PLACEHOLDER), count)


@each_row(
    "name",
    ["authorization", "bearer", "jwt", "pwd", "credentials", "sas", "key[]", "filter[token]"],
)
def test_a_parameter_that_is_called_like_a_secret_in_part_is_one(name: str) -> None:
    assert redaction.redact_query(f"a=1;{name}=abc&q=1") == (f"a=1;{name}=[redacted]&q=1", 1)


@each_row(
    "name",
    ["subscription-key", "password", "session_token", "client_key", "apiKey", "access_token"],
)
def test_a_parameter_that_is_called_like_a_secret_is_one(name: str) -> None:
    assert redaction.redact_query(f"{name}=abc&q=1") == (f"{name}=[redacted]&q=1", 1)


@each_row(
    "name",
    ["secretKey", "refreshToken", "idToken", "access_key_id", "accessKeyId", "user[authToken]"],
)
def test_a_parameter_in_camel_case_is_a_secret_too(name: str) -> None:
    assert redaction.redact_query(f"{name}=abcdefgh") == (f"{name}={PLACEHOLDER}", 1)


@each_row(
    "name",
    ["page_token", "pageToken", "nextToken", "next_page_token", "sort_key", "partition-key",
     "continuation-token", "list[page_token]"],
)  # fmt: skip
def test_a_page_token_is_no_secret(name: str) -> None:
    assert redaction.redact_query(f"{name}=abcdefgh") == (f"{name}=abcdefgh", 0)


def test_a_redirect_keeps_where_it_leads_without_the_secrets_of_its_query() -> None:
    kept = redaction.storable_response_headers((("Location", "https://a.example/b?key=abc&c=d"),))
    assert kept == (("Location", "https://a.example/b?key=[redacted]&c=d"),)
    kept = redaction.storable_response_headers(
        (("Operation-Location", "https://me:pw@a.example/b"),)
    )
    assert kept == (("Operation-Location", "https://a.example/b"),)
    kept = redaction.storable_response_headers((("Location", "/cb?a=1#access_token=abc&state=1"),))
    assert kept == (("Location", "/cb?a=1#access_token=[redacted]&state=1"),)


@each_row(
    ("secrets", "text", "redacted", "count"),
    [
        pytest.param([], b"abc", b"abc", 0, id="no secrets"),
        pytest.param([b"xyz"], b"", b"", 0, id="no text"),
        pytest.param([b"xyz"], b"a xyz b xyz", b"a %b b %b", 2, id="twice"),
        pytest.param([b"xyz"], b"xyz", b"%b", 1, id="all of it"),
        pytest.param([b"xyz"], b"xy xz yz", b"xy xz yz", 0, id="parts of it"),
        pytest.param([b"xyz", b"xyzz"], b"xyzz xyz", b"%b %b", 2, id="one begins like another"),
        pytest.param([b"yz", b"xyz"], b"xyz yz", b"%b %b", 2, id="one in another"),
        pytest.param([b"xyx"], b"xyxyx", b"%byx", 1, id="one over itself"),
        pytest.param([b"wxy", b"xyz"], b"wxyz", b"%bz", 1, id="one over another"),
        pytest.param([b"x.z", b"(y"], b"xyz x.z (y", b"xyz %b %b", 2, id="no pattern"),
        pytest.param([b"x\nz\xff"], b"\xff\nx\nz\xff", b"\xff\n%b", 1, id="any bytes"),
    ],
)
def test_secrets_are_replaced(
    secrets: list[bytes], text: bytes, redacted: bytes, count: int
) -> None:
    redactor = redactor_of(secrets)
    expected = redacted.replace(b"%b", PLACEHOLDER_BYTES)
    assert redactor.redact(text) == expected
    assert redactor.replaced_count == count
    assert redactor.redact_latin1(text.decode("latin-1")) == expected.decode("latin-1")


def redacted_reads(redactor: Redactor, pieces: Sequence[bytes]) -> list[Read]:
    """Return the redacted reads of these pieces, which arrive 1 ms apart."""
    out = [
        item for at, piece in enumerate(pieces) for item in redactor.feed(Read(float(at), piece))
    ]
    return [Read(item.at_ms, item.received_bytes) for item in out + redactor.flush()]


def test_a_secret_that_arrives_in_pieces_is_replaced_wherever_it_is_cut() -> None:
    text = b'{"key": "%b", "echo": "%b"}%b' % ((KEY.encode(),) * 3)
    expected = text.replace(KEY.encode(), PLACEHOLDER_BYTES)
    for at in range(len(text) + 1):
        assert b"".join(
            item.received_bytes
            for item in redacted_reads(redactor_of([KEY.encode()]), split_at(text, [at]))
        ) == (expected)
    single = [bytes([byte]) for byte in text]
    assert (
        b"".join(
            item.received_bytes for item in redacted_reads(redactor_of([KEY.encode()]), single)
        )
        == expected
    )


def test_a_placeholder_comes_with_the_read_that_the_secret_began_in() -> None:
    redactor = redactor_of([b"secret"])
    assert redactor.feed(Read(1.0, b"a sec")) == [RedactedPiece(1.0, b"a ")]
    assert redactor.feed(Read(2.0, b"re")) == []
    assert redactor.feed(Read(3.0, b"t b")) == [
        RedactedPiece(1.0, PLACEHOLDER_BYTES, is_continuation=True),
        RedactedPiece(3.0, b" b"),
    ]
    assert redactor.replaced_count == 1


def test_a_partial_secret_is_released_with_its_read_time() -> None:
    redactor = redactor_of([b"secret"])
    assert redactor.feed(Read(1.0, b"a sec")) == [RedactedPiece(1.0, b"a ")]
    assert redactor.feed(Read(2.0, b"ond")) == [
        RedactedPiece(1.0, b"sec", is_continuation=True),
        RedactedPiece(2.0, b"ond"),
    ]
    assert redactor.feed(Read(3.0, b"sec")) == []
    assert redactor.flush() == [RedactedPiece(3.0, b"sec")]
    assert redactor.flush() == []
    assert redactor.replaced_count == 0


def test_without_secrets_reads_go_through() -> None:
    redactor = redactor_of([])
    read = Read(1.0, b"abc")
    assert redactor.feed(read) == [RedactedPiece(read.at_ms, read.received_bytes)]
    assert redactor.flush() == []


def naive_redaction(
    secrets: Sequence[bytes], text: bytes, pieces: Sequence[bytes]
) -> list[tuple[bytes, float]]:
    """Reference implementation: each output byte with its time, secrets matched from the left."""
    at = [float(number) for number, piece in enumerate(pieces) for _ in piece]
    out: list[tuple[bytes, float]] = []
    position = 0
    while position < len(text):
        matches = [secret for secret in secrets if text.startswith(secret, position)]
        if matches:
            out += [(bytes([byte]), at[position]) for byte in PLACEHOLDER_BYTES]
            position += max(map(len, matches))
        else:
            out.append((text[position : position + 1], at[position]))
            position += 1
    return out


secrets_of_three_letters = st.lists(
    st.text("xyz", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=4
)


@given(secrets=secrets_of_three_letters, chosen=st.data())
def test_no_secret_survives_any_split_and_no_time_is_lost(
    secrets: list[bytes], chosen: st.DataObject
) -> None:
    fragments = st.sampled_from([*secrets, *(secret[:-1] for secret in secrets), b"x", b"y", b"-"])
    text = b"".join(chosen.draw(st.lists(fragments, max_size=12)))
    pieces = chosen.draw(splits(text))
    redactor, whole_redactor = redactor_of(secrets), redactor_of(secrets)

    out = redacted_reads(redactor, pieces)

    joined = b"".join(item.received_bytes for item in out)
    assert not [secret for secret in secrets if secret in joined]
    assert joined == whole_redactor.redact(text)
    assert redactor.replaced_count == whole_redactor.replaced_count
    with_times = [(bytes([byte]), item.at_ms) for item in out for byte in item.received_bytes]
    assert with_times == naive_redaction(secrets, text, pieces)
    assert [item.at_ms for item in out] == sorted(item.at_ms for item in out)


@given(secrets=secrets_of_three_letters, text=st.text("xyz-").map(str.encode))
def test_only_what_may_become_a_secret_is_held_back(secrets: list[bytes], text: bytes) -> None:
    redactor = redactor_of(secrets)
    for at in range(len(text)):
        redactor.feed(Read(float(at), text[at : at + 1]))
        held_data = b"".join(held_read.received_bytes for held_read in redactor._held_pieces)
        # A secret that was replaced may end within what begins another one.
        arrived = text[: at + 1]
        possible_starts = range(len(arrived) - len(held_data) + 1)
        assert not held_data or any(
            secret.startswith(arrived[start:]) and secret != arrived[start:]
            for secret in secrets
            for start in possible_starts
        )
