"""The order of a stream of Anthropic's, what breaks it off, and what its older API says."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anthropic_encoding import LEGACY, PING, STREAM, VERTEX, WHOLE, documents, message, told
from anthropic_events import DIALECT
from dialect_manners import DELIVERY, REFUSALS, TEXTS, USAGES
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_ping_comes_once_behind_the_first_start_of_a_block() -> None:
    events = told(Text("a"), Text("b"))

    assert events[2] == PING
    assert kinds(events).count("ping") == 1


def test_a_ping_of_vertex_comes_behind_the_start_of_the_message() -> None:
    assert kinds(told(Text("a"), request=VERTEX))[:3] == [
        "message_start", "ping", "content_block_start",
    ]  # fmt: skip


def test_a_message_that_says_nothing_has_no_blocks_and_no_ping() -> None:
    assert kinds(told()) == ["message_start", "message_delta", "message_stop"]


def test_a_completion_of_one_piece_has_no_ping() -> None:
    assert kinds(told(Text("Hi"), request=LEGACY)) == ["completion"]
    assert kinds(told(request=LEGACY)) == ["completion"]


def test_ids_are_made_as_each_api_makes_them() -> None:
    (vertex, *_), (legacy, *_), (plain, *_) = (
        told(Text("Hi"), request=item) for item in (VERTEX, LEGACY, STREAM)
    )

    assert vertex["message"]["id"].startswith("msg_vrtx_")
    assert vertex["message"]["model"] == "m"
    assert plain["message"]["id"].startswith("msg_")
    assert legacy["id"] == legacy["log_id"]
    assert legacy["id"].startswith("compl_")


COST: Final = Usage(input=9, output=40, cache_read=3, reasoning=7, total=52)
BESIDE: Final[dict[str, Json]] = {
    "service_tier": "standard", "server_tool_use": {"web_search_requests": 1}, "speed": None,
    "input_tokens": 1,
}  # fmt: skip


def test_what_was_used_is_counted_when_it_is_known() -> None:
    about: dict[str, Json] = {"usage": {**BESIDE}}
    events = told(Text("Hi"), usage=COST, metadata=tuple(about.items()))

    assert events[0]["message"]["usage"] == {
        "input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 1,
        "service_tier": "standard",
    }  # fmt: skip
    assert events[-2]["usage"] == {
        "input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 7},
        "server_tool_use": {"web_search_requests": 1},
    }  # fmt: skip
    whole = message(Text("Hi"), usage=COST, metadata=tuple(about.items()))
    assert whole["usage"] == {**events[0]["message"]["usage"], **events[-2]["usage"]}


def test_where_nothing_was_counted_it_is_zero() -> None:
    assert told()[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}


def test_what_stands_beside_a_message_stands_where_servers_put_it() -> None:
    about: dict[str, Json] = {
        "context_management": {"applied_edits": [1]},
        "stop_sequence": "END",
        "container": {"id": "c"},
        "diagnostics": {"cache": 1},
        "request_id": "of an error",
        "unheard_of": 1,
    }
    events = told(metadata=tuple(about.items()))

    assert events[0]["message"]["diagnostics"] == {"cache": 1}
    assert events[-2]["delta"] == {
        "stop_reason": "end_turn", "stop_sequence": "END", "container": {"id": "c"},
    }  # fmt: skip
    assert events[-2]["context_management"] == {"applied_edits": [1]}
    assert not {"request_id", "unheard_of"}.intersection(message(metadata=tuple(about.items())))


def test_an_error_breaks_a_stream_off() -> None:
    about: tuple[tuple[str, Json], ...] = (("usage", {**BESIDE}), ("container", {"id": "c"}))
    turn = Turn((Text("Hi"), Refusal("No.")), Finish.STOP, "", COST, BUSY, metadata=about)
    response = DIALECT.encode(STREAM, (turn,), DELIVERY)
    events = documents(response)

    assert kinds(events) == [
        "message_start", "content_block_start", "ping", "content_block_delta",
        "content_block_stop", "error",
    ]  # fmt: skip
    request_id = header_value(response.head.headers, "request-id")
    assert events[-1] == {
        "type": "error",
        "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"},
        "request_id": request_id,
    }
    (read,) = DIALECT.decode(response)
    assert read.usage == Usage(input=9, output=1, cache_read=3)
    assert read.metadata == (
        ("request_id", request_id), ("usage", {"service_tier": "standard"}),
    )  # fmt: skip


def test_an_error_before_anything_is_said_stands_behind_the_start() -> None:
    assert kinds(told(failure=BUSY)) == ["message_start", "error"]
    assert kinds(told(failure=BUSY, request=LEGACY)) == ["completion", "error"]


def test_an_error_without_words_has_those_of_its_type() -> None:
    failure = Failure("", "overloaded_error", "spent")
    error = {
        "details": {"error_code": "spent"}, "type": "overloaded_error", "message": "Overloaded",
    }  # fmt: skip

    assert told(failure=failure)[-1]["error"] == error
    assert told(failure=Failure(""))[-1]["error"]["type"] == "api_error"


def test_the_id_of_a_request_that_failed_is_kept() -> None:
    assert told(failure=BUSY, metadata=(("request_id", "req_1"),))[-1]["request_id"] == "req_1"
    assert told(failure=BUSY, metadata=(("request_id", 5),))[-1]["request_id"].startswith("req_")


@pytest.mark.parametrize(
    ("finish", "raw"),
    [(None, "stop_sequence"), (Finish.LENGTH, "max_tokens"), (Finish.REFUSAL, "stop_sequence")],
)
def test_a_completion_says_why_it_stopped_in_its_own_words(finish: Finish | None, raw: str) -> None:
    assert told(Text("Hi"), finish=finish, request=LEGACY)[-1]["stop_reason"] == raw


def test_a_completion_says_text_and_nothing_else() -> None:
    turn = Turn((Reasoning("Hm"), Text("No"), Refusal(": never.")), usage=COST)
    fitted = DIALECT.convert(LEGACY, (turn,), DELIVERY)

    assert fitted.turns[0].parts == (Text("No: never."),)
    assert {"reasoning", "that a refusal is one", "usage input"} <= set(fitted.losses)
    with pytest.raises(NotRepresentable, match="a tool call"):
        DIALECT.convert(LEGACY, (Turn((ToolCall("t", "f", "{}"),)),), DELIVERY)


def _of(kind: str, **beside: Json) -> tuple[tuple[str, Json], ...]:
    return (("type", kind), *beside.items())


_IDS = st.sampled_from(["", "a", "b", "c"])
_CONTENTS = st.sampled_from(
    ["", "words", "[]", "{}", "null", "5", '{"type":"x_error"}', '[{"type":"text","text":"x"}]',
     '[ {"type": "text", "text": "é"} ]', '[{"type":"text","text":"a"},{"type":"text"}]',
     '[{"url": "u\u2028"}]', '{"n": 100000000000000000000, "f": NaN}', '{"half": "\\ud800"}']
)  # fmt: skip
_OBJECTS = st.sampled_from(["", "{}", '{"a": 10000000000000000000}', '{"half": "\\ud800"}'])
_CITED = st.builds(
    Citation,
    st.text(max_size=5),
    st.text(max_size=5),
    metadata=st.sampled_from(
        [
            (),
            _of("char_location", file_id="f", url="odd"),
            _of("page_location", end_page_number=3),
            _of("web_search_result_location", encrypted_index="e"),
            (("encrypted_index", "e"), *_of("web_search_result_location")),
            _of("new_location", new=[1]),
        ]
    ),
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    TEXTS,
    REFUSALS,
    st.builds(Text, st.text(max_size=3), st.lists(_CITED, max_size=2).map(tuple)),
    st.builds(
        ToolCall,
        _IDS,
        st.just("look"),
        _OBJECTS,
        st.sampled_from([(), _of("server_tool_use", caller={"type": "direct"}, id="odd"),
                         _of("mcp_tool_use", server_name="w"), _of("tool_use", toolset_name="t"),
                         _of("function"), (("caller", 1), *_of("server_tool_use"))]),
    ),
    st.builds(
        ToolResult,
        _IDS,
        _CONTENTS,
        st.just("look"),
        st.booleans(),
        st.sampled_from([(), _of("mcp_tool_result"), _of("web_fetch_tool_result", caller=1),
                         _of("tool_result"), _of("x_tool_result", content=1, is_error=True)]),
    ),
    st.builds(
        Reasoning,
        st.text(max_size=3),
        st.sampled_from([None, "", "s"]),
        st.sampled_from([None, "", "r"]),
        st.sampled_from([(), _of("compaction", content="odd", tool_changes=[1]), _of("new")]),
    ),
    st.just(Media("*/*", metadata=_of("container_upload", file_id="f"))),
)  # fmt: skip
_OTHERS = st.lists(
    st.builds(
        lambda index, block: {"index": index, "content_block": block},
        st.integers(-1, 4) | st.none(),
        st.sampled_from([{}, {"type": "odd"}, {"type": "text", "text": "part"}, {"no": "type"},
                         {"type": "fallback", "to": {"model": "next"}}, "none"]),
    ),
    max_size=3,
)  # fmt: skip
ABOUT = st.fixed_dictionaries(
    {},
    optional={
        "other_blocks": _OTHERS,
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
).map(lambda it: tuple(it.items()))
TURNS = st.builds(
    Turn,
    st.lists(PARTS, max_size=4).map(tuple),
    st.none() | st.sampled_from(Finish),
    st.sampled_from(["", "refusal", "compaction", "new"]),
    st.none() | USAGES,
    st.none() | st.just(BUSY),
    metadata=ABOUT,
)


@pytest.mark.parametrize("request_", [STREAM, WHOLE], ids=["stream", "whole"])
@given(turn=TURNS)
def test_all_that_this_wire_can_say_is_read_as_it_was_told(request_: Request, turn: Turn) -> None:
    fitted = DIALECT.convert(request_, (turn,), DELIVERY)
    response = DIALECT.encode(request_, (turn,), DELIVERY)

    assert DIALECT.decode(response) == fitted.turns
    assert DIALECT.convert(request_, fitted.turns, DELIVERY) == ConvertedTurns(fitted.turns, ())
    assert DIALECT.completeness(response).is_complete


@given(turn=TURNS)
def test_a_stream_and_a_document_tell_the_same_blocks(turn: Turn) -> None:
    whole, streamed = (
        DIALECT.decode(DIALECT.encode(item, (turn,), DELIVERY))[0] for item in (WHOLE, STREAM)
    )
    if turn.failure is None:
        assert _spelled(whole) == _spelled(streamed)


def _spelled(turn: Turn) -> list[Part | tuple[str, str, Json]]:
    """The parts of a turn, with arguments as their values."""
    return [
        (part.id, part.name, json.loads(part.arguments)) if isinstance(part, ToolCall) else part
        for part in turn.parts
    ]
