"""Regular expressions and JSONPaths of a document: whether they can be used."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Final

from llm_proxy.errors import printable
from llm_proxy.scenario.documents.document import Condition, Match
from llm_proxy.scenario.documents.findings import Finding, warning
from llm_proxy.scenario.documents.sense import repeats

_SHOWN: Final = 60
"""Characters of an expression in a message."""


def of_texts(it: Match) -> Iterator[Finding]:
    """Patterns of what is said."""
    for name, pattern in (("user", it.user), ("system", it.system)):
        if why := _wrong_expression(pattern):
            yield Finding((name,), why)
        else:
            yield from _slow(name, pattern)


def of_values(it: Condition) -> Iterator[Finding]:
    """Patterns of what stands in a body."""
    if why := _wrong_expression(it.matches):
        yield Finding(("matches",), why)
    else:
        yield from _slow("matches", it.matches)


def of_paths(it: Match) -> Iterator[Finding]:
    """JSONPaths into a body."""
    for path in it.json:
        if why := _wrong_path(path):
            yield Finding(("json", path), why)


def _wrong_expression(pattern: str) -> str:
    """Why a text is no regular expression; empty where it is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a later Python may read otherwise
            re.compile(pattern)
    except re.error as error:
        return f"this is no regular expression: {error}; \\ before a character takes it as it is"
    except (OverflowError, RecursionError):
        return "this regular expression is too large"
    return ""


def _slow(name: str, pattern: str) -> Iterator[Finding]:
    """An expression that a text of few characters may keep busy for ever."""
    if twice := repeats.repeated_twice(pattern):
        yield warning(
            (name,),
            f"this regular expression can take exponential time: {printable(twice, _SHOWN)} "
            "repeats what is repeated already; take one of the two repetitions away",
        )


def _wrong_path(path: str) -> str:
    """Why a text is no JSONPath; empty where it is one."""
    import jsonpath  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    try:
        jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        why = str(error.args[0]).partition("\n")[0].partition(", line ")[0]
        return f"this is no JSONPath: {why}; write it as in $.messages[0].content"
    except RecursionError:
        return "this JSONPath is too large"
    return ""
