"""`simulate`: responds from scenarios, a mock or synthesis only.

The `scenario` package decides the response; this mode keeps the state between requests: stored
responses that a request continues, failures of each step, replies of each mock.
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
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER
from llm_proxy.errors import NotSimulated, PatternsTooSlow, RespondFunctionFailed, printable_excerpt
from llm_proxy.modes.base import ModeResponse, probe_response
from llm_proxy.pacing.requested_pace import requested_pace
from llm_proxy.ports import Offload, PaceSource, ScenarioSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario import render
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import ChosenScenario, NoScenario
from llm_proxy.scenario.engine.failure_counter import FailureCounter
from llm_proxy.scenario.engine.match_context import MatchContext, match_context_of
from llm_proxy.scenario.engine.mock import MockInvocation
from llm_proxy.scenario.engine.response_store import ResponseStore, StoredResponse
from llm_proxy.scenario.engine.scenario_set import ScenarioSet
from llm_proxy.scenario.engine.scripting import CheckedRequest
from llm_proxy.scenario.render import FailureLimits
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.synthesis import message_layout_of, synthesize_response
from llm_proxy.take_numbers import RequestCounter

T = TypeVar("T")

RespondFunction = Callable[[MatchContext], object]
"""The operator's function.  It returns a text, a partial response as defined in document 004, or an
awaitable of one of them."""


_SLOW_BODY_BYTES: Final = 16 * 1024
"""The size of a request that takes a while."""
_PREVIOUS_MISSING_MESSAGE: Final = (
    "The request continues the answer {}, which was not given in this session and run, or is "
    "forgotten."
)
_TEST_PROVIDER: Final = "test-llm"
"""The member of OpenAI's family whose responses have the format of document 001."""
_MAX_SHOWN_CHARS: Final = 200
"""The most characters of a path in an error message."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The operator's settings and the shell's functions for `SimulateMode`."""

    seed: int
    get_unix_time: Callable[[], int]
    """Returns the creation time that responses declare, in s since 1970."""
    get_cpu_time_s: Callable[[], float]
    """Returns the CPU time of the calling thread, in s."""
    pace_source: PaceSource
    failure_limits: FailureLimits
    offload: Offload
    """Runs a slow function without blocking other requests."""
    synthesizes_unmatched: bool = False
    """Whether synthesis responds where scenarios exist but none matches."""
    respond_function: RespondFunction | None = None
    is_fallback: bool = False
    """Whether another mode responds first, and reports best why a request has no response."""


_ResponseChoice = CheckedRequest | ScriptedResponse | MockSpec | NoScenario | None
"""What responds: a step of a scenario, a finished response, a mock, nothing; None is synthesis."""


@dataclass(frozen=True, slots=True)
class _PreparedResponse:
    """A request for a turn, and what responds to it."""

    match_context: MatchContext
    encode_context: EncodeContext
    response_choice: _ResponseChoice


async def _run_inline(function: Callable[[], T]) -> T:
    return function()


class SimulateMode:
    """Responds from scenarios, a mock or synthesis, separately for each session."""

    name = "simulate"

    def __init__(self, scenarios: ScenarioSource, settings: SimulationSettings) -> None:
        self._scenarios = scenarios
        self._settings = settings
        self._failure_counter = FailureCounter()
        self._request_counter = RequestCounter()
        self._mock_reply_counter = RequestCounter()
        self._response_store = ResponseStore()
        self._scenario_by_session: dict[str, str] = {}
        """The id of the scenario that was chosen for a session."""

    async def respond(self, routed: RoutedRequest) -> ModeResponse:
        """The scripted, mocked or synthesized response.

        Raises `NotSimulated` for a request that has no simulated response, `NotRepresentable` for a
        turn that the dialect cannot represent, `ScriptExhausted` and `RespondFunctionFailed`.
        """
        requested_pace(routed)  # refuses an invalid pace before anything is counted
        scenario_set = await self._scenarios.current_scenarios()
        is_slow = (
            len(routed.decompressed_request.body) > _SLOW_BODY_BYTES
            or scenario_set.may_match_slowly
        )
        run_function = self._settings.offload if is_slow else _run_inline
        await run_function(lambda: routed.key)
        encode_context = self._encode_context(routed)
        prepared = await run_function(
            partial(self._prepare_response, routed, scenario_set, encode_context)
        )
        if isinstance(prepared, ModeResponse):
            return prepared
        mock_or_failure: MockInvocation | int | None = None
        if isinstance(prepared.response_choice, MockSpec):
            mock_or_failure = await self._call_mock(
                prepared.response_choice, prepared.match_context
            )
        elif isinstance(
            prepared.response_choice, CheckedRequest
        ):  # counts and stored responses are changed only in this thread
            mock_or_failure = scripting.next_failure_number(
                prepared.response_choice, self._failure_counter
            )
        response, stored_response = await run_function(
            partial(self._encode_response, routed, scenario_set, prepared, mock_or_failure)
        )
        if stored_response is not None:
            self._response_store.store(routed.session, stored_response)
        return response

    def _prepare_response(
        self, routed: RoutedRequest, scenario_set: ScenarioSet, encode_context: EncodeContext
    ) -> _PreparedResponse | ModeResponse:
        """Chooses what responds to a request for a turn; responds to other requests directly."""
        conversation = routed.conversation
        if conversation is None:
            return self._auxiliary_response(routed, scenario_set, encode_context)
        is_previous_missing = self._response_store.is_previous_missing(routed.session, conversation)
        missing_message = _PREVIOUS_MISSING_MESSAGE.format(conversation.previous_response_id)
        conversation = self._response_store.with_previous_messages(routed.session, conversation)
        chosen_scenario = self._scenario_by_session.get(routed.session, "")
        match_context = match_context_of(routed, conversation, encode_context.seed, chosen_scenario)
        error_response = (
            scripting.error_turn_response(missing_message, match_context)
            if is_previous_missing
            else None
        )
        return _PreparedResponse(
            match_context,
            encode_context,
            self._choose_response(scenario_set, match_context, error_response),
        )

    def _choose_response(
        self,
        scenario_set: ScenarioSet,
        match_context: MatchContext,
        error_response: ScriptedResponse | None,
    ) -> _ResponseChoice:
        """The step of a scenario; else the mock; else None for synthesis.

        `error_response` replaces the response of any scenario.
        """
        try:
            scenario_choice = choosing.choose_scenario(
                scenario_set, match_context, self._settings.get_cpu_time_s
            )
        except PatternsTooSlow as error:
            return error_response or scripting.error_turn_response(str(error), match_context)
        if isinstance(scenario_choice, ChosenScenario):
            return error_response or scripting.check_request(scenario_choice, match_context)
        if scenario_choice.is_explicit:
            return scenario_choice
        if scenario_set.mock is not None or self._settings.respond_function is not None:
            return scenario_set.mock or MockSpec()
        return (
            scenario_choice
            if scenario_set.scenarios and not self._settings.synthesizes_unmatched
            else None
        )

    def _encode_response(
        self,
        routed: RoutedRequest,
        scenario_set: ScenarioSet,
        prepared: _PreparedResponse,
        mock_or_failure: MockInvocation | int | None,
    ) -> tuple[ModeResponse, StoredResponse | None]:
        scripted_response = self._scripted_response(routed, scenario_set, prepared, mock_or_failure)
        encode_context, action = prepared.encode_context, scripted_response.scripted_action
        if scripted_response.is_synthesized and routed.provider not in VARIANT_BY_PROVIDER:
            encode_context = replace(encode_context, provider=_TEST_PROVIDER)
        stored_response: StoredResponse | None = None
        if (
            isinstance(action, SendTurns)
            and prepared.match_context.conversation.is_stored_by_provider
        ):
            turn_context = render.encode_context_for(action, encode_context)
            turns = routed.dialect.representable_turns(
                routed.decompressed_request, action.response_turns, turn_context
            ).turns
            body, dialect = routed.decompressed_request.body, routed.dialect.name
            stored_response = StoredResponse(
                prepared.match_context.conversation, turns, turn_context, body, dialect
            )
        decoded_request = DecodedRequest(
            routed.dialect, routed.decompressed_request, encode_context
        )
        scenario_pace = action.pace if isinstance(action, SendTurns) else None
        pace = (
            requested_pace(routed)
            or scenario_pace
            or self._settings.pace_source.pace_of(routed.session)
        )
        burst = render.response_actions(
            action,
            decoded_request,
            routed.dialect.output_chars,
            pace,
            self._settings.failure_limits,
        )
        pace_text = str(pace) if isinstance(action, SendTurns) else ""
        return ModeResponse(
            burst, scripted_response.origin, scripted_response, is_simulated=True, pace=pace_text
        ), stored_response

    def _scripted_response(
        self,
        routed: RoutedRequest,
        scenario_set: ScenarioSet,
        prepared: _PreparedResponse,
        mock_or_failure: MockInvocation | int | None,
    ) -> ScriptedResponse:
        """The scripted response.  Raises `NotSimulated` to leave the error to the other mode."""
        match_context = prepared.match_context
        match prepared.response_choice:
            case ScriptedResponse() as scripted_response:
                return scripted_response
            case CheckedRequest() as checked_request:
                return scripting.response_or_failure(
                    checked_request, mock_or_failure if isinstance(mock_or_failure, int) else None
                )
            case NoScenario() as no_scenario:
                reason = choosing.no_scenario_message(scenario_set, no_scenario)
                if self._settings.is_fallback and not no_scenario.is_explicit:
                    raise NotSimulated(reason)
                return scripting.error_turn_response(reason, match_context)
            case None:
                message_layout = message_layout_of(
                    routed.dialect, routed.decompressed_request, prepared.encode_context
                )
                synthesized = synthesize_response(
                    match_context.conversation,
                    prepared.encode_context,
                    message_layout,
                    match_context.model,
                )
                origin = f"synthesis: {synthesized.content_kind}"
                return ScriptedResponse(
                    synthesized.send_turns,
                    origin,
                    warnings=synthesized.warnings,
                    is_synthesized=True,
                )
            case MockSpec() as mock_spec:
                mock_request = (
                    mock_or_failure
                    if isinstance(mock_or_failure, MockInvocation)
                    else MockInvocation(mock_spec, 1)
                )
                return mock.mock_response(mock_request, match_context)

    def reset_session(self, session: str) -> None:
        """Resets the counts, stored responses and chosen scenario of this session."""
        for per_session_state in (
            self._failure_counter,
            self._request_counter,
            self._mock_reply_counter,
            self._response_store,
        ):
            per_session_state.reset_session(session)
        self._scenario_by_session.pop(session, None)

    async def set_session_scenario(self, session: str, scenario: str) -> bool:
        """Makes that scenario respond to all requests of this session, whatever their contents.

        An empty id undoes that.  Returns whether such a scenario exists now.
        """
        if not scenario:
            self._scenario_by_session.pop(session, None)
            return True
        self._scenario_by_session[session] = scenario
        return scenario in (await self._scenarios.current_scenarios()).scenarios_by_id

    def _encode_context(self, routed: RoutedRequest) -> EncodeContext:
        """The context whose seed depends on the request and on how often it was sent."""
        scenario = routed.requested_scenario or self._scenario_by_session.get(routed.session, "")
        request_label = f"{routed.key} {scenario}"  # the key does not contain the scenario
        ordinal = self._request_counter.next_ordinal(routed.session, request_label)
        seed = "\0".join((str(self._settings.seed), routed.session, request_label, str(ordinal)))
        return EncodeContext(seed, self._settings.get_unix_time(), provider=routed.provider)

    async def _call_mock(self, mock_spec: MockSpec, match_context: MatchContext) -> MockInvocation:
        """The request to a mock, with the reply of the operator's function.

        Raises `RespondFunctionFailed`.
        """
        reply_number = self._mock_reply_counter.next_ordinal(match_context.session, mock_spec.name)
        respond_function = self._settings.respond_function
        if respond_function is None or mock.has_scripted_replies(mock_spec):
            return MockInvocation(mock_spec, reply_number)
        try:
            if inspect.iscoroutinefunction(respond_function):
                returned = await respond_function(match_context)
            else:  # it may block
                returned = await self._settings.offload(partial(respond_function, match_context))
            if inspect.isawaitable(returned):
                returned = await returned
            return MockInvocation(mock_spec, reply_number, _parse_mock_reply(returned))
        except (Exception, SystemExit) as error:  # whatever the operator's own code raises
            raise RespondFunctionFailed(
                f"respond failed: {type(error).__name__}: {error}"
            ) from error

    def _auxiliary_response(
        self, routed: RoutedRequest, scenario_set: ScenarioSet, encode_context: EncodeContext
    ) -> ModeResponse:
        request = routed.decompressed_request
        response_id = unquote(request.path.rpartition("/")[2])
        stored_response = (
            self._response_store.find(routed.session, response_id)
            if request.method == "GET"
            else None
        )
        is_same_dialect = (
            stored_response is not None and stored_response.dialect_name == routed.dialect.name
        )
        if (
            stored_response is not None
            and is_same_dialect
            and stored_response.response_turns[0].id == response_id
        ):
            original_request = replace(request, body=stored_response.request_body)
            response = routed.dialect.encode_response(
                original_request, stored_response.response_turns, stored_response.encode_context
            )
        else:
            encode_context = replace(encode_context, models=scenario_set.named_models)
            if (probe := probe_response(routed)) is not None:
                return probe
            auxiliary = routed.dialect.auxiliary_response(request, encode_context)
            response = auxiliary if auxiliary is not None else _raise_not_simulated(routed)
        return ModeResponse(
            render.immediate_actions(response),
            f"{_TEST_PROVIDER}: beside turns",
            is_simulated=True,
        )


def _parse_mock_reply(value: object) -> MockReply:
    """Converts the result of the operator's function.  Raises `UsageError` and `TypeError`."""
    if isinstance(value, str):
        return MockReply(content=value)
    if not isinstance(value, Mapping):
        raise TypeError(f"it returns {value!r:.80}, neither a text nor a reply")
    return loading.parse_struct(
        MockReply, "what it returns", orjson.dumps(value).decode(), is_json=True
    )


def _raise_not_simulated(routed: RoutedRequest) -> NoReturn:
    known_paths = dict.fromkeys(
        chat_dialect.sample_request("MODEL", stream=True).path
        for chat_dialect in dialects.chat_dialects().values()
    )
    request_line = (
        f"{routed.decompressed_request.method} "
        f"{printable_excerpt(routed.stored_request.path, _MAX_SHOWN_CHARS)}"
    )
    if (
        routed.decompressed_request.method == "POST"
        and routed.decompressed_request.path in known_paths
    ):
        raise NotSimulated(
            f"{request_line} asks for no turn: its body is no JSON that says what", 400
        )
    raise NotSimulated(
        f"nothing is simulated for {request_line}; turns are, at {', '.join(known_paths)} and "
        "the like"
    )
