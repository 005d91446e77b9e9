"""The event order of Anthropic streams and errors within them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anthropic_encoding import (
    PING_EVENT,
    STREAM_REQUEST,
    VERTEX_REQUEST,
    WHOLE_REQUEST,
    encode_events,
    encode_message,
    event_documents,
)
from anthropic_events import DIALECT
from dialect_manners import ENCODE_CONTEXT, REFUSALS, TEXTS, USAGES
from llm_proxy.dialects.base import ConvertedResponseTurns
from llm_proxy.exchange import Request, header_value
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

BUSY: Final = Failure("Overloaded", "overloaded_error")


def event_types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_ping_comes_once_behind_the_first_start_of_a_block() -> None:
    events = encode_events(Text("a"), Text("b"))

    assert events[2] == PING_EVENT
    assert event_types(events).count("ping") == 1


def test_a_ping_of_vertex_comes_behind_the_start_of_the_message() -> None:
    assert event_types(encode_events(Text("a"), request=VERTEX_REQUEST))[:3] == [
        "message_start", "ping", "content_block_start",
    ]  # fmt: skip


def test_an_empty_message_has_no_blocks_and_no_ping() -> None:
    assert event_types(encode_events()) == ["message_start", "message_delta", "message_stop"]


def test_ids_are_made_as_each_api_makes_them() -> None:
    (vertex, *_), (plain, *_) = (
        encode_events(Text("Hi"), request=item) for item in (VERTEX_REQUEST, STREAM_REQUEST)
    )

    assert vertex["message"]["id"].startswith("msg_vrtx_")
    assert vertex["message"]["model"] == "m"
    assert plain["message"]["id"].startswith("msg_")


USAGE: Final = Usage(input=9, output=40, cache_read=3, reasoning=7, total=52)
USAGE_METADATA: Final[dict[str, Json]] = {
    "service_tier": "standard", "server_tool_use": {"web_search_requests": 1}, "speed": None,
    "input_tokens": 1,
}  # fmt: skip


def test_usage_is_split_between_the_start_and_the_delta() -> None:
    metadata: dict[str, Json] = {"usage": {**USAGE_METADATA}}
    events = encode_events(Text("Hi"), usage=USAGE, metadata=tuple(metadata.items()))

    assert events[0]["message"]["usage"] == {
        "input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1,
        "service_tier": "standard",
    }  # fmt: skip
    assert events[-2]["usage"] == {
        "input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 7},
        "server_tool_use": {"web_search_requests": 1},
    }  # fmt: skip
    whole = encode_message(Text("Hi"), usage=USAGE, metadata=tuple(metadata.items()))
    assert whole["usage"] == {**events[0]["message"]["usage"], **events[-2]["usage"]}


def test_usage_is_zero_when_the_turn_has_none() -> None:
    assert encode_events()[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}


def test_metadata_is_encoded_where_servers_put_it() -> None:
    metadata: dict[str, Json] = {
        "context_management": {"applied_edits": [1]},
        "stop_sequence": "END",
        "container": {"id": "c"},
        "diagnostics": {"cache": 1},
        "request_id": "of an error",
        "unheard_of": 1,
    }
    events = encode_events(metadata=tuple(metadata.items()))

    assert events[0]["message"]["diagnostics"] == {"cache": 1}
    assert events[-2]["delta"] == {
        "stop_reason": "end_turn", "stop_sequence": "END", "container": {"id": "c"},
    }  # fmt: skip
    assert events[-2]["context_management"] == {"applied_edits": [1]}
    assert not {"request_id", "unheard_of"}.intersection(
        encode_message(metadata=tuple(metadata.items()))
    )


def test_an_error_ends_a_stream() -> None:
    metadata: tuple[tuple[str, Json], ...] = (
        ("usage", {**USAGE_METADATA}),
        ("container", {"id": "c"}),
    )
    turn = Turn((Text("Hi"), Refusal("No.")), FinishReason.STOP, "", USAGE, BUSY, metadata=metadata)
    response = DIALECT.encode_response(STREAM_REQUEST, (turn,), ENCODE_CONTEXT)
    events = event_documents(response)

    assert event_types(events) == [
        "message_start", "content_block_start", "ping", "content_block_delta",
        "content_block_stop", "error",
    ]  # fmt: skip
    request_id = header_value(response.head.headers, "request-id")
    assert events[-1] == {
        "type": "error",
        "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"},
        "request_id": request_id,
    }
    (decoded,) = DIALECT.decode_response(response)
    assert decoded.usage == Usage(input=9, output=1, cache_read=3)
    assert decoded.metadata == (
        ("request_id", request_id), ("usage", {"service_tier": "standard"}),
    )  # fmt: skip


def test_an_error_before_any_content_follows_the_start_event() -> None:
    assert event_types(encode_events(failure=BUSY)) == ["message_start", "error"]


def test_an_error_without_a_message_has_the_default_of_its_type() -> None:
    failure = Failure("", "overloaded_error", "spent")
    error = {
        "details": {"error_code": "spent"}, "type": "overloaded_error", "message": "Overloaded",
    }  # fmt: skip

    assert encode_events(failure=failure)[-1]["error"] == error
    assert encode_events(failure=Failure(""))[-1]["error"]["type"] == "api_error"


def test_the_id_of_a_request_that_failed_is_kept() -> None:
    assert (
        encode_events(failure=BUSY, metadata=(("request_id", "req_1"),))[-1]["request_id"]
        == "req_1"
    )
    assert encode_events(failure=BUSY, metadata=(("request_id", 5),))[-1]["request_id"].startswith(
        "req_"
    )


def _metadata(kind: str, **more: Json) -> tuple[tuple[str, Json], ...]:
    return (("type", kind), *more.items())


_IDS = st.sampled_from(["", "a", "b", "c"])
_CONTENTS = st.sampled_from(
    ["", "words", "[]", "{}", "null", "5", '{"type":"x_error"}', '[{"type":"text","text":"x"}]',
     '[ {"type": "text", "text": "é"} ]', '[{"type":"text","text":"a"},{"type":"text"}]',
     '[{"url": "u\u2028"}]', '{"n": 100000000000000000000, "f": NaN}', '{"half": "\\ud800"}']
)  # fmt: skip
_OBJECTS = st.sampled_from(["", "{}", '{"a": 10000000000000000000}', '{"half": "\\ud800"}'])
_CITATIONS = st.builds(
    Citation,
    st.text(max_size=5),
    st.text(max_size=5),
    metadata=st.sampled_from(
        [
            (),
            _metadata("char_location", file_id="f", url="odd"),
            _metadata("page_location", end_page_number=3),
            _metadata("web_search_result_location", encrypted_index="e"),
            (("encrypted_index", "e"), *_metadata("web_search_result_location")),
            _metadata("new_location", new=[1]),
        ]
    ),
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    TEXTS,
    REFUSALS,
    st.builds(Text, st.text(max_size=3), st.lists(_CITATIONS, max_size=2).map(tuple)),
    st.builds(
        ToolCall,
        _IDS,
        st.just("look"),
        _OBJECTS,
        st.sampled_from(
            [
                (),
                _metadata("server_tool_use", caller={"type": "direct"}, id="odd"),
                _metadata("mcp_tool_use", server_name="w"),
                _metadata("tool_use", toolset_name="t"),
                _metadata("function"),
                (("caller", 1), *_metadata("server_tool_use")),
            ]
        ),
    ),
    st.builds(
        ToolResult,
        _IDS,
        _CONTENTS,
        st.just("look"),
        st.booleans(),
        st.sampled_from(
            [
                (),
                _metadata("mcp_tool_result"),
                _metadata("web_fetch_tool_result", caller=1),
                _metadata("tool_result"),
                _metadata("x_tool_result", content=1, is_error=True),
            ]
        ),
    ),
    st.builds(
        Reasoning,
        st.text(max_size=3),
        st.sampled_from([None, "", "s"]),
        st.sampled_from([None, "", "r"]),
        st.sampled_from(
            [(), _metadata("compaction", content="odd", tool_changes=[1]), _metadata("new")]
        ),
    ),
    st.just(Media("*/*", metadata=_metadata("container_upload", file_id="f"))),
)
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
