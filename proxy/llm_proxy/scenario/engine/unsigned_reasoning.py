"""Removes unsigned reasoning from the conversation history, as document 000 requires.

The request itself is unchanged; scenarios are matched, checked and filled in against this view.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.dialects import request_decoding
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.matcher import MatchContext
from llm_proxy.turns import Reasoning, ToolCall


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
    body = request_decoding.body_without_unsigned_reasoning(context.body)
    return replace(context, conversation=conversation, body=body), tuple(notes)
