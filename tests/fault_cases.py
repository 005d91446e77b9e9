"""The rules whose effect on the official SDKs is measured: those of each fault that differ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.errors import UsageError
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import FaultRule

Mode = Literal["stream", "helper", "whole"]

MODES: Final[tuple[Mode, ...]] = ("stream", "helper", "whole")
"""A stream as it is, the same through the SDK's helper `.stream()`, and an answer in one piece."""

_PLACE: Final = re.compile(r",(after|at)=[^,]+")
_MIDDLE: Final = ",fraction=0.5"
"""The place in a body without messages."""
_SILENT: Final = frozenset((FaultEffect.UNANSWERED, FaultEffect.STALLED))

_STATUSES: Final = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)

VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "bad-tool-call": tuple(f"bad-tool-call,how={item}" for item in ("json", "missing", "name")),
    "bad-utf8": ("bad-utf8,after=5",),
    "close": ("close", "close,after=1"),
    "content-filter": ("content-filter,after=5",),
    "drop": ("drop,after=1", "drop,after=5"),
    "duplicate": ("duplicate,after=1", "duplicate,after=5"),
    "error-event": ("error-event,after=5",),
    "finish-length": ("finish-length,after=5",),
    "half-event": ("half-event,after=5",),
    "hang": ("hang",),
    "hang-body": ("hang-body",),
    "html": ("html", "html,code=200"),
    "malformed-json": ("malformed-json,after=5",),
    "quota": ("quota,requests=1,window=60s",),
    "rate-limit": ("rate-limit", "rate-limit,retry-after=50ms", "rate-limit,retry-after=121s"),
    "refuse": ("refuse,window=60s",),
    "reorder": ("reorder,after=0", "reorder,after=5"),
    "reset": ("reset", "reset,after=1"),
    "stall": ("stall,after=1", "stall,after=1,for=100ms"),
    "stall-keepalive": ("stall-keepalive,after=1,interval=100ms,for=1s",),
    "status": (
        *(f"status,code={status}" for status in _STATUSES),
        "status,code=400,should-retry=true",
        "status,code=503,should-retry=false",
    ),
    "truncate": ("truncate,after=5", "truncate,fraction=0.5"),
}
"""The rules of a fault that meets clients in several ways, or too early by its example."""

RULES: Final = tuple(
    text for name in sorted(KINDS) for text in VARIANTS.get(name) or (KINDS[name].example,)
)
"""All that are measured, on streams."""


@dataclass(frozen=True, slots=True)
class Case:
    """One rule, met in one mode."""

    mode: Mode
    text: str
    kind: FaultKind
    """Its fault."""
    id: str
    """What the sessions of its requests begin with."""

    @property
    def rule(self) -> FaultRule:
        """The rule, for these sessions alone."""
        return parse_rule(f"{self.text},session={self.id}.*")

    @property
    def streams(self) -> bool:
        """Whether a stream is asked for."""
        return self.mode != "whole"

    @property
    def is_silent(self) -> bool:
        """Whether it has clients wait for what does not come."""
        return self.kind.effect in _SILENT

    @property
    def is_loud(self) -> bool:
        """Whether all that comes of it comes soon."""
        return not self.is_silent and not self.is_deaf

    @property
    def is_deaf(self) -> bool:
        """Whether nobody listens to anybody by it."""
        return self.kind.scope == "listener"

    @property
    def needs_tool(self) -> bool:
        """Whether it spoils a tool call: one must be possible."""
        return self.kind.name == "bad-tool-call"

    @property
    def before(self) -> int:
        """How many requests are answered before it strikes."""
        return int(self.kind.name == "quota")


def _rules(mode: Mode) -> tuple[str, ...]:
    if mode != "whole":
        return RULES
    return tuple(dict.fromkeys(whole for rule in RULES if (whole := _for_a_whole_body(rule))))


def _for_a_whole_body(text: str) -> str:
    """The rule as it has a meaning in a body without messages; empty where it has none there."""
    if "whole" not in parse_rule(text).kind.allowed_bodies:
        return ""
    for place in (_MIDDLE, ""):
        try:
            return parse_rule(_PLACE.sub(place, text)).text
        except UsageError:
            continue
    return ""


CASES: Final = tuple(
    Case(mode, text, parse_rule(text).kind, f"{mode}{number}")
    for mode in MODES
    for number, text in enumerate(_rules(mode))
)
"""All that is measured of an SDK."""
