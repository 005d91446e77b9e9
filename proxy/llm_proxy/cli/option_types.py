"""Click parameter types whose errors name the value and what is expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from llm_proxy.errors import UsageError


def _fail_parameter(value: Any, why: str, param: click.Parameter | None) -> NoReturn:
    raise click.BadParameter(f"{str(value)!r} is {why}", param=param)


class CountType(click.IntRange):
    """A whole number within limits."""

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self._why = f"not a whole number {_limits_text(least, most)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _fail_parameter(value, self._why, param)


class SecondsType(click.FloatRange):
    """A span of time: a finite number above 0."""

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
            _fail_parameter(value, "not a number of seconds above 0", param)
        return seconds


class ChoiceType(click.Choice[str]):
    """One of a few words."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _fail_parameter(value, f"not one of {', '.join(self.choices)}", param)


class BoolType(click.types.BoolParamType):
    """What a flag is in the environment and in a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """True or false."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            _fail_parameter(value, "neither true nor false", param)


class CheckedTextType(click.types.StringParamType):
    """Text that a function of ours takes, which raises `UsageError` for what is wrong."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The same text."""
        try:
            self._check(value)
        except UsageError as error:
            raise click.BadParameter(str(error), param=param) from None
        return value


def _limits_text(least: int, most: int | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"
