"""The paces that can be configured, their syntax, and the measured latency profiles of models.

`str` of a pace is its text in the syntax that `parse_pace` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.pacing.distributions import (
    NUMBER_PATTERN,
    ZERO_DURATION,
    DurationDistribution,
    FixedDistribution,
    MeasuredDistribution,
    format_duration,
    format_number,
    is_random,
    parse_distribution,
    parse_time_ms,
)

Chunks = Literal["recorded", "event", "token", "coalesced"] | int
"""The pieces in which a body is sent: the recorded reads, one per message, one per token, one for
the whole body, or this many bytes each."""

_MAX_SESSION_PACES: Final = 10_000
"""Maximum number of sessions with their own pace; the latest are kept."""
_MAX_SHOWN_CHARS: Final = 100
"""The most characters of a pace that an error message contains."""
_MAX_PACE_CHARS: Final = 1000
_MAX_PIECE_BYTES: Final = 2**31
_TIMING_TERM_EXAMPLES: Final = (
    "recorded, instant, a speed such as 4x or 0.5x, a rate such as 50tps, profile:NAME"
)
_OTHER_TERM_EXAMPLES: Final = "ttft=300ms, prefill=0.5ms, gap=30..80ms, max-gap=2s, chunks=event"
_LATENCY_TERM_NAMES: Final = ("ttft", "prefill", "gap")
_TERM_NAMES: Final = (*_LATENCY_TERM_NAMES, "max-gap", "chunks")
_SPEED_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})x")
_RATE_PATTERN: Final = re.compile(rf"({NUMBER_PATTERN})tps")
_REMOVABLE_SPACE_PATTERN: Final = re.compile(
    r"\s+(?=\.\.)|(?<=\.\.)\s+|\s+(?![0-9.])|(?<![0-9.])\s+"
)
"""All white space except between two numbers."""
_COMMA_PATTERN: Final = re.compile(r",(?![^()]*\))")
"""A comma outside of parentheses."""
_CHUNK_MODES: Final = get_args(get_args(Chunks)[0])
"""The values of `chunks` other than a number."""


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """The measured latency of a model; without values, no latency at all."""

    name: str = ""
    source: str = ""
    """What was measured, for lists of profiles."""
    ttft: DurationDistribution = ZERO_DURATION
    """Time to the first token."""
    prefill: DurationDistribution = ZERO_DURATION
    """Additional time to the first token, per token of the prompt."""
    gap: DurationDistribution = ZERO_DURATION
    """Time between two pieces with output."""


_PROFILES: Final = (
    LatencyProfile(
        "gpt-4o",
        "OpenAI Responses API, 1 response",
        ttft=FixedDistribution(464.0),
        gap=MeasuredDistribution((0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 2.0, 2.9, 11.8, 28.4, 85.0)),
    ),
    LatencyProfile(
        "claude-sonnet-4-6",
        "Anthropic Messages API, 2 responses",
        ttft=MeasuredDistribution((70.0, 680.0)),
        gap=MeasuredDistribution(
            (41.0, 41.6, 42.2, 42.8, 43.0, 43.0, 46.0, 48.2, 48.8, 56.6, 68.0)
        ),
    ),
    LatencyProfile(
        "gemma3:1b",
        "Ollama on a fast machine, 9 responses",
        ttft=MeasuredDistribution((42.5, 56.6, 67.8, 80.2, 83.5)),
        gap=MeasuredDistribution((3.8, 4.9, 5.0, 5.0, 5.1, 5.1, 5.1, 5.2, 5.2, 5.3, 13.2)),
    ),
    LatencyProfile(
        "llama3",
        "Ollama, 4 responses",
        ttft=MeasuredDistribution((34.8, 315.2)),
        gap=MeasuredDistribution(
            (31.4, 31.7, 31.8, 31.9, 32.0, 32.0, 32.2, 32.4, 32.6, 33.3, 37.7)
        ),
    ),
)

PROFILES: Final[Mapping[str, LatencyProfile]] = {
    latency_profile.name: latency_profile for latency_profile in _PROFILES
}
"""The measured profiles by name.

Gaps are measured between two reads (OpenAI, Anthropic: streams recorded by Mastra's tests, with the
time of each socket read), or between the timestamps in the lines themselves (Ollama: streams
recorded by the tests of LangChain for Go and of OpenLLMetry).  The time to the first token is that
from the first read to the first output, since earlier times were not recorded; for Ollama it is the
value in the last line, of responses whose model was already loaded.

All requests were short, so none of these profiles has a time per token of the prompt.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PaceBase:
    """The settings that all paces have."""

    max_gap: float | None = None
    """The longest pause between two sends, in ms; None is unlimited."""
    chunks: Chunks | None = None
    """None selects the recorded reads at recorded times, else one piece per message."""

    def __str__(self) -> str:
        terms = [
            self._timing_text(),
            *(f"{name}={distribution}" for name, distribution in self._own_latency().items()),
        ]
        if self.max_gap is not None:
            terms.append(f"max-gap={format_duration(self.max_gap)}")
        if self.chunks is not None:
            terms.append(f"chunks={self.chunks}")
        return ",".join(filter(None, terms))

    def _timing_text(self) -> str:
        """The term for the timing; empty without one."""
        raise NotImplementedError

    def _own_latency(self) -> dict[str, DurationDistribution]:
        """The distributions that the pace sets itself, by the names of their terms."""
        return {}

    @property
    def is_random(self) -> bool:
        """Whether any time is drawn, so that it depends on the seed."""
        return any(map(is_random, self._own_latency().values()))


@dataclass(frozen=True, slots=True)
class RecordedPace(_PaceBase):
    """The recorded times, divided by `speed`."""

    speed: float = 1.0

    def _timing_text(self) -> str:
        return "recorded" if self.speed == 1 else f"{format_number(self.speed)}x"


@dataclass(frozen=True, slots=True)
class InstantPace(_PaceBase):
    """No waiting: everything is sent in one write."""

    def _timing_text(self) -> str:
        return "instant"


@dataclass(frozen=True, slots=True)
class TokenRatePace(_PaceBase):
    """A fixed rate of tokens per second, after the time to the first token."""

    tokens_per_second: float
    ttft: DurationDistribution = ZERO_DURATION
    """Time to the first token."""
    prefill: DurationDistribution = ZERO_DURATION
    """Additional time to the first token, per token of the prompt."""

    def _timing_text(self) -> str:
        return f"{format_number(self.tokens_per_second)}tps"

    def _own_latency(self) -> dict[str, DurationDistribution]:
        latency = {"ttft": self.ttft, "prefill": self.prefill}
        return {name: value for name, value in latency.items() if value != ZERO_DURATION}


@dataclass(frozen=True, slots=True)
class ModelledPace(_PaceBase):
    """A latency model; a distribution that is None is the profile's, or 0 without a profile."""

    ttft: DurationDistribution | None = None
    """Time to the first token."""
    prefill: DurationDistribution | None = None
    """Additional time to the first token, per token of the prompt."""
    gap: DurationDistribution | None = None
    """Time between two pieces with output."""
    profile: LatencyProfile = LatencyProfile()

    @property
    def resolved_latency(self) -> LatencyProfile:
        """The latency, with the defaults of the profile."""
        latency: dict[str, Any] = self._own_latency()
        return replace(self.profile, **latency)

    def _timing_text(self) -> str:
        return f"profile:{self.profile.name}" if self.profile.name else ""

    def _own_latency(self) -> dict[str, DurationDistribution]:
        latency = {"ttft": self.ttft, "prefill": self.prefill, "gap": self.gap}
        return {name: value for name, value in latency.items() if value is not None}

    @property
    def is_random(self) -> bool:
        """Whether any time is drawn, so that it depends on the seed."""
        latency = self.resolved_latency
        return any(map(is_random, (latency.ttft, latency.prefill, latency.gap)))


Pace = RecordedPace | InstantPace | TokenRatePace | ModelledPace


class PaceRegistry:
    """The current pace of each session.

    A pace that is set for one session takes precedence over the one that is set for all.
    """

    def __init__(self, startup_pace: Pace, seed: int = 0) -> None:
        self.startup_pace = startup_pace
        self.seed = seed
        self.session_paces: dict[str, Pace] = {}
        """Paces that are set for one session, by session."""
        self._override: Pace | None = None

    @property
    def default_pace(self) -> Pace:
        """The pace of sessions without their own."""
        return self._override or self.startup_pace

    def pace_of(self, session: str) -> Pace:
        """The pace of a session."""
        return self.session_paces.get(session) or self.default_pace

    def set_pace(self, pace: Pace | None, session: str = "") -> None:
        """Set the pace of a session, or of all if none is named; None removes it."""
        if not session:
            self._override = pace
        elif pace is not None:
            self.session_paces.pop(session, None)
            self.session_paces[session] = pace
            if len(self.session_paces) > _MAX_SESSION_PACES:  # the one that was set first
                del self.session_paces[next(iter(self.session_paces))]
        else:
            self.session_paces.pop(session, None)


def parse_pace(text: str) -> Pace:
    """Parses a pace.  Raises `UsageError` for invalid terms, and for terms that exclude others.

    Its terms are separated by commas:

    recorded | instant | 4x | 50tps | profile:NAME          the timing, at most one of them
    ttft=DURATION   prefill=DURATION   gap=DURATION          a latency model
    max-gap=2s                                               the longest pause
    chunks=recorded | event | token | coalesced | N          the pieces; N bytes each

    DURATION: 300ms | 30..80ms | uniform(30ms,80ms) | normal(50ms,10ms) | lognormal(40ms,0.5)
    """
    try:
        return _parse_terms(text)
    except ValueError as invalid:
        shown_text = printable_excerpt(text, _MAX_SHOWN_CHARS)
        raise UsageError(f"{shown_text!r} is not a valid pace: {invalid}") from None


def _parse_terms(text: str) -> Pace:
    """Raises `ValueError` with the problem, as all functions that it calls do."""
    if len(text) > _MAX_PACE_CHARS:
        raise ValueError(f"longer than {_MAX_PACE_CHARS} characters")
    terms = _COMMA_PATTERN.split(_REMOVABLE_SPACE_PATTERN.sub("", text.lower()))
    if len(terms) > 1 and "" in terms:
        raise ValueError("empty term; remove the extra comma")
    timing: Pace | None = None
    timing_text = ""
    settings: dict[str, Any] = {}
    """The values of all other terms, by field of a pace."""
    for term in terms:
        name, equals, value = term.partition("=")
        if not equals:
            if timing is not None:
                raise ValueError(f"{timing_text} and {term} cannot be combined; remove one of them")
            timing, timing_text = _parse_timing_term(term, is_only_term="," not in text), term
            continue
        if name not in _TERM_NAMES:
            raise ValueError(
                f"unknown term {_displayable_excerpt(name)}; {name_hint(name, _TERM_NAMES)}"
            )
        field_name = name.replace("-", "_")
        if field_name in settings:
            raise ValueError(f"{name} is set twice; remove one of them")
        try:
            settings[field_name] = _parse_value(name, value)
        except ValueError as invalid:
            raise ValueError(f"{name}={_displayable_excerpt(value)}: {invalid}") from None
    latency_names = ", ".join(name for name in settings if name in _LATENCY_TERM_NAMES)
    match timing:
        case InstantPace() if latency_names or "max_gap" in settings:
            raise ValueError(
                "instant has no delays and cannot be combined with "
                f"{latency_names or 'max-gap'}; remove one of them"
            )
        case RecordedPace() if latency_names:
            raise ValueError(
                f"{timing_text} replays the recorded delays and cannot be combined with "
                f"{latency_names}; remove one of them"
            )
        case TokenRatePace() if "gap" in settings:
            raise ValueError(f"{timing_text} and gap both set the token rate; remove one")
        case None:
            timing = ModelledPace() if latency_names else RecordedPace()
        case _:
            pass
    return replace(timing, **settings)


def _parse_timing_term(term: str, *, is_only_term: bool) -> Pace:
    if term in {"recorded", "instant"}:
        return RecordedPace() if term == "recorded" else InstantPace()
    if speed := _SPEED_PATTERN.fullmatch(term):
        return RecordedPace(_parse_positive(speed[1], term, "the speed"))
    if rate := _RATE_PATTERN.fullmatch(term):
        return TokenRatePace(_parse_positive(rate[1], term, "the rate"))
    prefix, colon, name = term.partition(":")
    if colon and prefix == "profile":
        if name not in PROFILES:
            raise ValueError(
                f"unknown profile {_displayable_excerpt(name)}; known: {', '.join(PROFILES)}"
            )
        return ModelledPace(profile=PROFILES[name])
    reason = "" if is_only_term else f"{_displayable_excerpt(term)} is not a valid term; "
    raise ValueError(f"{reason}use {_TIMING_TERM_EXAMPLES}, or {_OTHER_TERM_EXAMPLES}")


def _parse_positive(digits: str, term: str, kind: str) -> float:
    value = round(float(digits), 6)
    if value == 0:
        raise ValueError(f"{term}: {kind} must be above 0")
    return value


def _parse_value(name: str, value: str) -> Any:
    match name:
        case "chunks":
            if value in _CHUNK_MODES:
                return value
            if re.fullmatch("[0-9]{1,10}", value) and 0 < int(value) <= _MAX_PIECE_BYTES:
                return int(value)
            raise ValueError(f"use {', '.join(_CHUNK_MODES)} or a number of bytes above 0")
        case "max-gap":
            max_gap_ms = parse_time_ms(value)
            if max_gap_ms == 0:
                raise ValueError("must be above 0, such as 2s; to send without delays, use instant")
            return max_gap_ms
        case _:
            return parse_distribution(value)


def _displayable_excerpt(text: str) -> str:
    return printable_excerpt(text, _MAX_SHOWN_CHARS) or "''"
