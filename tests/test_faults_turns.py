"""Faults that alter the turn: error events, early ends, refusals, bad tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from dialect_manners import (
    DIALECTS_WITHOUT_CALLS,
    ENCODE_CONTEXT,
    MANNERS,
    Manner,
    dialect_record,
    json_request,
)
from fault_injection import (
    TURN,
    apply_faults,
    apply_faults_live,
    response_burst,
    routed_request,
    sent_body,
    split_at,
    turn_request,
)
from fault_injection import encoded_response as response_to
from llm_proxy.actions import Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import chat_dialects
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.errors import NotRepresentable, UsageError
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import split_messages
from llm_proxy.turns import Failure, FinishReason, Reasoning, Refusal, Text, ToolCall, Turn, Usage

ERROR_MESSAGE: Final = "The server had an error while processing your request."
REFUSAL_TEXT: Final = "I'm sorry, but I can't help with that."
CITY_SCHEMA: Final = {
    "type": "object",
    "properties": {"unit": {"type": "string"}, "city": {"type": "string"}},
    "required": ["city"],
}
CALL_TURN: Final = Turn(
    (
        Reasoning("I should look."),
        Text("Let me look."),
        ToolCall("call_1", "weather", '{"unit":"C","city":"Rome"}'),
    ),
    finish=FinishReason.TOOL_CALLS,
    usage=Usage(input=5, output=12),
)
TEXT_TURN: Final = replace(TURN, model="")


def encode_or_none(manner: Manner, turn: Turn) -> DialectResponse | None:
    """The encoded turn; None if this response format cannot represent it."""
    try:
        return manner.dialect.encode_response(manner.request, (turn,), manner.context)
    except NotRepresentable:
        return None


def decode_sent(
    request: Request, response: DialectResponse, actions: Sequence[Action]
) -> tuple[DialectResponse, Turn]:
    """The response that was sent, and its first turn."""
    head = next(item.head for item in actions if isinstance(item, Begin))
    sent_response = DialectResponse(
        head, response.codec_name, split_messages(response.codec_name, sent_body(actions))
    )
    turns = routed_request(request).dialect.decode_response(sent_response)
    assert turns
    return sent_response, turns[0]


STREAM_CASES: Final = [
    pytest.param(manner, response, id=manner.name)
    for manner in MANNERS
    if manner.dialect.streams(manner.request)
    if (response := encode_or_none(manner, CALL_TURN) or encode_or_none(manner, TEXT_TURN))
    is not None
]
"""Each streaming response format with a turn that it can represent."""
WHOLE_CASES: Final = [
    pytest.param(manner, response, id=manner.name)
    for manner in MANNERS
    if not manner.dialect.streams(manner.request)
    if (response := encode_or_none(manner, TEXT_TURN)) is not None
]


def partial_turn(manner: Manner, response: DialectResponse, after: int) -> Turn | None:
    """The turn so far; None if it has ended already or has not begun."""
    turns = manner.dialect.decode_response(
        replace(response, framed_messages=response.framed_messages[:after])
    )
    if any(turn.finish or turn.failure for turn in turns):
        return None
    return turns[0] if turns else None


def cut_points(response: DialectResponse) -> list[int]:
    """Some message counts: at the start of the stream, amid its text, and near its end."""
    size = len(response.framed_messages)
    return sorted({item for item in (1, size // 3, size // 2, size - 4) if 0 < item < size})


def part_texts(turn: Turn) -> list[str]:
    """The texts of all parts with text."""
    return [
        part.text
        for part in turn.parts
        if isinstance(part, Text | Reasoning | Refusal) and part.text
    ]


def ending_turn(manner: Manner, response: DialectResponse, rule: str, after: int) -> Turn | None:
    """The turn of a stream that the rule ends after so many messages; None if it cannot."""
    partial = partial_turn(manner, response, after)
    actions, injection = apply_faults(
        manner.request, response_burst(response), f"{rule},after={after}"
    )
    if partial is None or injection.records[0].skipped:
        return None
    sent_response, turn = decode_sent(manner.request, response, actions)
    assert tuple(sent_response.framed_messages[:after]) == tuple(response.framed_messages[:after])
    assert part_texts(turn) == part_texts(partial)
    assert (turn.id, turn.model) in ((partial.id, partial.model), (turn.id, ""))
    assert manner.dialect.completeness(sent_response).is_complete
    check_closed_once(manner, sent_response)
    return turn


def check_closed_once(manner: Manner, sent_response: DialectResponse) -> None:
    """Sequence numbers increase by one, and only text events repeat for one part."""
    documents = [
        framed_message_contents.message_json_fields(sent_response.codec_name, item)
        for item in sent_response.framed_messages
    ]
    numbers = [item["sequence_number"] for item in documents if "sequence_number" in item]
    assert numbers == list(range(len(numbers)))
    parts = [
        (
            framed_message_contents.declared_event_types(sent_response.codec_name, message),
            *(item for item in document.items() if "ndex" in item[0]),
        )
        for message, document in zip(sent_response.framed_messages, documents, strict=True)
        if not manner.dialect.output_chars(sent_response.codec_name, message)
    ]
    closed = [part for part in parts if len(part) > 1]
    assert len(set(map(str, closed))) == len(closed)


@each_row(("manner", "response"), STREAM_CASES)
def test_a_stream_can_fail_anywhere_with_its_providers_own_error(
    manner: Manner, response: DialectResponse
) -> None:
    for after in cut_points(response):
        turn = ending_turn(manner, response, "error-event", after)
        if turn is not None:
            assert turn.failure is not None
            assert turn.failure.message == ERROR_MESSAGE
            assert turn.finish in (None, FinishReason.ERROR)


@each_row(("manner", "response"), STREAM_CASES)
def test_a_stream_can_end_anywhere_with_finish_length(
    manner: Manner, response: DialectResponse
) -> None:
    ended_count = 0
    for after in cut_points(response):
        turn = ending_turn(manner, response, "finish-length", after)
        if turn is not None:
            ended_count += 1
            assert turn.finish is manner.decoded_finish(FinishReason.LENGTH)
            assert turn.failure is None
    assert ended_count or len(response.framed_messages) == 1


@each_row(("manner", "response"), WHOLE_CASES)
def test_a_whole_body_with_finish_length_has_half_of_its_text(
    manner: Manner, response: DialectResponse
) -> None:
    actions, injection = apply_faults(manner.request, response_burst(response), "finish-length")
    sent_response, turn = decode_sent(manner.request, response, actions)
    assert injection.records[0].skipped == ""
    assert turn.text == "The quick brown fox ju"
    assert turn.finish is manner.decoded_finish(FinishReason.LENGTH)
    assert sent_response.head.content_length == len(sent_body(actions))


@each_row("stream", [True, False], ids=["stream", "whole"])
@each_row("dialect", sorted(chat_dialects()))
def test_a_content_filter_has_its_providers_own_finish_reason(dialect: str, stream: bool) -> None:
    request = turn_request(dialect, stream=stream)
    response = response_to(request)
    rule = "content-filter,after=6" if stream else "content-filter"
    actions, injection = apply_faults(request, response_burst(response), rule)
    expected_finish = dialect_record(dialect).filter_finish
    if not expected_finish:
        assert actions == response_burst(response)
        reason = f"{dialect} has no finish reason 'content_filter'"
        assert injection.records[0].skipped == reason
        return
    _, turn = decode_sent(request, response, actions)
    assert turn.finish_raw == expected_finish
    assert TURN.text.startswith(turn.text)
    assert turn.text not in ("", TURN.text) or dialect == "openai-responses"


def test_the_usage_of_an_early_end_is_recounted() -> None:
    request = replace(
        turn_request(),
        body=json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": "What does a fox do?"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode(),
    )
    response = response_to(request)
    actions, _ = apply_faults(request, response_burst(response), "finish-length,after=3")
    _, turn = decode_sent(request, response, actions)
    assert (turn.text, turn.usage) == ("The quick", Usage(input=5, output=3, total=8))


def test_an_early_end_comes_when_the_next_message_was_due() -> None:
    request = turn_request()
    response = response_to(request)
    actions, injection = apply_faults(request, response_burst(response), "finish-length,after=2")
    first, second, *rest = actions[2:][1::2][:2] + tuple(
        item for item in actions[6:] if isinstance(item, Wait)
    )
    assert [first, second] == [Send(message) for message in response.framed_messages[:2]]
    assert rest == [Wait(40.0)]
    assert injection.records[0].at_ms == 40.0


def test_a_stream_ends_only_once() -> None:
    request = turn_request()
    response = response_to(request)
    for rule in ("error-event", "finish-length", "content-filter"):
        after = len(response.framed_messages) - 1
        actions, injection = apply_faults(
            request, response_burst(response), f"{rule},after={after}"
        )
        assert actions == response_burst(response)
        assert injection.records[0].skipped == "the finish reason had already been sent"


@each_row("rule", ["error-event", "finish-length", "content-filter", "refusal"])
def test_an_error_response_is_left_unchanged(rule: str) -> None:
    request = turn_request()
    error_response = routed_request(request).dialect.error_response(
        429, Failure("Slow down."), ENCODE_CONTEXT
    )
    actions, _ = apply_faults(request, response_burst(error_response), rule)
    assert actions == response_burst(error_response)


def test_an_error_event_has_the_type_and_message_of_its_rule() -> None:
    request = turn_request("anthropic")
    response = response_to(request)
    rule = 'error-event,after=4,type=overloaded_error,message="Overloaded, sorry"'
    actions, injection = apply_faults(request, response_burst(response), rule)
    _, turn = decode_sent(request, response, actions)
    assert turn.failure == Failure("Overloaded, sorry", type="overloaded_error")
    assert injection.records[0].effect is FaultEffect.FAILED
    assert actions[-1] == Send(b"".join(split_messages("sse", sent_body(actions))[-1:]))


@each_row("stream", [True, False], ids=["stream", "whole"])
@each_row("dialect", sorted(chat_dialects()))
def test_a_refusal_is_encoded_as_its_provider_does(dialect: str, stream: bool) -> None:
    request = turn_request(dialect, stream=stream)
    response = response_to(request)
    (original,) = routed_request(request).dialect.decode_response(response)
    actions, injection = apply_faults(request, response_burst(response), "refusal")
    sent_response, turn = decode_sent(request, response, actions)
    bare_parts = tuple(replace(part, metadata=()) for part in turn.parts)
    record = dialect_record(dialect)
    expected_parts = () if record.refusal_part is None else (record.refusal_part(REFUSAL_TEXT),)
    assert (bare_parts, turn.finish_raw) == (expected_parts, record.refusal_finish)
    assert (turn.id, turn.model, turn.usage) == (original.id, original.model, original.usage)
    assert injection.records[0].effect is FaultEffect.ALTERED
    assert sent_response.head.content_length in (None, len(sent_body(actions)))


@each_row(("manner", "response"), [*STREAM_CASES, *WHOLE_CASES])
def test_a_refusal_is_complete_in_every_response_format(
    manner: Manner, response: DialectResponse
) -> None:
    actions, injection = apply_faults(
        manner.request, response_burst(response), "refusal,message=No."
    )
    sent_response, turn = decode_sent(manner.request, response, actions)
    assert injection.records[0].skipped == ""
    assert "".join(part_texts(turn)) in ("No.", "")
    assert manner.dialect.completeness(sent_response).is_complete


def test_a_re_encoded_response_takes_as_long_as_the_original() -> None:
    request = turn_request()
    response = response_to(request)
    actions, injection = apply_faults(request, response_burst(response), "refusal,message=No")
    head, *sent = (item for item in actions if not isinstance(item, Wait))
    dues = [item.due for item in actions if isinstance(item, Wait)]
    assert isinstance(head, Begin)
    assert dues == [10.0 * n for n in range(1, len(sent) + 2)]
    assert injection.records[0].at_ms == 20.0


def test_a_re_encoded_response_with_more_messages_ends_with_the_original() -> None:
    request = turn_request()
    response = response_to(request)
    actions, _ = apply_faults(request, response_burst(response), f'refusal,message="{"no " * 50}"')
    dues = [item.due for item in actions if isinstance(item, Wait)]
    assert dues == [10.0 * n for n in range(1, len(response.framed_messages) + 2)]
    assert sum(isinstance(item, Send) for item in actions) > len(response.framed_messages)


@given(
    st.sampled_from(
        ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "bedrock"]
    ),
    st.lists(st.integers(0, 4000), max_size=10),
    st.sampled_from(["refusal", "error-event,after=3", "finish-length,after=4"]),
)
def test_live_responses_become_the_same_however_they_arrive(
    dialect: str, cuts: list[int], rule: str
) -> None:
    request = turn_request(dialect)
    response = response_to(request)
    pieces = split_at(b"".join(response.framed_messages), cuts)
    whole_actions, _ = apply_faults(request, response_burst(response), rule)
    live_actions, _ = apply_faults_live(request, response_burst(response, pieces), rule)
    assert sent_body(live_actions) == sent_body(whole_actions)


def tool_fields(dialect: str, schema: object = CITY_SCHEMA) -> dict[str, object]:
    """The request fields that offer a tool."""
    match dialect:
        case "anthropic":
            return {"tools": [{"name": "weather", "input_schema": schema}]}
        case "openai-responses":
            return {"tools": [{"type": "function", "name": "weather", "parameters": schema}]}
        case "gemini":
            declared = {"name": "weather", "parametersJsonSchema": schema}
            return {"tools": [{"functionDeclarations": [declared]}]}
        case "bedrock":
            spec = {"name": "weather", "inputSchema": {"json": schema}}
            return {"toolConfig": {"tools": [{"toolSpec": spec}]}}
        case "gemini-interactions":
            return {"tools": [{"type": "function", "name": "weather", "parameters": schema}]}
        case _:
            function = {"name": "weather", "parameters": schema}
            return {"tools": [{"type": "function", "function": function}]}


def with_tools(dialect: str, *, stream: bool = True, schema: object = CITY_SCHEMA) -> Request:
    """A request that offers a tool."""
    request = turn_request(dialect, stream=stream)
    return replace(
        request, body=json.dumps(json.loads(request.body) | tool_fields(dialect, schema)).encode()
    )


CALL_DIALECTS: Final = sorted(set(chat_dialects()) - DIALECTS_WITHOUT_CALLS)
BAD_CALLS: Final = {
    "name": ("weather_v2", {"unit": "C", "city": "Rome"}),
    "missing": ("weather", {"unit": "C"}),
}
INVENTED_CALLS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "name": ("weather_v2", {}),
    "missing": ("weather", {}),
}


def only_call(turn: Turn) -> ToolCall:
    """The only tool call of a turn."""
    (tool_call,) = (part for part in turn.parts if isinstance(part, ToolCall))
    return tool_call


@each_row("stream", [True, False], ids=["stream", "whole"])
@each_row("how", sorted(BAD_CALLS))
@each_row("dialect", CALL_DIALECTS)
def test_a_call_cannot_be_carried_out(dialect: str, how: str, stream: bool) -> None:
    request = with_tools(dialect, stream=stream)
    response = response_to(request, CALL_TURN)
    (original,) = routed_request(request).dialect.decode_response(response)
    actions, injection = apply_faults(request, response_burst(response), f"bad-tool-call,how={how}")
    sent_response, turn = decode_sent(request, response, actions)
    assert (only_call(turn).name, json.loads(only_call(turn).arguments)) == BAD_CALLS[how]
    assert part_texts(turn) == part_texts(original)
    assert (turn.id, turn.model, turn.usage, turn.finish) == (
        original.id, original.model, original.usage, FinishReason.TOOL_CALLS
    )  # fmt: skip
    assert injection.records[0].effect is FaultEffect.ALTERED
    assert sent_response.head.content_length in (None, len(sent_body(actions)))


@each_row("how", sorted(INVENTED_CALLS))
@each_row("dialect", CALL_DIALECTS)
def test_an_answer_without_a_call_calls_the_tool_that_is_offered(dialect: str, how: str) -> None:
    request = with_tools(dialect)
    response = response_to(request)
    actions, _ = apply_faults(request, response_burst(response), f"bad-tool-call,how={how}")
    _, turn = decode_sent(request, response, actions)
    assert (only_call(turn).name, json.loads(only_call(turn).arguments)) == INVENTED_CALLS[how]
    assert (turn.text, turn.finish) == ("", FinishReason.TOOL_CALLS)


TEXT_ARGUMENT_DIALECTS: Final = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "bedrock",
    "cohere",
    "gemini-interactions",
)
"""The dialects whose streams hold arguments as text."""


@each_row("dialect", CALL_DIALECTS)
def test_arguments_are_no_json_where_the_wire_holds_them_as_text(dialect: str) -> None:
    request = with_tools(dialect)
    response = response_to(request, CALL_TURN)
    actions, injection = apply_faults(request, response_burst(response), "bad-tool-call")
    if dialect not in TEXT_ARGUMENT_DIALECTS:
        assert actions == response_burst(response)
        reason = (
            f"how=json does not apply to this response: {dialect} sends tool arguments as an "
            "object, not as a JSON string"
        )
        assert injection.records[0].skipped == reason
        return
    _, turn = decode_sent(request, response, actions)
    assert only_call(turn).arguments == '{"unit":"C","'
    assert turn.finish is FinishReason.TOOL_CALLS


@each_row("schema", [{"type": "object"}, {"required": [7, []]}])
def test_no_argument_is_left_out_if_none_is_required(schema: object) -> None:
    request = with_tools("openai-chat", schema=schema)
    response = response_to(request, CALL_TURN)
    actions, injection = apply_faults(
        request, response_burst(response), "bad-tool-call,how=missing"
    )
    assert actions == response_burst(response)
    reason = "the tool weather has no required argument"
    assert injection.records[0].skipped == reason


def test_an_unknown_tool_name_is_chosen() -> None:
    request = with_tools("openai-chat")
    document = json.loads(request.body)
    extra_tools = [{"type": "function", "function": {"name": f"weather_v{n}"}} for n in (2, 3)]
    request = replace(
        request, body=json.dumps(document | {"tools": document["tools"] + extra_tools}).encode()
    )
    response = response_to(request, CALL_TURN)
    actions, _ = apply_faults(request, response_burst(response), "bad-tool-call,how=name")
    assert only_call(decode_sent(request, response, actions)[1]).name == "weather_v4"


def test_nothing_is_held_back_if_no_tool_is_offered() -> None:
    request = turn_request()
    response = response_to(request)
    actions, injection = apply_faults_live(request, response_burst(response), "bad-tool-call")
    assert tuple(actions) == response_burst(response)
    assert injection.records[0].skipped == "the request offers no tools"


def test_a_response_held_for_a_skipped_fault_is_sent_unchanged() -> None:
    request = with_tools("openai-chat", schema={"type": "object"})
    response = response_to(request)
    burst = response_burst(
        response, split_at(b"".join(response.framed_messages), range(0, 4000, 37))
    )
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(request, burst, "bad-tool-call,how=missing")
        assert tuple(actions) == burst
        assert injection.records[0].skipped != ""


def test_a_response_without_a_turn_is_left_unchanged() -> None:
    request = json_request("/v1/embeddings", model="m", input="Hi")
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", 2)
    burst: Burst = (Begin(head), Send(b"{}"))
    for rule in ("refusal", "finish-length", "content-filter", "bad-tool-call"):
        actions, injection = apply_faults(request, burst, rule)
        assert actions == burst
        reason = "cannot generate responses in the dialect openai-embeddings"
        assert injection.records[0].skipped == reason


def test_an_unknown_kind_of_bad_call_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        parse_rule("bad-tool-call,how=late")
    assert str(error.value) == (
        "fault 'bad-tool-call,how=late': how=late is not one of json, name, missing"
    )
