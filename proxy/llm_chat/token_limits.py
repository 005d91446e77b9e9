"""Token counts of requests, and the limits of models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from llm_chat.errors import TokenLimitExceeded
from llm_chat.model_limits import MODEL_LIMITS
from llm_proxy.conversation import Conversation
from llm_proxy.turns import Text, ToolResult

DEFAULT_LIMIT: Final = 4096
"""The limit of a model without an entry, in tokens."""

_CHARACTERS_PER_TOKEN: Final = 4
_FAMILY_DELIMITERS: Final = "-:@"
"""What follows the name of a family: `gpt-4o-mini`, `llama3.1:8b`, `claude-3-5-haiku@20241022`."""
_MAKERS: Final = re.compile(r"\A(?:[a-z]+(?:-gov)?\.){1,2}(?=[a-z])")
"""What precedes a model's name at Bedrock: a region and a maker, or a maker."""


def estimate_tokens(conversation: Conversation) -> int:
    """A quarter of the characters of the request's text, rounded up; at least 1.

    Counts the system prompt, text and tool results.  Images do not count.  Characters are code
    points, as `len` counts them.
    """
    system = conversation.system
    characters = 0
    for message in conversation.messages:
        if message.role == "system" and message.text == system:
            system = ""  # it is in the list, and counts there
        for part in message.parts:
            match part:
                case Text(text=text) | ToolResult(content=text):
                    characters += len(text)
                case _:
                    pass
    characters += len(system)
    return max(1, -(-characters // _CHARACTERS_PER_TOKEN))


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """How the tokens of a request compare with the limit of its model."""

    within_limit: bool
    is_warning: bool
    """Whether they are within the limit, and reach the warning threshold."""
    limit: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The most tokens of each model, and the share of them from which a request is warned about.

    Raises `ValueError` for a limit below 1, and for a threshold that is not above 0 and at most 1.
    """

    model_limits: Mapping[str, int] = field(default_factory=lambda: MODEL_LIMITS)
    """By the name of a model or of a family (see `limit_of`); by default the known models."""
    warning_threshold: float = 0.9

    def __post_init__(self) -> None:
        for model, limit in self.model_limits.items():
            if limit < 1:
                raise ValueError(f"model_limits: {model!r}: expected at least 1, got {limit!r}")
        if not 0 < self.warning_threshold <= 1:
            raise ValueError(
                "warning_threshold: expected a number above 0 and at most 1, "
                f"got {self.warning_threshold!r}"
            )
        object.__setattr__(self, "model_limits", MappingProxyType(dict(self.model_limits)))

    def extended(self, model_limits: Mapping[str, int]) -> TokenLimits:
        """These limits with further ones, which replace those of the same name."""
        return replace(self, model_limits={**self.model_limits, **model_limits})

    def limit_of(self, model: str) -> int:
        """The limit of a model: its own, else that of the longest family name that it begins with.

        A family name ends before `-`, `:` or `@`.  A name without an entry is looked up again in
        lower case and without the names of a region and a maker before it (`openai/gpt-4o`,
        `eu.anthropic.claude-sonnet-4-5`).
        """
        for name in (model, _MAKERS.sub("", model.lower().rpartition("/")[2])):
            for end in range(len(name), 0, -1):
                is_whole_word = end == len(name) or name[end] in _FAMILY_DELIMITERS
                if is_whole_word and name[:end] in self.model_limits:
                    return self.model_limits[name[:end]]
        return DEFAULT_LIMIT

    def check(self, model: str, tokens: int) -> LimitCheck:
        """Compare the tokens of a request with the limit of its model."""
        limit = self.limit_of(model)
        within_limit = tokens <= limit
        return LimitCheck(
            within_limit=within_limit,
            is_warning=within_limit and tokens >= self.warning_threshold * limit,
            limit=limit,
            tokens=tokens,
        )


@runtime_checkable
class CountsTokens(Protocol):
    """A provider that counts the tokens of a request."""

    async def count_tokens(self, request: Conversation) -> int:
        """The tokens of a request's input."""
        ...


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of requests to a provider, and checks them."""

    provider: object
    """Its `count_tokens` is used if it has one (see `CountsTokens`), else `estimate_tokens`."""
    limits: TokenLimits

    async def count(self, conversation: Conversation) -> int:
        """The tokens of a request."""
        if isinstance(self.provider, CountsTokens):
            return await self.provider.count_tokens(conversation)
        return estimate_tokens(conversation)

    async def check(self, conversation: Conversation) -> LimitCheck:
        """Check a request before it is sent.  Raises `TokenLimitExceeded` above the limit."""
        check = self.limits.check(conversation.model, await self.count(conversation))
        if not check.within_limit:
            raise TokenLimitExceeded(check.tokens, check.limit, conversation.model)
        return check
