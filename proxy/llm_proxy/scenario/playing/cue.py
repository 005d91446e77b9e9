"""What a scripted answer is given on: a request for a turn, and whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.conversation import Conversation
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
