"""Amazon Bedrock's token count response.

Tokens are guessed from what the model would read.
"""

from __future__ import annotations

import base64
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors
from llm_proxy.dialects.encode_context import EncodeContext
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


def count_tokens(body: Fields, context: EncodeContext) -> DialectResponse:
    """How many tokens the request has, more or less."""
    fields = lenient_json.object_fields(body.get("input"))
    read = fakes.model_input_texts(
        fields.get("converse") or _decode_native_request(fields), _TEXTS, _OBJECTS
    )
    guessed = max(1, fakes.estimated_tokens("".join(read)))
    return response_encoding.json_response(
        {"inputTokens": guessed}, errors.response_headers(context)
    )


def _decode_native_request(fields: Fields) -> Json:
    """The request of a model's own, which comes in base64."""
    encoded = lenient_json.str_or_empty(
        lenient_json.object_fields(fields.get("invokeModel")).get("body")
    )
    try:
        return dict(lenient_json.parse_object(base64.b64decode(encoded, validate=True)))
    except ValueError:
        return None
