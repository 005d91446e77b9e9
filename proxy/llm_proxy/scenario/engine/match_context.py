"""The match context: a request for a turn and its origin."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json
from llm_proxy.routing import RoutedRequest
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class MatchContext:
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


def match_context_of(
    routed: RoutedRequest, conversation: Conversation, seed: str, chosen: str = ""
) -> MatchContext:
    """What scenarios are given on; `chosen` is the scenario of the session."""
    try:
        body = lenient_json.parse_json(routed.decompressed.body)
    except ValueError:
        body = None
    return MatchContext(
        conversation,
        body,
        model=routed.dialect.model(routed.decompressed),
        path=routed.decompressed.path,
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        seed=seed,
        scenario=_decode_header(routed.scenario) or chosen,
    )


def _decode_header(header: str) -> str:
    """What a header says in UTF-8, where it does: HTTP itself knows only Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header
