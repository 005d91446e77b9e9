"""An answer goes out at the times that its direction gives, and at the pace of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from directing import Directed, directed
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.dialects.encode_context import pieces
from llm_proxy.errors import CannotSay, ScriptExhausted
from llm_proxy.framing import sse
from llm_proxy.pacing import Instant, Pace, Recorded
from llm_proxy.scenario.render.actions import Says, actions
from llm_proxy.scenario.render.failures import Limits
from llm_proxy.scenario.scripted_response import Exhausted, Fail, Say, Timing
from llm_proxy.shell.server.journal import Unsuccessful
from llm_proxy.turns import Media, Text, ToolCall, Turn
from raw import ask
from shelf import chat
from speaking import MANNERS, Manner

MANNER = {it.name: it for it in MANNERS}
CHAT = MANNER["openai-chat stream"]
SAID = (Turn((Text("one two three"),)),)
TEN_MORE_EACH_TIME = Timing(thinking=5.0, gap=lambda k: 10.0 * k)


def content(_codec: str, message: bytes) -> bool:
    """Whether a chunk of a chat has text, or a piece of a call."""
    data = sse.read_event(message).data or b""
    if not data.startswith(b"{"):
        return False
    deltas = [it["delta"] for it in json.loads(data)["choices"]]
    return any(it.get("content") or it.get("tool_calls") for it in deltas)


def performed(
    what: Say | Fail | Exhausted,
    manner: Manner = CHAT,
    pace: Pace = Recorded(),  # noqa: B008 # a frozen value
    says: Says = content,
) -> Burst:
    asked = Asked(manner.dialect, manner.request, manner.delivery)
    return actions(what, asked, says, pace, Limits())


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
                said = sse.read_event(data).data or b""
                seen += [said.decode()] if sse.is_done(data) else _words(said)
            case other:
                seen.append(type(other).__name__)
    return seen


def _words(said: bytes) -> list[str]:
    choice = json.loads(said)["choices"][0]
    calls = [it["function"]["arguments"] for it in choice["delta"].get("tool_calls", ())]
    return [choice["finish_reason"] or "".join(calls) or choice["delta"].get("content", "")]


def sends(burst: Burst) -> list[bytes]:
    return [it.data for it in burst if isinstance(it, Send)]


def waits(burst: Burst) -> list[float]:
    return [it.due for it in burst if isinstance(it, Wait)]


@pytest.mark.shows("001-18", "004-11", "004-13")
def test_each_piece_has_its_slot_and_the_last_one_a_whole_one() -> None:
    burst = performed(Say(SAID, pieces, TEN_MORE_EACH_TIME))

    assert told(burst) == [
        5.0, "head", "", "one", 15.0, " two", 35.0, " three", 65.0, "stop", "[DONE]",
    ]  # fmt: skip


def test_what_opens_a_later_part_goes_with_the_piece_before_it() -> None:
    turn = Turn((Text("one"), ToolCall("call-1", "look", '{"a":1}')))
    hundred = Timing(gap=lambda _: 100.0)

    burst = performed(Say((turn,), pieces, hundred), MANNER["anthropic stream"], says=_delta)

    kinds = [it.due if isinstance(it, Wait) else _kind(it) for it in burst[1:]]
    assert [it for it in kinds if it != "ping"] == [
        "message_start", "content_block_start", "text_delta",
        "content_block_stop", "content_block_start", "input_json_delta",
        100.0, "input_json_delta", 200.0, "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip


def _kind(action: Action) -> str:
    assert isinstance(action, Send)
    said = json.loads(sse.read_event(action.data).data or b"")
    return str(said["delta"]["type"] if said["type"].endswith("block_delta") else said["type"])


def _delta(_codec: str, message: bytes) -> bool:
    return b"block_delta" in message and b'"partial_json":""' not in message


@pytest.mark.shows("001-18", "004-13")
@pytest.mark.parametrize(
    ("pace", "due"),
    [
        (Recorded(), [5.0, 15.0, 35.0, 65.0]),
        (Recorded(5.0), [1.0, 3.0, 7.0, 13.0]),
        (Recorded(0.5), [10.0, 30.0, 70.0, 130.0]),
        (Instant(), []),
    ],
)
def test_the_pace_of_the_run_is_kept(pace: Pace, due: list[float]) -> None:
    assert waits(performed(Say(SAID, pieces, TEN_MORE_EACH_TIME), pace=pace)) == due


@pytest.mark.shows("000-95")
def test_without_times_everything_goes_at_once() -> None:
    burst = performed(Say(SAID))

    assert told(burst) == ["head", "", "one two three", "stop", "[DONE]"]


def test_an_answer_that_says_nothing_waits_but_for_the_thinking() -> None:
    burst = performed(Say((Turn(()),), pieces, TEN_MORE_EACH_TIME))

    assert waits(burst) == [5.0]


@pytest.mark.shows("004-11", "004-14")
@pytest.mark.parametrize("name", ["openai-chat whole", "anthropic whole", "ollama chat whole"])
def test_a_whole_answer_waits_but_for_the_thinking(name: str) -> None:
    burst = performed(
        Say(SAID, pieces, TEN_MORE_EACH_TIME), MANNER[name], says=lambda _codec, _message: True
    )

    assert isinstance(burst[0], Wait)
    assert isinstance(burst[1], Begin)
    assert (waits(burst), len(sends(burst))) == ([5.0], 1)


@pytest.mark.parametrize("manner", MANNERS, ids=lambda it: it.name.replace(" ", "-"))
def test_what_goes_out_is_what_the_dialect_speaks_cut_as_directed(manner: Manner) -> None:
    say = Say(SAID, pieces, Timing(1.0, lambda _: 1.0))
    delivery = replace(manner.delivery, cut=pieces)
    spoken = manner.dialect.speak(manner.request, say.turns, delivery)

    burst = performed(say, manner, says=lambda _codec, _message: True)

    assert [it for it in burst if isinstance(it, Begin)] == [Begin(spoken.head)]
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
    timing = Timing(thinking, lambda k: gaps[k])

    burst = performed(Say((Turn((Text(said),)),), list, timing))

    at, due = float(thinking), []
    for k in range(len(said) + 1):
        at += gaps[k] if k else 0.0
        due.append(at)
    assert waits(burst) == [it for it in dict.fromkeys(due) if it > 0]
    assert "".join(str(it) for it in told(burst) if it == "a") == said


def test_a_turn_without_words_in_the_dialect_cannot_be_said() -> None:
    turn = Turn((Media("image/png", base64="iVBORw0KGgo="),))

    with pytest.raises(CannotSay, match="anthropic has no word for media"):
        performed(Say((turn,)), MANNER["anthropic stream"])


def test_a_script_without_another_answer_says_so_loudly() -> None:
    with pytest.raises(ScriptExhausted, match="mock helper has 2 replies"):
        performed(Exhausted("mock helper has 2 replies"))


@pytest.mark.shows("001-16", "001-18")
async def test_a_stream_goes_out_in_its_slots() -> None:
    timing = Timing(60.0, lambda _: 40.0)
    async with directed(Directed(lambda _: Say(SAID, pieces, timing))) as stage:
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
    async with directed(Directed(lambda _: Exhausted(message))) as stage:
        raw = await ask(stage.url, request)

    assert (raw.status, raw.header("x-should-retry")) == (424, "false")
    assert raw.header("x-llm-proxy-error") == "script_exhausted"
    error = json.loads(raw.body)["error"]
    assert (error["type"], error["message"]) == ("script_exhausted", message)
    assert stage.journal.unsuccessful == [Unsuccessful("refunds", message)]
    assert [it.note for it in stage.entries("refunds")] == [message]
