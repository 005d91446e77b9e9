r"""`bad-tool-call`: the model calls a tool in a way that cannot be carried out.

    how=json      {"name":"get_weather","arguments":"{\"city\""}
    how=name      {"name":"get_weather_v2","arguments":"{\"city\":\"Rome\"}"}
    how=missing   {"name":"get_weather","arguments":"{}"}

Arguments that are no JSON, a tool that nobody offered, a required argument left out.  It is the
first call of the answer that is bad; all else is told as it was.  An answer without a call calls
the first tool that the request offers, in place of its text.  It has no meaning where no tool is
offered, and `how=json` has none where a wire holds arguments as an object (Gemini, Ollama, whole
messages of Anthropic and Bedrock).  A live answer is waited for to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Tool
from llm_proxy.faults import reencoding
from llm_proxy.faults.bad_tool_calls import HOWS, called, made_up
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import (
    EVERYTHING,
    Argument,
    CannotInject,
    Kind,
    Moment,
    Strike,
    Struck,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.turns import Finish, Reasoning, ToolCall, Turn

_RIGHT: Final = Turn((ToolCall("", "f", "{}"),), finish=Finish.TOOL_CALLS)


@dataclass(frozen=True, slots=True)
class BadToolCall:
    """A call that is bad in this way."""

    how: str = "json"

    def work(self, _place: Place | None, /) -> Work:
        """In place of the whole answer."""
        return Strike(self._strike, takes=EVERYTHING, resizes=True, check=self._check)

    def _check(self, moment: Moment) -> None:
        told = reencoding.fitted(moment, _RIGHT)
        if not _offered(moment):
            raise CannotInject("the request offers no tool")
        if self.how == "json":
            _check_words(moment, told)

    def _strike(self, moment: Moment) -> Struck:
        turns = list(reencoding.whole(moment))
        tools = _offered(moment)
        at = next((at for at, it in enumerate(turns) if called(it.parts) is not None), 0)
        turns[at] = self._spoiled(turns[at], tools)
        return Struck(reencoding.anew(moment, turns), over=True, timed=True)

    def _spoiled(self, turn: Turn, tools: Sequence[Tool]) -> Turn:
        parts = turn.parts
        found = called(parts)
        if found is None:
            thought = [it for it in parts if isinstance(it, Reasoning)]
            parts = (*thought, HOWS[self.how](made_up(tools), tools))
            told = replace(turn, parts=parts, metadata=())
            return replace(told, finish=Finish.TOOL_CALLS, finish_raw="")
        number, call = found
        return replace(
            turn, parts=(*parts[:number], HOWS[self.how](call, tools), *parts[number + 1 :])
        )


def _check_words(moment: Moment, right: Turn) -> None:
    """Raises `CannotInject` where arguments must be an object."""
    broken = replace(right, parts=(ToolCall("", "f", "{"),))
    try:
        reencoding.fitted(moment, broken)
    except CannotInject:
        name = moment.met.asked.dialect.name
        raise CannotInject(f"{name} tells arguments as an object, which is JSON") from None


def _offered(moment: Moment) -> Sequence[Tool]:
    asked = moment.met.asked
    conversation = asked.dialect.conversation(asked.request)
    return conversation.tools if conversation is not None else ()


def _how(text: str) -> str:
    if text.strip().lower() not in HOWS:
        raise ValueError(f"one of {', '.join(HOWS)}")
    return text.strip().lower()


KIND = Kind(
    "bad-tool-call", Effect.ALTERED, "a call of a tool that cannot be carried out", BadToolCall,
    {"how": Argument(_how, "json: no JSON; name: an unknown tool; missing: an argument", "json")},
    example="bad-tool-call,how=name",
)  # fmt: skip
