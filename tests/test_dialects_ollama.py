from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import ollama
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_responses import whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.ollama.dialect import Ollama
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Failure, FinishReason, Media, Text, ToolCall, Turn, Usage

DIALECT = Ollama()

CHAT = b"""\
{"model":"qwen3","created_at":"2026-11-21T10:00:00.000000001Z","message":{"role":"assistant",\
"content":"","thinking":"I should greet."},"done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.100000001Z","message":{"role":"assistant",\
"content":"Hel"},"done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.200000001Z","message":{"role":"assistant",\
"content":"lo"},"done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.300000001Z","message":{"role":"assistant",\
"content":""},"done":true,"done_reason":"stop","total_duration":500000000,"prompt_eval_count":9,\
"eval_count":5}
"""

TOOLS = b"""\
{"model":"qwen3","created_at":"2026-11-21T10:00:00.000000001Z","message":{"role":"assistant",\
"content":"","tool_calls":[{"id":"call_a","function":{"index":0,"name":"get_weather","arguments":\
{"city":"Rome"}}}]},"done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.100000001Z","message":{"role":"assistant",\
"content":"","tool_calls":[{"id":"call_b","function":{"index":1,"name":"get_weather","arguments":\
{"city":"Oslo"}}}]},"done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.300000001Z","message":{"role":"assistant",\
"content":""},"done":true,"done_reason":"stop"}
"""

GENERATE = b"""\
{"model":"qwen3","created_at":"2026-11-21T10:00:00.000000001Z","response":"Hel","done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.100000001Z","response":"lo","done":false}
{"model":"qwen3","created_at":"2026-11-21T10:00:00.300000001Z","response":"","done":true,\
"done_reason":"length","context":[1,2,3],"prompt_eval_count":9,"eval_count":2}
"""

PULL = b"""\
{"status":"pulling manifest"}
{"status":"pulling 6a0746a1ec1a","digest":"sha256:6a0746a1ec1a","total":46,"completed":46}
{"status":"verifying sha256 digest"}
{"status":"success"}
"""

ERROR = b'{"error":"an error was encountered while running the model: unexpected EOF"}\n'


def make_request(path: str = "/api/chat", method: str = "POST", **body: object) -> Request:
    return Request(method, path, "", (), json.dumps(body).encode())


def head(status: int = 200, content_type: str = "application/x-ndjson") -> ResponseHead:
    return ResponseHead(status, "", (("Content-Type", content_type),), "chunked")


def stream_response(body: bytes) -> DialectResponse:
    return DialectResponse(head(), "ndjson", framing.split_messages("ndjson", body))


def empty_response(codec: str, status: int = 200, *headers: tuple[str, str]) -> DialectResponse:
    return DialectResponse(ResponseHead(status, "", headers, "length", 0), codec, [])


@each_row("path", ["chat", "generate", "pull", "push", "create"])
def test_the_paths_that_stream_are_matched(path: str) -> None:
    assert DIALECT.matches(make_request(f"/api/{path}"))


@each_row(
    ("method", "path"),
    [
        ("POST", "/api/embed"),
        ("POST", "/api/embeddings"),
        ("POST", "/api/show"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("GET", "/api/tags"),
        ("GET", "/api/ps"),
        ("GET", "/api/version"),
    ],
)
def test_the_paths_of_one_document_are_matched(method: str, path: str) -> None:
    request = make_request(path, method)
    assert dialects.dialect_of_request(request).name == "ollama"
    assert not DIALECT.streams(request)
    assert DIALECT.codec_name(request, head(200, "application/json")) == "whole"


@each_row(
    ("method", "path"),
    [
        ("GET", "/"),
        ("HEAD", "/api/version"),
        ("HEAD", "/api/tags"),
        ("POST", "/api/tags"),
        ("POST", "/api/delete"),
        ("POST", "/api/blobs/sha256:0"),
        ("PUT", "/api/chat"),
        ("GET", "/api/chat"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/api/chat/1"),
    ],
)
def test_other_paths_are_not_matched(method: str, path: str) -> None:
    assert not DIALECT.matches(make_request(path, method))


@each_row(
    ("body", "model"),
    [
        ({"model": "qwen3:8b"}, "qwen3:8b"),
        ({"name": "qwen3"}, "qwen3"),
        ({"source": "qwen3", "destination": "mine"}, "qwen3"),
        ({}, ""),
    ],
    ids=["model", "the name of old clients", "the source of a copy", "none"],
)
def test_the_model_is_found(body: dict[str, str], model: str) -> None:
    assert DIALECT.model(make_request(**body)) == model


@each_row(
    ("body", "streams"),
    [
        (b"{}", True),
        (b'{"stream":true}', True),
        (b'{"stream":null}', True),
        (b'{"stream":false}', False),
        (b"not JSON", True),
    ],
)
def test_a_request_streams_unless_it_says_no(body: bytes, streams: bool) -> None:
    assert DIALECT.streams(Request("POST", "/api/chat", "", (), body)) is streams


@each_row(
    ("status", "content_type", "stream", "expected"),
    [
        pytest.param(200, "application/x-ndjson", True, "ndjson", id="a stream"),
        pytest.param(200, "application/json", True, "ndjson", id="a stream of the cloud"),
        pytest.param(200, "application/json; charset=utf-8", False, "whole", id="a document"),
        pytest.param(404, "application/json; charset=utf-8", True, "whole", id="an error"),
    ],
)
def test_the_request_and_the_status_choose_the_framing(
    status: int, content_type: str, stream: bool, expected: str
) -> None:
    assert DIALECT.codec_name(make_request(stream=stream), head(status, content_type)) == expected


@each_row(
    ("body", "reason"),
    [
        pytest.param(CHAT, "done: true", id="a chat"),
        pytest.param(CHAT.rstrip(), "done: true", id="the last line not ended"),
        pytest.param(CHAT + b"\n", "done: true", id="a blank line at the end"),
        pytest.param(GENERATE, "done: true", id="a completion"),
        pytest.param(PULL, "status: success", id="a transfer"),
        pytest.param(
            CHAT[: CHAT.index(b"\n") + 1] + ERROR,
            "in-band error: an error was encountered while running the model: unexpecte…",
            id="an error line",
        ),
        pytest.param(
            b'{"status":"pulling manifest"}\n{"error":"file does not exist"}\n',
            "in-band error: file does not exist",
            id="an error line of a transfer",
        ),
    ],
)
def test_a_stream_with_its_last_line_is_complete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (True, reason)


@each_row(
    ("body", "reason"),
    [
        pytest.param(b"", "empty body", id="nothing"),
        pytest.param(b"\n\n", "empty body", id="blank lines"),
        pytest.param(CHAT[:-2], "no line with done: true", id="cut inside the last line"),
        pytest.param(b"<html></html>", "no line with done: true", id="a page"),
        pytest.param(
            PULL.replace(b"success", b"writing manifest"),
            "no success after status: writing manifest",
            id="a transfer without success",
        ),
    ],
)
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@given(st.integers(0, len(CHAT)))
def test_a_truncated_chat_is_incomplete(cut: int) -> None:
    assert DIALECT.completeness(stream_response(CHAT[:cut])).is_complete is (cut >= len(CHAT) - 1)


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(whole_response(CHAT.splitlines()[-1]), True, "JSON body", id="a document"),
        pytest.param(
            whole_response(b'{"model":"q'), False, "body is not JSON", id="a cut document"
        ),
        pytest.param(whole_response(b""), False, "empty body", id="nothing"),
        pytest.param(empty_response("whole"), True, "Content-Length 0", id="a deleted model"),
        pytest.param(
            empty_response("whole", 200, ("Content-Type", "application/json")),
            False,
            "empty body",
            id="a chat of nothing",
        ),
        pytest.param(
            whole_response(b"<html>", 404), True, "HTTP 404", id="a page in place of a deletion"
        ),
        pytest.param(empty_response("ndjson"), False, "empty body", id="a stream of nothing"),
        pytest.param(empty_response("whole", 404), True, "HTTP 404", id="an error of nothing"),
        pytest.param(whole_response(b'{"error":"busy"}', 503), True, "HTTP 503", id="an error"),
        pytest.param(whole_response(b"<html>", 502), True, "HTTP 502", id="a gateway's page"),
    ],
)
def test_completeness_of_a_json_body(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_an_http_error_is_always_complete() -> None:
    assert DIALECT.completeness(DialectResponse(head(500), "ndjson", [])).reason == "HTTP 500"


def test_a_completion_becomes_a_turn() -> None:
    (turn,) = DIALECT.decode_response(stream_response(GENERATE))
    assert turn.parts == (Text("Hello"),)
    assert (turn.finish, turn.usage) == (FinishReason.LENGTH, Usage(input=9, output=2))


def test_where_a_model_ran_and_how_long_it_took_is_kept() -> None:
    fields = {
        "remote_model": "qwen3:235b",
        "remote_host": "https://example.com",
        "total_duration": 4,
        "load_duration": 1,
        "prompt_eval_duration": 2,
        "eval_duration": 1,
    }
    body = json.dumps({"message": {}, "done": True, "context": [1, 2], **fields}).encode()
    assert DIALECT.decode_response(stream_response(body))[0].metadata == tuple(fields.items())


def test_a_transfer_is_a_turn_without_parts() -> None:
    assert DIALECT.decode_response(stream_response(PULL)) == (
        Turn((), finish=FinishReason.STOP, finish_raw="success"),
    )


@each_row(
    "body",
    [
        b'{"model":"m","embeddings":[[0.1,0.2]],"total_duration":1,"prompt_eval_count":1}',
        b'{"embedding":[0.1,0.2]}',
        b'{"models":[{"name":"qwen3:latest","model":"qwen3:latest","size":5200000000}]}',
        b'{"license":"","modelfile":"FROM qwen3","template":"{{ .Prompt }}","capabilities":[]}',
        b'{"version":"0.14.3"}',
        b"",
    ],
    ids=["embeddings", "an old embedding", "models", "a model", "a version", "a deletion"],
)
def test_embeddings_and_models_are_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()


def test_a_drawn_image_is_a_part() -> None:
    lines = (
        b'{"model":"m","completed":1,"total":2,"done":false}\n'
        b'{"model":"m","image":"iVBORw0K","done":true,"done_reason":"stop"}\n'
    )
    (turn,) = DIALECT.decode_response(stream_response(lines))
    assert turn.parts == (Media("image/*", base64="iVBORw0K"),)
    assert turn.finish is FinishReason.STOP


def test_images_of_a_message_are_parts_of_their_own() -> None:
    body = b'{"message":{"content":"Look:","images":["AAAA","BBBB",7]},"done":true}'
    (turn,) = DIALECT.decode_response(whole_response(body))
    assert turn.parts == (
        Text("Look:"),
        Media("image/*", base64="AAAA"),
        Media("image/*", base64="BBBB"),
    )


def test_an_error_of_the_cloud_keeps_its_status() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(b'{"error":"unauthorized","status":401,"signin_url":"x"}\n')
    )
    assert turn.failure == Failure("unauthorized", code="401")


def test_an_error_after_the_end_keeps_the_turn() -> None:
    (turn,) = DIALECT.decode_response(stream_response(GENERATE + ERROR))
    assert (turn.text, turn.finish, turn.usage) == ("Hello", FinishReason.LENGTH, Usage(9, 2))
    assert turn.failure is not None


@each_row(
    ("counts", "usage"),
    [
        ({"eval_count": 5}, Usage(output=5)),
        ({"prompt_eval_count": 9}, Usage(input=9)),
        ({}, None),
    ],
    ids=["the prompt was cached", "a model that said nothing", "none"],
)
def test_counts_may_be_absent(counts: dict[str, int], usage: Usage | None) -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(json.dumps({"done": True, **counts}).encode())
    )
    assert turn.usage == usage


@each_row(
    ("document", "finish", "raw"),
    [
        ({"done": True, "done_reason": "load"}, FinishReason.OTHER, "load"),
        ({"done": True}, FinishReason.OTHER, ""),
        ({"done": False}, None, ""),
        ({"message": {"content": "a"}}, None, ""),
        ({"response": "a"}, None, ""),
    ],
    ids=["a model was loaded", "an old server", "cut", "a bare message", "a bare response"],
)
def test_a_finish_is_never_made_up(
    document: dict[str, Any], finish: FinishReason | None, raw: str
) -> None:
    (turn,) = DIALECT.decode_response(stream_response(json.dumps(document).encode()))
    assert (turn.finish, turn.finish_raw) == (finish, raw)


def test_an_error_in_the_stream_keeps_the_preceding_content() -> None:
    (turn,) = DIALECT.decode_response(
        stream_response(GENERATE[: GENERATE.index(b"\n") + 1] + ERROR)
    )
    assert (turn.text, turn.finish) == ("Hel", None)
    assert turn.failure == Failure(json.loads(ERROR)["error"])


def test_an_http_error_is_one_turn_with_a_failure() -> None:
    error = b'{"error":"model \'x\' not found"}'
    assert DIALECT.decode_response(whole_response(error, 404)) == (
        Turn((), failure=Failure("model 'x' not found")),
    )


@each_row("body", [b"", b"[]", b'{"hello":1}', b"<html>"])
def test_other_responses_have_no_turn(body: bytes) -> None:
    assert (
        DIALECT.decode_response(whole_response(body))
        == DIALECT.decode_response(stream_response(body))
        == ()
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["content", "images", "tool_calls", "function", "name", "arguments"]),
            inner,
        )
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    """model message response thinking done done_reason error status eval_count
    total_duration image""".split()  # noqa: SIM905 # readable
)
LINES = st.dictionaries(KEYS, VALUES)


@given(st.lists(LINES, min_size=1), st.sampled_from([200, 500]))
def test_lines_of_any_shape_decode_to_serialisable_turns(
    lines: list[dict[str, Any]], status: int
) -> None:
    encoded = [json.dumps(line).encode() + b"\n" for line in lines]
    for response in (stream_response(b"".join(encoded)), whole_response(encoded[0], status)):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


def _client(status: int, body: bytes) -> ollama.Client:
    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=body)

    return ollama.Client(host="http://127.0.0.1", transport=httpx.MockTransport(respond))


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    assert DIALECT.error_body(424, "kind", "text") == b'{"error":"text"}'
    client = _client(424, DIALECT.error_body(424, "cassette_not_found", "no cassette"))
    with pytest.raises(ollama.ResponseError, match="no cassette") as raised:
        client.chat(model="m", messages=[])
    assert raised.value.status_code == 424


@pytest.mark.parametrize("body", [CHAT, TOOLS], ids=["text", "tools"])
def test_the_sdk_decodes_the_golden_chats_identically(body: bytes) -> None:
    lines = list(_client(200, body).chat(model="m", messages=[], stream=True))
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert turn.text == "".join(line.message.content or "" for line in lines)
    sdk_calls = [call.function for line in lines for call in line.message.tool_calls or ()]
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        (sdk_call.name, sdk_call.arguments) for sdk_call in sdk_calls
    ]


@each_row(
    ("body", "operation"),
    [
        (
            b'{"model":"m","embeddings":[[0.5]]}',
            lambda client: client.embed("m", "a").embeddings[0][0],
        ),
        (b'{"embedding":[0.5]}', lambda client: client.embeddings("m", "a").embedding[0]),
        (b"", lambda client: client.copy("m", "n").status),
        (b"", lambda client: client.delete("m").status),
        (b'{"models":[{"model":"m"}]}', lambda client: client.list().models[0].model),
        (b'{"models":[{"model":"m"}]}', lambda client: client.ps().models[0].model),
        (b'{"model_info":{},"template":"{{ .Prompt }}"}', lambda client: client.show("m").template),
        (b'{"status":"success"}', lambda client: client.create("m", from_="n").status),
    ],
    ids=["embed", "embeddings", "copy", "delete", "tags", "ps", "show", "create"],
)
def test_the_sdks_document_requests_are_matched(
    body: bytes, operation: Callable[[ollama.Client], object]
) -> None:
    requests: list[Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(Request(request.method, request.url.path, "", (), request.read()))
        return httpx.Response(200, content=body)

    client = ollama.Client(host="http://127.0.0.1", transport=httpx.MockTransport(respond))
    assert operation(client)
    assert [DIALECT.matches(item) and not DIALECT.streams(item) for item in requests] == [True]


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_response_is_complete_and_decoded_like_the_sdk() -> None:
    rows = [row for row in corpus.rows() if row.wire.startswith("ollama.")]
    assert len(rows) == 17
    for row in rows:
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        name = DIALECT.codec_name(row.request, row.head)
        assert name == ("ndjson" if "ndjson" in row.wire else "whole"), row.id
        response = DialectResponse(row.head, name, framing.split_messages(name, row.body))
        assert DIALECT.completeness(response).is_complete, row.id
        (turn,) = DIALECT.decode_response(response)
        assert turn.text == _read_by_sdk(row), row.id


def _read_by_sdk(row: corpus.Row) -> str:
    client = _client(row.status, row.body)
    match row.request.path, row.streaming:
        case "/api/chat", True:
            chat = client.chat(model="m", messages=[], stream=True)
            return "".join(line.message.content or "" for line in chat)
        case "/api/generate", True:
            return "".join(line.response or "" for line in client.generate(model="m", stream=True))
        case "/api/generate", False:
            return client.generate(model="m").response or ""
        case _:
            assert [line.status for line in client.pull("m", stream=True)][-1] == "success"
            return ""
