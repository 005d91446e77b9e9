"""An answer goes out at the times that its direction gives, and at the pace of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_manners import MANNERS, Manner
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import token_pieces
from llm_proxy.errors import NotRepresentable, ScriptExhausted
from llm_proxy.framing import sse
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.scenario.render.actions import Says, response_actions
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportExhausted,
    ResponseTiming,
    SendTurns,
)
from llm_proxy.shell.server.journal import FailedSession
from llm_proxy.turns import Media, Text, ToolCall, Turn
from raw_http import ask
from scripted_server import Directed, directed
from stored_cassettes import chat

MANNER = {item.name: item for item in MANNERS}
CHAT = MANNER["openai-chat stream"]
SAID = (Turn((Text("one two three"),)),)
TEN_MORE_EACH_TIME = ResponseTiming(thinking_ms=5.0, gap_ms=lambda k: 10.0 * k)


def content(_codec: str, message: bytes) -> bool:
    """Whether a chunk of a chat has text, or a piece of a call."""
    data = sse.parse_event(message).data or b""
    if not data.startswith(b"{"):
        return False
    deltas = [choice["delta"] for choice in json.loads(data)["choices"]]
    return any(delta.get("content") or delta.get("tool_calls") for delta in deltas)


def performed(
    what: SendTurns | FailResponse | ReportExhausted,
    manner: Manner = CHAT,
    pace: Pace = RecordedPace(),  # noqa: B008 # a frozen value
    says: Says = content,
) -> Burst:
    asked = DecodedRequest(manner.dialect, manner.request, manner.delivery)
    return response_actions(what, asked, says, pace, FailureLimits())


def told(burst: Burst) -> list[float | str]:
    """The due times of a chat, and what goes out between them: texts and finishes."""
    seen: list[float | str] = []
    for action in burst:
        match action:
            case Wait(due):
                seen.append(due)
            case Begin():
                seen.append("head")
            case Send(data):
                said = sse.parse_event(data).data or b""
                seen += [said.decode()] if sse.is_done(data) else _words(said)
            case other:
                seen.append(type(other).__name__)
    return seen


def _words(said: bytes) -> list[str]:
    choice = json.loads(said)["choices"][0]
    calls = [item["function"]["arguments"] for item in choice["delta"].get("tool_calls", ())]
    return [choice["finish_reason"] or "".join(calls) or choice["delta"].get("content", "")]


def sends(burst: Burst) -> list[bytes]:
    return [item.data for item in burst if isinstance(item, Send)]


def waits(burst: Burst) -> list[float]:
    return [item.due for item in burst if isinstance(item, Wait)]


@pytest.mark.shows("001-18", "004-11", "004-13")
def test_each_piece_has_its_slot_and_the_last_one_a_whole_one() -> None:
    burst = performed(SendTurns(SAID, token_pieces, TEN_MORE_EACH_TIME))

    assert told(burst) == [
        5.0, "head", "", "one", 15.0, " two", 35.0, " three", 65.0, "stop", "[DONE]",
    ]  # fmt: skip


def test_what_opens_a_later_part_goes_with_the_piece_before_it() -> None:
    turn = Turn((Text("one"), ToolCall("call-1", "look", '{"a":1}')))
    hundred = ResponseTiming(gap_ms=lambda _: 100.0)

    burst = performed(
        SendTurns((turn,), token_pieces, hundred), MANNER["anthropic stream"], says=_delta
    )

    kinds = [item.due if isinstance(item, Wait) else _kind(item) for item in burst[1:]]
    assert [kind for kind in kinds if kind != "ping"] == [
        "message_start", "content_block_start", "text_delta",
        "content_block_stop", "content_block_start", "input_json_delta",
        100.0, "input_json_delta", 200.0, "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip


def _kind(action: Action) -> str:
    assert isinstance(action, Send)
    said = json.loads(sse.parse_event(action.data).data or b"")
    return str(said["delta"]["type"] if said["type"].endswith("block_delta") else said["type"])


def _delta(_codec: str, message: bytes) -> bool:
    return b"block_delta" in message and b'"partial_json":""' not in message


@pytest.mark.shows("001-18", "004-13")
@pytest.mark.parametrize(
    ("pace", "due"),
    [
        (RecordedPace(), [5.0, 15.0, 35.0, 65.0]),
        (RecordedPace(5.0), [1.0, 3.0, 7.0, 13.0]),
        (RecordedPace(0.5), [10.0, 30.0, 70.0, 130.0]),
        (InstantPace(), []),
    ],
)
def test_the_pace_of_the_run_is_kept(pace: Pace, due: list[float]) -> None:
    assert waits(performed(SendTurns(SAID, token_pieces, TEN_MORE_EACH_TIME), pace=pace)) == due


@pytest.mark.shows("000-95")
def test_without_times_everything_goes_at_once() -> None:
    burst = performed(SendTurns(SAID))

    assert told(burst) == ["head", "", "one two three", "stop", "[DONE]"]


def test_an_answer_that_says_nothing_waits_but_for_the_thinking() -> None:
    burst = performed(SendTurns((Turn(()),), token_pieces, TEN_MORE_EACH_TIME))

    assert waits(burst) == [5.0]


@pytest.mark.shows("004-11", "004-14")
@pytest.mark.parametrize("name", ["openai-chat whole", "anthropic whole", "ollama chat whole"])
def test_a_whole_answer_waits_but_for_the_thinking(name: str) -> None:
    burst = performed(
        SendTurns(SAID, token_pieces, TEN_MORE_EACH_TIME),
        MANNER[name],
        says=lambda _codec, _message: True,
    )

    assert isinstance(burst[0], Wait)
    assert isinstance(burst[1], Begin)
    assert (waits(burst), len(sends(burst))) == ([5.0], 1)


@pytest.mark.parametrize("manner", MANNERS, ids=lambda it: it.name.replace(" ", "-"))
def test_what_goes_out_is_what_the_dialect_speaks_cut_as_directed(manner: Manner) -> None:
    say = SendTurns(SAID, token_pieces, ResponseTiming(1.0, lambda _: 1.0))
    delivery = replace(manner.delivery, split_text=token_pieces)
    spoken = manner.dialect.encode(manner.request, say.turns, delivery)

    burst = performed(say, manner, says=lambda _codec, _message: True)

    assert [item for item in burst if isinstance(item, Begin)] == [Begin(spoken.head)]
    assert sends(burst) == list(spoken.messages)


@settings(max_examples=50)
@given(
    texts=st.lists(st.sampled_from(["a", ""]), max_size=8),
    gaps=st.lists(st.integers(0, 50), min_size=9, max_size=9),
    thinking=st.integers(0, 20),
)
def test_a_piece_is_due_after_all_the_gaps_before_it(
    texts: Sequence[str], gaps: Sequence[int], thinking: int
) -> None:
    said = "".join(texts)
    timing = ResponseTiming(thinking, lambda k: gaps[k])

    burst = performed(SendTurns((Turn((Text(said),)),), list, timing))

    at, due = float(thinking), []
    for k in range(len(said) + 1):
        at += gaps[k] if k else 0.0
        due.append(at)
    assert waits(burst) == [fromkey for fromkey in dict.fromkeys(due) if fromkey > 0]
    assert "".join(str(item) for item in told(burst) if item == "a") == said


def test_a_turn_without_words_in_the_dialect_cannot_be_said() -> None:
    turn = Turn((Media("image/png", base64="iVBORw0KGgo="),))

    with pytest.raises(NotRepresentable, match="anthropic has no word for media"):
        performed(SendTurns((turn,)), MANNER["anthropic stream"])


def test_a_script_without_another_answer_says_so_loudly() -> None:
    with pytest.raises(ScriptExhausted, match="mock helper has 2 replies"):
        performed(ReportExhausted("mock helper has 2 replies"))


@pytest.mark.shows("001-16", "001-18")
async def test_a_stream_goes_out_in_its_slots() -> None:
    timing = ResponseTiming(60.0, lambda _: 40.0)
    async with directed(Directed(lambda _: SendTurns(SAID, token_pieces, timing))) as stage:
        raw = await ask(stage.url, chat())

    first, *gaps = [raw.head_at, *raw.times]
    assert first >= 60.0
    due = [60.0, 60.0, 100.0, 140.0, 180.0, 180.0]
    assert all(at >= it for at, it in zip(gaps, due, strict=True))
    assert max(stage.entries()[0].late_worst_ms, 0.0) < 1000.0
    assert (raw.how, stage.entries()[0].ending) == ("clean", "sent")


@pytest.mark.shows("004-07")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_of_an_exhausted_script_gets_an_error_that_is_not_asked_again(
    stream: bool,
) -> None:
    message = "mock helper has 2 replies, and this is call 3: add one to replies"
    request = chat("hi", "x-llm-proxy-session: refunds")
    request = request if stream else request.replace(b"true", b"null")
    async with directed(Directed(lambda _: ReportExhausted(message))) as stage:
        raw = await ask(stage.url, request)

    assert (raw.status, raw.header("x-should-retry")) == (424, "false")
    assert raw.header("x-llm-proxy-error") == "script_exhausted"
    error = json.loads(raw.body)["error"]
    assert (error["type"], error["message"]) == ("script_exhausted", message)
    assert stage.journal.unsuccessful == [FailedSession("refunds", message)]
    assert [entry.note for entry in stage.entries("refunds")] == [message]
