"""Which pace holds for a request: its own, else its scenario's, else the one that is set."""

from __future__ import annotations

from llm_proxy.errors import RequestRefused, UsageError
from llm_proxy.pacing.grammar import parse_pace
from llm_proxy.pacing.pace import Pace
from llm_proxy.routing import PACE_HEADER, Call


def asked_pace(call: Call) -> Pace | None:
    """The pace that a request asks for in its header; None where it asks for none.

    Raises `RequestRefused` for what is no pace.
    """
    if not call.pace:
        return None
    try:
        return parse_pace(call.pace)
    except UsageError as error:
        raise RequestRefused(400, f"{PACE_HEADER}: {error}") from None
