"""Converse: most rows are the turn of a body, and the body of that turn."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from bedrock_streams import (
    BEGIN,
    DIALECT,
    STREAM,
    WHOLE,
    Event,
    converse_stream,
    convert,
    decode_turn,
    delta,
    encode_response,
    exception_frame,
    start,
    stop,
    stream_response,
    whole_response,
)
from case_tables import each_row
from llm_proxy.dialects.base import ConvertedResponseTurns, DialectResponse
from llm_proxy.exchange import Request
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

each_request = each_row("request_", [STREAM, WHOLE], ids=["stream", "whole"])

Block = tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]
"""The start of a content block, its deltas, and the whole of it."""

STOP: Final[dict[str, Any]] = {
    "stopReason": "tool_use", "additionalModelResponseFields": {"stop_sequence": "x"},
}  # fmt: skip
COUNTS: Final = {
    "inputTokens": 1, "outputTokens": 2, "totalTokens": 12, "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 5,
}  # fmt: skip
MORE_COUNTS: Final[dict[str, Json]] = {"cacheDetails": [{"ttl": "5m", "inputTokens": 4}]}
END: Final[dict[str, Any]] = {
    "metrics": {"latencyMs": 7},
    "trace": {"promptRouter": {"invokedModelId": "arn:aws:x"}},
    "performanceConfig": {"latency": "standard"},
    "serviceTier": {"type": "flex"},
}
TURN: Final = Turn(
    (), FinishReason.TOOL_CALLS, "tool_use", Usage(1, 2, 12, cache_read=4, cache_write=5),
    model="arn:aws:x",
    metadata=(*[*STOP.items()][1:], *END.items(), ("usage", MORE_COUNTS)),
)  # fmt: skip
PNG: Final = base64.b64encode(b"\x89PNG").decode()
PROVIDER_USE: Final = {"toolUseId": "a", "name": "search", "type": "server_tool_use"}
MCP_USE: Final = {"toolUseId": "b", "name": "look", "type": "mcp_tool_use"}
PAGE: Final[dict[str, Json]] = {"web": {"url": "https://example.com/"}}
PLACE: Final[dict[str, Json]] = {"documentPage": {"start": 1}}
CITATIONS: Final[list[dict[str, Any]]] = [
    {"title": "sample", "sourceContent": [{"text": "Fun fun"}], "location": PAGE},
    {"title": "a file", "location": PLACE},
    {"source": "s"},
    {},
]
CITED: Final = Text(
    "It is fun",
    (
        Citation("https://example.com/", "sample", "Fun fun", metadata=(("location", PAGE),)),
        Citation(title="a file", metadata=(("location", PLACE),)),
        Citation(metadata=(("source", "s"),)),
        Citation(),
    ),
)


def reasoning(**fields: Any) -> dict[str, Any]:
    return {"reasoningContent": fields}


def tool_input(piece: str) -> dict[str, Any]:
    return {"toolUse": {"input": piece}}


def text_block(first: str, rest: str) -> Block:
    return {}, [{"text": first}, {"text": rest}], {"text": first + rest}


def result_block(call_id: str, contents: list[Any], **fields: str) -> Block:
    result = {"toolUseId": call_id, **fields}
    return (
        {"toolResult": result},
        [{"toolResult": contents}],
        {"toolResult": {**result, "content": contents}},
    )


@each_row(
    ("parts", "blocks"),
    [
        pytest.param(
            (
                Reasoning("Two cities.", signature="c2ln"), Text("Checking."),
                ToolCall("tooluse_a", "get_weather", '{"city":"Rome"}'),
            ),
            [
                (
                    {},
                    [reasoning(text="Tw"), reasoning(text="o cities."),
                     reasoning(signature="c2ln")],
                    reasoning(reasoningText={"text": "Two cities.", "signature": "c2ln"}),
                ),
                text_block("Ch", "ecking."),
                (
                    {"toolUse": {"toolUseId": "tooluse_a", "name": "get_weather"}},
                    [tool_input('{"'), tool_input('city":"Rome"}')],
                    {"toolUse": {
                        "toolUseId": "tooluse_a", "name": "get_weather", "input": {"city": "Rome"},
                    }},
                ),
            ],
            id="thoughts, a text and a call",
        ),
        pytest.param(
            (Reasoning("", "sig"), Reasoning(redacted="c2VhbA=="), Reasoning("a")),
            [
                (
                    {}, [reasoning(signature="sig")],
                    reasoning(reasoningText={"text": "", "signature": "sig"}),
                ),
                (
                    {}, [reasoning(redactedContent="c2VhbA==")],
                    reasoning(redactedContent="c2VhbA=="),
                ),
                ({}, [reasoning(text="a")], reasoning(reasoningText={"text": "a"})),
            ],
            id="thoughts: a signature alone, redacted, and unsigned",
        ),
        pytest.param(
            (
                ToolCall("a", "search", '{"q":1}', (("type", "server_tool_use"),)),
                ToolResult("a", '{"n":1}', "search"),
                ToolCall("b", "look", "{}", (("type", "mcp_tool_use"),)),
                ToolResult("b", "no", "look", failed=True, metadata=(("type", "search_result"),)),
                ToolResult("b", "", "look"),
            ),
            [
                (
                    {"toolUse": PROVIDER_USE}, [tool_input('{"'), tool_input('q":1}')],
                    {"toolUse": {**PROVIDER_USE, "input": {"q": 1}}},
                ),
                result_block("a", [{"json": {"n": 1}}], status="success"),
                ({"toolUse": MCP_USE}, [tool_input("{}")], {"toolUse": {**MCP_USE, "input": {}}}),
                result_block("b", [{"text": "no"}], status="error", type="search_result"),
                result_block("b", [], status="success"),
            ],
            id="the provider's own tools",
        ),
        pytest.param(
            (CITED,),
            [
                (
                    {},
                    [{"text": "It"}, {"text": " is fun"},
                     *({"citation": citation} for citation in CITATIONS)],
                    {"citationsContent": {
                        "content": [{"text": "It is fun"}], "citations": CITATIONS,
                    }},
                ),
            ],
            id="citations of a page, of a place in a document, and of neither",
        ),
        pytest.param(
            (Media("image/png", base64=PNG), Media("image/webp", url="s3://bucket/key")),
            [
                (
                    {"image": {"format": "png"}}, [{"image": {"source": {"bytes": PNG}}}],
                    {"image": {"format": "png", "source": {"bytes": PNG}}},
                ),
                (
                    {"image": {"format": "webp"}},
                    [{"image": {"source": {"s3Location": {"uri": "s3://bucket/key"}}}}],
                    {"image": {
                        "format": "webp", "source": {"s3Location": {"uri": "s3://bucket/key"}},
                    }},
                ),
            ],
            id="pictures: inline, and stored with Amazon",
        ),
    ],
)  # fmt: skip
def test_parts_and_blocks_convert_in_both_directions(
    parts: tuple[Part, ...], blocks: list[Block]
) -> None:
    turn = replace(TURN, parts=parts)
    events: list[Event] = [BEGIN]
    for index, (begun, deltas, _) in enumerate(blocks):
        events += [start(index, **begun)] if begun else []
        events += [delta(index, **fields) for fields in deltas]
        events.append(stop(index))
    end = {"usage": {**COUNTS, **MORE_COUNTS}, **END}
    stream = converse_stream(*events, ("messageStop", STOP), ("metadata", end))
    message = {"role": "assistant", "content": [whole for *_, whole in blocks]}
    document = {"output": {"message": message}, "stopReason": "tool_use", **end, **STOP}

    assert encode_response(STREAM, turn).body == stream
    assert encode_response(WHOLE, turn).body == orjson.dumps(document)
    for request, response in ((STREAM, stream_response(stream)), (WHOLE, whole_response(document))):
        assert decode_turn(response) == turn
        assert convert(request, turn) == ConvertedResponseTurns((turn,), ())
        assert DIALECT.completeness(response).is_complete


@each_row(
    ("reason", "finish", "sent_for"),
    [
        ("end_turn", FinishReason.STOP, (FinishReason.STOP, FinishReason.PAUSED)),
        ("stop_sequence", FinishReason.STOP_SEQUENCE, (FinishReason.STOP_SEQUENCE,)),
        ("max_tokens", FinishReason.LENGTH, (FinishReason.LENGTH,)),
        ("tool_use", FinishReason.TOOL_CALLS, (FinishReason.TOOL_CALLS,)),
        ("guardrail_intervened", FinishReason.CONTENT_FILTER, ()),
        ("content_filtered", FinishReason.CONTENT_FILTER, (FinishReason.CONTENT_FILTER,)),
        ("refusal", FinishReason.REFUSAL, (FinishReason.REFUSAL,)),
        ("model_context_window_exceeded", FinishReason.CONTEXT_FULL, (FinishReason.CONTEXT_FULL,)),
        ("malformed_tool_use", FinishReason.ERROR, ()),
        ("malformed_model_output", FinishReason.ERROR, (FinishReason.ERROR,)),
        ("brand_new", FinishReason.OTHER, ()),
    ],
)
def test_each_stop_reason_is_decoded_and_sent_for_the_nearest_finishes(
    reason: str, finish: FinishReason, sent_for: tuple[FinishReason, ...]
) -> None:
    turn = decode_turn(stream_response(converse_stream(("messageStop", {"stopReason": reason}))))
    assert (turn.finish, turn.finish_raw) == (finish, reason)
    for request in (STREAM, WHOLE):
        for sent in sent_for:
            assert decode_turn(encode_response(request, Turn((), sent))).finish_raw == reason


@each_row(
    ("failure", "sent"),
    [
        (Failure("no", "throttlingException"), Failure("no", "throttlingException")),
        (Failure("no", "ThrottlingException"), Failure("no", "throttlingException")),
        (
            Failure("no", "modelStreamErrorException", "424"),
            Failure("no", "modelStreamErrorException", "424"),
        ),
        (Failure("no", "validationException", "400"), Failure("no", "validationException")),
        (Failure("no", "modelTimeoutException"), Failure("no", "modelStreamErrorException")),
        (Failure("no", "weird", "E7"), Failure("no", "modelStreamErrorException")),
        (Failure("", "weird"), Failure("weird", "modelStreamErrorException")),
    ],
)
def test_a_failure_amid_a_stream_is_an_exception_that_clients_know(
    failure: Failure, sent: Failure
) -> None:
    status = {"originalStatusCode": int(sent.code)} if sent.code else {}
    stream = converse_stream(
        BEGIN, delta(0, text="He"), delta(0, text="l"), stop(0)
    ) + exception_frame(sent.type, message=sent.message, **status)
    response = encode_response(STREAM, Turn((Text("Hel"),), failure=failure, usage=Usage(1, 2)))

    assert response.body == stream
    assert decode_turn(stream_response(stream)) == Turn((Text("Hel"),), failure=sent)
    assert DIALECT.completeness(response).is_complete


# What only the encoder does.


@each_request
@each_row(
    ("parts", "decoded", "losses"),
    [
        pytest.param(
            (Reasoning(redacted="über"),), (Reasoning(redacted="w7xiZXI="),), (),
            id="sealed, in no base64",
        ),
        pytest.param(
            (Reasoning("a", redacted="c2VhbA=="),), (Reasoning("a"),),
            ("redacted of reasoning",), id="read and sealed",
        ),
        pytest.param(
            (Refusal("I can't."),), (Text("I can't."),), ("refusal (sent as text)",), id="a refusal"
        ),
        pytest.param(
            (
                ToolCall("a", "search", "{}"), ToolResult("a", '{"n":1}', "other"),
                ToolResult("a", "x"),
            ),
            (
                ToolCall("a", "search", "{}", (("type", "server_tool_use"),)),
                ToolResult("a", '{"n":1}', "search"), ToolResult("a", "x", "search"),
            ),
            (), id="the provider's own tools",
        ),
        pytest.param(
            (
                Text("fun", (
                    Citation("https://example.com/", "sample", metadata=(("location", PLACE),)),
                    Citation(metadata=(("location", PAGE),)),
                    Citation(metadata=(("location", "nowhere"),)),
                )),
            ),
            (
                Text("fun", (
                    Citation("https://example.com/", "sample", metadata=(("location", PAGE),)),
                    Citation("https://example.com/", metadata=(("location", PAGE),)),
                    Citation(),
                )),
            ),
            (), id="citations whose location is another",
        ),
    ],
)  # fmt: skip
def test_parts_that_converse_lacks_become_others(
    request_: Request, parts: tuple[Part, ...], decoded: tuple[Part, ...], losses: tuple[str, ...]
) -> None:
    turn = Turn(parts, FinishReason.STOP)
    converted = convert(request_, turn)
    assert converted.losses == losses
    assert decode_turn(encode_response(request_, turn)) == converted.turns[0]
    assert converted.turns[0].parts == decoded


# What Bedrock sends and the encoder does not.


def converse_document(*content: dict[str, Any]) -> DialectResponse:
    return whole_response({"output": {"message": {"content": content}}})


def padded_stream(*events: Event) -> DialectResponse:
    """A stream whose payloads are padded like real ones."""
    return stream_response(
        converse_stream(*((name, {**payload, "p": "abcd"}) for name, payload in events))
    )


RESULT_CONTENT: Final = [{"text": "x"}, {"json": {"n": 1}}]
LINK: Final[dict[str, Json]] = {"web": {"url": "https://example.com/", "domain": "example.com"}}
LINKED: Final = {"location": LINK, "sourceContent": [{"text": "Fun "}, {"text": "fun"}]}
LINKED_TEXT: Final = Text(
    "It is fun",
    (Citation("https://example.com/", quoted="Fun fun", metadata=(("location", LINK),)),),
)


@each_row(
    ("response", "parts"),
    [
        pytest.param(
            padded_stream(
                start(0, toolUse=PROVIDER_USE),
                start(1, toolResult={"toolUseId": "a", "status": "error"}),
                delta(1, toolResult=RESULT_CONTENT),
            ),
            (
                ToolCall("a", "search", "", (("type", "server_tool_use"),)),
                ToolResult("a", 'x{"n":1}', "search", failed=True),
            ),
            id="a result of text and JSON",
        ),
        pytest.param(
            padded_stream(
                delta(0, text="It is "), delta(0, citation=LINKED), delta(0, text="fun")
            ),
            (LINKED_TEXT,), id="a citation amid its text",
        ),
        pytest.param(
            converse_document(
                {"citationsContent": {"content": [{"text": "It is fun"}], "citations": [LINKED]}}
            ),
            (LINKED_TEXT,), id="a citation of two quotes",
        ),
        pytest.param(
            padded_stream(
                start(0, image={"format": "png"}),
                delta(0, image={"source": {"bytes": "iVBO"}}),
                delta(0, image={"source": {"bytes": "Rw0K"}}),
            ),
            (Media("image/png", base64="iVBORw0K"),), id="a picture in pieces",
        ),
        pytest.param(
            converse_document(
                {"toolUse": {"toolUseId": "a", "name": "f", "input": {}, "type": "tool_use"}}
            ),
            (ToolCall("a", "f", "{}"),), id="a call with the type of every call",
        ),
    ],
)  # fmt: skip
def test_other_forms_of_parts_are_decoded(
    response: DialectResponse, parts: tuple[Part, ...]
) -> None:
    assert decode_turn(response).parts == parts


def test_usage_is_decoded_without_what_is_empty() -> None:
    counts = {"inputTokens": 9, "serverToolUsage": {}, **MORE_COUNTS}
    turn = decode_turn(whole_response({"output": {}, "usage": counts}))
    assert (turn.usage, turn.metadata) == (Usage(9), (("usage", MORE_COUNTS),))


@each_row(
    ("stream", "failure"),
    [
        pytest.param(
            exception_frame(
                "modelStreamErrorException", message="The model failed", originalStatusCode=500,
                originalMessage="out of memory",
            ),
            Failure("The model failed (out of memory)", "modelStreamErrorException", "500"),
            id="the model's own message",
        ),
        pytest.param(
            exception_frame("validationException", message="no"),
            Failure("no", "validationException"), id="an exception",
        ),
        pytest.param(
            encode_frame(
                [(":message-type", "error"), (":error-code", "500"), (":error-message", "no")], b""
            ),
            Failure("no", "500"), id="an error without a name",
        ),
    ],
)  # fmt: skip
def test_a_failure_alone_is_decoded(stream: bytes, failure: Failure) -> None:
    assert DIALECT.decode_response(stream_response(stream)) == (Turn((), failure=failure),)
