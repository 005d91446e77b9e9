"""Models invoked in their makers' formats: most rows are the turn of a body, and its body."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from bedrock_streams import (
    DIALECT,
    METRICS,
    METRICS_FIELD,
    convert,
    decode_document,
    decode_turn,
    encode_response,
    exception_frame,
    invoke_request,
    invoke_stream,
    stream_response,
    whole_response,
)
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from linear_time import assert_linear
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.framing.eventstream import parse_frame
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

CLAUDE: Final = "us.anthropic.claude-sonnet-4-5"
NOVA: Final = "us.amazon.nova-lite-v1:0"
LLAMA: Final = "us.meta.llama3-1-8b-instruct-v1:0"
MISTRAL: Final = "mistral.mistral-7b-instruct-v0:2"
GPT: Final = "openai.gpt-oss-120b-1:0"
HI: Final = Turn((Text("Hi there"),), FinishReason.LENGTH, "length", Usage(9, 2))
CALLING: Final = Turn(
    (Reasoning("Hm."), Text("Hi there"), ToolCall("a", "f", '{"a":1}')),
    FinishReason.TOOL_CALLS, "tool_calls", Usage(9, 2), id="c-1", model="m",
)  # fmt: skip
CLAUDE_TURN: Final = replace(
    CALLING, parts=(Reasoning("Hm.", "c2ln"), *CALLING.parts[1:]), finish_raw="tool_use"
)
NOVA_TURN: Final = replace(
    CALLING, parts=CALLING.parts[1:], finish_raw="tool_use", id="", model="",
    usage=Usage(9, 2, cache_read=3, cache_write=4),
)  # fmt: skip
CACHE_COUNTS: Final = {"cacheReadInputTokenCount": 3, "cacheWriteInputTokenCount": 4}
CLAUDE_START: Final[dict[str, Any]] = {
    "id": "c-1", "type": "message", "role": "assistant", "model": "m", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
}  # fmt: skip
CLAUDE_END: Final = {"stop_reason": "tool_use", "stop_sequence": None}
CLAUDE_COUNTS: Final = {"input_tokens": 9, "output_tokens": 2}


def claude_block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def nova_block(index: int, *deltas: dict[str, Any]) -> list[Any]:
    position = {"contentBlockIndex": index}
    return [
        *({"contentBlockDelta": {**position, "delta": delta}} for delta in deltas),
        {"contentBlockStop": position},
    ]


def llama(text: str, *totals: Any) -> dict[str, Any]:
    names = ("prompt_token_count", "generation_token_count", "stop_reason")
    return {"generation": text, **dict(zip(names, totals or (None,) * 3, strict=True))}


def completions(name: str, *pairs: tuple[str, str | None]) -> list[Any]:
    return [{name: [{"text": text, "stop_reason": reason}]} for text, reason in pairs]


def chat(kind: str, **choice: Any) -> dict[str, Any]:
    envelope = {"id": "c-1", "object": kind, "created": 1_700_000_000, "model": "m"}
    return {**envelope, "choices": [{"index": 0, **choice}]}


def chat_bodies(finish_field: str) -> tuple[list[Any], dict[str, Any]]:
    """The events and the document of OpenAI's chat format."""
    call = {"id": "a", "type": "function"}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "Hm"},
        {"reasoning_content": "."},
        {"content": "Hi"},
        {"content": " there"},
        {"tool_calls": [{"index": 0, **call, "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'a":1}'}}]},
    ]
    message = {
        "role": "assistant", "content": "Hi there", "refusal": None, "reasoning_content": "Hm.",
        "tool_calls": [{**call, "function": {"name": "f", "arguments": '{"a":1}'}}],
    }  # fmt: skip
    return (
        [
            *(chat("chat.completion.chunk", **{"delta": delta, finish_field: None})
              for delta in deltas),
            chat("chat.completion.chunk", **{"delta": {}, finish_field: "tool_calls"}),
        ],
        {
            **chat("chat.completion", **{"message": message, finish_field: "tool_calls"}),
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        },
    )  # fmt: skip


@each_row(
    ("model", "turn", "events", "document", "total", "cache_counts"),
    [
        pytest.param(
            CLAUDE, CLAUDE_TURN,
            [
                {"type": "message_start", "message": CLAUDE_START},
                *claude_block(
                    0, {"type": "thinking", "thinking": "", "signature": ""},
                    {"type": "thinking_delta", "thinking": "Hm"},
                    {"type": "thinking_delta", "thinking": "."},
                    {"type": "signature_delta", "signature": "c2ln"},
                ),
                *claude_block(
                    1, {"type": "text", "text": ""},
                    {"type": "text_delta", "text": "Hi"}, {"type": "text_delta", "text": " there"},
                ),
                *claude_block(
                    2, {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                    *({"type": "input_json_delta", "partial_json": piece}
                      for piece in ("", '{"', 'a":1}')),
                ),
                {"type": "message_delta", "delta": CLAUDE_END, "usage": CLAUDE_COUNTS},
                {"type": "message_stop"},
            ],
            {
                **CLAUDE_START,
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                    {"type": "text", "text": "Hi there"},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}},
                ],
                **CLAUDE_END, "usage": CLAUDE_COUNTS,
            },
            None, {},
            id="Claude, as on Anthropic's API",
        ),
        pytest.param(
            NOVA, NOVA_TURN,
            [
                {"messageStart": {"role": "assistant"}},
                *nova_block(0, {"text": "Hi"}),
                *nova_block(1, {"text": " there"}),
                {"contentBlockStart": {
                    "contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "a", "name": "f"}},
                }},
                *nova_block(2, {"toolUse": {"input": '{"'}}, {"toolUse": {"input": 'a":1}'}}),
                {"messageStop": {"stopReason": "tool_use"}},
                {"metadata": {
                    "usage": {"inputTokens": 9, "outputTokens": 2, **CACHE_COUNTS},
                    "metrics": {}, "trace": {},
                }},
            ],
            {
                "output": {"message": {"role": "assistant", "content": [
                    {"text": "Hi there"},
                    {"toolUse": {"toolUseId": "a", "name": "f", "input": {"a": 1}}},
                ]}},
                "stopReason": "tool_use",
                "usage": {"inputTokens": 9, "outputTokens": 2, "totalTokens": 11, **CACHE_COUNTS},
            },
            11, CACHE_COUNTS,
            id="Nova, with a block per piece of text",
        ),
        pytest.param(
            LLAMA, HI, [llama("Hi"), llama(" there"), llama("", 9, 2, "length")],
            llama("Hi there", 9, 2, "length"),
            None, {},
            id="Llama",
        ),
        *(
            pytest.param(
                model, replace(HI, finish=FinishReason.STOP, finish_raw="stop"),
                completions(name, ("Hi", None), (" there", None), ("", "stop")),
                *completions(name, ("Hi there", "stop")), None, {},
                id=model,
            )
            for model, name in ((MISTRAL, "outputs"), ("us.deepseek.r1-v1:0", "choices"))
        ),
        pytest.param(
            "cohere.command-r-plus-v1:0", replace(HI, finish_raw="MAX_TOKENS"),
            [
                {"is_finished": False, "event_type": "text-generation", "text": "Hi"},
                {"is_finished": False, "event_type": "text-generation", "text": " there"},
                {"is_finished": True, "event_type": "stream-end", "finish_reason": "MAX_TOKENS"},
            ],
            {"text": "Hi there", "finish_reason": "MAX_TOKENS", "chat_history": []},
            None, {},
            id="Command R",
        ),
        *(
            pytest.param(model, CALLING, *chat_bodies(finish_field), 11, {}, id=model)
            for model, finish_field in (
                (GPT, "finish_reason"), ("qwen.qwen3-32b-v1:0", "finish_reason"),
                ("mistral.mistral-large-2407-v1:0", "stop_reason"),
            )
        ),
    ],
)  # fmt: skip
def test_a_turn_becomes_events_or_a_document_in_the_makers_format_and_both_become_the_turn(
    model: str,
    turn: Turn,
    events: list[Any],
    document: Any,
    total: int | None,
    cache_counts: dict[str, int],
) -> None:
    counted = {name: count for name, count in METRICS.items() if name.endswith("Count")}
    metrics = {**counted, **cache_counts, **METRICS}
    *earlier, last = events
    unnamed = replace(turn, finish_raw="")  # which each format names itself
    streamed = encode_response(invoke_request(model), unnamed)
    whole = encode_response(invoke_request(model, stream=False), unnamed)

    assert streamed.body == invoke_stream(*earlier, {**last, METRICS_FIELD: metrics})
    assert DIALECT.completeness(streamed).is_complete
    assert decode_turn(streamed) == replace(turn, metadata=((METRICS_FIELD, metrics),))
    assert whole.body == orjson.dumps(document)
    usage = replace(turn.usage or Usage(), total=total)  # which only some documents have
    assert decode_turn(whole) == replace(turn, usage=usage)


# What Bedrock sends and the encoder does not.


@each_row(
    ("document", "finish", "usage"),
    [
        pytest.param(
            {"outputText": "Hi", "completionReason": "LENGTH", "totalOutputTextTokenCount": 2.0},
            FinishReason.LENGTH, Usage(output=2), id="titan, a piece",
        ),
        pytest.param(
            {
                "inputTextTokenCount": 9,
                "results": [{"tokenCount": 2, "outputText": "Hi", "completionReason": "FINISH"}],
            },
            FinishReason.STOP, Usage(input=9, output=2), id="titan",
        ),
        pytest.param(
            {"generations": [{"text": "Hi", "finish_reason": "COMPLETE"}]},
            FinishReason.STOP, None, id="cohere",
        ),
        pytest.param(
            {"choices": [{"index": 0, "delta": {"content": "Hi"}, "stop_reason": "odd"}]},
            FinishReason.OTHER, None, id="as of OpenAI, with a reason of its own",
        ),
        pytest.param(
            {"completion": "Hi", "stop_reason": "stop_sequence"},
            FinishReason.STOP_SEQUENCE, None, id="claude 2",
        ),
    ],
)  # fmt: skip
def test_completions_that_are_never_encoded_are_decoded(
    document: dict[str, Any], finish: FinishReason, usage: Usage | None
) -> None:
    stream = invoke_stream(document, p="abc")  # padded like real ones
    for response in (whole_response(document), stream_response(stream)):
        turn = decode_turn(response)
        assert (turn.text, turn.finish, turn.usage) == ("Hi", finish, usage)
        assert DIALECT.completeness(response).is_complete


def test_counts_of_an_earlier_piece_are_kept() -> None:
    pieces = ({"generation": "Hel", "prompt_token_count": 9}, {"generation": "lo"})
    turn = decode_turn(stream_response(invoke_stream(*pieces)))
    assert (turn.parts, turn.finish, turn.usage) == ((Text("Hello"),), None, Usage(input=9))


def test_a_lone_surrogate_in_a_stop_reason_is_replaced() -> None:
    turn = decode_turn(whole_response(rb'{"generation":"Hi","stop_reason":"st\ud83d"}'))
    assert (turn.finish, turn.finish_raw) == (FinishReason.OTHER, "st\N{REPLACEMENT CHARACTER}")


def test_several_choices_are_several_turns() -> None:
    choices_document = {"generations": [{"text": "a", "finish_reason": "COMPLETE"}, {"text": "b"}]}
    assert DIALECT.decode_response(whole_response(choices_document)) == (
        Turn((Text("a"),), FinishReason.STOP, "COMPLETE"),
        Turn((Text("b"),)),
    )
    assert not DIALECT.completeness(stream_response(invoke_stream(choices_document))).is_complete


def test_usage_is_in_headers_if_the_body_has_none() -> None:
    headers = (
        ("X-Amzn-Bedrock-Input-Token-Count", "9"),
        ("X-Amzn-Bedrock-Output-Token-Count", "many"),
    )
    response = whole_response({"outputs": [{"text": "Hi"}]}, headers=headers)
    assert decode_turn(response).usage == Usage(input=9)


def test_the_time_of_a_chunk_is_the_same_however_many_choices_are_open() -> None:
    def decode(count: int) -> str:
        choices = [{"index": index, "delta": {}} for index in range(count)]
        text_chunks = invoke_stream({"outputText": "a", "index": 0}) * count
        response = stream_response(invoke_stream({"choices": choices}) + text_chunks)
        assert not DIALECT.completeness(response).is_complete
        return DIALECT.decode_response(response)[0].text

    assert decode(100) == "a" * 100
    assert_linear(decode, 3000)


# What only the encoder does.


@pytest.mark.parametrize("model", [CLAUDE, MISTRAL])
def test_a_document_has_token_counts_in_headers(model: str) -> None:
    usage = Usage(9, 2, cache_read=3, cache_write=4)
    response = encode_response(invoke_request(model, stream=False), replace(HI, usage=usage))
    assert response.head.headers[2:] == (
        ("x-amzn-bedrock-input-token-count", "9"),
        ("x-amzn-bedrock-output-token-count", "2"),
        ("x-amzn-bedrock-cache-read-input-token-count", "3"),
        ("x-amzn-bedrock-cache-write-input-token-count", "4"),
        ("x-amzn-bedrock-invocation-latency", "100"),
    )
    assert decode_turn(response).usage == usage


def test_a_stream_has_the_content_type_of_its_payloads() -> None:
    assert encode_response(invoke_request(CLAUDE), HI).head.headers == (
        ("Content-Type", "application/vnd.amazon.eventstream"),
        ("x-amzn-RequestId", ENCODE_CONTEXT.fake_uuid("request")),
        ("X-Amzn-Bedrock-Content-Type", "application/json"),
    )


def test_ids_are_made_as_bedrock_makes_them() -> None:
    turn = Turn((ToolCall("", "f", "{}"),))
    claude, nova = (
        decode_document(encode_response(invoke_request(model, stream=False), turn))
        for model in (CLAUDE, NOVA)
    )
    assert claude["id"].startswith("msg_bdrk_")
    assert claude["content"][0]["id"].startswith("toolu_bdrk_")
    assert claude["model"] == CLAUDE
    [block] = nova["output"]["message"]["content"]
    assert block["toolUse"]["toolUseId"].startswith("tooluse_")


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
    request = invoke_request(model, stream=False, **body)
    assert field in decode_document(encode_response(request, HI))


@each_row(
    "model",
    ["ai21.j2-mid-v1", "amazon.titan-embed-text-v2:0", "amazon.nova-canvas-v1:0", "notmeta.llama3",
     "amazon.nova-2-multimodal-embeddings-v1:0", "cohere.embed-english-v3", PROFILE],
)  # fmt: skip
def test_a_model_whose_format_is_not_known_is_refused_by_its_name(model: str) -> None:
    with pytest.raises(NotRepresentable, match=model.rpartition("/")[2]):
        encode_response(invoke_request(model), HI)


@each_row(
    ("model", "body"),
    [
        ("anthropic.claude-v2", {"prompt": "Hi"}),
        ("amazon.titan-text-lite-v1", {}),
        ("cohere.command-text-v14", {}),
        (PROFILE, {"prompt": "Hi", "max_tokens_to_sample": 9}),
        (PROFILE, {"textGenerationConfig": {}}),
    ],
)
@each_row("stream", [True, False])
def test_a_legacy_text_completion_is_refused_and_the_alternative_named(
    model: str, body: dict[str, Any], stream: bool
) -> None:
    request = invoke_request(model, stream=stream, **body)
    expected = f"{model.rpartition('/')[2]}; use Converse, or send `messages`"
    for answer in (encode_response, convert):
        with pytest.raises(NotRepresentable, match=expected):
            answer(request, HI)


@each_row(
    "part",
    [ToolCall("a", "f", "{}"), Media("image/png", base64="iVBO")],
    ids=["a call", "a picture"],
)
def test_a_text_only_format_refuses_other_parts(part: ToolCall | Media) -> None:
    with pytest.raises(NotRepresentable, match="cannot represent"):
        encode_response(invoke_request(LLAMA), Turn((part,)))


def test_claudes_own_tools_are_encoded_as_on_anthropics_api() -> None:
    parts = (ToolCall("a", "search", "{}"), ToolResult("a", "x", "search"), Text("Yes."))
    response = encode_response(invoke_request(CLAUDE, stream=False), Turn(parts))
    kinds = [item["type"] for item in decode_document(response)["content"]]
    assert kinds == ["mcp_tool_use", "mcp_tool_result", "text"]


GUARDED: Final[Metadata] = (
    (METRICS_FIELD, {"inputTokenCount": 7, "outputTokenCount": 5, "invocationLatency": 3}),
    ("amazon-bedrock-guardrailAction", "INTERVENED"),
    ("amazon-bedrock-trace", {"guardrail": {}}),
)


def native_events(response: DialectResponse) -> list[Any]:
    """The events in the model's own format, out of its `chunk` events."""
    frames = [parse_frame(message) for message in response.framed_messages]
    payloads = [orjson.loads(frame.payload) for frame in frames if frame is not None]
    return [orjson.loads(base64.b64decode(payload["bytes"])) for payload in payloads]


@each_row("model", [CLAUDE, NOVA, LLAMA])
def test_service_metadata_is_in_the_last_event_or_in_a_document_once(model: str) -> None:
    turn = replace(HI, metadata=GUARDED)
    streamed = encode_response(invoke_request(model), turn)
    whole = encode_response(invoke_request(model, stream=False), turn)

    *earlier, last = native_events(streamed)
    assert not any("amazon-bedrock-trace" in item for item in earlier)
    assert all(last[name] == value for name, value in GUARDED)
    assert decode_turn(streamed).metadata[-3:] == GUARDED
    assert decode_turn(streamed).usage == HI.usage
    assert decode_document(whole)["amazon-bedrock-guardrailAction"] == "INTERVENED"
    assert decode_turn(whole).metadata == GUARDED[1:]


def test_metrics_hold_the_usage_of_formats_without_token_counts() -> None:
    metadata: Metadata = (
        (METRICS_FIELD, {"inputTokenCount": 7, "cacheReadInputTokenCount": 5,
                         "invocationLatency": 3}),
    )  # fmt: skip
    response = encode_response(invoke_request(MISTRAL), replace(HI, metadata=metadata))
    *_, last = native_events(response)
    assert last[METRICS_FIELD] == {**METRICS, "invocationLatency": 3}
    assert decode_turn(response).usage == HI.usage


@each_row("model", [CLAUDE, NOVA, LLAMA, GPT])
@each_row("error_type", ["throttlingException", "modelTimeoutException"])
def test_a_failed_stream_ends_with_an_exception(model: str, error_type: str) -> None:
    failed = Turn((Text("Hel"),), failure=Failure("slow down", error_type))
    response = encode_response(invoke_request(model), failed)
    *earlier, last = response.framed_messages
    assert last == exception_frame(error_type, message="slow down")
    assert all(b"chunk" in frame for frame in earlier)
    turn = decode_turn(response)
    assert (turn.parts, turn.failure, turn.finish) == (failed.parts, failed.failure, None)
    assert turn.metadata == ()
