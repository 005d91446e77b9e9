"""One turn of a conversation: its events, its tools and what it adds to the messages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_row
from llm_chat import (
    Conversation,
    ErrorEvent,
    Finish,
    Media,
    Message,
    ProviderEvent,
    Reasoning,
    ReasoningEvent,
    ResponseEnd,
    Retry,
    Text,
    TextEvent,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolResult,
    Turn,
    TurnComplete,
)
from llm_chat.tools import ToolRunner, as_tools
from llm_proxy.turns import Json, ToolCall
from mock_providers import (
    DONE,
    MockProvider,
    Step,
    UncleanProvider,
    all_of,
    call_response,
    finish_reasons,
    make_call,
    make_client,
    results_in,
    sent_results,
    text_response,
)

EXAMPLES: Final = settings(max_examples=100)
QUESTION: Final = Message("user", (Text("Is it raining?"),))

SCALARS: Final[st.SearchStrategy[Json]] = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4)
)
JSON: Final[st.SearchStrategy[Json]] = (
    SCALARS
    | st.lists(SCALARS, max_size=2)
    | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
)
TOOL_NAMES: Final = ("double", "fail", "missing")
PIECES: Final = st.builds(TextEvent, st.text(max_size=4)) | st.builds(
    ReasoningEvent, st.text(max_size=4)
)


@st.composite
def calls(draw: st.DrawFn, *, min_size: int = 0, max_size: int = 6) -> list[ToolCall]:
    """Calls of `TOOL_NAMES` with ids of their own."""
    names = draw(st.lists(st.sampled_from(TOOL_NAMES), min_size=min_size, max_size=max_size))
    return [
        make_call(name, f"call-{number}", value=draw(JSON)) for number, name in enumerate(names)
    ]


@st.composite
def streams(draw: st.DrawFn, *, min_calls: int = 0) -> list[ProviderEvent]:
    """The events of a response before its end, with calls anywhere among them."""
    events: list[ProviderEvent] = draw(st.lists(PIECES, max_size=8))
    if draw(st.booleans()):
        events.insert(0, Retry(1, 0.5, ErrorEvent("HTTP 503: Busy", "503")))
    for call in draw(calls(min_size=min_calls)):
        events.insert(draw(st.integers(0, len(events))), ToolCallStart(call))
    return events


ENDS: Final = st.sampled_from(
    (
        ResponseEnd("stop"),
        ResponseEnd("length"),
        ResponseEnd("tool"),
        ErrorEvent("overloaded", "529"),
    )
)


def double(value: Any) -> list[Any]:
    """Return the value twice."""
    return [value, value]


async def fail(value: Any) -> None:
    """Fail whatever the value is."""
    raise ValueError(f"cannot use {value!r}")


def result_of(call: ToolCall) -> Json:
    """The result of a call of `TOOL_NAMES`."""
    value = ToolCallStart(call).args["value"]
    match call.name:
        case "double":
            return [value, value]
        case "fail":
            return {"error": f"Tool execution failed: cannot use {value!r}"}
        case name:
            return {"error": f'Tool "{name}" not found'}


def calls_of(events: Sequence[object]) -> list[ToolCall]:
    """The calls among these events."""
    return [event.call for event in events if isinstance(event, ToolCallStart)]


def make_turn(
    provider: Any, *tools: Tool | Callable[..., Any], messages: list[Message] | None = None
) -> Turn:
    """A turn of a conversation that has begun with `QUESTION`."""
    runner = ToolRunner(as_tools(tools))
    return Turn(provider, runner, [QUESTION] if messages is None else messages, Conversation(()))


# What a turn passes on


@pytest.mark.shows("002-P04", "002-18", "002-22", "002-27")
@EXAMPLES
@given(streams(), ENDS)
async def test_a_chat_passes_on_the_events_of_the_provider(
    stream: list[ProviderEvent], end: ResponseEnd | ErrorEvent
) -> None:
    # Feature: stage-02-core-provider, Property 4: For any sequence of provider events (text,
    # tool_call, finish, error), the Chat_Runtime should forward each event to consumers in the same
    # order with the same content.
    client = make_client(MockProvider([*stream, end], DONE), double, fail)
    events = await all_of(client.chat("Hello."))

    results = [ToolCallResult(call, result_of(call)) for call in calls_of(stream)]
    plain = [
        ToolCallResult(event.call, event.result) if isinstance(event, ToolCallResult) else event
        for event in events
    ]
    match end:
        case ErrorEvent():
            assert plain == [*stream, end, TurnComplete(1), Finish("error")]
        case _ if results:
            second_turn = [TextEvent("Done."), TurnComplete(2, ResponseEnd("stop"))]
            first_turn = [*stream, *results, TurnComplete(1, end)]
            assert plain == [*first_turn, *second_turn, Finish("complete")]
        case _:
            assert plain == [*stream, TurnComplete(1, end), Finish("complete")]


@pytest.mark.shows("002-P28", "002-28")
@EXAMPLES
@given(streams(), ENDS, streams())
async def test_a_turn_emits_every_event_up_to_the_end_of_the_response(
    stream: list[ProviderEvent], end: ResponseEnd | ErrorEvent, surplus: list[ProviderEvent]
) -> None:
    # Feature: stage-02-core-provider, Property 28: For any provider stream, the Turn should collect
    # and emit all events until a finish or error event is received.
    provider = MockProvider([*stream, end, *surplus])
    turn = make_turn(provider, double, fail)
    events = await all_of(turn.execute())

    has_failed = isinstance(end, ErrorEvent)
    assert [event for event in events if not isinstance(event, ToolCallResult)] == [
        *stream,
        *([end] if has_failed else []),
    ]
    assert turn.calls == calls_of(stream)
    assert turn.text == "".join(event.text for event in stream if isinstance(event, TextEvent))
    assert (turn.error if has_failed else turn.response) == end
    assert provider.open_streams == 0


async def test_events_are_passed_on_as_they_arrive() -> None:
    rest = asyncio.Event()
    provider = MockProvider([TextEvent("It "), rest, TextEvent("is."), ResponseEnd("stop")])
    events = make_client(provider).chat("Hello.")

    assert await anext(events) == TextEvent("It ")
    rest.set()
    assert await anext(events) == TextEvent("is.")
    await events.aclose()


@pytest.mark.shows("002-28")
async def test_the_end_of_the_response_ends_reading() -> None:
    never = asyncio.Event()
    provider = MockProvider([*DONE, never])

    assert finish_reasons(await all_of(make_client(provider).chat("Hello."))) == ["complete"]
    assert provider.open_streams == 0


async def test_a_stream_without_an_end_is_complete() -> None:
    client = make_client(MockProvider([TextEvent("Done.")]))

    assert await all_of(client.chat("Hello.")) == [
        TextEvent("Done."),
        TurnComplete(1, ResponseEnd("stop")),
        Finish("complete"),
    ]
    assert client.messages[-1] == Message("assistant", (Text("Done."),))


# What a turn starts from


@pytest.mark.shows("002-P27")
@EXAMPLES
@given(streams(), st.lists(st.text(min_size=1), min_size=1, max_size=4))
async def test_a_turn_keeps_the_messages_that_it_begins_with(
    stream: list[ProviderEvent], texts: list[str]
) -> None:
    # Feature: stage-02-core-provider, Property 27: For any turn, it should begin with the current
    # conversation state (messages array) and maintain that state throughout execution.
    history = [Message("user", (Text(text),)) for text in texts]
    messages = [*history]
    provider = MockProvider([*stream, ResponseEnd("stop")])
    turn = make_turn(provider, double, fail, messages=messages)

    async for event in turn.execute():
        if not isinstance(event, ToolCallResult):
            assert messages == history
    assert provider.requests == [Conversation(tuple(history))]
    assert messages[: len(history)] == history
    assert turn.request.messages == tuple(history)


# What a turn appends


@pytest.mark.shows("002-P29", "002-30", "002-33")
@EXAMPLES
@given(streams())
async def test_the_history_has_the_response_and_all_results(stream: list[ProviderEvent]) -> None:
    # Feature: stage-02-core-provider, Property 29: For any completed turn, the conversation history
    # should include the assistant's response and all tool results from that turn.
    turn = make_turn(MockProvider([*stream, ResponseEnd("stop")]), double, fail)
    await all_of(turn.execute())

    called = calls_of(stream)
    responses = [message for message in turn.messages if message.role == "assistant"]
    parts = [part for message in responses for part in message.parts]
    assert "".join(part.text for part in parts if isinstance(part, Text)) == turn.text
    assert [part for part in parts if isinstance(part, ToolCall)] == called
    assert len(responses) <= 1
    if called:
        assert sent_results(turn.messages[-1]) == [(call.name, result_of(call)) for call in called]
    assert turn.needs_next_turn == bool(called)


@pytest.mark.shows("002-P30", "002-02", "002-04")
@EXAMPLES
@given(st.lists(streams(), min_size=1, max_size=3))
async def test_every_message_has_a_role_and_parts(responses: list[list[ProviderEvent]]) -> None:
    # Feature: stage-02-core-provider, Property 30: For any message, it should have a role field
    # with one of the valid values (system, user, assistant, tool) and a parts array containing at
    # least one part.
    provider = MockProvider(*([*stream, ResponseEnd("stop")] for stream in responses))
    client = make_client(provider, double, fail, max_turns=3)
    await all_of(client.chat("Hello."))

    assert all(
        message.role in ("system", "user", "assistant", "tool") and message.parts
        for message in client.messages
    )


@pytest.mark.shows("002-P31", "002-04")
@EXAMPLES
@given(streams(min_calls=1))
async def test_every_result_names_its_tool(stream: list[ProviderEvent]) -> None:
    # Feature: stage-02-core-provider, Property 31: For any message with role='tool', it should
    # include a name field identifying the tool that produced the result.
    turn = make_turn(MockProvider([*stream, ResponseEnd("tool")]), double, fail)
    await all_of(turn.execute())

    assert [
        (part.call_id, part.name)
        for message in turn.messages
        if message.role == "tool"
        for part in message.parts
        if isinstance(part, ToolResult)
    ] == [(call.id, call.name) for call in calls_of(stream)]


CALL: Final = make_call("double", value=1)
SIGNED: Final = Reasoning("Hm.", signature="signed")


@pytest.mark.shows("002-30")
@each_row(
    "stream, parts",
    [
        ([TextEvent("It "), TextEvent("is.")], (Text("It is."),)),
        ([ReasoningEvent("H"), ReasoningEvent("m.")], (Reasoning("Hm."),)),
        (
            [ReasoningEvent("Hm."), TextEvent("A"), TextEvent("B"), ReasoningEvent("Oh.")],
            (Reasoning("Hm."), Text("AB"), Reasoning("Oh.")),
        ),
        ([TextEvent("A"), ToolCallStart(CALL), TextEvent("B")], (Text("A"), CALL, Text("B"))),
        ([TextEvent(""), TextEvent("A"), TextEvent("")], (Text("A"),)),
        ([TextEvent("A"), ResponseEnd("stop", (SIGNED, Text("A")))], (SIGNED, Text("A"))),
    ],
)
async def test_a_response_is_one_message(stream: list[Step], parts: tuple[object, ...]) -> None:
    turn = make_turn(MockProvider([*stream, ResponseEnd("stop")]), double)
    await all_of(turn.execute())

    assert turn.messages[1] == Message("assistant", parts)  # type: ignore[arg-type] # parts of a table


@each_row("stream", [[], [TextEvent("")], [ReasoningEvent(""), TextEvent("")]])
async def test_an_empty_response_adds_no_message(stream: list[Step]) -> None:
    client = make_client(MockProvider([*stream, ResponseEnd("stop")]))

    assert finish_reasons(await all_of(client.chat("Hello."))) == ["complete"]
    assert [message.role for message in client.messages] == ["user"]


async def test_arguments_that_are_not_an_object_are_sent_back_as_an_empty_one() -> None:
    call = ToolCall("call-1", "double", '{"value": ')
    client = make_client(MockProvider(call_response(call), DONE), double)
    await all_of(client.chat("Hello."))

    assert client.messages[1] == Message("assistant", (ToolCall("call-1", "double", "{}"),))
    assert sent_results(client.messages[2]) == [
        ("double", {"error": "Tool execution failed: the arguments are not a JSON object"})
    ]


# Tools


@pytest.mark.shows("002-P06", "002-31")
@EXAMPLES
@given(streams(min_calls=1))
async def test_calls_run_after_the_response(stream: list[ProviderEvent]) -> None:
    # Feature: stage-02-core-provider, Property 6: For any set of tool_call events emitted during a
    # turn, all tool calls should be queued and then executed after the stream completes.
    provider = MockProvider([*stream, ResponseEnd("tool")])
    log: list[tuple[Json, int, int]] = []

    def note(value: Any) -> None:
        log.append((value, provider.open_streams, len(turn.calls)))

    tools = [Tool.from_function(note, name=name) for name in TOOL_NAMES]
    turn = make_turn(provider, *tools)
    await all_of(turn.execute())

    called = calls_of(stream)
    values = [ToolCallStart(call).args["value"] for call in called]
    assert len(log) == len(called)
    assert all((value, 0, len(called)) in log for value in values)


@pytest.mark.shows("002-P07", "002-25")
@EXAMPLES
@given(calls(min_size=1))
async def test_the_next_turn_begins_with_the_results(called: list[ToolCall]) -> None:
    # Feature: stage-02-core-provider, Property 7: For any completed tool execution, the tool result
    # should be added to the conversation history as a tool message, and a new turn should begin
    # with the updated history.
    provider = MockProvider(call_response(*called), DONE)
    client = make_client(provider, double, fail)
    events = await all_of(client.chat("Hello."))

    first, second = provider.requests
    assert second.messages[: len(first.messages)] == first.messages
    response, results = second.messages[len(first.messages) :]
    assert response == Message("assistant", tuple(called))
    assert sent_results(results) == [(call.name, result_of(call)) for call in called]
    assert results_in(events) == [result_of(call) for call in called]


@pytest.mark.shows("002-P08", "002-31")
@EXAMPLES
@given(st.integers(2, 8), st.sampled_from(("async", "sync")))
async def test_the_calls_of_a_turn_run_at_the_same_time(call_count: int, kind: str) -> None:
    # Feature: stage-02-core-provider, Property 8: For any set of multiple tool calls in a single
    # turn, all tool calls should execute concurrently rather than sequentially (execution time
    # should be closer to the slowest tool rather than the sum of all tools).
    all_started = asyncio.Barrier(call_count)
    all_threads_started = threading.Barrier(call_count, timeout=20)

    async def async_meet() -> str:
        await all_started.wait()
        return "met"

    def sync_meet() -> str:
        all_threads_started.wait()
        return "met"

    called = [make_call(f"{kind}_meet", f"call-{number}") for number in range(call_count)]
    turn = make_turn(MockProvider(call_response(*called)), async_meet, sync_meet)
    async with asyncio.timeout(20):  # a call would wait for the others for ever
        events = await all_of(turn.execute())

    assert results_in(events) == ["met"] * call_count


@pytest.mark.shows("002-33")
@EXAMPLES
@given(st.permutations(range(5)))
async def test_results_are_in_the_order_of_the_calls(end_order: list[int]) -> None:
    """Whatever the order in which the calls end."""
    turns = {number: asyncio.Event() for number in range(len(end_order))}
    turns[end_order[0]].set()

    async def finish(number: int) -> int:
        await turns[number].wait()
        position = end_order.index(number) + 1
        if position < len(end_order):
            turns[end_order[position]].set()
        return number

    called = [make_call("finish", f"call-{number}", number=number) for number in range(5)]
    turn = make_turn(MockProvider(call_response(*called)), finish)

    assert results_in(await all_of(turn.execute())) == [0, 1, 2, 3, 4]
    assert sent_results(turn.messages[-1]) == [("finish", number) for number in range(5)]


async def test_a_result_is_shown_while_later_calls_run() -> None:
    shown = asyncio.Event()

    async def slow() -> str:
        await shown.wait()
        return "slow"

    def quick() -> str:
        return "quick"

    turn = make_turn(
        MockProvider(call_response(make_call("quick"), make_call("slow", "call-2"))), slow, quick
    )
    results: list[Json] = []
    async for event in turn.execute():
        if isinstance(event, ToolCallResult):
            results.append(event.result)
            shown.set()
    assert results == ["quick", "slow"]


@pytest.mark.shows("002-P32", "002-32", "002-64")
@EXAMPLES
@given(
    st.lists(
        st.sampled_from((ValueError, KeyError, OSError, SystemExit, StopIteration, AssertionError)),
        min_size=1,
        max_size=4,
    ),
    st.text(),
)
async def test_a_failed_tool_does_not_end_the_conversation(
    errors: list[type[BaseException]], message: str
) -> None:
    # Feature: stage-02-core-provider, Property 32: For any tool execution that fails, the error
    # should be captured in the tool result message and the conversation should continue rather than
    # terminating.
    def fail_as(number: int) -> None:
        raise errors[number](message)

    numbers = range(len(errors))
    called = [make_call("fail_as", f"call-{number}", number=number) for number in numbers]
    works = make_call("double", "works", value=2)
    provider = MockProvider(call_response(*called, works), DONE)
    client = make_client(provider, fail_as, double)
    events = await all_of(client.chat("Hello."))

    *failures, success = sent_results(provider.requests[1].messages[-1])
    assert success == ("double", [2, 2])
    for name, result in failures:
        assert name == "fail_as"
        assert isinstance(result, dict)
        assert str(result["error"]).startswith("Tool execution failed: ")
    assert [event.failed for event in events if isinstance(event, ToolCallResult)] == [
        *(True for _ in errors),
        False,
    ]
    assert finish_reasons(events) == ["complete"]


@pytest.mark.shows("002-32", "002-64")
async def test_the_model_sees_why_a_call_failed() -> None:
    called = [make_call("missing"), make_call("fail", "call-2", value="é")]
    provider = MockProvider(call_response(*called), DONE)
    await all_of(make_client(provider, fail).chat("Hello."))

    assert provider.requests[1].messages[-1] == Message(
        "tool",
        (
            ToolResult(
                "call-1", '{"error":"Tool \\"missing\\" not found"}', "missing", failed=True
            ),
            ToolResult(
                "call-2",
                '{"error":"Tool execution failed: cannot use \'é\'"}',
                "fail",
                failed=True,
            ),
        ),
    )


# Errors of the provider


class BrokenProvider:
    """A provider that raises before there is a stream."""

    name = "broken"

    def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Raise an error."""
        raise ValueError("no stream")


@pytest.mark.shows("002-29")
@each_row(
    "error, event",
    [
        (ErrorEvent("HTTP 500: Broken", "500"), ErrorEvent("HTTP 500: Broken", "500")),
        (ValueError("bad value"), ErrorEvent("bad value", "ValueError")),
        (ConnectionResetError(), ErrorEvent("ConnectionResetError", "ConnectionResetError")),
        (asyncio.CancelledError(), ErrorEvent("CancelledError", "CancelledError")),
        (TimeoutError("too slow"), ErrorEvent("too slow", "TimeoutError")),
        (
            StopAsyncIteration(),
            ErrorEvent("async generator raised StopAsyncIteration", "RuntimeError"),
        ),
    ],
)
async def test_an_error_ends_the_turn_without_messages_and_tools(
    error: Step, event: ErrorEvent
) -> None:
    def never() -> None:
        pytest.fail("no tool runs after an error")

    provider = MockProvider([TextEvent("It "), ToolCallStart(make_call("never")), error])
    client = make_client(provider, never)
    events = await all_of(client.chat("Hello."))

    assert events[2:] == [event, TurnComplete(1), Finish("error")]
    assert client.messages == [Message("user", (Text("Hello."),))]


async def test_an_error_before_the_stream_is_an_event_too() -> None:
    events = await all_of(make_client(BrokenProvider()).chat("Hello."))

    assert events[0] == ErrorEvent("no stream", "ValueError")
    assert finish_reasons(events) == ["error"]


async def test_an_error_while_a_stream_is_closed_is_an_event_too() -> None:
    events = await all_of(make_client(UncleanProvider(TextEvent("Done."))).chat("Hello."))

    assert events == [
        TextEvent("Done."),
        ErrorEvent("cannot close", "OSError"),
        TurnComplete(1),
        Finish("error"),
    ]


async def test_an_error_without_a_text_of_its_own_is_reported_by_its_type() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    async def fail_so() -> None:
        raise UnprintableError

    provider = MockProvider(call_response(make_call("fail_so")), [UnprintableError()])
    events = await all_of(make_client(provider, fail_so).chat("Hello."))

    assert results_in(events) == [{"error": "Tool execution failed: UnprintableError"}]
    assert ErrorEvent("UnprintableError", "UnprintableError") in events


# Values


@pytest.mark.shows("002-03")
async def test_a_message_may_have_text_and_images() -> None:
    provider = MockProvider(DONE)
    image = Media("image/png", base64="iVBORw0KGgo=")
    await all_of(make_client(provider).chat([Text("What is it?"), image]))

    assert provider.requests[0].messages == (Message("user", (Text("What is it?"), image)),)


@pytest.mark.shows("002-06")
@each_row(
    "arguments, args",
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("[1]", {}),
        ("{", {}),
        ("[" * 100_000, {}),
        ("9" * 10_000, {}),
    ],
)
def test_the_arguments_of_a_call_are_an_object(arguments: str, args: dict[str, Json]) -> None:
    assert ToolCallStart(ToolCall("call-1", "tool", arguments)).args == args


@pytest.mark.shows("002-66")
async def test_a_turn_has_its_calls_its_text_and_the_messages() -> None:
    messages = [QUESTION]
    turn = make_turn(
        MockProvider([*text_response("It ")[:1], *call_response(CALL)]), double, messages=messages
    )
    await all_of(turn.execute())

    assert (turn.calls, turn.text) == ([CALL], "It ")
    assert turn.messages is messages
    assert [message.role for message in messages] == ["user", "assistant", "tool"]


# Calls that the response does not complete

CUT_OFF: Final = {"error": "Tool execution failed: the response was cut off at its token limit"}


@each_row(
    "arguments, is_last, result",
    [
        ("", True, CUT_OFF),
        ("{}", True, CUT_OFF),
        ('{"number": 4', True, CUT_OFF),
        ('{"number": 4}', True, 8),
        ("", False, 2),
    ],
)
async def test_a_call_that_is_cut_off_does_not_run_with_its_defaults(
    arguments: str, is_last: bool, result: Json
) -> None:
    async def twice(number: int = 1) -> int:
        return number * 2

    calls = [ToolCall("call-1", "twice", arguments)]
    if not is_last:
        calls.append(ToolCall("call-2", "twice", '{"number": 4}'))
    response: list[Step] = [*map(ToolCallStart, calls), ResponseEnd("length")]
    events = await all_of(make_client(MockProvider(response, DONE), twice).chat("Hello."))

    assert results_in(events)[0] == result


@each_row("number", ["NaN", "1e999", str(2**64)])
async def test_arguments_that_providers_refuse_do_not_run_and_are_not_sent_back(
    number: str,
) -> None:
    call = ToolCall("call-1", "double", f'{{"number": {number}}}')
    provider = MockProvider(call_response(call), DONE)
    client = make_client(provider, double)
    events = await all_of(client.chat("Hello."))

    message = "Tool execution failed: the arguments are not a JSON object"
    assert results_in(events) == [{"error": message}]
    [sent_back] = [part for part in client.messages[1].parts if isinstance(part, ToolCall)]
    assert sent_back.arguments == "{}"
