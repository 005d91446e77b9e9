"""Removes unsigned reasoning from the conversation history, as document 000 requires.

The request itself is unchanged; scenarios are matched, checked and filled in against this view.
In JSON bodies it covers Anthropic and Bedrock Converse, the formats that document 000 names.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.matcher import MatchContext
from llm_proxy.turns import Json, Reasoning, ToolCall


def context_visible_to_scenario(
    scenario: Scenario, context: MatchContext
) -> tuple[MatchContext, tuple[str, ...]]:
    """The context without unsigned reasoning, and a note per message that lost its reasoning.

    Applies from the second turn on, only where signatures are expected, and only to assistant
    messages with tool calls in which no reasoning is signed.  If any message loses its reasoning,
    reasoning counts as disabled.
    """
    conversation = context.conversation
    expects_signatures = scenario.expect_signature
    if expects_signatures is None:
        expects_signatures = conversation.wants_signed_reasoning
    if conversation.turn <= 1 or not expects_signatures:
        return context, ()
    messages, notes = [], []
    for number, message in enumerate(conversation.messages, 1):
        other_parts = tuple(part for part in message.parts if not isinstance(part, Reasoning))
        is_unsigned = (
            message.role == "assistant"
            and len(other_parts) < len(message.parts)
            and any(isinstance(part, ToolCall) for part in other_parts)
            and not any(
                isinstance(part, Reasoning) and (part.signature or part.redacted)
                for part in message.parts
            )
        )
        messages.append(replace(message, parts=other_parts) if is_unsigned else message)
        if is_unsigned:
            notes.append(f"reasoning without a signature stripped from message {number}")
    if not notes:
        return context, ()
    conversation = replace(conversation, messages=tuple(messages), reasoning_enabled=False)
    body = _body_without_unsigned(context.body)
    return replace(context, conversation=conversation, body=body), tuple(notes)


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
