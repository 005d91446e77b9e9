"""Reasoning in the history that does not bear its provider's seal: document 000 strips it.

The client's history stays as it is; what is checked, matched and filled in is this view of it.
Of bodies it is that of Anthropic's and of Bedrock's Converse, whose seals document 000 knows.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine.match_context import Cue
from llm_proxy.turns import Json, Reasoning, ToolCall


def view(scenario: Scenario, cue: Cue) -> tuple[Cue, tuple[str, ...]]:
    """What a scenario sees of a request, and which messages lost their reasoning."""
    told = scenario.expect_signature
    signs = cue.conversation.signs if told is None else told
    conversation, notes = sealed(cue.conversation, signs=signs)
    if not notes:
        return cue, ()
    return replace(cue, conversation=conversation, body=_sealed_body(cue.body)), notes


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


def _sealed_body(body: Json) -> Json:
    """The body of a request without the same reasoning."""
    if not isinstance(body, dict):
        return body
    messages = [_sealed_fields(it) for it in lenient_json.array(body.get("messages"))]
    return body | {"messages": messages} if messages else body


def _sealed_fields(message: Json) -> Json:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    blocks = lenient_json.objects(message.get("content"))
    thoughts = [it for it in blocks if _is_thought(it)]
    calls = any(it.get("type") == "tool_use" or "toolUse" in it for it in blocks)
    if not calls or not thoughts or any(map(_seal, thoughts)):
        return message
    kept: list[Json] = [it for it in lenient_json.array(message["content"]) if it not in thoughts]
    return message | {"content": kept}


def _is_thought(block: Fields) -> bool:
    is_anthropic = block.get("type") in ("thinking", "redacted_thinking")
    return is_anthropic or "reasoningContent" in block


def _seal(block: Fields) -> Json:
    """What seals a block of reasoning, if anything does."""
    about = lenient_json.fields(block.get("reasoningContent"))
    text = lenient_json.fields(about.get("reasoningText"))
    return (
        block.get("signature")
        or block.get("data")
        or text.get("signature")
        or about.get("redactedContent")
    )
