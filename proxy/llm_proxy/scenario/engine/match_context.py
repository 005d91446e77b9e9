"""What a scripted answer is given on: a request for a turn, and whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json
from llm_proxy.routing import Call
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class Cue:
    """Scenarios are chosen, checked and filled in by it."""

    conversation: Conversation
    """With what came before, where the request only names it."""
    body: Json
    """The request's JSON; None where it has none."""
    model: str
    path: str
    provider: str
    dialect: str
    session: str
    seed: str
    """What every roll of chance for this request is made of."""
    scenario: str = ""
    """The id that a header or the session names; empty where neither does."""


def cue_of(call: Call, conversation: Conversation, seed: str, chosen: str = "") -> Cue:
    """What scenarios are given on; `chosen` is the scenario of the session."""
    try:
        body = lenient_json.parse(call.plain.body)
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
