"""The tools `http_*`: requests, results, allowed hosts, redirects, and hostile servers."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from case_tables import each_row
from llm_proxy.turns import Json
from llm_pytest.plugin_base import ToolError
from llm_pytest.tools import http
from llm_pytest.tools.http import HttpTools
from llm_pytest.tools.targets import AllowedHosts, parse_target
from llm_pytest.toolset import ToolSet
from stub_upstream import Connection, Script, fixed_length, upstream

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def web_service(handler: Handler, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """A service that responds to every request with `handler`; yields its base URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    try:
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def echo(request: web.Request) -> web.Response:
    """What the request was, as JSON."""
    return web.json_response(
        {
            "method": request.method,
            "path": request.path_qs,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": await request.text(),
        }
    )


@asynccontextmanager
async def http_tools(*allowed_hosts: str) -> AsyncIterator[ToolSet]:
    """A tool set of one test."""
    toolset = ToolSet([HttpTools(allowed_hosts)])
    try:
        yield toolset
    finally:
        await toolset.aclose()


async def call(toolset: ToolSet, method: str, **arguments: Json) -> dict[str, Any]:
    """The result of `http_{method}`."""
    result = (await toolset.call(f"http_{method}", arguments)).result
    assert isinstance(result, dict)
    return result


async def get(url: str, **arguments: Json) -> dict[str, Any]:
    """The result of `http_get`, in a test of its own."""
    async with http_tools() as toolset:
        return await call(toolset, "get", url=url, **arguments)


async def result_of(script: Script, **arguments: Json) -> dict[str, Any]:
    """The result of `http_get`, if the server responds like this; its port is replaced."""
    async with upstream(script) as server:
        result = await get(server.url, **arguments)
    if "error" in result:
        result["error"] = result["error"].replace(urlsplit(server.url).netloc, "HOST:PORT")
    return result


def raw(data: bytes) -> Script:
    """Send these bytes, and close the connection."""

    async def script(connection: Connection) -> None:
        await connection.send(data)
        connection.fin()

    return script


# Requests


@pytest.mark.shows("003-04")
async def test_every_method_sends_its_request() -> None:
    async with web_service(echo) as url, http_tools() as toolset:
        for method in ("get", "post", "put", "patch", "delete"):
            result = await call(toolset, method, url=f"{url}/items?a=1#top")
            assert result["json"]["method"] == method.upper()
            assert result["json"]["path"] == "/items?a=1"


@each_row(
    "arguments, body, content_type",
    [
        ({"json": {"a": [1, None]}}, '{"a":[1,null]}', "application/json"),
        ({"json": None}, "null", "application/json"),
        ({"form": {"a": "ü &", "b": [1, True]}}, "a=%C3%BC+%26&b=1&b=true", "x-www-form-urlenc"),
        ({"body": "grün"}, "grün", "text/plain; charset=utf-8"),
        ({"body": "<a/>", "headers": {"Content-TYPE": "text/xml"}}, "<a/>", "text/xml"),
    ],
)
async def test_a_body_is_sent_with_its_type(
    arguments: dict[str, Json], body: str, content_type: str
) -> None:
    async with web_service(echo) as url, http_tools() as toolset:
        received = (await call(toolset, "post", url=url, **arguments))["json"]
    assert received["body"] == body
    assert content_type in received["headers"]["content-type"]


async def test_query_and_headers_are_sent() -> None:
    async with web_service(echo) as url:
        result = await get(
            f"{url}/ü/../%2e?z=%2F", query={"q": "a b", "n": [1, 2.5], "is": False},
            headers={"X-Test": "ü"},
        )  # fmt: skip
    assert result["json"]["path"] == "/%C3%BC/../%2e?z=%2F&q=a+b&n=1&n=2.5&is=false"
    assert result["json"]["headers"]["x-test"] == "ü"


async def test_basic_authentication_is_encoded() -> None:
    async def service(request: web.Request) -> web.Response:
        scheme, _, encoded = request.headers["authorization"].partition(" ")
        return web.json_response([scheme, base64.b64decode(encoded).decode()])

    async with web_service(service) as url:
        assert (await get(url, basic_auth="user:pass"))["json"] == ["Basic", "user:pass"]


async def test_cookies_last_for_one_test_and_only_their_names_are_shown() -> None:
    async def service(request: web.Request) -> web.Response:
        response = web.json_response(dict(request.cookies))
        response.set_cookie("session", "random-value")
        return response

    async with web_service(service) as url:
        async with http_tools() as toolset:
            first = await call(toolset, "get", url=url)
            second = await call(toolset, "post", url=f"{url}/other")
        other_test = await get(url)
    assert first["cookies_set"] == ["session"]
    assert "random-value" not in str(first)
    assert second["json"] == {"session": "random-value"}
    assert other_test["json"] == {}


@each_row(
    "arguments, message",
    [
        ({"headers": {"A": "b\r\nC: d"}}, "the value of the header A has characters that cannot"),
        ({"headers": {"A": "b\0"}}, "the value of the header A has characters that cannot"),
        ({"headers": {"A\r\nC": "d"}}, r"'A\\r\\nC' is not a valid header name"),
        ({"headers": {"Content-length": "3"}}, "the header Content-length cannot be set"),
        ({"headers": {"transfer-encoding": "x"}}, "the header transfer-encoding cannot be set"),
        ({"json": 1, "body": "2"}, "a request has one body; set only one of json, form and body"),
        (
            {"headers": {"authorization": "x"}, "basic_auth": "a:b"},
            "set either basic_auth or the header authorization",
        ),
        ({"body": "\ud800"}, "the request has a character that UTF-8 cannot represent"),
        ({"timeout": 61}, "ValidationError: Expected `float` <= 60.0 - at `$.timeout`"),
        ({"timeout": 0}, "ValidationError: Expected `float` > 0.0 - at `$.timeout`"),
    ],
)
async def test_a_request_that_cannot_be_sent_is_an_error(
    arguments: dict[str, Json], message: str
) -> None:
    async with upstream(fixed_length(b"{}")) as server, http_tools() as toolset:
        result = await call(toolset, "post", url=server.url, **arguments)
    assert message in result["error"]
    assert server.requests == []


# Results


def test_the_result_has_nothing_that_differs_between_runs() -> None:
    async def run() -> dict[str, Any]:
        async with web_service(echo) as url, http_tools() as toolset:
            await call(toolset, "get", url=url)
            return await call(toolset, "delete", url=url, headers={"Host": "service"})

    first, second = asyncio.run(run()), asyncio.run(run())
    assert first == second
    assert list(first) == ["response", "status", "headers", "json"]
    assert first["response"] == "r2"
    assert first["headers"] == {"content-type": "application/json; charset=utf-8"}


JSON = "application/json"
INVALID_JSON = "the body is not valid JSON"


@each_row(
    "content_type, body, shown",
    [
        (JSON, b'{"a": 1}', {"json": {"a": 1}}),
        (JSON, b"\xef\xbb\xbfnull", {"json": None}),
        ("application/problem+json; charset=utf-8", b"[1]", {"json": [1]}),
        (JSON, b'{"n": 12345678901234567890123}', {"json": {"n": 12345678901234567890123}}),
        (JSON, b"[NaN]", {"text": "[NaN]", "problem": INVALID_JSON}),
        (JSON, b"[1e999]", {"text": "[1e999]", "problem": INVALID_JSON}),
        (JSON, b'"\xff"', {"text": '"�"', "problem": INVALID_JSON}),
        (JSON, b"", {"text": ""}),
        ("text/plain", b"[1]", {"text": "[1]"}),
        ("text/plain; charset=ISO-8859-1", b"gr\xfcn", {"text": "grün"}),
        ("text/plain; charset=punycode", b"gr\xc3\xbcn", {"text": "grün"}),
        ("text/html", b"a\xff", {"text": "a�"}),
        ("application/octet-stream", b"\xff", {"bytes": 1, "sha256": sha256(b"\xff").hexdigest()}),
        ("image/x", b"a\0b", {"bytes": 3, "sha256": sha256(b"a\0b").hexdigest()}),
    ],
)
async def test_a_body_is_shown_by_its_type(
    content_type: str, body: bytes, shown: dict[str, Json]
) -> None:
    result = await result_of(fixed_length(body, content_type))
    assert result == {
        "response": "r1",
        "status": 200,
        "headers": {"content-type": content_type},
        **shown,
    }


async def test_a_long_body_is_cut_with_a_mark() -> None:
    for content_type in (JSON, "text/plain"):
        result = await result_of(fixed_length(b'"' + b"a" * 30_000 + b'"', content_type))
        assert len(result["text"]) < 20_100
        assert result["text"].endswith("a… [cut: 30,002 characters in all]")
        assert "json" not in result


async def test_deeply_nested_json_is_text() -> None:
    for depth, is_json in ((100, True), (101, False), (10_000, False)):
        result = await result_of(fixed_length(b"[" * depth + b"]" * depth))
        assert ("json" in result) == is_json, depth


async def test_repeated_headers_are_joined_and_unprintable_ones_escaped() -> None:
    result = await result_of(
        raw(
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nWWW-Authenticate: Digest\r\n"
            b"Retry-After: \xff\r\nContent-Length: 0\r\n\r\n"
        )
    )
    assert result["status"] == 401
    assert result["headers"] == {"retry-after": "\\udcff", "www-authenticate": "Basic, Digest"}


# Allowed hosts


@each_row(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1.2.3:80/a",
        "http://localhost:8080",
        "HTTP://LocalHost/?q",
        "https://api.localhost",
        "http://[::1]:8000/",
        "http://[0:0:0::0:1]/",
    ],
)
def test_this_machine_is_allowed(url: str) -> None:
    AllowedHosts().check(parse_target(url))


@each_row(
    "url, entries",
    [
        ("http://example.com/", ["example.com"]),
        ("http://EXAMPLE.com:81/", ["Example.com"]),
        ("http://example.com:81/", ["example.com:81"]),
        ("https://example.com/", ["example.com:443"]),
        ("http://a.b.example.com/", ["*.example.com"]),
        ("http://a.example.com:81/", ["*.example.com:81"]),
        ("http://192.0.2.1/", ["192.0.2.1"]),
        ("http://[2001:db8:0::1]/", ["[2001:DB8::1]"]),
    ],
)
def test_an_entry_allows_its_hosts(url: str, entries: list[str]) -> None:
    AllowedHosts(entries).check(parse_target(url))


@each_row(
    "url, entries",
    [
        ("http://example.com/", []),
        ("http://example.com/", ["*.example.com"]),
        ("http://badexample.com/", ["*.example.com", "example.com"]),
        ("http://example.com.evil.net/", ["*.example.com", "example.com"]),
        ("http://example.com:82/", ["example.com:81"]),
        ("http://localhost.evil.net/", []),
        ("http://0.0.0.0/", []),
        ("http://[::]/", []),
        ("http://[::127.0.0.1]/", []),
        ("http://[fe80::1]/", []),
        ("http://169.254.169.254/", []),
        ("http://evil.127.0.0.1.nip.io/", []),
    ],
)
def test_no_other_host_is_allowed(url: str, entries: list[str]) -> None:
    with pytest.raises(ToolError, match="is not allowed; to allow it, add it to allowed_hosts in"):
        AllowedHosts(entries).check(parse_target(url))


@each_row(
    "url",
    [
        "",
        "/path",
        "127.0.0.1:80/",
        "http:/127.0.0.1/",
        "http:///a",
        "http://user@127.0.0.1/",
        "http://example.com:80@127.0.0.1/",
        "http://127.0.0.1:80@example.com/",
        "http://127.0.0.1\\@example.com/",
        "http://127.0.0.1:80:81/",
        "http://127.0.0.1:/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1./",
        "http://localhost./",
        "http://127.1/",
        "http://127.0.0.01/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.0.0.1.2/",
        "http://256.0.0.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::1%lo]/",
        "http://[::1%25lo]/",
        "http://[127.0.0.1]/",
        "http://[v1.a]/",
        "http://[::1/",
        "http://::1/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://loca\u017fhost/",
        "http://localhost\uff0f.evil.net/",
        "http://%6c%6f%63alhost/",
        "http://a..b/",
        "http://-a.b/",
        f"http://{'a' * 64}.b/",
        "http://127.0.0.1/a b",
        " http://127.0.0.1/",
        "http://127.0.0.1/\r\nX: y",
        "http://127.0.0.1\t/",
        "http://127.0.0.1/\ud800",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "javascript://127.0.0.1/",
    ],
)
def test_a_url_in_another_spelling_is_refused(url: str) -> None:
    with pytest.raises(ToolError):
        parse_target(url)


@each_row("entry", ["", "*", "*.", "http://a", "a/b", "a:", "*.127.0.0.1", "2130706433", "a b"])
def test_an_invalid_entry_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a valid host; use example"):
        HttpTools([entry])


@pytest.mark.parametrize("name", ["localhost", "api.localhost"])
async def test_names_of_this_machine_are_not_looked_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_up(*_: Any, **__: Any) -> Any:
        raise AssertionError("a look-up")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    async with web_service(echo) as url:
        result = await get(url.replace("127.0.0.1", name))
    assert result["json"]["headers"]["host"].startswith(name)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with web_service(echo) as url:
        assert (await get(url))["status"] == 200


# Redirects


def redirects_to(location: str, status: int = 302) -> Handler:
    """Redirect from `/from`, else echo."""

    async def service(request: web.Request) -> web.StreamResponse:
        if request.path == "/from":
            return web.Response(status=status, headers={"Location": location})
        return await echo(request)

    return service


@each_row(
    "status, method, method_afterwards",
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (301, "PUT", "PUT"),
        (302, "DELETE", "DELETE"),
        (303, "PATCH", "GET"),
    ],
)
async def test_a_redirect_changes_the_method_as_rfc_9110_says(
    status: int, method: str, method_afterwards: str
) -> None:
    async with web_service(redirects_to("/to?a=1", status)) as url, http_tools() as toolset:
        result = await call(toolset, method.lower(), url=f"{url}/from", json={"a": 1})
    received = result["json"]
    assert result["url"] == f"{url}/to?a=1"
    assert received["method"] == method_afterwards
    assert received["body"] == ("" if method_afterwards == "GET" else '{"a":1}')
    assert ("content-type" in received["headers"]) == (method_afterwards != "GET")


async def test_a_redirect_can_be_shown_instead() -> None:
    async with web_service(redirects_to("/to")) as url:
        result = await get(f"{url}/from", follow_redirects=False)
    assert (result["status"], result["headers"]["location"]) == (302, "/to")
    assert "url" not in result


async def test_credentials_stay_with_their_origin() -> None:
    headers: dict[str, Json] = {"Authorization": "secret", "cookie": "a=b", "X-Kept": "1"}
    async with web_service(echo) as other, web_service(redirects_to(f"{other}/")) as url:
        received = (await get(f"{url}/from", headers=headers))["json"]["headers"]
    assert {"authorization", "cookie"}.isdisjoint(received)
    assert received["x-kept"] == "1"
    async with web_service(redirects_to("/to")) as url:
        received = (await get(f"{url}/from", headers=headers))["json"]["headers"]
    assert (received["authorization"], received["cookie"]) == ("{{ secret.1 }}", "{{ secret.2 }}")


@each_row(
    "location, reason",
    [
        ("http://example.com/", "the host example.com is not allowed"),
        ("//example.com/", "the host example.com is not allowed"),
        ("http:example.com", None),
        ("/\\example.com/", "a URL has no spaces, control characters and backslashes"),
        ("http://a@127.0.0.1/", "is not a valid URL"),
        ("http://[::1", "is not a valid URL"),
        ("file:///etc/passwd", "is not a valid URL"),
        ("ftp://127.0.0.1/", "the scheme ftp is not supported"),
    ],
)
async def test_a_redirect_leads_to_allowed_hosts_only(location: str, reason: str | None) -> None:
    async with web_service(redirects_to(location)) as url:
        result = await get(f"{url}/from")
    if reason is None:
        assert result["url"].startswith(url)
    else:
        place = urlsplit(url).netloc
        assert result["error"].startswith(f"cannot follow the redirect of {place}: ")
        assert reason in result["error"]


async def test_redirects_end_after_ten() -> None:
    async def service(request: web.Request) -> web.StreamResponse:
        number = int(request.path[1:])
        if number == 0:
            return await echo(request)
        return web.Response(status=302, headers={"Location": f"/{number - 1}"})

    async with web_service(service) as url:
        assert (await get(f"{url}/10"))["url"] == f"{url}/0"
        assert await get(f"{url}/11") == {"error": "more than 10 redirects"}


async def test_a_cookie_of_a_redirect_is_sent_to_its_target() -> None:
    async def service(request: web.Request) -> web.StreamResponse:
        if request.path != "/login":
            return web.json_response(dict(request.cookies))
        response = web.Response(status=303, headers={"Location": "/home"})
        response.set_cookie("session", "1")
        return response

    async with web_service(service) as url, http_tools() as toolset:
        result = await call(toolset, "post", url=f"{url}/login", form={"name": "Ada"})
    assert result["json"] == {"session": "1"}


# Waiting for a change


def states(*scripts: Script) -> Script:
    """Respond to each request with the next script, and with the last one at the end."""
    remaining = iter(scripts[:-1])

    async def script(connection: Connection) -> None:
        await next(remaining, scripts[-1])(connection)

    return script


INVALID = "HOST:PORT sent an incomplete or invalid HTTP response"
PENDING = fixed_length(b'{"state": "pending", "result": null, "items": []}', status="202 Accepted")
DONE = fixed_length(b'{"state": "done", "result": 7, "items": [{"ok": true}]}')


@pytest.fixture
def quick_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_FIRST_DELAY_S", 0.001)


@pytest.mark.usefixtures("quick_repeats")
@each_row(
    "arguments",
    [
        {"until_path": "$.json.state", "until": "done"},
        {"until_path": "$.json.result"},
        {"until_path": "$.json.items[?@.ok]"},
        {"until_path": "$.json.items[*].ok", "until": [True]},
        {"until_path": "$.status", "until": 200},
    ],
)
async def test_a_request_is_repeated_until_the_change_however_late(
    arguments: dict[str, Json],
) -> None:
    results = [
        await result_of(states(*[PENDING] * count, DONE), **arguments) for count in (0, 1, 3)
    ]
    assert results[0] == results[1] == results[2]
    assert (results[0]["response"], results[0]["status"], results[0]["until"]) == ("r1", 200, True)


async def rst_in_body(connection: Connection) -> None:
    await connection.begin("Content-Length: 10")
    await connection.rst()


async def silent(_: Connection) -> None:
    await asyncio.Event().wait()


@pytest.mark.usefixtures("quick_repeats")
async def test_a_failed_connection_is_repeated_too() -> None:
    script = states(rst_in_body, PENDING, rst_in_body, DONE)
    assert (await result_of(script, until_path="$.json.result"))["until"] is True


@pytest.mark.usefixtures("quick_repeats")
@each_row(
    "scripts, outcome",
    [
        ([PENDING], False),
        ([rst_in_body, PENDING, silent], False),
        ([PENDING, rst_in_body], INVALID),
        ([rst_in_body, silent], INVALID),
        ([silent], "no complete response from HOST:PORT within 0.2 s"),
    ],
)
async def test_at_the_end_of_the_time_the_last_outcome_is_the_result(
    scripts: list[Script], outcome: bool | str
) -> None:
    result = await result_of(states(*scripts), until_path="$.json.state", until="done", timeout=0.2)
    assert result.get("until", result.get("error")) == outcome
    assert result.get("status", 202) == 202


async def test_all_repeated_requests_are_one_response_with_the_time_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_FIRST_DELAY_S", 0.5)
    tools = HttpTools()
    async with upstream(states(PENDING, DONE)) as server:
        waited = await tools.get(server.url, until_path="$.json.result", until=7)
        assert len(server.requests) == 2
        assert tools.responses.find().elapsed_ms < 500
        plain = await tools.get(server.url)
    await tools.cleanup()
    assert waited == {**plain, "response": "r1", "until": True}
    assert plain["response"] == "r2"


@each_row(
    "arguments, message",
    [
        ({"until": "done"}, "set until only with until_path"),
        ({"until_path": "$.json["}, "$.json[ is not a valid JSONPath: "),
        ({"until_path": "json.state"}, "json.state is not a valid JSONPath: it must start with $"),
        ({"until_path": "$.state"}, "until_path starts with one of $.status, $.url, $.headers, $."),
    ],
)
async def test_a_wrong_condition_is_an_error_before_the_first_request(
    arguments: dict[str, Json], message: str
) -> None:
    async with upstream(DONE) as server:
        assert (await get(server.url, **arguments))["error"].startswith(message)
    assert server.requests == []


async def test_only_a_failed_connection_is_repeated() -> None:
    async with web_service(redirects_to("http://example.com/")) as url:
        result = await get(f"{url}/from", until_path="$.json.state")
    assert "the host example.com is not allowed" in result["error"]


# Failures and hostile servers


async def test_a_refused_connection_is_an_error() -> None:
    async with upstream(fixed_length(b"")) as server:
        url = server.url
    place = urlsplit(url).netloc
    assert await get(url) == {"error": f"connection refused by {place}"}
    named = url.replace("127.0.0.1", "localhost")
    assert await get(named) == {
        "error": f"connection refused by {place.replace('127.0.0.1', 'localhost')}"
    }


async def test_a_name_without_host_is_an_error() -> None:
    async with http_tools("nothing.invalid") as toolset:
        result = await call(toolset, "get", url="http://nothing.invalid/")
    assert result == {"error": "there is no host with the name nothing.invalid"}


async def test_a_server_without_tls_is_an_error() -> None:
    async with web_service(echo) as url:
        result = await get(url.replace("http", "https"))
    assert result["error"].endswith("does not accept TLS connections")


async def endless_head(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await connection.send(b"a: b\r\n")
        await asyncio.sleep(0.01)


async def endless_body(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b"data: x\n\n")
        await asyncio.sleep(0.01)


@each_row("script", [silent, endless_head, endless_body])
async def test_the_time_limit_holds_for_the_whole_response(script: Script) -> None:
    result = await result_of(script, timeout=0.2)
    assert result == {"error": "no complete response from HOST:PORT within 0.2 s"}


async def rst_before_head(connection: Connection) -> None:
    await connection.rst()


CLOSED = "HOST:PORT closed the connection before the response"
TOO_LARGE = "the response of HOST:PORT is too large; the limit is 10 MB"
OK = b"HTTP/1.1 200 OK\r\n"
GZIP = OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n"


@each_row(
    "script, message",
    [
        (raw(b""), CLOSED),
        (raw(OK), CLOSED),
        (rst_before_head, CLOSED),
        (rst_in_body, INVALID),
        (raw(OK + b"Content-Length: 10\r\n\r\nabc"), INVALID),
        (raw(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"), INVALID),
        (raw(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), INVALID),
        (raw(b"SSH-2.0-OpenSSH\r\n"), INVALID),
        (raw(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), INVALID),
        (raw(OK + b"no colon\r\n\r\n"), INVALID),
        (raw(OK + b"A: " + b"x" * 100_000 + b"\r\n\r\n"), INVALID),
        (raw(GZIP + b"no gzip"), INVALID),
        (raw(GZIP + gzip.compress(bytes(200_000_000))), TOO_LARGE),
        (raw(OK + b"Content-Length: 100000000\r\n\r\n" + bytes(12_000_000)), TOO_LARGE),
    ],
)
async def test_a_broken_or_too_large_response_is_an_error(script: Script, message: str) -> None:
    assert await result_of(script) == {"error": message}


async def test_a_compressed_body_is_decompressed() -> None:
    assert (await result_of(raw(GZIP + gzip.compress(b"hello"))))["text"] == "hello"


async def test_a_failed_request_leaves_no_latest_response() -> None:
    async with upstream(fixed_length(b"{}")) as server:
        tools = HttpTools()
        await tools.get(server.url)
        assert tools.responses.find().id == "r1"
        for url in ("http://127.0.0.1:1/", "nonsense"):
            with pytest.raises(ToolError):
                await tools.get(url)
            with pytest.raises(ToolError, match=r"the request r[23] has no response"):
                tools.responses.find()
        assert tools.responses.find("r1").elapsed_ms > 0
        await tools.cleanup()


def test_the_limits_are_those_of_the_docs() -> None:
    page = (Path(__file__).parents[1] / "docs/reference/llm-tests-tools.md").read_text()
    for limit in (
        f"{http.MAX_BODY_BYTES // 1_000_000} MB",
        f"{http.MAX_REDIRECTS} redirects",
        f"default: {http.DEFAULT_TIMEOUT_S:g}",
        f"maximum: {http.MAX_TIMEOUT_S:g}",
    ):
        assert limit in page, limit
