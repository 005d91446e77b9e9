"""Parses the pace that a request sets in its header."""

from __future__ import annotations

from llm_proxy.errors import RequestRefused, UsageError
from llm_proxy.pacing.grammar import parse_pace
from llm_proxy.pacing.pace import Pace
from llm_proxy.routing import PACE_HEADER, RoutedRequest


def requested_pace(routed: RoutedRequest) -> Pace | None:
    """The pace in the request's header; None without one.

    Raises `RequestRefused` (status 400) for an invalid pace.
    """
    if not routed.requested_pace:
        return None
    try:
        return parse_pace(routed.requested_pace)
    except UsageError as error:
        raise RequestRefused(400, f"{PACE_HEADER}: {error}") from None
