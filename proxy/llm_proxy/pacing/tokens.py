"""Token counts of requests and responses: as the provider counted them, else estimated."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import fakes, output_chars
from llm_proxy.turns import Reasoning, TokenCounting, Turn, Usage


def output_characters(turns: Sequence[Turn]) -> int:
    """How many characters were said."""
    return sum(output_chars.fragment_output_chars(part) for turn in turns for part in turn.parts)


def output_tokens(turns: Sequence[Turn], counting: TokenCounting, number: int) -> int:
    """The tokens of an answer whose `said` characters can be seen.

    They are what the provider counted, but for those of reasoning that it kept to itself; of an
    answer that was cut, or not counted, a quarter of its characters.
    """
    finished = (turn.usage for turn in turns if turn.finish is not None and turn.usage is not None)
    usage = next(finished, Usage())
    if not usage.output:
        return fakes.tokens_of_chars(number)
    thought = usage.reasoning or 0
    spoken = usage.output - thought if counting.reasoning_is_output else usage.output
    return max(spoken + (thought if _has_readable_reasoning(turns) else 0), 1)


def prompt_tokens(turns: Sequence[Turn], conversation: Conversation | None) -> int:
    """The tokens of a request: what the provider counted, else a quarter of its characters."""
    counted = (turn.usage.input for turn in turns if turn.usage is not None)
    count = next((number for number in counted if number), None)
    if count is not None:
        return max(count, 0)
    return 0 if conversation is None else fakes.estimated_tokens(conversation.prompt)


def _has_readable_reasoning(turns: Sequence[Turn]) -> bool:
    return any(isinstance(part, Reasoning) and part.text for turn in turns for part in turn.parts)
