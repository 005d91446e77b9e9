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
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labelled = [*_labelled(fields, rows, ids)]
    assert labelled, "a table without rows tests nothing"

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test, updated=())
        def run(*instance: Any, **fixtures: Any) -> None:
            errors: list[BaseException] = []
            for number, (label, values) in enumerate(labelled):
                with _collected(errors, number, label, values):
                    test(*instance, **fixtures, **values)
            _raise_all(errors, len(labelled))

        @functools.wraps(test, updated=())
        async def run_async(*instance: Any, **fixtures: Any) -> None:
            errors: list[BaseException] = []
            for number, (label, values) in enumerate(labelled):
                with _collected(errors, number, label, values):
                    await test(*instance, **fixtures, **values)
            _raise_all(errors, len(labelled))

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


@contextmanager
def _collected(
    errors: list[BaseException], number: int, label: str, values: Mapping[str, Any]
) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # raised again, with those of other rows
        error.add_note(f"row {number}: {label or repr((*values.values(),))[:200]}")
        if "from pytest-timeout" in str(error):  # which measures the test once, so it would hang
            raise
        errors.append(error)


def _raise_all(errors: list[BaseException], rows: int) -> None:
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {rows} rows fail", errors)
