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
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import EVERYTHING, Argument, Kind, Moment, Strike, Struck, Work
from llm_proxy.faults.location import Place
from llm_proxy.turns import Finish, Text, Turn
from llm_proxy.turns import Refusal as Refused

_MESSAGE = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal in these words."""

    message: str = _MESSAGE

    def work(self, _place: Place | None, /) -> Work:
        """In place of the whole answer."""
        return Strike(self._strike, takes=EVERYTHING, resizes=True, check=self._check)

    def _check(self, moment: Moment) -> None:
        reencoding.fitted(moment, self._refused(moment))

    def _strike(self, moment: Moment) -> Struck:
        refused = self._refused(moment)
        turns = [
            replace(refused, usage=it.usage, id=it.id, model=it.model)
            for it in reencoding.whole(moment)
        ]
        return Struck(reencoding.anew(moment, turns), over=True, timed=True)

    def _refused(self, moment: Moment) -> Turn:
        """The refusal as this provider would tell it."""
        turn = Turn((Refused(self.message),), finish=Finish.REFUSAL)
        told = reencoding.fitted(moment, turn)
        if any(isinstance(it, Refused) for it in told.parts) or told.finish is Finish.REFUSAL:
            return turn
        if told.finish is Finish.CONTENT_FILTER:
            return replace(turn, parts=())
        return Turn((Text(self.message),), finish=Finish.STOP)


KIND = Kind(
    "refusal", Effect.ALTERED, "the model refuses", Refusal,
    {"message": Argument(str, "what the refusal says, where it has words", _MESSAGE)},
    example="refusal",
)  # fmt: skip
