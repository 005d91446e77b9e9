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

from llm_proxy.conversation import ToolDefinition
from llm_proxy.faults import reencoding
from llm_proxy.faults.bad_tool_calls import HOWS, fake_call, first_client_call
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    EVERYTHING,
    FaultArgument,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Work,
)
from llm_proxy.faults.location import Place
from llm_proxy.turns import Finish, Reasoning, ToolCall, Turn

_RIGHT: Final = Turn((ToolCall("", "f", "{}"),), finish=Finish.TOOL_CALLS)


@dataclass(frozen=True, slots=True)
class BadToolCall:
    """A call that is bad in this way."""

    how: str = "json"

    def mechanism(self, _place: Place | None, /) -> Work:
        """In place of the whole answer."""
        return OneShot(
            self._inject, taken_count=EVERYTHING, changes_length=True, check=self._check_applicable
        )

    def _check_applicable(self, position: StreamPosition) -> None:
        turn = reencoding.convert_for_response(position, _RIGHT)
        if not _offered_tools(position):
            raise FaultNotApplicable("the request offers no tool")
        if self.how == "json":
            _check_text_arguments(position, turn)

    def _inject(self, position: StreamPosition) -> InjectedActions:
        turns = list(reencoding.decode_whole(position))
        tools = _offered_tools(position)
        at = next(
            (at for at, turn in enumerate(turns) if first_client_call(turn.parts) is not None), 0
        )
        turns[at] = self._with_bad_call(turns[at], tools)
        return InjectedActions(
            reencoding.encode_replacement(position, turns), ends_response=True, is_timed=True
        )

    def _with_bad_call(self, turn: Turn, tools: Sequence[ToolDefinition]) -> Turn:
        parts = turn.parts
        found = first_client_call(parts)
        if found is None:
            thought = [part for part in parts if isinstance(part, Reasoning)]
            parts = (*thought, HOWS[self.how](fake_call(tools), tools))
            told = replace(turn, parts=parts, metadata=())
            return replace(told, finish=Finish.TOOL_CALLS, finish_raw="")
        number, call = found
        return replace(
            turn, parts=(*parts[:number], HOWS[self.how](call, tools), *parts[number + 1 :])
        )


def _check_text_arguments(position: StreamPosition, right: Turn) -> None:
    """Raises `FaultNotApplicable` where arguments must be an object."""
    broken = replace(right, parts=(ToolCall("", "f", "{"),))
    try:
        reencoding.convert_for_response(position, broken)
    except FaultNotApplicable:
        name = position.context.request.dialect.name
        raise FaultNotApplicable(f"{name} tells arguments as an object, which is JSON") from None


def _offered_tools(position: StreamPosition) -> Sequence[ToolDefinition]:
    decoded_request = position.context.request
    conversation = decoded_request.dialect.decode_request(decoded_request.request)
    return conversation.tools if conversation is not None else ()


def _parse_how(text: str) -> str:
    if text.strip().lower() not in HOWS:
        raise ValueError(f"one of {', '.join(HOWS)}")
    return text.strip().lower()


KIND = FaultKind(
    "bad-tool-call", FaultEffect.ALTERED, "a call of a tool that cannot be carried "
                                          "out", BadToolCall,
    {"how": FaultArgument(_parse_how, "json: no JSON; name: an unknown tool; missing: an "
                                      "argument", "json")},
    example="bad-tool-call,how=name",
)  # fmt: skip
