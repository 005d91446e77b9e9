"""Which parts of a request can be secrets, and which cannot."""

from __future__ import annotations

import random
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from uuid import UUID

import pytest

from case_tables import each_row
from llm_proxy.exchange import Request
from llm_proxy.providers import DUMMY_API_KEY
from llm_proxy.redaction import (
    PLACEHOLDER,
    has_secret_shape,
    request_credential_spellings,
)
from redactors import redactor_of

KEY = "sk-canary-0123456789"
PLACEHOLDER_BYTES = PLACEHOLDER.encode()


def make_request(*headers: tuple[str, str], query: str = "") -> Request:
    return Request("POST", "/v1/x", query, headers, b"")


def basic_authorization(pair: str) -> tuple[str, str]:
    return ("Authorization", f"Basic {b64encode(pair.encode()).decode()}")


@each_row(
    ("sent_request", "expected"),
    [
        pytest.param(make_request(("Authorization", f"Bearer {KEY}")), {KEY}, id="bearer"),
        pytest.param(make_request(("authorization", f"bearer  {KEY} ")), {KEY}, id="lower case"),
        pytest.param(
            make_request(("Authorization", "Basic dXNlcjpwYXNz")), {"dXNlcjpwYXNz"}, id="basic"
        ),
        pytest.param(make_request(("Proxy-Authorization", KEY)), {KEY}, id="without a scheme"),
        pytest.param(make_request(("X-Api-Key", KEY)), {KEY}, id="x-api-key"),
        pytest.param(make_request(("api-key", KEY)), {KEY}, id="api-key"),
        pytest.param(make_request(("x-goog-api-key", KEY)), {KEY}, id="x-goog-api-key"),
        pytest.param(make_request(("X-Amz-Security-Token", KEY)), {KEY}, id="AWS session"),
        pytest.param(
            make_request(("Cookie", f"a={KEY}; session=0123456789abcdef; b=1")),
            {KEY, "0123456789abcdef"},
            id="cookies",
        ),
        pytest.param(
            make_request(("x-api-key", KEY), ("x-api-key", f"{KEY}2")),
            {KEY, f"{KEY}2"},
            id="two keys",
        ),
        pytest.param(make_request(query=f"alt=sse&key={KEY}"), {KEY}, id="query"),
        pytest.param(
            make_request(query="sig=ab%2Bcd%2Fef%3D"),
            {"ab%2Bcd%2Fef%3D", "ab+cd/ef=", "ab+cd\\/ef=", "ab%252Bcd%252Fef%253D"},
            id="encoded",
        ),
        pytest.param(make_request(("x-api-key", "1234567")), set(), id="too short for a secret"),
        pytest.param(make_request(("x-api-key", "12345678")), {"12345678"}, id="just long enough"),
        pytest.param(
            make_request(("Authorization", "Bearer ")), set(), id="nothing after the scheme"
        ),
        pytest.param(
            make_request(("User-Agent", KEY), query=f"q={KEY}"), set(), id="no credential"
        ),
        pytest.param(make_request(query="key"), set(), id="a parameter without a value"),
    ],
)
def test_credentials_are_found_where_they_are_sent(
    sent_request: Request, expected: set[str]
) -> None:
    spellings = request_credential_spellings(sent_request)
    assert spellings >= {credential.encode() for credential in expected}
    assert bool(spellings) == bool(expected)


def test_credentials_are_the_bytes_that_were_sent() -> None:
    sent = "pässwörter".encode()
    percent = b"p%C3%A4ssw%C3%B6rter"
    assert request_credential_spellings(make_request(("x-api-key", sent.decode("latin-1")))) >= {
        sent,
        percent,
    }
    assert request_credential_spellings(make_request(query="key=p%C3%A4ssw%ffrter")) >= {
        b"p%C3%A4ssw%ffrter", b"p\xc3\xa4ssw\xffrter",
        b"p%25C3%25A4ssw%25ffrter", b"p%C3%A4ssw%FFrter",
    }  # fmt: skip


def test_a_credential_is_known_as_json_writes_it_and_in_a_url() -> None:
    spellings = request_credential_spellings(make_request(("Authorization", 'Bearer sk-"a/b\\c+1')))
    assert spellings >= {
        rb'sk-"a/b\c+1', rb'sk-\"a/b\\c+1', rb'sk-\"a\/b\\c+1', b"sk-%22a%2Fb%5Cc%2B1",
    }  # fmt: skip


@each_row(
    ("sent_request", "echo"),
    [
        (make_request(("Authorization", "Bearer a/b+c==12")), b"%2fb%2bc%3d%3d12"),
        (make_request(("Authorization", "Bearer a/b+c==12")), b"/b%2Bc%3D%3D12"),
        (make_request(("Authorization", "Bearer a/b+c==12")), b"%2Fb%2Bc%3D%3D12"),
        (make_request(("Authorization", "Bearer a/b c==12")), b"%2Fb+c%3D%3D12"),
        (make_request(("Authorization", 'Bearer a"b\\c1234')), rb'\\\"b\\\\c1234'),
        (make_request(("Cookie", 'auth="a quoted one"')), b" quoted one"),
        (make_request(("Cookie", "b=aX%2F0123456")), b"X/0123456"),
        (make_request(query="api_key=a2+bcd+efgh"), b"2 bcd efgh"),
        (make_request(query="a=1;api_key=a2345678"), b"2345678"),
        (make_request(basic_authorization("a-user-key:")), b"-user-key"),
        (make_request(basic_authorization("user:a-password")), b"-password"),
        (make_request(("Authorization", "Token token=a2345678")), b"2345678"),
        (make_request(("Authorization", 'Token token="a2345678", nonce="b"')), b"2345678"),
        (make_request(("Authorization", "Key a2345678")), b"2345678"),
        (make_request(("Cookie", "a=1;  session = a2345678 ; b=2")), b"2345678"),
        (make_request(("x-jwt-assertion", "a2345678")), b"2345678"),
        (make_request(("X-CSRF", "a2345678")), b"2345678"),
        (make_request(("Authorization", "OAuth a2345678")), b"2345678"),
        (make_request(("Authorization", "Bearer Bearer a2345678")), b"2345678"),
        (make_request(("Authorization", "Api-Key: a2345678")), b"2345678"),
        (make_request(("Authorization", "Basic dTphMjM0NTY3OA")), b"2345678"),
        (make_request(("X-Session-Id", "a2345678")), b"2345678"),
        (make_request(("X-Pwd", "a2345678")), b"2345678"),
        (make_request(("X-PAT", "a2345678")), b"2345678"),
        (make_request(("X-Passcode", "a2345678")), b"2345678"),
        (make_request(("Cookie", "remember_me=a2345678; userpass=b2345678")), b"2345678"),
    ],
    ids=[
        "percent in lower case", "quote() keeps the slash", "percent", "a plus for the space",
        "JSON in JSON", "a quoted cookie", "a cookie in percent", "a plus in the query",
        "a semicolon in the query", "the user of Basic", "the password of Basic",
        "a named token", "a quoted token", "another scheme", "spaces in a cookie", "an assertion",
        "csrf", "a scheme of its own", "a scheme twice", "a scheme with a colon",
        "Basic without padding", "a session's id", "a short name", "a token of a person",
        "a passcode", "cookies that remember",
    ],
)  # fmt: skip
def test_a_credential_is_found_however_it_is_echoed(sent_request: Request, echo: bytes) -> None:
    text = b'{"content":"a' + echo + b'"}'
    assert (
        redactor_of(request_credential_spellings(sent_request)).redact(text)
        == b'{"content":"%b"}' % PLACEHOLDER_BYTES
    )


SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261122/us-east-1/bedrock/aws4_request, "
    "SignedHeaders=content-type;host;x-amz-date, Signature=0123abcd"
)


@each_row("signature", [SIGNATURE, SIGNATURE.replace(", ", ",")])
def test_of_an_aws_signature_the_key_and_the_signature_are_secret_and_no_header_is(
    signature: str,
) -> None:
    redactor = redactor_of(request_credential_spellings(make_request(("Authorization", signature))))
    text = b"the id AKIDEXAMPLE, AKIDEXAMPLE/20261122/us-east-1/bedrock/aws4_request, 0123abcd"
    assert redactor.redact(text) == b"the id %b, %b, %b" % (
        PLACEHOLDER_BYTES,
        PLACEHOLDER_BYTES,
        PLACEHOLDER_BYTES,
    )
    assert redactor.redact(signature.encode()) == PLACEHOLDER_BYTES
    for harmless in (b"content-type: application/json", b"x-amz-date", b"aws4_request"):
        assert redactor.redact(harmless) == harmless


@pytest.mark.timeout(10)
@each_row("part", ["Credential=", "Credential=a", "Signature=", "=, "])
def test_no_signature_takes_long(part: str) -> None:
    assert request_credential_spellings(make_request(("Authorization", f"AWS4-{part * 5000}")))


def test_a_quoted_cookie_takes_no_quotes_of_the_answer_with_it() -> None:
    redactor = redactor_of(request_credential_spellings(make_request(("Cookie", 'sid="abcdefgh"'))))
    assert redactor.redact(b'{"content":"abcdefgh"}') == b'{"content":"[redacted]"}'


def test_the_password_of_http_basic_is_a_credential_of_its_own() -> None:
    sent = b64encode(b"user:letmein-12345").decode()
    assert b"letmein-12345" in request_credential_spellings(
        make_request(("Authorization", f"Basic {sent}"))
    )


@each_row(
    "name", ["cf-aig-authorization", "Helicone-Auth", "X-Auth-Token", "Ocp-Apim-Subscription-Key"]
)
def test_a_header_that_is_called_like_a_credential_is_one(name: str) -> None:
    assert request_credential_spellings(make_request((name, "Bearer 0123456789"))) == {
        b"0123456789"
    }


@each_row(
    "value",
    ["accepted", "us-east-1", "en-US,en;q=0.9", "darkMode", "Europe/Berlin", "alice@example.com",
     "2026-11-22", "2026-11-22T10:30:00.123Z", "20261122", "1795343400", "1795343400123",
     "12345678", "1920x1080", "gpt-4o-mini-2024-07-18", "claude-3-5-sonnet-20241022",
     "qwen2.5-coder-32b-instruct-q4_K_M", "/v1/chat/completions", "application/json",
     "%7B%22theme%22%3A%22dark%22%2C%22size%22%3A12%7D", "Zürich-Altstetten"],
)  # fmt: skip
def test_an_ordinary_value_of_a_cookie_is_not_looked_for(value: str) -> None:
    sent_request = make_request(("Cookie", f"consent={value}; pref=a"), ("x-auth-mode", value))
    assert request_credential_spellings(sent_request) == frozenset()


@each_row(
    "value",
    ["8f14e45fceea167a", "550e8400-e29b-41d4-a716-446655440000", "aX/0123456", "x7Kp2mQ9",
     "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "cookie-canary-0123",
     "s%3AaBcDeFgHiJkLmNoP.QrStUvWxYz", "lncrgrctwgpkpced", "AL3G-5ZMG-1AK6-HZP8",
     "739201847362", "4RKJMEXPIPZZDXHC", "consent=accepted&t=8f14e45fceea167a"],
)  # fmt: skip
@each_row("name", ["Cookie: pref={}", "x-auth-user: {}", "x-key-version: {}"])
def test_a_value_that_looks_random_is_looked_for_whatever_it_is_called(
    value: str, name: str
) -> None:
    header, _, sent = name.format(value).partition(": ")
    assert value.encode() in request_credential_spellings(make_request((header, sent)))


@each_row(
    "name",
    ["session", "session_id", "PHPSESSID", "JSESSIONID", "ASP.NET_SessionId", "connect.sid",
     "sid", "SAPISID", "__Host-next-auth.session-token", "accessToken", "auth", "csrf",
     "XSRF-TOKEN", "__cf_bm", "cf_clearance", "jwt", "api_key"],
)  # fmt: skip
def test_a_cookie_that_is_called_like_a_session_is_looked_for_whatever_it_holds(name: str) -> None:
    assert b"accepted" in request_credential_spellings(
        make_request(("Cookie", f"a=1; {name}=accepted"))
    )


DIGEST = 'Digest username="postgres", uri="/v1/models", qop=auth, response="8f14e45fceea167a"'


def random_values() -> Iterator[bytes]:
    rng = random.Random(5)
    for _ in range(300):
        random_bytes = rng.randbytes(16)
        yield random_bytes.hex().encode()
        yield urlsafe_b64encode(random_bytes).rstrip(b"=")
        yield str(UUID(bytes=random_bytes)).encode()


def test_no_session_of_128_random_bits_is_overlooked() -> None:
    assert [value for value in random_values() if not has_secret_shape(value)] == []


@each_row(
    ("sent_request", "expected"),
    [
        (make_request(("x-auth-mode", "required")), []),
        (make_request(("x-token-limit", "unlimited")), []),
        (make_request(("Authorization", "Bearer lm-studio")), []),
        (make_request(("Authorization", f"Bearer {DUMMY_API_KEY}")), []),
        (make_request(("x-api-key", "not-needed")), []),
        (make_request(("x-api-key", "sk-no-key-required")), []),
        (make_request(("x-api-key", "correct horse battery")), ["correct horse battery"]),
        (make_request(("Authorization", "Bearer sunshine")), ["sunshine"]),
        (make_request(basic_authorization("postgres:sunshine")), ["sunshine"]),
        (make_request(basic_authorization("administrator:x")), []),
        (make_request(basic_authorization("sk_live_51H8x2:x")), ["sk_live_51H8x2"]),
        (make_request(basic_authorization("my-stripe-key:")), ["my-stripe-key"]),
        (make_request(("Authorization", DIGEST)), ["8f14e45fceea167a"]),
        (make_request(query="code=accepted"), []),
        (make_request(query="X-Amz-SignedHeaders=content-type"), []),
        (make_request(query="token=accepted"), ["accepted"]),
    ],
)  # fmt: skip
def test_of_headers_and_queries_what_can_be_a_secret_is_looked_for(
    sent_request: Request, expected: list[str]
) -> None:
    echo = 'accepted required postgres administrator content-type /v1/models my-stripe-key "'
    spellings = request_credential_spellings(sent_request)
    assert [credential for credential in expected if credential.encode() in spellings] == expected
    redacted_text = redactor_of(spellings).redact(echo.encode()).decode()
    assert [word for word in echo.split() if word not in redacted_text] == [
        credential for credential in expected if credential in echo
    ]
