"""Bedrock's Converse, by AWS's SDK for Python, the judge `boto3`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.turns import Media, Reasoning, ToolCall, ToolResult
from sdk_requests.conversations import (
    ANSWER_SCHEMA,
    CITY_SCHEMA,
    PDF,
    PNG,
    QUESTION,
    ROME,
    WEATHER,
    Arguments,
    Differences,
    carried_over,
    conversation,
    message,
)
from sdk_requests.judge_process import Sender, in_judge

DIALECT: Final = "bedrock"
PROVIDER: Final = ""
sender: Final[Sender] = in_judge("boto3")

CLAUDE: Final = "us.anthropic.claude-sonnet-5-v1:0"
NOVA: Final = "amazon.nova-lite-v1:0"
PROFILE: Final = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*content]}


def model(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*content]}


def inline(kind: str, format_name: str, data: str) -> dict[str, Any]:
    """A block with media or a document of this format."""
    return {kind: {"format": format_name, "source": {"bytes": b64decode(data)}}}


def in_s3(kind: str, format_name: str, uri: str) -> dict[str, Any]:
    return {kind: {"format": format_name, "source": {"s3Location": {"uri": uri}}}}


def document(number: int, block: dict[str, Any]) -> dict[str, Any]:
    """The block with the name of the document of this number."""
    return {"document": {"name": f"document-{number}", **block["document"]}}


def tool_result(call_id: str, content: dict[str, Any], **fields: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "content": [content], **fields}}


HELLO_MESSAGE: Final = user({"text": "Hello?"})
HELLO: Final = {"messages": [HELLO_MESSAGE]}
TOOL: Final = {
    "toolSpec": {
        "name": "weather",
        "description": "Current weather.",
        "inputSchema": {"json": CITY_SCHEMA},
    }
}
TOOLS: Final = {"toolConfig": {"tools": [TOOL]}}
WIRE_CALLS: Final = [
    {"toolUse": {"toolUseId": call_id, "name": "weather", "input": {"city": city}}}
    for call_id, city in (("call_1", "Rome"), ("call_2", "Oslo"))
]
CONTENT: Final[list[dict[str, Any]]] = [
    {"reasoningContent": {"reasoningText": {"text": "Look first.", "signature": "c2VhbA=="}}},
    {"reasoningContent": {"redactedContent": "b3BhcXVl"}},
    {"text": "One moment."},
    {
        "toolUse": {
            "toolUseId": "tooluse_1",
            "name": "nova_grounding",
            "input": {"query": "weather"},
            "type": "server_tool_use",
        }
    },
    {
        "toolResult": {
            "toolUseId": "tooluse_1",
            "content": [{"json": {"pages": 1}}],
            "status": "success",
            "type": "nova_grounding_result",
        }
    },
    {
        "citationsContent": {
            "content": [{"text": "It rains."}],
            "citations": [
                {
                    "title": "Weather",
                    "sourceContent": [{"text": "rain"}],
                    "location": {"web": {"url": "https://example.com/", "domain": "example.com"}},
                }
            ],
        }
    },
    WIRE_CALLS[0],
]
RESPONSE: Final = {
    "output": {"message": {"role": "assistant", "content": CONTENT}},
    "stopReason": "tool_use",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}
SDK_CONTENT: Final = [
    CONTENT[0],
    {"reasoningContent": {"redactedContent": b"opaque"}},  # boto3 decodes base64
    *CONTENT[2:],
]

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "images of every format": conversation(
        message(
            "user",
            *(Media(f"image/{name}", base64=PNG) for name in ("png", "jpeg", "gif", "webp")),
        )
    ),
    "media in S3": conversation(
        message(
            "user",
            Media("image/jpeg", url="s3://bucket/a.jpg"),
            Media("video/mp4", url="s3://bucket/b.mp4"),
            Media("application/pdf", url="s3://bucket/c.pdf"),
        )
    ),
    "videos, by their media types": conversation(
        message(
            "user",
            Media("video/mp4", base64="AAAA"),
            Media("video/quicktime", base64="AAAA"),
            Media("video/x-matroska", base64="AAAA"),
            Media("video/3gpp", base64="AAAA"),
        )
    ),
    "documents in several messages": conversation(
        message("user", "Compare.", Media("application/pdf", base64=PDF)),
        message("assistant", "To what?"),
        message(
            "user",
            Media("text/markdown", base64="IyBB"),
            Media("text/plain", base64="QQ=="),
            Media(
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", base64="UEs="
            ),
            "To these.",
        ),
    ),
    "reasoning, signed and encrypted": conversation(
        QUESTION,
        message(
            "assistant", Reasoning("Hm.", "c2VhbA=="), Reasoning(redacted="b3BhcXVl"), "Hello."
        ),
        message("user", "Go on."),
    ),
    "unsigned reasoning": conversation(
        QUESTION, message("assistant", Reasoning("Hm.")), message("user", "Go on.")
    ),
    "a result that is an object": conversation(
        QUESTION,
        message("assistant", ToolCall("call_1", "weather", ROME)),
        message("tool", ToolResult("call_1", '{"temperature":21}')),
        tools=(WEATHER,),
    ),
    "Converse's message, sent back": carried_over("bedrock", RESPONSE),
    "the options of Converse": conversation(
        QUESTION, temperature=0, top_p=0.5, max_tokens=9, stop_sequences=("END",)
    ),
    "top-k of Claude": replace(conversation(QUESTION, top_k=3), model=CLAUDE),
    "top-k of Nova": replace(conversation(QUESTION, top_k=3), model=NOVA),
    "an inference profile": replace(conversation(QUESTION, top_k=3), model=PROFILE),
    "the tool choice none after calls, without tools": conversation(
        QUESTION,
        message("assistant", ToolCall("call_1", "weather", ROME)),
        message("tool", ToolResult("call_1", "21 °C")),
        tool_choice="none",
    ),
    "extra fields of Converse": conversation(
        QUESTION,
        max_tokens=9,
        extra_fields=(
            ("additionalModelRequestFields", {"thinking": {"type": "adaptive"}}),
            ("inferenceConfig", {"temperature": 1}),
            ("requestMetadata", {"a": "b"}),
        ),
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": {"system": [{"text": "Be brief."}], **HELLO},
    "system messages": {"system": [{"text": "Be brief.\nBe kind."}], **HELLO},
    "several texts": {"messages": [user({"text": "Hello?"}, {"text": "Anybody?"})]},
    "an image": {"messages": [user({"text": "What is it?"}, inline("image", "png", PNG))]},
    "a file": {"messages": [user(document(1, inline("document", "pdf", PDF)))]},
    "audio": {"messages": [user(inline("audio", "wav", "UklG"))]},
    "images of every format": {
        "messages": [user(*(inline("image", name, PNG) for name in ("png", "jpeg", "gif", "webp")))]
    },
    "media in S3": {
        "messages": [
            user(
                in_s3("image", "jpeg", "s3://bucket/a.jpg"),
                in_s3("video", "mp4", "s3://bucket/b.mp4"),
                document(1, in_s3("document", "pdf", "s3://bucket/c.pdf")),
            )
        ]
    },
    "videos, by their media types": {
        "messages": [
            user(*(inline("video", name, "AAAA") for name in ("mp4", "mov", "mkv", "three_gp")))
        ]
    },
    "documents in several messages": {
        "messages": [
            user({"text": "Compare."}, document(1, inline("document", "pdf", PDF))),
            model({"text": "To what?"}),
            user(
                document(2, inline("document", "md", "IyBB")),
                document(3, inline("document", "txt", "QQ==")),
                document(4, inline("document", "xlsx", "UEs=")),
                {"text": "To these."},
            ),
        ]
    },
    "a history of three turns": {
        "messages": [
            HELLO_MESSAGE,
            model({"text": "Hi."}),
            user({"text": "Who?"}),
            model({"text": "Me."}),
            user({"text": "Bye."}),
        ]
    },
    "parallel tool calls": {
        "messages": [
            HELLO_MESSAGE,
            model(*WIRE_CALLS),
            user(tool_result("call_1", {"text": "21 °C"}), tool_result("call_2", {"text": "9 °C"})),
        ],
        **TOOLS,
    },
    "a text before a call, and a failed result": {
        "messages": [
            HELLO_MESSAGE,
            model({"text": "One moment."}, WIRE_CALLS[0]),
            user(
                tool_result("call_1", {"json": {"error": "offline"}}, status="error"),
                {"text": "Again."},
            ),
        ]
    },
    "a result that is an object": {
        "messages": [
            HELLO_MESSAGE,
            model(WIRE_CALLS[0]),
            user(tool_result("call_1", {"json": {"temperature": 21}})),
        ],
        **TOOLS,
    },
    "reasoning, signed and encrypted": {
        "messages": [
            HELLO_MESSAGE,
            model(
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2VhbA=="}}},
                {"reasoningContent": {"redactedContent": b"opaque"}},
                {"text": "Hello."},
            ),
            user({"text": "Go on."}),
        ]
    },
    "unsigned reasoning": {"messages": [user({"text": "Hello?"}, {"text": "Go on."})]},
    "Converse's message, sent back": {
        "messages": [
            HELLO_MESSAGE,
            model(*SDK_CONTENT),
            user(tool_result("call_1", {"text": "21 °C"})),
        ]
    },
    "a refusal": {"messages": [HELLO_MESSAGE, model({"text": "No."}), user({"text": "Please."})]},
    "a tool without description and parameters": {
        **HELLO,
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "now", "inputSchema": {"json": {"type": "object"}}}}]
        },
    },
    **{
        f"the tool choice {choice}": {
            **HELLO,
            "toolConfig": {"tools": [TOOL], "toolChoice": {wire_choice: {}}},
        }
        for choice, wire_choice in (("auto", "auto"), ("required", "any"))
    },
    "the tool choice none": HELLO,
    "the tool choice none after calls, without tools": {
        "messages": [
            HELLO_MESSAGE,
            model(WIRE_CALLS[0]),
            user(tool_result("call_1", {"text": "21 °C"})),
        ]
    },
    "a forced tool": {
        **HELLO,
        "toolConfig": {"tools": [TOOL], "toolChoice": {"tool": {"name": "weather"}}},
    },
    "a response schema": {
        **HELLO,
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": orjson.dumps(ANSWER_SCHEMA).decode()}},
            }
        },
    },
    "the options of Converse": {
        **HELLO,
        "inferenceConfig": {
            "temperature": 0,
            "topP": 0.5,
            "maxTokens": 9,
            "stopSequences": ["END"],
        },
    },
    "top-k of Claude": {
        **HELLO,
        "modelId": CLAUDE,
        "additionalModelRequestFields": {"top_k": 3},
    },
    **{
        name: {
            **HELLO,
            "modelId": model_id,
            "additionalModelRequestFields": {"inferenceConfig": {"topK": 3}},
        }
        for name, model_id in (("top-k of Nova", NOVA), ("an inference profile", PROFILE))
    },
    "extra fields of Converse": {
        **HELLO,
        "inferenceConfig": {"maxTokens": 9, "temperature": 1},
        "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
        "requestMetadata": {"a": "b"},
    },
}
"""The keyword arguments of the SDK's call, by row; the model where it is not `m`."""

DIFFERENCES: Final[Differences] = {}
