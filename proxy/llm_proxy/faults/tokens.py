"""Counts or estimates the tokens of requests and responses, for quotas."""

from __future__ import annotations

from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kind import FaultContext
from llm_proxy.framing import codec_name_for_body, split_messages
from llm_proxy.pacing.tokens import count_output_chars
from llm_proxy.turns import TokenCounting, Usage


def estimate_prompt_tokens(context: FaultContext) -> int:
    """The estimated tokens of a request: a quarter of the characters of its prompt.

    If it is no request for a turn, a quarter of the characters of its body.
    """
    conversation = context.get_conversation()
    if conversation is None:
        return estimates_and_fakes.estimated_token_count(
            context.decoded_request.request.body.decode("utf-8", "replace")
        )
    return estimates_and_fakes.estimated_token_count(conversation.prompt)


def count_response_tokens(decoded_request: DecodedRequest, head: ResponseHead, body: bytes) -> int:
    """The output tokens that a response reports, else a quarter of its output characters."""
    codec = codec_name_for_body(
        decoded_request.dialect.codec_name(decoded_request.request, head), body
    )
    turns = decoded_request.dialect.decode_response(
        DialectResponse(head, codec, split_messages(codec, body))
    )
    for turn in turns:
        if turn.usage is not None and turn.usage.output is not None:
            return _reported_output_tokens(turn.usage, decoded_request.dialect.token_counting)
    return estimates_and_fakes.token_count_of_chars(count_output_chars(turns))


def _reported_output_tokens(usage: Usage, token_counting: TokenCounting) -> int:
    separate_reasoning_tokens = 0 if token_counting.reasoning_is_output else usage.reasoning or 0
    return (usage.output or 0) + separate_reasoning_tokens
