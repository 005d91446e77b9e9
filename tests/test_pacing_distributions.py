"""Random times: they are reproducible and follow their distributions."""

from __future__ import annotations

from statistics import NormalDist, mean, median, stdev
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy.pacing.distributions import (
    MAX_DURATION_MS,
    DurationDistribution,
    FixedDistribution,
    LognormalDistribution,
    MeasuredDistribution,
    NormalDistribution,
    UniformDistribution,
    draw_ms,
)
from llm_proxy.pacing.pace import PROFILES
from llm_proxy.pacing.timing import make_seeded_draw
from pacing_helpers import DISTRIBUTIONS

ROLLS: Final = [make_seeded_draw(0, "default", "key", 1)("gap", number) for number in range(2000)]


def draws(distribution: DurationDistribution) -> list[float]:
    return [draw_ms(distribution, roll) for roll in ROLLS]


def test_a_fixed_time_is_always_the_same() -> None:
    assert {*draws(FixedDistribution(30.0))} == {30.0}


def test_a_uniform_time_lies_anywhere_between_its_ends() -> None:
    times = draws(UniformDistribution(30.0, 80.0))

    assert (min(times) >= 30.0, max(times) <= 80.0) == (True, True)
    assert mean(times) == pytest.approx(55.0, rel=0.02)
    assert stdev(times) == pytest.approx(50.0 / 12**0.5, rel=0.03)


def test_a_normal_time_has_its_mean_and_its_deviation() -> None:
    times = draws(NormalDistribution(50.0, 10.0))

    assert mean(times) == pytest.approx(50.0, rel=0.02)
    assert stdev(times) == pytest.approx(10.0, rel=0.05)
    assert draw_ms(NormalDistribution(50.0, 10.0), 0.975) == NormalDist(50.0, 10.0).inv_cdf(0.975)


def test_a_lognormal_time_has_its_median_and_its_spread() -> None:
    times = draws(LognormalDistribution(40.0, 0.5))

    assert median(times) == pytest.approx(40.0, rel=0.05)
    assert mean(times) == pytest.approx(40.0 * 2.718281828**0.125, rel=0.05)


def test_a_measured_time_is_interpolated_linearly_between_quantiles() -> None:
    span = MeasuredDistribution((10.0, 20.0, 60.0))

    assert [draw_ms(span, share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == [10, 15, 20, 40, 60]


@each_row("name", PROFILES)
def test_the_draws_of_a_profile_follow_its_quantiles(name: str) -> None:
    gap = PROFILES[name].gap
    assert isinstance(gap, MeasuredDistribution)

    times = sorted(draws(gap))

    shares = len(gap.quantiles_ms) - 1
    for number, quantile in enumerate(gap.quantiles_ms[1:-1], 1):
        below = sum(time <= quantile for time in times) / len(times)
        above = sum(time >= quantile for time in times) / len(times)
        assert below >= number / shares - 0.03
        assert above >= 1 - number / shares - 0.03
    assert (times[0] >= gap.quantiles_ms[0], times[-1] <= gap.quantiles_ms[-1]) == (True, True)


@given(DISTRIBUTIONS, st.floats(0, 1))
def test_no_draw_is_below_0_or_above_a_day(span: DurationDistribution, share: float) -> None:
    assert 0.0 <= draw_ms(span, share) <= MAX_DURATION_MS


@given(DISTRIBUTIONS, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_is_no_shorter_time(
    span: DurationDistribution, one: float, other: float
) -> None:
    assert draw_ms(span, min(one, other)) <= draw_ms(span, max(one, other))
