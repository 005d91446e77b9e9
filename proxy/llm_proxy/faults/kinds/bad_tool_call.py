r"""`bad-tool-call`: the model calls a tool in a way that cannot be executed.

    how=json      {"name":"get_weather","arguments":"{\"city\""}
    how=name      {"name":"get_weather_v2","arguments":"{\"city\":\"Rome\"}"}
    how=missing   {"name":"get_weather","arguments":"{}"}

Invalid JSON as arguments, a tool that was not offered, a missing required argument.  Only the first
call of the response is changed.  A response without a call gets a call of the first tool that the
request offers, in place of its text.  Not applicable where no tool is offered; `how=json` is not
applicable where the wire format holds arguments as an object (Gemini, Ollama, whole messages of
Anthropic and Bedrock).  A live response is buffered to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import ToolDefinition
from llm_proxy.faults import reencoding
from llm_proxy.faults.bad_tool_calls import (
    TOOL_CALL_CORRUPTIONS,
    fake_tool_call,
    find_client_executed_call,
)
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    ALL_MESSAGES,
    FaultArgument,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)
from llm_proxy.faults.location import StreamLocation
from llm_proxy.turns import FinishReason, Reasoning, ToolCall, Turn

_VALID_CALL_TURN: Final = Turn((ToolCall("", "f", "{}"),), finish=FinishReason.TOOL_CALLS)


@dataclass(frozen=True, slots=True)
class BadToolCall:
    """Corrupts the first tool call in the way `how` (a key of `TOOL_CALL_CORRUPTIONS`)."""

    how: str = "json"

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """Replaces all messages of the response."""
        return OneShot(
            self._make_injected_actions,
            taken_message_count=ALL_MESSAGES,
            changes_length=True,
            check_applicable=self._check_applicable,
        )

    def _check_applicable(self, position: StreamPosition) -> None:
        turn = reencoding.to_representable_turn(position, _VALID_CALL_TURN)
        if not _offered_tools(position):
            raise FaultNotApplicable("the request offers no tool")
        if self.how == "json":
            _require_text_arguments(position, turn)

    def _make_injected_actions(self, position: StreamPosition) -> InjectedActions:
        turns = list(reencoding.decode_whole_response(position))
        tools = _offered_tools(position)
        call_turn_index = next(
            (
                index
                for index, turn in enumerate(turns)
                if find_client_executed_call(turn.parts) is not None
            ),
            0,
        )
        turns[call_turn_index] = self._with_bad_call(turns[call_turn_index], tools)
        return InjectedActions(
            reencoding.encode_replacement_actions(position, turns),
            ends_response=True,
            has_own_timing=True,
        )

    def _with_bad_call(self, turn: Turn, tools: Sequence[ToolDefinition]) -> Turn:
        parts = turn.parts
        first_call = find_client_executed_call(parts)
        if first_call is None:
            reasoning = [part for part in parts if isinstance(part, Reasoning)]
            parts = (*reasoning, TOOL_CALL_CORRUPTIONS[self.how](fake_tool_call(tools), tools))
            new_turn = replace(turn, parts=parts, metadata=())
            return replace(new_turn, finish=FinishReason.TOOL_CALLS, finish_raw="")
        part_index, call = first_call
        return replace(
            turn,
            parts=(
                *parts[:part_index],
                TOOL_CALL_CORRUPTIONS[self.how](call, tools),
                *parts[part_index + 1 :],
            ),
        )


def _require_text_arguments(position: StreamPosition, valid_turn: Turn) -> None:
    """Raises `FaultNotApplicable` where the dialect holds arguments as a JSON object."""
    invalid_turn = replace(valid_turn, parts=(ToolCall("", "f", "{"),))
    try:
        reencoding.to_representable_turn(position, invalid_turn)
    except FaultNotApplicable:
        name = position.context.decoded_request.dialect.name
        raise FaultNotApplicable(f"{name} tells arguments as an object, which is JSON") from None


def _offered_tools(position: StreamPosition) -> Sequence[ToolDefinition]:
    decoded_request = position.context.decoded_request
    conversation = decoded_request.dialect.decode_request(decoded_request.request)
    return conversation.tools if conversation is not None else ()


def _parse_how(text: str) -> str:
    if text.strip().lower() not in TOOL_CALL_CORRUPTIONS:
        raise ValueError(f"one of {', '.join(TOOL_CALL_CORRUPTIONS)}")
    return text.strip().lower()


KIND = FaultKind(
    "bad-tool-call", FaultEffect.ALTERED, "a call of a tool that cannot be carried "
                                          "out", BadToolCall,
    {"how": FaultArgument(_parse_how, "json: no JSON; name: an unknown tool; missing: an "
                                      "argument", "json")},
    example="bad-tool-call,how=name",
)  # fmt: skip
