from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from cassette_builders import META, REQUEST, cassette
from llm_proxy import dialects, framing, matching
from llm_proxy.cassette_views import cassette_dialect, cassette_turns
from llm_proxy.dialects import OPAQUE, DialectResponse
from llm_proxy.dialects.openai.endpoints import ENDPOINTS
from llm_proxy.exchange import Framing, Request, ResponseHead
from llm_proxy.outcome import outcome_of
from llm_proxy.turns import Failure, Turn

NAMES = [endpoint.name for endpoint in ENDPOINTS]
CLAUDE = ("anthropic-version", "2023-06-01")
EMBEDDED = b'{"object":"list","data":[{"embedding":[0.5],"index":0}],"model":"m"}'
FORM = (
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\ngpt-4o-transcribe\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--xyz--\r\n'
)
IS_FORM = ("content-type", "multipart/form-data; boundary=xyz")


def asked(
    path: str, method: str = "POST", *headers: tuple[str, str], body: bytes = b"", **fields: object
) -> Request:
    return Request(method, path, "", headers, json.dumps(fields).encode() if fields else body)


def head(
    status: int = 200, content_type: str = "application/json", framed: Framing = "length"
) -> ResponseHead:
    headers = (("Content-Type", content_type),) if content_type else ()
    return ResponseHead(status, "", headers, framed)


def whole(body: bytes, *about: Any) -> DialectResponse:
    return DialectResponse(head(*about), "whole", framing.split_messages("whole", body))


def streamed(*events: str) -> DialectResponse:
    body = "".join(f"{event}\n\n" for event in events).encode()
    return DialectResponse(
        head(200, "text/event-stream", "chunked"), "sse", framing.split_messages("sse", body)
    )  # fmt: skip


def typed(kind: str) -> str:
    return f'data: {{"type":"{kind}"}}'


@pytest.mark.parametrize("name", NAMES)
def test_each_dialect_is_found_under_its_name(name: str) -> None:
    assert dialects.dialect_named(name).name == name


@pytest.mark.parametrize(
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
def test_each_endpoint_is_claimed_by_its_own_dialect_alone(
    method: str, path: str, name: str
) -> None:
    request = asked(path, method)
    assert [endpoint.name for endpoint in ENDPOINTS if endpoint.matches(request)] == [name]
    assert dialects.find_dialect(request).name == name


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        pytest.param(asked("/v1/models", "GET", CLAUDE), "anthropic", id="Anthropic's models"),
        pytest.param(asked("/v1/files", "POST", CLAUDE), "opaque", id="Anthropic's files"),
        pytest.param(asked("/api/embeddings"), "ollama", id="Ollama's embeddings"),
        pytest.param(asked("/v1beta/models", "GET"), "gemini", id="Gemini's models"),
        pytest.param(
            asked("/v1/models", "GET", ("x-goog-api-key", "k")), "gemini", id="Gemini's, by key"
        ),
        pytest.param(
            asked("/v1/models", "GET", ("cohere-version", "1")), "cohere", id="Cohere's models"
        ),
        pytest.param(asked("/v1/chat/completions"), "openai-chat", id="a chat"),
        pytest.param(asked("/v1/responses"), "openai-responses", id="a response"),
        pytest.param(asked("/v1/models"), "opaque", id="no way to ask for models"),
        pytest.param(asked("/models/org/zephyr"), "opaque", id="a model of Hugging Face"),
        pytest.param(asked("/files", "GET"), "opaque", id="anybody's files"),
        pytest.param(asked("/threads/t/runs"), "opaque", id="anybody's threads"),
        pytest.param(asked("/v1/myembeddings"), "opaque", id="another word"),
        pytest.param(asked("/v1/embeddings", "GET"), "opaque", id="another method"),
    ],
)
def test_what_is_somebody_elses_stays_theirs(request_: Request, name: str) -> None:
    assert dialects.find_dialect(request_).name == name


@given(
    path=st.from_regex(r"(/(v1|openai|models|files|audio|speech|content|x)){1,6}", fullmatch=True)
)
def test_no_two_endpoints_claim_one_path(path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert sum(endpoint.matches(asked(path, method)) for endpoint in ENDPOINTS) <= 1


@pytest.mark.parametrize(
    ("request_", "model"),
    [
        (asked("/v1/embeddings", model="text-embedding-3-small"), "text-embedding-3-small"),
        (asked("/openai/deployments/my%20model/embeddings", input="a"), "my model"),
        (asked("/v1/audio/transcriptions", "POST", IS_FORM, body=FORM), "gpt-4o-transcribe"),
        (asked("/openai/deployments/d/audio/speech", body=b"{"), "d"),
        (asked("/v1/models/gpt%2D5", "GET"), "gpt-5"),
        (asked("/v1/models", "GET"), ""),
        (asked("/v1/batches", endpoint="/v1/responses"), ""),
    ],
)
def test_the_model_is_found_in_the_body_the_form_or_the_path(request_: Request, model: str) -> None:
    assert dialects.find_dialect(request_).model(request_) == model


@pytest.mark.parametrize(
    ("request_", "content_type", "status", "codec"),
    [
        (asked("/v1/embeddings"), "application/json", 200, "whole"),
        (asked("/v1/audio/speech"), "audio/mpeg", 200, "whole"),
        (asked("/v1/audio/speech"), "text/event-stream; charset=utf-8", 200, "sse"),
        (asked("/v1/audio/speech"), "text/event-stream", 429, "whole"),
        (asked("/v1/audio/speech", stream_format="sse"), "", 200, "sse"),
        (asked("/v1/audio/speech", stream_format="audio"), "", 200, "whole"),
        (asked("/v1/audio/transcriptions", "POST", IS_FORM, body=FORM), "", 200, "sse"),
        (asked("/v1/images/generations", stream=True), "", 200, "sse"),
        (asked("/v1/files/f/content", "GET"), "application/jsonl", 200, "ndjson"),
    ],
)
def test_status_and_content_type_choose_the_framing(
    request_: Request, content_type: str, status: int, codec: str
) -> None:
    assert dialects.find_dialect(request_).codec(request_, head(status, content_type)) == codec


SOUND = (200, "audio/mpeg")


@pytest.mark.parametrize(
    ("name", "answer", "verdict"),
    [
        ("embeddings", whole(EMBEDDED), (True, True, "JSON body")),
        ("embeddings", whole(EMBEDDED[:-9]), (False, True, "body is not JSON")),
        ("embeddings", whole(b"<html>", 200, "text/html"), (False, True, "body is not JSON")),
        ("embeddings", whole(b"<html>", 502, "text/html"), (True, True, "HTTP 502")),
        ("models", whole(b""), (False, True, "empty body")),
        ("audio", whole(b"ID3\xff", *SOUND), (True, True, "HTTP framing ended")),
        ("audio", whole(b"ID3\xff", *SOUND, "close"), (True, False, "delimited by close")),
        ("audio", whole(b'{"text":"Hi', 200), (False, True, "body is not JSON")),
        ("audio", whole(b"Hi", 200, ""), (True, True, "HTTP framing ended")),
        ("videos", whole(b"\x00ftyp", 200, "video/mp4"), (True, True, "HTTP framing ended")),
        ("file-content", whole(b"{no JSON", 200), (True, True, "HTTP framing ended")),
    ],
)
def test_a_body_is_judged_by_what_its_endpoint_answers(
    name: str, answer: DialectResponse, verdict: tuple[bool, bool, str]
) -> None:
    judgement = dialects.dialect_named(f"openai-{name}").completeness(answer)
    assert (judgement.is_complete, judgement.is_proven, judgement.reason) == verdict


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        (["data: [DONE]"], (True, True, "[DONE]")),
        (["event: done\ndata: [DONE]"], (True, True, "[DONE]")),
        ([typed("transcript.text.done")], (True, True, "transcript.text.done")),
        ([typed("speech.audio.done"), ": ping"], (True, True, "speech.audio.done")),
        ([typed("image_edit.completed")], (True, True, "image_edit.completed")),
        (["event: image_generation.completed\ndata: {}"],
         (True, True, "image_generation.completed")),
        ([typed("image_generation.completed"), typed("image_generation.partial_image")],
         (False, True, "no end after image_generation.partial_image")),
        ([typed("transcript.text.delta"), 'data: {"type":"transc'],
         (False, True, "no end after transcript.text.delta")),
        ([typed("transcript.text.delta"), 'event: error\ndata: {"message":"busy"}'],
         (True, True, "in-band error: busy")),
        ([typed("conversation.response.done")], (True, False, "no event that could tell")),
        ([], (False, True, "empty stream")),
    ],
)  # fmt: skip
def test_a_stream_is_judged_by_its_last_event_that_tells(
    events: list[str], verdict: tuple[bool, bool, str]
) -> None:
    judgement = dialects.dialect_named("openai-images").completeness(streamed(*events))
    assert (judgement.is_complete, judgement.is_proven, judgement.reason) == verdict


@pytest.mark.parametrize("name", NAMES)
def test_an_http_error_is_a_turn_that_says_it(name: str) -> None:
    body = b'{"error":{"message":"no","type":"t","param":null,"code":"c"}}'
    assert dialects.dialect_named(name).decode(whole(body, 404)) == (
        Turn((), failure=Failure("no", "t", "c")),
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_error_in_a_stream_is_a_turn_that_says_it(name: str) -> None:
    answer = streamed(typed("x.delta"), 'data: {"error":{"message":"busy"}}')
    assert dialects.dialect_named(name).decode(answer) == (Turn((), failure=Failure("busy")),)


@pytest.mark.parametrize("name", NAMES)
def test_a_success_without_words_has_no_turn(name: str) -> None:
    assert dialects.dialect_named(name).decode(whole(b'{"id":"b","error":{"message":""}}')) == ()


@given(
    name=st.sampled_from(NAMES),
    body=st.binary(max_size=80),
    codec=st.sampled_from(("sse", "whole")),
)
def test_any_bytes_are_judged_and_read_without_a_complaint(
    name: str, body: bytes, codec: str
) -> None:
    answer = DialectResponse(head(), codec, framing.split_messages(codec, body))
    assert dialects.dialect_named(name).completeness(answer).reason
    assert len(dialects.dialect_named(name).decode(answer)) <= 1


def test_what_was_recorded_as_opaque_is_understood_now() -> None:
    request = replace(REQUEST, path="/v1/audio/transcriptions")
    body = f'{typed("transcript.text.delta")}\n\ndata: {{"type":"transcript.text.done",'.encode()
    body += b'"text":"Hi."}\n\n'
    it = replace(
        cassette(body, codec="sse", meta=replace(META, dialect="opaque")), request=request
    )  # fmt: skip
    assert cassette_dialect(it).name == "openai-audio"
    assert [turn.text for turn in cassette_turns(it)] == ["Hi."]
    assert str(outcome_of(it)) == "complete"


def test_the_dialect_is_no_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(REQUEST, path="/v1/embeddings", body=b'{"input":"a","model":"m"}')
    key = matching.request_key("openai", request)
    monkeypatch.setattr(dialects, "find_dialect", lambda _: OPAQUE)
    assert matching.request_key("openai", request) == key


def _seen(ask: Callable[[openai.OpenAI], object], **azure: str) -> Request:
    """What the SDK sends."""
    seen: list[Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        pairs = tuple(request.headers.items())
        url = request.url
        seen.append(Request(request.method, url.path, url.query.decode(), pairs, request.read()))
        return httpx2.Response(400, json={"error": {"message": "no"}})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
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
        ask(client)
    return seen[0]


SOUND_FILE = ("a.wav", b"RIFF\x00\xff")

CALLS: list[tuple[str, str, Callable[[openai.OpenAI], object]]] = [
    ("openai-embeddings", "m", lambda it: it.embeddings.create(model="m", input="a")),
    ("openai-moderations", "m", lambda it: it.moderations.create(model="m", input="a")),
    ("openai-images", "m", lambda it: it.images.generate(model="m", prompt="a")),
    ("openai-images", "m", lambda it: it.images.edit(model="m", prompt="a", image=SOUND_FILE)),
    ("openai-audio", "m", lambda it: it.audio.speech.create(model="m", input="a", voice="b")),
    ("openai-audio", "m", lambda it: it.audio.transcriptions.create(model="m", file=SOUND_FILE)),
]
OWN_CALLS: list[tuple[str, str, Callable[[openai.OpenAI], object]]] = [
    ("openai-models", "", lambda it: it.models.list()),
    ("openai-models", "gpt-5", lambda it: it.models.retrieve("gpt-5")),
    ("openai-files", "", lambda it: it.files.create(file=SOUND_FILE, purpose="batch")),
    ("openai-files", "", lambda it: it.files.list()),
    ("openai-file-content", "", lambda it: it.files.content("f")),
    ("openai-batches", "", lambda it: it.batches.list()),
    ("openai-fine-tuning", "m",
     lambda it: it.fine_tuning.jobs.create(model="m", training_file="f")),
    ("openai-vector-stores", "", lambda it: it.vector_stores.list()),
    ("openai-conversations", "", lambda it: it.conversations.create()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "model", "ask"),
    [*CALLS, *OWN_CALLS],
    ids=map("{0[0]} {1}".format, [*CALLS, *OWN_CALLS], itertools.count()),
)
def test_what_the_sdk_asks_is_recognised(
    name: str, model: str, ask: Callable[[openai.OpenAI], object]
) -> None:
    request = _seen(ask)
    assert (dialects.find_dialect(request).name, dialects.find_dialect(request).model(request)) == (
        name,
        model,
    )


@pytest.mark.parametrize(
    ("name", "model", "ask"), CALLS, ids=map("{0[0]} {1}".format, CALLS, itertools.count())
)
def test_what_the_sdk_asks_of_azure_is_recognised(
    name: str, model: str, ask: Callable[[openai.OpenAI], object]
) -> None:
    request = _seen(ask, azure="yes")
    assert request.path.startswith("/openai/")
    assert (dialects.find_dialect(request).name, dialects.find_dialect(request).model(request)) == (
        name,
        model,
    )


def test_a_streamed_transcription_is_asked_for_in_the_form() -> None:
    request = _seen(
        lambda it: it.audio.transcriptions.create(model="m", file=SOUND_FILE, stream=True)
    )
    assert dialects.find_dialect(request).streams(request)


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    body = dialects.dialect_named("openai-embeddings").error_body(
        424, "cassette_not_found", "no cassette"
    )
    assert json.loads(body)["error"] == {
        "message": "no cassette", "type": "cassette_not_found", "param": None,
        "code": "cassette_not_found",
    }  # fmt: skip


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_exchange_is_judged_whole() -> None:
    rows = [row for row in corpus.rows() if dialects.find_dialect(row.request).name in NAMES]
    not_whole = {}
    for row in rows:
        dialect = dialects.find_dialect(row.request)
        codec = dialect.codec(row.request, row.head)
        judgement = dialect.completeness(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        )
        if not (judgement.is_complete and judgement.is_proven):
            not_whole[row.id] = judgement.reason
    assert len(rows) == 46
    assert not_whole == {}
