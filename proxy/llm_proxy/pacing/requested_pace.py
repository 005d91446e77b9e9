"""Selects the pace of a request: its own, else its scenario's, else the configured one."""

from __future__ import annotations

from llm_proxy.errors import RequestRefused, UsageError
from llm_proxy.pacing.grammar import parse_pace
from llm_proxy.pacing.pace import Pace
from llm_proxy.routing import PACE_HEADER, RoutedRequest


def requested_pace(routed: RoutedRequest) -> Pace | None:
    """The pace that a request asks for in its header; None where it asks for none.

    Raises `RequestRefused` for what is no pace.
    """
    if not routed.requested_pace:
        return None
    try:
        return parse_pace(routed.requested_pace)
    except UsageError as error:
        raise RequestRefused(400, f"{PACE_HEADER}: {error}") from None
