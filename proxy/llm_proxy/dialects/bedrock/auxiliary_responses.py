"""Amazon Bedrock's token count response; tokens are estimated from what the model reads."""

from __future__ import annotations

import base64
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_string,
    parse_object,
)
from llm_proxy.turns import Json

_TEXT_FIELDS: Final = (
    *("system", "messages", "content", "text", "reasoningContent", "reasoningText", "thinking"),
    *("guardContent", "prompt", "inputText", "message", "chat_history"),
    *("toolUse", "toolResult", "tool_calls", "arguments"),
    *("toolConfig", "tools", "toolSpec", "function", "name", "description", "inputSchema"),
)
_JSON_FIELDS: Final = ("input", "json", "input_schema", "parameters")
"""The fields of Converse and of the models' own requests with texts that the model reads."""


def count_tokens_response(body: Fields, context: EncodeContext) -> DialectResponse:
    """The estimated number of input tokens."""
    fields = get_object(body, "input")
    texts = estimates_and_fakes.model_input_texts(
        fields.get("converse") or _decode_native_request(fields), _TEXT_FIELDS, _JSON_FIELDS
    )
    token_count = max(1, estimates_and_fakes.estimated_token_count("".join(texts)))
    return response_encoding.json_response(
        {"inputTokens": token_count}, errors.common_response_headers(context)
    )


def _decode_native_request(fields: Fields) -> Json:
    """The request in a model's own format, which is base64; None if invalid."""
    encoded = get_string(get_object(fields, "invokeModel"), "body")
    try:
        return dict(parse_object(base64.b64decode(encoded, validate=True)))
    except ValueError:
        return None
