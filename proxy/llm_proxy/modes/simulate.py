"""`simulate`: every call is answered from scenarios, a mock or synthesis, and nothing else.

What a request is answered with is decided by the `scenario` package; this mode knows what came
before it: the answer that it continues, how often it failed, how many replies a mock has given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NoReturn
from urllib.parse import unquote

import orjson

from llm_proxy import dialects
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import reading
from llm_proxy.dialects.delivery import Delivery
from llm_proxy.dialects.openai.family import FAMILY
from llm_proxy.errors import NotSimulated, RespondFailed, printable
from llm_proxy.modes.base import Answer
from llm_proxy.pacing import Pace
from llm_proxy.ports import Scripts
from llm_proxy.routing import Call
from llm_proxy.scenario.directions import Direction, Say
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Mock, Reply
from llm_proxy.scenario.performing import outgoing
from llm_proxy.scenario.performing.asked import Asked
from llm_proxy.scenario.performing.failures import Limits
from llm_proxy.scenario.playing import choosing, directing, mock
from llm_proxy.scenario.playing.choosing import Unknown
from llm_proxy.scenario.playing.counting import Attempts
from llm_proxy.scenario.playing.cue import Cue
from llm_proxy.scenario.playing.given import Given, Memory
from llm_proxy.scenario.playing.mock import MockCalled
from llm_proxy.scenario.playing.script import Script
from llm_proxy.synthesis.answer import synthesise
from llm_proxy.synthesis.telling import telling
from llm_proxy.takes import Ordinals

Respond = Callable[[Cue], object]
"""The operator's function.  It gives a text, a partial answer as of document 004, or an awaitable
of one of them."""

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
    pace: Pace
    limits: Limits
    synthesises: bool = False
    """Whether synthesis answers what no scenario does, though there are some."""
    respond: Respond | None = None


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
        script = await self._scripts.current()
        delivery = self._delivery(call)
        conversation = call.dialect.conversation(call.plain)
        if conversation is None:
            return self._beside(call, script, delivery)
        conversation = self._memory.continued(call.session, conversation)
        chosen = self._chosen.get(call.session, "")
        cue = cue_of(call, conversation, delivery.seed, chosen)
        direction = await self._direct(script, cue, call, delivery)
        if direction.is_made_up and call.provider not in FAMILY:
            delivery = replace(delivery, provider=_SPEAKER)
        self._remember(call, conversation, direction, delivery)
        asked = Asked(call.dialect, call.plain, delivery)
        how = self._simulation
        adds = call.dialect.adds
        burst = outgoing.actions(direction.what, asked, adds, how.pace, how.limits)
        return Answer(burst, direction.source, direction, simulated=True)

    def reset(self, session: str) -> None:
        """Begin this session again: nothing failed, nothing said, no scenario chosen for it."""
        for each in (self._attempts, self._requests, self._replies, self._memory):
            each.reset(session)
        self._chosen.pop(session, None)

    def choose(self, session: str, scenario: str) -> None:
        """Have this session's requests answered by that scenario, whatever they say."""
        self._chosen[session] = scenario

    def _delivery(self, call: Call) -> Delivery:
        """What ids and rolls of chance are made of: the same for the same request, in its order."""
        ordinal = self._requests.next(call.session, call.key)
        seed = "\0".join((str(self._simulation.seed), call.session, call.key, str(ordinal)))
        return Delivery(seed, self._simulation.created(), provider=call.provider)

    async def _direct(self, script: Script, cue: Cue, call: Call, delivery: Delivery) -> Direction:
        """What to answer: by a scenario, else by the mock, else made up, else that it failed."""
        chosen = choosing.choose(script, cue)
        if not isinstance(chosen, Unknown):
            return directing.direct(chosen, cue, self._attempts)
        if script.mock is not None or self._simulation.respond is not None:
            return await self._mocked(script.mock or Mock(), cue)
        if script.scenarios and not self._simulation.synthesises:
            return directing.error_turn(chosen.why, cue)
        how = telling(call.dialect, call.plain, delivery)
        made = synthesise(cue.conversation, delivery, how, cue.model)
        return Direction(
            made.say, f"synthesis: {made.mode}", warnings=made.warnings, is_made_up=True
        )

    async def _mocked(self, it: Mock, cue: Cue) -> Direction:
        number = self._replies.next(cue.session, it.name)
        responded = None if mock.answers_itself(it) else await self._responded(cue)
        return mock.direct(MockCalled(it, number, responded), cue)

    async def _responded(self, cue: Cue) -> Reply | None:
        """What the operator's function says.  Raises `RespondFailed`."""
        respond = self._simulation.respond
        if respond is None:
            return None
        try:
            said = respond(cue)
            if inspect.isawaitable(said):
                said = await said
            if isinstance(said, str):
                return Reply(content=said)
            if not isinstance(said, Mapping):
                raise TypeError(f"it returns {said!r:.80}, neither a text nor a reply")  # noqa: TRY301 # as the function's own mistakes
            return loading.one(Reply, "what it returns", orjson.dumps(said).decode())
        except Exception as error:  # whatever the operator's own code raises
            raise RespondFailed(f"respond failed: {type(error).__name__}: {error}") from error

    def _remember(
        self, call: Call, conversation: Conversation, direction: Direction, delivery: Delivery
    ) -> None:
        """Keep an answer that another request may continue."""
        if not isinstance(direction.what, Say):
            return
        delivery = outgoing.delivered(direction.what, delivery)
        turns = call.dialect.fit(call.plain, direction.what.turns, delivery).turns
        given = Given(conversation, turns, delivery, call.plain.body)
        self._memory.keep(call.session, given)

    def _beside(self, call: Call, script: Script, delivery: Delivery) -> Answer:
        """The answer to what clients ask beside turns."""
        request = call.plain
        answer = unquote(request.path.rpartition("/")[2])
        given = self._memory.find(call.session, answer) if request.method == "GET" else None
        if given is not None and given.turns[0].id == answer:
            again = replace(request, body=given.body)
            response = call.dialect.speak(again, given.turns, given.delivery)
        else:
            delivery = replace(delivery, models=script.models)
            side = call.dialect.side_answer(request, delivery)
            response = side if side is not None else _unknown(call)
        return Answer(outgoing.at_once(response), f"{_SPEAKER}: beside turns", simulated=True)


def cue_of(call: Call, conversation: Conversation, seed: str, chosen: str = "") -> Cue:
    """What scenarios are given on; `chosen` is the scenario of the session."""
    try:
        body = reading.parse(call.plain.body)
    except ValueError:
        body = None
    return Cue(
        conversation,
        body,
        model=call.dialect.model(call.plain),
        path=call.plain.path,
        provider=call.provider,
        dialect=call.dialect.name,
        session=call.session,
        seed=seed,
        scenario=_decoded(call.scenario) or chosen,
    )


def _decoded(header: str) -> str:
    """What a header says in UTF-8, where it does: HTTP itself knows only Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


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
