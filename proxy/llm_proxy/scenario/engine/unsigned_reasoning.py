"""Removes unsigned reasoning from the history, as document 000 demands.

The client's history stays as it is; what is checked, matched and filled in is this view of it.
Of bodies it is that of Anthropic's and of Bedrock's Converse, whose seals document 000 knows.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.turns import Json, Reasoning, ToolCall


def visible_request(scenario: Scenario, cue: MatchContext) -> tuple[MatchContext, tuple[str, ...]]:
    """What a scenario sees of a request, and which messages lost their reasoning."""
    flag = scenario.expect_signature
    wants_signatures = cue.conversation.wants_signed_reasoning if flag is None else flag
    conversation, notes = without_unsigned_reasoning(
        cue.conversation, wants_signatures=wants_signatures
    )
    if not notes:
        return cue, ()
    return replace(cue, conversation=conversation, body=_body_without_unsigned(cue.body)), notes


def without_unsigned_reasoning(
    conversation: Conversation, *, wants_signatures: bool
) -> tuple[Conversation, tuple[str, ...]]:
    """The conversation without unsealed reasoning, and which messages lost theirs.

    Only from the second turn on, only where a seal is expected (`signs`), and only of messages
    that called tools: where none of their reasoning is sealed.  If any lost its reasoning,
    reasoning counts as switched off.
    """
    if conversation.turn <= 1 or not wants_signatures:
        return conversation, ()
    messages = tuple(
        _without_unsigned(request_message)
        if _has_unsigned_reasoning(request_message)
        else request_message
        for request_message in conversation.messages
    )
    notes = tuple(
        f"reasoning without a signature stripped from message {at}"
        for at, message in enumerate(conversation.messages, 1)
        if _has_unsigned_reasoning(message)
    )
    if not notes:
        return conversation, ()
    return replace(conversation, messages=messages, reasoning_enabled=False), notes


def _has_unsigned_reasoning(message: RequestMessage) -> bool:
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    is_sealed = any(thought.signature or thought.redacted for thought in thoughts)
    return message.role == "assistant" and calls and bool(thoughts) and not is_sealed


def _without_unsigned(message: RequestMessage) -> RequestMessage:
    kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return replace(message, parts=kept)


def _body_without_unsigned(body: Json) -> Json:
    if not isinstance(body, dict):
        return body
    messages = [
        _message_without_unsigned(array_item)
        for array_item in lenient_json.array_items(body.get("messages"))
    ]
    return body | {"messages": messages} if messages else body


def _message_without_unsigned(message: Json) -> Json:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    blocks = lenient_json.object_items(message.get("content"))
    thoughts = [block for block in blocks if _is_reasoning_block(block)]
    calls = any(block.get("type") == "tool_use" or "toolUse" in block for block in blocks)
    if not calls or not thoughts or any(map(_signature_of_block, thoughts)):
        return message
    kept: list[Json] = [
        array_item
        for array_item in lenient_json.array_items(message["content"])
        if array_item not in thoughts
    ]
    return message | {"content": kept}


def _is_reasoning_block(block: Fields) -> bool:
    is_anthropic = block.get("type") in ("thinking", "redacted_thinking")
    return is_anthropic or "reasoningContent" in block


def _signature_of_block(block: Fields) -> Json:
    fields = lenient_json.object_fields(block.get("reasoningContent"))
    text = lenient_json.object_fields(fields.get("reasoningText"))
    return (
        block.get("signature")
        or block.get("data")
        or text.get("signature")
        or fields.get("redactedContent")
    )
