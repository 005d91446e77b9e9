"""`refusal`: the model refuses.

    {"delta":{"refusal":"I'm sorry, …"}}   finish   [DONE]
    ├──────────────────────────────────────┼────────┼─────┤

The whole answer is another one, told as its provider tells a refusal: as a part of its own
(OpenAI), as `stop_reason: refusal` (Anthropic), as a block without a word (Gemini's `SAFETY`), as
plain text where there is no other way (Ollama).  Identifier, model and usage are those of the real
answer, and it takes as long.  A live answer is waited for to its end, since what it is told with
is known only then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.faults import reencoding
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    EVERYTHING,
    FaultArgument,
    FaultKind,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.turns import Finish, Text, Turn
from llm_proxy.turns import Refusal as Refused

_MESSAGE = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class RefusalFault:
    """A refusal in these words."""

    message: str = _MESSAGE

    def mechanism(self, _place: Place | None, /) -> Work:
        """In place of the whole answer."""
        return OneShot(
            self._inject, taken_count=EVERYTHING, changes_length=True, check=self._check_applicable
        )

    def _check_applicable(self, position: StreamPosition) -> None:
        reencoding.convert_for_response(position, self._refusal_turns(position))

    def _inject(self, position: StreamPosition) -> InjectedActions:
        refused = self._refusal_turns(position)
        turns = [
            replace(refused, usage=turn.usage, id=turn.id, model=turn.model)
            for turn in reencoding.decode_whole(position)
        ]
        return InjectedActions(
            reencoding.encode_replacement(position, turns), ends_response=True, is_timed=True
        )

    def _refusal_turns(self, position: StreamPosition) -> Turn:
        turn = Turn((Refused(self.message),), finish=Finish.REFUSAL)
        told = reencoding.convert_for_response(position, turn)
        if any(isinstance(part, Refused) for part in told.parts) or told.finish is Finish.REFUSAL:
            return turn
        if told.finish is Finish.CONTENT_FILTER:
            return replace(turn, parts=())
        return Turn((Text(self.message),), finish=Finish.STOP)


KIND = FaultKind(
    "refusal", FaultEffect.ALTERED, "the model refuses", RefusalFault,
    {"message": FaultArgument(str, "what the refusal says, where it has words", _MESSAGE)},
    example="refusal",
)  # fmt: skip
