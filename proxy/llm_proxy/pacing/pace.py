"""The paces that can be configured.

`str` of a pace is its text in the syntax of `grammar`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llm_proxy.pacing.distributions import (
    ZERO_DURATION,
    DurationDistribution,
    format_duration,
    format_number,
    is_random,
)
from llm_proxy.pacing.profiles import LatencyModel, LatencyProfile

Chunks = Literal["recorded", "event", "token", "coalesced"] | int
"""The pieces in which a body is sent: the recorded reads, one per message, one per token, one for
the whole body, or this many bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PaceBase:
    """The settings that all paces have."""

    max_gap: float | None = None
    """The longest pause between two sends, in ms; None is unlimited."""
    chunks: Chunks | None = None
    """None selects the recorded reads at recorded times, else one piece per message."""

    def __str__(self) -> str:
        terms = list(self._term_texts())
        if self.max_gap is not None:
            terms.append(f"max-gap={format_duration(self.max_gap)}")
        if self.chunks is not None:
            terms.append(f"chunks={self.chunks}")
        return ",".join(terms)

    def _term_texts(self) -> Iterator[str]:
        raise NotImplementedError

    @property
    def is_random(self) -> bool:
        """Whether any time is drawn, so that it depends on the seed."""
        return False


@dataclass(frozen=True, slots=True)
class RecordedPace(_PaceBase):
    """The recorded times, divided by `speed`."""

    speed: float = 1.0

    def _term_texts(self) -> Iterator[str]:
        yield "recorded" if self.speed == 1 else f"{format_number(self.speed)}x"


@dataclass(frozen=True, slots=True)
class InstantPace(_PaceBase):
    """No waiting: everything is sent in one write."""

    def _term_texts(self) -> Iterator[str]:
        yield "instant"


@dataclass(frozen=True, slots=True)
class TokenRatePace(_PaceBase):
    """A fixed rate of tokens per second, after the time to the first token."""

    tokens_per_second: float
    ttft: DurationDistribution = ZERO_DURATION
    """Time to the first token."""
    prefill: DurationDistribution = ZERO_DURATION
    """Additional time to the first token, per token of the prompt."""

    def _term_texts(self) -> Iterator[str]:
        yield f"{format_number(self.tokens_per_second)}tps"
        distributions = {"ttft": self.ttft, "prefill": self.prefill}
        yield from (
            f"{name}={distribution}"
            for name, distribution in distributions.items()
            if distribution != ZERO_DURATION
        )

    @property
    def is_random(self) -> bool:
        """Whether any time is drawn, so that it depends on the seed."""
        return is_random(self.ttft) or is_random(self.prefill)


@dataclass(frozen=True, slots=True)
class ModelledPace(_PaceBase):
    """A latency model; a distribution that is None is the profile's, or 0 without a profile."""

    ttft: DurationDistribution | None = None
    """Time to the first token."""
    prefill: DurationDistribution | None = None
    """Additional time to the first token, per token of the prompt."""
    gap: DurationDistribution | None = None
    """Time between two pieces with output."""
    profile: LatencyProfile | None = None

    @property
    def resolved_latency(self) -> LatencyModel:
        """The latency model, with the defaults of the profile."""
        base = LatencyModel() if self.profile is None else self.profile.latency_model
        ttft = base.ttft if self.ttft is None else self.ttft
        prefill = base.prefill if self.prefill is None else self.prefill
        return LatencyModel(ttft, prefill, base.gap if self.gap is None else self.gap)

    def _term_texts(self) -> Iterator[str]:
        if self.profile is not None:
            yield f"profile:{self.profile.name}"
        distributions = {"ttft": self.ttft, "prefill": self.prefill, "gap": self.gap}
        yield from (
            f"{name}={distribution}"
            for name, distribution in distributions.items()
            if distribution is not None
        )

    @property
    def is_random(self) -> bool:
        """Whether any time is drawn, so that it depends on the seed."""
        latency_model = self.resolved_latency
        return any(map(is_random, (latency_model.ttft, latency_model.prefill, latency_model.gap)))


Pace = RecordedPace | InstantPace | TokenRatePace | ModelledPace
