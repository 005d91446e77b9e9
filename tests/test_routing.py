from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_proxy import matching
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Headers, Request
from llm_proxy.integrity import has_other_key
from llm_proxy.routing import RoutedRequest, route

KEY = "sk-canary-0123456789"


def routed(
    path: str, *headers: tuple[str, str], query: str = "", body: bytes = b""
) -> RoutedRequest:
    return route(Request("POST", path, query, headers, body), 2.0, lambda: 2.25)


@pytest.mark.parametrize(
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
def test_our_prefixes_are_taken_off_and_nothing_else(
    path: str, session: str, provider: str, rest: str
) -> None:
    call = routed(path, query="a=%20b")
    assert (call.session, call.provider) == (session, provider)
    assert (call.request.path, call.request.query) == (rest, "a=%20b")


@pytest.mark.parametrize(
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
def test_what_is_no_name_is_refused(path: str, headers: Headers) -> None:
    with pytest.raises(RequestRefused, match=r"is no (session|provider) name: use") as caught:
        routed(path, *headers)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("path", "session"), [("/v1/x", "from-header"), ("/@from-path/v1/x", "from-path")]
)
def test_a_header_names_the_session_where_the_path_does_not(path: str, session: str) -> None:
    assert routed(path, ("X-Llm-Proxy-Session", "from-header")).session == session


def test_headers_for_us_go_no_further() -> None:
    sent: Headers = (
        ("x-llm-proxy-session", "a"), ("Accept", "*/*"), ("X-LLM-PROXY-anything", "b"),
        ("accept", "c"), ("x-llm-prox", "d"),
    )  # fmt: skip
    assert routed("/v1/x", *sent).request.headers == (
        ("Accept", "*/*"), ("accept", "c"), ("x-llm-prox", "d"),
    )  # fmt: skip


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
paths = st.from_regex(r"/([!-?A-}][!-~]{0,30})?", fullmatch=True)  # no prefix of ours in front


@given(session=st.none() | names, provider=st.none() | names, path=paths)
def test_any_path_is_routed_as_it_is_behind_any_prefixes(
    session: str | None, provider: str | None, path: str
) -> None:
    prefix = "".join((f"/@{session}" if session else "", f"/~{provider}" if provider else ""))
    call = routed(prefix + path)
    assert (call.request.path, call.session) == (path, session or "default")
    assert call.provider == (provider or routed(path).provider)


@given(mark=st.sampled_from("@~"), name=st.text("".join(map(chr, range(0x21, 0x7F)))), path=paths)
def test_a_prefix_whose_name_is_none_is_refused(mark: str, name: str, path: str) -> None:
    name = name.replace("/", "")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        assert routed(f"/{mark}{name}{path}").request.path == path
    else:
        with pytest.raises(RequestRefused, match=r"is no (session|provider) name"):
            routed(f"/{mark}{name}{path}")


def test_a_call_knows_how_long_ago_the_request_was_read() -> None:
    assert routed("/v1/x").elapsed_ms() == 250.0


def test_the_dialect_is_found_behind_the_prefixes() -> None:
    assert routed("/@a/~b/v1/chat/completions", body=b"{}").dialect.name == "openai-chat"
    assert routed("/@a/~b/v1/other").dialect.name == "opaque"


def test_what_is_stored_of_a_call_holds_none_of_its_credentials() -> None:
    call = routed(
        f"/v1/files/{KEY}",
        ("Authorization", f"Bearer {KEY}"),
        ("Content-Type", f"text/plain; {KEY}"),
        ("User-Agent", "x"),
        query=f"key=AIza-0123456789&q={KEY}",
        body=f'{{"a":"{KEY}","b":"AIza-0123456789"}}'.encode(),
    )
    stored = call.stored_request
    assert (stored.method, stored.path) == ("POST", "/v1/files/[redacted-client]")
    assert stored.query == "key=[redacted]&q=[redacted-client]"
    assert stored.headers == (("content-type", "text/plain; [redacted-client]"),)
    assert stored.body == b'{"a":"[redacted-client]","b":"[redacted-client]"}'
    assert stored.redacted == 6
    assert call.request.path.endswith(KEY)  # the provider gets what was sent


BODY = b'{"model": "m", "prompt": "accepted in us-east-1, key %b"}' % KEY.encode()


@pytest.mark.parametrize(
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
    without = routed(path, body=BODY)
    assert without.request_for_key is without.stored_request
    assert routed(path, *headers, query=query, body=BODY).key == without.key


def test_the_key_is_that_of_what_is_stored_where_it_holds_no_credential() -> None:
    call = routed("/v1/x", ("x-api-key", KEY), query="key=abc&api-version=1", body=b"{}")
    assert call.key == matching.request_key("openai", call.stored_request)
    assert call.key != routed("/~groq/v1/x", query="api-version=1", body=b"{}").key


def test_what_is_stored_of_a_request_that_holds_a_credential_says_that_its_key_is_another() -> None:
    call = routed("/v1/x", ("x-api-key", KEY), body=BODY)
    assert KEY.encode() not in call.stored_request.body
    assert has_other_key(call.stored_request)
    assert not has_other_key(call.request_for_key)


def test_the_session_is_no_part_of_the_key() -> None:
    assert routed("/@a/v1/x").key == routed("/@b/v1/x").key == routed("/v1/x").key


@pytest.mark.parametrize(
    "name", ["credentials", "request_for_key", "stored_request", "model", "key"]
)
def test_what_is_computed_once_is_described_by_the_class(name: str) -> None:
    assert getattr(RoutedRequest, name).__doc__
    assert getattr(RoutedRequest, name) is vars(RoutedRequest)[name]
