"""`stall-keepalive`: the response stops, but keep-alive events continue.

    head  event 1  ....  ping  ....  ping  ....  ping  ....  event 2  …
    ├─────┼────────┤      ├───────────┼───────────┤           ├────────┼──

Keep-alive events restart the client's read timeout, but not a timeout for the whole response.
Gemini, Bedrock and NDJSON have no keep-alive events. Without `for=`, the proxy closes the
connection after the time set by `--silence`.
"""

from __future__ import annotations

from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Send, Wait
from llm_proxy.errors import UsageError
from llm_proxy.faults.kind import (
    MESSAGE_LOCATIONS,
    FaultArgument,
    FaultEffect,
    FaultKind,
    FaultNotApplicable,
    InjectedActions,
    Mechanism,
    OneShot,
    StreamPosition,
)

_MIN_INTERVAL_MS: Final = 10.0
"""The shortest time between two keep-alive messages."""
_MAX_KEEP_ALIVES: Final = 100_000
"""The most keep-alive messages in one response."""


def _stall_keepalive(interval: float, for_: float | None = None) -> Mechanism:
    if interval < _MIN_INTERVAL_MS:
        raise UsageError(f"interval= must be at least {_MIN_INTERVAL_MS:g}ms")
    if (for_ or 0) / interval > _MAX_KEEP_ALIVES:
        raise UsageError(f"for= must be at most {_MAX_KEEP_ALIVES} times interval=")

    def send_keep_alives(position: StreamPosition) -> InjectedActions:
        position.require_head()
        context, dialect = position.context, position.context.decoded_request.dialect
        keep_alive = dialect.keep_alive_message(position.codec)
        if not keep_alive:
            raise FaultNotApplicable(
                f"{dialect.name} has no keep-alive event for this response format"
            )
        if position.sent_message_prefix:
            raise FaultNotApplicable("the fault's location is in the middle of an event")
        duration_ms = context.max_silence_ms if for_ is None else for_
        actions: list[Action] = []
        for number in range(1, min(int(duration_ms / interval), _MAX_KEEP_ALIVES) + 1):
            actions += [Wait(position.at_ms + number * interval), Send(keep_alive)]
        if for_ is not None:
            return InjectedActions(tuple(actions), delay_ms=for_)
        end = context.silence_until_close(position.at_ms)
        return InjectedActions((*actions, *end), ends_response=True)

    effect = None if for_ is None else FaultEffect.SLOWED
    return OneShot(send_keep_alives, changes_length=True, effect=effect)


KIND = FaultKind(
    "stall-keepalive",
    FaultEffect.STALLED,
    "keep-alive events without output",
    _stall_keepalive,
    {
        "interval": FaultArgument(
            unit_parsers.parse_duration_ms, "time between two keep-alive events", "15s"
        ),
        "for": FaultArgument(
            unit_parsers.parse_duration_ms,
            "duration of the pause",
        ),
    },
    allowed_locations=MESSAGE_LOCATIONS | {"ms"},
    allowed_codecs=frozenset({"sse"}),
    example="stall-keepalive,after=1,interval=50ms,for=200ms",
)
