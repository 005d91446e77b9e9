"""`assert_linear` refuses what takes quadratic time."""

from __future__ import annotations

import pytest

from linear_time import assert_linear


def test_a_function_in_linear_time_passes() -> None:
    assert_linear(lambda size: sum(range(size)), 80_000)


def test_a_function_in_quadratic_time_is_refused_with_its_times() -> None:
    with pytest.raises(AssertionError, match=r"^2,400 take .* ms, 300 .* ms$"):
        assert_linear(lambda size: [sum(range(number)) for number in range(size)], 2_400)
