"""Faults of messages: half-event, duplicate, reorder, malformed ones, stall-keepalive."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from dialect_manners import json_request
from fault_injection import (
    DIALECTS_BY_FRAMING,
    SILENCE_MS,
    apply_faults,
    apply_faults_live,
    encoded_response,
    response_burst,
    sent_body,
    split_at,
    turn_request,
)
from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.dialects import DIALECTS as ALL_DIALECTS
from llm_proxy.dialects import chat_dialects, dialect_of_request
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import eventstream, split_messages

FRAMINGS = st.sampled_from([*DIALECTS_BY_FRAMING, "array"])
CUTS = st.lists(st.integers(0, 4000), max_size=20)

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
COMMENT = b": keep-alive\n\n"
STREAM_FALSE_ERROR = "rule applies only to streams; remove stream=false"


def streaming_request(framing: str) -> Request:
    if framing != "array":
        return turn_request(DIALECTS_BY_FRAMING[framing])
    path = "/v1beta/models/gemini-3-flash:streamGenerateContent"
    return json_request(path, contents=[{"parts": [{"text": "Hi"}]}])


def messages_under_rule(
    framing: str, rule: str, cuts: list[int] | None = None, *, is_live: bool = False
) -> tuple[list[bytes], list[bytes], str | None]:
    """The original and the sent messages, and the effect of the rule; None if it was skipped."""
    request = streaming_request(framing)
    response = encoded_response(request)
    pieces = split_at(b"".join(response.framed_messages), cuts) if cuts is not None else ()
    actions, injection = (apply_faults_live if is_live else apply_faults)(
        request, response_burst(response, pieces), rule
    )
    (record,) = injection.records
    sent = split_messages(response.codec_name, sent_body(actions))
    return list(response.framed_messages), sent, None if record.skipped else record.effect


def skip_reason(request: Request, rule: str) -> str:
    """Why the rule was skipped; asserts that the response is unchanged."""
    burst = response_burst(encoded_response(request))
    actions, injection = apply_faults(request, burst, rule)
    assert actions == burst
    return injection.records[0].skipped


@given(FRAMINGS, CUTS, st.integers(0, 20), st.booleans())
def test_a_half_event_is_half_of_its_bytes_and_ends_the_body(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    original, sent, effect = messages_under_rule(
        framing, f"half-event,after={after}", cuts, is_live=is_live
    )
    if after >= len(original):
        assert effect is None
        return
    whole = original[after]
    assert b"".join(sent) == b"".join(original[:after]) + whole[: len(whole) // 2]
    assert effect is FaultEffect.TRUNCATED


def test_half_an_event_may_end_within_a_character() -> None:
    request = turn_request("openai-chat")
    response = encoded_response(request)
    event = 'data: {"text":"ööööööööööööö"}\n\n'.encode()
    actions, _ = apply_faults(request, response_burst(response, [event]), "half-event,after=0")
    with pytest.raises(UnicodeDecodeError):
        sent_body(actions).decode()


@given(FRAMINGS, CUTS, st.integers(0, 8), st.integers(1, 3), st.booleans())
def test_a_duplicate_is_the_message_again_and_can_be_parsed(
    framing: str, cuts: list[int], after: int, count: int, is_live: bool
) -> None:
    rule = f"duplicate,after={after},count={count}"
    original, sent, effect = messages_under_rule(framing, rule, cuts, is_live=is_live)
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    sent_objects = [framed_message_contents.message_json_fields(codec, item) for item in sent]
    original_objects = [
        framed_message_contents.message_json_fields(codec, item) for item in original
    ]
    assert sent_objects == [
        *original_objects[:after],
        *[original_objects[after]] * count,
        *original_objects[after:],
    ]
    assert effect is FaultEffect.ALTERED
    if framing == "array":
        assert len(json.loads(b"".join(sent))) == len(original) - 1 + count
    else:
        assert sent == [*original[:after], *[original[after]] * count, *original[after:]]


@given(FRAMINGS, CUTS, st.integers(0, 7), st.booleans())
def test_two_messages_are_swapped_and_can_be_parsed(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    original, sent, effect = messages_under_rule(
        framing, f"reorder,after={after}", cuts, is_live=is_live
    )
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    indexes = [*range(after), after + 1, after, *range(after + 2, len(original))]
    assert [framed_message_contents.message_json_fields(codec, item) for item in sent] == [
        framed_message_contents.message_json_fields(codec, original[item]) for item in indexes
    ]
    assert effect is FaultEffect.ALTERED
    if framing == "array":
        assert len(json.loads(b"".join(sent))) == len(original) - 1


def test_swapped_messages_are_sent_when_the_later_one_was_due() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "reorder,after=1")
    first, second, third = response.framed_messages[:3]
    assert actions[2:8] == (
        Wait(20.0), Send(first), Wait(40.0), Send(third), Send(second), Wait(50.0)
    )  # fmt: skip


def test_the_last_message_cannot_be_reordered() -> None:
    request = turn_request()
    last = len(encoded_response(request).framed_messages) - 1
    assert (
        skip_reason(request, f"reorder,after={last}")
        == "only one event followed the fault's location"
    )


def test_the_end_of_an_array_stays_where_it_is() -> None:
    request = streaming_request("array")
    last = len(encoded_response(request).framed_messages) - 1
    reason = "cannot move the last message, because it closes the JSON array"
    assert skip_reason(request, f"duplicate,after={last}") == reason
    assert skip_reason(request, f"reorder,after={last - 1}") == reason


@given(FRAMINGS, CUTS, st.integers(0, 8), st.booleans())
def test_one_message_is_no_json_and_all_others_are_as_they_were(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    original, sent, effect = messages_under_rule(
        framing, f"malformed-json,after={after}", cuts, is_live=is_live
    )
    codec = {"array": "json-array", "events": "sse"}.get(framing, framing)
    assert effect is FaultEffect.MALFORMED
    assert sent[:after] == original[:after]
    assert framed_message_contents.message_json_fields(codec, sent[after]) == {}
    if framing == "array":  # a broken array has no elements
        assert b"".join(sent).endswith(b"".join(original[after + 1 :]))
    else:
        assert sent[after + 1 :] == original[after + 1 :]


@given(FRAMINGS, CUTS, st.integers(0, 8), st.booleans())
def test_one_byte_is_no_utf_8_and_all_else_is_as_it_was(
    framing: str, cuts: list[int], after: int, is_live: bool
) -> None:
    original, sent, effect = messages_under_rule(
        framing, f"bad-utf8,after={after}", cuts, is_live=is_live
    )
    assert effect is FaultEffect.MALFORMED
    assert sent[:after] == original[:after]
    assert sent[after + 1 :] == original[after + 1 :]
    content = sent[after]
    if framing == "eventstream":
        frame, original_frame = (
            eventstream.parse_frame(content),
            eventstream.parse_frame(original[after]),
        )
        assert frame is not None
        assert original_frame is not None
        assert frame.payload.replace(b"\xff", b"") == original_frame.payload
        content = frame.payload
    else:
        assert content.replace(b"\xff", b"") == original[after]
    assert content.count(b"\xff") == 1


@each_row("dialect", sorted(chat_dialects()))
def test_the_bad_byte_is_in_the_models_text_in_a_whole_body_too(dialect: str) -> None:
    request = turn_request(dialect, stream=False)
    actions, injection = apply_faults(
        request, response_burst(encoded_response(request)), "bad-utf8"
    )
    assert injection.records[0].skipped == ""
    assert "over the lazy dög.".encode() + b'\xff"' in sent_body(actions)


@each_row("rule", ["malformed-json", "bad-utf8"])
def test_a_whole_body_declares_the_length_that_it_has(rule: str) -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), rule)
    begin = next(item for item in actions if isinstance(item, Begin))
    assert begin.head.content_length == len(sent_body(actions)) != len(response.framed_messages[0])


def test_done_has_no_text() -> None:
    request = turn_request()
    last = len(encoded_response(request).framed_messages) - 1
    assert skip_reason(request, f"bad-utf8,after={last}") == "the event contains no text"


def stalled_response(rule: str, dialect: str = "openai-chat") -> tuple[Burst, DialectResponse]:
    request = turn_request(dialect)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), rule)
    return actions, response


@each_row(("dialect", "keep_alive"), [("openai-chat", COMMENT), ("anthropic", PING)])
def test_a_stall_sends_keep_alives_until_the_longest_silence(
    dialect: str, keep_alive: bytes
) -> None:
    actions, response = stalled_response("stall-keepalive,after=1,interval=4s", dialect)
    assert actions[2:] == (
        Wait(20.0),
        Send(response.framed_messages[0]),
        Wait(4020.0),
        Send(keep_alive),
        Wait(8020.0),
        Send(keep_alive),
        Wait(20.0 + SILENCE_MS),
        Abort("fin"),
    )


def test_a_response_continues_after_its_keep_alives() -> None:
    actions, response = stalled_response("stall-keepalive,after=1,interval=100ms,for=250ms")
    assert actions[3:11] == (
        Send(response.framed_messages[0]),
        Wait(120.0), Send(COMMENT), Wait(220.0), Send(COMMENT), Wait(270.0),
        Wait(280.0), Send(response.framed_messages[1]),
    )  # fmt: skip
    dues = [item.due for item in actions if isinstance(item, Wait)]
    assert all(one <= two for one, two in itertools.pairwise(dues))


def test_a_timed_stall_sends_keep_alives_between_messages() -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request))
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(
            request, burst, "stall-keepalive,ms=35,interval=50ms,for=100ms"
        )
        assert injection.records[0].effect is FaultEffect.SLOWED
        assert [*actions[6:10]] == [Wait(85.0), Send(COMMENT), Wait(135.0), Send(COMMENT)]


@each_row(
    ("dialect", "reason"),
    [
        ("gemini", "gemini has no keep-alive event for this response format"),
        ("ollama", "stall-keepalive does not apply to a body in the format ndjson"),
        ("bedrock", "stall-keepalive does not apply to a body in the format eventstream"),
    ],
)
def test_some_dialects_have_no_keep_alive(dialect: str, reason: str) -> None:
    assert skip_reason(turn_request(dialect), "stall-keepalive") == reason


@each_row("name", ["stall-keepalive", "error-event"])
def test_nothing_is_inserted_within_a_message(name: str) -> None:
    request = turn_request()
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    burst = response_burst(response, split_at(whole, [len(response.framed_messages[0]) + 9]))
    actions, injection = apply_faults(request, burst, f"{name},ms=25")
    assert injection.records[0].skipped == ("the fault's location is in the middle of an event")
    assert sent_body(actions) == whole


@each_row(
    ("rule", "reason"),
    [
        ("stall-keepalive,interval=9ms", "interval= must be at least 10ms"),
        ("stall-keepalive,interval=10ms,for=2h", "for= must be at most 100000 times interval="),
        ("half-event,bytes=9", "half-event does not support bytes=; use after= or at="),
        ("stall-keepalive,stream=false", None),
        ("duplicate,count=0", "count= must be between 1 and 10000"),
        ("duplicate,stream=false", None),
        ("half-event,stream=false", None),
        ("reorder,stream=false", None),
        ("error-event,stream=false", None),
    ],
)  # fmt: skip
def test_a_meaningless_rule_is_refused(rule: str, reason: str | None) -> None:
    name = rule.partition(",")[0]
    reason = reason or f"this {name} {STREAM_FALSE_ERROR}"
    with pytest.raises(UsageError) as error:
        parse_rule(rule)
    assert str(error.value) == f"fault '{rule}': {reason}"


def test_every_sse_dialect_has_a_keep_alive() -> None:
    keep_alives = {dialect_of_request(turn_request(name)).keep_alive_message("sse")
    for name in ("openai-chat", "openai-completions",
             "openai-responses", "cohere", "gemini-interactions")}  # fmt: skip
    assert keep_alives == {COMMENT}
    assert {item.keep_alive_message("ndjson") for item in ALL_DIALECTS} == {b""}


def test_an_event_type_is_found_within_a_frame() -> None:
    path = "/model/us.anthropic.claude-sonnet-5/invoke-with-response-stream"
    request = json_request(path, anthropic_version="bedrock-2023-05-31", messages=[])
    response = encoded_response(request)
    actions, injection = apply_faults(
        request, response_burst(response), "truncate,at=content_block_stop"
    )
    (record,) = injection.records
    assert record.event is not None
    assert sent_body(actions) == b"".join(response.framed_messages[: record.event])
    closing = framed_message_contents.message_json_fields(
        "eventstream", response.framed_messages[record.event]
    )
    assert closing == {"type": "content_block_stop", "index": 0}


def test_too_many_copies_are_skipped() -> None:
    request = turn_request()
    long_message = b"data: " + b"x" * 100_000 + b"\n\n"
    burst = (Begin(encoded_response(request).head), Send(long_message), Send(b"data: [DONE]\n\n"))
    actions, injection = apply_faults(request, burst, "duplicate,after=0,count=1000")
    assert actions == burst
    assert [record.skipped for record in injection.records] == [
        "the copies would add more than 67108864 bytes"
    ]
