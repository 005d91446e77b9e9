"""Chats of OpenRouter, by OpenAI's SDK, as its documentation shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.turns import Media
from sdk_requests import openai_chat
from sdk_requests.conversations import Arguments, Differences, carried_over, conversation, message

DIALECT: Final = "openai-chat"
PROVIDER: Final = "openrouter"

sender: Final = openai_chat.sender_to("/api/v1")

SIGNED: Final = {
    "reasoning_details": [
        {
            "type": "reasoning.text",
            "text": "Look first.",
            "signature": "SIG",
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        {
            "type": "reasoning.text",
            "text": "Then ask.",
            "signature": "GIS",
            "format": "anthropic-claude-v1",
            "index": 1,
        },
    ]
}
ENCRYPTED: Final = {
    "reasoning_details": [
        {
            "type": "reasoning.summary",
            "summary": "**Looking first**",
            "format": "openai-responses-v1",
            "index": 0,
        },
        {
            "type": "reasoning.encrypted",
            "data": "ENC",
            "id": "rs_1",
            "format": "openai-responses-v1",
            "index": 1,
        },
        {
            "type": "reasoning.server_tool_call",
            "tool_name": "openrouter:fusion",
            "tool_call_id": "call_0",
            "arguments": "{}",
            "result": "4",
        },
    ]
}
WITHOUT_INDEX: Final = {
    "reasoning_details": [
        {"type": "reasoning.text", "text": "Look first.", "signature": "SIG"},
        {"type": "reasoning.text", "text": "Then ask.", "signature": "GIS"},
    ]
}
PLAIN: Final = {"reasoning": "Look first."}
REASONING: Final[Mapping[str, Arguments]] = {
    "signed reasoning, sent back": SIGNED,
    "encrypted reasoning, sent back": ENCRYPTED,
    "reasoning without an index, sent back": WITHOUT_INDEX,
    "plain reasoning, sent back": PLAIN,
}

VIDEO_URL: Final = "https://example.com/cat.mp4"

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the options of the provider": openai_chat.options_of_provider(
        max_tokens=9, seed=7, stop_sequences=("END",), top_k=3, repeat_penalty=1.1
    ),
    "a video by URL": conversation(message("user", Media("video/mp4", url=VIDEO_URL))),
    **{
        # The text of `reasoning_details` is in `reasoning`, too.
        name: carried_over("openai-chat", openai_chat.response(**{"reasoning": "Look.", **fields}))
        for name, fields in REASONING.items()
    },
}

CALLS: Final[Mapping[str, Arguments]] = openai_chat.calls_of_provider(
    {
        "max_completion_tokens": 9,
        "seed": 7,
        "stop": ["END"],
        "extra_body": {"top_k": 3, "repetition_penalty": 1.1},
    },
    {
        "a refusal": openai_chat.CALLS["a refusal"],
        "a file by URL": {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "file", "file": {"file_data": "https://example.com/a.pdf"}}
                    ],
                }
            ]
        },
        "a video by URL": {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "video_url", "video_url": {"url": VIDEO_URL}}],
                }
            ]
        },
        **{name: openai_chat.sent_back(fields) for name, fields in REASONING.items()},
    },
)

DIFFERENCES: Final[Differences] = {}
