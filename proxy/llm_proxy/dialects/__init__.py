"""The dialects, side by side: one file each, one line each in `DIALECTS`."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects.anthropic import Anthropic
from llm_proxy.dialects.base import Dialect, Judgement, Response
from llm_proxy.dialects.bedrock import Bedrock
from llm_proxy.dialects.cohere import Cohere
from llm_proxy.dialects.gemini import Gemini
from llm_proxy.dialects.gemini_interactions import GeminiInteractions
from llm_proxy.dialects.ollama import Ollama
from llm_proxy.dialects.opaque import Opaque
from llm_proxy.dialects.openai_chat import OpenAIChat
from llm_proxy.dialects.openai_completions import OpenAICompletions
from llm_proxy.dialects.openai_responses import OpenAIResponses
from llm_proxy.exchange import Request

__all__ = ["DIALECTS", "OPAQUE", "Dialect", "Judgement", "Response", "find", "named"]

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
)
"""In the order in which they are asked whether a request is theirs."""

OPAQUE: Final[Dialect] = Opaque()
"""HTTP that no dialect knows: proxied, recorded and replayed all the same."""


def find(request: Request) -> Dialect:
    """The dialect that this request speaks; `OPAQUE` where none claims it."""
    return next((dialect for dialect in DIALECTS if dialect.claims(request)), OPAQUE)


def named(name: str) -> Dialect:
    """The dialect of that name; `OPAQUE` for a name that this version does not know."""
    return next((dialect for dialect in DIALECTS if dialect.name == name), OPAQUE)
