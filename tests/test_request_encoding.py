"""Requests encoded from conversations: equal to what the official SDKs send, and decodable."""

from __future__ import annotations

import orjson

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import dialect_named
from llm_proxy.turns import Text

QUESTION = Conversation((RequestMessage("user", (Text("Hello?"),)),), model="m")


def test_a_chat_request_streams_with_usage() -> None:
    request = dialect_named("openai-chat").encode_request(QUESTION)

    assert orjson.loads(request.body) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert dialect_named("openai-chat").decode_request(request) == QUESTION
