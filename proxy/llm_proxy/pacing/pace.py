"""The paces that can be configured.

`str` of a pace spells it as `grammar` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llm_proxy.pacing.distributions import NONE, Distribution, format_number, format_span, is_random
from llm_proxy.pacing.profiles import LatencyModel, LatencyProfile

Chunks = Literal["recorded", "event", "token", "coalesced"] | int
"""The pieces of a body: as they were recorded, one a message, one a token, all in one, or so many
bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PaceBase:
    """What every pace may say."""

    max_gap: float | None = None
    """ms: the longest silence; None where none is too long."""
    chunks: Chunks | None = None
    """None is what fits the times: recorded pieces at recorded times, else one a message."""

    def __str__(self) -> str:
        terms = list(self._term_texts())
        if self.max_gap is not None:
            terms.append(f"max-gap={format_span(self.max_gap)}")
        if self.chunks is not None:
            terms.append(f"chunks={self.chunks}")
        return ",".join(terms)

    def _term_texts(self) -> Iterator[str]:
        raise NotImplementedError

    @property
    def is_random(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        return False


@dataclass(frozen=True, slots=True)
class RecordedPace(_PaceBase):
    """The recorded times, divided by `speed`."""

    speed: float = 1.0

    def _term_texts(self) -> Iterator[str]:
        yield "recorded" if self.speed == 1 else f"{format_number(self.speed)}x"


@dataclass(frozen=True, slots=True)
class InstantPace(_PaceBase):
    """No waiting at all: everything in one write."""

    def _term_texts(self) -> Iterator[str]:
        yield "instant"


@dataclass(frozen=True, slots=True)
class TokenRatePace(_PaceBase):
    """So many tokens a second, the first one as soon as the model has begun."""

    tokens_per_second: float
    ttft: Distribution = NONE
    """Time to the first token."""
    prefill: Distribution = NONE
    """More of it for each token of the request."""

    def _term_texts(self) -> Iterator[str]:
        yield f"{format_number(self.tokens_per_second)}tps"
        spans = {"ttft": self.ttft, "prefill": self.prefill}
        yield from (
            f"{name}={distribution}" for name, distribution in spans.items() if distribution != NONE
        )

    @property
    def is_random(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        return is_random(self.ttft) or is_random(self.prefill)


@dataclass(frozen=True, slots=True)
class ModelledPace(_PaceBase):
    """The times of a model of latency; what is None is the profile's, else no time at all."""

    ttft: Distribution | None = None
    """Time to the first token."""
    prefill: Distribution | None = None
    """More of it for each token of the request."""
    gap: Distribution | None = None
    """Between one piece of what is said and the next."""
    profile: LatencyProfile | None = None

    @property
    def resolved_latency(self) -> LatencyModel:
        """All of its times."""
        base = LatencyModel() if self.profile is None else self.profile.latency
        ttft = base.ttft if self.ttft is None else self.ttft
        prefill = base.prefill if self.prefill is None else self.prefill
        return LatencyModel(ttft, prefill, base.gap if self.gap is None else self.gap)

    def _term_texts(self) -> Iterator[str]:
        if self.profile is not None:
            yield f"profile:{self.profile.name}"
        spans = {"ttft": self.ttft, "prefill": self.prefill, "gap": self.gap}
        yield from (
            f"{name}={distribution}"
            for name, distribution in spans.items()
            if distribution is not None
        )

    @property
    def is_random(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        latency_model = self.resolved_latency
        return any(map(is_random, (latency_model.ttft, latency_model.prefill, latency_model.gap)))


Pace = RecordedPace | InstantPace | TokenRatePace | ModelledPace
