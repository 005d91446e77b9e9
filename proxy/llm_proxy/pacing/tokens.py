"""Token counts of requests and responses: as the provider reports them, else estimated."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.fragments import fragment_output_chars
from llm_proxy.turns import Reasoning, TokenCounting, Turn, Usage


def count_output_chars(turns: Sequence[Turn]) -> int:
    """The output characters of all parts of the turns."""
    return sum(fragment_output_chars(part) for turn in turns for part in turn.parts)


def count_output_tokens(
    turns: Sequence[Turn], token_counting: TokenCounting, visible_chars: int
) -> int:
    """The tokens of a response with `visible_chars` output characters.

    That is the count that the provider reports, without reasoning that it does not send; for a
    response that is cut, or not counted, a quarter of its characters.
    """
    finished = (turn.usage for turn in turns if turn.finish is not None and turn.usage is not None)
    usage = next(finished, Usage())
    if not usage.output:
        return estimates_and_fakes.token_count_of_chars(visible_chars)
    reasoning_tokens = usage.reasoning or 0
    visible_tokens = (
        usage.output - reasoning_tokens if token_counting.reasoning_is_output else usage.output
    )
    return max(visible_tokens + (reasoning_tokens if _has_readable_reasoning(turns) else 0), 1)


def count_prompt_tokens(turns: Sequence[Turn], conversation: Conversation | None) -> int:
    """The tokens of a request: as the provider reports, else a quarter of its characters."""
    reported_counts = (turn.usage.input for turn in turns if turn.usage is not None)
    count = next((number for number in reported_counts if number), None)
    if count is not None:
        return max(count, 0)
    return (
        0
        if conversation is None
        else estimates_and_fakes.estimated_token_count(conversation.prompt)
    )


def _has_readable_reasoning(turns: Sequence[Turn]) -> bool:
    return any(isinstance(part, Reasoning) and part.text for turn in turns for part in turn.parts)
