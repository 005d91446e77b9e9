"""The match context: what scenarios see of a request."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json
from llm_proxy.routing import RoutedRequest
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class MatchContext:
    """What scenarios are chosen by, checked against, and filled in from."""

    conversation: Conversation
    """Including previous messages that the request only refers to by id."""
    body: Json
    """The parsed request body; None if it is not JSON."""
    model: str
    path: str
    provider: str
    dialect: str
    session: str
    seed: str
    """Seeds all randomness for this request."""
    requested_scenario_id: str = ""
    """Set by a header or by the session; empty if by neither."""


def match_context_of(
    routed: RoutedRequest, conversation: Conversation, seed: str, session_scenario_id: str = ""
) -> MatchContext:
    """The match context of a request; a header takes precedence over `session_scenario_id`."""
    try:
        body = lenient_json.parse_json(routed.decompressed_request.body)
    except ValueError:
        body = None
    return MatchContext(
        conversation,
        body,
        model=routed.dialect.model(routed.decompressed_request),
        path=routed.decompressed_request.path,
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        seed=seed,
        requested_scenario_id=_header_as_utf8(routed.requested_scenario) or session_scenario_id,
    )


def _header_as_utf8(header: str) -> str:
    """Decode a header as UTF-8 if it is valid; HTTP itself knows only Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header
