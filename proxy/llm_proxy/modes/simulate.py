"""`simulate`: responds from scenarios, a mock or synthesis only.

The `scenario` package decides the response; this mode keeps the state between requests: stored
responses that a request continues, failures of each step, replies of each mock.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar
from urllib.parse import unquote

import orjson
from msgspec import UNSET

from llm_proxy import dialects
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects.base import DecodedRequest, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotSimulated, PatternsTooSlow, RespondFunctionFailed, printable_excerpt
from llm_proxy.modes.base import ModeResponse, probe_response, requested_pace
from llm_proxy.pacing import PaceRegistry
from llm_proxy.ports import Offload, ScenarioSource
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario import choosing, scripted_response, scripting
from llm_proxy.scenario.choosing import ChosenScenario, MatchContext, ScenarioSet, match_context_of
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockReply, MockSpec
from llm_proxy.scenario.scripted_response import ScriptedResponse, SendTurns
from llm_proxy.scenario.scripting import CheckedRequest, OnMismatch
from llm_proxy.synthesis import message_layout_of, synthesize_response
from llm_proxy.take_numbers import RequestCounter
from llm_proxy.turns import Turn

T = TypeVar("T")

RespondFunction = Callable[[MatchContext], object]
"""The operator's function.  It returns a text, a partial response as defined in document 004, or an
awaitable of one of them."""


_PREVIOUS_MISSING_MESSAGE: Final = (
    "The request refers to the previous response {}, which is not stored in this session."
)
_TEST_PROVIDER: Final = "test-llm"
"""The member of OpenAI's family whose responses have the format of document 001."""
_MAX_SHOWN_CHARS: Final = 200
"""The most characters of a path in an error message."""
_MAX_RESPONSES: Final = 10_000
"""The most stored responses; beyond that the oldest are dropped."""
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all stored request bodies; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """The operator's settings and the shell's functions for `SimulateMode`."""

    seed: int
    get_unix_time: Callable[[], int]
    """Returns the creation time that responses declare, in s since 1970."""
    get_cpu_time_s: Callable[[], float]
    """Returns the CPU time of the calling thread, in s."""
    pace_source: PaceRegistry
    max_silence_ms: float
    """The silence of a `timeout` failure, which otherwise only the client would end."""
    offload: Offload
    """Runs a slow function without blocking other requests."""
    synthesizes_unmatched: bool = False
    """Whether synthesis responds where scenarios exist but none matches."""
    on_mismatch: OnMismatch = "auto"
    respond_function: RespondFunction | None = None
    is_fallback: bool = False
    """Whether another mode responds first, and reports best why a request has no response."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that was sent, with its request."""

    conversation: Conversation
    """The request's, including all previous messages."""
    response_turns: tuple[Turn, ...]
    encode_context: EncodeContext
    request_body: bytes
    """Some of its fields are repeated when the response is retrieved."""
    dialect_name: str
    """The name of the dialect that encoded the response."""


class ResponseStore:
    """The latest responses, by session and id."""

    def __init__(self) -> None:
        self._responses: OrderedDict[tuple[str, str], StoredResponse] = OrderedDict()
        self._stored_request_bytes = 0

    def store(self, session: str, stored_response: StoredResponse) -> None:
        """Store a response under its id, and under the id of the conversation it belongs to."""
        for response_id in filter(
            None,
            (
                stored_response.response_turns[0].id,
                stored_response.conversation.stored_conversation_id,
            ),
        ):
            self._remove((session, response_id))
            self._responses[session, response_id] = stored_response
            self._stored_request_bytes += len(stored_response.request_body)
        while (
            len(self._responses) > _MAX_RESPONSES or self._stored_request_bytes > _MAX_REQUEST_BYTES
        ):
            self._remove(next(iter(self._responses)))

    def find(self, session: str, response_id: str) -> StoredResponse | None:
        """The response with this id, or the latest of the conversation with this id."""
        return self._responses.get((session, response_id))

    def reset_session(self, session: str) -> None:
        """Drop the responses of this session."""
        for key in [key for key in self._responses if key[0] == session]:
            self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        stored_response = self._responses.pop(key, None)
        self._stored_request_bytes -= len(stored_response.request_body) if stored_response else 0

    def with_previous_messages(
        self, session: str, conversation: Conversation
    ) -> Conversation | None:
        """The conversation with the messages of the response that it continues by id.

        The system prompt is not continued, because providers require it anew.  None if that
        response is not stored (any more).
        """
        previous = self.find(
            session, conversation.previous_response_id or conversation.stored_conversation_id
        )
        if previous is None:
            return None if conversation.previous_response_id else conversation
        previous_responses = tuple(
            RequestMessage("assistant", turn.parts) for turn in previous.response_turns[:1]
        )
        messages = (*previous.conversation.messages, *previous_responses, *conversation.messages)
        return replace(conversation, messages=messages)


async def _run_inline(function: Callable[[], T]) -> T:
    return function()


class SimulateMode:
    """Responds from scenarios, a mock or synthesis, separately for each session."""

    name = "simulate"

    def __init__(self, current_scenarios: ScenarioSource, settings: SimulationSettings) -> None:
        self._current_scenarios = current_scenarios
        self._settings = settings
        self._failure_counter = RequestCounter()
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
        scenario_set = await self._current_scenarios()
        is_slow = routed.is_large or scenario_set.may_match_slowly
        run_function = self._settings.offload if is_slow else _run_inline
        await run_function(lambda: routed.key)
        encode_context = self._encode_context(routed)
        prepared = await run_function(partial(self._prepare, routed, scenario_set, encode_context))
        if isinstance(prepared, ModeResponse):
            return prepared
        context, script = prepared
        # Counts and stored responses are changed only in this thread.
        if isinstance(script, MockSpec):
            number = self._mock_reply_counter.next_ordinal(routed.session, script.name)
            reply = await self._function_reply(script, context)
            script = await run_function(
                partial(scripting.mock_response, script, number, context, reply)
            )
        elif isinstance(script, CheckedRequest):
            failure_number = scripting.next_failure_number(script, self._failure_counter)
            script = await run_function(
                partial(scripting.response_or_failure, script, failure_number)
            )
        script = scripting.apply_on_mismatch(
            script, context.conversation, self._settings.on_mismatch
        )
        response, stored_response = await run_function(
            partial(self._encode_response, routed, context, encode_context, script)
        )
        if stored_response is not None:
            self._response_store.store(routed.session, stored_response)
        return response

    def _prepare(
        self, routed: RoutedRequest, scenario_set: ScenarioSet, encode_context: EncodeContext
    ) -> tuple[MatchContext, CheckedRequest | ScriptedResponse | MockSpec] | ModeResponse:
        """Chooses what responds to a request for a turn; responds to other requests directly."""
        conversation = routed.conversation
        if conversation is None:
            return self._auxiliary_response(routed, scenario_set, encode_context)
        session_scenario = self._scenario_by_session.get(routed.session, "")
        continued = self._response_store.with_previous_messages(routed.session, conversation)
        context = match_context_of(
            routed, continued or conversation, encode_context.seed, session_scenario
        )
        error_response: ScriptedResponse | None = None  # replaces the response of any scenario
        if continued is None:
            message = _PREVIOUS_MISSING_MESSAGE.format(conversation.previous_response_id)
            error_response = scripting.error_turn_response(message, context)
        try:
            chosen = choosing.choose_scenario(scenario_set, context, self._settings.get_cpu_time_s)
        except PatternsTooSlow as error:
            return context, error_response or scripting.error_turn_response(str(error), context)
        if isinstance(chosen, ChosenScenario):
            return context, error_response or scripting.check_request(chosen, context)
        has_mock = scenario_set.mock is not None or self._settings.respond_function is not None
        if has_mock and not chosen.is_explicit:
            return context, scenario_set.mock or MockSpec()
        if chosen.is_explicit or (
            scenario_set.scenarios and not self._settings.synthesizes_unmatched
        ):
            reason = choosing.no_scenario_message(scenario_set, chosen)
            if self._settings.is_fallback and not chosen.is_explicit:
                raise NotSimulated(reason)  # the other mode reports the error
            return context, scripting.error_turn_response(reason, context)
        layout = message_layout_of(
            routed.dialect,
            routed.decompressed_request,
            encode_context,
            context.conversation.last_user_text,
        )
        return context, synthesize_response(
            context.conversation, encode_context, layout, context.model
        )

    def _encode_response(
        self,
        routed: RoutedRequest,
        context: MatchContext,
        encode_context: EncodeContext,
        script: ScriptedResponse,
    ) -> tuple[ModeResponse, StoredResponse | None]:
        action, request = script.scripted_action, routed.decompressed_request
        if script.is_synthesized and routed.provider not in routed.dialect.provider_variants:
            encode_context = replace(encode_context, provider=_TEST_PROVIDER)
        stored_response: StoredResponse | None = None
        if isinstance(action, SendTurns) and context.conversation.is_stored_by_provider:
            turn_context = scripted_response.encode_context_for(action, encode_context)
            turns = routed.dialect.prepared_turns(request, action.response_turns, turn_context)
            stored_response = StoredResponse(
                context.conversation, turns, turn_context, request.body, routed.dialect.name
            )
        pace = (
            requested_pace(routed)
            or (action.pace if isinstance(action, SendTurns) else None)
            or self._settings.pace_source.pace_of(routed.session)
        )
        burst = scripted_response.response_actions(
            action,
            DecodedRequest(routed.dialect, request, encode_context),
            pace,
            self._settings.max_silence_ms,
        )
        pace_text = str(pace) if isinstance(action, SendTurns) else ""
        return ModeResponse(
            burst, script.origin, script, is_simulated=True, pace=pace_text
        ), stored_response

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

    async def set_session_scenario(self, session: str, scenario: str) -> Sequence[str] | None:
        """Makes that scenario respond to all requests of this session, whatever their contents.

        An empty id undoes that.  Returns None if such a scenario exists now, else similar ids.
        """
        if not scenario:
            self._scenario_by_session.pop(session, None)
            return None
        self._scenario_by_session[session] = scenario
        scenario_set = await self._current_scenarios()
        if scenario in scenario_set.scenarios_by_id:
            return None
        return scenario_set.nearest_ids(scenario)

    def _encode_context(self, routed: RoutedRequest) -> EncodeContext:
        """The context whose seed depends on the request and on how often it was sent."""
        scenario = routed.requested_scenario or self._scenario_by_session.get(routed.session, "")
        request_label = f"{routed.key} {scenario}"  # the key does not contain the scenario
        ordinal = self._request_counter.next_ordinal(routed.session, request_label)
        seed = "\0".join((str(self._settings.seed), routed.session, request_label, str(ordinal)))
        return EncodeContext(seed, self._settings.get_unix_time(), provider=routed.provider)

    async def _function_reply(
        self, mock_spec: MockSpec, match_context: MatchContext
    ) -> MockReply | None:
        """The reply of the operator's function; None without one, and where the mock has its own.

        Raises `RespondFunctionFailed`.
        """
        respond_function = self._settings.respond_function
        has_own_reply = mock_spec.replies is not UNSET or mock_spec.reply is not UNSET
        if respond_function is None or has_own_reply:
            return None
        try:
            if inspect.iscoroutinefunction(respond_function):
                returned = await respond_function(match_context)
            else:  # it may block
                returned = await self._settings.offload(partial(respond_function, match_context))
            if inspect.isawaitable(returned):
                returned = await returned
            return _parse_mock_reply(returned)
        except (Exception, SystemExit) as error:  # whatever the operator's own code raises
            raise RespondFunctionFailed(
                f"the --respond function failed: {type(error).__name__}: {error}"
            ) from error

    def _auxiliary_response(
        self, routed: RoutedRequest, scenario_set: ScenarioSet, encode_context: EncodeContext
    ) -> ModeResponse:
        """The response to a request for no turn, such as that for a stored response."""
        request, dialect = routed.decompressed_request, routed.dialect
        response_id = unquote(request.path.rpartition("/")[2])
        stored = self._response_store.find(routed.session, response_id)
        response: DialectResponse | None
        if (
            stored is not None
            and request.method == "GET"
            and stored.dialect_name == dialect.name
            and stored.response_turns[0].id == response_id
        ):
            response = dialect.encode_response(
                replace(request, body=stored.request_body),
                stored.response_turns,
                stored.encode_context,
            )
        elif (probe := probe_response(routed)) is not None:
            return probe
        else:
            encode_context = replace(encode_context, models=scenario_set.named_models)
            response = dialect.auxiliary_response(request, encode_context)
        if response is None:
            raise _not_simulated(routed)
        return ModeResponse(
            scripted_response.immediate_actions(response),
            f"{_TEST_PROVIDER}: auxiliary response",
            is_simulated=True,
        )


def _parse_mock_reply(value: object) -> MockReply:
    """Converts the result of the operator's function.  Raises `UsageError` and `TypeError`."""
    if isinstance(value, str):
        return MockReply(content=value)
    if not isinstance(value, Mapping):
        raise TypeError(f"the function must return a string or a dictionary, not {value!r:.80}")
    return loading.parse_struct(
        MockReply, "returned value", orjson.dumps(value).decode(), is_json=True
    )


def _not_simulated(routed: RoutedRequest) -> NotSimulated:
    known_paths = dict.fromkeys(
        dialect.sample_request("MODEL", stream=True).path
        for dialect in dialects.chat_dialects().values()
    )
    request = routed.decompressed_request
    path = printable_excerpt(routed.stored_request.path, _MAX_SHOWN_CHARS)
    if request.method == "POST" and request.path in known_paths:
        return NotSimulated(
            f"{request.method} {path}: the request body is not a JSON object with messages", 400
        )
    return NotSimulated(
        f"cannot simulate a response to {request.method} {path}; simulated paths include "
        f"{', '.join(known_paths)}"
    )
