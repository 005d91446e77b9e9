"""Incremental decoding: the pieces of a response are those of the turn that is decoded whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from dialect_manners import SPLIT_CONTEXT
from llm_proxy import framing
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import Dialect, DialectResponse, dialect_named, dialect_of_request, json_api
from llm_proxy.dialects.bedrock import frames
from llm_proxy.dialects.openai.family import VARIANT_BY_PROVIDER
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead
from llm_proxy.framing import sse
from llm_proxy.turns import Json, Part, Reasoning, Refusal, Text, ToolCall, Turn

DIALECTS: Final = (
    *("openai-chat", "openai-responses", "anthropic", "gemini", "gemini-interactions"),
    *("ollama", "cohere", "bedrock"),
)

CALLS: Final = tuple(
    ToolCall(f"call-{number}", "look", f'{{"city":"{city}"}}')
    for number, city in enumerate(("Rome", "Oslo", "Bonn"))
)
TURN: Final = Turn((Reasoning("Three cities."), Text("I look."), *CALLS))
ALL_DIALECTS: Final = (*DIALECTS, "openai-completions")
"""Those too whose responses have only text."""


def pieces_by_message(dialect: Dialect, response: DialectResponse) -> list[list[Part]]:
    """What each message of a response adds to its first turn."""
    decoder = dialect.response_decoder(response.codec_name)
    messages = [response.body] if response.codec_name == "whole" else response.framed_messages
    pieces = [[*decoder.feed(message)] for message in messages]
    assert decoder.turns() == dialect.decode_response(response)
    return pieces


def joined(parts: Sequence[Part], kind: type[Text | Reasoning | Refusal]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))


def calls_of(parts: Sequence[Part]) -> list[ToolCall]:
    return [part for part in parts if json_api.is_client_call(part)]


def encoded(
    name: str, turn: Turn, provider: str = "", *, stream: bool
) -> tuple[Dialect, DialectResponse]:
    """A response with this turn, whose texts are in two pieces."""
    dialect = dialect_named(name)
    request = dialect.encode_request(
        Conversation((RequestMessage("user", (Text("Hello."),)),), model="m"), stream=stream
    )
    context = replace(SPLIT_CONTEXT, provider=provider)
    return dialect, dialect.encode_response(request, [turn], context)


@pytest.mark.corpus
def test_the_pieces_of_every_recorded_response_are_those_of_its_turn() -> None:
    counts = dict.fromkeys(ALL_DIALECTS, 0)
    for row in corpus.rows():
        dialect, head = dialect_of_request(row.request), row.head
        if dialect.name not in counts or not json_api.succeeded(head):
            continue
        codec = dialect.codec_name(row.request, head)
        response = DialectResponse(head, codec, tuple(framing.split_messages(codec, row.body)))
        pieces = [piece for pieces in pieces_by_message(dialect, response) for piece in pieces]
        turns = dialect.decode_response(response)
        parts = turns[0].parts if turns else ()

        for kind in (Text, Reasoning, Refusal):
            assert joined(pieces, kind) == joined(parts, kind), row.id
        assert calls_of(pieces) == calls_of(parts), row.id
        counts[dialect.name] += 1

    assert min(counts.values()) > 0


@each_row(
    "name, provider",
    [
        *((name, "") for name in DIALECTS),
        *(("openai-chat", provider) for provider in VARIANT_BY_PROVIDER),
    ],
)
def test_a_stream_gives_text_in_pieces_and_each_call_whole(name: str, provider: str) -> None:
    dialect, response = encoded(name, TURN, provider, stream=True)
    by_message = pieces_by_message(dialect, response)
    texts = [
        (type(piece), piece.text)
        for pieces in by_message
        for piece in pieces
        if isinstance(piece, Text | Reasoning)
    ]

    assert texts == [
        (Reasoning, "Thr"),
        (Reasoning, "ee cities."),
        (Text, "I l"),
        (Text, "ook."),
    ]
    [turn] = dialect.decode_response(response)
    calls = [call for pieces in by_message for call in calls_of(pieces)]
    assert [call.arguments for call in calls] == [call.arguments for call in CALLS]
    assert calls == calls_of(turn.parts)


@each_row("name", DIALECTS)
def test_a_document_gives_the_whole_turn(name: str) -> None:
    dialect, response = encoded(name, TURN, stream=False)
    [pieces] = pieces_by_message(dialect, response)
    [turn] = dialect.decode_response(response)

    assert response.codec_name == "whole"
    assert pieces == [*turn.parts]
    assert [type(piece) for piece in pieces] == [Reasoning, Text, ToolCall, ToolCall, ToolCall]


@each_row("name", DIALECTS)
def test_a_call_that_is_cut_is_no_piece(name: str) -> None:
    dialect, response = encoded(name, Turn(CALLS[:1]), stream=True)
    has_arguments = [b"Rome" in message for message in response.framed_messages]
    cut = DialectResponse(
        response.head, response.codec_name, response.framed_messages[: has_arguments.index(True)]
    )

    assert [piece for pieces in pieces_by_message(dialect, cut) for piece in pieces] == []


@each_row("name", [name for name in ALL_DIALECTS if name != "openai-responses"])
@given(data=st.data())
def test_the_pieces_of_damaged_responses_are_those_of_their_turn(
    name: str, data: st.DataObject
) -> None:
    """Except where later events repeat the whole text: there the turn has more than the pieces."""
    turn = TURN if name in DIALECTS else Turn((Text("I look."),))
    dialect, response = encoded(name, turn, stream=True)
    drawn = st.lists(st.sampled_from([*response.framed_messages, b"", b"no JSON\n", b"\xff\n\n"]))
    damaged = DialectResponse(response.head, response.codec_name, tuple(data.draw(drawn)))
    pieces = [piece for pieces in pieces_by_message(dialect, damaged) for piece in pieces]
    turns = dialect.decode_response(damaged)
    parts = turns[0].parts if turns else ()

    assert joined(pieces, Text) == joined(parts, Text)
    assert joined(pieces, Reasoning) == joined(parts, Reasoning)


LOOK_PARAMETERS: Final = {"city": "Rome"}
COHERE_V1_EVENTS: Final = (
    {"event_type": "stream-start", "is_finished": False, "generation_id": "1"},
    {"event_type": "tool-calls-chunk", "is_finished": False, "text": "I l"},
    {"event_type": "tool-calls-chunk", "is_finished": False, "text": "ook."},
    {
        "event_type": "tool-calls-generation",
        "is_finished": False,
        "text": "I look.",
        "tool_calls": [{"name": "look", "parameters": LOOK_PARAMETERS}],
    },
    {
        "event_type": "stream-end",
        "is_finished": True,
        "finish_reason": "COMPLETE",
        "response": {
            "text": "I look.",
            "tool_calls": [{"name": "look", "parameters": LOOK_PARAMETERS}],
        },
    },
)
TOOL_CALL_EVENTS: Final = (
    {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant"}}},
    *(
        {"type": kind, "index": index, "delta": {"message": {"tool_calls": call}}}
        for kind, index, call in (
            ("tool-call-start", 0, {"id": "call-0", "function": {"name": "look"}}),
            ("tool-call-start", 1, {"id": "call-1", "function": {"name": "look"}}),
            ("tool-call-delta", 1, {"function": {"arguments": "{}"}}),
            ("tool-call-end", 1, {}),
            ("tool-call-delta", 0, {"function": {"arguments": "{}"}}),
            ("tool-call-end", 0, {}),
        )
    ),
    {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
)
LOOK_START: Final = {"toolUseId": "call-0", "name": "look"}
REPEATED_STOP: Final = (
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": ""}}}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
)
STREAMED_PIECES: Final[tuple[tuple[str, str, tuple[Any, ...], list[list[Part]]], ...]] = (
    (
        "cohere",
        "ndjson",
        COHERE_V1_EVENTS,
        [[], [Text("I l")], [Text("ook.")], [], [ToolCall("", "look", '{"city":"Rome"}')]],
    ),
    (
        "cohere",
        "sse",
        TOOL_CALL_EVENTS,
        [
            *([[]] * 6),
            [ToolCall("call-0", "look", "{}"), ToolCall("call-1", "look", "{}")],
            [],
        ],
    ),
    (
        "openai-completions",
        "sse",
        ({"value": "Hel"}, {"value": ""}, {"value": "lo"}, {"error": {"message": "no"}}),
        [[Text("Hel")], [], [Text("lo")], []],
    ),
    (
        "bedrock",
        "eventstream",
        (
            {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": LOOK_START}}},
            *REPEATED_STOP,
            *REPEATED_STOP,
        ),
        [[], [], [ToolCall("call-0", "look", "")], [], []],
    ),
)


@each_row(
    "name, codec, events, pieces",
    STREAMED_PIECES,
    ids=[
        "version 1 of Cohere",
        "calls of Cohere that overlap",
        "Writer's completions",
        "a call of Bedrock that stops twice",
    ],
)
def test_each_event_gives_its_pieces(
    name: str, codec: str, events: tuple[Any, ...], pieces: list[list[Part]]
) -> None:
    match codec:
        case "ndjson":
            messages = [orjson.dumps(event) + b"\n" for event in events]
        case "sse":
            messages = [sse.encode_event(orjson.dumps(event)) for event in events]
        case _:
            named_events = [item for event in events for item in event.items()]
            messages = [frames.encode_event_frame(*item) for item in named_events]
    response = DialectResponse(ResponseHead(200, "OK", (), "chunked"), codec, messages)

    assert pieces_by_message(dialect_named(name), response) == pieces


def test_a_dialect_without_an_incremental_decoder_says_so() -> None:
    with pytest.raises(NotRepresentable, match="opaque: responses are only decoded whole"):
        dialect_named("opaque").response_decoder("sse")


def test_a_call_that_google_streams_by_path_is_a_piece_when_it_ends() -> None:
    def chunk(**call: Json) -> bytes:
        part: Json = {"functionCall": call}
        return sse.encode_event(
            orjson.dumps({"candidates": [{"index": 0, "content": {"parts": [part]}}]})
        )

    def city(name: str) -> list[Json]:
        return [{"jsonPath": "$.city", "stringValue": name}]

    decoder = dialect_named("gemini").response_decoder("sse")
    pieces: list[list[Part]] = []
    turns: list[tuple[Turn, ...]] = []
    for message in (
        chunk(id="c1", name="look", willContinue=True),
        chunk(partialArgs=city("Ro"), willContinue=True),
        chunk(partialArgs=city("me")),
        chunk(id="c2", name="look", partialArgs=city("Oslo"), willContinue=True),
        chunk(id="c3", name="look", args={"city": "Bonn"}),
    ):
        pieces.append([*decoder.feed(message)])
        turns.append(decoder.turns())

    rome, oslo, bonn = (
        ToolCall(f"c{number}", "look", f'{{"city":"{name}"}}')
        for number, name in enumerate(("Rome", "Oslo", "Bonn"), 1)
    )
    assert pieces == [[], [], [rome], [], [oslo, bonn]]
    assert [turn.parts for (turn,) in turns] == [
        (replace(rome, arguments="{}"),),
        (replace(rome, arguments='{"city":"Ro"}'),),
        (rome,),
        (rome, oslo),
        (rome, oslo, bonn),
    ]


def test_a_step_of_google_that_does_not_end_is_a_piece_when_the_interaction_is_completed() -> None:
    events: tuple[Mapping[str, Json], ...] = (
        {"event_type": "step.start", "index": 0, "step": {"type": "function_call", "id": "c1"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta"}},
        {"event_type": "step.start", "index": 1, "step": {"type": "function_call", "id": "c2"}},
        {"event_type": "step.stop", "index": 1},
        {"event_type": "step.stop", "index": 1},
        {"event_type": "interaction.completed", "interaction": {"status": "requires_action"}},
    )
    decoder = dialect_named("gemini-interactions").response_decoder("sse")
    pieces = [[*decoder.feed(sse.encode_event(orjson.dumps(event)))] for event in events]

    first, second = (ToolCall(call_id, "function", "{}") for call_id in ("c1", "c2"))
    assert pieces == [[], [], [], [second], [], [first]]
