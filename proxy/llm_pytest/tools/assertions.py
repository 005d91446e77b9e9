"""The tools `assert_*`: they compare the responses that the `http_*` tools have really received.

In a replay the model's arguments are those of the recording.  So an assertion takes a `path` into a
response: a value that the model copied into `actual` would be an old copy.

A result says what was compared, with long values cut.  A wrong call, such as one with an invalid
path, is an error, and a failed assertion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from llm_proxy.errors import printable_excerpt
from llm_proxy.expressions import compile_pattern
from llm_proxy.turns import Json
from llm_pytest.plugin_base import LLMPlugin, ToolError
from llm_pytest.tools.json_schemas import schema_errors
from llm_pytest.tools.json_values import (
    are_equal,
    find_value,
    json_type,
    shown_value,
)
from llm_pytest.tools.responses import DOCUMENT_PATHS, HttpResponse, ResponseLog

_MAX_SHOWN_CHARS: Final = 200
_STATUS_CLASS: Final = re.compile(r"[1-5]xx", re.IGNORECASE | re.ASCII)

_Result = dict[str, Json]
_Path = Annotated[
    str,
    Meta(
        description="JSONPath into the response {status, url, headers, json, text}, such as "
        "$.json.items[0].id or $.headers['content-type']. Use it for every value of a response. "
        "It must find a value."
    ),
]
_Actual = Annotated[
    Any, Meta(description="The value to check, only if it comes from another tool than http_*.")
]
_Response = Annotated[
    str, Meta(description="The id of an earlier response, such as r1. Default: the latest.")
]
_BodyPath = Annotated[
    str, Meta(description="JSONPath that starts at the JSON body, such as $.items[0].id.")
]
_Number = Annotated[int | float, Meta(description="The number to compare with.")]


class AssertTools(LLMPlugin):
    """Checks values and responses."""

    name = "assert"

    def __init__(self, responses: ResponseLog) -> None:
        """`responses` are those of `HttpTools.responses`."""
        self._responses = responses

    async def equals(
        self,
        expected: Annotated[Any, Meta(description="The JSON value that must be equal.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a value equals expected.

        Set path for a value of a response, else actual. Types count: 1 equals 1.0, but not "1".
        """
        return self._compare(path, actual, response, expected, _equality_problem)

    async def not_equals(
        self,
        expected: Annotated[Any, Meta(description="The JSON value that must not be equal.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a value exists and differs from expected.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, unexpected: Json) -> str:
            return "the values are equal" if are_equal(value, unexpected) else ""

        return self._compare(path, actual, response, expected, problem)

    async def contains(
        self,
        expected: Annotated[Any, Meta(description="A part of a text, item, or member name.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a text contains a text, a list an equal item, or an object a member name.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, part: Json) -> str:
            return "" if _has_part(value, part) else "actual does not contain expected"

        return self._compare(path, actual, response, expected, problem)

    async def not_contains(
        self,
        expected: Annotated[Any, Meta(description="A part of a text, item, or member name.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a text, list or object exists and does not contain expected.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, part: Json) -> str:
            return "actual contains expected" if _has_part(value, part) else ""

        return self._compare(path, actual, response, expected, problem)

    async def matches(
        self,
        pattern: Annotated[str, Meta(description="A regular expression in RE2 syntax.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a regular expression is found in a text; use ^ and $ for the whole text.

        Set path for a value of a response, else actual.
        """
        find = _pattern_finder(pattern)

        def problem(value: Json, _pattern: Json) -> str:
            if not isinstance(value, str):
                raise _Mismatch(f"actual is {json_type(value)}; only a text can match")
            return "" if find(value) else "the pattern is not found"

        return self._compare(path, actual, response, pattern, problem)

    async def less_than(
        self,
        expected: _Number,
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a number is less than expected.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, _limit: Json) -> str:
            return "" if _as_number(value) < expected else "actual is not less than expected"

        return self._compare(path, actual, response, expected, problem)

    async def greater_than(
        self,
        expected: _Number,
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check that a number is greater than expected.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, _limit: Json) -> str:
            return "" if _as_number(value) > expected else "actual is not greater than expected"

        return self._compare(path, actual, response, expected, problem)

    async def length(
        self,
        expected: Annotated[int, Meta(ge=0, description="The exact length.")],
        path: _Path = "",
        actual: _Actual = UNSET,
        response: _Response = "",
    ) -> _Result:
        """Check the number of characters of a text, items of a list, or members of an object.

        Set path for a value of a response, else actual.
        """

        def problem(value: Json, _length: Json) -> str:
            if not isinstance(value, str | list | dict):
                raise _Mismatch(f"actual is {json_type(value)}, which has no length")
            return "" if len(value) == expected else f"the length is {len(value)}"

        return self._compare(path, actual, response, expected, problem)

    async def status(
        self,
        expected: Annotated[
            int | str | list[int | str],
            Meta(description="A status such as 200, a class such as 2xx, or a list of them."),
        ],
        response: _Response = "",
    ) -> _Result:
        """Check the status code of a response."""
        subject = self._responses.find(response)
        allowed = [
            _status(item) for item in (expected if isinstance(expected, list) else [expected])
        ]
        has_passed = any(item in {subject.status, f"{subject.status // 100}xx"} for item in allowed)
        return _result(
            "" if has_passed else "the status differs",
            actual=subject.status,
            expected=expected,  # type: ignore[arg-type] # a list of these is JSON
            response=subject.id,
        )

    async def header(
        self,
        name: Annotated[str, Meta(description="The name of the header, in any case.")],
        expected: Annotated[
            str | None, Meta(description="The exact value. Without it, the header must exist.")
        ] = None,
        matches: Annotated[
            str | None, Meta(description="Instead of expected: a regular expression (RE2).")
        ] = None,
        response: _Response = "",
    ) -> _Result:
        """Check a response header: that it exists, equals expected, or matches a pattern."""
        if expected is not None and matches is not None:
            raise ToolError("set only one of expected and matches")
        subject = self._responses.find(response)
        find = _pattern_finder(matches) if matches is not None else None
        value = subject.header(name)
        if value is None:
            problem = "the response has no such header"
        elif find is not None:
            problem = "" if find(value) else "the pattern is not found"
        else:
            problem = "" if expected in {None, value} else "the values differ"
        compared: _Result = {"name": name}
        if expected is not None or matches is not None:
            compared["expected"] = expected if matches is None else matches
        return _result(
            problem, actual=UNSET if value is None else value, **compared, response=subject.id
        )

    async def json_path(
        self,
        path: _BodyPath,
        expected: Annotated[Any, Meta(description="The JSON value that must be equal.")] = UNSET,
        exists: Annotated[
            bool, Meta(description="Set to false to check that there is no such value.")
        ] = True,
        response: _Response = "",
    ) -> _Result:
        """Check that the JSON body has a value at path, and that it equals expected if set.

        The value of a path with a wildcard, slice, filter or .. is the list of all found values.
        """
        subject = self._responses.find(response)
        value = find_value(path, _json_body(subject))
        place: _Result = {"path": path, "response": subject.id}
        if not exists:
            if expected is not UNSET:
                raise ToolError("set expected only if exists is true")
            problem = "" if value is UNSET else "there is such a value"
            return _result(problem, actual=value, **place)
        if value is UNSET:
            problem = "no value at the path"
            if path.startswith("$.json"):
                problem += "; it starts at the JSON body, without json"
            return _result(problem, expected=expected, **place)
        problem = "" if expected is UNSET else _equality_problem(value, expected)
        return _result(problem, actual=value, expected=expected, **place)

    async def schema(
        self,
        schema: Annotated[
            dict[str, Any] | bool,
            Meta(description="A JSON Schema; by default of draft 2020-12. Formats are checked."),
        ],
        path: _BodyPath = "$",
        response: _Response = "",
    ) -> _Result:
        """Check the JSON body of a response, or its part at path, against a JSON Schema."""
        subject = self._responses.find(response)
        value = find_value(path or "$", _json_body(subject))
        place: _Result = {"path": path or "$", "response": subject.id}
        if value is UNSET:
            return _result("no value at the path", **place)
        errors = schema_errors(schema, value)
        result = _result("the value does not match the schema" if errors else "", **place)
        return result | ({"errors": list[Json](errors)} if errors else {})

    async def response_time(
        self,
        max_ms: Annotated[float, Meta(gt=0, description="The limit in milliseconds.")],
        response: _Response = "",
    ) -> _Result:
        """Check that a complete response, with its redirects, took at most max_ms."""
        subject = self._responses.find(response)
        elapsed_ms = round(subject.elapsed_ms, 1)
        return {
            "passed": elapsed_ms <= max_ms,
            "elapsed_ms": elapsed_ms,
            "max_ms": max_ms,
            "response": subject.id,
        }

    def _compare(
        self,
        path: str,
        actual: Any,
        response: str,
        expected: Json,
        find_problem: Callable[[Any, Json], str],
    ) -> _Result:
        """Compare the value at `path` of a response, or `actual`; `expected` is shown.

        `find_problem` returns why the assertion fails, or an empty text.
        """
        if (path != "") == (actual is not UNSET):
            raise ToolError("set either path or actual; use path for a value of a response")
        value: Json | UnsetType = actual
        place: _Result = {}
        if path:
            subject = self._responses.find(response)
            place = {"path": path, "response": subject.id}
            value = find_value(path, subject.document())
        if value is UNSET:
            return _result(_missing_problem(path), expected=expected, **place)
        try:
            problem = find_problem(value, expected)
        except _Mismatch as error:
            problem = str(error)
        return _result(problem, actual=value, expected=expected, **place)


class _Mismatch(Exception):
    """A value of a type that cannot be compared in this way: the assertion fails."""


def _json_body(response: HttpResponse) -> Json:
    """The JSON body.  Raises `ToolError` if there is none."""
    parsed = response.json()
    if parsed is None:
        raise ToolError(f"the body of {response.id} is not JSON")
    return parsed[0]


def _missing_problem(path: str) -> str:
    problem = "no value at the path"
    if path.startswith(DOCUMENT_PATHS):
        return problem
    return f"{problem}; it starts with one of {', '.join(DOCUMENT_PATHS)}"


def _result(problem: str, **compared: Json | UnsetType) -> _Result:
    """The result of an assertion, which has passed if there is no problem."""
    result: _Result = {"passed": not problem}
    if problem:
        result["problem"] = problem
    for name, value in compared.items():
        if value is not UNSET:
            result[name] = shown_value(value)
    return result


def _equality_problem(actual: Json, expected: Json) -> str:
    if are_equal(actual, expected):
        return ""
    types = json_type(actual), json_type(expected)
    return (
        "the values differ"
        if types[0] == types[1]
        else f"actual is {types[0]}, expected is {types[1]}"
    )


def _has_part(value: Json, part: Json) -> bool:
    """Whether a value contains a part.  Raises `_Mismatch` for values that contain nothing."""
    match value:
        case str() | dict() if isinstance(part, str):
            return part in value
        case list():
            return any(are_equal(item, part) for item in value)
        case str() | dict():
            kind = json_type(value)
            raise _Mismatch(f"actual is {kind}, so expected must be a text, not {json_type(part)}")
        case _:
            raise _Mismatch(f"actual is {json_type(value)}, which contains nothing")


def _as_number(value: Json) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Mismatch(f"actual is {json_type(value)}, not a number")
    return value


def _pattern_finder(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match.  Raises `ToolError` for an invalid pattern."""
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        shown = printable_excerpt(pattern, _MAX_SHOWN_CHARS)
        raise ToolError(f"the pattern {shown} {error}") from None
    return lambda text: compiled.search(text.encode("utf-8", "replace")) is not None


def _status(expected: int | str) -> int | str:
    """A status, or a class of statuses in lower case.  Raises `ToolError`."""
    text = str(expected)
    if re.fullmatch(r"[1-9][0-9]{2}", text, re.ASCII):
        return int(text)
    if _STATUS_CLASS.fullmatch(text):
        return text.lower()
    shown = printable_excerpt(text, _MAX_SHOWN_CHARS)
    raise ToolError(f"{shown} is not a status; use 200, 2xx or a list of them")
