"""Estimates the tokens of requests and responses, for quotas."""

from __future__ import annotations

from llm_proxy.dialects import fakes
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kind import FaultContext
from llm_proxy.framing import codec_of_bytes, split_messages
from llm_proxy.pacing.tokens import output_characters
from llm_proxy.turns import TokenCounting, Usage


def prompt_tokens(context: FaultContext) -> int:
    """Of what is asked: a quarter of the characters that a model would read."""
    conversation = context.conversation()
    if conversation is None:
        return fakes.estimated_tokens(context.request.request.body.decode("utf-8", "replace"))
    return fakes.estimated_tokens(conversation.prompt)


def response_tokens(decoded_request: DecodedRequest, head: ResponseHead, body: bytes) -> int:
    """Of an answer: those that it tells itself, else a quarter of the characters that it says."""
    codec = codec_of_bytes(decoded_request.dialect.codec(decoded_request.request, head), body)
    turns = decoded_request.dialect.decode(
        DialectResponse(head, codec, split_messages(codec, body))
    )
    for turn in turns:
        if turn.usage is not None and turn.usage.output is not None:
            return _reported_total(turn.usage, decoded_request.dialect.token_counting)
    return fakes.tokens_of_chars(output_characters(turns))


def _reported_total(usage: Usage, counting: TokenCounting) -> int:
    number = 0 if counting.reasoning_is_output else usage.reasoning or 0
    return (usage.output or 0) + number
