"""Selects the InvokeModel format of a model on Amazon Bedrock.

A model's id names its maker, after a region (`us.anthropic.claude-...`) or in an ARN.  The ARN of
an application inference profile names no maker: there the fields of the request decide.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.dialects.bedrock.chat_format import ChatModelFormat
from llm_proxy.dialects.bedrock.claude_format import (
    AnyClaudeFormat,
    ClaudeCompletionFormat,
    ClaudeFormat,
)
from llm_proxy.dialects.bedrock.completion_format import (
    COHERE,
    COMMAND_R,
    LLAMA,
    TITAN,
    completion_format_with_text_list,
)
from llm_proxy.dialects.bedrock.model_format import ModelFormat
from llm_proxy.dialects.bedrock.nova_format import NovaFormat
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import NotRepresentable, printable_excerpt

_CLAUDE: Final = ClaudeFormat()
_CLAUDE_COMPLETION: Final = ClaudeCompletionFormat()
_NOVA: Final = NovaFormat()
_CHAT: Final = ChatModelFormat()
_MISTRAL: Final = completion_format_with_text_list("outputs")

_ANTHROPIC_PATTERN: Final = r"anthropic\."

_FORMAT_BY_MODEL_PATTERN: Final[tuple[tuple[str, ModelFormat | AnyClaudeFormat], ...]] = (
    (_ANTHROPIC_PATTERN, _CLAUDE),
    (r"amazon\.nova-(?!canvas|reel|sonic|.*embed)", _NOVA),
    (r"amazon\.titan-(?:text|tg1)", TITAN),
    (r"meta\.llama", LLAMA),
    (r"mistral\.(?:mistral-7b|mixtral|mistral-(?:small|large)-2402)", _MISTRAL),
    (r"mistral\.", ChatModelFormat(finish_reason_field="stop_reason")),
    (r"cohere\.command-(?:r|a)", COMMAND_R),
    (r"cohere\.command", COHERE),
    (r"deepseek\.r1", completion_format_with_text_list("choices")),
    (r"(?:ai21\.jamba|deepseek|google|minimax|moonshotai?|nvidia|openai|qwen|writer|zai)\b", _CHAT),
)
"""In matching order."""

_FORMAT_BY_REQUEST_FIELD: Final[tuple[tuple[str, ModelFormat | AnyClaudeFormat], ...]] = (
    ("anthropic_version", _CLAUDE),
    ("max_tokens_to_sample", _CLAUDE_COMPLETION),
    ("inferenceConfig", _NOVA),
    ("schemaVersion", _NOVA),
    ("textGenerationConfig", TITAN),
    ("max_gen_len", LLAMA),
)
"""Request fields that only one maker's models have."""

_MAX_SHOWN_CHARS: Final = 100
"""The limit for a model id in an error message."""


def format_of_model(model: str, body: Fields) -> ModelFormat | AnyClaudeFormat:
    """The format of a model, by its id or the request.  Raises `NotRepresentable` if unknown."""
    matched_format = next(
        (
            model_format
            for name, model_format in _FORMAT_BY_MODEL_PATTERN
            if _matches_model_pattern(name, model)
        ),
        None,
    )
    if matched_format is _CLAUDE and "prompt" in body:
        return _CLAUDE_COMPLETION
    matched_format = matched_format or next(
        (model_format for name, model_format in _FORMAT_BY_REQUEST_FIELD if name in body), None
    )
    if matched_format is None:
        shown_model = printable_excerpt(model, _MAX_SHOWN_CHARS)
        raise NotRepresentable(
            f"bedrock does not know in whose format the model {shown_model} answers"
        )
    return matched_format


def requires_signed_reasoning(model: str) -> bool:
    """Whether the model requires signatures on reasoning in the history (Anthropic)."""
    return _matches_model_pattern(_ANTHROPIC_PATTERN, model)


def _matches_model_pattern(pattern: str, model: str) -> bool:
    return re.search(rf"(?:^|[./]){pattern}", model) is not None
