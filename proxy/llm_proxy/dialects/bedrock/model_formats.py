"""Selects the InvokeModel format of a model on Amazon Bedrock.

A model's id names its maker, behind a region (`us.anthropic.claude-...`) or in an ARN.  The ARN of
an application's own profile names nobody: there the request tells, as each maker spells its own.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.dialects.bedrock.chat_format import ChatModelFormat
from llm_proxy.dialects.bedrock.claude_format import ClaudeCompletionFormat, ClaudeFormat
from llm_proxy.dialects.bedrock.completion_format import (
    COHERE,
    COMMAND_R,
    LLAMA,
    TITAN,
    list_completion_format,
)
from llm_proxy.dialects.bedrock.model_format import ModelFormat
from llm_proxy.dialects.bedrock.nova_format import NovaFormat
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import NotRepresentable, printable

_CLAUDE: Final = ClaudeFormat()
_CLAUDE_COMPLETION: Final = ClaudeCompletionFormat()
_NOVA: Final = NovaFormat()
_CHAT: Final = ChatModelFormat()
_MISTRAL: Final = list_completion_format("outputs")

_OF_ANTHROPIC: Final = r"anthropic\."

_BY_MODEL: Final[tuple[tuple[str, ModelFormat], ...]] = (
    (_OF_ANTHROPIC, _CLAUDE),
    (r"amazon\.nova-(?!canvas|reel|sonic|.*embed)", _NOVA),
    (r"amazon\.titan-(?:text|tg1)", TITAN),
    (r"meta\.llama", LLAMA),
    (r"mistral\.(?:mistral-7b|mixtral|mistral-(?:small|large)-2402)", _MISTRAL),
    (r"mistral\.", ChatModelFormat(finish_reason_field="stop_reason")),
    (r"cohere\.command-(?:r|a)", COMMAND_R),
    (r"cohere\.command", COHERE),
    (r"deepseek\.r1", list_completion_format("choices")),
    (r"(?:ai21\.jamba|deepseek|google|minimax|moonshotai?|nvidia|openai|qwen|writer|zai)\b", _CHAT),
)
"""The first that fits."""

_BY_FIELD: Final[tuple[tuple[str, ModelFormat], ...]] = (
    ("anthropic_version", _CLAUDE),
    ("max_tokens_to_sample", _CLAUDE_COMPLETION),
    ("inferenceConfig", _NOVA),
    ("schemaVersion", _NOVA),
    ("textGenerationConfig", TITAN),
    ("max_gen_len", LLAMA),
)
"""Fields of a request that one maker's models take alone."""

_LONGEST: Final = 100
"""Characters of a model's id in a message."""


def format_of_model(model: str, body: Fields) -> ModelFormat:
    """Who answers this request.  Raises `NotRepresentable` where nothing tells."""
    found = next(
        (model_format for name, model_format in _BY_MODEL if _is_made_by(name, model)), None
    )
    if found is _CLAUDE and "prompt" in body:
        return _CLAUDE_COMPLETION
    found = found or next((it for name, it in _BY_FIELD if name in body), None)
    if found is None:
        shown = printable(model, _LONGEST)
        raise NotRepresentable(f"bedrock does not know in whose format the model {shown} answers")
    return found


def signs_reasoning(model: str) -> bool:
    """Whether the model wants the reasoning that it is handed back with its seal."""
    return _is_made_by(_OF_ANTHROPIC, model)


def _is_made_by(name: str, model: str) -> bool:
    return re.search(rf"(?:^|[./]){name}", model) is not None
