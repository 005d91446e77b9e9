"""Conversations of `llm_chat` with a real model are replayed, and recorded again.

The conversations are those of `chat_conversations`; `cassettes/chat` has their recordings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from chat_conversations import ChatConversation, conversations, hold_conversation
from in_process_proxy import proxy
from live_model import CHAT_TEMPLATE, running_model
from llm_chat import (
    ChatEvent,
    ErrorEvent,
    Finish,
    ProviderRegistry,
    ReasoningEvent,
    ResponseEnd,
    TextEvent,
    ToolCallStart,
    TurnComplete,
    providers_from_environment,
    react,
)
from llm_proxy import dialects
from llm_proxy.cassette import Cassette
from llm_proxy.dialects import DialectResponse
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.turns import ToolCall, Turn

LIBRARY: Final = Library(Path(__file__).parents[1] / "cassettes" / "chat")
LIBRARY.refresh()
CONVERSATIONS: Final = conversations()
MAX_TOTAL_BYTES: Final = 400_000
"""The most bytes of all cassettes together: whoever clones the project downloads them."""
OUTCOMES: Final = {
    "a question": "stop complete",
    "two questions": "stop complete stop complete",
    "a token limit": "length complete",
    "openai-responses: a token limit": "stop complete",  # llama.cpp does not report the limit
    "a tool": "tool stop complete",
    "ReAct": "tool stop complete",
    "the history of another provider": "tool stop complete stop complete length complete",
    "ReAct, invalid JSON": "length corrected tool length complete",
    "ReAct, JSON cut off at a token limit": "length corrected length corrected max_turns",
}
"""The reasons why responses and chats end, by conversation, or by what it has with all providers.
"""


def registry_for(url: str) -> ProviderRegistry:
    """The providers of an application that has only the base URLs of its SDKs."""
    return providers_from_environment({"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url})


def played_cassettes(running: RunningProxy) -> list[Cassette]:
    """The cassettes that were replayed, in order; asserts that nothing else was requested."""
    entries = running.journal.entries
    assert [(entry.status, entry.ending) for entry in entries] == [(200, "sent")] * len(entries)
    return [LIBRARY.load_cassette(Path(entry.origin)) for entry in entries]


def recorded_turn(cassette: Cassette) -> Turn:
    response = DialectResponse(
        cassette.response_head, cassette.codec_name, cassette.framed_messages
    )
    [turn] = dialects.dialect_named(cassette.meta.dialect).decode_response(response)
    return turn


def split_by_response(events: Iterable[ChatEvent]) -> Iterator[tuple[list[ChatEvent], ResponseEnd]]:
    """The events of each response, and its end."""
    of_response: list[ChatEvent] = []
    for event in events:
        match event:
            case TurnComplete(response=end) if end:
                yield of_response, end
                of_response = []
            case _:
                of_response.append(event)


def outcome(events: Iterable[ChatEvent]) -> str:
    """The reasons why responses and chats ended, and which responses were to be corrected."""
    words: list[str] = []
    for event in events:
        match event:
            case TurnComplete(response=end) if end:
                words += [end.reason, *["corrected"] * bool(end.correction)]
            case Finish(reason=reason):
                words.append(reason)
            case ErrorEvent():
                words.append(str(event))
            case _:
                pass
    return " ".join(words)


@each_row("name, conversation", CONVERSATIONS.items(), ids=CONVERSATIONS)
async def test_a_recorded_conversation_has_the_events_of_its_responses(
    name: str, conversation: ChatConversation, tmp_path: Path
) -> None:
    async with proxy("replay", tmp_path, cassettes=LIBRARY.root, pace=InstantPace()) as running:
        events = await hold_conversation(conversation, registry_for(running.url))
        cassettes = played_cassettes(running)

    assert outcome(events) == (OUTCOMES.get(name) or OUTCOMES[name.partition(": ")[2]])
    responses = split_by_response(events)
    for cassette, (of_response, end) in zip(cassettes, responses, strict=True):
        turn = recorded_turn(cassette)
        assert (end.usage, end.raw_reason) == (turn.usage, turn.finish_raw)
        if conversation.options.react:
            assert_same_output(of_response, react.parse(turn.text))
        else:
            assert_same_parts(of_response, turn)
            assert end.parts == turn.parts


def joined_text(events: Iterable[ChatEvent], kind: type[TextEvent | ReasoningEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def assert_same_parts(events: list[ChatEvent], turn: Turn) -> None:
    """Assert that the events of a response are what its dialect decodes."""
    assert joined_text(events, TextEvent) == turn.text
    assert [event.call for event in events if isinstance(event, ToolCallStart)] == [
        part for part in turn.parts if isinstance(part, ToolCall)
    ]


def assert_same_output(events: list[ChatEvent], output: react.ReactOutput) -> None:
    """Assert that the events of a response are what its text means in ReAct."""
    calls = [(event.call.name, event.args) for event in events if isinstance(event, ToolCallStart)]
    has_call = output.is_tool_call and output.action_input is not None
    assert joined_text(events, ReasoningEvent) == (output.thought or "")
    assert joined_text(events, TextEvent) == (output.final_answer or "")
    assert calls == [(output.action, output.action_input)] * has_call


async def hold_all_conversations(url: str) -> list[list[ChatEvent]]:
    """The events of all conversations, which are held one after another."""
    return [
        await hold_conversation(conversation, registry_for(url))
        for conversation in CONVERSATIONS.values()
    ]


async def test_every_recording_belongs_to_a_conversation(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path, cassettes=LIBRARY.root, pace=InstantPace()) as running:
        first = await hold_all_conversations(running.url)
        played = [Path(cassette.file) for cassette in played_cassettes(running)]
        again = await hold_all_conversations(running.url)

    assert sorted(played) == LIBRARY.cassette_paths()
    assert sum(path.stat().st_size for path in played) <= MAX_TOTAL_BYTES
    assert again == first


@pytest.mark.live
@pytest.mark.timeout(600)
async def test_conversations_with_the_model_are_recorded_and_replayed(tmp_path: Path) -> None:
    server_options = ("-c", "2048", "--jinja", "--chat-template-file", str(CHAT_TEMPLATE))
    with running_model(tmp_path / "log", "--alias", "smollm2-135m", *server_options) as url:
        async with proxy("record", tmp_path, url) as recording:
            live = await hold_all_conversations(recording.url)
    async with proxy("replay", tmp_path) as replay:
        again = await hold_all_conversations(replay.url)

    assert again == live
    assert not [event for events in live for event in events if isinstance(event, ErrorEvent)]
