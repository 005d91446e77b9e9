"""Removes unsigned reasoning from the conversation history, as document 000 requires.

The request itself is unchanged; scenarios are matched, checked and filled in against this view.
In JSON bodies it covers Anthropic and Bedrock Converse, the formats that document 000 names.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.turns import Json, Reasoning, ToolCall


def context_visible_to_scenario(
    scenario: Scenario, context: MatchContext
) -> tuple[MatchContext, tuple[str, ...]]:
    """The context without unsigned reasoning, and a note per message that lost its reasoning."""
    expect_signature = scenario.expect_signature
    wants_signatures = (
        context.conversation.wants_signed_reasoning
        if expect_signature is None
        else expect_signature
    )
    conversation, notes = without_unsigned_reasoning(
        context.conversation, wants_signatures=wants_signatures
    )
    if not notes:
        return context, ()
    return replace(
        context,
        conversation=conversation,
        body=_body_without_unsigned(context.body),
    ), notes


def without_unsigned_reasoning(
    conversation: Conversation, *, wants_signatures: bool
) -> tuple[Conversation, tuple[str, ...]]:
    """The conversation without unsigned reasoning, and a note per message that lost its reasoning.

    Applies from the second turn on, only with `wants_signatures`, and only to assistant messages
    with tool calls in which no reasoning is signed.  If any message loses its reasoning, reasoning
    counts as disabled.
    """
    if conversation.turn <= 1 or not wants_signatures:
        return conversation, ()
    messages = tuple(
        _without_reasoning_parts(request_message)
        if _has_unsigned_reasoning(request_message)
        else request_message
        for request_message in conversation.messages
    )
    notes = tuple(
        f"reasoning without a signature stripped from message {number}"
        for number, message in enumerate(conversation.messages, 1)
        if _has_unsigned_reasoning(message)
    )
    if not notes:
        return conversation, ()
    return replace(conversation, messages=messages, reasoning_enabled=False), notes


def _has_unsigned_reasoning(message: RequestMessage) -> bool:
    reasoning_parts = [part for part in message.parts if isinstance(part, Reasoning)]
    has_tool_call = any(isinstance(part, ToolCall) for part in message.parts)
    is_signed = any(part.signature or part.redacted for part in reasoning_parts)
    return message.role == "assistant" and has_tool_call and bool(reasoning_parts) and not is_signed


def _without_reasoning_parts(message: RequestMessage) -> RequestMessage:
    remaining = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return replace(message, parts=remaining)


def _body_without_unsigned(body: Json) -> Json:
    if not isinstance(body, dict):
        return body
    messages = [
        _message_without_unsigned(message)
        for message in lenient_json.array_items(body.get("messages"))
    ]
    return body | {"messages": messages} if messages else body


def _message_without_unsigned(message: Json) -> Json:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    blocks = lenient_json.array_objects(message.get("content"))
    reasoning_blocks = [block for block in blocks if _is_reasoning_block(block)]
    has_tool_call = any(block.get("type") == "tool_use" or "toolUse" in block for block in blocks)
    if not has_tool_call or not reasoning_blocks or any(map(_signature_of_block, reasoning_blocks)):
        return message
    remaining: list[Json] = [
        block
        for block in lenient_json.array_items(message["content"])
        if block not in reasoning_blocks
    ]
    return message | {"content": remaining}


def _is_reasoning_block(block: Fields) -> bool:
    is_anthropic = block.get("type") in ("thinking", "redacted_thinking")
    return is_anthropic or "reasoningContent" in block


def _signature_of_block(block: Fields) -> Json:
    reasoning_content = lenient_json.object_fields(block.get("reasoningContent"))
    reasoning_text = lenient_json.object_fields(reasoning_content.get("reasoningText"))
    return (
        block.get("signature")
        or block.get("data")
        or reasoning_text.get("signature")
        or reasoning_content.get("redactedContent")
    )
