"""The dialects, all listed in `DIALECTS`."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects.anthropic.dialect import Anthropic
from llm_proxy.dialects.base import Completeness, Dialect, DialectResponse, RecordOnlyDialect
from llm_proxy.dialects.bedrock.dialect import Bedrock
from llm_proxy.dialects.cohere.dialect import Cohere
from llm_proxy.dialects.google.gemini import Gemini
from llm_proxy.dialects.google.interactions import GeminiInteractions
from llm_proxy.dialects.ollama.dialect import Ollama
from llm_proxy.dialects.opaque import Opaque
from llm_proxy.dialects.openai.chat import OpenAIChat
from llm_proxy.dialects.openai.completions import OpenAICompletions
from llm_proxy.dialects.openai.other_endpoints import ENDPOINTS
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.exchange import Request

__all__ = [
    "DIALECTS",
    "OPAQUE",
    "Completeness",
    "Dialect",
    "DialectResponse",
    "chat_dialects",
    "dialect_named",
    "dialect_of_request",
    "request_dialects",
]

DIALECTS: Final[tuple[Dialect, ...]] = (
    OpenAIChat(),
    OpenAICompletions(),
    OpenAIResponses(),
    Anthropic(),
    Gemini(),
    GeminiInteractions(),
    Ollama(),
    Cohere(),
    Bedrock(),
    *ENDPOINTS,
)
"""In matching order: a request belongs to the first dialect whose `matches` is true."""

OPAQUE: Final[Dialect] = Opaque()
"""The fallback for requests that no dialect matches; they are still recorded and replayed."""


def dialect_of_request(request: Request) -> Dialect:
    """The first dialect that matches the request; `OPAQUE` if none does."""
    return next((dialect for dialect in DIALECTS if dialect.matches(request)), OPAQUE)


def chat_dialects() -> dict[str, Dialect]:
    """The dialects whose responses decode to turns (all but the record-only ones), by name."""
    return {
        dialect.name: dialect for dialect in DIALECTS if not isinstance(dialect, RecordOnlyDialect)
    }


def request_dialects() -> dict[str, Dialect]:
    """The dialects that can encode requests, by name."""
    return {
        dialect.name: dialect
        for dialect in DIALECTS
        if type(dialect).encode_request is not Dialect.encode_request
    }


def dialect_named(name: str) -> Dialect:
    """The dialect of that name; `OPAQUE` for an unknown name."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), OPAQUE)
