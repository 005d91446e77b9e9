"""Requests decoded from every dialect: the same conversation, as far as the dialect can say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from conversation_requests import (
    ANSWER_SCHEMA,
    ARGUMENTS,
    CHAT_BODY,
    CHAT_TOOLS,
    CITY_SCHEMA,
    CONVERSATION_CASES,
    SIGNATURE,
    SYSTEM_MESSAGE,
    TOOL_DESCRIPTION,
    anthropic_request,
    chat_request,
    cohere_request,
    converse_request,
    gemini_request,
    generate_request,
    interaction_request,
    invoke_request,
    ollama_request,
    responses_request,
)
from dialect_manners import DIALECTS_WITHOUT_CALLS, MANNERS, json_request
from llm_proxy import dialects
from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects import dialect_of_request
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Reasoning, Refusal, Text, ToolCall, ToolResult


def decode_conversation(request: Request) -> Conversation:
    """The conversation that the request holds."""
    conversation = dialect_of_request(request).decode_request(request)
    assert conversation is not None
    return conversation


def without_system_messages(conversation: Conversation) -> Conversation:
    """The conversation without system messages; `system` keeps the system prompt."""
    messages = tuple(message for message in conversation.messages if message.role != "system")
    return replace(conversation, messages=messages)


@pytest.mark.shows("000-24", "000-29", "000-31", "000-42")
@each_row("name", CONVERSATION_CASES)
def test_the_same_is_read_from_every_dialect(name: str) -> None:
    request, expected = CONVERSATION_CASES[name]

    assert name.startswith(dialect_of_request(request).name) or name == "vertex"
    assert (
        replace(without_system_messages(decode_conversation(request)), is_stored_by_provider=False)
        == expected
    )


def test_a_conversation_counts_its_turns_and_gives_texts_and_results() -> None:
    conversation = decode_conversation(chat_request(**CHAT_BODY))

    assert conversation.messages[0] == RequestMessage("system", (Text("Be brief."),))
    assert (conversation.turn, conversation.first_user_text, conversation.last_user_text) == (
        2, "Weather in Rome?\nPlease.", "Warm?",
    )  # fmt: skip
    assert conversation.results == (ToolResult("call_1", "21 °C", "weather"),)


PROMPT_CASES: Final[Mapping[str, tuple[Request, Conversation]]] = {
    "openai-completions": (
        json_request("/v1/completions", prompt="Once", suffix="end", temperature=0, top_p=1),
        Conversation((RequestMessage("user", (Text("Once"),)),), temperature=0, top_p=1),
    ),
    "openai-completions, several": (
        json_request("/v1/completions", prompt=["Once", "upon"]),
        Conversation((RequestMessage("user", (Text("Once"), Text("upon"))),)),
    ),
    "openai-completions, tokens": (
        json_request("/v1/completions", prompt=[1, 2]),
        Conversation((RequestMessage("user", ()),)),
    ),
    "openai-responses": (
        responses_request(input="Once"),
        Conversation((RequestMessage("user", (Text("Once"),)),), model="m"),
    ),
    "gemini-interactions": (
        interaction_request(
            input=[{"type": "text", "text": "Once"}, {"type": "text", "text": "upon"}]
        ),
        Conversation((RequestMessage("user", (Text("Once"), Text("upon"))),), model="m"),
    ),
    "anthropic": (
        json_request("/v1/complete", prompt="Once"),
        Conversation((RequestMessage("user", (Text("Once"),)),)),
    ),
    "anthropic, speakers": (
        json_request(
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
        generate_request(
            prompt="Once", system="Be brief.", images=["aGk="], options={"temperature": 1}
        ),
        Conversation(
            (RequestMessage("user", (Text("Once"), Media("image/*", base64="aGk="))),),
            system="Be brief.",
            temperature=1,
            model="m",
        ),
    ),
    "cohere": (
        json_request("/v1/generate", prompt="Once", p=0.5, num_generations=2),
        Conversation((RequestMessage("user", (Text("Once"),)),), top_p=0.5),
    ),
    "command": (
        invoke_request("cohere.command-text-v14", prompt="Once", p=0.5),
        Conversation(
            (RequestMessage("user", (Text("Once"),)),), top_p=0.5, model="cohere.command-text-v14"
        ),
    ),
    "titan": (
        invoke_request(
            "amazon.titan-text-lite-v1",
            inputText="Once",
            textGenerationConfig={"temperature": 0, "topP": 0.9},
        ),
        Conversation(
            (RequestMessage("user", (Text("Once"),)),),
            temperature=0,
            top_p=0.9,
            model="amazon.titan-text-lite-v1",
        ),
    ),
    "llama": (
        invoke_request(
            "meta.llama3-1-8b-instruct-v1%3A0", prompt="Once", temperature=0.5, top_p=0.9
        ),
        Conversation(
            (RequestMessage("user", (Text("Once"),)),),
            temperature=0.5,
            top_p=0.9,
            model="meta.llama3-1-8b-instruct-v1:0",
        ),
    ),
}


def test_every_chat_dialect_has_a_case() -> None:
    names, prompt_names = (
        {dialect_of_request(request).name for request, _ in cases.values()}
        for cases in (CONVERSATION_CASES, PROMPT_CASES)
    )

    assert names | (prompt_names & DIALECTS_WITHOUT_CALLS) == set(dialects.chat_dialects()), (
        "add a case to tests/conversation_requests.py, "
        "or to PROMPT_CASES for a dialect without tool calls"
    )


@each_row("name", PROMPT_CASES)
def test_a_prompt_is_a_user_message(name: str) -> None:
    request, expected = PROMPT_CASES[name]

    assert replace(decode_conversation(request), is_stored_by_provider=False) == expected


CHAT: Final = {"messages": [{"role": "user", "content": "Hi"}]}
COHERE_OPTIONS: Final[dict[str, Any]] = {"max_tokens": 2, "k": 3, "p": 0.5, "seed": 7}
CONTENTS: Final = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
OPTION_CASES: Final[tuple[tuple[Request, Mapping[str, Any]], ...]] = (
    (
        chat_request(max_completion_tokens=1, max_tokens=2, seed=3, stop="END", **CHAT),
        {"max_tokens": 1, "seed": 3, "stop_sequences": ("END",)},
    ),
    (chat_request(max_completion_tokens=None, max_tokens=2, **CHAT), {"max_tokens": 2}),
    (chat_request(max_tokens="2", seed=True, stop=[1], **CHAT), {}),
    (chat_request(tool_choice="required", **CHAT), {"tool_choice": "required"}),
    (
        chat_request(tool_choice={"type": "function", "function": {"name": "f"}}, **CHAT),
        {"tool_choice": ForcedTool("f")},
    ),
    (chat_request(function_call={"name": "f"}, **CHAT), {"tool_choice": ForcedTool("f")}),
    (chat_request(tool_choice={"type": "allowed_tools", "mode": "auto"}, **CHAT), {}),
    (
        responses_request(
            input="Hi", max_output_tokens=2, tool_choice={"type": "function", "name": "f"}
        ),
        {"max_tokens": 2, "tool_choice": ForcedTool("f")},
    ),
    (responses_request(input="Hi", tool_choice={"type": "web_search"}), {}),
    (
        anthropic_request(top_k=3, stop_sequences=["a", "b"], tool_choice={"type": "any"}, **CHAT),
        {
            "max_tokens": 9,
            "top_k": 3,
            "stop_sequences": ("a", "b"),
            "tool_choice": "required",
        },
    ),
    (
        anthropic_request(tool_choice={"type": "tool", "name": "f"}, **CHAT),
        {"max_tokens": 9, "tool_choice": ForcedTool("f")},
    ),
    (
        gemini_request(
            generationConfig={
                "maxOutputTokens": 2, "topK": 3.0, "topP": 0.5, "seed": 7, "stopSequences": ["END"]
            },
            **CONTENTS,
        ),
        {"max_tokens": 2, "top_k": 3, "top_p": 0.5, "seed": 7, "stop_sequences": ("END",)},
    ),
    *(
        (
            gemini_request(toolConfig={"functionCallingConfig": calling}, **CONTENTS),
            {"tool_choice": choice} if choice else {},
        )
        for calling, choice in (
            ({"mode": "AUTO"}, "auto"),
            ({"mode": "VALIDATED"}, "auto"),
            ({"mode": "NONE"}, "none"),
            ({"mode": "ANY"}, "required"),
            ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ForcedTool("f")),
            ({"mode": "any", "allowed_function_names": ["f"]}, ForcedTool("f")),
            ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, "required"),
            ({"mode": "MODE_UNSPECIFIED"}, None),
            ({"mode": 1}, None),
        )
    ),
    (
        interaction_request(
            input="Hi",
            generation_config={
                "max_output_tokens": 2, "top_p": 0.5, "seed": 7, "stop_sequences": ["END"]
            },
        ),
        {"max_tokens": 2, "top_p": 0.5, "seed": 7, "stop_sequences": ("END",)},
    ),
    *(
        (
            interaction_request(input="Hi", generation_config={"tool_choice": wire_choice}),
            {"tool_choice": choice},
        )
        for wire_choice, choice in (
            ("any", "required"),
            ("validated", "auto"),
            ({"allowed_tools": {"mode": "any", "tools": ["f"]}}, ForcedTool("f")),
            ({"allowed_tools": {"mode": "any", "tools": ["f", "g"]}}, "required"),
        )
    ),
    (
        ollama_request(
            options={
                "num_predict": 2, "top_k": 3, "repeat_penalty": 1.1, "seed": 7, "stop": ["END"]
            },
            **CHAT,
        ),
        {
            "max_tokens": 2,
            "top_k": 3,
            "repeat_penalty": 1.1,
            "seed": 7,
            "stop_sequences": ("END",),
        },
    ),
    *(
        (request, {"max_tokens": 2, "top_k": 3, "top_p": 0.5, "seed": 7, "stop_sequences": ("a",)})
        for request in (
            cohere_request(stop_sequences=["a"], **COHERE_OPTIONS, **CHAT),
            json_request(
                "/v1/chat", model="m", message="Hi", stop_sequences=["a"], **COHERE_OPTIONS
            ),
            json_request(
                "/v1/generate", model="m", prompt="Hi", end_sequences=["a"], **COHERE_OPTIONS
            ),
        )
    ),
    (cohere_request(tool_choice="REQUIRED", top_p=0.5, **CHAT), {"tool_choice": "required"}),
    (cohere_request(tool_choice="NONE", **CHAT), {"tool_choice": "none"}),
    (
        json_request("/v1/completions", model="m", prompt="Hi", max_tokens=2, seed=7, stop="END"),
        {"max_tokens": 2, "seed": 7, "stop_sequences": ("END",)},
    ),
)  # fmt: skip


@each_row("request_, options", OPTION_CASES)
def test_options_and_tool_choices_are_decoded(
    request_: Request, options: Mapping[str, Any]
) -> None:
    conversation = decode_conversation(request_)

    assert conversation == replace(
        Conversation((RequestMessage("user", (Text("Hi"),)),), model="m"),
        wants_signed_reasoning=conversation.wants_signed_reasoning,
        is_stored_by_provider=conversation.is_stored_by_provider,
        **options,
    )


def test_version_1_of_cohere_has_a_history_beside_the_current_message() -> None:
    request = json_request(
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
                "description": TOOL_DESCRIPTION,
                "parameter_definitions": {"city": {"type": "str", "required": True}},
            }
        ],
        conversation_id="c1",
    )

    assert decode_conversation(request) == Conversation(
        (
            RequestMessage("user", (Text("Weather?"),)),
            RequestMessage("assistant", (Text("One moment."), ToolCall("", "weather", ARGUMENTS))),
            RequestMessage("tool", (ToolResult("", '[{"degrees":21}]', "weather"),)),
        ),
        system="Be brief.",
        tools=(
            ToolDefinition(
                "weather",
                TOOL_DESCRIPTION,
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
def test_consecutive_items_of_the_model_are_one_turn_of_a_response() -> None:
    request = responses_request(
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

    assert decode_conversation(request).messages == (
        RequestMessage("user", (Text("Hi"),)),
        RequestMessage("assistant", (ToolCall("ws_1", "web_search", ""), Refusal("No."))),
        RequestMessage("user", (Text("Why?"),)),
        RequestMessage("assistant", (ToolCall("c1", "sh", "ls"), ToolCall("c2", "sh", "cd"))),
        RequestMessage("tool", (ToolResult("c1", "a", "sh"), ToolResult("c2", "", "sh"))),
    )
    assert decode_conversation(request).turn == 3


@pytest.mark.shows("000-29")
@each_row("build_request", [chat_request, ollama_request, cohere_request, anthropic_request])
def test_two_messages_of_the_model_are_two_turns_where_messages_have_roles(
    build_request: Any,
) -> None:
    request = build_request(
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
        ]
    )

    assert decode_conversation(request).turn == 3


def test_results_of_one_turn_stand_in_one_message_however_they_are_sent() -> None:
    each = [{"role": "tool", "tool_call_id": call_id, "content": call_id} for call_id in ("a", "b")]
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id, "content": call_id}
        for call_id in ("a", "b")
    ]
    expected = (RequestMessage("tool", (ToolResult("a", "a"), ToolResult("b", "b"))),)

    assert decode_conversation(chat_request(messages=each)).messages == expected
    assert (
        decode_conversation(
            anthropic_request(messages=[{"role": "user", "content": blocks}])
        ).messages
        == expected
    )


def test_results_beside_text_form_a_user_message() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
        {"type": "text", "text": "Go on."},
    ]

    assert decode_conversation(
        anthropic_request(messages=[{"role": "user", "content": blocks}])
    ).messages == (RequestMessage("user", (ToolResult("a", "no", failed=True), Text("Go on."))),)


@pytest.mark.shows("000-89")
def test_signed_reasoning_keeps_its_signatures() -> None:
    thinking_blocks = [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "thinking", "thinking": "b", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "xyz"},
    ]

    assert decode_conversation(
        anthropic_request(messages=[{"role": "assistant", "content": thinking_blocks}])
    ).messages == (
        RequestMessage(
            "assistant", (Reasoning("a"), Reasoning("b", SIGNATURE), Reasoning(redacted="xyz"))
        ),
    )


def test_images_are_media_without_text() -> None:
    address, data = "https://example.com/a.png", "data:image/png;base64,aGk="
    inline = (Media("image/png", base64="aGk="), Text("What?"))
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    text_block, user = {"type": "text", "text": "What?"}, {"role": "user"}
    request = chat_request(
        messages=[
            {"content": [{"type": "image_url", "image_url": {"url": url}}, text_block], **user}
            for url in (address, data)
        ]
    )

    assert decode_conversation(request).messages == (
        RequestMessage("user", (Media("image/*", url=address), Text("What?"))),
        RequestMessage("user", inline),
    )
    assert decode_conversation(request).first_user_text == "What?"
    for other_request in (
        anthropic_request(
            messages=[{"content": [{"type": "image", "source": source}, text_block], **user}]
        ),
        responses_request(
            input=[{"content": [{"type": "input_image", "image_url": data}, text_block], **user}]
        ),
        gemini_request(
            contents=[
                {
                    "parts": [
                        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                        {"text": "What?"},
                    ]
                }
            ]
        ),
    ):
        assert decode_conversation(other_request).messages == (RequestMessage("user", inline),)


REASONING_SWITCHES: Final[Mapping[str, tuple[list[Request], list[Request]]]] = {
    "openai-chat": (
        [
            chat_request(reasoning_effort="minimal"),
            chat_request(reasoning={"effort": "high"}),
            chat_request(reasoning={"max_tokens": 9}),
            chat_request(thinking={"type": "enabled"}),
            chat_request(enable_thinking=True),
        ],
        [
            chat_request(reasoning_effort="none"),
            chat_request(reasoning_effort=None),
            chat_request(reasoning={"effort": "none"}),
            chat_request(reasoning={"enabled": False}),
            chat_request(thinking={"type": "disabled"}),
            chat_request(enable_thinking=False),
        ],
    ),
    "openai-responses": (
        [responses_request(reasoning={"effort": "low"})],
        [
            responses_request(reasoning={"effort": "none"}),
            responses_request(reasoning={"effort": None, "summary": "auto"}),
            responses_request(reasoning=None),
        ],
    ),
    "anthropic": (
        [anthropic_request(thinking={"type": "enabled", "budget_tokens": 1024})],
        [anthropic_request(thinking={"type": "disabled"}), anthropic_request(thinking=None)],
    ),
    "gemini": (
        [
            gemini_request(generationConfig={"thinkingConfig": thinking_config})
            for thinking_config in (
                {"thinkingBudget": -1},
                {"thinkingLevel": "LOW"},
                {"thinkingBudget": None},
            )
        ],
        [
            gemini_request(generationConfig={"thinkingConfig": thinking_config})
            for thinking_config in ({"thinkingBudget": 0}, None)
        ],
    ),
    "gemini-interactions": (
        [interaction_request(generation_config={"thinking_level": "minimal"})],
        [interaction_request(generation_config={"thinking_summaries": "auto"})],
    ),
    "ollama": (
        [generate_request(think=True), generate_request(think="high")],
        [generate_request(think=False), generate_request(think=None), generate_request()],
    ),
    "cohere": (
        [cohere_request(thinking={"type": "enabled"})],
        [cohere_request(thinking={"type": "disabled"})],
    ),
    "bedrock": (
        [
            converse_request(
                additionalModelRequestFields={"reasoning_config": {"type": "enabled"}}
            ),
            invoke_request("us.amazon.nova-2-lite-v1%3A0", reasoningConfig={"type": "enabled"}),
            invoke_request("openai.gpt-oss-120b-1%3A0", reasoning_effort="low"),
        ],
        [converse_request(additionalModelRequestFields={"thinking": {"type": "disabled"}})],
    ),
}


@pytest.mark.shows("000-49")
@each_row("name", REASONING_SWITCHES)
def test_reasoning_is_on_where_its_switch_is_there_and_not_off(name: str) -> None:
    on, off = REASONING_SWITCHES[name]

    assert {dialect_of_request(request).name for request in (*on, *off)} == {name}
    assert [decode_conversation(request).reasoning_enabled for request in on] == [True] * len(on)
    assert [decode_conversation(request).reasoning_enabled for request in off] == [False] * len(off)


@pytest.mark.shows("000-45")
@each_row(
    ("sent", "expected"), [(1, 1), (1.0, 1.0), (0, 0), (True, None), ("1", None), (None, None)]
)
def test_numbers_are_decoded_as_sent(sent: Json, expected: float | None) -> None:
    temperature = decode_conversation(chat_request(temperature=sent)).temperature

    assert (temperature, type(temperature)) == (expected, type(expected))


@each_row(
    ("request_", "expected"),
    [
        (chat_request(response_format={"type": "json_object"}), {}),
        (
            chat_request(response_format={"type": "json_object", "schema": ANSWER_SCHEMA}),
            ANSWER_SCHEMA,
        ),
        (chat_request(response_format={"type": "text"}), None),
        (chat_request(response_format={"type": "json_schema", "json_schema": {"schema": "?"}}), {}),
        (responses_request(text={"format": {"type": "json_object"}}), {}),
        (responses_request(text={"format": {"type": "text"}}), None),
        (
            anthropic_request(output_format={"type": "json_schema", "schema": ANSWER_SCHEMA}),
            ANSWER_SCHEMA,
        ),
        (gemini_request(generationConfig={"responseMimeType": "application/json"}), {}),
        (gemini_request(generationConfig={"responseMimeType": "text/plain"}), None),
        (interaction_request(response_mime_type="application/json"), {}),
        (interaction_request(response_format=ANSWER_SCHEMA), ANSWER_SCHEMA),
        (interaction_request(response_format=[{"type": "audio"}]), None),
        (generate_request(format="json"), {}),
        (generate_request(format=""), None),
        (cohere_request(response_format={"type": "json_object"}), {}),
        (converse_request(outputConfig={"effort": "low"}), None),
    ],
)
def test_the_response_format_is_decoded_as_a_schema(request_: Request, expected: Json) -> None:
    assert decode_conversation(request_).response_schema == expected


@pytest.mark.shows("000-42")
@each_row(
    ("request_", "names"),
    [
        (
            chat_request(
                tools=[
                    *CHAT_TOOLS,
                    {"type": "custom", "custom": {"name": "sh"}},
                    {"type": "browser_search"},
                    {"type": "function", "function": {}},
                ],
                functions=[{"name": "old"}],
            ),
            ["weather", "sh", "browser_search", "old"],
        ),
        (
            responses_request(
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
            anthropic_request(
                tools=[
                    {"name": "weather", "input_schema": CITY_SCHEMA},
                    {"type": "web_search_20260318", "name": "web_search"},
                    {"type": "mcp_toolset", "mcp_server_name": "s"},
                ]
            ),
            ["weather", "web_search", "mcp_toolset"],
        ),
        (
            gemini_request(
                tools=[
                    {"functionDeclarations": [{"name": "a"}, {"name": "b"}]},
                    {"google_search": {}, "functionDeclarations": [{"name": "c"}]},
                ]
            ),
            ["a", "b", "c", "googleSearch"],
        ),
        (
            converse_request(
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
)
def test_tools_are_known_by_their_names_and_built_in_ones_by_their_types(
    request_: Request, names: list[str]
) -> None:
    assert [tool.name for tool in decode_conversation(request_).tools] == names


def test_a_schema_in_googles_own_notation_is_decoded_as_json_schema() -> None:
    schema = {
        "type": "ARRAY",
        "min_items": "1",
        "items": {
            "type": "OBJECT",
            "properties": {"type": {"type": "STRING", "enum": ["A_B"]}},
            "any_of": [{"type": "NULL"}],
        },
    }

    assert decode_conversation(
        gemini_request(generationConfig={"responseSchema": schema})
    ).response_schema == {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"type": {"type": "string", "enum": ["A_B"]}},
            "anyOf": [{"type": "null"}],
        },
    }


@each_row(
    ("request_", "is_stored"),
    [
        (responses_request(input=""), True),
        (responses_request(input="", store=False), False),
        (interaction_request(input=""), True),
        (interaction_request(input="", store=False), False),
        (chat_request(), False),
    ],
)
def test_some_providers_store_responses_by_default(request_: Request, is_stored: bool) -> None:
    assert decode_conversation(request_).is_stored_by_provider is is_stored


@pytest.mark.shows("000-29")
@each_row(
    ("request_", "expected"),
    [
        (responses_request(input="", previous_response_id="resp_1"), ("resp_1", "")),
        (responses_request(input="", conversation="conv_1"), ("", "conv_1")),
        (responses_request(input="", conversation={"id": "conv_1"}), ("", "conv_1")),
        (interaction_request(input="", previous_interaction_id="int_1"), ("int_1", "")),
        (chat_request(), ("", "")),
    ],
)
def test_the_continued_response_or_conversation_is_decoded(
    request_: Request, expected: tuple[str, str]
) -> None:
    assert (
        decode_conversation(request_).previous_response_id,
        decode_conversation(request_).stored_conversation_id,
    ) == expected


@pytest.mark.shows("000-31")
@each_row(
    ("request_", "expected"),
    [
        (chat_request(messages=[{"role": "developer", "content": "a"}, SYSTEM_MESSAGE]), "a"),
        (responses_request(input=[{"role": "developer", "content": "a"}]), "a"),
        (responses_request(instructions="a", input=[{"role": "system", "content": "b"}]), "a"),
        (anthropic_request(system="a"), "a"),
        (
            anthropic_request(
                system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
            ),
            "a\nb",
        ),
        (gemini_request(systemInstruction="a"), "a"),
        (gemini_request(contents=[]), ""),
    ],
)
def test_the_system_prompt_is_the_first_one(request_: Request, expected: str) -> None:
    assert decode_conversation(request_).system == expected


NON_TURN_REQUESTS: Final = (
    json_request("/v1/chat/completions"),
    Request("POST", "/v1/chat/completions", "", (), b"no JSON"),
    Request("GET", "/v1/responses/r", "", (), b""),
    json_request("/v1/responses/input_tokens", input="Hi"),
    json_request("/v1/responses/r/cancel", input="Hi"),
    json_request("/v1/messages/count_tokens", messages=[]),
    Request("GET", "/v1/models", "", (("anthropic-version", "2026-10-21"),), b"{}"),
    json_request("/v1beta/models/m:countTokens", contents=[]),
    json_request("/v1beta/models/m:embedContent", content={}),
    json_request("/v1beta/interactions/i/cancel", input="Hi"),
    json_request("/api/chat", model="m", messages=[]),
    json_request("/api/generate", model="m"),
    json_request("/api/embed", model="m", input="Hi"),
    json_request("/v2/embed", texts=["Hi"]),
    json_request("/model/m/count-tokens", input={}),
    json_request("/model/amazon.titan-embed-text-v2/invoke", inputText="Hi"),
    json_request("/v1/embeddings", input="Hi"),
    json_request("/anything", messages=[{"role": "user", "content": "Hi"}]),
)


@each_row(
    "request_",
    NON_TURN_REQUESTS,
    ids=[f"{request.method} {request.path}" for request in NON_TURN_REQUESTS],
)
def test_a_request_for_no_turn_is_not_decoded(request_: Request) -> None:
    assert dialect_of_request(request_).decode_request(request_) is None


@each_row("name", dialects.chat_dialects())
@each_row("stream", [True, False])
def test_a_sample_request_asks_for_the_first_turn(name: str, stream: bool) -> None:
    dialect = dialects.dialect_named(name)

    conversation = dialect.decode_request(dialect.sample_request("m", stream=stream))

    assert conversation is not None
    assert conversation.turn == 1


FIELD_NAMES: Final = sorted(
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
FIELD_VALUES: Final = (
    *("user", "assistant", "model", "system", "tool", "text", "tool_result", "tool_use", "image"),
    *("function_call", "function_call_output", "reasoning", "thinking", "refusal", "json_schema"),
    *("input_image", "web_search_call", "user_input", "function_result", "namespace", "\ud83c"),
)
JSON: Final[st.SearchStrategy[Json]] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(FIELD_VALUES)
    | st.sampled_from([0, 2.5, 10**400, ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELD_NAMES), inner, max_size=4)
    ),
    max_leaves=25,
)
REQUESTS: Final = {
    (manner.dialect.name, manner.request.path): manner.request
    for manner in MANNERS
    if manner.request.method == "POST"
}


@given(
    request=st.sampled_from([*REQUESTS.values(), *NON_TURN_REQUESTS]),
    body=st.dictionaries(st.sampled_from(FIELD_NAMES), JSON, max_size=6),
)
def test_any_body_is_decoded_without_an_error_and_can_be_serialised(
    request: Request, body: dict[str, Json]
) -> None:
    sent_request = replace(request, body=json.dumps(body).encode())

    conversation = dialect_of_request(request).decode_request(sent_request)

    if conversation is not None:
        expected = (conversation.messages, conversation.system, conversation.turn)
        assert orjson.dumps(expected)
        assert all(tool.name for tool in conversation.tools)


def test_a_body_that_is_nested_deeply_is_read() -> None:
    for request in REQUESTS.values():
        for name in ("messages", "input", "contents", "tools", "generationConfig", "schema"):
            body = f'{{"{name}":{"[" * 500}{"]" * 500}}}'.encode()
            dialect_of_request(request).decode_request(replace(request, body=body))
