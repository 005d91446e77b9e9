"""One conversation as a request of every dialect, and what each request decodes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dialect_manners import json_request
from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Reasoning, Text, ToolCall, ToolResult

CITY_SCHEMA: Final[Json] = {"type": "object", "properties": {"city": {"type": "string"}}}
ANSWER_SCHEMA: Final[Json] = {"type": "object", "properties": {"warm": {"type": "boolean"}}}
ARGUMENTS: Final = '{"city":"Rome"}'
TOOL_DESCRIPTION: Final = "Tells the weather."
SIGNATURE: Final = "c2VhbA=="


def expected_conversation(
    signature: str | None = None, call_id: str = "call_1", **changes: Any
) -> Conversation:
    """The conversation that every request decodes to, but for what its dialect lacks."""
    conversation = Conversation(
        messages=(
            RequestMessage("user", (Text("Weather in Rome?"), Text("Please."))),
            RequestMessage(
                "assistant",
                (
                    Reasoning("Let me look.", signature),
                    Text("One moment."),
                    ToolCall(call_id, "weather", ARGUMENTS),
                ),
            ),
            RequestMessage("tool", (ToolResult(call_id, "21 °C", "weather"),)),
            RequestMessage("user", (Text("Warm?"),)),
        ),
        system="Be brief.",
        tools=(ToolDefinition("weather", TOOL_DESCRIPTION, CITY_SCHEMA),),
        temperature=0.5,
        top_p=1,
        reasoning_enabled=True,
        response_schema=ANSWER_SCHEMA,
    )
    return replace(conversation, **changes)


def chat_request(**body: Any) -> Request:
    return json_request("/v1/chat/completions", model="m", **body)


def responses_request(**body: Any) -> Request:
    return json_request("/v1/responses", model="m", **body)


def anthropic_request(**body: Any) -> Request:
    return json_request("/v1/messages", model="m", max_tokens=9, **body)


def gemini_request(**body: Any) -> Request:
    return json_request("/v1beta/models/m:generateContent", **body)


def interaction_request(**body: Any) -> Request:
    return json_request("/v1beta/interactions", model="m", **body)


def ollama_request(**body: Any) -> Request:
    return json_request("/api/chat", model="m", **body)


def generate_request(**body: Any) -> Request:
    return json_request("/api/generate", model="m", **{"prompt": "Hi", **body})


def cohere_request(**body: Any) -> Request:
    return json_request("/v2/chat", model="m", **body)


def converse_request(model: str = "amazon.nova-lite-v1%3A0", **body: Any) -> Request:
    return json_request(f"/model/{model}/converse", **body)


def invoke_request(model: str, **body: Any) -> Request:
    return json_request(f"/model/{model}/invoke", **body)


FUNCTION_DEFINITION: Final = {
    "name": "weather",
    "description": TOOL_DESCRIPTION,
    "parameters": CITY_SCHEMA,
}
CHAT_TOOLS: Final = [{"type": "function", "function": FUNCTION_DEFINITION}]
USER_CONTENT: Final = [
    {"type": "text", "text": "Weather in Rome?"},
    {"type": "text", "text": "Please."},
]
SYSTEM_MESSAGE: Final = {"role": "system", "content": "Be brief."}
TOOL_CALLS: Final = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
]
TOOL_MESSAGE: Final = {"role": "tool", "tool_call_id": "call_1", "content": "21 °C"}

ANTHROPIC_BODY: Final[Mapping[str, Any]] = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": USER_CONTENT},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me look.", "signature": SIGNATURE},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "content": [{"type": "text", "text": "21 °C"}],
                }
            ],
        },
        {"role": "user", "content": "Warm?"},
    ],
    "tools": [{"name": "weather", "description": TOOL_DESCRIPTION, "input_schema": CITY_SCHEMA}],
    "temperature": 0.5,
    "top_p": 1,
    "thinking": {"type": "adaptive"},
    "output_config": {"format": {"type": "json_schema", "schema": ANSWER_SCHEMA}},
}

CONVERSE_BODY: Final[Mapping[str, Any]] = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "Let me look.", "signature": SIGNATURE}
                    }
                },
                {"text": "One moment."},
                {"toolUse": {"toolUseId": "call_1", "name": "weather", "input": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "21 °C"}]}}],
        },
        {"role": "user", "content": [{"text": "Warm?"}]},
    ],
    "toolConfig": {
        "tools": [
            {
                "toolSpec": {
                    "name": "weather",
                    "description": TOOL_DESCRIPTION,
                    "inputSchema": {"json": CITY_SCHEMA},
                }
            }
        ]
    },
    "inferenceConfig": {"temperature": 0.5, "topP": 1},
    "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "outputConfig": {
        "textFormat": {
            "type": "json_schema",
            "structure": {"jsonSchema": {"name": "a", "schema": json.dumps(ANSWER_SCHEMA)}},
        }
    },
}

CHAT_BODY: Final[Mapping[str, Any]] = {
    "messages": [
        SYSTEM_MESSAGE,
        {"role": "user", "content": USER_CONTENT},
        {
            "role": "assistant",
            "content": "One moment.",
            "reasoning_content": "Let me look.",
            "tool_calls": TOOL_CALLS,
        },
        TOOL_MESSAGE,
        {"role": "user", "content": "Warm?"},
    ],
    "tools": CHAT_TOOLS,
    "temperature": 0.5,
    "top_p": 1,
    "reasoning_effort": "low",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": ANSWER_SCHEMA},
    },
}

GEMINI_CITY_SCHEMA: Final = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}

CONVERSATION_CASES: Final[Mapping[str, tuple[Request, Conversation]]] = {
    "openai-chat": (chat_request(**CHAT_BODY), expected_conversation(model="m")),
    "openai-responses": (
        responses_request(
            instructions="Be brief.",
            input=[
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Weather in Rome?"},
                        {"type": "input_text", "text": "Please."},
                    ],
                },
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "Let me look."}],
                },
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "One moment.", "annotations": []}],
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_1",
                    "name": "weather",
                    "arguments": ARGUMENTS,
                    "status": "completed",
                },
                {"type": "function_call_output", "call_id": "call_1", "output": "21 °C"},
                {"role": "user", "content": "Warm?"},
            ],
            tools=[{"type": "function", **FUNCTION_DEFINITION, "strict": True}],
            temperature=0.5,
            top_p=1,
            reasoning={"effort": "low", "summary": "auto"},
            text={"format": {"type": "json_schema", "name": "a", "schema": ANSWER_SCHEMA}},
        ),
        expected_conversation(model="m"),
    ),
    "anthropic": (
        anthropic_request(**ANTHROPIC_BODY),
        expected_conversation(SIGNATURE, wants_signed_reasoning=True, model="m", max_tokens=9),
    ),
    "gemini": (
        gemini_request(
            systemInstruction={"parts": [{"text": "Be brief."}], "role": "user"},
            contents=[
                {"role": "user", "parts": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Let me look.", "thought": True, "thoughtSignature": SIGNATURE},
                        {"text": "One moment."},
                        {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "weather", "response": {"output": "21 °C"}}}
                    ],
                },
                {"role": "user", "parts": [{"text": "Warm?"}]},
            ],
            tools=[
                {
                    "functionDeclarations": [
                        {**FUNCTION_DEFINITION, "parameters": GEMINI_CITY_SCHEMA}
                    ]
                },
            ],
            generationConfig={
                "temperature": 0.5,
                "topP": 1,
                "thinkingConfig": {"includeThoughts": True},
                "responseMimeType": "application/json",
                "responseJsonSchema": ANSWER_SCHEMA,
            },
        ),
        expected_conversation(SIGNATURE, call_id="", model="m"),
    ),
    "gemini in snake case": (
        gemini_request(
            system_instruction={"parts": {"text": "Be brief."}},
            contents=[
                {"role": "user", "parts": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Let me look.", "thought": True, "thought_signature": SIGNATURE},
                        {"text": "One moment."},
                        {
                            "function_call": {
                                "id": "call_1",
                                "name": "weather",
                                "args": {"city": "Rome"},
                            }
                        },
                    ],
                },
                {
                    "role": "function",
                    "parts": [
                        {
                            "function_response": {
                                "id": "call_1",
                                "name": "weather",
                                "response": {"result": "21 °C"},
                            }
                        }
                    ],
                },
                {"parts": [{"text": "Warm?"}]},
            ],
            tools=[
                {
                    "function_declarations": [
                        {
                            "name": "weather",
                            "description": TOOL_DESCRIPTION,
                            "parameters_json_schema": CITY_SCHEMA,
                        }
                    ]
                }
            ],
            generation_config={
                "temperature": 0.5,
                "top_p": 1,
                "thinking_config": {"thinking_budget": -1},
                "response_schema": {"type": "OBJECT", "properties": {"warm": {"type": "BOOLEAN"}}},
            },
        ),
        expected_conversation(SIGNATURE, model="m"),
    ),
    "gemini-interactions": (
        interaction_request(
            system_instruction="Be brief.",
            input=[
                {"type": "user_input", "content": USER_CONTENT},
                {
                    "type": "thought",
                    "summary": [{"type": "text", "text": "Let me look."}],
                    "signature": SIGNATURE,
                },
                {"type": "model_output", "content": [{"type": "text", "text": "One moment."}]},
                {
                    "type": "function_call",
                    "id": "call_1",
                    "name": "weather",
                    "arguments": {"city": "Rome"},
                },
                {"type": "function_result", "call_id": "call_1", "result": "21 °C"},
                {"type": "user_input", "content": "Warm?"},
            ],
            tools=[{"type": "function", **FUNCTION_DEFINITION}],
            generation_config={"temperature": 0.5, "top_p": 1, "thinking_level": "low"},
            response_format={
                "type": "text",
                "mime_type": "application/json",
                "schema": ANSWER_SCHEMA,
            },
        ),
        expected_conversation(SIGNATURE, model="m"),
    ),
    "ollama": (
        ollama_request(
            messages=[
                SYSTEM_MESSAGE,
                {"role": "user", "content": "Weather in Rome?\nPlease."},
                {
                    "role": "assistant",
                    "content": "One moment.",
                    "thinking": "Let me look.",
                    "tool_calls": [
                        {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
                    ],
                },
                {"role": "tool", "tool_name": "weather", "content": "21 °C"},
                {"role": "user", "content": "Warm?"},
            ],
            tools=CHAT_TOOLS,
            options={"temperature": 0.5, "top_p": 1},
            think="low",
            format=ANSWER_SCHEMA,
        ),
        replace(
            expected_conversation(call_id="", model="m"),
            messages=(
                RequestMessage("user", (Text("Weather in Rome?\nPlease."),)),
                *expected_conversation(call_id="").messages[1:],
            ),
        ),
    ),
    "cohere": (
        cohere_request(
            messages=[
                SYSTEM_MESSAGE,
                {"role": "user", "content": USER_CONTENT},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Let me look."},
                        {"type": "text", "text": "One moment."},
                    ],
                    "tool_calls": TOOL_CALLS,
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": [{"type": "document", "document": {"data": "21 °C"}}],
                },
                {"role": "user", "content": "Warm?"},
            ],
            tools=CHAT_TOOLS,
            temperature=0.5,
            p=1,
            thinking={"type": "enabled", "token_budget": 100},
            response_format={"type": "json_object", "json_schema": ANSWER_SCHEMA},
        ),
        expected_conversation(model="m"),
    ),
    "bedrock": (
        converse_request(**CONVERSE_BODY),
        expected_conversation(SIGNATURE, model="amazon.nova-lite-v1:0"),
    ),
    "bedrock converse, claude": (
        converse_request("us.anthropic.claude-sonnet-5", **CONVERSE_BODY),
        expected_conversation(
            SIGNATURE, wants_signed_reasoning=True, model="us.anthropic.claude-sonnet-5"
        ),
    ),
    "bedrock invoke, claude": (
        invoke_request(
            "us.anthropic.claude-sonnet-5", anthropic_version="bedrock-2023-05-31", **ANTHROPIC_BODY
        ),
        expected_conversation(
            SIGNATURE, wants_signed_reasoning=True, model="us.anthropic.claude-sonnet-5"
        ),
    ),
    "bedrock invoke, nova": (
        invoke_request("us.amazon.nova-lite-v1%3A0", schemaVersion="messages-v1", **CONVERSE_BODY),
        expected_conversation(SIGNATURE, model="us.amazon.nova-lite-v1:0"),
    ),
    "bedrock invoke, chat": (
        invoke_request("openai.gpt-oss-120b-1%3A0", **CHAT_BODY),
        expected_conversation(model="openai.gpt-oss-120b-1:0"),
    ),
    "vertex": (
        json_request(
            "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", **ANTHROPIC_BODY
        ),
        expected_conversation(SIGNATURE, wants_signed_reasoning=True, model="m"),
    ),
}
"""By dialect and variant: the request and its conversation, without the system message."""
