"""`refusal`: the model refuses.

    {"delta":{"refusal":"I'm sorry, …"}}   finish   [DONE]
    ├──────────────────────────────────────┼────────┼─────┤

The whole response is replaced, in the form that its provider uses for a refusal: a part of its own
(OpenAI), `stop_reason: refusal` (Anthropic), a block without text (Gemini's `SAFETY`), plain text
where there is no other way (Ollama).  Identifier, model, usage and timing are those of the real
response.  A live response is buffered to its end, since they are known only then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_MESSAGES,
    FaultArgument,
    FaultKind,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation
from llm_proxy.turns import FinishReason, Text, Turn
from llm_proxy.turns import Refusal as Refused

_DEFAULT_MESSAGE = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class RefusalFault:
    """Replaces the response with a refusal that has this message."""

    message: str = _DEFAULT_MESSAGE

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces all messages of the response."""
        return OneShot(
            self._make_injected_actions,
            taken_message_count=ALL_MESSAGES,
            changes_length=True,
            check_applicable=self._check_applicable,
        )

    def _check_applicable(self, position: StreamPosition) -> None:
        reencoding.to_representable_turn(position, self._refusal_turn(position))

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        refusal_turn = self._refusal_turn(position)
        turns = [
            replace(refusal_turn, usage=turn.usage, id=turn.id, model=turn.model)
            for turn in reencoding.decode_whole_response(position)
        ]
        return InjectedActions(
            reencoding.encode_replacement_actions(position, turns),
            ends_response=True,
            has_own_timing=True,
        )

    def _refusal_turn(self, position: StreamPosition) -> Turn:
        turn = Turn((Refused(self.message),), finish=FinishReason.REFUSAL)
        converted = reencoding.to_representable_turn(position, turn)
        if (
            any(isinstance(part, Refused) for part in converted.parts)
            or converted.finish is FinishReason.REFUSAL
        ):
            return turn
        if converted.finish is FinishReason.CONTENT_FILTER:
            return replace(turn, parts=())
        return Turn((Text(self.message),), finish=FinishReason.STOP)


KIND = FaultKind(
    "refusal", FaultEffect.ALTERED, "the model refuses", RefusalFault,
    {"message": FaultArgument(str, "what the refusal says, where it has words", _DEFAULT_MESSAGE)},
    example="refusal",
)  # fmt: skip
