"""Whose format a model on Amazon Bedrock answers InvokeModel in.

A model's id names its maker, behind a region (`us.anthropic.claude-...`) or in an ARN.  The ARN of
an application's own profile names nobody: there the request tells, as each maker spells its own.
"""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.dialects.bedrock.chat_format import Chat
from llm_proxy.dialects.bedrock.claude_format import Claude, ClaudeCompletion
from llm_proxy.dialects.bedrock.completion_format import COHERE, COMMAND_R, LLAMA, TITAN, listed
from llm_proxy.dialects.bedrock.model_format import Maker
from llm_proxy.dialects.bedrock.nova_format import Nova
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import CannotSay, printable

_CLAUDE: Final = Claude()
_CLAUDE_COMPLETION: Final = ClaudeCompletion()
_NOVA: Final = Nova()
_CHAT: Final = Chat()
_MISTRAL: Final = listed("outputs")

_OF_ANTHROPIC: Final = r"anthropic\."

_BY_MODEL: Final[tuple[tuple[str, Maker], ...]] = (
    (_OF_ANTHROPIC, _CLAUDE),
    (r"amazon\.nova-(?!canvas|reel|sonic|.*embed)", _NOVA),
    (r"amazon\.titan-(?:text|tg1)", TITAN),
    (r"meta\.llama", LLAMA),
    (r"mistral\.(?:mistral-7b|mixtral|mistral-(?:small|large)-2402)", _MISTRAL),
    (r"mistral\.", Chat(reason="stop_reason")),
    (r"cohere\.command-(?:r|a)", COMMAND_R),
    (r"cohere\.command", COHERE),
    (r"deepseek\.r1", listed("choices")),
    (r"(?:ai21\.jamba|deepseek|google|minimax|moonshotai?|nvidia|openai|qwen|writer|zai)\b", _CHAT),
)
"""The first that fits."""

_BY_FIELD: Final[tuple[tuple[str, Maker], ...]] = (
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


def maker(model: str, body: Fields) -> Maker:
    """Who answers this request.  Raises `CannotSay` where nothing tells."""
    found = next((it for name, it in _BY_MODEL if _is_of(name, model)), None)
    if found is _CLAUDE and "prompt" in body:
        return _CLAUDE_COMPLETION
    found = found or next((it for name, it in _BY_FIELD if name in body), None)
    if found is None:
        shown = printable(model, _LONGEST)
        raise CannotSay(f"bedrock does not know in whose format the model {shown} answers")
    return found


def signs(model: str) -> bool:
    """Whether the model wants the reasoning that it is handed back with its seal."""
    return _is_of(_OF_ANTHROPIC, model)


def _is_of(name: str, model: str) -> bool:
    return re.search(rf"(?:^|[./]){name}", model) is not None
