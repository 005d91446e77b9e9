"""Reasoning: in scripted answers, what one provider alone knows of it, and in the history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any, Final

import pytest

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import find_dialect
from llm_proxy.exchange import Request
from llm_proxy.scenario.engine import unsigned_reasoning
from llm_proxy.scenario.engine.choosing import ChosenScenario, choose_scenario
from llm_proxy.scenario.engine.scenario_set import ScenarioSet
from llm_proxy.turns import Part, Reasoning, Text, ToolCall
from scenario_server import (
    DIALECTS,
    PROVIDERS,
    Question,
    answering,
    calls,
    cue,
    directed,
    error_turn,
    in_every_form,
    playing,
    read,
    reported,
    says,
    script,
    scripted,
    spelled,
    turn_of,
)


def parts(kind: str, dialect: str = "openai-chat", **fields: Any) -> tuple[Part, ...]:
    """The parts of such an answer, before a dialect speaks."""
    on = replace(cue("refund"), dialect=dialect, provider=PROVIDERS[dialect])
    return turn_of(directed(answering(kind, **fields), on)).parts


# In answers

THOUGHTS: Final = {
    "reasoning": [
        {
            "text": "One.",
            "providerMetadata": {
                "anthropic": {"signature": "sig"},
                "google": {"thoughtSignature": "c2ln"},
                "openai": {"encrypted_content": "enc"},
            },
        },
        {"text": "Two."},
    ],
}


@pytest.mark.shows("000-81", "000-82", "000-83", "000-104")
@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("Three.", ["Three."]),
        ({"text": "Three."}, ["Three."]),
        (["Three.", {"text": "Four."}], ["Three.", "Four."]),
        ([], []),
        (None, []),
    ],
)
def test_reasoning_has_many_forms_and_its_list_comes_first(content: Any, texts: list[str]) -> None:
    fields = {"assistantText": "Hi.", "reasoningContent": content, "reasoning": [{"text": "One."}]}

    assert parts("text", **fields) == (
        Reasoning("One."), *map(Reasoning, texts), Text("Hi."),
    )  # fmt: skip


@pytest.mark.shows("000-84")
def test_a_thought_keeps_what_its_provider_says_of_it_and_has_no_such_word_otherwise() -> None:
    said = {
        dialect: parts("text", dialect, assistantText="Hi.", **THOUGHTS)[:2] for dialect in DIALECTS
    }

    assert said == {
        "openai-chat": (Reasoning("One.", redacted="enc"), Reasoning("Two.")),
        "openai-responses": (Reasoning("One.", redacted="enc"), Reasoning("Two.")),
        "anthropic": (Reasoning("One.", "sig"), Reasoning("Two.")),
        "gemini": (Reasoning("One.", "c2ln"), Reasoning("Two.")),
        "ollama": (Reasoning("One."), Reasoning("Two.")),
    }


@pytest.mark.shows("000-84", "000-85", "000-104")
async def test_each_dialect_has_its_own_place_for_thoughts_before_everything_else(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path, answering("text", assistantText="Hi.", **THOUGHTS)) as stage:
        heard = {dialect: (await stage.ask(dialect, stream=False)).json for dialect in DIALECTS}

    chat = heard["openai-chat"]["choices"][0]["message"]
    assert (chat["reasoning_content"], chat["content"]) == ("One.Two.", "Hi.")
    first, *_, last = heard["openai-responses"]["output"]
    assert (first["type"], last["type"]) == ("reasoning", "message")
    assert first["summary"] == [{"type": "summary_text", "text": "One."}]
    assert first["encrypted_content"] == "enc"
    first, _, last = heard["anthropic"]["content"]
    assert first == {"type": "thinking", "thinking": "One.", "signature": "sig"}
    assert last == {"type": "text", "text": "Hi."}
    first, second, last = heard["gemini"]["candidates"][0]["content"]["parts"]
    assert first == {"text": "One.", "thought": True, "thoughtSignature": "c2ln"}
    assert second == {"text": "Two.", "thought": True}
    assert last == {"text": "Hi."}
    message = heard["ollama"]["message"]
    assert (message["thinking"], message["content"]) == ("One.Two.", "Hi.")


@pytest.mark.shows("000-84", "000-104")
@in_every_form
async def test_sealed_thoughts_are_sealed(tmp_path: Path, stream: bool) -> None:
    sealed = {"anthropic": {"redactedData": "c2VhbA=="}}
    document = answering("text", assistantText="Hi.", reasoningContent={"providerMetadata": sealed})
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask("anthropic", stream=stream)

    assert heard.turn.parts == (Reasoning("", redacted="c2VhbA=="), Text("Hi."))


@pytest.mark.shows("000-77", "000-102", "000-104")
@in_every_form
async def test_metadata_of_the_answer_is_told_by_its_provider_and_reported_with_the_turn(
    tmp_path: Path, stream: bool
) -> None:
    metadata = {
        "openai": {"system_fingerprint": "fp_1", "service_tier": "flex"},
        "anthropic": {"container": {"id": "c"}},
    }
    document = answering("text", assistantText="Hi.", providerMetadata=metadata)
    async with playing(tmp_path, document) as stage:
        openais = await stage.ask("openai-chat", stream=stream)
        ollamas = await stage.ask("ollama", stream=stream)
        entries = (await stage.page("journal"))["entries"]

    assert {"system_fingerprint": "fp_1", "service_tier": "flex"}.items() <= dict(
        openais.turn.metadata
    ).items()
    assert "fp_1" not in ollamas.raw.body.decode()
    assert [entry["simulated"]["metadata"] for entry in entries] == [metadata] * 2


# In the history


THOUGHT: Final = Reasoning("Hm.")
SIGNED: Final = Reasoning("Sure.", signature="sig")
SEALED: Final = Reasoning(redacted="c2VhbA==")
CALL: Final = ToolCall("call-1", "a", "{}")


def said(*messages: tuple[Part, ...], **about: Any) -> Conversation:
    """A conversation in which the model said these, and reasoning is on."""
    turns = [
        item for parts in messages for item in (_asks("Go on."), RequestMessage("assistant", parts))
    ]
    return Conversation(
        (*turns, _asks("And?")),
        **{"reasoning_enabled": True, "wants_signed_reasoning": True} | about,
    )


def _asks(text: str) -> RequestMessage:
    return RequestMessage("user", (Text(text),))


def seen(conversation: Conversation, **scenario: Any) -> tuple[Conversation, tuple[str, ...]]:
    """What a scenario sees of a conversation, and what it notes."""
    on = replace(cue("refund"), conversation=conversation)
    view, notes = unsigned_reasoning.visible_request(read(script(says(), **scenario)), on)
    return view.conversation, notes


@pytest.mark.shows("000-86", "000-90")
def test_reasoning_that_bears_no_signature_is_stripped_and_counts_as_off() -> None:
    before = said((THOUGHT, Text("One moment."), CALL))

    after, notes = seen(before)

    assert notes == ("reasoning without a signature stripped from message 2",)
    assert after == said((Text("One moment."), CALL), reasoning_enabled=False)
    assert before.messages[1].parts[0] == THOUGHT


@pytest.mark.shows("000-86")
@pytest.mark.parametrize(
    "conversation",
    [
        Conversation((_asks("refund"),), reasoning_enabled=True, wants_signed_reasoning=True),
        said((THOUGHT, CALL), wants_signed_reasoning=False),
    ],
    ids=["first turn", "no signature is expected"],
)
def test_the_first_turn_and_other_dialects_are_left_alone(conversation: Conversation) -> None:
    assert seen(conversation) == (conversation, ())


@pytest.mark.shows("000-86")
def test_a_scenario_may_say_whether_signatures_are_expected() -> None:
    unsigned = (THOUGHT, CALL)

    assert seen(said(unsigned), expectSignature=False) == (said(unsigned), ())
    assert (
        seen(said(unsigned, wants_signed_reasoning=False), expectSignature=True)[
            0
        ].reasoning_enabled
        is False
    )


@pytest.mark.shows("000-87")
@pytest.mark.parametrize(
    "parts", [(THOUGHT, Text("No call.")), (CALL,), (Text("Neither."),)], ids=str
)
def test_only_messages_with_a_call_and_a_thought_are_looked_at(parts: tuple[Part, ...]) -> None:
    assert seen(said(parts)) == (said(parts), ())


@pytest.mark.shows("000-88", "000-89", "000-103")
@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ((THOUGHT, SIGNED, CALL), True),
        ((THOUGHT, CALL, SEALED), True),
        ((SIGNED, CALL), True),
        ((THOUGHT, THOUGHT, CALL), False),
        ((Reasoning("Hm.", signature="", redacted=""), CALL), False),
    ],
)
def test_one_signature_keeps_a_message_whole_and_none_takes_all_its_reasoning(
    parts: tuple[Part, ...], kept: bool
) -> None:
    after, notes = seen(said(parts))

    assert after.messages[1].parts == (parts if kept else (CALL,))
    assert (after.reasoning_enabled, bool(notes)) == (kept, not kept)


@pytest.mark.shows("000-88", "000-90")
def test_each_message_that_lost_its_reasoning_is_named() -> None:
    _, notes = seen(said((THOUGHT, CALL), (SIGNED, CALL), (THOUGHT, CALL)))

    assert notes == tuple(
        f"reasoning without a signature stripped from message {item}" for item in (2, 6)
    )


def asked(block: dict[str, Any]) -> dict[str, Any]:
    """A request of Anthropic's whose model thought this and called a tool."""
    called = {"type": "tool_use", "id": "call-1", "name": "a", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call-1", "content": "21"}
    return {
        "messages": [
            {"role": "user", "content": "refund"},
            {"role": "assistant", "content": [block, called]},
            {"role": "user", "content": [result]},
        ],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


UNSIGNED: Final = {"type": "thinking", "thinking": "Hm.", "signature": ""}
BLOCKS: Final = [
    (UNSIGNED, False),
    ({"type": "thinking", "thinking": "Hm.", "signature": "sig"}, True),
    ({"type": "redacted_thinking", "data": "c2VhbA=="}, True),
]


@pytest.mark.shows("000-89", "000-90")
@pytest.mark.parametrize(("block", "sealed"), BLOCKS)
async def test_blocks_of_anthropics_are_sealed_by_a_signature_or_by_data(
    tmp_path: Path, block: dict[str, Any], sealed: bool
) -> None:
    document = script(calls("a"), says("Thought.", expectedReasoning="enabled"))
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask("anthropic", more=asked(block))

    if sealed:
        assert heard.turn.text == "Thought."
        assert stage.last.notes == ()
    else:
        assert reported(heard.turn) == error_turn("Expected reasoning to remain enabled")
        assert stage.last.notes == ("reasoning without a signature stripped from message 2",)


@pytest.mark.shows("000-90")
async def test_the_answer_is_not_changed_and_the_journal_names_the_message(
    tmp_path: Path,
) -> None:
    document = script(calls("a"), answering("text", assistantText="Hi.", **THOUGHTS)["turns"][0])
    document["turns"][1]["turn"] = 2
    async with playing(tmp_path, document) as stage:
        heard = await stage.ask("anthropic", more=asked(UNSIGNED), stream=False)
        [entry] = (await stage.page("journal"))["entries"]

    assert [item["type"] for item in heard.json["content"]] == ["thinking", "thinking", "text"]
    assert entry["simulated"]["notes"] == ["reasoning without a signature stripped from message 2"]
    assert stage.journal.unsuccessful == []


@pytest.mark.shows("000-90")
@pytest.mark.parametrize(("block", "sealed"), BLOCKS[:2])
async def test_templates_and_matchers_see_what_is_left_of_it(
    tmp_path: Path, block: dict[str, Any], sealed: bool
) -> None:
    template = "Blocks: {{ $.messages[1].content[*].type }}."
    there = {"json": {"$.messages[1].content[?@.type == 'thinking']": {"exists": True}}}
    body = asked(block)
    template_of = script(calls("a"), says(template), templates=True)
    async with playing(tmp_path, template_of) as stage:
        heard = await stage.ask("anthropic", more=body)

    kept = "thinking\ntool_use" if sealed else "tool_use"
    assert heard.turn.text == f"Blocks: {kept}."
    matched = scripted(script(says(), name="matched", match=there))
    on = await _cue(body)
    assert (
        isinstance(choose_scenario(ScenarioSet((matched,)), on, thread_time), ChosenScenario)
        == sealed
    )


async def _cue(body: dict[str, Any]) -> Any:
    request = spelled("anthropic", Question(more=body))
    conversation = find_dialect(request).decode_request(request)
    assert conversation is not None
    return replace(cue(), conversation=conversation, body=json.loads(request.body))


@pytest.mark.shows("000-90")
def test_bodies_of_converse_are_seen_so_too() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm."}}}
    called = {"toolUse": {"toolUseId": "call-1", "name": "a", "input": {}}}
    body: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": [{"text": "refund"}]},
            {"role": "assistant", "content": [thought, called]},
        ]
    }
    path = "/model/us.anthropic.claude-sonnet-5/converse"
    request = Request("POST", path, "", (), json.dumps(body).encode())
    conversation = find_dialect(request).decode_request(request)
    assert conversation is not None

    view, notes = unsigned_reasoning.visible_request(
        read(script()), replace(cue(), conversation=conversation, body=body)
    )

    assert notes == ("reasoning without a signature stripped from message 2",)
    assert view.body == {
        "messages": [body["messages"][0], {"role": "assistant", "content": [called]}]
    }
