"""Helpers of the pacing tests: a take player, and a strategy for duration distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hypothesis import strategies as st

from llm_proxy.modes import TakePlayer
from llm_proxy.pacing import Pace, PaceRegistry
from llm_proxy.pacing.distributions import (
    DurationDistribution,
    FixedDistribution,
    LognormalDistribution,
    NormalDistribution,
    UniformDistribution,
)

T = TypeVar("T")


async def run_inline(function: Callable[[], T]) -> T:
    """Run the function in the event loop instead of in a thread."""
    return function()


def make_player(pace: Pace) -> TakePlayer:
    """Return a player that plays every take at this pace, with seed 0."""
    return TakePlayer(PaceRegistry(pace), run_inline)


DURATIONS_MS: Final = st.integers(0, 86_400_000_000).map(lambda microseconds: microseconds / 1000)
DISTRIBUTIONS: Final[st.SearchStrategy[DurationDistribution]] = st.one_of(
    DURATIONS_MS.map(FixedDistribution),
    st.tuples(DURATIONS_MS, DURATIONS_MS).map(
        lambda bounds: UniformDistribution(min(bounds), max(bounds))
    ),
    st.builds(NormalDistribution, DURATIONS_MS, DURATIONS_MS),
    st.builds(
        LognormalDistribution,
        DURATIONS_MS,
        st.integers(0, 5_000_000).map(lambda millionths: millionths / 1e6),
    ),
)
