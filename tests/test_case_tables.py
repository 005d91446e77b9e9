"""`each_row`: every row is tried, and every row that fails is reported."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from case_tables import each_row

ROWS = [(1, 1), (1, 2), pytest.param(3, 4, id="third")]


def test_each_row_that_fails_is_reported_and_the_others_are_tried() -> None:
    tried = []

    @each_row("left, right", ROWS)
    def compare(left: int, right: int) -> None:
        tried.append((left, right))
        assert left == right

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows fail") as caught:
        compare()
    assert tried == [(1, 1), (1, 2), (3, 4)]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["row 1: (1, 2)"],
        ["row 2: third"],
    ]


def test_a_row_that_skips_itself_hides_no_other() -> None:
    @each_row("number", [1, 2, 3])
    def check(number: int) -> None:
        if number == 2:
            pytest.skip("not this one")
        assert number == 1

    with pytest.raises(BaseExceptionGroup, match=r"1 of 3 rows fail: row 2: \(3,\)"):
        check()


def test_a_table_whose_rows_all_skip_is_skipped() -> None:
    @each_row("number", [1, 2])
    def check(number: int) -> None:
        pytest.skip(f"not number {number}")

    with pytest.raises(pytest.skip.Exception, match="not number 1"):
        check()


async def test_a_coroutine_is_awaited_for_each_row_and_a_missing_exception_is_a_failure() -> None:
    @each_row("number", [1, 0], ids=["one", "nothing"])
    async def divide(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(BaseExceptionGroup) as caught:
        await divide()
    assert [error.__notes__ for error in caught.value.exceptions] == [["row 0: one"]]


def test_the_time_limit_of_a_test_ends_its_table() -> None:
    @each_row("number", [1, 2])
    def hang(number: int) -> None:
        pytest.fail(f"Timeout (>{number}s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception, match="1s") as caught:
        hang()
    assert caught.value.__notes__ == ["row 0: (1,)"]


def test_fixtures_and_marks_stay_those_of_the_test() -> None:
    @pytest.mark.long
    @each_row("number", [1])
    @pytest.mark.thorough
    def read(tmp_path: Path, number: int) -> None: ...

    assert list(inspect.signature(read).parameters) == ["tmp_path"]
    assert {mark.name for mark in read.pytestmark} == {"long", "thorough"}


class TestMethods:
    @each_row("number", [1, 2])
    def test_a_method_of_a_class_has_its_instance(self, tmp_path: Path, number: int) -> None:
        assert isinstance(self, TestMethods)
        assert (tmp_path.is_dir(), number in {1, 2}) == (True, True)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        each_row("number", [])
