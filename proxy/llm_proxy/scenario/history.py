"""Reasoning in the history that does not bear its provider's seal: document 000 strips it.

The client's history stays as it is; what is checked, matched and filled in is this view of it.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.conversation import Conversation, Message
from llm_proxy.turns import Reasoning, ToolCall


def sealed(conversation: Conversation, *, signs: bool) -> tuple[Conversation, tuple[str, ...]]:
    """The conversation without unsealed reasoning, and which messages lost theirs.

    Only from the second turn on, only where a seal is expected (`signs`), and only of messages
    that called tools: where none of their reasoning is sealed.  If any lost its reasoning,
    reasoning counts as switched off.
    """
    if conversation.turn <= 1 or not signs:
        return conversation, ()
    messages = tuple(_sealed(it) if _lacks_seal(it) else it for it in conversation.messages)
    notes = tuple(
        f"reasoning without a signature stripped from message {at}"
        for at, message in enumerate(conversation.messages, 1)
        if _lacks_seal(message)
    )
    if not notes:
        return conversation, ()
    return replace(conversation, messages=messages, reasons=False), notes


def _lacks_seal(message: Message) -> bool:
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    is_sealed = any(it.signature or it.redacted for it in thoughts)
    return message.role == "assistant" and calls and bool(thoughts) and not is_sealed


def _sealed(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, Reasoning))
    return replace(message, parts=kept)
