from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from cassette_builders import META, REQUEST, make_cassette
from llm_proxy import dialects, framing, matching
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome, cassette_response_turns
from llm_proxy.dialects import OPAQUE, DialectResponse
from llm_proxy.dialects.openai.other_endpoints import ENDPOINTS
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.turns import Failure, Turn

NAMES = [endpoint.name for endpoint in ENDPOINTS]
ANTHROPIC_HEADER = ("anthropic-version", "2023-06-01")
EMBEDDINGS_BODY = b'{"object":"list","data":[{"embedding":[0.5],"index":0}],"model":"m"}'
FORM = (
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\ngpt-4o-transcribe\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--xyz--\r\n'
)
FORM_HEADER = ("content-type", "multipart/form-data; boundary=xyz")


def make_request(
    path: str, method: str = "POST", *headers: tuple[str, str], body: bytes = b"", **fields: object
) -> Request:
    return Request(method, path, "", headers, json.dumps(fields).encode() if fields else body)


def head(
    status: int = 200, content_type: str = "application/json", http_framing: Framing = "length"
) -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", headers, http_framing)


def whole_response(body: bytes, *head_arguments: Any) -> DialectResponse:
    return DialectResponse(head(*head_arguments), "whole", framing.split_messages("whole", body))


def stream_response(*events: str) -> DialectResponse:
    body = "".join(f"{event}\n\n" for event in events).encode()
    return DialectResponse(
        head(200, "text/event-stream", "chunked"), "sse", framing.split_messages("sse", body)
    )  # fmt: skip


def type_event(kind: str) -> str:
    return f'data: {{"type":"{kind}"}}'


@each_row("name", NAMES)
def test_each_dialect_is_found_under_its_name(name: str) -> None:
    assert dialects.dialect_named(name).name == name


@each_row(
    ("method", "path", "name"),
    [
        ("POST", "/v1/embeddings", "openai-embeddings"),
        ("POST", "/embeddings", "openai-embeddings"),
        ("POST", "/api/v1/embeddings", "openai-embeddings"),
        ("POST", "/openai/deployments/my-model/embeddings", "openai-embeddings"),
        ("POST", "/v1beta/openai/embeddings", "openai-embeddings"),
        ("POST", "/v1/moderations", "openai-moderations"),
        ("POST", "/v1/images/generations", "openai-images"),
        ("POST", "/openai/deployments/d/images/edits", "openai-images"),
        ("POST", "/v1/audio/speech", "openai-audio"),
        ("POST", "/openai/v1/audio/transcriptions", "openai-audio"),
        ("POST", "/openai/deployments/whisper/audio/translations", "openai-audio"),
        ("POST", "/v1/videos", "openai-videos"),
        ("GET", "/v1/videos/video_1/content", "openai-videos"),
        ("GET", "/v1/models", "openai-models"),
        ("GET", "/models", "openai-models"),
        ("GET", "/openai/models", "openai-models"),
        ("GET", "/api/v1/models", "openai-models"),
        ("GET", "/v1/models/gpt-5", "openai-models"),
        ("DELETE", "/v1/models/ft:gpt-5:me", "openai-models"),
        ("POST", "/v1/files", "openai-files"),
        ("GET", "/openai/v1/files/file_1", "openai-files"),
        ("GET", "/v1/files/file_1/content", "openai-file-content"),
        ("POST", "/v1/uploads/upload_1/parts", "openai-uploads"),
        ("POST", "/v1/batches", "openai-batches"),
        ("POST", "/v1/batches/batch_1/cancel", "openai-batches"),
        ("POST", "/v1/fine_tuning/jobs", "openai-fine-tuning"),
        ("GET", "/v1/vector_stores/vs_1/files", "openai-vector-stores"),
        ("POST", "/v1/conversations", "openai-conversations"),
        ("POST", "/v1/threads/thread_1/runs", "openai-assistants"),
    ],
)
def test_each_endpoint_is_matched_by_its_own_dialect_alone(
    method: str, path: str, name: str
) -> None:
    request = make_request(path, method)
    assert [endpoint.name for endpoint in ENDPOINTS if endpoint.matches(request)] == [name]
    assert dialects.dialect_of_request(request).name == name


@each_row(
    ("request_", "name"),
    [
        pytest.param(
            make_request("/v1/models", "GET", ANTHROPIC_HEADER),
            "anthropic",
            id="Anthropic's models",
        ),
        pytest.param(
            make_request("/v1/files", "POST", ANTHROPIC_HEADER), "opaque", id="Anthropic's files"
        ),
        pytest.param(make_request("/api/embeddings"), "ollama", id="Ollama's embeddings"),
        pytest.param(make_request("/v1beta/models", "GET"), "gemini", id="Gemini's models"),
        pytest.param(
            make_request("/v1/models", "GET", ("x-goog-api-key", "k")),
            "gemini",
            id="Gemini's, by key",
        ),
        pytest.param(
            make_request("/v1/models", "GET", ("cohere-version", "1")),
            "cohere",
            id="Cohere's models",
        ),
        pytest.param(make_request("/v1/chat/completions"), "openai-chat", id="a chat"),
        pytest.param(make_request("/v1/responses"), "openai-responses", id="a response"),
        pytest.param(make_request("/v1/models"), "opaque", id="no way to ask for models"),
        pytest.param(make_request("/models/org/zephyr"), "opaque", id="a model of Hugging Face"),
        pytest.param(make_request("/files", "GET"), "opaque", id="anybody's files"),
        pytest.param(make_request("/threads/t/runs"), "opaque", id="anybody's threads"),
        pytest.param(make_request("/v1/myembeddings"), "opaque", id="another word"),
        pytest.param(make_request("/v1/embeddings", "GET"), "opaque", id="another method"),
    ],
)
def test_requests_of_other_apis_are_not_matched(request_: Request, name: str) -> None:
    assert dialects.dialect_of_request(request_).name == name


@given(
    path=st.from_regex(r"(/(v1|openai|models|files|audio|speech|content|x)){1,6}", fullmatch=True)
)
def test_no_two_endpoints_match_one_path(path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert sum(endpoint.matches(make_request(path, method)) for endpoint in ENDPOINTS) <= 1


@each_row(
    ("request_", "model"),
    [
        (make_request("/v1/embeddings", model="text-embedding-3-small"), "text-embedding-3-small"),
        (make_request("/openai/deployments/my%20model/embeddings", input="a"), "my model"),
        (
            make_request("/v1/audio/transcriptions", "POST", FORM_HEADER, body=FORM),
            "gpt-4o-transcribe",
        ),
        (make_request("/openai/deployments/d/audio/speech", body=b"{"), "d"),
        (make_request("/v1/models/gpt%2D5", "GET"), "gpt-5"),
        (make_request("/v1/models", "GET"), ""),
        (make_request("/v1/batches", endpoint="/v1/responses"), ""),
    ],
)
def test_the_model_is_found_in_the_body_the_form_or_the_path(request_: Request, model: str) -> None:
    assert dialects.dialect_of_request(request_).model(request_) == model


@each_row(
    ("request_", "content_type", "status", "codec"),
    [
        (make_request("/v1/embeddings"), "application/json", 200, "whole"),
        (make_request("/v1/audio/speech"), "audio/mpeg", 200, "whole"),
        (make_request("/v1/audio/speech"), "text/event-stream; charset=utf-8", 200, "sse"),
        (make_request("/v1/audio/speech"), "text/event-stream", 429, "whole"),
        (make_request("/v1/audio/speech", stream_format="sse"), "", 200, "sse"),
        (make_request("/v1/audio/speech", stream_format="audio"), "", 200, "whole"),
        (make_request("/v1/audio/transcriptions", "POST", FORM_HEADER, body=FORM), "", 200, "sse"),
        (make_request("/v1/images/generations", stream=True), "", 200, "sse"),
        (make_request("/v1/files/f/content", "GET"), "application/jsonl", 200, "ndjson"),
    ],
)
def test_status_and_content_type_choose_the_framing(
    request_: Request, content_type: str, status: int, codec: str
) -> None:
    assert (
        dialects.dialect_of_request(request_).codec_name(request_, head(status, content_type))
        == codec
    )


AUDIO_HEAD = (200, "audio/mpeg")


@each_row(
    ("name", "response", "expected"),
    [
        ("embeddings", whole_response(EMBEDDINGS_BODY), (True, True, "JSON body")),
        ("embeddings", whole_response(EMBEDDINGS_BODY[:-9]), (False, True, "body is not JSON")),
        (
            "embeddings",
            whole_response(b"<html>", 200, "text/html"),
            (False, True, "body is not JSON"),
        ),
        ("embeddings", whole_response(b"<html>", 502, "text/html"), (True, True, "HTTP 502")),
        ("models", whole_response(b""), (False, True, "empty body")),
        ("audio", whole_response(b"ID3\xff", *AUDIO_HEAD), (True, True, "HTTP framing ended")),
        (
            "audio",
            whole_response(b"ID3\xff", *AUDIO_HEAD, "close"),
            (True, False, "delimited by close"),
        ),
        ("audio", whole_response(b'{"text":"Hi', 200), (False, True, "body is not JSON")),
        ("audio", whole_response(b"Hi", 200, ""), (True, True, "HTTP framing ended")),
        (
            "videos",
            whole_response(b"\x00ftyp", 200, "video/mp4"),
            (True, True, "HTTP framing ended"),
        ),
        ("file-content", whole_response(b"{no JSON", 200), (True, True, "HTTP framing ended")),
    ],
)
def test_completeness_of_a_body_depends_on_its_endpoint(
    name: str, response: DialectResponse, expected: tuple[bool, bool, str]
) -> None:
    completeness = dialects.dialect_named(f"openai-{name}").completeness(response)
    assert (completeness.is_complete, completeness.is_proven, completeness.reason) == expected


@each_row(
    ("events", "expected"),
    [
        (["data: [DONE]"], (True, True, "[DONE]")),
        (["event: done\ndata: [DONE]"], (True, True, "[DONE]")),
        ([type_event("transcript.text.done")], (True, True, "transcript.text.done")),
        ([type_event("speech.audio.done"), ": ping"], (True, True, "speech.audio.done")),
        ([type_event("image_edit.completed")], (True, True, "image_edit.completed")),
        (["event: image_generation.completed\ndata: {}"],
         (True, True, "image_generation.completed")),
        ([type_event("image_generation.completed"), type_event("image_generation.partial_image")],
         (False, True, "no final event after image_generation.partial_image")),
        ([type_event("transcript.text.delta"), 'data: {"type":"transc'],
         (False, True, "no final event after transcript.text.delta")),
        ([type_event("transcript.text.delta"), 'event: error\ndata: {"message":"busy"}'],
         (True, True, "in-band error: busy")),
        ([type_event("conversation.response.done")], (True, False, "no known event type")),
        ([], (False, True, "empty stream")),
    ],
)  # fmt: skip
def test_completeness_of_a_stream_depends_on_its_last_typed_event(
    events: list[str], expected: tuple[bool, bool, str]
) -> None:
    completeness = dialects.dialect_named("openai-images").completeness(stream_response(*events))
    assert (completeness.is_complete, completeness.is_proven, completeness.reason) == expected


@each_row("name", NAMES)
def test_an_http_error_is_one_turn_with_a_failure(name: str) -> None:
    body = b'{"error":{"message":"no","type":"t","param":null,"code":"c"}}'
    assert dialects.dialect_named(name).decode_response(whole_response(body, 404)) == (
        Turn((), failure=Failure("no", "t", "c")),
    )


@each_row("name", NAMES)
def test_an_error_in_a_stream_is_one_turn_with_a_failure(name: str) -> None:
    response = stream_response(type_event("x.delta"), 'data: {"error":{"message":"busy"}}')
    assert dialects.dialect_named(name).decode_response(response) == (
        Turn((), failure=Failure("busy")),
    )


@each_row("name", NAMES)
def test_a_success_without_text_has_no_turn(name: str) -> None:
    assert (
        dialects.dialect_named(name).decode_response(
            whole_response(b'{"id":"b","error":{"message":""}}')
        )
        == ()
    )


@given(
    name=st.sampled_from(NAMES),
    body=st.binary(max_size=80),
    codec=st.sampled_from(("sse", "whole")),
)
def test_any_bytes_can_be_decoded(name: str, body: bytes, codec: str) -> None:
    response = DialectResponse(head(), codec, framing.split_messages(codec, body))
    assert dialects.dialect_named(name).completeness(response).reason
    assert len(dialects.dialect_named(name).decode_response(response)) <= 1


def test_a_cassette_recorded_as_opaque_is_decoded() -> None:
    request = replace(REQUEST, path="/v1/audio/transcriptions")
    body = (
        f'{type_event("transcript.text.delta")}\n\ndata: {{"type":"transcript.text.done",'.encode()
    )
    body += b'"text":"Hi."}\n\n'
    meta = msgspec.structs.replace(META, dialect="opaque")
    opaque_cassette = replace(make_cassette(body, codec="sse", meta=meta), request=request)
    assert cassette_dialect(opaque_cassette).name == "openai-audio"
    assert [turn.text for turn in cassette_response_turns(opaque_cassette)] == ["Hi."]
    assert str(cassette_outcome(opaque_cassette)) == "complete"


def test_the_dialect_is_no_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(REQUEST, path="/v1/embeddings", body=b'{"input":"a","model":"m"}')
    key = matching.request_key("openai", request)
    monkeypatch.setattr(dialects, "dialect_of_request", lambda _: OPAQUE)
    assert matching.request_key("openai", request) == key


def _sdk_request(operation: Callable[[openai.OpenAI], object], **azure: str) -> Request:
    """Return the request that the SDK sends."""
    requests: list[Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        pairs = tuple(request.headers.items())
        url = request.url
        requests.append(
            Request(request.method, url.path, url.query.decode(), pairs, request.read())
        )
        return httpx2.Response(400, json={"error": {"message": "no"}})

    http = httpx2.Client(transport=httpx2.MockTransport(respond))
    client = (
        openai.AzureOpenAI(
            api_key="none", api_version="2026-01-01", max_retries=0, http_client=http,
            azure_endpoint="http://127.0.0.1",
        )
        if azure
        else openai.OpenAI(
            api_key="none", base_url="http://127.0.0.1/v1", max_retries=0, http_client=http
        )
    )  # fmt: skip
    with client, pytest.raises(openai.BadRequestError, match="no"):
        operation(client)
    return requests[0]


AUDIO_FILE = ("a.wav", b"RIFF\x00\xff")

CALLS: list[tuple[str, str, Callable[[openai.OpenAI], object]]] = [
    ("openai-embeddings", "m", lambda client: client.embeddings.create(model="m", input="a")),
    ("openai-moderations", "m", lambda client: client.moderations.create(model="m", input="a")),
    ("openai-images", "m", lambda client: client.images.generate(model="m", prompt="a")),
    (
        "openai-images",
        "m",
        lambda client: client.images.edit(model="m", prompt="a", image=AUDIO_FILE),
    ),
    (
        "openai-audio",
        "m",
        lambda client: client.audio.speech.create(model="m", input="a", voice="b"),
    ),
    (
        "openai-audio",
        "m",
        lambda client: client.audio.transcriptions.create(model="m", file=AUDIO_FILE),
    ),
]
OWN_CALLS: list[tuple[str, str, Callable[[openai.OpenAI], object]]] = [
    ("openai-models", "", lambda client: client.models.list()),
    ("openai-models", "gpt-5", lambda client: client.models.retrieve("gpt-5")),
    ("openai-files", "", lambda client: client.files.create(file=AUDIO_FILE, purpose="batch")),
    ("openai-files", "", lambda client: client.files.list()),
    ("openai-file-content", "", lambda client: client.files.content("f")),
    ("openai-batches", "", lambda client: client.batches.list()),
    ("openai-fine-tuning", "m",
     lambda client: client.fine_tuning.jobs.create(model="m", training_file="f")),
    ("openai-vector-stores", "", lambda client: client.vector_stores.list()),
    ("openai-conversations", "", lambda client: client.conversations.create()),
]  # fmt: skip


@each_row(
    ("name", "model", "operation"),
    [*CALLS, *OWN_CALLS],
    ids=map("{0[0]} {1}".format, [*CALLS, *OWN_CALLS], itertools.count()),
)
def test_requests_of_the_sdk_are_matched(
    name: str, model: str, operation: Callable[[openai.OpenAI], object]
) -> None:
    request = _sdk_request(operation)
    assert (
        dialects.dialect_of_request(request).name,
        dialects.dialect_of_request(request).model(request),
    ) == (
        name,
        model,
    )


@each_row(
    ("name", "model", "operation"), CALLS, ids=map("{0[0]} {1}".format, CALLS, itertools.count())
)
def test_azure_requests_of_the_sdk_are_matched(
    name: str, model: str, operation: Callable[[openai.OpenAI], object]
) -> None:
    request = _sdk_request(operation, azure="yes")
    assert request.path.startswith("/openai/")
    assert (
        dialects.dialect_of_request(request).name,
        dialects.dialect_of_request(request).model(request),
    ) == (
        name,
        model,
    )


def test_the_form_requests_a_streamed_transcription() -> None:
    request = _sdk_request(
        lambda client: client.audio.transcriptions.create(model="m", file=AUDIO_FILE, stream=True)
    )
    assert dialects.dialect_of_request(request).streams(request)


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_exchange_is_complete() -> None:
    rows = [row for row in corpus.rows() if dialects.dialect_of_request(row.request).name in NAMES]
    incomplete = {}
    for row in rows:
        dialect = dialects.dialect_of_request(row.request)
        codec = dialect.codec_name(row.request, row.head)
        completeness = dialect.completeness(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        )
        if not (completeness.is_complete and completeness.is_proven):
            incomplete[row.id] = completeness.reason
    assert len(rows) == 46
    assert incomplete == {}
