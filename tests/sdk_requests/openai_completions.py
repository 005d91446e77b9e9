"""Legacy completions, by OpenAI's SDK: a conversation as one prompt."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import openai

from llm_proxy.conversation import Conversation
from sdk_clients import openai_client
from sdk_requests.conversations import (
    QUESTION,
    Arguments,
    Differences,
    conversation,
    message,
)
from sdk_requests.judge_process import in_this_process

DIALECT: Final = "openai-completions"
PROVIDER: Final = ""


async def _send(url: str, arguments: Arguments, *, stream: bool) -> None:
    """Send a request as a user of the SDK does."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with openai_client(url) as client:
        with suppress(openai.APIStatusError):
            await client.completions.create(
                model="m", **{**arguments, **(options if stream else {})}
            )


sender: Final = in_this_process(_send)

HELLO: Final = {"prompt": "Hello?"}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "an answer with the space after its speaker": conversation(
        QUESTION, message("assistant", " Hi.\n"), message("user", "Who?")
    ),
    "the options of openai-completions": conversation(
        QUESTION,
        temperature=0,
        top_p=0.5,
        max_tokens=9,
        seed=7,
        stop_sequences=("\n\nUser:",),
    ),
}
"""Rows that only this API has."""

CALLS: Final[Mapping[str, Arguments]] = {
    "a text": HELLO,
    "a system prompt": {"prompt": "Be brief.\n\nUser: Hello?\n\nAssistant:"},
    "system messages": {"prompt": "Be brief.\nBe kind.\n\nUser: Hello?\n\nAssistant:"},
    "several texts": {"prompt": "Hello?\nAnybody?"},
    "a history of three turns": {
        "prompt": (
            "User: Hello?\n\nAssistant: Hi.\n\nUser: Who?\n\nAssistant: Me.\n\nUser: Bye.\n\n"
            "Assistant:"
        )
    },
    "an answer with the space after its speaker": {
        "prompt": "User: Hello?\n\nAssistant: Hi.\n\n\nUser: Who?\n\nAssistant:"
    },
    "a refusal": {
        "prompt": "User: Hello?\n\nAssistant: No.\n\nUser: Please.\n\nAssistant:",
    },
    "the options of openai-completions": HELLO
    | {"temperature": 0, "top_p": 0.5, "max_tokens": 9, "seed": 7, "stop": ["\n\nUser:"]},
    "extra fields": HELLO | {"user": "u", "extra_body": {"metadata": {"a": "b"}}},
}
"""The keyword arguments of the SDK's call, without the model, by row."""

DIFFERENCES: Final[Differences] = {}
