"""Makes the Responses API's token counts and 404s for stored responses without a recording.

Nothing is stored here: fetching, cancelling or deleting a response fails with 404, as OpenAI does
for a response of another account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import errors
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

INPUT_TOKENS_PATH: Final = "/responses/input_tokens"
"""The end of the path of the token count endpoint."""
STORED_RESPONSE_PATH: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel|/input_items)?\Z")
"""The end of the path of a stored response."""

_NOT_FOUND: Final = 404
_COUNTED_FIELDS: Final = ("instructions", "input", "tools", "text")
"""The fields of a request whose strings are counted."""
_MAX_DEPTH: Final = 32
_UNCOUNTED_FIELDS: Final = frozenset(
    ("type", "role", "id", "call_id", "status", "image_url", "file_data")
)
"""Fields whose strings the model does not read as text."""


def auxiliary_response(request: Request, context: EncodeContext) -> DialectResponse | None:
    """A token count, or 404 for a stored response; None where the request asks for a turn."""
    if request.path.endswith(INPUT_TOKENS_PATH):
        document = {
            "object": "response.input_tokens",
            "input_tokens": estimate_input_tokens(request),
        }
        return response_encoding.json_response(document, errors.common_response_headers(context))
    stored_match = STORED_RESPONSE_PATH.search(request.path)
    if stored_match is None or stored_match[0].endswith("/compact"):
        return None
    message = f"Response with id '{unquote(stored_match['id'])}' not found."
    failure = Failure(message, "invalid_request_error", "not_found")
    return errors.error_response(_NOT_FOUND, failure, context)


def estimate_input_tokens(request: Request) -> int:
    """An estimate of the request's tokens, those of its tools included."""
    body: Fields = lenient_json.parse_object(request.body)
    return estimates_and_fakes.estimated_token_count(
        "".join(
            text
            for name in _COUNTED_FIELDS
            for text in _collect_strings(body.get(name), _MAX_DEPTH)
        )
    )


def _collect_strings(value: Json, max_depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() if max_depth:
            for item in value:
                yield from _collect_strings(item, max_depth - 1)
        case dict() if max_depth:
            for name, item in value.items():
                if name not in _UNCOUNTED_FIELDS:
                    yield from _collect_strings(item, max_depth - 1)
        case _:
            return
