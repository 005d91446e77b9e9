"""What the tests of paces are made of: a player of takes, and spans of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hypothesis import strategies as st

from llm_proxy.modes import TakePlayer
from llm_proxy.pacing import Pace
from llm_proxy.pacing.distributions import (
    Distribution,
    FixedSpan,
    LognormalSpan,
    NormalSpan,
    UniformSpan,
)
from llm_proxy.shell.running.pace_registry import PaceRegistry

T = TypeVar("T")


async def aside(function: Callable[[], T]) -> T:
    """At once."""
    return function()


def player(pace: Pace) -> TakePlayer:
    """Plays every take at this pace, with seed 0."""
    return TakePlayer(PaceRegistry(pace), aside)


MS: Final = st.integers(0, 86_400_000_000).map(lambda it: it / 1000)
SPANS: Final[st.SearchStrategy[Distribution]] = st.one_of(
    MS.map(FixedSpan),
    st.tuples(MS, MS).map(lambda it: UniformSpan(min(it), max(it))),
    st.builds(NormalSpan, MS, MS),
    st.builds(LognormalSpan, MS, st.integers(0, 5_000_000).map(lambda it: it / 1e6)),
)
