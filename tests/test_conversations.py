"""What a request asks, read from every dialect: the same conversation, as far as it has words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_requests import (
    ANSWER,
    ARGUMENTS,
    CHAT,
    CITY,
    SAID,
    SEAL,
    SYSTEM,
    TOLD,
    WRAPPED,
    chat,
    claude,
    cohere,
    converse,
    gemini,
    generate,
    interaction,
    invoke,
    ollama,
    responses,
)
from dialect_manners import MANNERS, asking
from llm_proxy import dialects
from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import find_dialect
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Reasoning, Refusal, Text, ToolCall, ToolResult


def said(request: Request) -> Conversation:
    """What the request asks."""
    conversation = find_dialect(request).decode_request(request)
    assert conversation is not None
    return conversation


def apart(conversation: Conversation) -> Conversation:
    """The conversation with its system prompt where it is kept by itself."""
    spoken = tuple(message for message in conversation.messages if message.role != "system")
    return replace(conversation, messages=spoken)


@pytest.mark.shows("000-24", "000-29", "000-31", "000-42")
@pytest.mark.parametrize("name", SAID)
def test_the_same_is_read_from_every_dialect(name: str) -> None:
    request, told = SAID[name]

    assert name.startswith(find_dialect(request).name) or name == "vertex"
    assert replace(apart(said(request)), is_stored_by_provider=False) == told


def test_every_dialect_that_says_turns_is_asked_for_them() -> None:
    asked = {find_dialect(request).name for request, _ in SAID.values()}

    assert asked | {"openai-completions"} == set(dialects.chat_dialects())


def test_a_conversation_counts_its_turns_and_knows_what_was_said() -> None:
    told = said(chat(**CHAT))

    assert told.messages[0] == RequestMessage("system", (Text("Be brief."),))
    assert (told.turn, told.first_user_text, told.last_user_text) == (
        2, "Weather in Rome?\nPlease.", "Warm?",
    )  # fmt: skip
    assert told.results == (ToolResult("call_1", "21 °C", "weather"),)


PROMPTS: Final[Mapping[str, tuple[Request, Conversation]]] = {
    "openai-completions": (
        asking("/v1/completions", prompt="Once", suffix="end", temperature=0, top_p=1),
        Conversation((RequestMessage("user", (Text("Once"),)),), temperature=0, top_p=1),
    ),
    "openai-completions, several": (
        asking("/v1/completions", prompt=["Once", "upon"]),
        Conversation((RequestMessage("user", (Text("Once"), Text("upon"))),)),
    ),
    "openai-completions, tokens": (
        asking("/v1/completions", prompt=[1, 2]),
        Conversation((RequestMessage("user", ()),)),
    ),
    "openai-responses": (
        responses(input="Once"),
        Conversation((RequestMessage("user", (Text("Once"),)),)),
    ),
    "gemini-interactions": (
        interaction(input=[{"type": "text", "text": "Once"}, {"type": "text", "text": "upon"}]),
        Conversation((RequestMessage("user", (Text("Once"), Text("upon"))),)),
    ),
    "anthropic": (
        asking("/v1/complete", prompt="Once"),
        Conversation((RequestMessage("user", (Text("Once"),)),)),
    ),
    "anthropic, speakers": (
        asking(
            "/v1/complete",
            prompt="Be brief.\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Who?\n\nAssistant:",
        ),
        Conversation(
            (
                RequestMessage("user", (Text("Hi"),)),
                RequestMessage("assistant", (Text("Hello"),)),
                RequestMessage("user", (Text("Who?"),)),
            ),
            system="Be brief.",
        ),
    ),
    "ollama": (
        generate(prompt="Once", system="Be brief.", images=["aGk="], options={"temperature": 1}),
        Conversation(
            (RequestMessage("user", (Text("Once"), Media("image/*", base64="aGk="))),),
            system="Be brief.",
            temperature=1,
        ),
    ),
    "cohere": (
        asking("/v1/generate", prompt="Once", p=0.5, num_generations=2),
        Conversation((RequestMessage("user", (Text("Once"),)),), top_p=0.5),
    ),
    "titan": (
        invoke(
            "amazon.titan-text-lite-v1",
            inputText="Once",
            textGenerationConfig={"temperature": 0, "topP": 0.9},
        ),
        Conversation((RequestMessage("user", (Text("Once"),)),), temperature=0, top_p=0.9),
    ),
    "llama": (
        invoke("meta.llama3-1-8b-instruct-v1%3A0", prompt="Once", temperature=0.5, top_p=0.9),
        Conversation((RequestMessage("user", (Text("Once"),)),), temperature=0.5, top_p=0.9),
    ),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_what_a_user_says(name: str) -> None:
    request, told = PROMPTS[name]

    assert replace(said(request), is_stored_by_provider=False) == told


def test_version_1_of_cohere_has_a_history_beside_what_is_said_now() -> None:
    request = asking(
        "/v1/chat",
        preamble="Be brief.",
        chat_history=[
            {"role": "USER", "message": "Weather?"},
            {
                "role": "CHATBOT",
                "message": "One moment.",
                "tool_calls": [{"name": "weather", "parameters": {"city": "Rome"}}],
            },
        ],
        message="",
        tool_results=[{"call": {"name": "weather"}, "outputs": [{"degrees": 21}]}],
        tools=[
            {
                "name": "weather",
                "description": TOLD,
                "parameter_definitions": {"city": {"type": "str", "required": True}},
            }
        ],
        conversation_id="c1",
    )

    assert said(request) == Conversation(
        (
            RequestMessage("user", (Text("Weather?"),)),
            RequestMessage("assistant", (Text("One moment."), ToolCall("", "weather", ARGUMENTS))),
            RequestMessage("tool", (ToolResult("", '[{"degrees":21}]', "weather"),)),
        ),
        system="Be brief.",
        tools=(
            ToolDefinition(
                "weather",
                TOLD,
                {
                    "type": "object",
                    "properties": {"city": {"type": "string", "description": ""}},
                    "required": ["city"],
                },
            ),
        ),
        stored_conversation_id="c1",
    )


@pytest.mark.shows("000-29")
def test_all_that_the_model_made_at_once_is_one_turn_of_a_response() -> None:
    request = responses(
        input=[
            {"role": "user", "content": "Hi"},
            {"type": "item_reference", "id": "rs_1"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "user", "content": "Why?"},
            {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "cd"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "a"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": ""},
            {"type": "unheard_of", "text": "?"},
        ]
    )

    assert said(request).messages == (
        RequestMessage("user", (Text("Hi"),)),
        RequestMessage("assistant", (ToolCall("ws_1", "web_search", ""), Refusal("No."))),
        RequestMessage("user", (Text("Why?"),)),
        RequestMessage("assistant", (ToolCall("c1", "sh", "ls"), ToolCall("c2", "sh", "cd"))),
        RequestMessage("tool", (ToolResult("c1", "a", "sh"), ToolResult("c2", "", "sh"))),
    )
    assert said(request).turn == 3


@pytest.mark.shows("000-29")
@pytest.mark.parametrize("two", [chat, ollama, cohere, claude])
def test_two_messages_of_the_model_are_two_turns_where_messages_have_roles(two: Any) -> None:
    request = two(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
        ]
    )

    assert said(request).turn == 3


def test_results_of_one_turn_stand_in_one_message_however_they_are_sent() -> None:
    each = [{"role": "tool", "tool_call_id": item, "content": item} for item in ("a", "b")]
    blocks = [{"type": "tool_result", "tool_use_id": item, "content": item} for item in ("a", "b")]
    told = (RequestMessage("tool", (ToolResult("a", "a"), ToolResult("b", "b"))),)

    assert said(chat(messages=each)).messages == told
    assert said(claude(messages=[{"role": "user", "content": blocks}])).messages == told


def test_results_beside_words_are_said_by_the_user() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
        {"type": "text", "text": "Go on."},
    ]

    assert said(claude(messages=[{"role": "user", "content": blocks}])).messages == (
        RequestMessage("user", (ToolResult("a", "no", failed=True), Text("Go on."))),
    )


@pytest.mark.shows("000-89")
def test_sealed_thoughts_keep_their_seals() -> None:
    thoughts = [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "thinking", "thinking": "b", "signature": SEAL},
        {"type": "redacted_thinking", "data": "xyz"},
    ]

    assert said(claude(messages=[{"role": "assistant", "content": thoughts}])).messages == (
        RequestMessage(
            "assistant", (Reasoning("a"), Reasoning("b", SEAL), Reasoning(redacted="xyz"))
        ),
    )


def test_images_are_media_and_say_nothing() -> None:
    address, data = "https://example.com/a.png", "data:image/png;base64,aGk="
    inline = (Media("image/png", base64="aGk="), Text("What?"))
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    words, user = {"type": "text", "text": "What?"}, {"role": "user"}
    request = chat(
        messages=[
            {"content": [{"type": "image_url", "image_url": {"url": item}}, words], **user}
            for item in (address, data)
        ]
    )

    assert said(request).messages == (
        RequestMessage("user", (Media("image/*", url=address), Text("What?"))),
        RequestMessage("user", inline),
    )
    assert said(request).first_user_text == "What?"
    for other in (
        claude(messages=[{"content": [{"type": "image", "source": source}, words], **user}]),
        responses(
            input=[{"content": [{"type": "input_image", "image_url": data}, words], **user}]
        ),
        gemini(
            contents=[
                {"parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                           {"text": "What?"}]}
            ]
        ),
    ):  # fmt: skip
        assert said(other).messages == (RequestMessage("user", inline),)


REASONS: Final[Mapping[str, tuple[list[Request], list[Request]]]] = {
    "openai-chat": (
        [
            chat(reasoning_effort="minimal"),
            chat(reasoning={"effort": "high"}),
            chat(reasoning={"max_tokens": 9}),
            chat(thinking={"type": "enabled"}),
            chat(enable_thinking=True),
        ],
        [
            chat(reasoning_effort="none"),
            chat(reasoning_effort=None),
            chat(reasoning={"effort": "none"}),
            chat(reasoning={"enabled": False}),
            chat(thinking={"type": "disabled"}),
            chat(enable_thinking=False),
        ],
    ),
    "openai-responses": (
        [responses(reasoning={"effort": "low"})],
        [
            responses(reasoning={"effort": "none"}),
            responses(reasoning={"effort": None, "summary": "auto"}),
            responses(reasoning=None),
        ],
    ),
    "anthropic": (
        [claude(thinking={"type": "enabled", "budget_tokens": 1024})],
        [claude(thinking={"type": "disabled"}), claude(thinking=None)],
    ),
    "gemini": (
        [
            gemini(generationConfig={"thinkingConfig": item})
            for item in ({"thinkingBudget": -1}, {"thinkingLevel": "LOW"}, {"thinkingBudget": None})
        ],
        [
            gemini(generationConfig={"thinkingConfig": item})
            for item in ({"thinkingBudget": 0}, None)
        ],
    ),
    "gemini-interactions": (
        [interaction(generation_config={"thinking_level": "minimal"})],
        [interaction(generation_config={"thinking_summaries": "auto"})],
    ),
    "ollama": (
        [generate(think=True), generate(think="high")],
        [generate(think=False), generate(think=None), generate()],
    ),
    "cohere": ([cohere(thinking={"type": "enabled"})], [cohere(thinking={"type": "disabled"})]),
    "bedrock": (
        [
            converse(additionalModelRequestFields={"reasoning_config": {"type": "enabled"}}),
            invoke("us.amazon.nova-2-lite-v1%3A0", reasoningConfig={"type": "enabled"}),
            invoke("openai.gpt-oss-120b-1%3A0", reasoning_effort="low"),
        ],
        [converse(additionalModelRequestFields={"thinking": {"type": "disabled"}})],
    ),
}


@pytest.mark.shows("000-49")
@pytest.mark.parametrize("name", REASONS)
def test_reasoning_is_on_where_its_switch_is_there_and_not_off(name: str) -> None:
    on, off = REASONS[name]

    assert {find_dialect(item).name for item in (*on, *off)} == {name}
    assert [said(item).reasoning_enabled for item in on] == [True] * len(on)
    assert [said(item).reasoning_enabled for item in off] == [False] * len(off)


@pytest.mark.shows("000-45")
@pytest.mark.parametrize(
    ("sent", "told"), [(1, 1), (1.0, 1.0), (0, 0), (True, None), ("1", None), (None, None)]
)
def test_numbers_are_told_as_they_were_sent(sent: Json, told: float | None) -> None:
    heat = said(chat(temperature=sent)).temperature

    assert (heat, type(heat)) == (told, type(told))


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (chat(response_format={"type": "json_object"}), {}),
        (chat(response_format={"type": "json_object", "schema": ANSWER}), ANSWER),
        (chat(response_format={"type": "text"}), None),
        (chat(response_format={"type": "json_schema", "json_schema": {"schema": "?"}}), {}),
        (responses(text={"format": {"type": "json_object"}}), {}),
        (responses(text={"format": {"type": "text"}}), None),
        (claude(output_format={"type": "json_schema", "schema": ANSWER}), ANSWER),
        (gemini(generationConfig={"responseMimeType": "application/json"}), {}),
        (gemini(generationConfig={"responseMimeType": "text/plain"}), None),
        (interaction(response_mime_type="application/json"), {}),
        (interaction(response_format=ANSWER), ANSWER),
        (interaction(response_format=[{"type": "audio"}]), None),
        (generate(format="json"), {}),
        (generate(format=""), None),
        (cohere(response_format={"type": "json_object"}), {}),
        (converse(outputConfig={"effort": "low"}), None),
    ],
    ids=lambda it: it.body.decode() if isinstance(it, Request) else "",
)
def test_the_form_of_an_answer_is_its_schema(request_: Request, told: Json) -> None:
    assert said(request_).response_schema == told


@pytest.mark.shows("000-42")
@pytest.mark.parametrize(
    ("request_", "names"),
    [
        (
            chat(
                tools=[
                    *WRAPPED,
                    {"type": "custom", "custom": {"name": "sh"}},
                    {"type": "browser_search"},
                    {"type": "function", "function": {}},
                ],
                functions=[{"name": "old"}],
            ),
            ["weather", "sh", "browser_search", "old"],
        ),
        (
            responses(
                input=[
                    {
                        "type": "additional_tools",
                        "role": "developer",
                        "tools": [{"type": "function", "name": "late"}],
                    }
                ],
                tools=[
                    {"type": "function", "name": "weather"},
                    {"type": "custom", "name": "sh"},
                    {"type": "web_search"},
                    {"type": "mcp", "server_label": "s"},
                    {
                        "type": "namespace",
                        "name": "crm",
                        "tools": [{"type": "function", "name": "find"}],
                    },
                ],
            ),
            ["weather", "sh", "web_search", "mcp", "find", "late"],
        ),
        (
            claude(
                tools=[
                    {"name": "weather", "input_schema": CITY},
                    {"type": "web_search_20260318", "name": "web_search"},
                    {"type": "mcp_toolset", "mcp_server_name": "s"},
                ]
            ),
            ["weather", "web_search", "mcp_toolset"],
        ),
        (
            gemini(
                tools=[
                    {"functionDeclarations": [{"name": "a"}, {"name": "b"}]},
                    {"google_search": {}, "functionDeclarations": [{"name": "c"}]},
                ]
            ),
            ["a", "b", "c", "googleSearch"],
        ),
        (
            converse(
                toolConfig={
                    "tools": [
                        {"toolSpec": {"name": "weather"}},
                        {"systemTool": {"name": "nova_grounding"}},
                        {"cachePoint": {"type": "default"}},
                    ]
                }
            ),
            ["weather", "nova_grounding"],
        ),
    ],
    ids=lambda it: find_dialect(it).name if isinstance(it, Request) else "",
)
def test_tools_are_known_by_their_names_and_built_in_ones_by_their_types(
    request_: Request, names: list[str]
) -> None:
    assert [tool.name for tool in said(request_).tools] == names


def test_a_schema_in_googles_own_spelling_is_told_as_a_json_schema() -> None:
    schema = {
        "type": "ARRAY",
        "min_items": "1",
        "items": {
            "type": "OBJECT",
            "properties": {"type": {"type": "STRING", "enum": ["A_B"]}},
            "any_of": [{"type": "NULL"}],
        },
    }

    assert said(gemini(generationConfig={"responseSchema": schema})).response_schema == {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"type": {"type": "string", "enum": ["A_B"]}},
            "anyOf": [{"type": "null"}],
        },
    }


@pytest.mark.parametrize(
    ("request_", "is_kept"),
    [
        (responses(input=""), True),
        (responses(input="", store=False), False),
        (interaction(input=""), True),
        (interaction(input="", store=False), False),
        (chat(), False),
    ],
)
def test_some_providers_keep_answers_unless_they_are_told_not_to(
    request_: Request, is_kept: bool
) -> None:
    assert said(request_).is_stored_by_provider is is_kept


@pytest.mark.shows("000-29")
@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (responses(input="", previous_response_id="resp_1"), ("resp_1", "")),
        (responses(input="", conversation="conv_1"), ("", "conv_1")),
        (responses(input="", conversation={"id": "conv_1"}), ("", "conv_1")),
        (interaction(input="", previous_interaction_id="int_1"), ("int_1", "")),
        (chat(), ("", "")),
    ],
)
def test_what_goes_on_is_named(request_: Request, told: tuple[str, str]) -> None:
    assert (said(request_).previous_response_id, said(request_).stored_conversation_id) == told


@pytest.mark.shows("000-31")
@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (chat(messages=[{"role": "developer", "content": "a"}, SYSTEM]), "a"),
        (responses(input=[{"role": "developer", "content": "a"}]), "a"),
        (responses(instructions="a", input=[{"role": "system", "content": "b"}]), "a"),
        (claude(system="a"), "a"),
        (
            claude(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "a\nb",
        ),
        (gemini(systemInstruction="a"), "a"),
        (gemini(contents=[]), ""),
    ],
)
def test_the_system_prompt_is_the_first_one(request_: Request, told: str) -> None:
    assert said(request_).system == told


NO_TURN: Final = (
    asking("/v1/chat/completions"),
    Request("POST", "/v1/chat/completions", "", (), b"no JSON"),
    Request("GET", "/v1/responses/r", "", (), b""),
    asking("/v1/responses/input_tokens", input="Hi"),
    asking("/v1/responses/r/cancel", input="Hi"),
    asking("/v1/messages/count_tokens", messages=[]),
    Request("GET", "/v1/models", "", (("anthropic-version", "2026-10-21"),), b"{}"),
    asking("/v1beta/models/m:countTokens", contents=[]),
    asking("/v1beta/models/m:embedContent", content={}),
    asking("/v1beta/interactions/i/cancel", input="Hi"),
    asking("/api/chat", model="m", messages=[]),
    asking("/api/generate", model="m"),
    asking("/api/embed", model="m", input="Hi"),
    asking("/v2/embed", texts=["Hi"]),
    asking("/model/m/count-tokens", input={}),
    asking("/model/amazon.titan-embed-text-v2/invoke", inputText="Hi"),
    asking("/v1/embeddings", input="Hi"),
    asking("/anything", messages=[{"role": "user", "content": "Hi"}]),
)


@pytest.mark.parametrize("request_", NO_TURN, ids=lambda it: f"{it.method} {it.path}")
def test_nothing_is_read_where_no_turn_is_asked_for(request_: Request) -> None:
    assert find_dialect(request_).decode_request(request_) is None


@pytest.mark.parametrize("name", dialects.chat_dialects())
@pytest.mark.parametrize("stream", [True, False])
def test_a_typical_request_asks_for_a_turn(name: str, stream: bool) -> None:
    dialect = dialects.dialect_named(name)

    conversation = dialect.decode_request(dialect.sample_request("m", stream=stream))

    assert conversation is not None
    assert conversation.turn == 1


NAMES: Final = sorted(
    {
        *("messages", "input", "contents", "prompt", "role", "content", "parts", "system", "type"),
        *("text", "image_url", "url", "source", "data", "input_audio", "file", "file_data"),
        *("tool_calls", "function", "custom", "name", "arguments", "tool_call_id", "toolResult"),
        *("tool_use_id", "functionCall", "functionResponse", "response", "args", "inlineData"),
        *("tools", "functions", "functionDeclarations", "parameters", "toolConfig", "toolSpec"),
        *("generationConfig", "thinkingConfig", "responseSchema", "properties", "items"),
        *("response_format", "json_schema", "schema", "format", "output_config", "outputConfig"),
        *("chat_history", "message", "tool_results", "outputs", "parameter_definitions", "images"),
        *("reasoning", "effort", "temperature", "options", "inferenceConfig", "summary", "output"),
        *("reasoning_details", "thinking_blocks", "toolUse", "document", "guardContent", "request"),
    }
)
VALUES: Final = (
    *("user", "assistant", "model", "system", "tool", "text", "tool_result", "tool_use", "image"),
    *("function_call", "function_call_output", "reasoning", "thinking", "refusal", "json_schema"),
    *("input_image", "web_search_call", "user_input", "function_result", "namespace", "\ud83c"),
)
JSON: Final[st.SearchStrategy[Json]] = st.recursive(
    st.none() | st.booleans() | st.sampled_from(VALUES) | st.sampled_from([0, 2.5, 10**400, ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=25,
)
REQUESTS: Final = {
    (manner.dialect.name, manner.request.path): manner.request
    for manner in MANNERS
    if manner.request.method == "POST"
}


@settings(max_examples=100)
@given(
    request=st.sampled_from([*REQUESTS.values(), *NO_TURN]),
    body=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6),
)
def test_any_body_is_read_without_a_word_of_complaint_and_can_be_written(
    request: Request, body: dict[str, Json]
) -> None:
    sent = replace(request, body=json.dumps(body).encode())

    conversation = find_dialect(request).decode_request(sent)

    if conversation is not None:
        told = (conversation.messages, conversation.system, conversation.turn)
        assert orjson.dumps(told)
        assert all(tool.name for tool in conversation.tools)


def test_a_body_that_is_nested_deeply_is_read() -> None:
    for request in REQUESTS.values():
        for name in ("messages", "input", "contents", "tools", "generationConfig", "schema"):
            body = f'{{"{name}":{"[" * 500}{"]" * 500}}}'.encode()
            find_dialect(request).decode_request(replace(request, body=body))
