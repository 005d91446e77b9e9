"""Validates regular expressions and JSONPaths."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from math import prod
from typing import Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.documents.document import ScenarioMatch, ValueCondition
from llm_proxy.scenario.documents.findings import StructFinding

_MAX_REASON_CHARS: Final = 100
"""The most characters of an error's reason in a message."""
_MAX_REPEAT: Final = re.compile(r"\{(?:\d*,)?(\d+)")
"""Captures the upper bound of a counted repetition."""
_MAX_COPIES: Final = 100_000
"""The most copies of a part of an expression, if all counted repetitions are nested: some 60 MB."""


def check_text_patterns(scenario_match: ScenarioMatch) -> Iterator[StructFinding]:
    """Find invalid regular expressions in `user` and `system`."""
    for name, pattern in (("user", scenario_match.user), ("system", scenario_match.system)):
        if reason := _regex_error(pattern):
            yield StructFinding((name,), reason)


def check_value_patterns(value_condition: ValueCondition) -> Iterator[StructFinding]:
    """Find an invalid regular expression in `matches`."""
    if reason := _regex_error(value_condition.matches):
        yield StructFinding(("matches",), reason)


def check_json_paths(scenario_match: ScenarioMatch) -> Iterator[StructFinding]:
    """Find invalid JSONPaths in `json`."""
    for path in scenario_match.json:
        if reason := _json_path_error(path):
            yield StructFinding(("json", path), reason)


def _regex_error(pattern: str) -> str:
    """Why a regular expression is invalid; empty if it is valid."""
    if not pattern:
        return ""
    import regex  # noqa: PLC0415 # few documents need it

    counts = (int(value) for value in _MAX_REPEAT.findall(pattern))
    if prod(max(1, count) for count in counts) > _MAX_COPIES:  # `regex` copies a counted part
        return "this regular expression is too large: make its {…} smaller"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may change its meaning
            regex.compile(pattern)
    except regex.error as error:
        return f"this is no regular expression: {error}; \\ before a character takes it as it is"
    except (OverflowError, RecursionError):
        return "this regular expression is too large"
    return ""


def _json_path_error(path: str) -> str:
    """Why a JSONPath is invalid; empty if it is valid."""
    from llm_proxy import json_paths  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    try:
        json_paths.compile_path(path)
    except ValueError as error:
        reason = printable_excerpt(str(error), _MAX_REASON_CHARS)
        return f"this is no JSONPath: {reason}; write it as in $.messages[0].content"
    return ""
