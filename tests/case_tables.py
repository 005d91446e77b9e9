"""`each_row`: a table of cases as one test, which tries every row and reports each that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Iterable[str] | None = None
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Call the test once with each row, as `pytest.mark.parametrize` does, but in one test item.

    A row is one value for each name, or a `pytest.param` without marks.  Fixtures are made once and
    shared by all rows.  Raises one `BaseExceptionGroup` that has the error of each row that fails.
    A row may skip itself; the test is skipped if all rows do.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labelled = [*_labelled(fields, rows, ids)]
    assert labelled, "a table without rows tests nothing"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test, updated=())
        def run(*instance: Any, **fixtures: Any) -> None:
            outcomes = _Outcomes()
            for number, (label, values) in enumerate(labelled):
                with outcomes.of_row(number, label, values):
                    test(*instance, **fixtures, **values)
            outcomes.report(len(labelled))

        @functools.wraps(test, updated=())
        async def run_async(*instance: Any, **fixtures: Any) -> None:
            outcomes = _Outcomes()
            for number, (label, values) in enumerate(labelled):
                with outcomes.of_row(number, label, values):
                    await test(*instance, **fixtures, **values)
            outcomes.report(len(labelled))

        wrapper: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        wrapper.__signature__ = signature.replace(
            parameters=[
                parameter if name == "self" else parameter.replace(kind=parameter.KEYWORD_ONLY)
                for name, parameter in signature.parameters.items()
                if name not in fields
            ]
        )
        wrapper.pytestmark = getattr(test, "pytestmark", [])
        return wrapper  # type: ignore[no-any-return] # a test, without the row's parameters

    return decorate


def _labelled(
    fields: list[str], rows: Iterable[Any], ids: Iterable[str] | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    given_ids = iter(ids) if ids is not None else None
    for row in rows:
        values = tuple(row) if len(fields) > 1 else (row,)
        label = next(given_ids, "") if given_ids is not None else ""
        if hasattr(row, "marks"):  # from pytest.param
            assert not row.marks, "a row of a table has no marks of its own"
            values, label = tuple(row.values), str(row.id or label)
        yield label, dict(zip(fields, values, strict=True))


class _Outcomes:
    """The rows that failed, and those that were skipped."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._skips: list[BaseException] = []

    @contextmanager
    def of_row(self, number: int, label: str, values: Mapping[str, Any]) -> Iterator[None]:
        """Keep what this row raises, for `report`."""
        try:
            yield
        except pytest.skip.Exception as skip:
            self._skips.append(skip)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"row {number}: {label or repr((*values.values(),))[:200]}")
            if "from pytest-timeout" in str(error):  # it measures the test once, which would hang
                raise
            self._errors.append(error)

    def report(self, rows: int) -> None:
        """Raise the errors of all rows; a skip if there is no row without one."""
        if self._errors:
            failed = ", ".join(error.__notes__[-1] for error in self._errors)
            raise BaseExceptionGroup(
                f"{len(self._errors)} of {rows} rows fail: {failed}", self._errors
            )
        if len(self._skips) == rows:
            raise self._skips[0]
