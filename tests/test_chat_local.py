"""`LocalProvider`: chats and models of a server with Ollama's API."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import ollama
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stub_upstream
from case_tables import each_row
from chat_providers import PROVIDERS, make_provider, request, response_events
from in_process_proxy import proxy
from llm_chat import (
    ChatError,
    Conversation,
    ErrorEvent,
    HttpSettings,
    LocalProvider,
    ManagesModels,
    Media,
    Message,
    ModelInfo,
    OllamaProvider,
    ProviderEvent,
    PullProgress,
    ReasoningEvent,
    ResponseEnd,
    Text,
    TextEvent,
    ToolCall,
    ToolCallStart,
    ToolDefinition,
    ToolResult,
    local_provider,
)
from llm_proxy.pacing import InstantPace
from llm_proxy.turns import Json, Usage
from stub_upstream import Connection, Script, Upstream

MODEL: Final = "qwen3:8b"

LINES: Final = (
    '{"message": {"role": "assistant", "thinking": "Höw?"}}',
    '{"message": {"role": "assistant", "content": "Let me "}}',
    '{"message": {"role": "assistant", "content": "lööк."}}',
    '{"message": {"tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {}}}]}}',
    '{"done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 5}',
)  # fmt: skip
EVENTS: Final = [
    ReasoningEvent("Höw?"),
    TextEvent("Let me "),
    TextEvent("lööк."),
    ToolCallStart(ToolCall("c", "look", "{}")),
]


# Chats


@pytest.mark.shows("002-54")
async def test_a_response_may_be_cut_at_every_byte() -> None:
    body = "\n".join(LINES).encode() + b"\n"
    for cut in range(1, len(body), 3):
        assert await events_of_pieces(body[:cut], body[cut:]) == EVENTS
    assert await events_of_pieces(*(bytes((byte,)) for byte in body)) == EVENTS


@pytest.mark.shows("002-54")
async def test_blank_and_malformed_lines_are_skipped_and_the_last_one_needs_no_lf() -> None:
    lines = ["", LINES[0], "  ", "{", LINES[1], "[1]", "no JSON", LINES[2], "\r", *LINES[3:]]
    body = b"\xff\n" + "\n".join(lines).encode()

    assert await events_of_pieces(body) == EVENTS


@pytest.mark.shows("002-57")
@each_row(
    "last_line, reason, raw_reason",
    [
        ('{"done": true, "done_reason": "stop"}', "stop", "stop"),
        ('{"done": true}', "stop", ""),
        ('{"done": true, "done_reason": "length"}', "length", "length"),
        ('{"done": false}', "stop", ""),
        ("", "stop", ""),
    ],
)
async def test_done_or_the_end_of_the_body_ends_the_response(
    last_line: str, reason: str, raw_reason: str
) -> None:
    body = f"{LINES[1]}\n{last_line}".encode()
    async with serving(body) as server:
        *events, end = await response_events(make_provider("local", server.url))

    assert events == [TextEvent("Let me ")]
    assert isinstance(end, ResponseEnd)
    assert (end.reason, end.raw_reason) == (reason, raw_reason)


@pytest.mark.shows("002-55", "002-56")
@each_row(
    "function, arguments",
    [
        ({"name": "look", "arguments": {"city": "Rome"}}, {"city": "Rome"}),
        ({"name": "look", "arguments": '{"city": "Rome"}'}, {"city": "Rome"}),
        ({"name": "look", "arguments": {}}, {}),
        ({"name": "look", "arguments": ""}, {}),
        ({"name": "look", "arguments": None}, {}),
        ({"name": "look"}, {}),
        ({"name": "look", "arguments": "no JSON"}, {}),
    ],
)
async def test_calls_have_an_id_and_arguments(function: Any, arguments: Any) -> None:
    line = {"message": {"tool_calls": [{"function": function}, {"function": function}]}}
    async with serving(json.dumps(line).encode() + b'\n{"done": true}\n') as server:
        *calls, end = await response_events(make_provider("local", server.url))

    first, second = (event for event in calls if isinstance(event, ToolCallStart))
    assert (first.args, second.args) == (arguments, arguments)
    assert UUID(first.call.id) != UUID(second.call.id)
    assert isinstance(end, ResponseEnd)
    assert end.reason == "tool"


@pytest.mark.shows("002-52", "002-53", "002-58")
@each_row(
    "serve, message, code",
    [
        (stub_upstream.fixed_length(b"", status="404 Not Found"), "HTTP 404: Not Found", "404"),
        (
            stub_upstream.fixed_length(b'{"error": "model is required"}', status="400 Bad Request"),
            "HTTP 400: Bad Request",
            "400",
        ),
        (stub_upstream.fixed_length(b"", status="500 Oops"), "HTTP 500: Oops", "500"),
        (stub_upstream.fixed_length(b""), "No response body", "NO_BODY"),
        (stub_upstream.fixed_length(b'{"error": "out of memory"}\n'), "out of memory",
         "PROVIDER_ERROR"),
    ],
)  # fmt: skip
async def test_an_error_is_one_event(serve: Script, message: str, code: str) -> None:
    async with stub_upstream.upstream(serve) as server:
        [error] = await response_events(make_provider("local", server.url))

    assert isinstance(error, ErrorEvent)
    assert (error.message, error.code) == (message, code)


@pytest.mark.shows("002-63")
async def test_a_refused_connection_names_the_server(unreachable_url: str) -> None:
    [error] = await response_events(LocalProvider(HttpSettings(unreachable_url, max_retries=0)))

    assert isinstance(error, ErrorEvent)
    assert error.message == f"Failed to connect to local server at {unreachable_url}"
    assert error.code == "CONNECTION_FAILED"


@pytest.mark.shows("002-47")
def test_the_default_server_is_that_of_ollama_and_is_asked_once() -> None:
    provider = LocalProvider()

    assert provider.name == "local"
    assert provider.settings.base_url == "http://127.0.0.1:11434"
    assert provider.settings.max_retries == 0


@pytest.mark.shows("002-48 to 002-51")
async def test_a_chat_is_the_request_of_the_official_client() -> None:
    schema: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
    conversation = Conversation(
        (
            Message("user", (Text("Ro"), Text("me?"), Media("image/png", base64="aGk="))),
            Message("assistant", (Text("I look."), ToolCall("c1", "look", '{"city": "Rome"}'))),
            Message("tool", (ToolResult("c1", '"rain"', "look"),)),
        ),
        model=MODEL,
        system="Be brief.",
        tools=(ToolDefinition("look", "Looks.", schema),),
        temperature=0.5,
        max_tokens=9,
    )
    async with serving(b'{"message": {"role": "assistant"}, "done": true}\n') as server:
        await response_events(make_provider("local", server.url), conversation)
        async with ollama.AsyncClient(server.url) as client:
            stream = await client.chat(
                MODEL,
                [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Rome?", "images": ["aGk="]},
                    {
                        "role": "assistant",
                        "content": "I look.",
                        "tool_calls": [
                            {"function": {"name": "look", "arguments": {"city": "Rome"}}}
                        ],
                    },
                    {"role": "tool", "content": '"rain"', "tool_name": "look"},
                ],
                tools=[
                    {
                        "type": "function",
                        "function": {"name": "look", "description": "Looks.", "parameters": schema},
                    }
                ],
                options={"temperature": 0.5, "num_predict": 9},
                stream=True,
            )
            async for _ in stream:
                pass
    (our_head, our_body), (_, official_body) = server.requests
    ours = json.loads(our_body)
    # The official client drops the ids of calls.
    assert ours["messages"][2]["tool_calls"][0].pop("id") == "c1"
    assert ours["messages"][3].pop("tool_call_id") == "c1"
    assert our_head.startswith(b"POST /api/chat HTTP/1.1\r\n")
    assert ours == json.loads(official_body)


async def test_text_and_usage_are_those_of_the_official_client(tmp_path: Path) -> None:
    async with proxy("simulate", tmp_path, pace=InstantPace()) as running_proxy:
        *events, end = await response_events(make_provider("local", running_proxy.url))
        async with ollama.AsyncClient(running_proxy.url) as client:
            stream = await client.chat("m", [{"role": "user", "content": "Hello."}], stream=True)
            pieces = [piece async for piece in stream]

    assert [event.text for event in events if isinstance(event, TextEvent)] == [
        piece.message.content for piece in pieces if piece.message.content
    ]
    assert isinstance(end, ResponseEnd)
    assert end.usage == Usage(pieces[-1].prompt_eval_count, pieces[-1].eval_count)


# Models


@pytest.mark.shows("002-11", "002-60", "002-61", "002-62")
async def test_models_of_the_proxy_are_those_that_the_official_client_gets(tmp_path: Path) -> None:
    async with models_served(tmp_path) as (provider, client):
        assert isinstance(provider, ManagesModels)
        reports: list[PullProgress] = []
        models = await provider.list_models()
        name = models[0].name
        model = await provider.show_model(name)
        await provider.pull_model(name, reports.append)
        await provider.pull_model(name)
        await provider.delete_model(name)

        official_models = (await client.list()).models
        official_model = await client.show(name)
        official_reports = [report async for report in await client.pull(name, stream=True)]

    assert [(model.name, model.size_bytes) for model in models] == [
        (model.model, model.size) for model in official_models
    ]
    assert model.name == name
    assert isinstance(model.details, dict)
    assert official_model.details is not None
    assert model.details["family"] == official_model.details.family
    assert model.modified_at
    assert reports == [
        PullProgress(report.status or "", report.completed, report.total, report.digest or "")
        for report in official_reports
    ]
    assert reports[-1] == PullProgress("success")


@pytest.mark.shows("002-61")
async def test_progress_is_reported_for_each_line_wherever_it_is_cut() -> None:
    lines = (
        b'{"status": "pulling manifest"}\n\nno JSON\n'
        b'{"status": "pulling abc", "completed": 1, "total": 2}\n{"status": "success"}'
    )
    expected = [
        PullProgress("pulling manifest"),
        PullProgress("pulling abc", 1, 2),
        PullProgress("success"),
    ]
    for cut in range(1, len(lines), 7):
        reports: list[PullProgress] = []
        async with serving(lines[:cut], lines[cut:]) as server:
            provider = LocalProvider(HttpSettings(server.url))
            await provider.pull_model(MODEL, reports.append)
            await provider.aclose()
        [(head, body)] = server.requests
        assert reports == expected
        assert head.startswith(b"POST /api/pull HTTP/1.1\r\n")
        assert json.loads(body) == {"name": MODEL, "model": MODEL, "stream": True}


async def test_an_error_line_ends_a_download() -> None:
    lines = b'{"status": "pulling manifest"}\n{"error": "file does not exist"}\n'
    reports: list[PullProgress] = []
    async with serving(lines) as server:
        provider = LocalProvider(HttpSettings(server.url))
        with pytest.raises(ChatError, match=r"^POST /api/pull: file does not exist$"):
            await provider.pull_model(MODEL, reports.append)
        await provider.aclose()

    assert reports == [PullProgress("pulling manifest")]


@each_row(
    "lines, status",
    [(b"", ""), (b'{"status": "pulling abc", "completed": 1, "total": 2}\n', "pulling abc")],
)
async def test_a_download_that_is_cut_is_an_error(lines: bytes, status: str) -> None:
    async with serving(lines) as server:
        provider = LocalProvider(HttpSettings(server.url))
        with pytest.raises(ChatError, match=f"the download ended after the status '{status}'$"):
            await provider.pull_model(MODEL)
        await provider.aclose()


@each_row(
    ("completed_by_request", "waits"),
    [
        ([[1], [1, 2], [2, 3], [3, "success"]], 3),
        ([[1], [1], [1]], 2),
        ([[2], [1], [1, 2], ["success"]], 2),
        ([[], ["success"]], 0),
        ([["error"], ["success"]], 0),
    ],
    ids=["new bytes", "no new bytes", "fewer bytes", "nothing began", "error"],
)
async def test_a_cut_download_is_resumed_while_bytes_arrive(
    completed_by_request: list[list[int | str]], waits: int
) -> None:
    reports: list[PullProgress] = []
    waited_s: list[float] = []

    async def wait(seconds: float) -> None:
        waited_s.append(seconds)

    def line(item: int | str) -> bytes:
        report = {"status": "pulling", "digest": "d", "completed": item, "total": 9}
        special = {"success": {"status": "success"}, "error": {"error": "disk full"}}
        return json.dumps(special.get(str(item), report)).encode() + b"\n"

    def cut_after(items: list[int | str]) -> Script:
        async def serve(connection: Connection) -> None:
            await connection.begin()
            for item in items:
                await connection.chunk(line(item))
            connection.fin()

        return serve

    async with stub_upstream.upstream(*map(cut_after, completed_by_request)) as server:
        provider = OllamaProvider(HttpSettings(server.url), sleep=wait)
        is_success = False
        with suppress(ChatError):
            await provider.pull_model(MODEL, reports.append)
            is_success = True
        await provider.aclose()

    retries = [report.retry for report in reports if report.retry is not None]
    assert [retry.wait_s for retry in retries] == waited_s
    assert len(waited_s) == waits
    assert len(server.requests) == 1 + waits
    assert is_success == ("success" in completed_by_request[waits])


async def test_an_error_of_the_callback_ends_a_download_and_its_connection() -> None:
    closed = asyncio.Event()

    async def serve(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(b'{"status": "pulling manifest"}\n')
        await connection.reader.read()
        closed.set()

    def fail(_: PullProgress) -> None:
        raise RuntimeError("stopped")

    async with stub_upstream.upstream(serve) as server:
        provider = LocalProvider(HttpSettings(server.url))
        with pytest.raises(RuntimeError, match="stopped"):
            await provider.pull_model(MODEL, fail)
        async with asyncio.timeout(5):
            await closed.wait()
        await provider.aclose()


@pytest.mark.shows("002-60", "002-62")
async def test_the_fields_of_a_model_are_optional() -> None:
    document = {"models": [{"name": "a"}, {"name": "b", "size": "big", "details": {"x": 1}}]}
    async with serving(json.dumps(document).encode()) as server:
        provider = LocalProvider(HttpSettings(server.url))
        models = await provider.list_models()
        shown = await provider.show_model("c")
        await provider.delete_model("c")
        await provider.aclose()

    assert models == [ModelInfo("a"), ModelInfo("b", details={"x": 1})]
    assert shown == ModelInfo("c")
    assert [head.split(b" HTTP")[0] for head, _ in server.requests] == [
        b"GET /api/tags",
        b"POST /api/show",
        b"DELETE /api/delete",
    ]
    named = b'{"name":"c","model":"c"}'
    assert [body for _, body in server.requests] == [b"", named, named]


@each_row(
    "serve, message",
    [
        (
            stub_upstream.fixed_length(b'{"error": "no such model"}', status="404 Not Found"),
            "HTTP 404: Not Found: no such model",
        ),
        (stub_upstream.fixed_length(b"", status="500 Oops"), "HTTP 500: Oops"),
        (stub_upstream.fixed_length(b"<html>"), "the response is not a JSON object"),
        (stub_upstream.fixed_length(b"[]"), "the response is not a JSON object"),
        (stub_upstream.fixed_length(b""), "the response is not a JSON object"),
        (stub_upstream.chunked([b'{"models": [']), "the response is not a JSON object"),
    ],
)
async def test_a_failed_request_for_models_raises(serve: Script, message: str) -> None:
    async with stub_upstream.upstream(serve) as server:
        provider = LocalProvider(HttpSettings(server.url))
        with pytest.raises(ChatError) as raised:
            await provider.list_models()
        await provider.aclose()

    assert str(raised.value) == f"GET /api/tags: {message}"


async def endless_spaces(connection: Connection) -> None:
    await connection.begin(content_type="application/json")
    while True:
        await connection.chunk(b" ")
        await asyncio.sleep(0.02)


async def endless_document(connection: Connection) -> None:
    await connection.begin(content_type="application/json")
    while True:
        await connection.chunk(b"[" * 65_536)


async def endless_error(connection: Connection) -> None:
    await connection.begin(status="500 Oops")
    while True:
        await connection.chunk(b"x" * 65_536)


async def no_head(connection: Connection) -> None:
    await connection.reader.read()


async def half_a_document(connection: Connection) -> None:
    await connection.begin(content_type="application/json")
    await connection.chunk(b'{"models": [')
    connection.fin()


@each_row(
    "serve, message",
    [
        (endless_spaces, "no response within 1 s"),
        (no_head, "no response within 1 s"),
        (endless_document, "the response has more than 1048576 bytes"),
        (endless_error, "HTTP 500: Oops"),
        (half_a_document, "the connection was lost"),
    ],
)
async def test_a_hostile_server_ends_a_request_for_models(
    monkeypatch: pytest.MonkeyPatch, serve: Script, message: str
) -> None:
    monkeypatch.setattr(local_provider, "MAX_DECODED_BYTES", 1024 * 1024)
    async with stub_upstream.upstream(serve) as server, asyncio.timeout(10):
        provider = LocalProvider(HttpSettings(server.url, timeout_s=1.0))
        with pytest.raises(ChatError) as raised:
            await provider.show_model("m")
        await provider.aclose()

    assert str(raised.value) == f"POST /api/show: {message}"


async def test_a_refused_connection_for_models_raises(unreachable_url: str) -> None:
    provider = LocalProvider(HttpSettings(unreachable_url))
    for call in (
        provider.list_models(),
        provider.show_model("m"),
        provider.pull_model("m"),
        provider.delete_model("m"),
    ):
        with pytest.raises(ChatError, match=r"^Failed to connect to local server at http://127"):
            await call
    await provider.aclose()


# Properties

TEXTS: Final = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@st.composite
def response_lines(draw: st.DrawFn) -> tuple[list[bytes], list[ProviderEvent]]:
    """Lines of a response, and the event of each that has one."""
    lines: list[bytes] = []
    events: list[ProviderEvent] = []
    for number, kind in enumerate(
        draw(st.lists(st.sampled_from(("text", "thought", "call", "none", "bad")), max_size=12))
    ):
        text = draw(TEXTS)
        message: dict[str, Any] = {}
        match kind:
            case "text":
                message = {"content": text}
                events.append(TextEvent(text))
            case "thought":
                message = {"content": "", "thinking": text}
                events.append(ReasoningEvent(text))
            case "call":
                arguments = draw(st.dictionaries(TEXTS, st.integers(-9, 9), max_size=2))
                call_id = f"call-{number}"
                function = {"name": text, "arguments": arguments}
                message = {"tool_calls": [{"id": call_id, "function": function}]}
                written = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
                events.append(ToolCallStart(ToolCall(call_id, text, written)))
            case "none":
                message = {"content": ""}
            case _:
                lines.append(draw(st.sampled_from((b"", b"{", b"\xff", b"no JSON"))) + b"\n")
                continue
        is_ascii = draw(st.booleans())
        lines.append(json.dumps({"message": message}, ensure_ascii=is_ascii).encode() + b"\n")
    return [*lines, b'{"done": true}' + draw(st.sampled_from((b"", b"\n")))], events


# Feature: stage-02-core-provider, Property 15: For any server response stream, the Local_Provider
# should emit corresponding ProviderEvent objects for each chunk received.
@pytest.mark.shows("002-P15")
@settings(max_examples=100)
@given(data=st.data(), response=response_lines())
def test_each_line_gives_its_event_however_the_stream_is_cut(
    data: st.DataObject, response: tuple[list[bytes], list[ProviderEvent]]
) -> None:
    lines, expected = response
    body = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(body)), max_size=6, unique=True)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert asyncio.run(events_of_pieces(*filter(None, pieces))) == expected


FAILURES: Final = ("refused", "closed", "reset", "half a head", "not HTTP", "unknown host")


# Feature: stage-02-core-provider, Property 16: For any connection failure, the provider should emit
# an error event with a descriptive message and error code.
@pytest.mark.shows("002-P16", "002-63")
@settings(max_examples=100)
@given(
    name=st.sampled_from(PROVIDERS),
    failure=st.sampled_from(FAILURES),
    sent=st.binary(max_size=30),
    prompt=TEXTS.filter(str.strip),  # Bedrock refuses blank texts
)
def test_a_failed_connection_is_an_error_with_message_and_code(
    name: str, failure: str, sent: bytes, prompt: str
) -> None:
    [error] = asyncio.run(events_of_failure(name, failure, sent, prompt))

    assert isinstance(error, ErrorEvent)
    is_connected = failure not in ("refused", "unknown host")
    beginning = "No response from " if is_connected else "Failed to connect to "
    label = "local server" if name == "local" else name
    assert error.message.startswith(f"{beginning}{label} at http://")
    assert error.code == ("CONNECTION_LOST" if is_connected else "CONNECTION_FAILED")
    assert error.detail


async def events_of_failure(
    name: str, failure: str, sent: bytes, prompt: str
) -> list[ProviderEvent]:
    """The events of a request whose connection fails in this way."""

    async def serve(connection: Connection) -> None:
        match failure:
            case "half a head":
                await connection.send(b"HTTP/1.1 200 OK\r\nX-Filler: " + sent.hex().encode())
            case "not HTTP":
                await connection.send(b"\x00" + sent + b"\r\n\r\n")
            case "reset":
                await connection.rst()
            case _:
                pass
        connection.fin()

    conversation = request(prompt)
    if failure == "unknown host":
        return await response_events(make_provider(name, "http://nowhere.invalid"), conversation)
    if failure == "refused":
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{bound.getsockname()[1]}"
            return await response_events(make_provider(name, url), conversation)
    async with stub_upstream.upstream(serve) as server:
        return await response_events(make_provider(name, server.url), conversation)


# Shared


@asynccontextmanager
async def serving(*pieces: bytes) -> AsyncIterator[Upstream]:
    """A server that responds to every request with a body in these pieces."""
    async with stub_upstream.upstream(stub_upstream.chunked(pieces)) as server:
        yield server


async def events_of_pieces(*pieces: bytes) -> list[ProviderEvent]:
    """The events of a response in these pieces, without its end."""
    async with serving(*pieces) as server:
        *events, end = await response_events(make_provider("local", server.url))
    assert isinstance(end, ResponseEnd), end
    return events


@asynccontextmanager
async def models_served(folder: Path) -> AsyncIterator[tuple[LocalProvider, ollama.AsyncClient]]:
    """A provider and an official client of a simulated server."""
    async with (
        proxy("simulate", folder) as running_proxy,
        ollama.AsyncClient(running_proxy.url) as client,
    ):
        provider = LocalProvider(HttpSettings(running_proxy.url))
        yield provider, client
        await provider.aclose()


# The provider `ollama`, which checks what `local` accepts


@each_row(
    "body, code",
    [
        (LINES[1].encode() + b"\n", "INCOMPLETE_RESPONSE"),
        (LINES[1].encode() + b"\n{\n" + LINES[1].encode(), "INVALID_RESPONSE"),
    ],
)
async def test_ollama_reports_a_response_that_is_cut_or_malformed(body: bytes, code: str) -> None:
    async with serving(body) as server:
        provider = OllamaProvider(HttpSettings(server.url, max_retries=0))
        *_, error = await response_events(provider)

    assert isinstance(error, ErrorEvent)
    assert error.code == code


@each_row(
    "key, detail",
    [("canary-key", "the key *** is unknown"), ("the", "the key the is unknown")],
)
async def test_a_key_that_a_server_repeats_is_not_in_the_error(key: str, detail: str) -> None:
    """A short one is a placeholder, and may be a word of the message."""
    body = b'{"error": "the key %b is unknown"}' % key.encode()
    async with stub_upstream.upstream(
        stub_upstream.fixed_length(body, status="401 Unauthorized")
    ) as server:
        provider = OllamaProvider(HttpSettings(server.url, key, max_retries=0))
        [error] = await response_events(provider)
        with pytest.raises(ChatError) as failed_list:
            await provider.list_models()
        await provider.aclose()

    assert isinstance(error, ErrorEvent)
    assert error.detail == detail
    assert str(failed_list.value) == f"GET /api/tags: HTTP 401: Unauthorized: {detail}"


async def test_a_token_of_the_environment_that_a_server_repeats_is_not_in_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = "FwoCanaryOfASessionToken0123456789abcdefghijkl"
    monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    body = b'{"message": "the canonical string was x-amz-security-token:%b"}' % token.encode()
    async with stub_upstream.upstream(
        stub_upstream.fixed_length(body, status="403 Forbidden")
    ) as server:
        provider = OllamaProvider(HttpSettings(server.url, max_retries=0))
        [error] = await response_events(provider)
        await provider.aclose()

    assert isinstance(error, ErrorEvent)
    assert error.code == "403"
    assert "canonical string" in error.detail
    assert token not in f"{error!r} {error}"
