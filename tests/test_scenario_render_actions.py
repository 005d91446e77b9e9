"""Rendered actions follow the scripted timing, scaled by the pace of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from dialect_manners import MANNERS, Manner
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.dialects.encoding import token_pieces
from llm_proxy.errors import NotRepresentable, ScriptExhausted
from llm_proxy.framing import sse
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.scenario.scripted_response import (
    ReportScriptExhausted,
    ScriptedAction,
    SendTurns,
    response_actions,
)
from llm_proxy.shell.server.journal import FailedSession
from llm_proxy.turns import Media, Text, Turn
from raw_http import send_request
from scripted_server import ScriptedMode, serve_mode
from stored_cassettes import raw_chat_request

MANNERS_BY_NAME = {item.name: item for item in MANNERS}
CHAT = MANNERS_BY_NAME["openai-chat stream"]
TURNS = (Turn((Text("one two three"),)),)
RESPONSE = SendTurns(TURNS, token_pieces, 5.0, lambda k: 10.0 * k)


def actions_of(
    response: ScriptedAction,
    manner: Manner = CHAT,
    pace: Pace = RecordedPace(),  # noqa: B008 # the default is frozen
) -> Burst:
    decoded_request = DecodedRequest(manner.dialect, manner.request, manner.context)
    return response_actions(response, decoded_request, pace, 660_000.0)


def timeline(burst: Burst) -> list[float | str]:
    """Return the due times of a chat, and the texts and finishes sent between them."""
    steps: list[float | str] = []
    for action in burst:
        match action:
            case Wait(due):
                steps.append(due)
            case Begin():
                steps.append("head")
            case Send(data):
                payload = sse.parse_event(data).data or b""
                steps += [payload.decode()] if sse.is_done_message(data) else _chunk_texts(payload)
            case other:
                steps.append(type(other).__name__)
    return steps


def _chunk_texts(payload: bytes) -> list[str]:
    choice = json.loads(payload)["choices"][0]
    calls = [item["function"]["arguments"] for item in choice["delta"].get("tool_calls", ())]
    return [choice["finish_reason"] or "".join(calls) or choice["delta"].get("content", "")]


def sent_data(burst: Burst) -> list[bytes]:
    return [item.data for item in burst if isinstance(item, Send)]


def wait_times(burst: Burst) -> list[float]:
    return [item.due for item in burst if isinstance(item, Wait)]


@pytest.mark.shows("001-18", "004-11", "004-13")
def test_each_piece_has_its_slot_and_the_last_one_a_whole_one() -> None:
    burst = actions_of(RESPONSE)

    assert timeline(burst) == [
        5.0, "head", "", "one", 15.0, " two", 35.0, " three", 65.0, "stop", "[DONE]",
    ]  # fmt: skip


def test_what_opens_a_later_part_goes_with_the_piece_before_it() -> None:
    turn = Turn((Text("one"), Text("two")))

    burst = actions_of(
        SendTurns((turn,), token_pieces, gap_ms=lambda _: 100.0),
        MANNERS_BY_NAME["anthropic stream"],
    )

    kinds = [item.due if isinstance(item, Wait) else _kind(item) for item in burst[1:]]
    assert [kind for kind in kinds if kind != "ping"] == [
        "message_start", "content_block_start", "text_delta",
        "content_block_stop", "content_block_start",
        100.0, "text_delta", 200.0, "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip


def _kind(action: Action) -> str:
    assert isinstance(action, Send)
    event = json.loads(sse.parse_event(action.data).data or b"")
    return str(event["delta"]["type"] if event["type"].endswith("block_delta") else event["type"])


@pytest.mark.shows("001-18", "004-13")
@each_row(
    ("pace", "due"),
    [
        (RecordedPace(), [5.0, 15.0, 35.0, 65.0]),
        (RecordedPace(5.0), [1.0, 3.0, 7.0, 13.0]),
        (RecordedPace(0.5), [10.0, 30.0, 70.0, 130.0]),
        (InstantPace(), []),
    ],
)
def test_the_pace_of_the_run_is_kept(pace: Pace, due: list[float]) -> None:
    assert wait_times(actions_of(RESPONSE, pace=pace)) == due


@pytest.mark.shows("000-95")
def test_without_times_everything_goes_at_once() -> None:
    burst = actions_of(SendTurns(TURNS))

    assert timeline(burst) == ["head", "", "one two three", "stop", "[DONE]"]


def test_an_empty_answer_waits_only_for_the_thinking_time() -> None:
    burst = actions_of(replace(RESPONSE, response_turns=(Turn(()),)))

    assert wait_times(burst) == [5.0]


@pytest.mark.shows("004-11", "004-14")
@each_row("name", ["openai-chat whole", "anthropic whole", "ollama chat whole"])
def test_a_whole_answer_waits_only_for_the_thinking_time(name: str) -> None:
    burst = actions_of(
        RESPONSE,
        MANNERS_BY_NAME[name],
    )

    assert isinstance(burst[0], Wait)
    assert isinstance(burst[1], Begin)
    assert (wait_times(burst), len(sent_data(burst))) == ([5.0], 1)


@each_row("manner", MANNERS, ids=(manner.name for manner in MANNERS))
def test_the_output_is_the_dialects_encoding_split_as_scripted(manner: Manner) -> None:
    response = SendTurns(TURNS, token_pieces, 1.0, lambda _: 1.0)
    context = replace(manner.context, split_text=token_pieces)
    expected = manner.dialect.encode_response(manner.request, response.response_turns, context)

    burst = actions_of(response, manner)

    assert [item for item in burst if isinstance(item, Begin)] == [Begin(expected.head)]
    assert sent_data(burst) == list(expected.framed_messages)


@given(
    texts=st.lists(st.sampled_from(["a", ""]), max_size=8),
    gaps=st.lists(st.integers(0, 50), min_size=9, max_size=9),
    thinking=st.integers(0, 20),
)
def test_a_piece_is_due_after_all_the_gaps_before_it(
    texts: Sequence[str], gaps: Sequence[int], thinking: int
) -> None:
    text = "".join(texts)

    burst = actions_of(SendTurns((Turn((Text(text),)),), list, thinking, lambda k: gaps[k]))

    at, due = float(thinking), []
    for k in range(len(text) + 1):
        at += gaps[k] if k else 0.0
        due.append(at)
    assert wait_times(burst) == [due_ms for due_ms in dict.fromkeys(due) if due_ms > 0]
    assert "".join(str(item) for item in timeline(burst) if item == "a") == text


def test_a_turn_that_the_dialect_cannot_represent_is_refused() -> None:
    turn = Turn((Media("image/png", base64="iVBORw0KGgo="),))

    with pytest.raises(NotRepresentable, match="anthropic cannot represent media"):
        actions_of(SendTurns((turn,)), MANNERS_BY_NAME["anthropic stream"])


def test_an_exhausted_script_raises_its_message() -> None:
    with pytest.raises(ScriptExhausted, match="mock helper has 2 replies"):
        actions_of(ReportScriptExhausted("mock helper has 2 replies"))


@pytest.mark.shows("001-16", "001-18")
async def test_a_stream_goes_out_in_its_slots() -> None:
    response = SendTurns(TURNS, token_pieces, 60.0, lambda _: 40.0)
    async with serve_mode(ScriptedMode(lambda _: response)) as server:
        raw = await send_request(server.url, raw_chat_request())

    first, *gaps = [raw.head_ms, *raw.times_ms]
    assert first >= 60.0
    due = [60.0, 60.0, 100.0, 140.0, 180.0, 180.0]
    assert all(at >= due_ms for at, due_ms in zip(gaps, due, strict=True))
    assert max(server.entries()[0].late_worst_ms, 0.0) < 1000.0
    assert (raw.ending, server.entries()[0].ending) == ("clean", "sent")


@pytest.mark.shows("004-07")
@each_row("stream", [True, False])
async def test_a_client_of_an_exhausted_script_gets_an_error_that_is_not_retryable(
    stream: bool,
) -> None:
    message = "mock helper has 2 replies, but this is request 3: add one to replies"
    request = raw_chat_request("hi", "x-llm-proxy-session: refunds")
    request = request if stream else request.replace(b"true", b"null")
    async with serve_mode(ScriptedMode(lambda _: ReportScriptExhausted(message))) as server:
        raw = await send_request(server.url, request)

    assert (raw.status, raw.header("x-should-retry")) == (424, "false")
    assert raw.header("x-llm-proxy-error") == "script_exhausted"
    error = json.loads(raw.body)["error"]
    assert (error["type"], error["message"]) == ("script_exhausted", message)
    assert server.journal.failed_sessions == [FailedSession("refunds", message)]
    assert [entry.note for entry in server.entries("refunds")] == [message]
