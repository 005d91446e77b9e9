"""Bedrock encoding: models invoked in their native formats, and the metadata the service adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import orjson
import pytest

import corpus
from bedrock_encoding import (
    DIALECT,
    decode_document,
    encode_response,
    invoke_request,
    native_events,
    typed_payloads,
)
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from llm_proxy import dialects, framing
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Media,
    Metadata,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

METRICS: Final = "amazon-bedrock-invocationMetrics"
HI: Final = Turn((Text("Hi there"),), FinishReason.LENGTH, usage=Usage(input=9, output=2))
COUNTED: Final = {
    "inputTokenCount": 9,
    "outputTokenCount": 2,
    "invocationLatency": 100,
    "firstByteLatency": 100,
}


def encode_stream(model: str, turn: Turn = HI, **body: Any) -> list[Any]:
    """The events of a stream; removes the service metrics from the last after checking them."""
    *earlier, last = native_events(encode_response(invoke_request(model, **body), turn))
    assert last.pop(METRICS) == COUNTED
    assert not any(METRICS in item for item in earlier)
    return [*earlier, last]


def encode_document(model: str, turn: Turn = HI, **body: Any) -> Any:
    return decode_document(encode_response(invoke_request(model, stream=False, **body), turn))


CLAUDE: Final = "us.anthropic.claude-sonnet-4-5"


def test_claude_streams_have_the_events_of_recorded_ones_in_order() -> None:
    turn = Turn(
        (Reasoning("Hm.", "c2ln"), Text("Hi"), ToolCall("toolu_1", "f", '{"a":1}')),
        FinishReason.TOOL_CALLS,
        usage=Usage(input=9, output=2),
        id="msg_bdrk_1",
        model="claude-sonnet-4-5-20250929",
    )
    chunks = encode_stream(CLAUDE, turn)
    kinds = [(item["type"], item.get("delta", {}).get("type")) for item in chunks]
    assert [kind for kind, _ in groupby(kinds)] == [
        ("message_start", None),
        ("content_block_start", None),
        ("content_block_delta", "thinking_delta"),
        ("content_block_delta", "signature_delta"),
        ("content_block_stop", None),
        ("content_block_start", None),
        ("content_block_delta", "text_delta"),
        ("content_block_stop", None),
        ("content_block_start", None),
        ("content_block_delta", "input_json_delta"),
        ("content_block_stop", None),
        ("message_delta", None),
        ("message_stop", None),
    ]
    message_start = chunks[0]["message"]
    assert {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"} <= (
        set(message_start)
    )
    assert (message_start["id"], message_start["model"]) == (
        "msg_bdrk_1",
        "claude-sonnet-4-5-20250929",
    )
    assert chunks[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_claude_documents_have_the_fields_of_recorded_ones() -> None:
    response_document = encode_document(CLAUDE)
    assert response_document == {
        "id": response_document["id"],
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": [{"type": "text", "text": "Hi there"}],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }


def test_ids_are_made_as_bedrock_makes_them() -> None:
    turn = Turn((ToolCall("", "f", "{}"),))
    response_document = encode_document(CLAUDE, turn)
    assert response_document["id"].startswith("msg_bdrk_")
    assert response_document["content"][0]["id"].startswith("toolu_bdrk_")
    request = invoke_request("us.amazon.nova-lite-v1:0", stream=False)
    [block] = decode_document(encode_response(request, turn))["output"]["message"]["content"]
    assert block["toolUse"]["toolUseId"].startswith("tooluse_")


def test_nova_streams_converse_events_with_a_block_per_piece_of_text() -> None:
    turn = Turn(
        (Text("Hi there"), ToolCall("a", "f", "{}")), FinishReason.TOOL_CALLS, usage=HI.usage
    )
    assert encode_stream("us.amazon.nova-lite-v1:0", turn) == [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": " there"}}},
        {"contentBlockStop": {"contentBlockIndex": 1}},
        {
            "contentBlockStart": {
                "contentBlockIndex": 2,
                "start": {"toolUse": {"toolUseId": "a", "name": "f"}},
            }
        },
        {"contentBlockDelta": {"contentBlockIndex": 2, "delta": {"toolUse": {"input": "{}"}}}},
        {"contentBlockStop": {"contentBlockIndex": 2}},
        {"messageStop": {"stopReason": "tool_use"}},
        {
            "metadata": {
                "usage": {"inputTokens": 9, "outputTokens": 2},
                "metrics": {},
                "trace": {},
            }
        },
    ]


def test_nova_counts_its_cache_in_its_own_field() -> None:
    turn = replace(HI, usage=Usage(9, 2, 11, cache_read=3, cache_write=4))
    assert encode_document("amazon.nova-pro-v1:0", turn) == {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi there"}]}},
        "stopReason": "max_tokens",
        "usage": {
            "inputTokens": 9,
            "outputTokens": 2,
            "totalTokens": 11,
            "cacheReadInputTokenCount": 3,
            "cacheWriteInputTokenCount": 4,
        },
    }


def llama(text: str, *totals: Any) -> dict[str, Any]:
    names = ("prompt_token_count", "generation_token_count", "stop_reason")
    return {"generation": text, **dict(zip(names, totals or (None,) * 3, strict=True))}


def completion_list(name: str, text: str, reason: str | None = None) -> dict[str, Any]:
    return {name: [{"text": text, "stop_reason": reason}]}


COMPLETIONS_BY_MODEL: Final[dict[str, tuple[list[Any], Any]]] = {
    "us.meta.llama3-1-8b-instruct-v1:0": (
        [llama("Hi"), llama(" there"), llama("", 9, 2, "length")],
        llama("Hi there", 9, 2, "length"),
    ),
    "mistral.mistral-7b-instruct-v0:2": (
        [
            completion_list("outputs", "Hi"),
            completion_list("outputs", " there"),
            completion_list("outputs", "", "length"),
        ],
        completion_list("outputs", "Hi there", "length"),
    ),
    "us.deepseek.r1-v1:0": (
        [
            completion_list("choices", "Hi"),
            completion_list("choices", " there"),
            completion_list("choices", "", "length"),
        ],
        completion_list("choices", "Hi there", "length"),
    ),
    "cohere.command-r-plus-v1:0": (
        [
            {"is_finished": False, "event_type": "text-generation", "text": "Hi"},
            {"is_finished": False, "event_type": "text-generation", "text": " there"},
            {"is_finished": True, "event_type": "stream-end", "finish_reason": "MAX_TOKENS"},
        ],
        {"text": "Hi there", "finish_reason": "MAX_TOKENS", "chat_history": []},
    ),
}


@each_row("model", COMPLETIONS_BY_MODEL)
def test_each_vendor_has_its_own_completion_format(model: str) -> None:
    streamed, whole_body = COMPLETIONS_BY_MODEL[model]
    assert encode_stream(model) == streamed
    assert encode_document(model) == whole_body


@each_row(
    ("model", "finish_field"),
    [
        ("openai.gpt-oss-120b-1:0", "finish_reason"),
        ("qwen.qwen3-32b-v1:0", "finish_reason"),
        ("mistral.mistral-large-2407-v1:0", "stop_reason"),
    ],
)
def test_others_chat_as_openai_does(model: str, finish_field: str) -> None:
    turn = Turn((Reasoning("Hm."), Text("Hi"), ToolCall("a", "f", "{}")), usage=HI.usage)
    *earlier, last = encode_stream(model, turn)
    assert [item["choices"][0]["delta"] for item in earlier] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Hm."},
        {"content": "Hi"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
    ]
    assert last["choices"] == [{"index": 0, "delta": {}, finish_field: "tool_calls"}]
    assert {item["object"] for item in earlier} == {"chat.completion.chunk"}
    whole_body = encode_document(model, turn)
    assert whole_body["choices"][0][finish_field] == "tool_calls"
    assert whole_body["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:"
PROFILE: Final = f"{ARN}application-inference-profile/abc"


@each_row(
    ("model", "body", "field"),
    [
        (f"{ARN}inference-profile/eu.anthropic.claude-sonnet-5", {}, "type"),
        ("arn:aws:bedrock:us-east-1::foundation-model/meta.llama3-8b", {}, "generation"),
        (PROFILE, {"anthropic_version": "bedrock-2023-05-31"}, "type"),
        (PROFILE, {"inferenceConfig": {}}, "output"),
        (PROFILE, {"max_gen_len": 9}, "generation"),
    ],
)
def test_the_model_id_or_else_the_request_body_selects_the_format(
    model: str, body: dict[str, Any], field: str
) -> None:
    assert field in encode_document(model.replace("/", "%2F"), **body)


@each_row(
    "model",
    ["ai21.j2-mid-v1", "amazon.titan-embed-text-v2:0", "amazon.nova-canvas-v1:0", "notmeta.llama3",
     "amazon.nova-2-multimodal-embeddings-v1:0", "cohere.embed-english-v3", PROFILE],
)  # fmt: skip
def test_a_model_whose_format_is_not_known_is_refused_by_its_name(model: str) -> None:
    with pytest.raises(NotRepresentable, match=model.rpartition("/")[2]):
        encode_response(invoke_request(model.replace("/", "%2F")), HI)


LEGACY_REQUESTS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("anthropic.claude-v2", {"prompt": "Hi"}),
    ("amazon.titan-text-lite-v1", {}),
    ("cohere.command-text-v14", {}),
    (PROFILE, {"prompt": "Hi", "max_tokens_to_sample": 9}),
    (PROFILE, {"textGenerationConfig": {}}),
]


@each_row(("model", "body"), LEGACY_REQUESTS)
@each_row("stream", [True, False])
def test_a_legacy_text_completion_is_refused_and_the_alternative_named(
    model: str, body: dict[str, Any], stream: bool
) -> None:
    request = invoke_request(model.replace("/", "%2F"), stream=stream, **body)
    expected = f"{model.rpartition('/')[2]}: ask by Converse, or in `messages`"
    for answer in (DIALECT.encode_response, DIALECT.representable_turns):
        with pytest.raises(NotRepresentable, match=expected):
            answer(request, (HI,), ENCODE_CONTEXT)


@pytest.mark.parametrize(
    "part",
    [ToolCall("a", "f", "{}"), Media("image/png", base64="iVBO")],
    ids=["a call", "a picture"],
)
def test_a_text_only_format_refuses_other_parts(part: ToolCall | Media) -> None:
    with pytest.raises(NotRepresentable, match="no word for"):
        encode_response(invoke_request("meta.llama3"), Turn((part,)))


@pytest.mark.parametrize("model", [CLAUDE, "mistral.mistral-7b"])
def test_a_document_response_has_token_counts_in_headers(model: str) -> None:
    request = invoke_request(model, stream=False)
    usage = Usage(9, 2, cache_read=3, cache_write=4)
    response = encode_response(request, replace(HI, usage=usage))
    headers = {
        name: value for name, value in response.head.headers if name.startswith("x-amzn-bedrock")
    }
    assert headers == {
        "x-amzn-bedrock-input-token-count": "9",
        "x-amzn-bedrock-output-token-count": "2",
        "x-amzn-bedrock-cache-read-input-token-count": "3",
        "x-amzn-bedrock-cache-write-input-token-count": "4",
        "x-amzn-bedrock-invocation-latency": "100",
    }
    assert DIALECT.decode_response(response)[0].usage == usage


def test_usage_comes_from_the_headers_if_the_body_has_none() -> None:
    headers = (
        ("X-Amzn-Bedrock-Input-Token-Count", "9"),
        ("X-Amzn-Bedrock-Output-Token-Count", "many"),
    )
    body = orjson.dumps({"outputs": [{"text": "Hi", "stop_reason": "stop"}]})
    response = DialectResponse(
        ResponseHead(200, "OK", headers, "length", len(body)), "whole", (body,)
    )
    assert DIALECT.decode_response(response)[0].usage == Usage(input=9)


def test_a_stream_has_the_content_type_of_its_payloads() -> None:
    headers = encode_response(invoke_request(CLAUDE), HI).head.headers
    assert header_value(headers, "content-type") == "application/vnd.amazon.eventstream"
    assert header_value(headers, "x-amzn-bedrock-content-type") == "application/json"


GUARDED: Final[Metadata] = (
    (METRICS, {"inputTokenCount": 7, "outputTokenCount": 5, "invocationLatency": 3}),
    ("amazon-bedrock-guardrailAction", "INTERVENED"),
    ("amazon-bedrock-trace", {"guardrail": {}}),
)


@each_row("model", [CLAUDE, "amazon.nova-lite-v1:0", "meta.llama3"])
def test_service_metadata_is_in_the_last_event(model: str) -> None:
    response = encode_response(invoke_request(model), replace(HI, metadata=GUARDED))
    *earlier, last = native_events(response)
    assert not any("amazon-bedrock-trace" in item for item in earlier)
    assert all(last[name] == value for name, value in GUARDED)
    (turn,) = DIALECT.decode_response(response)
    assert turn.metadata[-3:] == GUARDED
    assert turn.usage == HI.usage


@each_row("model", [CLAUDE, "amazon.nova-lite-v1:0", "meta.llama3"])
def test_a_guardrail_action_is_in_a_document_once(model: str) -> None:
    response = encode_response(invoke_request(model, stream=False), replace(HI, metadata=GUARDED))
    assert decode_document(response)["amazon-bedrock-guardrailAction"] == "INTERVENED"
    (turn,) = DIALECT.decode_response(response)
    assert turn.metadata == GUARDED[1:]


def test_metrics_hold_the_usage_of_formats_without_token_counts() -> None:
    metadata: Metadata = (
        (METRICS, {"inputTokenCount": 7, "cacheReadInputTokenCount": 5, "invocationLatency": 3}),
    )
    response = encode_response(invoke_request("mistral.mistral-7b"), replace(HI, metadata=metadata))
    *_, last = native_events(response)
    assert last[METRICS] == {**COUNTED, "invocationLatency": 3}
    assert DIALECT.decode_response(response)[0].usage == HI.usage


@each_row("model", [CLAUDE, "amazon.nova-lite-v1:0", "meta.llama3", "openai.gpt"])
def test_a_failed_stream_ends_with_an_exception(model: str) -> None:
    failed = Turn((Text("Hel"),), failure=Failure("slow down", "throttlingException"))
    response = encode_response(invoke_request(model), failed)
    *earlier, last = typed_payloads(response)
    assert last == ("throttlingException", {"message": "slow down"})
    assert {name for name, _ in earlier} == {"chunk"}
    (turn,) = DIALECT.decode_response(response)
    assert (turn.parts, turn.failure, turn.finish) == (failed.parts, failed.failure, None)
    assert turn.metadata == ()


def test_claudes_own_tools_are_encoded_as_on_anthropics_api() -> None:
    parts = (ToolCall("a", "search", "{}"), ToolResult("a", "x", "search"), Text("Yes."))
    kinds = [item["type"] for item in encode_document(CLAUDE, Turn(parts))["content"]]
    assert kinds == ["mcp_tool_use", "mcp_tool_result", "text"]


UNKNOWN: Final = {"12f4b1178e71bfda"}
"""Row of a model that does not exist, whose stream format is therefore unknown."""

LEGACY: Final = {"3c64d871ce7bd1bb", "4075f1314a3adf41", "77de1cfa759c28f8", "cdd0d6ad3f1cc1e1"}
"""Rows of Titan's text completions, which are decoded and not encoded."""

needs_corpus: Final = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def recorded_answers() -> Iterator[tuple[corpus.Row, tuple[Turn, ...]]]:
    """Every recorded answer and its turns; rows recorded without frames are framed first."""
    for row in corpus.rows():
        if row.wire.startswith("bedrock."):
            codec, body = DIALECT.codec_name(row.request, row.head), row.body
            if row.wire.endswith(".payload"):
                codec, body = "eventstream", b"".join(map(framed, filter(None, body.splitlines())))
            yield (
                row,
                DIALECT.decode_response(
                    DialectResponse(row.head, codec, framing.split_messages(codec, body))
                ),
            )


def framed(line: bytes) -> bytes:
    [(name, payload)] = orjson.loads(line).items()
    return encode_frame([(":event-type", name)], orjson.dumps(payload))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_answer_round_trips_without_losses() -> None:
    refused: set[str] = set()
    count = 0
    for row, turns in recorded_answers():
        if not turns:
            continue
        count += 1
        assert dialects.dialect_of_request(row.request).name == DIALECT.name
        try:
            converted = DIALECT.representable_turns(row.request, turns, ENCODE_CONTEXT)
        except NotRepresentable:
            refused.add(row.id)
            continue
        assert converted.losses == (), row.id
        response = DIALECT.encode_response(row.request, turns, ENCODE_CONTEXT)
        assert DIALECT.decode_response(response) == converted.turns, row.id
        assert DIALECT.completeness(response).is_complete, row.id
        if row.status < 400:
            assert is_unchanged(turns[0], converted.turns[0]), row.id
    assert (count, refused) == (120, UNKNOWN | LEGACY)


def is_unchanged(turn: Turn, converted: Turn) -> bool:
    """Whether the turn is unchanged but for metrics and usage that the wire requires."""
    original_metadata, converted_metadata = dict(turn.metadata), dict(converted.metadata)
    if "metrics" not in original_metadata:
        converted_metadata.pop("metrics", None)
    usage = converted.usage if turn.usage else None
    return converted_metadata == original_metadata and replace(
        converted, usage=usage, metadata=()
    ) == replace(turn, metadata=())
