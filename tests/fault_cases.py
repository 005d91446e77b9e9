"""The rules whose effect on the official SDKs is measured: for each fault, those that differ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from llm_proxy.errors import UsageError
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule

Mode = Literal["stream", "helper", "whole"]

MODES: Final[tuple[Mode, ...]] = ("stream", "helper", "whole")
"""A plain stream, a stream through the SDK's helper `.stream()`, and a response in one piece."""

_LOCATION_ARGUMENT: Final = re.compile(r",(after|at)=[^,]+")
_MIDDLE_LOCATION: Final = ",fraction=0.5"
"""The location of a fault in a body without messages."""
_SILENT_EFFECTS: Final = frozenset((FaultEffect.UNANSWERED, FaultEffect.STALLED))

_STATUSES: Final = (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)

VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "bad-tool-call": tuple(f"bad-tool-call,how={how}" for how in ("json", "missing", "name")),
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
"""The rules of faults with several effects on clients, or whose example acts too early."""

RULES: Final = tuple(
    text
    for name in sorted(FAULT_KINDS)
    for text in VARIANTS.get(name) or (FAULT_KINDS[name].example,)
)
"""All rules that are measured on streams."""


@dataclass(frozen=True, slots=True)
class Case:
    """One rule in one mode."""

    mode: Mode
    rule_text: str
    kind: FaultKind
    """The kind of the rule's fault."""
    session_prefix: str
    """The prefix of the sessions of its requests."""

    @property
    def rule(self) -> FaultRule:
        """The rule, limited to these sessions."""
        return parse_rule(f"{self.rule_text},session={self.session_prefix}.*")

    @property
    def is_stream(self) -> bool:
        """Whether a stream is requested."""
        return self.mode != "whole"

    @property
    def is_silent(self) -> bool:
        """Whether clients wait for bytes that do not come."""
        return self.kind.effect in _SILENT_EFFECTS

    @property
    def is_prompt(self) -> bool:
        """Whether its effect comes without a wait."""
        return not self.is_silent and not self.closes_listener

    @property
    def closes_listener(self) -> bool:
        """Whether the proxy stops listening, for all clients."""
        return self.kind.scope == "listener"

    @property
    def needs_tool(self) -> bool:
        """Whether it breaks a tool call, so that a tool must be offered."""
        return self.kind.name == "bad-tool-call"

    @property
    def requests_before(self) -> int:
        """The number of requests that are answered before the fault applies."""
        return int(self.kind.name == "quota")


def _rules_for_mode(mode: Mode) -> tuple[str, ...]:
    if mode != "whole":
        return RULES
    return tuple(
        dict.fromkeys(
            whole_body_rule for rule in RULES if (whole_body_rule := _rule_for_whole_body(rule))
        )
    )


def _rule_for_whole_body(text: str) -> str:
    """The rule with a location valid in a body without messages; empty where it has no meaning."""
    if "whole" not in parse_rule(text).kind.allowed_codecs:
        return ""
    for location in (_MIDDLE_LOCATION, ""):
        try:
            return parse_rule(_LOCATION_ARGUMENT.sub(location, text)).text
        except UsageError:
            continue
    return ""


CASES: Final = tuple(
    Case(mode, text, parse_rule(text).kind, f"{mode}{number}")
    for mode in MODES
    for number, text in enumerate(_rules_for_mode(mode))
)
"""All cases that are measured for an SDK."""
