"""How many tokens an answer and its request have: as they were counted, else by a rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import fakes, output_chars
from llm_proxy.turns import Counting, Reasoning, Turn, Usage


def characters(turns: Sequence[Turn]) -> int:
    """How many characters were said."""
    return sum(output_chars.says(part) for turn in turns for part in turn.parts)


def answered(turns: Sequence[Turn], counting: Counting, said: int) -> int:
    """The tokens of an answer whose `said` characters can be seen.

    They are what the provider counted, but for those of reasoning that it kept to itself; of an
    answer that was cut, or not counted, a quarter of its characters.
    """
    finished = (it.usage for it in turns if it.finish is not None and it.usage is not None)
    usage = next(finished, Usage())
    if not usage.output:
        return fakes.tokens_of(said)
    thought = usage.reasoning or 0
    spoken = usage.output - thought if counting.reasoning_is_output else usage.output
    return max(spoken + (thought if _shows_reasoning(turns) else 0), 1)


def asked(turns: Sequence[Turn], conversation: Conversation | None) -> int:
    """The tokens of a request: what the provider counted, else a quarter of its characters."""
    counted = (it.usage.input for it in turns if it.usage is not None)
    count = next((it for it in counted if it), None)
    if count is not None:
        return max(count, 0)
    return 0 if conversation is None else fakes.tokens(conversation.prompt)


def _shows_reasoning(turns: Sequence[Turn]) -> bool:
    return any(isinstance(part, Reasoning) and part.text for turn in turns for part in turn.parts)
