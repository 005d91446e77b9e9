"""Reasoning in scripted answers, in provider metadata, and in the history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import dialect_of_request
from llm_proxy.exchange import Request
from llm_proxy.scenario import choosing
from llm_proxy.scenario.choosing import ChosenScenario, ScenarioSet, choose_scenario
from llm_proxy.turns import Part, Reasoning, Text, ToolCall
from scenario_server import (
    DIALECTS,
    PROVIDERS,
    RequestSpec,
    encode_request,
    in_every_form,
    locate_scenario,
    make_match_context,
    mismatch_message,
    parse_scenario,
    respond_to,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    text_turn,
    tool_call_turn,
    turn_of_response,
)


def answer_parts(kind: str, dialect: str = "openai-chat", **fields: Any) -> tuple[Part, ...]:
    """Return the parts of such an answer before a dialect encodes it."""
    context = replace(make_match_context("refund"), dialect=dialect, provider=PROVIDERS[dialect])
    return turn_of_response(respond_to(single_turn_scenario(kind, **fields), context)).parts


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
@each_row(
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

    assert answer_parts("text", **fields) == (
        Reasoning("One."), *map(Reasoning, texts), Text("Hi."),
    )  # fmt: skip


@pytest.mark.shows("000-84")
def test_a_thought_has_the_metadata_of_its_own_provider_only() -> None:
    parts_by_dialect = {
        dialect: answer_parts("text", dialect, assistantText="Hi.", **THOUGHTS)[:2]
        for dialect in DIALECTS
    }

    assert parts_by_dialect == {
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
    async with serve_scenarios(
        tmp_path, single_turn_scenario("text", assistantText="Hi.", **THOUGHTS)
    ) as server:
        documents = {
            dialect: (await server.send(dialect, stream=False)).json for dialect in DIALECTS
        }

    chat = documents["openai-chat"]["choices"][0]["message"]
    assert (chat["reasoning_content"], chat["content"]) == ("One.Two.", "Hi.")
    first, *_, last = documents["openai-responses"]["output"]
    assert (first["type"], last["type"]) == ("reasoning", "message")
    assert first["summary"] == [{"type": "summary_text", "text": "One."}]
    assert first["encrypted_content"] == "enc"
    first, _, last = documents["anthropic"]["content"]
    assert first == {"type": "thinking", "thinking": "One.", "signature": "sig"}
    assert last == {"type": "text", "text": "Hi."}
    first, second, last = documents["gemini"]["candidates"][0]["content"]["parts"]
    assert first == {"text": "One.", "thought": True, "thoughtSignature": "c2ln"}
    assert second == {"text": "Two.", "thought": True}
    assert last == {"text": "Hi."}
    message = documents["ollama"]["message"]
    assert (message["thinking"], message["content"]) == ("One.Two.", "Hi.")


@pytest.mark.shows("000-84", "000-104")
@in_every_form
async def test_sealed_thoughts_are_sealed(tmp_path: Path, stream: bool) -> None:
    sealed = {"anthropic": {"redactedData": "c2VhbA=="}}
    document = single_turn_scenario(
        "text", assistantText="Hi.", reasoningContent={"providerMetadata": sealed}
    )
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send("anthropic", stream=stream)

    assert response.turn.parts == (Reasoning("", redacted="c2VhbA=="), Text("Hi."))


@pytest.mark.shows("000-77", "000-102", "000-104")
@in_every_form
async def test_metadata_of_the_answer_is_sent_by_its_provider_and_journaled_with_the_turn(
    tmp_path: Path, stream: bool
) -> None:
    metadata = {
        "openai": {"system_fingerprint": "fp_1", "service_tier": "flex"},
        "anthropic": {"container": {"id": "c"}},
    }
    document = single_turn_scenario("text", assistantText="Hi.", providerMetadata=metadata)
    async with serve_scenarios(tmp_path, document) as server:
        openai_response = await server.send("openai-chat", stream=stream)
        ollama_response = await server.send("ollama", stream=stream)
        entries = (await server.request_proxy_page("journal"))["entries"]

    assert {"system_fingerprint": "fp_1", "service_tier": "flex"}.items() <= dict(
        openai_response.turn.metadata
    ).items()
    assert "fp_1" not in ollama_response.raw_response.body.decode()
    assert [entry["simulated"]["metadata"] for entry in entries] == [metadata] * 2


# In the history


THOUGHT: Final = Reasoning("Hm.")
SIGNED: Final = Reasoning("Sure.", signature="sig")
SEALED: Final = Reasoning(redacted="c2VhbA==")
CALL: Final = ToolCall("call-1", "a", "{}")


def conversation_of(*messages: tuple[Part, ...], **fields: Any) -> Conversation:
    """Return a conversation with these messages of the model, and with reasoning on."""
    turns = [
        item
        for parts in messages
        for item in (_user_message("Go on."), RequestMessage("assistant", parts))
    ]
    return Conversation(
        (*turns, _user_message("And?")),
        **{"reasoning_enabled": True, "wants_signed_reasoning": True} | fields,
    )


def _user_message(text: str) -> RequestMessage:
    return RequestMessage("user", (Text(text),))


def visible_conversation(
    conversation: Conversation, **scenario: Any
) -> tuple[Conversation, tuple[str, ...]]:
    """Return the conversation that a scenario sees, and its notes."""
    context = replace(make_match_context("refund"), conversation=conversation)
    view, notes = choosing.context_visible_to_scenario(
        parse_scenario(scenario_document(text_turn(), **scenario)), context
    )
    return view.conversation, notes


@pytest.mark.shows("000-86", "000-90")
def test_reasoning_that_bears_no_signature_is_stripped_and_counts_as_off() -> None:
    before = conversation_of((THOUGHT, Text("One moment."), CALL))

    after, notes = visible_conversation(before)

    assert notes == ("reasoning without a signature was removed from message 2",)
    assert after == conversation_of((Text("One moment."), CALL), reasoning_enabled=False)
    assert before.messages[1].parts[0] == THOUGHT


@pytest.mark.shows("000-86")
@each_row(
    "conversation",
    [
        Conversation(
            (_user_message("refund"),), reasoning_enabled=True, wants_signed_reasoning=True
        ),
        conversation_of((THOUGHT, CALL), wants_signed_reasoning=False),
    ],
    ids=["first turn", "no signature is expected"],
)
def test_the_first_turn_and_other_dialects_are_left_alone(conversation: Conversation) -> None:
    assert visible_conversation(conversation) == (conversation, ())


@pytest.mark.shows("000-86")
def test_a_scenario_may_say_whether_signatures_are_expected() -> None:
    unsigned = (THOUGHT, CALL)

    assert visible_conversation(conversation_of(unsigned), expectSignature=False) == (
        conversation_of(unsigned),
        (),
    )
    assert (
        visible_conversation(
            conversation_of(unsigned, wants_signed_reasoning=False), expectSignature=True
        )[0].reasoning_enabled
        is False
    )


@pytest.mark.shows("000-87")
@each_row("parts", [(THOUGHT, Text("No call.")), (CALL,), (Text("Neither."),)])
def test_only_messages_with_a_call_and_a_thought_are_looked_at(parts: tuple[Part, ...]) -> None:
    assert visible_conversation(conversation_of(parts)) == (conversation_of(parts), ())


@pytest.mark.shows("000-88", "000-89", "000-103")
@each_row(
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
    after, notes = visible_conversation(conversation_of(parts))

    assert after.messages[1].parts == (parts if kept else (CALL,))
    assert (after.reasoning_enabled, bool(notes)) == (kept, not kept)


@pytest.mark.shows("000-88", "000-90")
def test_each_message_that_lost_its_reasoning_is_named() -> None:
    _, notes = visible_conversation(
        conversation_of((THOUGHT, CALL), (SIGNED, CALL), (THOUGHT, CALL))
    )

    assert notes == tuple(
        f"reasoning without a signature was removed from message {item}" for item in (2, 6)
    )


def anthropic_body(block: dict[str, Any]) -> dict[str, Any]:
    """Return an Anthropic request whose history has this block and a tool call."""
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
@each_row(("block", "sealed"), BLOCKS)
async def test_blocks_of_anthropics_are_sealed_by_a_signature_or_by_data(
    tmp_path: Path, block: dict[str, Any], sealed: bool
) -> None:
    document = scenario_document(
        tool_call_turn("a"), text_turn("Thought.", expectedReasoning="enabled")
    )
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send("anthropic", more=anthropic_body(block))

    if sealed:
        assert response.turn.text == "Thought."
        assert server.last_simulated.notes == ()
    else:
        assert mismatch_message(response) == "Expected reasoning to remain enabled"
        assert server.last_simulated.notes == (
            "reasoning without a signature was removed from message 2",
        )


@pytest.mark.shows("000-90")
async def test_the_answer_is_not_changed_and_the_journal_names_the_message(
    tmp_path: Path,
) -> None:
    document = scenario_document(
        tool_call_turn("a"),
        single_turn_scenario("text", assistantText="Hi.", **THOUGHTS)["turns"][0],
    )
    document["turns"][1]["turn"] = 2
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send("anthropic", more=anthropic_body(UNSIGNED), stream=False)
        [entry] = (await server.request_proxy_page("journal"))["entries"]

    assert [item["type"] for item in response.json["content"]] == ["thinking", "thinking", "text"]
    assert entry["simulated"]["notes"] == [
        "reasoning without a signature was removed from message 2"
    ]
    assert server.journal.failed_sessions == []


@pytest.mark.shows("000-90")
@each_row(("block", "sealed"), BLOCKS[:2])
async def test_templates_and_matchers_see_what_is_left_of_it(
    tmp_path: Path, block: dict[str, Any], sealed: bool
) -> None:
    template = "Blocks: {{ $.messages[1].content[*].type }}."
    matcher = {"json": {"$.messages[1].content[?@.type == 'thinking']": {"exists": True}}}
    body = anthropic_body(block)
    document = scenario_document(tool_call_turn("a"), text_turn(template), templates=True)
    async with serve_scenarios(tmp_path, document) as server:
        response = await server.send("anthropic", more=body)

    kept = "thinking\ntool_use" if sealed else "tool_use"
    assert response.turn.text == f"Blocks: {kept}."
    matched = locate_scenario(scenario_document(text_turn(), name="matched", match=matcher))
    context = await _match_context(body)
    assert (
        isinstance(choose_scenario(ScenarioSet((matched,)), context, thread_time), ChosenScenario)
        == sealed
    )


async def _match_context(body: dict[str, Any]) -> Any:
    request = encode_request("anthropic", RequestSpec(more=body))
    conversation = dialect_of_request(request).decode_request(request)
    assert conversation is not None
    return replace(make_match_context(), conversation=conversation, body=json.loads(request.body))


@pytest.mark.shows("000-90")
def test_converse_bodies_are_stripped_too() -> None:
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
    conversation = dialect_of_request(request).decode_request(request)
    assert conversation is not None

    view, notes = choosing.context_visible_to_scenario(
        parse_scenario(scenario_document()),
        replace(make_match_context(), conversation=conversation, body=body),
    )

    assert notes == ("reasoning without a signature was removed from message 2",)
    assert view.body == {
        "messages": [body["messages"][0], {"role": "assistant", "content": [called]}]
    }
