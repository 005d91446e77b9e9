"""`simulate`: every call is answered from scenarios, a mock or synthesis, and nothing else.

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
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai.family import FAMILY
from llm_proxy.errors import NotSimulated, RespondFailed, TooSlow, printable
from llm_proxy.modes.base import Answer, answer_to_probe
from llm_proxy.pacing.requested_pace import asked_pace
from llm_proxy.ports import Aside, Paces, Scripts
from llm_proxy.routing import Call
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Mock, Reply
from llm_proxy.scenario.engine import choosing, mock, scripting
from llm_proxy.scenario.engine.choosing import Chosen, Unknown
from llm_proxy.scenario.engine.failure_counter import Attempts
from llm_proxy.scenario.engine.match_context import Cue, cue_of
from llm_proxy.scenario.engine.mock import MockCalled
from llm_proxy.scenario.engine.response_store import Given, Memory
from llm_proxy.scenario.engine.scenario_set import Script
from llm_proxy.scenario.engine.scripting import Checked
from llm_proxy.scenario.render import actions
from llm_proxy.scenario.render.failures import Limits
from llm_proxy.scenario.scripted_response import Direction, Say
from llm_proxy.synthesis.message_layout import telling
from llm_proxy.synthesis.response import synthesise
from llm_proxy.take_numbers import Ordinals

T = TypeVar("T")

Respond = Callable[[Cue], object]
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
class Simulation:
    """What an operator decides about it."""

    seed: int
    created: Callable[[], int]
    """The time that answers name, in s since 1970."""
    cpu_time: Callable[[], float]
    """Of the thread that calls it, in s."""
    paces: Paces
    limits: Limits
    aside: Aside
    """Runs a function that may take its time, while others are answered."""
    synthesises: bool = False
    """Whether synthesis answers what no scenario does, though there are some."""
    respond: Respond | None = None
    is_second: bool = False
    """Whether another mode answers first, and says best why a request is answered by nobody."""


_Choice = Checked | Direction | Mock | Unknown | None
"""What answers: a step, what is decided already, a mock, that nothing does; None is synthesis."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """A request for a turn, and what answers it."""

    cue: Cue
    delivery: Delivery
    chosen: _Choice


async def _at_once(function: Callable[[], T]) -> T:
    return function()


class Simulate:
    """Plays scenarios, each session on its own."""

    name = "simulate"

    def __init__(self, scripts: Scripts, simulation: Simulation) -> None:
        self._scripts = scripts
        self._simulation = simulation
        self._attempts = Attempts()
        self._requests = Ordinals()
        self._replies = Ordinals()
        self._memory = Memory()
        self._chosen: dict[str, str] = {}
        """The scenario that was chosen for a session."""

    async def answer(self, call: Call) -> Answer:
        """The scripted answer, or a made-up one.

        Raises `NotSimulated` for what nobody could answer, `CannotSay` for what the dialect has
        no words for, `ScriptExhausted` and `RespondFailed`.
        """
        asked_pace(call)  # before anything counts
        script = await self._scripts.current()
        takes_time = len(call.plain.body) > _LARGE or script.searches
        run = self._simulation.aside if takes_time else _at_once
        await run(lambda: call.key)
        delivery = self._delivery(call)
        stage = await run(partial(self._stage, call, script, delivery))
        if isinstance(stage, Answer):
            return stage
        turn: MockCalled | int | None = None
        if isinstance(stage.chosen, Mock):
            turn = await self._called(stage.chosen, stage.cue)
        elif isinstance(stage.chosen, Checked):  # what is counted or kept is so in one thread
            turn = scripting.take_failure(stage.chosen, self._attempts)
        answer, given = await run(partial(self._played, call, script, stage, turn))
        if given is not None:
            self._memory.keep(call.session, given)
        return answer

    def _stage(self, call: Call, script: Script, delivery: Delivery) -> _Stage | Answer:
        """What a request for a turn is answered by; or the answer to what is asked beside turns."""
        conversation = call.conversation
        if conversation is None:
            return self._beside(call, script, delivery)
        is_lost = self._memory.lacks(call.session, conversation)
        lost = _LOST.format(conversation.previous)
        conversation = self._memory.continued(call.session, conversation)
        chosen = self._chosen.get(call.session, "")
        cue = cue_of(call, conversation, delivery.seed, chosen)
        wrong = scripting.error_turn(lost, cue) if is_lost else None
        return _Stage(cue, delivery, self._chooses(script, cue, wrong))

    def _chooses(self, script: Script, cue: Cue, wrong: Direction | None) -> _Choice:
        """The step of a scenario; else the mock; else None where the answer is made up.

        `wrong` is what a scenario answers in any case.
        """
        try:
            chosen = choosing.choose(script, cue, self._simulation.cpu_time)
        except TooSlow as error:
            return wrong or scripting.error_turn(str(error), cue)
        if isinstance(chosen, Chosen):
            return wrong or scripting.check(chosen, cue)
        if chosen.is_meant:
            return chosen
        if script.mock is not None or self._simulation.respond is not None:
            return script.mock or Mock()
        return chosen if script.scenarios and not self._simulation.synthesises else None

    def _played(
        self, call: Call, script: Script, stage: _Stage, turn: MockCalled | int | None
    ) -> tuple[Answer, Given | None]:
        """The answer, and what is to be kept of it."""
        direction = self._directed(call, script, stage, turn)
        delivery, what = stage.delivery, direction.what
        if direction.is_made_up and call.provider not in FAMILY:
            delivery = replace(delivery, provider=_SPEAKER)
        given: Given | None = None
        if isinstance(what, Say) and stage.cue.conversation.is_kept:
            told = actions.delivered(what, delivery)
            turns = call.dialect.fit(call.plain, what.turns, told).turns
            body, dialect = call.plain.body, call.dialect.name
            given = Given(stage.cue.conversation, turns, told, body, dialect)
        asked = Asked(call.dialect, call.plain, delivery)
        said = what.pace if isinstance(what, Say) else None
        pace = asked_pace(call) or said or self._simulation.paces.of(call.session)
        burst = actions.actions(what, asked, call.dialect.says, pace, self._simulation.limits)
        spelled = str(pace) if isinstance(what, Say) else ""
        return Answer(burst, direction.source, direction, simulated=True, pace=spelled), given

    def _directed(
        self, call: Call, script: Script, stage: _Stage, turn: MockCalled | int | None
    ) -> Direction:
        """What to answer.  Raises `NotSimulated` where another mode knows better."""
        cue = stage.cue
        match stage.chosen:
            case Direction() as decided:
                return decided
            case Checked() as checked:
                return scripting.answer(checked, turn if isinstance(turn, int) else None)
            case Unknown() as unknown:
                why = choosing.complaint(script, unknown)
                if self._simulation.is_second and not unknown.is_meant:
                    raise NotSimulated(why)
                return scripting.error_turn(why, cue)
            case None:
                how = telling(call.dialect, call.plain, stage.delivery)
                made = synthesise(cue.conversation, stage.delivery, how, cue.model)
                source = f"synthesis: {made.mode}"
                return Direction(made.say, source, warnings=made.warnings, is_made_up=True)
            case Mock() as it:
                called = turn if isinstance(turn, MockCalled) else MockCalled(it, 1)
                return mock.direct(called, cue)

    def reset(self, session: str) -> None:
        """Begin this session again: nothing failed, nothing said, no scenario chosen for it."""
        for each in (self._attempts, self._requests, self._replies, self._memory):
            each.reset(session)
        self._chosen.pop(session, None)

    async def choose(self, session: str, scenario: str) -> bool:
        """Have this session's requests answered by that scenario, whatever they say.

        An empty id takes that back.  Gives whether there is such a scenario now.
        """
        if not scenario:
            self._chosen.pop(session, None)
            return True
        self._chosen[session] = scenario
        return scenario in (await self._scripts.current()).by_id

    def _delivery(self, call: Call) -> Delivery:
        """What ids and rolls of chance are made of: the same for the same request, in its order."""
        scenario = call.scenario or self._chosen.get(call.session, "")
        what = f"{call.key} {scenario}"  # which the key does not tell
        ordinal = self._requests.next(call.session, what)
        seed = "\0".join((str(self._simulation.seed), call.session, what, str(ordinal)))
        return Delivery(seed, self._simulation.created(), provider=call.provider)

    async def _called(self, it: Mock, cue: Cue) -> MockCalled:
        """The call of a mock, with what the operator's function says.  Raises `RespondFailed`."""
        number = self._replies.next(cue.session, it.name)
        respond = self._simulation.respond
        if respond is None or mock.answers_itself(it):
            return MockCalled(it, number)
        try:
            if inspect.iscoroutinefunction(respond):
                said = await respond(cue)
            else:  # it may take its time
                said = await self._simulation.aside(partial(respond, cue))
            if inspect.isawaitable(said):
                said = await said
            return MockCalled(it, number, _reply(said))
        except (Exception, SystemExit) as error:  # whatever the operator's own code raises
            raise RespondFailed(f"respond failed: {type(error).__name__}: {error}") from error

    def _beside(self, call: Call, script: Script, delivery: Delivery) -> Answer:
        """The answer to what clients ask beside turns."""
        request = call.plain
        answer = unquote(request.path.rpartition("/")[2])
        given = self._memory.find(call.session, answer) if request.method == "GET" else None
        is_its = given is not None and given.dialect == call.dialect.name
        if given is not None and is_its and given.turns[0].id == answer:
            again = replace(request, body=given.body)
            response = call.dialect.speak(again, given.turns, given.delivery)
        else:
            delivery = replace(delivery, models=script.models)
            if (to_probe := answer_to_probe(call)) is not None:
                return to_probe
            side = call.dialect.side_answer(request, delivery)
            response = side if side is not None else _unknown(call)
        return Answer(actions.at_once(response), f"{_SPEAKER}: beside turns", simulated=True)


def _reply(said: object) -> Reply:
    """What a function says as a reply.  Raises `UsageError` and `TypeError` for what is none."""
    if isinstance(said, str):
        return Reply(content=said)
    if not isinstance(said, Mapping):
        raise TypeError(f"it returns {said!r:.80}, neither a text nor a reply")
    return loading.one(Reply, "what it returns", orjson.dumps(said).decode(), is_json=True)


def _unknown(call: Call) -> NoReturn:
    """Refuse a request that nobody could answer without a provider."""
    known = dict.fromkeys(
        it.typical("MODEL", stream=True).path for it in dialects.speakers().values()
    )
    asked = f"{call.plain.method} {printable(call.stored.path, _SHOWN)}"
    if call.plain.method == "POST" and call.plain.path in known:
        raise NotSimulated(f"{asked} asks for no turn: its body is no JSON that says what", 400)
    raise NotSimulated(
        f"nothing is simulated for {asked}; turns are, at {', '.join(known)} and the like"
    )
