"""What Amazon Bedrock's clients ask beside turns: how many tokens a request has.

Tokens are guessed from what the model would read.
"""

from __future__ import annotations

import base64
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.bedrock import errors
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json

_TEXTS: Final = (
    *("system", "messages", "content", "text", "reasoningContent", "reasoningText", "thinking"),
    *("guardContent", "prompt", "inputText", "message", "chat_history"),
    *("toolUse", "toolResult", "tool_calls", "arguments"),
    *("toolConfig", "tools", "toolSpec", "function", "name", "description", "inputSchema"),
)
_OBJECTS: Final = ("input", "json", "input_schema", "parameters")
"""Where Converse and the models' own requests hold what the model reads."""


def count(body: Fields, delivery: Delivery) -> Response:
    """How many tokens the request has, more or less."""
    asked = lenient_json.fields(body.get("input"))
    read = fakes.texts(asked.get("converse") or _native(asked), _TEXTS, _OBJECTS)
    guessed = max(1, fakes.tokens("".join(read)))
    return response_encoding.document({"inputTokens": guessed}, errors.headers(delivery))


def _native(asked: Fields) -> Json:
    """The request of a model's own, which comes in base64."""
    encoded = lenient_json.text(lenient_json.fields(asked.get("invokeModel")).get("body"))
    try:
        return dict(lenient_json.document(base64.b64decode(encoded, validate=True)))
    except ValueError:
        return None
