"""Click parameter types whose error messages name the value and what is expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from llm_proxy.errors import UsageError


def _raise_bad_parameter(value: Any, problem: str, param: click.Parameter | None) -> NoReturn:
    raise click.BadParameter(f"{str(value)!r} is {problem}", param=param)


class IntRangeType(click.IntRange):
    """An integer within limits, both inclusive; `maximum` None for no upper limit."""

    name = "number"

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        super().__init__(minimum, maximum)
        self._problem = f"not a whole number {_range_text(minimum, maximum)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The integer."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _raise_bad_parameter(value, self._problem, param)


class SecondsType(click.FloatRange):
    """A duration in seconds: a finite number above 0."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number of seconds."""
        try:
            seconds = super().convert(value, param, ctx)
        except click.BadParameter:
            seconds = math.nan
        if not math.isfinite(seconds):
            _raise_bad_parameter(value, "not a number of seconds above 0", param)
        return seconds


class ChoiceType(click.Choice[str]):
    """One of a fixed set of texts."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The chosen text."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _raise_bad_parameter(value, f"not one of {', '.join(self.choices)}", param)


class BoolType(click.types.BoolParamType):
    """The value of a flag in the environment or in a settings file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """True or false."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _raise_bad_parameter(value, "neither true nor false", param)


class CheckedTextType(click.types.StringParamType):
    """Text that is validated by `check`, which raises `UsageError` for an invalid one."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text, unchanged."""
        try:
            self._check(value)
        except UsageError as error:
            raise click.BadParameter(str(error), param=param) from None
        return value


def _range_text(minimum: int, maximum: int | None) -> str:
    return f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
