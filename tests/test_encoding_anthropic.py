"""What only the encoder does: order of events, defaults, losses, errors, auxiliary responses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anthropic_events import (
    DIALECT,
    STREAM_REQUEST,
    VERSION_HEADERS,
    WHOLE_REQUEST,
    anthropic_request,
    block_and_deltas,
    encode_events,
    encode_message,
    event_documents,
)
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT, REFUSALS, TEXTS, USAGES, typed
from llm_proxy import dialects
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

VERTEX_REQUEST: Final = anthropic_request(
    "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict"
)
BUSY: Final = Failure("Overloaded", "overloaded_error")


@each_row("stream", [True, False])
def test_a_legacy_completion_is_refused(stream: bool) -> None:
    request = anthropic_request("/v1/complete", model="claude-2.1", stream=stream)

    with pytest.raises(NotRepresentable, match="for /v1/complete; use /v1/messages"):
        DIALECT.encode_response(request, (Turn((Text("Hi"),)),), ENCODE_CONTEXT)


@each_row(
    ("turn", "request_", "types"),
    [
        (Turn(()), STREAM_REQUEST, "message_start message_delta message_stop"),
        (Turn(()), VERTEX_REQUEST, "message_start ping message_delta message_stop"),
        (Turn((Refusal("No."),), failure=BUSY), STREAM_REQUEST, "message_start error"),
        (
            Turn((Text("a"), Text("b")), failure=BUSY), STREAM_REQUEST,
            "message_start start ping delta stop start delta stop error",
        ),
        (
            Turn((Text("a"),)), VERTEX_REQUEST,
            "message_start ping start delta stop message_delta message_stop",
        ),
    ],
    ids=["empty", "empty on Vertex", "an error and no content", "an error", "on Vertex"],
)  # fmt: skip
def test_one_ping_comes_behind_the_first_start_and_an_error_in_place_of_the_end(
    turn: Turn, request_: Request, types: str
) -> None:
    events = encode_events(*turn.parts, request=request_, failure=turn.failure)

    assert [event["type"].removeprefix("content_block_") for event in events] == types.split()


def test_ids_are_made_as_each_api_makes_them() -> None:
    (vertex, *_), (plain, *_) = (
        encode_events(Text("Hi"), request=item) for item in (VERTEX_REQUEST, STREAM_REQUEST)
    )

    assert vertex["message"]["id"].startswith("msg_vrtx_")
    assert vertex["message"]["model"] == "m"
    assert plain["message"]["id"].startswith("msg_")
    assert not plain["message"]["id"].startswith("msg_vrtx_")


def test_counts_are_zero_without_usage_and_never_taken_from_metadata() -> None:
    metadata: Metadata = (("usage", {"input_tokens": 1, "speed": None}),)

    start, *_, end, _ = encode_events(metadata=metadata)
    assert start["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert end["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert encode_message(metadata=metadata)["usage"] == end["usage"]


def test_metadata_of_errors_and_of_other_formats_is_left_out() -> None:
    document = encode_message(metadata=(("request_id", "of an error"), ("unheard_of", 1)))

    assert not {"request_id", "unheard_of"} & document.keys()


def test_an_error_has_a_default_message_a_code_and_the_id_of_its_request() -> None:
    failure = Failure("", "overloaded_error", "spent")
    error = {
        "details": {"error_code": "spent"}, "type": "overloaded_error", "message": "Overloaded",
    }  # fmt: skip

    turn = Turn((), failure=failure, metadata=(("request_id", 5),))
    response = DIALECT.encode_response(STREAM_REQUEST, (turn,), ENCODE_CONTEXT)
    *_, event = event_documents(response)
    assert event["error"] == error
    assert event["request_id"] == header_value(response.head.headers, "request-id")
    assert event["request_id"].startswith("req_")
    assert encode_events(failure=Failure(""))[-1]["error"]["type"] == "api_error"


def test_a_failed_stream_keeps_the_metadata_of_its_start_alone() -> None:
    usage: Json = {"service_tier": "standard", "server_tool_use": {"web_search_requests": 1}}
    metadata: Metadata = (("request_id", "req_1"), ("usage", usage), ("container", {"id": "c"}))
    turn = Turn((Text("Hi"),), failure=BUSY, metadata=metadata)

    (decoded,) = DIALECT.decode_response(
        DIALECT.encode_response(STREAM_REQUEST, (turn,), ENCODE_CONTEXT)
    )
    assert decoded.metadata == (("request_id", "req_1"), ("usage", {"service_tier": "standard"}))


def test_a_citation_of_another_format_is_a_page_or_a_document() -> None:
    page = Citation("u", quoted="It is.", span=(0, 3))
    document = Citation(title="Doc", metadata=typed("odd"))
    (block,) = encode_message(Text("Yes", (page, document)))["content"]

    assert block["citations"] == [
        {
            "type": "web_search_result_location", "cited_text": "It is.", "title": "", "url": "u",
            "encrypted_index": "",
        },
        {
            "type": "char_location", "cited_text": "", "document_title": "Doc",
            "document_index": 0, "start_char_index": 0, "end_char_index": 0,
        },
    ]  # fmt: skip


def test_thoughts_without_a_signature_get_one_each() -> None:
    signatures = [
        item["signature"] for item in encode_message(Reasoning("a"), Reasoning("b"))["content"]
    ]

    assert len(set(signatures)) == 2
    assert all(len(signature) == 56 for signature in signatures)
    assert block_and_deltas(encode_events(Reasoning("a"))) == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "signature_delta", "signature": signatures[0]},
    ]


def test_a_tool_that_another_provider_ran_is_encoded_as_an_mcp_tool() -> None:
    call = ToolCall("c", "look", '{"at":1}', typed("web_search_call"))
    result = ToolResult("c", '{"found": 2}', "look", failed=True)

    assert encode_message(call, ToolCall("d", "f", "{}"), result)["content"] == [
        {"type": "mcp_tool_use", "id": "c", "name": "look", "server_name": "server",
         "input": {"at": 1}},
        {"type": "tool_use", "id": "d", "name": "f", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "c", "is_error": True,
         "content": [{"type": "text", "text": '{"found": 2}'}]},
    ]  # fmt: skip


def test_only_a_call_of_the_clients_own_tools_is_waited_for() -> None:
    provider_parts = (ToolCall("c", "look", "{}"), ToolResult("c", "5"))

    assert encode_message(*provider_parts)["stop_reason"] == "end_turn"
    assert encode_message(*provider_parts, ToolCall("d", "f", "{}"))["stop_reason"] == "tool_use"


def test_a_failed_text_result_of_an_anthropic_tool_is_marked_as_an_error() -> None:
    result = ToolResult("s", "gone", failed=True, metadata=typed("web_fetch_tool_result"))
    (block,) = encode_message(result)["content"]

    assert block["content"] == [{"type": "text", "text": "gone"}]
    assert block["is_error"] is True


def test_a_result_that_spells_a_block_of_text_stays_as_it_is_spelled() -> None:
    spelled = '[{"type":"text","text":"x"}]'
    (turn,) = DIALECT.representable_turns(
        WHOLE_REQUEST, (Turn((ToolResult("m", spelled),)),), ENCODE_CONTEXT
    ).turns

    assert DIALECT.decode_response(
        DIALECT.encode_response(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT)
    ) == (turn,)
    assert isinstance(turn.parts[0], ToolResult)
    assert turn.parts[0].content == spelled


def test_broken_arguments_can_be_encoded_only_in_a_stream() -> None:
    assert block_and_deltas(encode_events(ToolCall("t", "f", '{"a":'))) == [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"a'},
        {"type": "input_json_delta", "partial_json": '":'},
    ]
    with pytest.raises(NotRepresentable, match="the arguments of f are not"):
        encode_message(ToolCall("t", "f", '{"a":'))


DECLINED: Final = {
    "type": "refusal", "category": "cyber", "explanation": "It is not allowed. At all.",
}  # fmt: skip


@each_row("finish", [None, FinishReason.STOP, FinishReason.CONTENT_FILTER, FinishReason.REFUSAL])
def test_a_refusal_ends_the_message_and_is_why_it_stops(finish: FinishReason | None) -> None:
    category: Metadata = (("category", "cyber"),)
    refusals = (Refusal("It is not allowed.", category), Text("I"), Refusal(" At all."))
    *_, message_delta, _ = encode_events(
        *refusals, finish=finish, metadata=(("stop_details", {"a": 1}),)
    )

    assert message_delta["delta"] == {
        "stop_reason": "refusal", "stop_sequence": None, "stop_details": DECLINED,
    }  # fmt: skip
    assert encode_message(*refusals)["content"] == [{"type": "text", "text": "I"}]


def test_details_that_explain_a_refusal_are_read_as_one() -> None:
    turn = Turn((), FinishReason.REFUSAL, metadata=(("stop_details", {**DECLINED, "odd": 1}),))
    (converted_turn,) = DIALECT.representable_turns(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT).turns

    assert converted_turn.parts == (
        Refusal("It is not allowed. At all.", (("category", "cyber"),)),
    )
    assert converted_turn.metadata == ()


def test_blocks_without_a_part_type_keep_their_position() -> None:
    fallback: Json = {"type": "fallback", "to": {"model": "claude-b"}}
    odd: Json = {"type": "odd", "what": [1]}
    text: Json = {"type": "text", "text": "Hi"}
    others: Json = [
        {"index": 7, "content_block": odd},
        {"index": 0, "content_block": fallback},
        {"index": 0, "content_block": odd},
        {"index": 1, "content_block": text},  # a part, not one of the other blocks
    ]
    document = encode_message(
        Text("Hi"), Text("Hi"), model="x", metadata=(("other_blocks", others),)
    )

    assert document["content"] == [fallback, odd, text, text, odd]
    assert document["model"] == "claude-b"


_IDS = st.sampled_from(["", "a", "b", "c"])
_CONTENTS = st.sampled_from(
    ["", "words", "[]", "{}", "null", "5", '{"type":"x_error"}', '[{"type":"text","text":"x"}]',
     '[ {"type": "text", "text": "é"} ]', '[{"type":"text","text":"a"},{"type":"text"}]',
     '[{"url": "u\u2028"}]', '{"n": 100000000000000000000, "f": NaN}', '{"half": "\\ud800"}']
)  # fmt: skip
_OBJECTS = st.sampled_from(["", "{}", '{"a": 10000000000000000000}', '{"half": "\\ud800"}'])
_CITATIONS = st.builds(
    Citation, st.text(max_size=5), st.text(max_size=5),
    metadata=st.sampled_from([
        (),
        typed("char_location", file_id="f", url="odd"),
        typed("page_location", end_page_number=3),
        typed("web_search_result_location", encrypted_index="e"),
        (("encrypted_index", "e"), *typed("web_search_result_location")),
        typed("new_location", new=[1]),
    ]),
)  # fmt: skip
_CALLS = st.builds(
    ToolCall, _IDS, st.just("look"), _OBJECTS,
    st.sampled_from([
        (),
        typed("server_tool_use", caller={"type": "direct"}, id="odd"),
        typed("mcp_tool_use", server_name="w"),
        typed("tool_use", toolset_name="t"),
        typed("function"),
        (("caller", 1), *typed("server_tool_use")),
    ]),
)  # fmt: skip
_RESULTS = st.builds(
    ToolResult, _IDS, _CONTENTS, st.just("look"), st.booleans(),
    st.sampled_from([
        (),
        typed("mcp_tool_result"),
        typed("web_fetch_tool_result", caller=1),
        typed("tool_result"),
        typed("x_tool_result", content=1, is_error=True),
    ]),
)  # fmt: skip
_REASONINGS = st.builds(
    Reasoning, st.text(max_size=3),
    st.sampled_from([None, "", "s"]), st.sampled_from([None, "", "r"]),
    st.sampled_from([(), typed("compaction", content="odd", tool_changes=[1]), typed("new")]),
)  # fmt: skip
PARTS: st.SearchStrategy[Part] = st.one_of(
    TEXTS, REFUSALS, _CALLS, _RESULTS, _REASONINGS,
    st.builds(Text, st.text(max_size=3), st.lists(_CITATIONS, max_size=2).map(tuple)),
    st.just(Media("*/*", metadata=typed("container_upload", file_id="f"))),
)  # fmt: skip
_OTHER_BLOCKS = st.lists(
    st.builds(
        lambda index, block: {"index": index, "content_block": block},
        st.integers(-1, 4) | st.none(),
        st.sampled_from([{}, {"type": "odd"}, {"type": "text", "text": "part"}, {"no": "type"},
                         {"type": "fallback", "to": {"model": "next"}}, "none"]),
    ),
    max_size=3,
)  # fmt: skip
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "other_blocks": _OTHER_BLOCKS,
        "stop_details": st.sampled_from(
            [None, "odd", {"explanation": "No."}, {"explanation": "No.", "odd": 1}, {"odd": 1}]
        ),
        "usage": st.sampled_from(
            ["odd", {"speed": None}, {"speed": "fast", "iterations": [1]}, {"input_tokens": 3}]
        ),
        "request_id": st.sampled_from(["req_1", "", 5]),
        "stop": st.just("\n\nHuman:"),
        "container": st.sampled_from([{}, {"id": "c"}, 0, False]),
    },
).map(lambda metadata: tuple(metadata.items()))
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=4).map(tuple),
    st.none() | st.sampled_from(FinishReason),
    st.sampled_from(["", "refusal", "compaction", "new"]),
    st.none() | USAGES,
    st.none() | st.just(BUSY),
    metadata=METADATA,
)


@pytest.mark.parametrize("request_", [STREAM_REQUEST, WHOLE_REQUEST], ids=["stream", "whole"])
@given(turn=TURNS)
def test_every_representable_turn_decodes_as_it_was_encoded(request_: Request, turn: Turn) -> None:
    converted = DIALECT.representable_turns(request_, (turn,), ENCODE_CONTEXT)
    response = DIALECT.encode_response(request_, (turn,), ENCODE_CONTEXT)

    assert DIALECT.decode_response(response) == converted.turns
    assert DIALECT.representable_turns(
        request_, converted.turns, ENCODE_CONTEXT
    ) == ConvertedResponseTurns(converted.turns, ())
    assert DIALECT.completeness(response).is_complete


@given(turn=TURNS)
def test_a_stream_and_a_document_hold_the_same_blocks(turn: Turn) -> None:
    whole, streamed = (
        DIALECT.decode_response(DIALECT.encode_response(item, (turn,), ENCODE_CONTEXT))[0]
        for item in (WHOLE_REQUEST, STREAM_REQUEST)
    )
    if turn.failure is None:
        assert _parts_with_parsed_arguments(whole) == _parts_with_parsed_arguments(streamed)


def _parts_with_parsed_arguments(turn: Turn) -> list[Part | tuple[str, str, Json]]:
    """The parts of a turn, with arguments parsed."""
    return [
        (part.id, part.name, json.loads(part.arguments)) if isinstance(part, ToolCall) else part
        for part in turn.parts
    ]


QUOTA: Final = AccountLimits(
    request_window=RateLimitWindow(50, 49, 1.5), token_window=RateLimitWindow(40_000, 0, 60)
)


def json_body(response: DialectResponse) -> Any:
    return json.loads(b"".join(response.framed_messages))


def test_an_error_keeps_its_own_message() -> None:
    response = DIALECT.error_response(
        429, Failure("Slow down.", "own_error", "spent"), ENCODE_CONTEXT
    )

    assert json_body(response)["error"] == {
        "type": "own_error", "message": "Slow down.", "details": {"error_code": "spent"},
    }  # fmt: skip
    assert DIALECT.decode_response(response)[0].failure == Failure(
        "Slow down.", "own_error", "spent"
    )


@each_row(
    ("kind", "status"),
    [
        ("not_found_error", 404),
        ("overloaded_error", 529),
        ("timeout_error", 504),
        ("api_error", 500),
        ("unheard_of", 500),
    ],
)
def test_an_error_in_place_of_a_message_has_the_status_of_its_type(kind: str, status: int) -> None:
    metadata = (("request_id", "req_1"), ("container", "gone"))
    turn = Turn((Text("gone"),), failure=Failure("Oh", kind), metadata=metadata)
    response = DIALECT.encode_response(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT)

    assert (response.head.status, json_body(response)["error"]["type"]) == (status, kind)
    assert (
        header_value(response.head.headers, "request-id")
        == json_body(response)["request_id"]
        == "req_1"
    )
    assert (
        DIALECT.decode_response(response)
        == DIALECT.representable_turns(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT).turns
    )


def test_retry_after_is_in_whole_seconds() -> None:
    response = DIALECT.error_response(429, Failure(""), ENCODE_CONTEXT, 2.1)

    assert header_value(response.head.headers, "retry-after") == "3"
    assert (
        header_value(
            DIALECT.error_response(429, Failure(""), ENCODE_CONTEXT).head.headers, "retry-after"
        )
        is None
    )


def test_rate_limits_are_sent_with_their_reset_times() -> None:
    response = DIALECT.encode_response(
        WHOLE_REQUEST, (Turn((Text("Hi"),)),), replace(ENCODE_CONTEXT, account_limits=QUOTA)
    )

    limits = {name: value for name, value in response.head.headers if "ratelimit" in name}
    assert limits == {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:22Z",
        "anthropic-ratelimit-tokens-limit": "40000",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:14:20Z",
    }


def auxiliary_response(
    path: str, query: str = "", context: EncodeContext = ENCODE_CONTEXT
) -> DialectResponse:
    """The response to a GET."""
    request = Request("GET", path, query, VERSION_HEADERS, b"")
    assert dialects.dialect_of_request(request) is dialects.dialect_named("anthropic")
    response = DIALECT.auxiliary_response(request, context)
    assert response is not None
    assert DIALECT.decode_response(response) == ()
    return response


SMALL_MODEL: Final = {
    "type": "model", "id": "small", "display_name": "small",
    "created_at": "2023-11-14T22:13:20Z", "lifecycle": "active",
}  # fmt: skip


def test_the_models_are_listed() -> None:
    assert json_body(auxiliary_response("/v1/models")) == {
        "data": [SMALL_MODEL, {**SMALL_MODEL, "id": "large", "display_name": "large"}],
        "has_more": False, "first_id": "small", "last_id": "large",
    }  # fmt: skip
    assert json_body(auxiliary_response("/v1/models", context=EncodeContext("s", 0))) == {
        "data": [], "has_more": False, "first_id": None, "last_id": None,
    }  # fmt: skip


MANY_MODELS_CONTEXT: Final = replace(
    ENCODE_CONTEXT, models=tuple(f"m{number}" for number in range(30))
)


@each_row(
    ("query", "first", "last", "has_more"),
    [
        ("", "m0", "m19", True),
        ("limit=1000", "m0", "m29", False),
        ("limit=odd", "m0", "m19", True),
        ("limit=0", "m0", "m19", True),
        ("limit=99999", "m0", "m19", True),
        ("limit=3&after_id=m4", "m5", "m7", True),
        ("limit=3&after_id=m27", "m28", "m29", False),
        ("limit=3&before_id=m4", "m1", "m3", True),
        ("limit=3&before_id=m2", "m0", "m1", False),
        ("after_id=unheard_of", "m0", "m19", True),
        ("after_id=m29", None, None, False),
    ],
)
def test_the_model_list_is_paginated(
    query: str, first: str | None, last: str | None, has_more: bool
) -> None:
    page = json_body(auxiliary_response("/v1/models", query, MANY_MODELS_CONTEXT))

    assert (page["first_id"], page["last_id"], page["has_more"]) == (first, last, has_more)
    assert [item["id"] for item in page["data"]][:: max(1, len(page["data"]) - 1)] == (
        [first, last] if first else []
    )


def test_a_model_is_there_or_not_found() -> None:
    assert json_body(auxiliary_response("/v1/models/small")) == SMALL_MODEL
    assert (
        json_body(auxiliary_response("/v1/models/any", context=EncodeContext("s", 1_700_000_000)))[
            "id"
        ]
        == "any"
    )
    request = anthropic_request("/v1/models/other", "GET", VERSION_HEADERS)
    missing = DIALECT.auxiliary_response(request, ENCODE_CONTEXT)
    assert missing
    assert missing.head.status == 404
    assert json_body(missing)["error"] == {"type": "not_found_error", "message": "model: other"}


@each_row(
    ("path", "is_count"),
    [
        ("/v1/messages/count_tokens", True),
        ("/messages/count_tokens", True),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", True),
        ("/v1/messages", False),
        ("/v1/complete", False),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", False),
    ],
)
def test_only_count_tokens_paths_count_tokens(path: str, is_count: bool) -> None:
    response = DIALECT.auxiliary_response(anthropic_request(path, messages=[]), ENCODE_CONTEXT)

    assert (response is not None) is is_count
    assert response is None or json_body(response) == {"input_tokens": 1}


@each_row(
    ("request_body", "tokens"),
    [
        ({"messages": [{"role": "user", "content": "12345678"}]}, 2),
        ({"messages": [{"role": "user", "content": "123456789"}]}, 3),
        ({"messages": [{"content": [{"type": "text", "text": "1234"}, 5]}], "system": "1234"}, 2),
        ({"system": [{"type": "text", "text": "x" * 400}]}, 100),
        ({"messages": [{"content": [{"type": "image", "source": {"data": "x" * 400}}]}]}, 1),
        ({"messages": [{"content": [{"type": "tool_use", "name": "look", "input": {"a": 1}}]}]}, 3),
        ({"tools": [{"name": "f", "description": "123", "input_schema": {"type": "x"}}]}, 4),
        ({"messages": "odd", "model": "never counted", "tools": None}, 1),
    ],
)
def test_four_characters_that_the_model_reads_are_a_token(
    request_body: dict[str, Any], tokens: int
) -> None:
    response = DIALECT.auxiliary_response(
        anthropic_request("/v1/messages/count_tokens", **request_body), ENCODE_CONTEXT
    )

    assert response
    assert json_body(response) == {"input_tokens": tokens}
