"""Bedrock speaks: models invoked in their own formats, and what the service adds to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import orjson
import pytest

import corpus
from bedrock_encoding import DIALECT, document, events, invoke, natives, told
from dialect_manners import DELIVERY
from llm_proxy import dialects, framing
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.turns import (
    Failure,
    Finish,
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
HI: Final = Turn((Text("Hi there"),), Finish.LENGTH, usage=Usage(input=9, output=2))
COUNTED: Final = {
    "inputTokenCount": 9,
    "outputTokenCount": 2,
    "invocationLatency": 100,
    "firstByteLatency": 100,
}


def said(model: str, turn: Turn = HI, **body: Any) -> list[Any]:
    """The events of a stream, of which the last has the service's metrics."""
    *begun, last = natives(told(invoke(model, **body), turn))
    assert last.pop(METRICS) == COUNTED
    assert not any(METRICS in item for item in begun)
    return [*begun, last]


def whole(model: str, turn: Turn = HI, **body: Any) -> Any:
    return document(told(invoke(model, stream=False, **body), turn))


CLAUDE: Final = "us.anthropic.claude-sonnet-4-5"


def test_claude_says_the_events_of_real_ones_in_their_order() -> None:
    turn = Turn(
        (Reasoning("Hm.", "c2ln"), Text("Hi"), ToolCall("toolu_1", "f", '{"a":1}')),
        Finish.TOOL_CALLS,
        usage=Usage(input=9, output=2),
        id="msg_bdrk_1",
        model="claude-sonnet-4-5-20250929",
    )
    told_ = said(CLAUDE, turn)
    kinds = [(item["type"], item.get("delta", {}).get("type")) for item in told_]
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
    begun = told_[0]["message"]
    assert {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"} <= (
        set(begun)
    )
    assert (begun["id"], begun["model"]) == ("msg_bdrk_1", "claude-sonnet-4-5-20250929")
    assert told_[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_claude_says_the_document_of_real_ones() -> None:
    said_ = whole(CLAUDE)
    assert said_ == {
        "id": said_["id"],
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
    said_ = whole(CLAUDE, turn)
    assert said_["id"].startswith("msg_bdrk_")
    assert said_["content"][0]["id"].startswith("toolu_bdrk_")
    request = invoke("us.amazon.nova-lite-v1:0", stream=False)
    [block] = document(told(request, turn))["output"]["message"]["content"]
    assert block["toolUse"]["toolUseId"].startswith("tooluse_")


def test_claude_completes_a_prompt() -> None:
    *_, last = said("anthropic.claude-v2", prompt="Hi")
    assert (last["type"], last["completion"], last["stop_reason"]) == (
        "completion",
        " there",
        "max_tokens",
    )
    assert whole("anthropic.claude-v2", prompt="Hi")["completion"] == "Hi there"


def test_nova_says_converses_events_and_gives_each_piece_of_text_a_block() -> None:
    turn = Turn((Text("Hi there"), ToolCall("a", "f", "{}")), Finish.TOOL_CALLS, usage=HI.usage)
    assert said("us.amazon.nova-lite-v1:0", turn) == [
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


def test_nova_counts_its_cache_in_a_word_of_its_own() -> None:
    turn = replace(HI, usage=Usage(9, 2, 11, cache_read=3, cache_write=4))
    assert whole("amazon.nova-pro-v1:0", turn) == {
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


def titan(text: str, *end: Any) -> dict[str, Any]:
    names = ("inputTextTokenCount", "totalOutputTextTokenCount", "completionReason")
    return {"outputText": text, "index": 0, **dict(zip(names, end or (None,) * 3, strict=True))}


def llama(text: str, *end: Any) -> dict[str, Any]:
    names = ("prompt_token_count", "generation_token_count", "stop_reason")
    return {"generation": text, **dict(zip(names, end or (None,) * 3, strict=True))}


def listed(name: str, text: str, reason: str | None = None) -> dict[str, Any]:
    return {name: [{"text": text, "stop_reason": reason}]}


COMPLETIONS: Final[dict[str, tuple[list[Any], Any]]] = {
    "amazon.titan-text-lite-v1": (
        [titan("Hi"), titan(" there"), titan("", 9, 2, "LENGTH")],
        {
            "inputTextTokenCount": 9,
            "results": [
                {"tokenCount": 2, "outputText": "Hi there", "completionReason": "LENGTH"}
            ],
        },
    ),
    "us.meta.llama3-1-8b-instruct-v1:0": (
        [llama("Hi"), llama(" there"), llama("", 9, 2, "length")],
        llama("Hi there", 9, 2, "length"),
    ),
    "mistral.mistral-7b-instruct-v0:2": (
        [listed("outputs", "Hi"), listed("outputs", " there"), listed("outputs", "", "length")],
        listed("outputs", "Hi there", "length"),
    ),
    "us.deepseek.r1-v1:0": (
        [listed("choices", "Hi"), listed("choices", " there"), listed("choices", "", "length")],
        listed("choices", "Hi there", "length"),
    ),
    "cohere.command-r-plus-v1:0": (
        [
            {"is_finished": False, "event_type": "text-generation", "text": "Hi"},
            {"is_finished": False, "event_type": "text-generation", "text": " there"},
            {"is_finished": True, "event_type": "stream-end", "finish_reason": "MAX_TOKENS"},
        ],
        {"text": "Hi there", "finish_reason": "MAX_TOKENS", "chat_history": []},
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", COMPLETIONS)
def test_a_maker_completes_text_in_a_shape_of_its_own(model: str) -> None:
    streamed, at_once = COMPLETIONS[model]
    assert said(model) == streamed
    assert whole(model) == at_once


def test_coheres_first_models_say_an_id_of_the_whole() -> None:
    model = "cohere.command-text-v14"
    assert said(model) == [
        {"is_finished": False, "text": "Hi"},
        {"is_finished": False, "text": " there"},
        {"is_finished": True, "finish_reason": "MAX_TOKENS"},
    ]
    at_once = whole(model, replace(HI, id="i"))
    assert at_once == {
        "id": "i",
        "generations": [{"id": "i", "text": "Hi there", "finish_reason": "MAX_TOKENS"}],
        "prompt": "",
    }


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("openai.gpt-oss-120b-1:0", "finish_reason"),
        ("qwen.qwen3-32b-v1:0", "finish_reason"),
        ("mistral.mistral-large-2407-v1:0", "stop_reason"),
    ],
)
def test_others_chat_as_openai_does(model: str, reason: str) -> None:
    turn = Turn((Reasoning("Hm."), Text("Hi"), ToolCall("a", "f", "{}")), usage=HI.usage)
    *begun, last = said(model, turn)
    assert [item["choices"][0]["delta"] for item in begun] == [
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
    assert last["choices"] == [{"index": 0, "delta": {}, reason: "tool_calls"}]
    assert {item["object"] for item in begun} == {"chat.completion.chunk"}
    at_once = whole(model, turn)
    assert at_once["choices"][0][reason] == "tool_calls"
    assert at_once["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


ARN: Final = "arn:aws:bedrock:us-east-1:123456789012:"
PROFILE: Final = f"{ARN}application-inference-profile/abc"


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (f"{ARN}inference-profile/eu.anthropic.claude-sonnet-5", {}, "type"),
        ("arn:aws:bedrock:us-east-1::foundation-model/meta.llama3-8b", {}, "generation"),
        (PROFILE, {"anthropic_version": "bedrock-2023-05-31"}, "type"),
        (PROFILE, {"prompt": "Hi", "max_tokens_to_sample": 9}, "completion"),
        (PROFILE, {"inferenceConfig": {}}, "output"),
        (PROFILE, {"textGenerationConfig": {}}, "results"),
        (PROFILE, {"max_gen_len": 9}, "generation"),
    ],
)
def test_the_id_or_else_the_request_tells_whose_format_it_is(
    model: str, body: dict[str, Any], field: str
) -> None:
    assert field in whole(model.replace("/", "%2F"), **body)


@pytest.mark.parametrize(
    "model",
    ["ai21.j2-mid-v1", "amazon.titan-embed-text-v2:0", "amazon.nova-canvas-v1:0", "notmeta.llama3",
     "amazon.nova-2-multimodal-embeddings-v1:0", "cohere.embed-english-v3", PROFILE],
)  # fmt: skip
def test_a_model_whose_format_is_not_known_is_refused_by_its_name(model: str) -> None:
    with pytest.raises(NotRepresentable, match=model.rpartition("/")[2]):
        told(invoke(model.replace("/", "%2F")), HI)


@pytest.mark.parametrize(
    "part",
    [ToolCall("a", "f", "{}"), Media("image/png", base64="iVBO")],
    ids=["a call", "a picture"],
)
def test_a_maker_of_text_refuses_anything_else(part: ToolCall | Media) -> None:
    with pytest.raises(NotRepresentable, match="no word for"):
        told(invoke("meta.llama3"), Turn((part,)))


@pytest.mark.parametrize("model", [CLAUDE, "mistral.mistral-7b"])
def test_a_document_has_its_cost_in_headers(model: str) -> None:
    request = invoke(model, stream=False)
    counted = Usage(9, 2, cache_read=3, cache_write=4)
    response = told(request, replace(HI, usage=counted))
    headers = {name: it for name, it in response.head.headers if name.startswith("x-amzn-bedrock")}
    assert headers == {
        "x-amzn-bedrock-input-token-count": "9",
        "x-amzn-bedrock-output-token-count": "2",
        "x-amzn-bedrock-cache-read-input-token-count": "3",
        "x-amzn-bedrock-cache-write-input-token-count": "4",
        "x-amzn-bedrock-invocation-latency": "100",
    }
    assert DIALECT.decode(response)[0].usage == counted


def test_what_the_headers_count_is_read_where_the_body_counts_nothing() -> None:
    headers = (
        ("X-Amzn-Bedrock-Input-Token-Count", "9"),
        ("X-Amzn-Bedrock-Output-Token-Count", "many"),
    )
    body = orjson.dumps({"outputs": [{"text": "Hi", "stop_reason": "stop"}]})
    response = DialectResponse(
        ResponseHead(200, "OK", headers, "length", len(body)), "whole", (body,)
    )
    assert DIALECT.decode(response)[0].usage == Usage(input=9)


def test_a_stream_says_of_what_type_its_events_are() -> None:
    headers = told(invoke(CLAUDE), HI).head.headers
    assert header_value(headers, "content-type") == "application/vnd.amazon.eventstream"
    assert header_value(headers, "x-amzn-bedrock-content-type") == "application/json"


GUARDED: Final[Metadata] = (
    (METRICS, {"inputTokenCount": 7, "outputTokenCount": 5, "invocationLatency": 3}),
    ("amazon-bedrock-guardrailAction", "INTERVENED"),
    ("amazon-bedrock-trace", {"guardrail": {}}),
)


@pytest.mark.parametrize("model", [CLAUDE, "amazon.nova-lite-v1:0", "amazon.titan-text-lite-v1"])
def test_what_the_service_adds_is_told_with_the_last_event(model: str) -> None:
    response = told(invoke(model), replace(HI, metadata=GUARDED))
    *begun, last = natives(response)
    assert not any("amazon-bedrock-trace" in item for item in begun)
    assert all(last[name] == value for name, value in GUARDED)
    (turn,) = DIALECT.decode(response)
    assert turn.metadata[-3:] == GUARDED
    assert turn.usage == HI.usage


@pytest.mark.parametrize("model", [CLAUDE, "amazon.nova-lite-v1:0", "amazon.titan-text-lite-v1"])
def test_what_a_guardrail_did_stands_in_a_document_once(model: str) -> None:
    response = told(invoke(model, stream=False), replace(HI, metadata=GUARDED))
    assert document(response)["amazon-bedrock-guardrailAction"] == "INTERVENED"
    (turn,) = DIALECT.decode(response)
    assert turn.metadata == GUARDED[1:]


def test_metrics_say_what_a_maker_that_does_not_count_cost() -> None:
    given: Metadata = (
        (METRICS, {"inputTokenCount": 7, "cacheReadInputTokenCount": 5, "invocationLatency": 3}),
    )
    response = told(invoke("mistral.mistral-7b"), replace(HI, metadata=given))
    *_, last = natives(response)
    assert last[METRICS] == {**COUNTED, "invocationLatency": 3}
    assert DIALECT.decode(response)[0].usage == HI.usage


@pytest.mark.parametrize("model", [CLAUDE, "amazon.nova-lite-v1:0", "meta.llama3", "openai.gpt"])
def test_a_stream_that_fails_has_no_end_but_an_exception(model: str) -> None:
    failed = Turn((Text("Hel"),), failure=Failure("slow down", "throttlingException"))
    response = told(invoke(model), failed)
    *begun, last = events(response)
    assert last == ("throttlingException", {"message": "slow down"})
    assert {name for name, _ in begun} == {"chunk"}
    (turn,) = DIALECT.decode(response)
    assert (turn.parts, turn.failure, turn.finish) == (failed.parts, failed.failure, None)
    assert turn.metadata == ()


def test_what_claudes_own_tools_did_is_told_as_on_anthropics_api() -> None:
    parts = (ToolCall("a", "search", "{}"), ToolResult("a", "x", "search"), Text("Yes."))
    kinds = [item["type"] for item in whole(CLAUDE, Turn(parts))["content"]]
    assert kinds == ["mcp_tool_use", "mcp_tool_result", "text"]


UNKNOWN: Final = {"12f4b1178e71bfda"}
"""Of a model that does not exist: what a stream of it would be, nobody knows."""

needs_corpus: Final = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)


def real() -> Iterator[tuple[corpus.Row, tuple[Turn, ...]]]:
    """The turns of every real answer; events that were kept without frames get theirs."""
    for row in corpus.rows():
        if row.wire.startswith("bedrock."):
            name, body = DIALECT.codec(row.request, row.head), row.body
            if row.wire.endswith(".payload"):
                name, body = "eventstream", b"".join(map(framed, filter(None, body.splitlines())))
            yield (
                row,
                DIALECT.decode(DialectResponse(row.head, name, framing.split_messages(name, body))),
            )


def framed(line: bytes) -> bytes:
    [(name, payload)] = orjson.loads(line).items()
    return encode_frame([(":event-type", name)], orjson.dumps(payload))


@pytest.mark.corpus
@needs_corpus
def test_every_real_answer_is_told_again_and_loses_nothing() -> None:
    refused: set[str] = set()
    count = 0
    for row, turns in real():
        if not turns:
            continue
        count += 1
        assert dialects.find_dialect(row.request).name == DIALECT.name
        try:
            fits = DIALECT.convert(row.request, turns, DELIVERY)
        except NotRepresentable:
            refused.add(row.id)
            continue
        assert fits.losses == (), row.id
        response = DIALECT.encode(row.request, turns, DELIVERY)
        assert DIALECT.decode(response) == fits.turns, row.id
        assert DIALECT.completeness(response).is_complete, row.id
        if row.status < 400:
            assert is_as_it_was(turns[0], fits.turns[0]), row.id
    assert (count, refused) == (120, UNKNOWN)


def is_as_it_was(turn: Turn, told_: Turn) -> bool:
    """Whether nothing was changed; only what the wire must have may have been made."""
    was, beside = dict(turn.metadata), dict(told_.metadata)
    if "metrics" not in was:
        beside.pop("metrics", None)
    usage = told_.usage if turn.usage else None
    return beside == was and replace(told_, usage=usage, metadata=()) == replace(turn, metadata=())
