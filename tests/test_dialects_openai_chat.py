from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

import corpus
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from dialect_responses import head, stream_response, whole_response
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import Completeness
from llm_proxy.dialects.openai.chat import OpenAIChat
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletion, ChatCompletionMessage

DIALECT = OpenAIChat()

Fields = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def make_request(
    path: str = "/v1/chat/completions", method: str = "POST", **body: object
) -> Request:
    return Request(method, path, "", (), json.dumps(body).encode())


def document(**fields: object) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def events(*documents: Fields) -> bytes:
    return b"".join(b"data: " + orjson.dumps(document) + b"\n\n" for document in documents)


def chunk(*choices: Fields, **fields: object) -> bytes:
    return events({"choices": choices, **fields})


def text_chunk(text: str, finish: str | None = None, index: int = 0) -> bytes:
    return chunk({"index": index, "delta": {"content": text}, "finish_reason": finish})


def choice(
    delta: Fields, finish: str | None = None, index: int = 0, logprobs: Json = None, **more: Json
) -> Fields:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish, **more}


def envelope(
    *choices: Fields,
    kind: str = "chat.completion.chunk",
    metadata: Fields | None = None,
    **fields: Any,
) -> Fields:
    """A chunk, or a whole response."""
    ids = {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "gpt-5"}
    return {**ids, **(metadata or {}), "choices": choices, **fields}


def chunks(*deltas: Fields, finish: str = "stop", **fields: Any) -> bytes:
    """The chunks of one choice, after the first; the last one has these fields."""
    first = FIRST | ({"content": None} if "tool_calls" in deltas[0] else {})
    middle = [envelope(choice(delta)) for delta in (first, *deltas)]
    return events(*middle, envelope(choice({}, finish), **fields))


def call(index: int, arguments: str, **start: Json) -> Fields:
    """The delta of a call: its start, with an ID and a name, or more of its arguments."""
    function = {**({"name": "get"} if start else {}), "arguments": arguments}
    kind = {"type": "function"} if start else {}
    return {"tool_calls": [{"index": index, **start, **kind, "function": function}]}


WITH_USAGE: Fields = {"stream": True, "stream_options": {"include_usage": True}}
COUNTS = {
    "prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 1},
}  # fmt: skip
METADATA: Fields = {
    "system_fingerprint": "fp", "service_tier": "flex", "provider": "X",
    "citations": ["https://example.com"],
}  # fmt: skip
CHOICE_METADATA: Fields = {"native_finish_reason": "end_turn", "stop_reason": 7}
LOGPROBS: Fields = {"content": [{"token": "Hi", "logprob": -0.5}]}

HELLO = Turn(
    (Text("Hello you"),), FinishReason.STOP, "stop", Usage(9, 2, 11, 4, 3, 1),
    id="chatcmpl-1", model="gpt-5",
)  # fmt: skip
UNCOUNTED = replace(HELLO, usage=None)
GOODBYE = replace(
    HELLO, parts=(Text("Bye"),), finish=FinishReason.LENGTH, finish_raw="length",
    metadata=(*METADATA.items(), *CHOICE_METADATA.items(), ("logprobs", LOGPROBS)),
)  # fmt: skip
CALLS = replace(
    UNCOUNTED, parts=(ToolCall("a", "get", '{"b": 1}'), ToolCall("b", "get", "{}")),
    finish=FinishReason.TOOL_CALLS, finish_raw="tool_calls",
)  # fmt: skip
FAILING = replace(
    UNCOUNTED, finish=None, finish_raw="", failure=Failure("Sorry", "server_error", "503")
)
SORRY = {"message": "Sorry", "type": "server_error", "param": None, "code": "503"}

FIRST: Fields = {"role": "assistant", "content": "", "refusal": None}
DELTAS = ({"content": "Hello"}, {"content": " you"})
TEXT = (
    events(
        *(envelope(choice(delta), usage=None) for delta in (FIRST, *DELTAS)),
        envelope(choice({}, "stop"), usage=None),
        envelope(usage=COUNTS),
    )
    + DONE
)
"""A minimal text stream, with every usage count of OpenAI."""

STREAMS: dict[str, tuple[Fields, str, tuple[Turn, ...], bytes]] = {
    "a text with usage": (WITH_USAGE, "", (HELLO,), TEXT),
    "a text": ({}, "", (UNCOUNTED,), chunks(*DELTAS) + DONE),
    "parallel calls": (
        {}, "", (CALLS,),
        chunks(
            call(0, "", id="a"), call(0, '{"b":'), call(0, " 1}"), call(1, "", id="b"),
            call(1, "{}"), finish="tool_calls",
        ) + DONE,
    ),
    "interleaved choices, with metadata": (
        {"n": 2}, "",
        (replace(UNCOUNTED, metadata=(*METADATA.items(),)), replace(GOODBYE, usage=None)),
        events(
            *(
                envelope(piece, metadata=METADATA)
                for piece in (
                    choice(FIRST), choice(FIRST, index=1),
                    choice({"content": "Hello"}), choice({"content": "Bye"}, index=1),
                    choice({"content": " you"}), choice({}, "stop"),
                    choice({}, "length", 1, LOGPROBS, **CHOICE_METADATA),
                )
            ),
        ) + DONE,
    ),
    **{
        f"{provider}'s, whose finish has the usage": (
            {}, provider, (HELLO,), chunks(*DELTAS, usage=COUNTS) + DONE,
        )
        for provider in ("deepseek", "groq", "mistral", "xai")
    },
    "Perplexity's, without DONE": (
        {}, "perplexity", (HELLO,), chunks(*DELTAS, usage=COUNTS),
    ),
    "Azure's, with a preamble": (
        {}, "azure", (UNCOUNTED,),
        events({
            "choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        }) + chunks(*DELTAS) + DONE,
    ),
    "an error amid it": (
        {}, "", (FAILING,),
        chunks(*DELTAS).rpartition(b"data: ")[0] + events({"error": SORRY}),
    ),
    "Groq's error": (
        {}, "groq", (FAILING,),
        chunks(*DELTAS).rpartition(b"data: ")[0] + b"event: error\n" + events({"error": SORRY}),
    ),
}  # fmt: skip
"""Fields of a request, the provider, the turns and the stream."""


@each_row(("body", "provider", "turns", "data"), STREAMS.values(), ids=STREAMS)
def test_turns_and_streams_convert_in_both_directions(
    body: Fields, provider: str, turns: tuple[Turn, ...], data: bytes
) -> None:
    request = make_request(**{"stream": True, **body})
    encoded = DIALECT.encode_response(request, turns, replace(ENCODE_CONTEXT, provider=provider))

    assert encoded.body == data
    assert DIALECT.decode_response(stream_response(data)) == turns
    assert DIALECT.completeness(stream_response(data)).is_complete


def test_turns_and_documents_convert_in_both_directions() -> None:
    first, second = (FIRST | {"content": text} for text in ("Hello you", "Bye"))
    ends = {"logprobs": None, "finish_reason": "stop"}
    data = envelope(
        {"index": 0, "message": first, **ends},
        {"index": 1, "message": second, "logprobs": LOGPROBS, "finish_reason": "length",
         **CHOICE_METADATA},
        kind="chat.completion", metadata=METADATA, usage=COUNTS,
    )  # fmt: skip
    turns = (replace(HELLO, metadata=tuple(METADATA.items())), GOODBYE)

    encoded = DIALECT.encode_response(make_request(n=2), turns, ENCODE_CONTEXT)
    assert encoded.body == orjson.dumps(data)
    assert DIALECT.decode_response(document(**data)) == turns


@each_row(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/api/v1/chat/completions",
        "/openai/v1/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions",
        "/v1beta/openai/chat/completions",
        "/client/v4/accounts/0/ai/v1/chat/completions",
        "//openai/deployments/gpt-4o/chat/completions",
        "/v1/agents/completions",
        "/v1/prompts/pp-1/completions",
    ],
)
def test_every_form_of_the_path_is_matched(path: str) -> None:
    assert DIALECT.matches(make_request(path))


@each_row(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/chat/completions", id="the list of stored completions"),
        pytest.param("POST", "/v1/chat/completions/chatcmpl-1", id="a stored completion"),
        pytest.param("POST", "/v1/completions", id="legacy completions"),
        pytest.param("POST", "/v1/responses", id="responses"),
    ],
)
def test_other_requests_are_not_matched(method: str, path: str) -> None:
    assert not DIALECT.matches(make_request(path, method))


@each_row(
    ("request_", "model"),
    [
        pytest.param(make_request(model="gpt-5"), "gpt-5", id="in the body"),
        pytest.param(
            make_request("/openai/deployments/my%20gpt/chat/completions"),
            "my gpt",
            id="Azure deployment",
        ),
        pytest.param(
            make_request("/openai/deployments/a/chat/completions", model="b"),
            "b",
            id="body before path",
        ),
        pytest.param(make_request(), "", id="none"),
        pytest.param(Request("POST", "/", "", (), b"\xff not JSON"), "", id="unreadable"),
    ],
)
def test_the_model_is_found(request_: Request, model: str) -> None:
    assert DIALECT.model(request_) == model


@each_row(
    ("body", "streams"),
    [({"stream": True}, True), ({"stream": False}, False), ({}, False), ({"stream": "yes"}, False)],
)
def test_a_request_streams_only_when_it_says_so(body: Fields, streams: bool) -> None:
    assert DIALECT.streams(make_request(**body)) is streams


@each_row(
    ("status", "content_type", "stream", "expected"),
    [
        pytest.param(200, "text/event-stream; charset=utf-8", True, "sse", id="a stream"),
        pytest.param(200, "text/event-stream;charset=UTF-8", False, "sse", id="unasked stream"),
        pytest.param(200, "application/json", True, "whole", id="a document in place of a stream"),
        pytest.param(200, "application/json", False, "whole", id="a document"),
        pytest.param(200, "", True, "sse", id="a stream without a type"),
        pytest.param(200, "", False, "whole", id="a document without a type"),
        pytest.param(400, "text/event-stream", True, "whole", id="an error labelled as a stream"),
        pytest.param(502, "text/html", True, "whole", id="a gateway's page"),
    ],
)
def test_status_and_content_type_choose_the_framing(
    status: int, content_type: str, stream: bool, expected: str
) -> None:
    assert DIALECT.codec_name(make_request(stream=stream), head(status, content_type)) == expected


EVERY, UNFINISHED = "every choice finished", "no [DONE], choice 0 unfinished"

COMPLETE = {
    "the usual end": (TEXT, "[DONE]"),
    "DONE without a line end": (TEXT.rstrip(), "[DONE]"),
    "CRLF": (TEXT.replace(b"\n", b"\r\n"), "[DONE]"),
    "no DONE, one choice": (text_chunk("Hi", "stop"), EVERY),
    "no DONE, two choices": (
        text_chunk("a", index=1) + text_chunk("b", "stop") + text_chunk("c", "length", index=1),
        EVERY,
    ),
    "a delta after the finish": (text_chunk("Hi", "stop") + text_chunk(""), EVERY),
    "no SSE at all": (b'{"error":{"message":"blocked"}}', "in-band error: blocked"),
}


@each_row(("body", "reason"), COMPLETE.values(), ids=COMPLETE)
def test_a_stream_with_an_end_marker_is_complete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert completeness == Completeness(
        is_complete=True, reason=reason, is_error=reason.startswith("in-band error")
    )


STREAM_ERRORS = {
    "in place of a chunk": (events({"error": {"message": "a", "type": "t"}}), Failure("a", "t")),
    "beside empty choices": (
        chunk(error={"code": 400, "message": "Token limit\nreached"}),
        Failure("Token limit\nreached", code="400"),
    ),
    "an event named error": (b'event: error\ndata: {"message":"no call"}\n\n', Failure("no call")),
    "Groq's event": (b'event: error\ndata: {"error":{"message":"no"}}\n\n', Failure("no")),
    "an error object that holds an error": (
        events({"object": "error", "error": {"message": "bad"}}), Failure("bad")
    ),
    "an event named error that is not JSON": (b"event: error\ndata: gone\n\n", Failure("gone")),
    "an error line that is no SSE": (
        b'error: {"detail":"x","error":{"message":"failed to decode"}}\n\n',
        Failure("failed to decode"),
    ),
    "an error line in words": (b"error: out of memory\n\n", Failure("out of memory")),
    "an error line not UTF-8": (b"error: out of \xff\n\n", Failure("out of \ufffd")),
    "an error event not UTF-8": (b"event: error\ndata: \xff\n\n", Failure("\ufffd")),
    "vLLM's flat error": (
        events({"object": "error", "message": "bad", "code": 400}), Failure("bad", code="400")
    ),
    "two, of which the first counts": (
        chunk(error={"message": "first"}) + chunk(error={"message": "second"}), Failure("first")
    ),
}  # fmt: skip


@each_row(("data", "failure"), STREAM_ERRORS.values(), ids=STREAM_ERRORS)
def test_an_error_completes_a_stream_which_keeps_the_preceding_content(
    data: bytes, failure: Failure
) -> None:
    response = stream_response(text_chunk("Hi") + data)

    reason = f"in-band error: {' '.join(failure.message.split())}"
    completeness = Completeness(is_complete=True, reason=reason, is_error=True)
    assert DIALECT.completeness(response) == completeness
    assert DIALECT.decode_response(response) == (Turn((Text("Hi"),), failure=failure),)


INCOMPLETE = {
    "nothing": (b"", "empty stream"),
    "blank lines": (b"\n\n", "empty stream"),
    "comments only": (b": PROCESSING\n\n", "no [DONE], no choice"),
    "DONE as a comment": (b": [DONE]\n\n", "no [DONE], no choice"),
    "half a DONE": (b"data: [DON", "no [DONE], no choice"),
    "a page": (b"<html>busy</html>", "no [DONE], no choice"),
    "cut": (text_chunk("Hi"), UNFINISHED),
    "DONE as text": (text_chunk("[DONE]"), UNFINISHED),
    "empty finish_reason": (text_chunk("Hi", ""), UNFINISHED),
    "error: null": (text_chunk("Hi") + chunk(error=None), UNFINISHED),
    "cut inside the finish": (text_chunk("Hi") + text_chunk("", "stop")[:-9], UNFINISHED),
    "one of three finished": (
        text_chunk("a", "stop") + text_chunk("b", index=1) + text_chunk("c", index=2),
        "no [DONE], choice 1, 2 unfinished",
    ),
}


@each_row(("body", "reason"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_stream_without_an_end_marker_is_incomplete(body: bytes, reason: str) -> None:
    completeness = DIALECT.completeness(stream_response(body))
    assert (completeness.is_complete, completeness.reason) == (False, reason)


@given(st.integers(0, len(TEXT) - 1))
def test_a_stream_cut_before_its_finish_is_incomplete(cut: int) -> None:
    finish_end = TEXT.index(b"\n", TEXT.index(b'"stop"'))
    assert DIALECT.completeness(stream_response(TEXT[:cut])).is_complete is (cut >= finish_end)


@each_row(
    ("response", "is_complete", "reason"),
    [
        pytest.param(whole_response(b'\n\n {"choices":[]}'), True, "JSON body", id="a document"),
        pytest.param(whole_response(b'{"me'), False, "body is not JSON", id="a cut document"),
        pytest.param(whole_response(b"<html>"), False, "body is not JSON", id="a page"),
        pytest.param(whole_response(b""), False, "empty body", id="nothing"),
        pytest.param(whole_response(b"<html>", 502), True, "HTTP 502", id="a gateway's page"),
        pytest.param(whole_response(b"", 401), True, "HTTP 401", id="an error without a body"),
        pytest.param(DialectResponse(head(500), "sse", []), True, "HTTP 500", id="an error, cut"),
    ],
)
def test_a_body_that_parses_or_reports_an_error_is_complete(
    response: DialectResponse, is_complete: bool, reason: str
) -> None:
    completeness = DIALECT.completeness(response)
    assert (completeness.is_complete, completeness.reason) == (is_complete, reason)


def test_metadata_of_later_chunks_replaces_that_of_earlier_ones() -> None:
    delta = {"content": "Hi", "extra_content": {"google": {"thought_signature": "s"}}}
    body = chunk({"delta": delta}, obfuscation="abc", service_tier="flex") + chunk(
        service_tier="default"
    )
    assert dict(DIALECT.decode_response(stream_response(body))[0].metadata) == {
        "service_tier": "default", "extra_content": delta["extra_content"],
    }  # fmt: skip


def test_choices_without_an_index_go_by_their_place() -> None:
    body = chunk({"delta": {"content": "a"}}, {"delta": {"content": "b"}})
    turns = DIALECT.decode_response(stream_response(body * 2))
    assert [turn.text for turn in turns] == ["aa", "bb"]


@each_row(
    ("raw", "finish", "sent_raws"),
    [
        ("stop", FinishReason.STOP, ["stop", ""]),
        ("eos", FinishReason.STOP, []),
        ("length", FinishReason.LENGTH, ["length", ""]),
        ("model_length", FinishReason.CONTEXT_FULL, []),
        ("tool_calls", FinishReason.TOOL_CALLS, []),
        ("function_call", FinishReason.TOOL_CALLS, []),
        ("content_filter", FinishReason.CONTENT_FILTER, ["content_filter", ""]),
        ("error", FinishReason.ERROR, ["error", ""]),
        ("abort", FinishReason.OTHER, ["abort"]),
    ],
)
def test_finish_reasons_and_finish_values_convert_in_both_directions(
    raw: str, finish: FinishReason, sent_raws: list[str]
) -> None:
    (turn,) = DIALECT.decode_response(stream_response(chunks(*DELTAS, finish=raw)))
    assert turn == replace(UNCOUNTED, finish=finish, finish_raw=raw)

    for sent_raw in sent_raws:
        encoded = DIALECT.encode_response(
            make_request(stream=True), [replace(turn, finish_raw=sent_raw)], ENCODE_CONTEXT
        )
        assert encoded.body == chunks(*DELTAS, finish=raw) + DONE


@pytest.mark.parametrize("raw", ["", None])
def test_an_empty_finish_reason_is_none(raw: str | None) -> None:
    (turn,) = DIALECT.decode_response(stream_response(text_chunk("Hi", raw)))
    assert (turn.finish, turn.finish_raw) == (None, "")


USAGES = {
    "whole floats count, booleans do not": (
        {"usage": {"prompt_tokens": 1.0, "completion_tokens": True}},
        Usage(input=1),
    ),
    "DeepSeek": (
        {"usage": {"prompt_cache_hit_tokens": 5, "prompt_tokens_details": {}}},
        Usage(cache_read=5),
    ),
    "Together": ({"usage": {"cached_tokens": 5}}, Usage(cache_read=5)),
    "Anthropic's words through a gateway": (
        {"usage": {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 6}},
        Usage(cache_read=5, cache_write=6),
    ),
    "Groq's agents": ({"x_groq": {"usage": {"total_tokens": 3}}}, Usage(total=3)),
    "Moonshot's choices": (
        {"choices": [{"delta": {}, "usage": {"total_tokens": 3}}]},
        Usage(total=3),
    ),
    "Perplexity": ({"usage": {"reasoning_tokens": 4}}, Usage(reasoning=4)),
    "null": ({"usage": None}, None),
    "not an object": ({"usage": []}, None),
}


@each_row(("fields", "usage"), USAGES.values(), ids=USAGES)
def test_usage_is_read_wherever_a_provider_puts_it(fields: Fields, usage: Usage | None) -> None:
    body = text_chunk("Hi") + b"data: " + json.dumps(fields).encode() + b"\n\n"
    (turn,) = DIALECT.decode_response(stream_response(body))
    assert turn.usage == usage


def test_the_last_usage_counts_where_every_chunk_carries_one() -> None:
    body = chunk({"delta": {}}, usage={"total_tokens": 1}) + chunk(usage={"total_tokens": 2})
    assert DIALECT.decode_response(stream_response(body))[0].usage == Usage(total=2)


def test_an_error_in_place_of_a_response_is_a_turn() -> None:
    response = stream_response(chunk(error={"message": "no"}))
    assert DIALECT.decode_response(response) == (Turn((), failure=Failure("no")),)


def test_an_error_of_one_choice_belongs_to_that_choice() -> None:
    body = text_chunk("a", "stop") + chunk(
        {"index": 1, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "x"}}
    )
    first, second = DIALECT.decode_response(stream_response(body))
    assert first.failure is None
    assert (second.finish, second.failure) == (FinishReason.ERROR, Failure("x", code="502"))


HTTP_ERRORS = {
    "code only": (b'{"error":{"code":429}}', Failure('{"code":429}', code="429")),
    "FastAPI": (b'{"detail":"Unauthorized"}', Failure("Unauthorized")),
    "FastAPI's validation": (b'{"detail":[{"loc":1}]}', Failure('[{"loc":1}]')),
    "in words": (b'{"error":"nope"}', Failure("nope")),
    "a gateway's page": (b"<html></html>", Failure("HTTP 502 Bad Gateway")),
    "nothing": (b"", Failure("HTTP 502 Bad Gateway")),
}


@each_row(("body", "failure"), HTTP_ERRORS.values(), ids=HTTP_ERRORS)
def test_an_http_error_is_one_turn_with_a_failure(body: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(whole_response(body, 502)) == (Turn((), failure=failure),)


@each_row(
    ("provider", "body"),
    [
        ("openai", b'{"error":{"message":"m","type":"t","param":null,"code":"15"}}'),
        ("openrouter", b'{"error":{"message":"m","type":"t","param":null,"code":15}}'),
        ("mistral", b'{"object":"error","message":"m","type":"t","param":null,"code":"15"}'),
    ],
)
def test_failures_and_http_errors_convert_in_both_directions(provider: str, body: bytes) -> None:
    failure = Failure("m", "t", "15")
    context = replace(ENCODE_CONTEXT, provider=provider)

    assert DIALECT.error_response(502, failure, context).body == body
    assert DIALECT.decode_response(whole_response(body, 502)) == (Turn((), failure=failure),)


@each_row("body", [b"", b"null", b"[]", b'{"choices":null}', b'{"hello":1}', b"<"])
def test_a_body_without_choices_has_no_turn(body: bytes) -> None:
    assert DIALECT.decode_response(whole_response(body)) == ()


def test_deltas_and_messages_are_interchangeable() -> None:
    body = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    assert DIALECT.completeness(stream_response(body)).reason == "every choice finished"
    assert DIALECT.decode_response(stream_response(body)) == DIALECT.decode_response(
        whole_response(body)
    )
    assert DIALECT.decode_response(document(choices=[{"delta": {"content": "Hi"}}]))[0].text == "Hi"


def test_perplexity_sends_delta_and_message_side_by_side() -> None:
    def delta_and_message(delta: str, message: str) -> Fields:
        return {"delta": {"content": delta}, "message": {"content": message}}

    assert (
        DIALECT.decode_response(document(choices=[delta_and_message("", "1 2")]))[0].text == "1 2"
    )
    body = chunk(delta_and_message("1", "1")) + chunk(delta_and_message(" 2", "1 2"))
    assert DIALECT.decode_response(stream_response(body))[0].text == "1 2"


def test_an_unparsable_chunk_is_skipped() -> None:
    body = text_chunk("a") + b'data: {"choices":[{"del\n\n' + b"data: \xff\n\n" + text_chunk("b")
    assert DIALECT.decode_response(stream_response(body))[0].text == "ab"


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
TYPES = st.sampled_from(["text", "thinking", "reasoning", "image_url", "custom", "url_citation"])
KEYS = st.sampled_from(
    """content type text thinking reasoning reasoning_content reasoning_details summary data
    signature refusal tool_calls index id function custom name arguments input function_call audio
    transcript images image_url url annotations url_citation start_index end_index message code
    total_tokens prompt_tokens_details cached_tokens \ud800""".split()  # noqa: SIM905 # readable
)
VALUES = st.recursive(
    LEAVES | TYPES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
CHOICES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["index", "delta", "message", "finish_reason", "error"], VALUES)
)
DOCUMENTS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)},
    optional=dict.fromkeys(["id", "model", "usage", "error", "object", "detail"], VALUES),
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.sampled_from([200, 400]))
def test_documents_of_any_shape_decode_to_serialisable_turns(
    documents: list[Fields], status: int
) -> None:
    encoded = [json.dumps(item).encode() for item in documents]
    events = b"".join(b"data: " + item + b"\n\n" for item in encoded)
    for response in (stream_response(events), whole_response(encoded[0], status)):
        assert DIALECT.completeness(response).reason
        assert orjson.dumps(DIALECT.decode_response(response))


def test_an_error_has_the_shape_that_the_sdk_prints() -> None:
    error = {"message": "text", "type": "kind", "param": None, "code": "kind"}
    assert json.loads(DIALECT.error_body(424, "kind", "text")) == {"error": error}
    body = DIALECT.error_body(424, "cassette_not_found", "no cassette for this request")
    with _client(424, "application/json", body) as client, pytest.raises(openai.APIError) as raised:
        client.chat.completions.create(model="m", messages=[])
    assert "no cassette for this request" in str(raised.value)
    assert (raised.value.type, raised.value.code) == ("cassette_not_found",) * 2


@each_row("name", ["a text with usage", "parallel calls", "interleaved choices, with metadata"])
def test_the_sdk_decodes_the_golden_streams_identically(name: str) -> None:
    _, _, turns, data = STREAMS[name]
    with _client(200, "text/event-stream", data) as client:
        assert _comparable_turns(turns) == _comparable_choices(_accumulate_stream(client))


def _client(status: int, content_type: str, body: bytes) -> openai.OpenAI:
    def respond(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


def _accumulate_stream(client: openai.OpenAI) -> ChatCompletion:
    """Return the SDK's accumulated completion; the SDK raises on some finish reasons."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for event in client.chat.completions.create(model="m", messages=[], stream=True):
        try:
            state.handle_chunk(event)
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            continue
    return state.current_completion_snapshot


ComparableChoice = tuple[object, ...]
"""Text, refusal, calls and finish, by which a turn is compared with a choice of the SDK."""


def _comparable_turns(turns: tuple[Turn, ...]) -> list[ComparableChoice]:
    return [
        (
            turn.text,
            "".join(part.text for part in turn.parts if isinstance(part, Refusal)),
            [(part.name, part.arguments) for part in turn.parts if isinstance(part, ToolCall)],
            turn.finish_raw,
        )
        for turn in turns
    ]


def _comparable_choices(completion: ChatCompletion) -> list[ComparableChoice]:
    choices: list[Any] = list(completion.choices)  # the SDK validates no types
    return [
        (
            choice.message.content or "",
            choice.message.refusal or "",
            list(_calls(choice.message)),
            choice.finish_reason or "",
        )
        for choice in choices
    ]


def _calls(message: ChatCompletionMessage) -> Iterator[tuple[str, str]]:
    function_call = message.function_call
    if function_call and (function_call.name or function_call.arguments):
        yield function_call.name, function_call.arguments
    for call in message.tool_calls or ():
        if call.type != "custom":  # Mistral sends no type
            yield call.function.name, call.function.arguments or ""


CHAT_WIRES = ("openai.chat.sse", "openai.chat.json")
needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def _response(row: corpus.Row) -> DialectResponse:
    name = DIALECT.codec_name(row.request, row.head)
    return DialectResponse(row.head, name, framing.split_messages(name, row.body))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_chat_is_matched_and_complete() -> None:
    rows = [row for row in corpus.rows() if row.wire in CHAT_WIRES]
    assert len(rows) > 400
    for row in rows:
        response = _response(row)
        assert dialects.dialect_of_request(row.request).name == DIALECT.name, row.id
        assert response.codec_name == ("sse" if row.wire == "openai.chat.sse" else "whole"), row.id
        assert DIALECT.completeness(response).is_complete, row.id
        assert DIALECT.model(row.request), row.id


@pytest.mark.corpus
@needs_corpus
def test_recorded_chats_without_done_are_complete_for_other_reasons() -> None:
    streams = [row for row in corpus.rows() if row.wire == "openai.chat.sse"]
    reasons = {row.id: DIALECT.completeness(_response(row)).reason for row in streams}
    finished = {row for row, reason in reasons.items() if reason == "every choice finished"}
    failed = {row for row, reason in reasons.items() if reason.startswith("in-band error")}
    assert finished == {
        "45bac3d1b48344d1",  # Hugging Face
        "532cea798a6cc190",  # GPUStack
        "6e62cbc8e585a97e",  # Perplexity
        "75c0fe7348055a3e",  # Hugging Face
        "dfae2e1008201759",  # Perplexity
    }
    assert failed == {
        "8e947bc80e736f76",  # Groq: event: error
        "9e866a6389da0871",  # Groq: event: error
        "d2b3e059494a97d3",  # GPUStack: a line `error: {...}`
    }
    assert set(reasons.values()) - {reasons[row] for row in finished | failed} == {"[DONE]"}


SDK_DECODES_DIFFERENTLY = {
    "0b943ec38ba3b57f": "Mistral's blocks stay a list in the SDK's content",
    "5aeff3a785a737f8": "Mistral's blocks stay a list in the SDK's content",
    "6abf31aab3c34ecc": "the SDK adds a string to Mistral's list and loses its first letter",
    "716ec6554a82e9d8": "Cloudflare's content is an object, which a turn spells as JSON",
    "93df9c400015df37": "Cloudflare's content is an object, which a turn spells as JSON",
    "0a4ddfd1d696c8ce": "Cloudflare's content is an object, which a turn spells as JSON",
}
SDK_CANNOT_READ = {
    "8e947bc80e736f76": "raises Groq's error",
    "9e866a6389da0871": "raises Groq's error",
    "d46e6c7cd7090593": "raises OpenRouter's error",
    "f95371acc5da385b": "annotations without an index",
    "829e198500e8ee68": "JSON without choices",
    "963631185ff985df": "a filtered choice without a message",
}


@pytest.mark.corpus
@needs_corpus
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_the_sdk_decodes_every_recorded_chat_identically() -> None:
    compared, decoded_differently, unreadable = set(), set(), set()
    for row in corpus.short_rows():
        if row.wire not in CHAT_WIRES or row.status != 200:
            continue
        compared.add(row.id)
        with _client(200, _content_type(row), row.body) as client:
            try:
                if row.wire == "openai.chat.sse":
                    sdk_choices = _comparable_choices(_accumulate_stream(client))
                else:
                    sdk_choices = _comparable_choices(
                        client.chat.completions.create(model="m", messages=[])
                    )
            except (openai.APIError, RuntimeError, TypeError, AttributeError):
                unreadable.add(row.id)
                continue
        if sdk_choices != _comparable_turns(DIALECT.decode_response(_response(row))):
            decoded_differently.add(row.id)
    assert decoded_differently == SDK_DECODES_DIFFERENTLY.keys() & compared
    assert unreadable == SDK_CANNOT_READ.keys() & compared
    assert len(compared) == quick_or_thorough(319, 403)


def _content_type(row: corpus.Row) -> str:
    return header_value(row.head.headers, "content-type") or ""


@pytest.mark.corpus
@needs_corpus
def test_responses_that_the_sdk_cannot_parse_are_decoded() -> None:
    rows = {row.id: row for row in corpus.rows() if row.id in SDK_CANNOT_READ}
    (blocked,) = DIALECT.decode_response(_response(rows["963631185ff985df"]))
    assert (blocked.parts, blocked.finish) == ((), FinishReason.CONTENT_FILTER)
    (cited,) = DIALECT.decode_response(_response(rows["f95371acc5da385b"]))
    assert sum(len(part.citations) for part in cited.parts if isinstance(part, Text)) == 5
    (limited,) = DIALECT.decode_response(_response(rows["d46e6c7cd7090593"]))
    assert limited.failure == Failure("Token limit reached", code="400")
    assert [type(part) for part in limited.parts] == [Reasoning]
