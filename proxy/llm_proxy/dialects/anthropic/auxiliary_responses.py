"""What Anthropic's clients ask beside messages: how many tokens a request has, and which models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import fakes, response_encoding
from llm_proxy.dialects.anthropic import errors
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_READ: Final = ("system", "messages", "tools")
"""The fields of a request that the model reads."""

_TEXTS: Final = ("text", "thinking", "content", "name", "title", "description")
_OBJECTS: Final = ("input", "input_schema")

_PAGE: Final = 20
_LARGEST_PAGE: Final = 1000


def count(body: Fields, delivery: Delivery) -> Response:
    """How many tokens the request has, more or less."""
    read = (it for name in _READ for it in fakes.texts(body.get(name), _TEXTS, _OBJECTS))
    guessed = max(1, fakes.tokens("".join(read)))
    return response_encoding.document({"input_tokens": guessed}, _headers(delivery))


def model(name: str, delivery: Delivery) -> Response:
    """One model; any is there where none are listed."""
    if delivery.models and name not in delivery.models:
        return errors.refuse(404, Failure(f"model: {name}"), delivery)
    return response_encoding.document(_model(name, delivery), _headers(delivery))


def models(query: str, delivery: Delivery) -> Response:
    """The page of the list of models that the query asks for."""
    asked = {name: values[-1] for name, values in parse_qs(query).items()}
    listed, has_more = _page(delivery.models, asked)
    page: Document = {
        "data": [_model(name, delivery) for name in listed],
        "has_more": has_more,
        "first_id": listed[0] if listed else None,
        "last_id": listed[-1] if listed else None,
    }
    return response_encoding.document(page, _headers(delivery))


def _page(names: Sequence[str], asked: dict[str, str]) -> tuple[Sequence[str], bool]:
    """The names of a page, and whether more lie in the direction that was asked for."""
    size = _size(asked.get("limit", ""))
    before, after = asked.get("before_id"), asked.get("after_id")
    if before in names:
        rest = names[: names.index(before)]
        return rest[-size:], len(rest) > size
    rest = names[names.index(after) + 1 :] if after in names else names
    return rest[:size], len(rest) > size


def _size(limit: str) -> int:
    """How many a page holds; a limit that is none is not heeded."""
    wanted = int(limit) if limit.isdecimal() and len(limit) < len("10000") else 0
    return min(wanted or _PAGE, _LARGEST_PAGE)


def _model(name: str, delivery: Delivery) -> Document:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": errors.moment(delivery.created),
        "lifecycle": "active",
    }


def _headers(delivery: Delivery) -> tuple[tuple[str, str], ...]:
    return errors.headers(delivery, errors.made_id(delivery))
