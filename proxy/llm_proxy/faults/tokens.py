"""About how many tokens a request and its answer cost, for limits that count them."""

from __future__ import annotations

from llm_proxy.dialects import fakes
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.exchange import Head
from llm_proxy.faults.kind import Met
from llm_proxy.framing import by_bytes, messages
from llm_proxy.pacing.tokens import characters
from llm_proxy.turns import Counting, Usage


def asked_for(met: Met) -> int:
    """Of what is asked: a quarter of the characters that a model would read."""
    conversation = met.conversation()
    if conversation is None:
        return fakes.tokens(met.asked.request.body.decode("utf-8", "replace"))
    return fakes.tokens(conversation.prompt)


def answered(asked: Asked, head: Head, body: bytes) -> int:
    """Of an answer: those that it tells itself, else a quarter of the characters that it says."""
    codec = by_bytes(asked.dialect.codec(asked.request, head), body)
    turns = asked.dialect.turns(Response(head, codec, messages(codec, body)))
    for turn in turns:
        if turn.usage is not None and turn.usage.output is not None:
            return _told(turn.usage, asked.dialect.counting)
    return fakes.tokens_of(characters(turns))


def _told(usage: Usage, counting: Counting) -> int:
    beside = 0 if counting.reasoning_is_output else usage.reasoning or 0
    return (usage.output or 0) + beside
