"""The Responses API's token count and stored-response endpoints.

Nothing is stored here: a response that is fetched, cancelled or deleted is not found, as it would
be by a client that asks for one of another account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import errors
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

COUNT: Final = "/responses/input_tokens"
"""The end of the path on which tokens are counted."""
KEPT: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel|/input_items)?\Z")
"""The end of the path of what was stored."""

_NOT_FOUND: Final = 404
_WORDS: Final = ("instructions", "input", "tools", "text")
"""What of a request counts."""
_DEEPEST: Final = 32
_UNCOUNTED: Final = frozenset(("type", "role", "id", "call_id", "status", "image_url", "file_data"))
"""Fields whose strings the model does not read as words."""


def auxiliary_response_of(request: Request, context: EncodeContext) -> DialectResponse | None:
    """The answer; None where a turn is asked for."""
    if request.path.endswith(COUNT):
        count = {"object": "response.input_tokens", "input_tokens": input_tokens(request)}
        return response_encoding.json_response(count, errors.response_headers(context))
    stored = KEPT.search(request.path)
    if stored is None or stored[0].endswith("/compact"):
        return None
    text = f"Response with id '{unquote(stored['id'])}' not found."
    failure = Failure(text, "invalid_request_error", "not_found")
    return errors.error_response(_NOT_FOUND, failure, context)


def input_tokens(request: Request) -> int:
    """About how many tokens a request has: of its words, and of its tools."""
    body: Fields = lenient_json.parse_object(request.body)
    return fakes.estimated_tokens(
        "".join(
            collect_string
            for name in _WORDS
            for collect_string in _collect_strings(body.get(name), _DEEPEST)
        )
    )


def _collect_strings(value: Json, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() if depth:
            for item in value:
                yield from _collect_strings(item, depth - 1)
        case dict() if depth:
            for name, item in value.items():
                if name not in _UNCOUNTED:
                    yield from _collect_strings(item, depth - 1)
        case _:
            return
