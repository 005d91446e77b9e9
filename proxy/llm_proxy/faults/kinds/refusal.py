"""`refusal`: the model refuses the request.

    {"delta":{"refusal":"I'm sorry, …"}}   finish   [DONE]
    ├──────────────────────────────────────┼────────┼─────┤

A refusal in the provider's format replaces the response: a refusal part (OpenAI), `stop_reason:
refusal` (Anthropic), `SAFETY` (Gemini) or plain text (Ollama). The response's id, model,
usage and timing are unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.kind import (
    ALL_MESSAGES,
    FaultArgument,
    FaultEffect,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.turns import FinishReason, Refusal, Text, Turn


def _refusal(message: str) -> Mechanism:
    def refusal_turn(position: StreamPosition) -> Turn:
        turn = Turn((Refusal(message),), finish=FinishReason.REFUSAL)
        converted = reencoding.to_representable_turn(position, turn)
        if converted.finish is FinishReason.REFUSAL or any(
            isinstance(part, Refusal) for part in converted.parts
        ):
            return turn
        if converted.finish is FinishReason.CONTENT_FILTER:
            return replace(turn, parts=())
        return Turn((Text(message),), finish=FinishReason.STOP)

    def check_applicable(position: StreamPosition) -> None:
        reencoding.to_representable_turn(position, refusal_turn(position))

    def replace_response(position: StreamPosition) -> InjectedActions:
        refused = refusal_turn(position)
        return reencoding.inject_replacement(
            position,
            [
                replace(refused, usage=turn.usage, id=turn.id, model=turn.model)
                for turn in reencoding.decode_whole_response(position)
            ],
        )

    return OneShot(
        replace_response,
        taken_message_count=ALL_MESSAGES,
        changes_length=True,
        check_applicable=check_applicable,
    )


KIND = FaultKind(
    "refusal",
    FaultEffect.ALTERED,
    "a refusal by the model",
    _refusal,
    {
        "message": FaultArgument(
            str,
            "text of the refusal",
            "I'm sorry, but I can't help with that.",
        )
    },
    example="refusal",
)
