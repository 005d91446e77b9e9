"""Faults of messages: half of one, a copy, another order, broken ones, signs of life."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_manners import asking
from fault_injection import DIALECTS, SILENCE, answer_of, asked, body, burst_of, cut, live, struck
from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.dialects import DIALECTS as ALL
from llm_proxy.dialects import chat_dialects, find_dialect
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request
from llm_proxy.faults import message_contents
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import eventstream, split_messages

FRAMINGS = st.sampled_from([*DIALECTS, "array"])
CUTS = st.lists(st.integers(0, 4000), max_size=20)
FEW = settings(max_examples=25)

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
COMMENT = b": keep-alive\n\n"
BETWEEN = "strikes between the messages of a stream, and stream=false means bodies without any"


def request_of(framing: str) -> Request:
    if framing != "array":
        return asked(DIALECTS[framing])
    path = "/v1beta/models/gemini-3-flash:streamGenerateContent"
    return asking(path, contents=[{"parts": [{"text": "Hi"}]}])


def spoilt(
    framing: str, rule: str, cuts: list[int] | None = None, *, is_live: bool = False
) -> tuple[list[bytes], list[bytes], FaultEffect | None]:
    """The messages as they were, as they went out, and what that means; None where nothing was."""
    request = request_of(framing)
    answer = answer_of(request)
    pieces = cut(b"".join(answer.messages), cuts) if cuts is not None else ()
    gone, injection = (live if is_live else struck)(request, burst_of(answer, pieces), rule)
    (injected,) = injection.records
    told = split_messages(answer.codec, body(gone))
    return list(answer.messages), told, None if injected.skipped else injected.effect


def skipped(request: Request, rule: str) -> str:
    """Why the answer stayed as it was."""
    burst = burst_of(answer_of(request))
    gone, injection = struck(request, burst, rule)
    assert gone == burst
    return injection.records[0].skipped


@FEW
@given(FRAMINGS, CUTS, st.integers(0, 20), st.booleans())
def test_half_an_event_is_half_of_its_bytes_and_the_end(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    before, told, effect = spoilt(framing, f"half-event,after={after}", cuts, is_live=is_live)
    if after >= len(before):
        assert effect is None
        return
    whole = before[after]
    assert b"".join(told) == b"".join(before[:after]) + whole[: len(whole) // 2]
    assert effect is FaultEffect.TRUNCATED


def test_half_an_event_may_end_within_a_character() -> None:
    request = asked("openai-chat")
    answer = answer_of(request)
    event = 'data: {"text":"ööööööööööööö"}\n\n'.encode()
    gone, _ = struck(request, burst_of(answer, [event]), "half-event,after=0")
    with pytest.raises(UnicodeDecodeError):
        body(gone).decode()


@FEW
@given(FRAMINGS, CUTS, st.integers(0, 8), st.integers(1, 3), st.booleans())
def test_a_duplicate_is_the_message_again_and_can_be_read(
    framing: str, cuts: list[int], after: int, count: int, is_live: bool
) -> None:
    rule = f"duplicate,after={after},count={count}"
    before, told, effect = spoilt(framing, rule, cuts, is_live=is_live)
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    read = [message_contents.message_object(codec, item) for item in told]
    again = [message_contents.message_object(codec, item) for item in before]
    assert read == [*again[:after], *[again[after]] * count, *again[after:]]
    assert effect is FaultEffect.ALTERED
    if framing == "array":
        assert len(json.loads(b"".join(told))) == len(before) - 1 + count
    else:
        assert told == [*before[:after], *[before[after]] * count, *before[after:]]


@FEW
@given(FRAMINGS, CUTS, st.integers(0, 7), st.booleans())
def test_two_messages_change_places_and_can_be_read(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    before, told, effect = spoilt(framing, f"reorder,after={after}", cuts, is_live=is_live)
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    order = [*range(after), after + 1, after, *range(after + 2, len(before))]
    assert [message_contents.message_object(codec, item) for item in told] == [
        message_contents.message_object(codec, before[item]) for item in order
    ]
    assert effect is FaultEffect.ALTERED
    if framing == "array":
        assert len(json.loads(b"".join(told))) == len(before) - 1


def test_what_changes_places_comes_when_the_later_one_was_due() -> None:
    request = asked()
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "reorder,after=1")
    first, second, third = answer.messages[:3]
    assert gone[2:8] == (
        Wait(20.0), Send(first), Wait(40.0), Send(third), Send(second), Wait(50.0)
    )  # fmt: skip


def test_one_message_has_nobody_to_change_places_with() -> None:
    request = asked()
    last = len(answer_of(request).messages) - 1
    assert skipped(request, f"reorder,after={last}") == "there was but one message behind it"


def test_the_end_of_an_array_stays_where_it_is() -> None:
    request = request_of("array")
    last = len(answer_of(request).messages) - 1
    why = "the end of the array has no other place"
    assert skipped(request, f"duplicate,after={last}") == why
    assert skipped(request, f"reorder,after={last - 1}") == why


@FEW
@given(FRAMINGS, CUTS, st.integers(0, 8), st.booleans())
def test_one_message_is_no_json_and_all_others_are_as_they_were(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    before, told, effect = spoilt(framing, f"malformed-json,after={after}", cuts, is_live=is_live)
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    assert effect is FaultEffect.MALFORMED
    assert told[:after] == before[:after]
    assert message_contents.message_object(codec, told[after]) == {}
    if framing == "array":  # an array that is broken has no elements any more
        assert b"".join(told).endswith(b"".join(before[after + 1 :]))
    else:
        assert told[after + 1 :] == before[after + 1 :]


@FEW
@given(FRAMINGS, CUTS, st.integers(0, 8), st.booleans())
def test_one_byte_is_no_utf_8_and_all_else_is_as_it_was(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    before, told, effect = spoilt(framing, f"bad-utf8,after={after}", cuts, is_live=is_live)
    assert effect is FaultEffect.MALFORMED
    assert told[:after] == before[:after]
    assert told[after + 1 :] == before[after + 1 :]
    content = told[after]
    if framing == "eventstream":
        frame, was = eventstream.parse_frame(content), eventstream.parse_frame(before[after])
        assert frame is not None
        assert was is not None
        assert frame.payload.replace(b"\xff", b"") == was.payload
        content = frame.payload
    else:
        assert content.replace(b"\xff", b"") == before[after]
    assert content.count(b"\xff") == 1


@pytest.mark.parametrize("dialect", sorted(chat_dialects()))
def test_the_byte_stands_in_what_the_model_says_in_a_whole_body_too(dialect: str) -> None:
    request = asked(dialect, stream=False)
    gone, injection = struck(request, burst_of(answer_of(request)), "bad-utf8")
    assert injection.records[0].skipped == ""
    assert "over the lazy dög.".encode() + b'\xff"' in body(gone)


@pytest.mark.parametrize("rule", ["malformed-json", "bad-utf8"])
def test_a_whole_body_declares_the_length_that_it_has(rule: str) -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), rule)
    begin = next(item for item in gone if isinstance(item, Begin))
    assert begin.head.length == len(body(gone)) != len(answer.messages[0])


def test_done_has_no_text() -> None:
    request = asked()
    last = len(answer_of(request).messages) - 1
    assert skipped(request, f"bad-utf8,after={last}") == "the message has no text"


def alive(rule: str, dialect: str = "openai-chat") -> tuple[Burst, DialectResponse]:
    request = asked(dialect)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), rule)
    return gone, answer


@pytest.mark.parametrize(("dialect", "sign"), [("openai-chat", COMMENT), ("anthropic", PING)])
def test_a_stall_shows_signs_of_life_until_the_longest_silence(dialect: str, sign: bytes) -> None:
    gone, answer = alive("stall-keepalive,after=1,interval=4s", dialect)
    assert gone[2:] == (
        Wait(20.0), Send(answer.messages[0]),
        Wait(4020.0), Send(sign), Wait(8020.0), Send(sign), Wait(20.0 + SILENCE), Abort("fin"),
    )  # fmt: skip


def test_an_answer_goes_on_after_its_signs_of_life() -> None:
    gone, answer = alive("stall-keepalive,after=1,interval=100ms,for=250ms")
    assert gone[3:11] == (
        Send(answer.messages[0]),
        Wait(120.0), Send(COMMENT), Wait(220.0), Send(COMMENT), Wait(270.0),
        Wait(280.0), Send(answer.messages[1]),
    )  # fmt: skip
    dues = [item.due for item in gone if isinstance(item, Wait)]
    assert all(one <= two for one, two in itertools.pairwise(dues))


def test_a_stall_at_its_time_shows_signs_of_life_between_messages() -> None:
    request = asked()
    burst = burst_of(answer_of(request))
    for strike in (struck, live):
        gone, injection = strike(request, burst, "stall-keepalive,ms=35,interval=50ms,for=100ms")
        assert injection.records[0].effect is FaultEffect.SLOWED
        assert [*gone[6:10]] == [Wait(85.0), Send(COMMENT), Wait(135.0), Send(COMMENT)]


@pytest.mark.parametrize(
    ("dialect", "why"),
    [
        ("gemini", "gemini has no keep-alive in such an answer"),
        ("ollama", "stall-keepalive has no meaning in a body of ndjson"),
        ("bedrock", "stall-keepalive has no meaning in a body of eventstream"),
    ],
)
def test_some_have_no_sign_of_life(dialect: str, why: str) -> None:
    assert skipped(asked(dialect), "stall-keepalive") == why


@pytest.mark.parametrize("name", ["stall-keepalive", "error-event"])
def test_nothing_is_said_within_a_message(name: str) -> None:
    request = asked()
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    burst = burst_of(answer, cut(whole, [len(answer.messages[0]) + 9]))
    gone, injection = struck(request, burst, f"{name},ms=25")
    assert injection.records[0].skipped == "a message was under way"
    assert body(gone) == whole


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("stall-keepalive,interval=9ms", "interval must be 10ms or more"),
        ("stall-keepalive,interval=10ms,for=2h", "for must be at most 100000 times the interval"),
        ("half-event,bytes=9", "half-event cannot be placed by bytes: it can by after, at"),
        ("stall-keepalive,stream=false", None),
        ("duplicate,count=0", "count must be from 1 to 10000"),
        ("duplicate,stream=false", None),
        ("half-event,stream=false", None),
        ("reorder,stream=false", None),
        ("error-event,stream=false", None),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused_when_it_is_given(rule: str, why: str | None) -> None:
    name = rule.partition(",")[0]
    why = why or f"{name} {BETWEEN}"
    with pytest.raises(UsageError) as error:
        parse_rule(rule)
    assert str(error.value) == f"fault '{rule}': {why}"


def test_every_dialect_that_streams_events_has_thought_of_signs_of_life() -> None:
    signs = {find_dialect(asked(name)).keep_alive_message("sse")
    for name in ("openai-chat", "openai-completions",
             "openai-responses", "cohere", "gemini-interactions")}  # fmt: skip
    assert signs == {COMMENT}
    assert {item.keep_alive_message("ndjson") for item in ALL} == {b""}


def test_a_type_is_found_in_what_a_frame_wraps() -> None:
    path = "/model/us.anthropic.claude-sonnet-5/invoke-with-response-stream"
    request = asking(path, anthropic_version="bedrock-2023-05-31", messages=[])
    answer = answer_of(request)
    gone, injection = struck(request, burst_of(answer), "truncate,at=content_block_stop")
    (injected,) = injection.records
    assert injected.event is not None
    assert body(gone) == b"".join(answer.messages[: injected.event])
    closing = message_contents.message_object("eventstream", answer.messages[injected.event])
    assert closing == {"type": "content_block_stop", "index": 0}


def test_copies_beyond_all_measure_are_not_made() -> None:
    request = asked()
    long = b"data: " + b"x" * 100_000 + b"\n\n"
    burst = (Begin(answer_of(request).head), Send(long), Send(b"data: [DONE]\n\n"))
    gone, injection = struck(request, burst, "duplicate,after=0,count=1000")
    assert gone == burst
    assert [record.skipped for record in injection.records] == [
        "so many copies would have more than 67108864 bytes"
    ]
