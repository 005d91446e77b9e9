from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import matching
from llm_proxy.cassette_consistency import was_redacted_after_keying
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Headers, Request
from llm_proxy.routing import RoutedRequest, route_request

KEY = "sk-canary-0123456789"


def route_post(
    path: str, *headers: tuple[str, str], query: str = "", body: bytes = b""
) -> RoutedRequest:
    return route_request(Request("POST", path, query, headers, body), 2.0, lambda: 2.25)


@each_row(
    ("path", "session", "provider", "rest"),
    [
        ("/v1/chat/completions", "default", "openai", "/v1/chat/completions"),
        ("/~openrouter/v1/chat/completions", "default", "openrouter", "/v1/chat/completions"),
        ("/@checkout/v1/messages", "checkout", "anthropic", "/v1/messages"),
        ("/@a.b-c_D9/~x/v1/x", "a.b-c_D9", "x", "/v1/x"),
        ("/~x/@a/v1/x", "default", "x", "/@a/v1/x"),
        ("/@a/@b/~c/v1", "a", "default", "/@b/~c/v1"),
        ("/~a/~b/v1", "default", "a", "/~b/v1"),
        ("/@a", "a", "ollama", "/"),
        ("/@a/", "a", "ollama", "/"),
        ("/@a/~b", "a", "b", "/"),
        ("/~b", "default", "b", "/"),
        ("/openai/v1/chat/completions", "default", "groq", "/openai/v1/chat/completions"),
        ("/openai/deployments/d/x", "default", "azure", "/openai/deployments/d/x"),
        ("/v1/@a/~b", "default", "openai", "/v1/@a/~b"),
        ("//v1/x", "default", "openai", "//v1/x"),
        ("/", "default", "ollama", "/"),
        ("/%40a/%7Eb", "default", "default", "/%40a/%7Eb"),
        (f"/@{'a' * 100}/v1/x", "a" * 100, "openai", "/v1/x"),
    ],
)
def test_proxy_prefixes_are_removed_and_nothing_else(
    path: str, session: str, provider: str, rest: str
) -> None:
    routed_request = route_post(path, query="a=%20b")
    assert (routed_request.session, routed_request.provider) == (session, provider)
    assert (routed_request.request.path, routed_request.request.query) == (rest, "a=%20b")


@each_row(
    ("path", "headers"),
    [
        ("/@/v1/x", ()),
        ("/~/v1/x", ()),
        ("/@../v1/x", ()),
        ("/@.a/v1/x", ()),
        ("/@-a/v1/x", ()),
        ("/@a%2Fb/v1/x", ()),
        ("/@a b/v1/x", ()),
        ("/@ä/v1/x", ()),
        ("/@a/~../v1/x", ()),
        ("/~a:b/v1/x", ()),
        (f"/@{'a' * 101}/v1/x", ()),
        ("/v1/x", (("X-LLM-Proxy-Session", "../x"),)),
        ("/v1/x", (("x-llm-proxy-session", ""),)),
    ],
)
def test_an_invalid_name_is_refused(path: str, headers: Headers) -> None:
    with pytest.raises(
        RequestRefused, match=r"is not a valid (session|provider) name: use"
    ) as caught:
        route_post(path, *headers)
    assert caught.value.status == 400


@each_row(("path", "session"), [("/v1/x", "from-header"), ("/@from-path/v1/x", "from-path")])
def test_a_header_names_the_session_where_the_path_does_not(path: str, session: str) -> None:
    assert route_post(path, ("X-Llm-Proxy-Session", "from-header")).session == session


def test_proxy_headers_are_not_forwarded() -> None:
    sent: Headers = (
        ("x-llm-proxy-session", "a"), ("Accept", "*/*"), ("X-LLM-PROXY-anything", "b"),
        ("accept", "c"), ("x-llm-prox", "d"),
    )  # fmt: skip
    assert route_post("/v1/x", *sent).request.headers == (
        ("Accept", "*/*"), ("accept", "c"), ("x-llm-prox", "d"),
    )  # fmt: skip


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
paths = st.from_regex(r"/([!-?A-}][!-~]{0,30})?", fullmatch=True)  # without a leading proxy prefix


@given(session=st.none() | names, provider=st.none() | names, path=paths)
def test_any_path_is_routed_as_it_is_behind_any_prefixes(
    session: str | None, provider: str | None, path: str
) -> None:
    prefix = "".join((f"/@{session}" if session else "", f"/~{provider}" if provider else ""))
    routed_request = route_post(prefix + path)
    assert (routed_request.request.path, routed_request.session) == (path, session or "default")
    assert routed_request.provider == (provider or route_post(path).provider)


@given(mark=st.sampled_from("@~"), name=st.text("".join(map(chr, range(0x21, 0x7F)))), path=paths)
def test_a_prefix_whose_name_is_none_is_refused(mark: str, name: str, path: str) -> None:
    name = name.replace("/", "")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        assert route_post(f"/{mark}{name}{path}").request.path == path
    else:
        with pytest.raises(RequestRefused, match=r"is not a valid (session|provider) name"):
            route_post(f"/{mark}{name}{path}")


def test_a_call_knows_how_long_ago_the_request_was_read() -> None:
    assert route_post("/v1/x").elapsed_ms() == 250.0


def test_the_dialect_is_found_behind_the_prefixes() -> None:
    assert route_post("/@a/~b/v1/chat/completions", body=b"{}").dialect.name == "openai-chat"
    assert route_post("/@a/~b/v1/other").dialect.name == "opaque"


def test_what_is_stored_of_a_call_holds_none_of_its_credentials() -> None:
    routed_request = route_post(
        f"/v1/files/{KEY}",
        ("Authorization", f"Bearer {KEY}"),
        ("Content-Type", f"text/plain; {KEY}"),
        ("User-Agent", "x"),
        query=f"key=AIza-0123456789&q={KEY}",
        body=f'{{"a":"{KEY}","b":"AIza-0123456789"}}'.encode(),
    )
    stored = routed_request.stored_request
    assert (stored.method, stored.path) == ("POST", "/v1/files/[redacted-client]")
    assert stored.query == "key=[redacted]&q=[redacted-client]"
    assert stored.headers == (("content-type", "text/plain; [redacted-client]"),)
    assert stored.body == b'{"a":"[redacted-client]","b":"[redacted-client]"}'
    assert stored.redacted_count == 6
    assert routed_request.request.path.endswith(KEY)  # the provider receives the original path


BODY = b'{"model": "m", "prompt": "accepted in us-east-1, key %b"}' % KEY.encode()


@each_row(
    ("path", "headers", "query"),
    [
        ("/v1/x", [("x-api-key", KEY)], ""),
        ("/v1/x", [("Authorization", "Bearer accepted in")], ""),
        ("/v1/x", [("Authorization", "Bearer us-east-1")], ""),
        ("/v1/x", [("Cookie", f"session={KEY}; consent=accepted; region=us-east-1")], ""),
        ("/v1/x", [("Cookie", "token=model; sid=prompt")], ""),
        ("/v1/x", [], "key=us-east-1"),
        ("/v1/x", [("x-api-key", "v1/x")], ""),
    ],
    ids=["the key that stands in it", "words of it", "a word of it", "cookies", "names of it",
         "in the query", "in the path"],
)  # fmt: skip
def test_the_key_of_a_request_does_not_depend_on_what_its_credentials_spell(
    path: str, headers: list[tuple[str, str]], query: str
) -> None:
    baseline = route_post(path, body=BODY)
    assert baseline.request_for_key is baseline.stored_request
    assert route_post(path, *headers, query=query, body=BODY).key == baseline.key


def test_the_key_is_that_of_what_is_stored_where_it_holds_no_credential() -> None:
    routed_request = route_post(
        "/v1/x", ("x-api-key", KEY), query="key=abc&api-version=1", body=b"{}"
    )
    assert routed_request.key == matching.request_key("openai", routed_request.stored_request)
    assert routed_request.key != route_post("/~groq/v1/x", query="api-version=1", body=b"{}").key


def test_what_is_stored_of_a_request_that_holds_a_credential_says_that_its_key_is_another() -> None:
    routed_request = route_post("/v1/x", ("x-api-key", KEY), body=BODY)
    assert KEY.encode() not in routed_request.stored_request.body
    assert was_redacted_after_keying(routed_request.stored_request)
    assert not was_redacted_after_keying(routed_request.request_for_key)


def test_the_session_is_no_part_of_the_key() -> None:
    assert route_post("/@a/v1/x").key == route_post("/@b/v1/x").key == route_post("/v1/x").key


@each_row("name", ["credentials", "request_for_key", "stored_request", "model", "key"])
def test_cached_properties_keep_their_docstrings(name: str) -> None:
    assert getattr(RoutedRequest, name).__doc__
    assert getattr(RoutedRequest, name) is vars(RoutedRequest)[name]
