"""`simulate`: responds from scenarios, a mock or synthesis only.

What a request is answered with is decided by the `scenario` package; this mode knows what came
before it: the answer that it continues, how often it failed, how many replies a mock has given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NoReturn, TypeVar
from urllib.parse import unquote

import orjson

from llm_proxy import dialects
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai.provider_variants import FAMILY
from llm_proxy.errors import NotSimulated, PatternsTooSlow, RespondFunctionFailed, printable
from llm_proxy.modes.base import ModeResponse, probe_response
from llm_proxy.pacing.requested_pace import requested_pace
from llm_proxy.ports import Offload, PaceSource, ScenarioSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import ChosenScenario, NoScenario
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.engine.match_context import MatchContext, match_context_of
from llm_proxy.scenario.engine.mock import MockRequest
from llm_proxy.scenario.engine.response_store import ResponseStore, StoredResponse
from llm_proxy.scenario.engine.scenario_set import ScenarioSet
from llm_proxy.scenario.engine.scripting import CheckedRequest
from llm_proxy.scenario.render import actions
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.synthesis.message_layout import message_layout_of
from llm_proxy.synthesis.response import synthesize_response
from llm_proxy.take_numbers import RequestCounter

T = TypeVar("T")

Respond = Callable[[MatchContext], object]
"""The operator's function.  It gives a text, a partial answer as of document 004, or an awaitable
of one of them."""


_LARGE: Final = 16 * 1024
"""Bytes of a request that takes a while."""
_LOST: Final = (
    "The request continues the answer {}, which was not given in this session and run, or is "
    "forgotten."
)
_SPEAKER: Final = "test-llm"
"""The member of OpenAI's family that spells answers as document 001 does."""
_SHOWN: Final = 200
"""Characters of a path in a message."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """What an operator decides about it."""

    seed: int
    created_at: Callable[[], int]
    """The time that answers name, in s since 1970."""
    cpu_time: Callable[[], float]
    """Of the thread that calls it, in s."""
    paces: PaceSource
    limits: FailureLimits
    offload: Offload
    """Runs a function that may take its time, while others are answered."""
    synthesises: bool = False
    """Whether synthesis answers what no scenario does, though there are some."""
    respond: Respond | None = None
    is_fallback: bool = False
    """Whether another mode answers first, and says best why a request is answered by nobody."""


_Choice = CheckedRequest | ScriptedResponse | MockSpec | NoScenario | None
"""What answers: a step, what is decided already, a mock, that nothing does; None is synthesis."""


@dataclass(frozen=True, slots=True)
class _TurnRequest:
    """A request for a turn, and what answers it."""

    match_context: MatchContext
    context: EncodeContext
    chosen: _Choice


async def _run_inline(function: Callable[[], T]) -> T:
    return function()


class SimulateMode:
    """Plays scenarios, each session on its own."""

    name = "simulate"

    def __init__(self, scripts: ScenarioSource, simulation: SimulationSettings) -> None:
        self._scripts = scripts
        self._simulation = simulation
        self._attempts = FailureCounter()
        self._request_counts = RequestCounter()
        self._mock_reply_counts = RequestCounter()
        self._response_store = ResponseStore()
        self._chosen_scenarios: dict[str, str] = {}
        """The scenario that was chosen for a session."""

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """The scripted answer, or a made-up one.

        Raises `NotSimulated` for what nobody could answer, `NotRepresentable` for what the dialect
        has no words for, `ScriptExhausted` and `RespondFunctionFailed`.
        """
        requested_pace(routed)  # before anything counts
        script = await self._scripts.current()
        takes_time = len(routed.decompressed.body) > _LARGE or script.has_slow_patterns
        run = self._simulation.offload if takes_time else _run_inline
        await run(lambda: routed.key)
        delivery = self._encode_context(routed)
        stage = await run(partial(self._stage_turn, routed, script, delivery))
        if isinstance(stage, ModeResponse):
            return stage
        turn: MockRequest | int | None = None
        if isinstance(stage.chosen, MockSpec):
            turn = await self._call_mock(stage.chosen, stage.match_context)
        elif isinstance(
            stage.chosen, CheckedRequest
        ):  # what is counted or kept is so in one thread
            turn = scripting.take_failure(stage.chosen, self._attempts)
        answer, stored_response = await run(
            partial(self._respond_with, routed, script, stage, turn)
        )
        if stored_response is not None:
            self._response_store.store(routed.session, stored_response)
        return answer

    def _stage_turn(
        self, routed: RoutedRequest, script: ScenarioSet, delivery: EncodeContext
    ) -> _TurnRequest | ModeResponse:
        """What a request for a turn is answered by; or the answer to what is asked beside turns."""
        conversation = routed.conversation
        if conversation is None:
            return self._auxiliary_response(routed, script, delivery)
        is_lost = self._response_store.is_missing_previous(routed.session, conversation)
        lost = _LOST.format(conversation.previous_response_id)
        conversation = self._response_store.with_previous_messages(routed.session, conversation)
        chosen = self._chosen_scenarios.get(routed.session, "")
        cue = match_context_of(routed, conversation, delivery.seed, chosen)
        wrong = scripting.error_turn_response(lost, cue) if is_lost else None
        return _TurnRequest(cue, delivery, self._choose_script(script, cue, wrong))

    def _choose_script(
        self, script: ScenarioSet, cue: MatchContext, wrong: ScriptedResponse | None
    ) -> _Choice:
        """The step of a scenario; else the mock; else None where the answer is made up.

        `wrong` is what a scenario answers in any case.
        """
        try:
            chosen = choosing.choose_scenario(script, cue, self._simulation.cpu_time)
        except PatternsTooSlow as error:
            return wrong or scripting.error_turn_response(str(error), cue)
        if isinstance(chosen, ChosenScenario):
            return wrong or scripting.check_request(chosen, cue)
        if chosen.was_named:
            return chosen
        if script.mock is not None or self._simulation.respond is not None:
            return script.mock or MockSpec()
        return chosen if script.scenarios and not self._simulation.synthesises else None

    def _respond_with(
        self,
        routed: RoutedRequest,
        script: ScenarioSet,
        stage: _TurnRequest,
        turn: MockRequest | int | None,
    ) -> tuple[ModeResponse, StoredResponse | None]:
        direction = self._scripted_response(routed, script, stage, turn)
        delivery, send_turns = stage.context, direction.action
        if direction.is_synthesized and routed.provider not in FAMILY:
            delivery = replace(delivery, provider=_SPEAKER)
        given: StoredResponse | None = None
        if (
            isinstance(send_turns, SendTurns)
            and stage.match_context.conversation.is_stored_by_provider
        ):
            encode_context = actions.encode_context_for(send_turns, delivery)
            turns = routed.dialect.convert(
                routed.decompressed, send_turns.turns, encode_context
            ).turns
            body, dialect = routed.decompressed.body, routed.dialect.name
            given = StoredResponse(
                stage.match_context.conversation, turns, encode_context, body, dialect
            )
        decoded_request = DecodedRequest(routed.dialect, routed.decompressed, delivery)
        said = send_turns.pace if isinstance(send_turns, SendTurns) else None
        pace = requested_pace(routed) or said or self._simulation.paces.pace_of(routed.session)
        burst = actions.response_actions(
            send_turns, decoded_request, routed.dialect.output_chars, pace, self._simulation.limits
        )
        spelled = str(pace) if isinstance(send_turns, SendTurns) else ""
        return ModeResponse(
            burst, direction.origin, direction, is_simulated=True, pace=spelled
        ), given

    def _scripted_response(
        self,
        routed: RoutedRequest,
        script: ScenarioSet,
        stage: _TurnRequest,
        turn: MockRequest | int | None,
    ) -> ScriptedResponse:
        """What to answer.  Raises `NotSimulated` where another mode knows better."""
        cue = stage.match_context
        match stage.chosen:
            case ScriptedResponse() as decided:
                return decided
            case CheckedRequest() as checked:
                return scripting.response_or_failure(
                    checked, turn if isinstance(turn, int) else None
                )
            case NoScenario() as unknown:
                why = choosing.no_scenario_message(script, unknown)
                if self._simulation.is_fallback and not unknown.was_named:
                    raise NotSimulated(why)
                return scripting.error_turn_response(why, cue)
            case None:
                telling = message_layout_of(routed.dialect, routed.decompressed, stage.context)
                made = synthesize_response(cue.conversation, stage.context, telling, cue.model)
                source = f"synthesis: {made.mode}"
                return ScriptedResponse(
                    made.say, source, warnings=made.warnings, is_synthesized=True
                )
            case MockSpec() as it:
                called = turn if isinstance(turn, MockRequest) else MockRequest(it, 1)
                return mock.mock_response(called, cue)

    def reset(self, session: str) -> None:
        """Begin this session again: nothing failed, nothing said, no scenario chosen for it."""
        for failure_counter in (
            self._attempts,
            self._request_counts,
            self._mock_reply_counts,
            self._response_store,
        ):
            failure_counter.reset_session(session)
        self._chosen_scenarios.pop(session, None)

    async def choose_scenario(self, session: str, scenario: str) -> bool:
        """Have this session's requests answered by that scenario, whatever they say.

        An empty id takes that back.  Gives whether there is such a scenario now.
        """
        if not scenario:
            self._chosen_scenarios.pop(session, None)
            return True
        self._chosen_scenarios[session] = scenario
        return scenario in (await self._scripts.current()).by_id

    def _encode_context(self, routed: RoutedRequest) -> EncodeContext:
        """What ids and rolls of chance are made of: the same for the same request, in its order."""
        scenario = routed.scenario or self._chosen_scenarios.get(routed.session, "")
        label = f"{routed.key} {scenario}"  # which the key does not tell
        ordinal = self._request_counts.next_ordinal(routed.session, label)
        seed = "\0".join((str(self._simulation.seed), routed.session, label, str(ordinal)))
        return EncodeContext(seed, self._simulation.created_at(), provider=routed.provider)

    async def _call_mock(self, mock_spec: MockSpec, cue: MatchContext) -> MockRequest:
        """The call of a mock, with what the operator's function says.

        Raises `RespondFunctionFailed`.
        """
        number = self._mock_reply_counts.next_ordinal(cue.session, mock_spec.name)
        respond = self._simulation.respond
        if respond is None or mock.is_self_contained(mock_spec):
            return MockRequest(mock_spec, number)
        try:
            if inspect.iscoroutinefunction(respond):
                value = await respond(cue)
            else:  # it may take its time
                value = await self._simulation.offload(partial(respond, cue))
            if inspect.isawaitable(value):
                value = await value
            return MockRequest(mock_spec, number, _parse_reply(value))
        except (Exception, SystemExit) as error:  # whatever the operator's own code raises
            raise RespondFunctionFailed(
                f"respond failed: {type(error).__name__}: {error}"
            ) from error

    def _auxiliary_response(
        self, routed: RoutedRequest, script: ScenarioSet, delivery: EncodeContext
    ) -> ModeResponse:
        request = routed.decompressed
        answer = unquote(request.path.rpartition("/")[2])
        stored_response = (
            self._response_store.find(routed.session, answer) if request.method == "GET" else None
        )
        is_its = stored_response is not None and stored_response.dialect == routed.dialect.name
        if stored_response is not None and is_its and stored_response.turns[0].id == answer:
            again = replace(request, body=stored_response.body)
            response = routed.dialect.encode(again, stored_response.turns, stored_response.delivery)
        else:
            delivery = replace(delivery, models=script.named_models)
            if (to_probe := probe_response(routed)) is not None:
                return to_probe
            side = routed.dialect.auxiliary_response(request, delivery)
            response = side if side is not None else _refuse_unknown(routed)
        return ModeResponse(
            actions.immediate_actions(response), f"{_SPEAKER}: beside turns", is_simulated=True
        )


def _parse_reply(value: object) -> MockReply:
    """What a function says as a reply.  Raises `UsageError` and `TypeError` for what is none."""
    if isinstance(value, str):
        return MockReply(content=value)
    if not isinstance(value, Mapping):
        raise TypeError(f"it returns {value!r:.80}, neither a text nor a reply")
    return loading.parse_struct(
        MockReply, "what it returns", orjson.dumps(value).decode(), is_json=True
    )


def _refuse_unknown(routed: RoutedRequest) -> NoReturn:
    known = dict.fromkeys(
        chat_dialect.sample_request("MODEL", stream=True).path
        for chat_dialect in dialects.chat_dialects().values()
    )
    text = f"{routed.decompressed.method} {printable(routed.stored_request.path, _SHOWN)}"
    if routed.decompressed.method == "POST" and routed.decompressed.path in known:
        raise NotSimulated(f"{text} asks for no turn: its body is no JSON that says what", 400)
    raise NotSimulated(
        f"nothing is simulated for {text}; turns are, at {', '.join(known)} and the like"
    )
