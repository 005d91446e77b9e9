"""What can be asked for: when bytes go out, and in which pieces.

`str` of a pace spells it as `grammar` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llm_proxy.pacing.distributions import NONE, Distribution, is_chance, number, span
from llm_proxy.pacing.profiles import Latency, Profile

Chunks = Literal["recorded", "event", "token", "coalesced"] | int
"""The pieces of a body: as they were recorded, one a message, one a token, all in one, or so many
bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Any:
    """What every pace may say."""

    max_gap: float | None = None
    """ms: the longest silence; None where none is too long."""
    chunks: Chunks | None = None
    """None is what fits the times: recorded pieces at recorded times, else one a message."""

    def __str__(self) -> str:
        terms = list(self._terms())
        if self.max_gap is not None:
            terms.append(f"max-gap={span(self.max_gap)}")
        if self.chunks is not None:
            terms.append(f"chunks={self.chunks}")
        return ",".join(terms)

    def _terms(self) -> Iterator[str]:
        raise NotImplementedError

    @property
    def is_chance(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        return False


@dataclass(frozen=True, slots=True)
class Recorded(_Any):
    """The recorded times, divided by `speed`."""

    speed: float = 1.0

    def _terms(self) -> Iterator[str]:
        yield "recorded" if self.speed == 1 else f"{number(self.speed)}x"


@dataclass(frozen=True, slots=True)
class Instant(_Any):
    """No waiting at all: everything in one write."""

    def _terms(self) -> Iterator[str]:
        yield "instant"


@dataclass(frozen=True, slots=True)
class Rate(_Any):
    """So many tokens a second, the first one as soon as the model has begun."""

    tps: float
    ttft: Distribution = NONE
    """Time to the first token."""
    prefill: Distribution = NONE
    """More of it for each token of the request."""

    def _terms(self) -> Iterator[str]:
        yield f"{number(self.tps)}tps"
        spans = {"ttft": self.ttft, "prefill": self.prefill}
        yield from (f"{name}={it}" for name, it in spans.items() if it != NONE)

    @property
    def is_chance(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        return is_chance(self.ttft) or is_chance(self.prefill)


@dataclass(frozen=True, slots=True)
class Modelled(_Any):
    """The times of a model of latency; what is None is the profile's, else no time at all."""

    ttft: Distribution | None = None
    """Time to the first token."""
    prefill: Distribution | None = None
    """More of it for each token of the request."""
    gap: Distribution | None = None
    """Between one piece of what is said and the next."""
    profile: Profile | None = None

    @property
    def latency(self) -> Latency:
        """All of its times."""
        base = Latency() if self.profile is None else self.profile.latency
        ttft = base.ttft if self.ttft is None else self.ttft
        prefill = base.prefill if self.prefill is None else self.prefill
        return Latency(ttft, prefill, base.gap if self.gap is None else self.gap)

    def _terms(self) -> Iterator[str]:
        if self.profile is not None:
            yield f"profile:{self.profile.name}"
        spans = {"ttft": self.ttft, "prefill": self.prefill, "gap": self.gap}
        yield from (f"{name}={it}" for name, it in spans.items() if it is not None)

    @property
    def is_chance(self) -> bool:
        """Whether times are drawn, so that the seed counts."""
        it = self.latency
        return any(map(is_chance, (it.ttft, it.prefill, it.gap)))


Pace = Recorded | Instant | Rate | Modelled
