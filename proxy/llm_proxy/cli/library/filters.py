"""Options that select cassettes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from llm_proxy import ages
from llm_proxy.cli.library.rows import CassetteRow
from llm_proxy.cli.option_types import CheckedTextType
from llm_proxy.errors import UsageError, printable_excerpt

F = TypeVar("F", bound=Callable[..., Any])

_STATUS_FILTER: Final = re.compile(r"[1-9](?:[0-9]{2}|xx)")


def _check_status_filter(text: str) -> None:
    """Raise `UsageError` for a text that is neither a status nor a class such as `4xx`."""
    if _STATUS_FILTER.fullmatch(text) is None:
        raise UsageError(
            f"'{printable_excerpt(text, 40)}' is no status: write 200, 429, 4xx or 5xx"
        )


@dataclass(frozen=True, slots=True)
class CassetteFilters:
    """The values of the filter options; an empty text or None matches every cassette."""

    partial: bool = False
    of_session: str = ""
    """The session; not called `session`, which in a settings file is that of requests."""
    model: str = ""
    dialect: str = ""
    provider: str = ""
    status: str | None = None
    older_than: str | None = None
    newer_than: str | None = None

    def matches(self, row: CassetteRow) -> bool:
        """Whether a cassette passes all filters; one of unknown age is neither older nor newer."""
        meta = row.meta
        return (
            not (self.partial and row.outcome.is_complete)
            and self.of_session in {"", meta.session}
            and self.model.lower() in meta.model.lower()
            and self.dialect in {"", meta.dialect}
            and self.provider in {"", meta.provider}
            and str(row.http_status).startswith((self.status or "").rstrip("x"))
            and (self.older_than is None or _is_older(row, self.older_than))
            and (self.newer_than is None or _is_newer(row, self.newer_than))
        )


def _is_older(row: CassetteRow, age_text: str) -> bool:
    return row.age is not None and row.age > ages.parse_age(age_text)


def _is_newer(row: CassetteRow, age_text: str) -> bool:
    return row.age is not None and row.age <= ages.parse_age(age_text)


_FILTER_OPTIONS: Final = (
    click.option("--partial", is_flag=True, help="Only takes that are not complete."),
    click.option("--session", "of_session", default="", metavar="NAME",
                 help="Only takes of this session."),
    click.option("--model", default="", metavar="TEXT",
                 help="Only models with TEXT in their name."),
    click.option("--dialect", default="", metavar="NAME", help="Only this dialect."),
    click.option("--provider", default="", metavar="NAME", help="Only this provider."),
    click.option("--status", metavar="STATUS", type=CheckedTextType("status", _check_status_filter),
                 help="Only answers of this status: 200, 429, 4xx."),
    click.option("--older-than", metavar="AGE", type=CheckedTextType("age", ages.parse_age),
                 help="Only what was recorded longer ago: 36h, 90d, 12w, 6m, 1y."),
    click.option("--newer-than", metavar="AGE", type=CheckedTextType("age", ages.parse_age),
                 help="Only what was recorded since."),
)  # fmt: skip


def filter_options(function: F) -> F:
    """Decorator: the options whose values are the fields of `CassetteFilters`."""
    for option in reversed(_FILTER_OPTIONS):
        function = option(function)
    return function
