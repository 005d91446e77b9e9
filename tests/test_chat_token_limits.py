"""Token counts of requests and the limits of models (document 002)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_row
from llm_chat.errors import ChatError, TokenLimitExceeded
from llm_chat.model_limits import MODEL_LIMITS
from llm_chat.token_limits import (
    DEFAULT_LIMIT,
    CountsTokens,
    LimitCheck,
    TokenCounter,
    TokenLimits,
    estimate_tokens,
)
from llm_proxy.conversation import Conversation, RequestMessage, Role
from llm_proxy.turns import Media, Part, Reasoning, Text, ToolCall, ToolResult

EXAMPLES: Final = settings(max_examples=200)
TOKENS: Final = st.integers(0, 2**40)
LIMIT: Final = st.integers(1, 2**30)
PART: Final[st.SearchStrategy[Part]] = (
    st.builds(Text, st.text())
    | st.builds(ToolResult, st.just("id"), st.text())
    | st.builds(Reasoning, st.text())
    | st.builds(Media, st.just("image/png"), base64=st.text())
    | st.builds(ToolCall, st.just("id"), st.just("t"), st.text())
)
ROLE: Final[st.SearchStrategy[Role]] = st.sampled_from(("system", "user", "assistant", "tool"))
CONVERSATION: Final = st.builds(
    Conversation,
    st.lists(
        st.builds(RequestMessage, ROLE, st.lists(PART, min_size=1, max_size=3).map(tuple)),
        max_size=4,
    ).map(tuple),
    system=st.text(),
    model=st.sampled_from(("gpt-4o", "unknown", "")),
)
IMAGE: Final = Media("image/png", base64="A" * 4000)


@dataclass
class CountingProvider:
    """A provider that has a token count of its own."""

    tokens: int
    requests: list[Conversation] = field(default_factory=list)

    async def count_tokens(self, request: Conversation) -> int:
        self.requests.append(request)
        return self.tokens


class ProviderWithoutCount:
    """A provider that cannot count tokens."""

    count_tokens = None


def message(role: Role, *parts: Part) -> RequestMessage:
    return RequestMessage(role, parts)


def user(*texts: str) -> RequestMessage:
    return message("user", *map(Text, texts))


# The estimate


ESTIMATES: Final = {
    "002-36 text": (Conversation((user("12345678"),)), 2),
    "002-36 rounded up": (Conversation((user("123456789"),)), 3),
    "002-36 all parts": (Conversation((user("123", "45"), user("678"))), 2),
    "002-36 the sum is rounded, not each part": (Conversation((user("1", "2", "3", "4"),)), 1),
    "002-36 the system prompt": (Conversation((user("1234"),), system="12345"), 3),
    "002-36 a tool result": (
        Conversation((message("tool", ToolResult("id", "12345678", "t")),)),
        2,
    ),
    "002-36 no image": (Conversation((message("user", Text("1234"), IMAGE),)), 1),
    "002-36 the system prompt in the list, once": (
        Conversation((message("system", Text("12345678")), user("1234")), system="12345678"),
        3,
    ),
    "002-36 a system message beside the prompt": (
        Conversation((message("system", Text("1234")), user("1234")), system="12345678"),
        4,
    ),
    "002-36 a system message of two parts, once": (
        Conversation((message("system", Text("12"), Text("34")),), system="12\n34"),
        1,
    ),
    "002-36 a user message that repeats the prompt": (
        Conversation((user("12345678"),), system="12345678"),
        4,
    ),
    "002-36 two equal system messages": (
        Conversation((message("system", Text("1234")),) * 2, system="1234"),
        2,
    ),
    "002-36 code points": (Conversation((user("🦙" * 8),)), 2),
    "002-36 lone surrogates": (Conversation((user("\ud800" * 8),)), 2),
    "002-P22 nothing": (Conversation(()), 1),
    "002-P22 an image alone": (Conversation((message("user", IMAGE),)), 1),
    "002-36 a megabyte": (Conversation((user("x" * 2**20),)), 2**18),
}


@pytest.mark.shows("002-36", "002-59")
@each_row(("conversation", "tokens"), ESTIMATES.values(), ids=ESTIMATES)
def test_the_estimate(conversation: Conversation, tokens: int) -> None:
    """002-36 and 002-59."""
    assert estimate_tokens(conversation) == tokens


@pytest.mark.shows("002-P22")
@EXAMPLES
@given(CONVERSATION)
def test_the_estimate_of_any_request_is_a_positive_integer(conversation: Conversation) -> None:
    # Feature: stage-02-core-provider, Property 22: For any chat request, the Token_Counter should
    # produce a positive integer estimate of the total token count.
    tokens = asyncio.run(TokenCounter(ProviderWithoutCount(), TokenLimits()).count(conversation))

    assert isinstance(tokens, int)
    assert tokens >= 1


@pytest.mark.shows("002-P24")
@EXAMPLES
@given(st.text(min_size=1), st.booleans())
def test_the_estimate_of_a_text_is_a_quarter_of_its_length(text: str, is_system: bool) -> None:
    # Feature: stage-02-core-provider, Property 24: For any text content, the fallback token
    # estimation should equal Math.ceil(text.length / 4).
    conversation = Conversation((), system=text) if is_system else Conversation((user(text),))

    assert estimate_tokens(conversation) == math.ceil(len(text) / 4)


@pytest.mark.shows("002-P23")
@EXAMPLES
@given(CONVERSATION, st.integers(1, 2**40))
def test_a_provider_counts_its_own_tokens(conversation: Conversation, tokens: int) -> None:
    # Feature: stage-02-core-provider, Property 23: For any provider that implements countTokens,
    # the Token_Counter should use the provider's method rather than the fallback estimation.
    provider = CountingProvider(tokens)

    assert asyncio.run(TokenCounter(provider, TokenLimits()).count(conversation)) == tokens
    assert provider.requests == [conversation]


@pytest.mark.shows("002-35")
def test_a_provider_without_the_method_gets_the_estimate() -> None:
    """002-35."""
    assert isinstance(CountingProvider(1), CountsTokens)
    assert not isinstance(ProviderWithoutCount(), CountsTokens)
    assert not isinstance(object(), CountsTokens)


# The limits


@pytest.mark.shows("002-34", "002-38")
@each_row(
    ("tokens", "within_limit", "is_warning"),
    [
        (0, True, False),
        (89, True, False),
        (90, True, True),
        (100, True, True),
        (101, False, False),
        (10**9, False, False),
    ],
)
def test_a_request_is_compared_with_its_limit(
    tokens: int, within_limit: bool, is_warning: bool
) -> None:
    """002-34 and 002-38."""
    limits = TokenLimits({"m": 100}, warning_threshold=0.9)

    assert limits.check("m", tokens) == LimitCheck(within_limit, is_warning, 100, tokens)


@pytest.mark.shows("002-P25")
@EXAMPLES
@given(LIMIT, st.floats(0, 1))
def test_a_request_near_the_limit_is_warned_about(limit: int, share: float) -> None:
    # Feature: stage-02-core-provider, Property 25: For any chat request where estimated tokens are
    # between 90% and 100% of the model's limit, the system should emit a warning.
    tokens = math.floor(limit * share)
    limits = TokenLimits({"m": limit})
    check = asyncio.run(
        TokenCounter(CountingProvider(tokens), limits).check(Conversation((), model="m"))
    )

    assert check.within_limit
    assert check.is_warning is (10 * tokens >= 9 * limit)


@pytest.mark.shows("002-P26")
@EXAMPLES
@given(LIMIT, st.integers(1, 2**40), CONVERSATION)
def test_a_request_above_the_limit_is_refused(
    limit: int, excess: int, conversation: Conversation
) -> None:
    # Feature: stage-02-core-provider, Property 26: For any chat request where estimated tokens
    # exceed the model's limit, the system should block the request and throw an error.
    limits = TokenLimits({"gpt-4o": limit})
    limit = limits.limit_of(conversation.model)
    tokens = limit + excess
    counter = TokenCounter(CountingProvider(tokens), limits)

    with pytest.raises(TokenLimitExceeded) as raised:
        asyncio.run(counter.check(conversation))
    assert str(raised.value) == (
        f"Request exceeds token limit: {tokens} > {limit} for model {conversation.model}"
    )


@pytest.mark.shows("002-39")
def test_the_error_has_its_figures() -> None:
    """002-39."""
    error = TokenLimitExceeded(4097, 4096, "llama2")

    assert isinstance(error, ChatError)
    assert (error.tokens, error.limit, error.model) == (4097, 4096, "llama2")
    assert str(error) == "Request exceeds token limit: 4097 > 4096 for model llama2"


@pytest.mark.shows("002-37")
@each_row(
    ("model", "limit"),
    [
        ("m", 1),
        ("m-1", 2),
        ("m-1-2", 2),
        ("m-1:8b", 2),
        ("m-12", 1),
        ("m:8b", 1),
        ("m@20250101", 1),
        ("m.1", DEFAULT_LIMIT),
        ("mm", DEFAULT_LIMIT),
        ("-m", DEFAULT_LIMIT),
        ("", DEFAULT_LIMIT),
        ("openai/m", 3),
        ("openai/m-9", 3),
        ("other/m", 1),
        ("a/b/m:8b", 1),
        ("m/", DEFAULT_LIMIT),
        ("M", 1),
        ("eu.maker.m-1", 2),
        ("maker.m", 1),
        ("my-x.m", DEFAULT_LIMIT),
        ("a" * 200_000, DEFAULT_LIMIT),
    ],
)
def test_the_longest_name_that_matches_gives_the_limit(model: str, limit: int) -> None:
    """002-37: 4096 for a model without an entry."""
    assert TokenLimits({"m": 1, "m-1": 2, "openai/m": 3}).limit_of(model) == limit


@each_row(
    ("model", "limit"),
    [
        ("gpt-4o-2024-08-06", 128_000),
        ("gpt-4o-mini", 128_000),
        ("openai/gpt-4.1-mini", 1_047_576),
        ("gpt-4-0613", 8_192),
        ("gpt-4-1106-preview", 128_000),
        ("gpt-4-0125-preview", 128_000),
        ("gpt-3.5-turbo-0125", 16_385),
        ("gpt-3.5-turbo-instruct-0914", 4_096),
        ("o1-2024-12-17", 200_000),
        ("o1-pro", 200_000),
        ("o1-mini-2024-09-12", 128_000),
        ("gpt-5.3-codex-spark", 128_000),
        ("gpt-5-mini-2025-08-07", 400_000),
        ("gpt-5-chat-latest", 128_000),
        ("o3-mini", 200_000),
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-sonnet-4-6", 1_000_000),
        ("claude-opus-4-20250514", 200_000),
        ("claude-3-5-haiku@20241022", 200_000),
        ("claude-opus-5-5", 1_000_000),
        ("models/gemini-2.5-flash-lite", 1_048_576),
        ("gemini-2.5-flash-image", 32_768),
        ("gemini-1.5-flash-8b", 1_048_576),
        ("gemini-1.5-pro-002", 2_097_152),
        ("mistral-large-2411", 131_072),
        ("deepseek-v4-pro", 1_000_000),
        ("grok-4-0709", 256_000),
        ("grok-4-fast-reasoning", 2_000_000),
        ("command-r-plus-08-2024", 128_000),
        ("llama3.1:8b", 131_072),
        ("llama3:70b-instruct-q4_0", 8_192),
        ("llama4:scout", 1_048_576),
        ("gemma3", 131_072),
        ("gemma3:27b", 131_072),
        ("gemma3:1b-it-qat", 32_768),
        ("phi4:14b", 16_384),
        ("phi4-mini-reasoning", 131_072),
        ("phi4-reasoning:plus", 32_768),
        ("qwen2.5", 32_768),
        ("Qwen/Qwen3-8B", 40_960),
        ("amazon.nova-lite-v1:0", 300_000),
        ("us.amazon.nova-premier-v1:0", 1_000_000),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("meta.llama3-3-70b-instruct-v1:0", 131_072),
        ("llama-3.3-70b-versatile", 131_072),
        ("mistral:latest", 32_768),
        ("llama2", 4096),
        ("default", 4096),
    ],
)
def test_known_models_have_their_limit(model: str, limit: int) -> None:
    assert TokenLimits().limit_of(model) == limit


def test_every_known_limit_is_found_under_its_own_name() -> None:
    assert {model: TokenLimits().limit_of(model) for model in MODEL_LIMITS} == MODEL_LIMITS


@pytest.mark.shows("002-34", "002-37")
@EXAMPLES
@given(st.dictionaries(st.text(min_size=1), LIMIT), st.text(), TOKENS)
def test_a_model_with_an_entry_has_that_limit(
    model_limits: Mapping[str, int], unknown: str, tokens: int
) -> None:
    """002-34 and 002-37."""
    limits = TokenLimits(model_limits)

    assert {model: limits.limit_of(model) for model in model_limits} == model_limits
    assert limits.limit_of(unknown) in {DEFAULT_LIMIT, *model_limits.values()}
    assert limits.check(unknown, tokens).within_limit is (tokens <= limits.limit_of(unknown))


def test_settings_extend_the_known_limits() -> None:
    limits = TokenLimits(warning_threshold=0.5).extended({"gpt-4o": 10, "mine": 20})

    assert limits.limit_of("gpt-4o-2024-08-06") == 10
    assert limits.limit_of("mine:latest") == 20
    assert limits.limit_of("gpt-4") == MODEL_LIMITS["gpt-4"]
    assert limits.warning_threshold == 0.5
    assert MODEL_LIMITS["gpt-4o"] == 128_000


def test_limits_keep_a_copy_of_the_mapping() -> None:
    model_limits = {"m": 1}
    limits = TokenLimits(model_limits)
    model_limits["m"] = 2

    assert limits.limit_of("m") == 1


@pytest.mark.shows("002-34")
@each_row(
    ("model_limits", "threshold", "message"),
    [
        ({"a": 1, "b": 0}, 0.9, "model_limits: 'b': expected at least 1, got 0"),
        ({"b": -5}, 0.9, "model_limits: 'b': expected at least 1, got -5"),
        ({}, 0, "warning_threshold: expected a number above 0 and at most 1, got 0"),
        ({}, 1.1, "warning_threshold: expected a number above 0 and at most 1, got 1.1"),
        ({}, math.nan, "warning_threshold: expected a number above 0 and at most 1, got nan"),
    ],
)
def test_invalid_limits_are_refused_by_name(
    model_limits: Mapping[str, int], threshold: float, message: str
) -> None:
    """002-34."""
    with pytest.raises(ValueError, match="expected") as raised:
        TokenLimits(model_limits, threshold)
    assert str(raised.value) == message
