"""Validates regular expressions and JSONPaths."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from math import prod
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.scenario.documents.document import ScenarioMatch, ValueCondition
from llm_proxy.scenario.documents.findings import StructFinding

_SHOWN: Final = 100
"""Characters of a reason in a message."""
_COUNT: Final = re.compile(r"\{(?:\d*,)?(\d+)")
"""How often something is repeated at most."""
_MOST_COPIES: Final = 100_000
"""Of a part of an expression, if all of its counts are within each other: some 60 MB."""


def check_text_patterns(scenario_match: ScenarioMatch) -> Iterator[StructFinding]:
    """Patterns of what is said."""
    for name, pattern in (("user", scenario_match.user), ("system", scenario_match.system)):
        if why := _wrong_expression(pattern):
            yield StructFinding((name,), why)


def check_value_patterns(value_condition: ValueCondition) -> Iterator[StructFinding]:
    """Patterns of what stands in a body."""
    if why := _wrong_expression(value_condition.matches):
        yield StructFinding(("matches",), why)


def check_json_paths(scenario_match: ScenarioMatch) -> Iterator[StructFinding]:
    """JSONPaths into a body."""
    for path in scenario_match.json:
        if why := _wrong_path(path):
            yield StructFinding(("json", path), why)


def _wrong_expression(pattern: str) -> str:
    """Why a text is no regular expression; empty where it is one."""
    if not pattern:
        return ""
    import regex  # noqa: PLC0415 # few documents need it

    counts = (int(value) for value in _COUNT.findall(pattern))
    if prod(max(1, count) for count in counts) > _MOST_COPIES:  # what is counted is copied as often
        return "this regular expression is too large: make its {…} smaller"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python may read otherwise
            regex.compile(pattern)
    except regex.error as error:
        return f"this is no regular expression: {error}; \\ before a character takes it as it is"
    except (OverflowError, RecursionError):
        return "this regular expression is too large"
    return ""


def _wrong_path(path: str) -> str:
    """Why a text is no JSONPath; empty where it is one."""
    from llm_proxy import json_paths  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    try:
        json_paths.compile_path(path)
    except ValueError as error:
        why = printable(str(error), _SHOWN)
        return f"this is no JSONPath: {why}; write it as in $.messages[0].content"
    return ""
