"""Conversations of several turns: options, limits, ReAct, cancellation and unexpected errors."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import llm_chat
from case_tables import each_row
from llm_chat import (
    ChatClient,
    ChatError,
    ChatEvent,
    ChatOptions,
    Conversation,
    ErrorEvent,
    Finish,
    ForcedTool,
    Message,
    ProviderEvent,
    ProviderRegistry,
    ReasoningEvent,
    ResponseEnd,
    Retry,
    Text,
    TextEvent,
    TokenLimitExceeded,
    TokenLimits,
    TokenLimitWarning,
    ToolCallResult,
    ToolCallStart,
    ToolDefinition,
    ToolResult,
    TurnComplete,
    TurnEvent,
)
from llm_chat.react import INVALID_INPUT_MESSAGE
from llm_proxy import conversation
from llm_proxy.conversation import ToolChoice
from llm_proxy.turns import ToolCall
from mock_providers import (
    DONE,
    CountingProvider,
    MockProvider,
    Step,
    UncleanProvider,
    all_of,
    call_response,
    finish_reasons,
    make_call,
    make_client,
    make_registry,
    pending_tasks,
    results_in,
    sent_results,
    text_response,
)
from waiting import wait_until

EXAMPLES: Final = settings(max_examples=100)


def look() -> str:
    """Look out of the window."""
    return "rain"


LOOK: Final = call_response(make_call("look"))
HELLO: Final = Message("user", (Text("Hello."),))


# Layers


ABOVE_PROVIDERS: Final = (
    *("cancellation", "client", "errors", "events", "provider"),
    *("registry", "token_limits", "tools", "turn"),
)


@pytest.mark.shows("002-01")
def test_no_format_of_a_provider_is_known_above_the_providers() -> None:
    imports = {
        (module, name)
        for module in ABOVE_PROVIDERS
        for node in ast.walk(
            ast.parse(Path(llm_chat.__file__).with_name(f"{module}.py").read_text("utf-8"))
        )
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.startswith("llm_proxy")
    }

    assert {name for _, name in imports} == {
        "llm_proxy.conversation",
        "llm_proxy.dialects.encoding",  # which arguments every format accepts
        "llm_proxy.turns",
    }


@pytest.mark.shows("002-02", "002-09", "002-18")
def test_the_roles_and_the_kinds_of_events() -> None:
    assert get_args(conversation.Role) == ("system", "user", "assistant", "tool")
    assert get_args(llm_chat.events.ResponseReason) == ("stop", "length", "tool")
    assert get_args(llm_chat.events.FinishReason) == (
        "complete",
        "max_turns",
        "error",
        "cancelled",
    )
    assert {TextEvent, ToolCallStart, ResponseEnd, ErrorEvent} < {*get_args(ProviderEvent)}
    assert {*get_args(ChatEvent)} == {
        *get_args(TurnEvent),
        TokenLimitWarning,
        TurnComplete,
        Finish,
    }
    assert {TextEvent, ToolCallStart, ToolCallResult, ErrorEvent} < {*get_args(TurnEvent)}


@pytest.mark.shows("002-05", "002-07", "002-08", "002-17")
def test_what_a_tool_a_request_and_options_require() -> None:
    assert ToolDefinition("look") == ToolDefinition("look", "", None)
    assert Conversation(()) == Conversation(
        (),
        model="",
        system="",
        tools=(),
        tool_choice=None,
        temperature=None,
        max_tokens=None,
        top_p=None,
        top_k=None,
        repeat_penalty=None,
        seed=None,
    )
    assert all(
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(ChatOptions)
    )


# The provider


@pytest.mark.shows("002-19")
async def test_the_provider_is_the_named_one_or_the_default() -> None:
    default, other = MockProvider(DONE), MockProvider(DONE, name="other")
    client = ChatClient(make_registry(default, other))

    await all_of(client.chat("Hello."))
    assert (len(default.requests), len(other.requests)) == (1, 0)
    await all_of(client.chat("Hello.", ChatOptions(provider="other")))
    assert (len(default.requests), len(other.requests)) == (1, 1)


@pytest.mark.shows("002-19", "002-15", "002-67")
async def test_a_chat_without_a_provider_is_refused() -> None:
    with pytest.raises(ChatError, match=r"^No provider available$"):
        await all_of(make_client(MockProvider(DONE), provider="other").chat("Hello."))
    with pytest.raises(ChatError, match=r"^No default provider set$"):
        await all_of(ChatClient(ProviderRegistry()).chat("Hello."))


# The request


@pytest.mark.shows("002-20", "002-26", "002-08")
async def test_a_request_without_options_has_the_prompt_and_a_model() -> None:
    provider = MockProvider(DONE)
    await all_of(make_client(provider).chat("Hello."))

    assert provider.requests == [Conversation((HELLO,), model="default")]


@pytest.mark.shows("002-17", "002-07", "002-26")
async def test_every_option_reaches_the_request() -> None:
    provider = MockProvider(DONE)
    client = make_client(provider, look)
    options = ChatOptions(
        model="m",
        system_prompt="Be brief.",
        tool_choice="none",
        temperature=0.5,
        max_tokens=100,
        top_p=0.9,
        top_k=40,
        repeat_penalty=1.1,
        seed=7,
        stop_sequences=("END",),
        extra_fields={"user": "alice"},
    )
    await all_of(client.chat("Hello.", options))

    assert provider.requests == [
        Conversation(
            (HELLO,),
            model="m",
            system="Be brief.",
            tools=(client.tools["look"].definition,),
            tool_choice="none",
            temperature=0.5,
            max_tokens=100,
            top_p=0.9,
            top_k=40,
            repeat_penalty=1.1,
            seed=7,
            stop_sequences=("END",),
            extra_fields=(("user", "alice"),),
        )
    ]


@pytest.mark.shows("002-17")
async def test_the_options_of_a_chat_replace_those_of_the_client() -> None:
    provider = MockProvider(DONE)
    client = make_client(provider, model="a", temperature=0.5)
    await all_of(client.chat("Hello."))
    await all_of(client.chat("Hello.", ChatOptions(model="b")))

    assert [(request.model, request.temperature) for request in provider.requests] == [
        ("a", 0.5),
        ("b", None),
    ]


@pytest.mark.shows("002-17")
async def test_a_chat_offers_the_tools_that_its_options_name() -> None:
    def listen() -> str:
        return "drops"

    provider = MockProvider(call_response(make_call("listen"), make_call("look", "call-2")), DONE)
    client = make_client(provider, look, listen, tools=("look",))
    events = await all_of(client.chat("Hello."))

    assert [tool.name for tool in provider.requests[0].tools] == ["look"]
    assert results_in(events) == [{"error": 'Tool "listen" not found'}, "rain"]
    assert not (await requests_of(client, provider, tools=()))[0].tools


async def requests_of(
    client: ChatClient, provider: MockProvider, /, **options: Any
) -> list[Conversation]:
    """The requests of one more chat."""
    before = len(provider.requests)
    await all_of(client.chat("Hello.", ChatOptions(**options)))
    return provider.requests[before:]


async def test_an_unknown_tool_is_refused_before_a_request_is_sent() -> None:
    provider = MockProvider(DONE)
    message = r"^unknown tool 'lok'; the tools of this client are: look$"
    with pytest.raises(ValueError, match=message):
        await all_of(make_client(provider, look, tools=("lok",)).chat("Hello."))
    with pytest.raises(ValueError, match=r"are: none$"):
        await all_of(make_client(provider, tools=("lok",)).chat("Hello."))
    assert provider.requests == []


@each_row("choice", ["required", ForcedTool("look")])
async def test_a_forced_tool_is_forced_in_the_first_turn_only(choice: Any) -> None:
    provider = MockProvider(LOOK, DONE)
    events = await all_of(make_client(provider, look, tool_choice=choice).chat("Hello."))

    assert [request.tool_choice for request in provider.requests] == [choice, None]
    assert finish_reasons(events) == ["complete"]


@each_row("choice", ["auto", "none", None])
async def test_another_tool_choice_is_that_of_every_turn(choice: Any) -> None:
    provider = MockProvider(LOOK, DONE)
    await all_of(make_client(provider, look, tool_choice=choice).chat("Hello."))

    assert [request.tool_choice for request in provider.requests] == [choice, choice]


@each_row(
    "options, message",
    [
        ({"max_turns": 0}, "max_turns: expected at least 1, got 0"),
        ({"max_turns": -1}, "max_turns: expected at least 1, got -1"),
        ({"tool_concurrency": 0}, "tool_concurrency: expected at least 1, got 0"),
        ({"tool_time_limit_s": 0}, "tool_time_limit_s: expected more than 0 s, got 0"),
        ({"tool_time_limit_s": float("nan")}, "tool_time_limit_s: expected more than 0 s, got nan"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 # the message is compared below
        ChatOptions(**options)
    assert str(caught.value) == message


async def test_a_prompt_without_parts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^prompt: expected a text or at least one part$"):
        await all_of(make_client(MockProvider(DONE)).chat([]))


async def test_options_of_tools_reach_the_tools() -> None:
    running: list[str] = []

    async def work(name: str) -> list[str]:
        running.append(name)
        await asyncio.sleep(0)
        return running.copy()

    async def hang() -> None:
        await asyncio.Event().wait()

    called = [make_call("work", "1", name="a"), make_call("work", "2", name="b")]
    provider = MockProvider(call_response(*called, make_call("hang", "3")), DONE)
    client = make_client(provider, work, hang, tool_concurrency=1, tool_time_limit_s=0.01)

    assert results_in(await all_of(client.chat("Hello."))) == [
        ["a"],
        ["a", "b"],
        {"error": "Tool execution failed: no result within 0.01 s"},
    ]


# Turns


@pytest.mark.shows("002-P09", "002-21", "002-24")
@EXAMPLES
@given(st.integers(1, 12))
async def test_an_endless_conversation_ends_at_the_limit(max_turns: int) -> None:
    # Feature: stage-02-core-provider, Property 9: For any conversation that would continue
    # indefinitely, the Chat_Runtime should terminate after reaching the maximum turn count and emit
    # a finish event with reason 'max_turns'.
    provider = MockProvider(LOOK)
    events = await all_of(make_client(provider, look, max_turns=max_turns).chat("Hello."))

    assert len(provider.requests) == max_turns
    assert [event.turn_number for event in events if isinstance(event, TurnComplete)] == [
        *range(1, max_turns + 1)
    ]
    assert finish_reasons(events) == ["max_turns"]
    assert events[-1] == Finish("max_turns")


@pytest.mark.shows("002-21")
async def test_a_chat_has_ten_turns_by_default() -> None:
    provider = MockProvider(LOOK)
    await all_of(make_client(provider, look).chat("Hello."))

    assert len(provider.requests) == 10


@pytest.mark.shows("002-22", "002-23", "002-25", "002-18")
async def test_the_events_of_a_chat_with_a_tool() -> None:
    end = ResponseEnd("tool")
    call = make_call("look")
    provider = MockProvider([TextEvent("I look."), ToolCallStart(call), end], DONE)
    client = make_client(provider, look)

    assert await all_of(client.chat("Hello.")) == [
        TextEvent("I look."),
        ToolCallStart(call),
        ToolCallResult(call, "rain"),
        TurnComplete(1, end),
        TextEvent("Done."),
        TurnComplete(2, ResponseEnd("stop")),
        Finish("complete"),
    ]
    assert [message.role for message in provider.requests[1].messages] == [
        "user",
        "assistant",
        "tool",
    ]


@pytest.mark.shows("002-24", "002-23")
async def test_the_last_allowed_turn_may_complete_the_chat() -> None:
    provider = MockProvider(LOOK, DONE)
    events = await all_of(make_client(provider, look, max_turns=2).chat("Hello."))

    assert finish_reasons(events) == ["complete"]


@pytest.mark.shows("002-24")
async def test_the_results_of_the_last_allowed_turn_are_kept() -> None:
    client = make_client(MockProvider(LOOK), look, max_turns=1)
    events = await all_of(client.chat("Hello."))

    assert results_in(events) == ["rain"]
    assert sent_results(client.messages[-1]) == [("look", "rain")]


async def test_retries_of_a_provider_are_events_of_the_chat() -> None:
    retry = Retry(1, 0.5, ErrorEvent("HTTP 529: Overloaded", "529"))
    events = await all_of(make_client(MockProvider([retry, *DONE])).chat("Hello."))

    assert events[:2] == [retry, TextEvent("Done.")]


@pytest.mark.shows("002-66")
async def test_the_client_has_the_state_of_its_chat() -> None:
    provider = MockProvider(LOOK, DONE)
    client = make_client(provider, look)
    assert (client.messages, client.turn_number, client.provider) == ([], 0, None)
    await all_of(client.chat("Hello."))

    assert client.turn_number == 2
    assert client.provider is provider
    assert client.providers.list() == ["mock"]
    assert [*client.tools] == ["look"]
    assert client.messages == [
        *provider.requests[1].messages,
        Message("assistant", (Text("Done."),)),
    ]


async def test_a_conversation_is_continued_with_its_messages() -> None:
    provider = MockProvider(text_response("Hi."), text_response("Bye."))
    client = make_client(provider)
    await all_of(client.chat("Hello."))
    before = client.messages
    await all_of(client.chat("Goodbye.", history=before))

    assert provider.requests[1].messages == (
        HELLO,
        Message("assistant", (Text("Hi."),)),
        Message("user", (Text("Goodbye."),)),
    )
    assert [message.text for message in client.messages] == ["Hello.", "Hi.", "Goodbye.", "Bye."]
    assert len(before) == 2


async def test_a_new_chat_begins_a_new_conversation() -> None:
    provider = MockProvider(DONE)
    client = make_client(provider)
    await all_of(client.chat("Hello."))
    await all_of(client.chat("Hello."))

    assert provider.requests[1].messages == (HELLO,)


async def test_chats_of_one_client_may_run_at_the_same_time() -> None:
    class Echo(MockProvider):
        async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
            await asyncio.sleep(0)
            if request.messages[-1].role == "tool":
                yield TextEvent(request.first_user_text)
            else:
                yield ToolCallStart(make_call("look"))

    client = make_client(Echo(), look)
    chats = await asyncio.gather(*(all_of(client.chat(str(number))) for number in range(20)))

    assert [
        [event.text for event in events if isinstance(event, TextEvent)] for events in chats
    ] == [[str(number)] for number in range(20)]


async def test_a_tool_may_chat_with_the_same_client() -> None:
    provider = MockProvider(call_response(make_call("ask")), text_response("42"), DONE)

    async def ask() -> str:
        events = await all_of(client.chat("What is it?"))
        return "".join(event.text for event in events if isinstance(event, TextEvent))

    client = make_client(provider, ask)
    events = await all_of(client.chat("Hello."))

    assert results_in(events) == ["42"]
    assert finish_reasons(events) == ["complete"]


# Token limits


async def test_a_request_above_the_limit_is_not_sent() -> None:
    provider = CountingProvider(101, DONE)
    client = ChatClient(make_registry(provider), token_limits=TokenLimits({"default": 100}))

    with pytest.raises(
        TokenLimitExceeded, match=r"^Request exceeds token limit: 101 > 100 for model default$"
    ):
        await all_of(client.chat("Hello."))
    assert provider.requests == []


async def test_every_turn_near_the_limit_has_a_warning() -> None:
    provider = CountingProvider(90, LOOK, DONE)
    client = ChatClient(
        make_registry(provider), tools=[look], token_limits=TokenLimits({"default": 100})
    )
    events = await all_of(client.chat("Hello."))

    warnings = [event for event in events if isinstance(event, TokenLimitWarning)]
    assert warnings == [TokenLimitWarning("default", 90, 100)] * 2
    assert finish_reasons(events) == ["complete"]


# ReAct


REFUSAL: Final = ErrorEvent("HTTP 400: Bad Request", "400", "no tools", refuses_tools=True)
REACT_CALL: Final = text_response("Thought: I look.\nAction: look\nAction Input: {}")
REACT_ANSWER: Final = text_response("Thought: Rain.\nFinal Answer: It rains.")


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


INVALID_INPUTS: Final = st.sampled_from(
    ("{", "{'a': 1}", '{"a": }', "[1]", "null", "3", "yes", '{"a": 1} b', "{a}", '{"a": NaN}')
) | st.text("{}[]\"':, ab1", min_size=1).filter(
    lambda text: bool(text.strip()) and not is_json_object(text)
)


@pytest.mark.shows("002-P33", "002-67")
@EXAMPLES
@given(INVALID_INPUTS, st.integers(0, 60), st.integers(1, 3))
async def test_invalid_input_is_sent_back_for_correction(
    value: str, cut: int, failures: int
) -> None:
    # Feature: stage-02-core-provider, Property 33: For any invalid JSON in ReAct Action Input, the
    # system should add an error message to the conversation requesting the model to correct the
    # format.
    output = f"Thought: I look.\nAction: look\nAction Input: {value}"
    responses = [text_response(output[:cut], output[cut:])] * failures
    provider = MockProvider(*responses, REACT_CALL, REACT_ANSWER)
    client = make_client(provider, look, react=True)
    events = await all_of(client.chat("Hello."))

    assert [request.messages[-1].text for request in provider.requests] == [
        "Hello.",
        *[INVALID_INPUT_MESSAGE] * failures,
        'Observation: "rain"',
    ]
    assert provider.requests[1].messages[1] == Message("assistant", (Text(output),))
    assert results_in(events) == ["rain"]
    assert finish_reasons(events) == ["complete"]


async def test_tools_are_text_where_the_model_refuses_them() -> None:
    provider = MockProvider([REFUSAL], REACT_CALL, REACT_ANSWER, REACT_CALL, REACT_ANSWER)
    client = make_client(provider, look, model="m")
    events = await all_of(client.chat("Hello."))

    retries = [event for event in events if isinstance(event, Retry | ErrorEvent)]
    assert retries == [Retry(1, 0.0, REFUSAL)]
    assert results_in(events) == ["rain"]
    assert "".join(event.text for event in events if isinstance(event, TextEvent)) == "It rains."
    assert [event.turn_number for event in events if isinstance(event, TurnComplete)] == [1, 2]
    assert finish_reasons(events) == ["complete"]

    later = await all_of(client.chat("Hello."))
    assert not any(isinstance(event, Retry) for event in later)
    assert [bool(request.tools) for request in provider.requests] == [True, *[False] * 4]


async def test_a_refusal_is_that_of_its_model_and_provider() -> None:
    provider, other = MockProvider([REFUSAL], REACT_ANSWER, DONE), MockProvider(DONE, name="other")
    client = ChatClient(make_registry(provider, other), tools=[look])
    await all_of(client.chat("Hello.", ChatOptions(model="m")))

    [another_model] = await requests_of(client, provider, model="n")
    [another_provider] = await requests_of(client, other, model="m", provider="other")
    assert another_model.tools
    assert another_provider.tools


@each_row("options, tools", [({"react": False}, [look]), ({}, [])])
async def test_a_refusal_is_an_error_where_text_cannot_replace_tools(
    options: dict[str, Any], tools: list[Callable[..., Any]]
) -> None:
    client = make_client(MockProvider([REFUSAL]), *tools, **options)

    assert await all_of(client.chat("Hello.")) == [REFUSAL, TurnComplete(1), Finish("error")]


async def test_a_refusal_of_tools_as_text_is_an_error() -> None:
    provider = MockProvider([REFUSAL])
    events = await all_of(make_client(provider, look).chat("Hello."))

    assert events == [Retry(1, 0.0, REFUSAL), REFUSAL, TurnComplete(1), Finish("error")]
    assert len(provider.requests) == 2


@each_row("react, request_count", [(None, 1), (True, 0)])
async def test_tools_as_text_count_as_tokens(react: bool | None, request_count: int) -> None:
    provider = MockProvider([REFUSAL], REACT_ANSWER)
    client = ChatClient(
        make_registry(provider), tools=[look], token_limits=TokenLimits({"default": 20})
    )

    with pytest.raises(TokenLimitExceeded, match="> 20 for model default"):
        await all_of(client.chat("Hello.", ChatOptions(react=react)))
    assert len(provider.requests) == request_count


async def test_react_needs_no_end_of_the_response() -> None:
    provider = MockProvider([event for event in REACT_CALL if isinstance(event, TextEvent)], DONE)
    events = await all_of(make_client(provider, look, react=True).chat("Hello."))

    assert results_in(events) == ["rain"]
    assert ReasoningEvent("I look.") in events


# Unexpected errors


@pytest.mark.shows("002-P35", "002-65")
@EXAMPLES
@given(
    st.integers(0, 3),
    st.sampled_from((ValueError, KeyError, OSError, MemoryError, ChatError, TimeoutError)),
    st.text(max_size=5),
    st.sampled_from(("stream", "second turn", "count", "end", "tool")),
)
async def test_an_unexpected_error_is_an_event(
    position: int, error_type: type[Exception], message: str, place: str
) -> None:
    # Feature: stage-02-core-provider, Property 35: For any unexpected error during chat execution,
    # the system should emit an error event and continue running without crashing the process.
    error = error_type(message)
    steps: list[Step] = [TextEvent("a"), TextEvent("b"), TextEvent("c")]
    steps.insert(position, error)

    def fail() -> None:
        raise error

    provider: Any = {
        "stream": MockProvider(steps, DONE),
        "second turn": MockProvider(LOOK, steps, DONE),
        "count": CountingProvider(error, DONE),
        "end": UncleanProvider(TextEvent("a")),
        "tool": MockProvider(call_response(make_call("fail")), DONE),
    }[place]
    client = make_client(provider, look, fail)
    events = await all_of(client.chat("Hello."))

    assert pending_tasks() == set()
    if place == "tool":
        assert finish_reasons(events) == ["complete"]
        return
    assert finish_reasons(events) == ["error"]
    assert sum(isinstance(event, ErrorEvent) for event in events) == 1
    assert events[-1] == Finish("error")
    if isinstance(provider, MockProvider) and place != "count":
        assert provider.open_streams == 0
        assert finish_reasons(await all_of(client.chat("Hello."))) == ["complete"]


async def test_the_history_after_an_error_can_be_sent_again() -> None:
    provider = MockProvider(LOOK, [TextEvent("It "), ValueError("lost")], DONE)
    client = make_client(provider, look)
    await all_of(client.chat("Hello."))

    assert [message.role for message in client.messages] == ["user", "assistant", "tool"]
    assert client.messages[-1].parts


# Cancellation


class Moments:
    """Counts the moments of a chat, and cancels it at the given one."""

    def __init__(self, cancel_at: int) -> None:
        self.cancel = asyncio.Event()
        self.count = 0
        self._cancel_at = cancel_at

    async def pass_one(self) -> None:
        """Pass a moment; the chat hangs where it is cancelled, so that only that can end it."""
        self.count += 1
        await asyncio.sleep(0)
        if self.count > self._cancel_at:
            self.cancel.set()
            await asyncio.Event().wait()


class MomentsProvider:
    """A provider each of whose events is a moment."""

    name = "moments"

    def __init__(self, moments: Moments, calls: list[list[ToolCall]]) -> None:
        self.open_streams = 0
        self._moments = moments
        self._calls = calls

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Call tools, or give an answer in the last turn."""
        self.open_streams += 1
        try:
            await self._moments.pass_one()
            yield TextEvent("I look.")
            for call in self._calls[request.turn - 1] if request.turn <= len(self._calls) else ():
                await self._moments.pass_one()
                yield ToolCallStart(call)
            await self._moments.pass_one()
            yield ResponseEnd("stop")
        finally:
            self.open_streams -= 1
            await asyncio.sleep(0)  # as the closing of a connection does


@pytest.mark.shows("002-P05", "002-P34", "002-65")
@EXAMPLES
@given(
    st.lists(st.integers(1, 3), max_size=2),
    st.integers(0, 25),
    st.integers(0, 25),
    st.sampled_from((1, None)),
    st.integers(0, 4),
)
@example([2], 0, 99, None, 0)
@example([2], 99, 0, None, 0)
async def test_a_chat_can_be_cancelled_at_every_moment(
    call_counts: list[int],
    moment: int,
    event_number: int,
    concurrency: int | None,
    steps_of_the_consumer: int,
) -> None:
    # Feature: stage-02-core-provider, Property 5: For any chat stream in progress, triggering the
    # abort signal should cause the stream to terminate and emit a cancellation event.
    # Feature: stage-02-core-provider, Property 34: For any aborted chat stream, the system should
    # clean up resources (close connections, cancel pending operations) and emit a cancellation
    # event.
    moments = Moments(moment)
    running: set[str] = set()

    async def work(name: str) -> None:
        running.add(name)
        try:
            await moments.pass_one()
            await moments.pass_one()
        finally:
            running.remove(name)
            await asyncio.sleep(0)

    calls = [
        [make_call("work", f"{turn}-{number}", name=f"{turn}-{number}") for number in range(count)]
        for turn, count in enumerate(call_counts)
    ]
    provider = MomentsProvider(moments, calls)
    client = make_client(provider, work, tool_concurrency=concurrency)
    events: list[ChatEvent] = []
    async with aclosing(client.chat("Hello.", cancel=moments.cancel)) as stream:
        async for event in stream:
            assert isinstance(event, Finish) or not moments.cancel.is_set()
            for _ in range(steps_of_the_consumer):
                await asyncio.sleep(0)
            if len(events) == event_number and not isinstance(event, Finish):
                moments.cancel.set()  # while the consumer has this event
            events.append(event)

    assert events[-1] == Finish("cancelled" if moments.cancel.is_set() else "complete")
    assert len(finish_reasons(events)) == 1
    assert pending_tasks() == set()
    assert (provider.open_streams, running) == (0, set())


class HangingProvider:
    """A provider that yields one event, hangs, and closes its connection in several steps."""

    name = "hanging"

    def __init__(self, *, ignores: int = 0) -> None:
        self.log: list[str] = []
        self._cancellations_to_ignore = ignores

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Yield an event and hang; some cancellations are answered with one more event."""
        self.log.append("open")
        try:
            yield TextEvent("It ")
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if not self._cancellations_to_ignore:
                        raise
                    self._cancellations_to_ignore -= 1
                    yield TextEvent("still ")
        finally:
            self.log.append("closing")
            for _ in range(5):
                await asyncio.sleep(0)
            self.log.append("closed")


@pytest.mark.shows("002-65")
@each_row("steps_of_the_consumer", range(10))
async def test_a_connection_is_closed_while_the_consumer_is_busy(
    steps_of_the_consumer: int,
) -> None:
    """And is closed in full, though the consumer comes back in the meantime."""
    provider, cancel = HangingProvider(), asyncio.Event()
    events = make_client(provider).chat("Hello.", cancel=cancel)
    assert await anext(events) == TextEvent("It ")
    await asyncio.sleep(0)
    cancel.set()
    for _ in range(steps_of_the_consumer):
        await asyncio.sleep(0)

    assert provider.log == ["open", "closing", "closed"][: len(provider.log)]
    assert len(provider.log) == 3 or steps_of_the_consumer < 9
    assert await all_of(events) == [Finish("cancelled")]
    assert provider.log == ["open", "closing", "closed"]
    assert pending_tasks() == set()


async def test_a_chat_waits_for_the_consumer_to_ask_for_the_next_event() -> None:
    """So a consumer that cancels at the start of a call prevents it."""
    yielded: list[int] = []

    class Eager(MockProvider):
        async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
            for number in range(20):
                yielded.append(number)
                yield TextEvent(str(number))

    events = make_client(Eager()).chat("Hello.", cancel=asyncio.Event())
    assert await anext(events) == TextEvent("0")
    for _ in range(20):
        await asyncio.sleep(0)

    assert yielded == [0]
    assert len(await all_of(events)) == 19 + 2


async def test_a_chat_ends_though_its_provider_ignores_a_cancellation() -> None:
    provider, cancel = HangingProvider(ignores=1), asyncio.Event()
    events = make_client(provider).chat("Hello.", cancel=cancel)
    assert await anext(events) == TextEvent("It ")
    await asyncio.sleep(0)
    cancel.set()

    assert await all_of(events) == [Finish("cancelled")]
    assert provider.log == ["open", "closing", "closed"]
    assert pending_tasks() == set()


async def test_a_chat_that_is_cancelled_before_it_begins_sends_no_request() -> None:
    provider, cancel = MockProvider(DONE), asyncio.Event()
    cancel.set()

    assert await all_of(make_client(provider).chat("Hello.", cancel=cancel)) == [
        Finish("cancelled")
    ]
    assert provider.requests == []
    assert pending_tasks() == set()


async def test_an_event_that_is_ready_when_a_chat_is_cancelled_is_left_out() -> None:
    cancel = asyncio.Event()

    class Cancelling(MockProvider):
        async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
            cancel.set()
            yield TextEvent("It ")

    events = make_client(Cancelling()).chat("Hello.", cancel=cancel)
    assert await all_of(events) == [Finish("cancelled")]


async def test_a_chat_that_is_cancelled_after_its_end_stays_complete() -> None:
    cancel = asyncio.Event()
    events = make_client(MockProvider(DONE)).chat("Hello.", cancel=cancel)
    reasons = []
    async for event in events:
        if isinstance(event, Finish):
            cancel.set()
            reasons.append(event.reason)

    assert reasons == ["complete"]


@pytest.mark.shows("002-65")
async def test_the_turn_that_is_cancelled_is_not_in_the_messages() -> None:
    cancel, never = asyncio.Event(), asyncio.Event()
    client = make_client(MockProvider(LOOK, [TextEvent("It "), never]), look)
    async for event in client.chat("Hello.", cancel=cancel):
        if isinstance(event, TextEvent):
            cancel.set()

    assert [message.role for message in client.messages] == ["user", "assistant", "tool"]


async def test_an_error_while_a_cancelled_stream_is_closed_does_not_hide_the_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancel = asyncio.Event()
    events = make_client(UncleanProvider(TextEvent("It "), TextEvent("is."))).chat(
        "Hello.", cancel=cancel
    )
    assert await anext(events) == TextEvent("It ")
    cancel.set()

    assert await all_of(events) == [Finish("cancelled")]
    assert pending_tasks() == set()
    assert caplog.records == []


@each_row("error", [OSError("cannot close"), asyncio.CancelledError("cannot close")])
async def test_an_error_while_a_stream_is_closed_reaches_who_closes_it(
    error: BaseException,
) -> None:
    provider = UncleanProvider(TextEvent("It "), TextEvent("is."), error=error)
    events = make_client(provider).chat("Hello.")
    assert await anext(events) == TextEvent("It ")

    with pytest.raises(type(error), match="cannot close"):
        await events.aclose()


@each_row("has_cancel", [True, False])
async def test_closing_a_chat_closes_the_connection_and_cancels_the_tools(
    has_cancel: bool,
) -> None:
    running = asyncio.Event()
    was_cancelled = False

    async def hang() -> None:
        nonlocal was_cancelled
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled = True

    async def work() -> None:
        await running.wait()

    called = [make_call("work"), make_call("hang", "call-2")]
    provider = MockProvider(call_response(*called))
    events = make_client(provider, hang, work).chat(
        "Hello.", cancel=asyncio.Event() if has_cancel else None
    )
    async for event in events:
        if isinstance(event, ToolCallResult):
            break
    await events.aclose()

    assert was_cancelled
    assert provider.open_streams == 0
    assert pending_tasks() == set()


@each_row("has_cancel", [True, False])
async def test_a_chat_that_is_left_is_closed_by_python(has_cancel: bool) -> None:
    provider = HangingProvider()
    cancel = asyncio.Event() if has_cancel else None
    async for _ in make_client(provider).chat("Hello.", cancel=cancel):
        break
    await wait_until(lambda: provider.log == ["open", "closing", "closed"])
    await wait_until(lambda: not pending_tasks())


@each_row("has_cancel", [True, False])
async def test_a_task_that_chats_can_be_cancelled(has_cancel: bool) -> None:
    provider = HangingProvider()
    cancel = asyncio.Event() if has_cancel else None
    task = asyncio.create_task(all_of(make_client(provider).chat("Hello.", cancel=cancel)))
    await wait_until(lambda: provider.log == ["open"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert provider.log == ["open", "closing", "closed"]
    assert pending_tasks() == set()


async def test_an_error_of_the_application_passes_through_a_chat_that_can_be_cancelled() -> None:
    client = make_client(MockProvider(DONE), provider="other")

    with pytest.raises(ChatError, match="No provider available"):
        await all_of(client.chat("Hello.", cancel=asyncio.Event()))
    assert pending_tasks() == set()


@pytest.mark.shows("002-69")
async def test_a_mock_provider_gives_events_errors_delays_and_token_counts() -> None:
    rest = asyncio.Event()
    provider = CountingProvider(7, [TextEvent("It "), rest, ValueError("lost")])
    request = Conversation((HELLO,))
    assert await provider.count_tokens(request) == 7

    events = provider.chat_stream(request)
    assert await anext(events) == TextEvent("It ")
    rest.set()
    with pytest.raises(ValueError, match="lost"):
        await anext(events)


# ReAct and the choice of a tool


@each_row(
    "choice, demand",
    [
        (None, ""),
        ("auto", ""),
        ("required", "Use a tool in your next response."),
        (ForcedTool("look"), "Use the tool look in your next response."),
    ],
)
async def test_react_words_the_choice_of_a_tool(choice: ToolChoice | None, demand: str) -> None:
    provider = MockProvider(text_response("Final Answer: Yes."))
    await all_of(make_client(provider, look, react=True, tool_choice=choice).chat("Hello."))

    [sent] = provider.requests
    assert sent.tool_choice is None
    assert sent.system.startswith("You have access to the following tools:")
    assert sent.system.endswith(demand or "[Your response to the user]")


@each_row("options", [{"tool_choice": "none"}, {"tools": ()}])
async def test_react_without_offered_tools_is_a_plain_request(options: dict[str, Any]) -> None:
    provider = MockProvider(text_response("Action: look\nAction Input: {}"))
    client = make_client(provider, look, react=True, **options)
    events = await all_of(client.chat("Hello."))

    assert TextEvent("Action: look\nAction Input: {}") in events
    assert (provider.requests[0].system, provider.requests[0].tools) == ("", ())


async def test_react_words_the_native_turns_of_a_history() -> None:
    provider = MockProvider(text_response("Final Answer: Yes."))
    call = ToolCall("call-1", "look", "")
    history = [
        Message("user", (Text("Look."),)),
        Message("assistant", (Text("Let me look."), call)),
        Message("tool", (ToolResult("call-1", f'{{"seen":{10**30 + 1}}}', "look"),)),
        Message("assistant", (Text("Cheese."),)),
    ]
    client = make_client(provider, look, react=True)
    await all_of(client.chat("Again.", history=history))

    assert [message.text for message in provider.requests[0].messages] == [
        "Look.",
        "Thought: Let me look.\nAction: look\nAction Input: {}",
        f'Observation: {{"seen":{10**30 + 1}}}',
        "Final Answer: Cheese.",
        "Again.",
    ]


@each_row(
    "options, message",
    [
        ({"tools": ("gone",)}, "unknown tool 'gone'; the tools of this client are: look"),
        ({"tool_choice": ForcedTool("gone")}, "'gone' is not offered; offered are: look"),
        (
            {"tools": (), "tool_choice": ForcedTool("look")},
            "'look' is not offered; offered are: none",
        ),
    ],
)
async def test_an_unknown_tool_is_refused_by_its_name(
    options: dict[str, Any], message: str
) -> None:
    client = make_client(MockProvider(DONE), look, **options)

    with pytest.raises(ValueError, match=message):
        await all_of(client.chat("Hello."))
