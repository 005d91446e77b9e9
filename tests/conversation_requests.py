"""One conversation, as the official clients ask it in every dialect, and what is read of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dialect_manners import asking
from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Reasoning, Text, ToolCall, ToolResult

CITY: Final[Json] = {"type": "object", "properties": {"city": {"type": "string"}}}
ANSWER: Final[Json] = {"type": "object", "properties": {"warm": {"type": "boolean"}}}
ARGUMENTS: Final = '{"city":"Rome"}'
TOLD: Final = "Tells the weather."
SEAL: Final = "c2VhbA=="


def talk(seal: str | None = None, call: str = "call_1", **others: Any) -> Conversation:
    """The conversation that every dialect is to say, but for what it cannot."""
    whole = Conversation(
        messages=(
            RequestMessage("user", (Text("Weather in Rome?"), Text("Please."))),
            RequestMessage(
                "assistant",
                (
                    Reasoning("Let me look.", seal),
                    Text("One moment."),
                    ToolCall(call, "weather", ARGUMENTS),
                ),
            ),
            RequestMessage("tool", (ToolResult(call, "21 °C", "weather"),)),
            RequestMessage("user", (Text("Warm?"),)),
        ),
        system="Be brief.",
        tools=(ToolDefinition("weather", TOLD, CITY),),
        temperature=0.5,
        top_p=1,
        reasoning_enabled=True,
        response_schema=ANSWER,
    )
    return replace(whole, **others)


def chat(**body: Any) -> Request:
    return asking("/v1/chat/completions", model="m", **body)


def responses(**body: Any) -> Request:
    return asking("/v1/responses", model="m", **body)


def claude(**body: Any) -> Request:
    return asking("/v1/messages", model="m", max_tokens=9, **body)


def gemini(**body: Any) -> Request:
    return asking("/v1beta/models/m:generateContent", **body)


def interaction(**body: Any) -> Request:
    return asking("/v1beta/interactions", model="m", **body)


def ollama(**body: Any) -> Request:
    return asking("/api/chat", model="m", **body)


def generate(**body: Any) -> Request:
    return asking("/api/generate", model="m", **{"prompt": "Hi", **body})


def cohere(**body: Any) -> Request:
    return asking("/v2/chat", model="m", **body)


def converse(model: str = "amazon.nova-lite-v1%3A0", **body: Any) -> Request:
    return asking(f"/model/{model}/converse", **body)


def invoke(model: str, **body: Any) -> Request:
    return asking(f"/model/{model}/invoke", **body)


FUNCTION: Final = {"name": "weather", "description": TOLD, "parameters": CITY}
WRAPPED: Final = [{"type": "function", "function": FUNCTION}]
WORDS: Final = [{"type": "text", "text": "Weather in Rome?"}, {"type": "text", "text": "Please."}]
SYSTEM: Final = {"role": "system", "content": "Be brief."}
CALLED: Final = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
]
GIVEN: Final = {"role": "tool", "tool_call_id": "call_1", "content": "21 °C"}

ANTHROPIC: Final[Mapping[str, Any]] = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": WORDS},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Let me look.", "signature": SEAL},
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
    "tools": [{"name": "weather", "description": TOLD, "input_schema": CITY}],
    "temperature": 0.5,
    "top_p": 1,
    "thinking": {"type": "adaptive"},
    "output_config": {"format": {"type": "json_schema", "schema": ANSWER}},
}

CONVERSE: Final[Mapping[str, Any]] = {
    "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "Let me look.", "signature": SEAL}
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
                    "description": TOLD,
                    "inputSchema": {"json": CITY},
                }
            }
        ]
    },
    "inferenceConfig": {"temperature": 0.5, "topP": 1},
    "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "outputConfig": {
        "textFormat": {
            "type": "json_schema",
            "structure": {"jsonSchema": {"name": "a", "schema": json.dumps(ANSWER)}},
        }
    },
}

CHAT: Final[Mapping[str, Any]] = {
    "messages": [
        SYSTEM,
        {"role": "user", "content": WORDS},
        {
            "role": "assistant",
            "content": "One moment.",
            "reasoning_content": "Let me look.",
            "tool_calls": CALLED,
        },
        GIVEN,
        {"role": "user", "content": "Warm?"},
    ],
    "tools": WRAPPED,
    "temperature": 0.5,
    "top_p": 1,
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}},
}

IN_CAPITALS: Final = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}

SAID: Final[Mapping[str, tuple[Request, Conversation]]] = {
    "openai-chat": (chat(**CHAT), talk()),
    "openai-responses": (
        responses(
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
            tools=[{"type": "function", **FUNCTION, "strict": True}],
            temperature=0.5,
            top_p=1,
            reasoning={"effort": "low", "summary": "auto"},
            text={"format": {"type": "json_schema", "name": "a", "schema": ANSWER}},
        ),
        talk(),
    ),
    "anthropic": (claude(**ANTHROPIC), talk(SEAL, wants_signed_reasoning=True)),
    "gemini": (
        gemini(
            systemInstruction={"parts": [{"text": "Be brief."}], "role": "user"},
            contents=[
                {"role": "user", "parts": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Let me look.", "thought": True, "thoughtSignature": SEAL},
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
                {"functionDeclarations": [{**FUNCTION, "parameters": IN_CAPITALS}]},
            ],
            generationConfig={
                "temperature": 0.5,
                "topP": 1,
                "thinkingConfig": {"includeThoughts": True},
                "responseMimeType": "application/json",
                "responseJsonSchema": ANSWER,
            },
        ),
        talk(SEAL, call=""),
    ),
    "gemini in snake case": (
        gemini(
            system_instruction={"parts": {"text": "Be brief."}},
            contents=[
                {"role": "user", "parts": [{"text": "Weather in Rome?"}, {"text": "Please."}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "Let me look.", "thought": True, "thought_signature": SEAL},
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
                        {"name": "weather", "description": TOLD, "parameters_json_schema": CITY}
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
        talk(SEAL),
    ),
    "gemini-interactions": (
        interaction(
            system_instruction="Be brief.",
            input=[
                {"type": "user_input", "content": WORDS},
                {
                    "type": "thought",
                    "summary": [{"type": "text", "text": "Let me look."}],
                    "signature": SEAL,
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
            tools=[{"type": "function", **FUNCTION}],
            generation_config={"temperature": 0.5, "top_p": 1, "thinking_level": "low"},
            response_format={"type": "text", "mime_type": "application/json", "schema": ANSWER},
        ),
        talk(SEAL),
    ),
    "ollama": (
        ollama(
            messages=[
                SYSTEM,
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
            tools=WRAPPED,
            options={"temperature": 0.5, "top_p": 1},
            think="low",
            format=ANSWER,
        ),
        replace(
            talk(call=""),
            messages=(
                RequestMessage("user", (Text("Weather in Rome?\nPlease."),)),
                *talk(call="").messages[1:],
            ),
        ),
    ),
    "cohere": (
        cohere(
            messages=[
                SYSTEM,
                {"role": "user", "content": WORDS},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Let me look."},
                        {"type": "text", "text": "One moment."},
                    ],
                    "tool_calls": CALLED,
                },
                {
                    "role": "tool",
                    "tool_call_id": "call_1",
                    "content": [{"type": "document", "document": {"data": "21 °C"}}],
                },
                {"role": "user", "content": "Warm?"},
            ],
            tools=WRAPPED,
            temperature=0.5,
            p=1,
            thinking={"type": "enabled", "token_budget": 100},
            response_format={"type": "json_object", "json_schema": ANSWER},
        ),
        talk(),
    ),
    "bedrock": (converse(**CONVERSE), talk(SEAL)),
    "bedrock converse, claude": (
        converse("us.anthropic.claude-sonnet-5", **CONVERSE),
        talk(SEAL, wants_signed_reasoning=True),
    ),
    "bedrock invoke, claude": (
        invoke("us.anthropic.claude-sonnet-5", anthropic_version="bedrock-2023-05-31", **ANTHROPIC),
        talk(SEAL, wants_signed_reasoning=True),
    ),
    "bedrock invoke, nova": (
        invoke("us.amazon.nova-lite-v1%3A0", schemaVersion="messages-v1", **CONVERSE),
        talk(SEAL),
    ),
    "bedrock invoke, chat": (invoke("openai.gpt-oss-120b-1%3A0", **CHAT), talk()),
    "vertex": (
        asking("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", **ANTHROPIC),
        talk(SEAL, wants_signed_reasoning=True),
    ),
}
"""By dialect and manner: the request, and what is read, but for the system prompt's message."""
