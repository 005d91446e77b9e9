"""The tools `assert_*`: what passes, what fails, what is an error, and what never takes long."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_proxy.turns import Json
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.tools import json_schemas
from llm_pytest.tools.assertions import AssertTools
from llm_pytest.tools.http import HttpTools
from llm_pytest.tools.json_values import MAX_SHOWN_CHARS
from llm_pytest.tools.responses import HttpResponse, ResponseLog
from llm_pytest.toolset import ToolSet
from stub_upstream import fixed_length, upstream

BODY: Final[Json] = {
    "id": 7, "price": 9.5, "name": "Ada", "none": None, "yes": True, "tags": ["a", "b"],
    "items": [{"id": 1, "n": 10}, {"id": 2, "n": 20}], "empty": {},
    "nothing": [],
}  # fmt: skip


def response_log(*bodies: bytes, content_type: str = "application/json") -> ResponseLog:
    """A log with a response for each body."""
    log = ResponseLog()
    for body in bodies:
        response_id = log.begin()
        headers = (("content-type", content_type), ("x-id", "a"), ("x-id", "b"))
        response = HttpResponse(
            response_id, 201, "http://127.0.0.1:8000/items", headers, body, elapsed_ms=12.34
        )
        log.end(response_id, response)
    return log


async def run(tool: str, /, *bodies: bytes, **arguments: Any) -> ToolCallRecord:
    """Call `assert_{tool}` after a response of each body, by default of one with `BODY`."""
    log = response_log(*(bodies or (json.dumps(BODY).encode(),)))
    return await ToolSet([AssertTools(log)]).call(f"assert_{tool}", arguments)


async def result(tool: str, /, *bodies: bytes, **arguments: Any) -> dict[str, Any]:
    """The result of `assert_{tool}`."""
    record = await run(tool, *bodies, **arguments)
    assert isinstance(record.result, dict)
    assert record.has_passed is (record.result.get("passed") is True)
    assert record.is_error is ("error" in record.result)
    return record.result


PASSING: Final[list[tuple[str, dict[str, Json]]]] = [
    ("equals", {"path": "$.json.id", "expected": 7}),
    ("equals", {"path": "$.json.id", "expected": 7.0}),
    ("equals", {"path": "$.status", "expected": 201}),
    ("equals", {"path": "$.json.none", "expected": None}),
    ("equals", {"path": "$.json.items[*].id", "expected": [1, 2]}),
    ("equals", {"path": "$.json.items[?@.n > 10]", "expected": [{"n": 20, "id": 2}]}),
    ("equals", {"path": "$.json.nothing", "expected": []}),
    ("equals", {"path": "$.headers['x-id']", "expected": "a, b"}),
    ("equals", {"actual": {"a": [1, {}]}, "expected": {"a": [1.0, {}]}}),
    ("equals", {"actual": None, "expected": None}),
    ("not_equals", {"path": "$.json.id", "expected": "7"}),
    ("not_equals", {"path": "$.json.yes", "expected": 1}),
    ("contains", {"path": "$.json.name", "expected": "da"}),
    ("contains", {"path": "$.json.tags", "expected": "b"}),
    ("contains", {"path": "$.json.items", "expected": {"id": 1, "n": 10.0}}),
    ("contains", {"path": "$.json", "expected": "price"}),
    ("contains", {"path": "$.text", "expected": "Ada"}),
    ("not_contains", {"path": "$.json.tags", "expected": "c"}),
    ("not_contains", {"actual": [1], "expected": True}),
    ("not_contains", {"path": "$.json.nothing", "expected": "c"}),
    ("length", {"path": "$.json.nothing", "expected": 0}),
    ("matches", {"path": "$.json.name", "pattern": "^[A-Z]d"}),
    ("matches", {"path": "$.json.name", "pattern": ""}),
    ("matches", {"actual": "grün", "pattern": r"^\pL+$"}),
    ("less_than", {"path": "$.json.price", "expected": 10}),
    ("greater_than", {"path": "$.json.id", "expected": 6.9}),
    ("length", {"path": "$.json.tags", "expected": 2}),
    ("length", {"path": "$.json.name", "expected": 3}),
    ("length", {"path": "$.json.empty", "expected": 0}),
    ("length", {"path": "$.json.items[*]", "expected": 2}),
    ("status", {"expected": 201}),
    ("status", {"expected": "201"}),
    ("status", {"expected": "2XX"}),
    ("status", {"expected": [404, "2xx"]}),
    ("header", {"name": "Content-Type"}),
    ("header", {"name": "content-type", "expected": "application/json"}),
    ("header", {"name": "X-ID", "matches": "b$"}),
    ("json_path", {"path": "$.items[1].id", "expected": 2}),
    ("json_path", {"path": "$.none"}),
    ("json_path", {"path": "$.none", "expected": None}),
    ("json_path", {"path": "$.absent", "exists": False}),
    ("json_path", {"path": "$.items[?@.id == 9]", "exists": False}),
    ("json_path", {"path": "$..n", "expected": [10, 20]}),
    ("schema", {"schema": True}),
    ("schema", {"schema": {"type": "object", "required": ["id"]}}),
    ("schema", {"schema": {"type": "array", "uniqueItems": True}, "path": "$.items"}),
    ("schema", {"schema": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}}),
    ("schema", {"schema": {"items": {"type": "integer"}}, "path": "$..n"}),
    (
        "schema",
        {"schema": {"patternProperties": {"^": {}}, "additionalProperties": False}},
    ),
    ("response_time", {"max_ms": 12.3}),
]


@each_row("tool, arguments", PASSING)
async def test_it_passes(tool: str, arguments: dict[str, Json]) -> None:
    assert (await result(tool, **arguments))["passed"] is True


@each_row(
    "tool, arguments, problem",
    [
        ("equals", {"path": "$.json.id", "expected": 8}, "the values differ"),
        ("equals", {"path": "$.json.id", "expected": "7"}, "actual is a number, expected is a te"),
        ("equals", {"path": "$.json.yes", "expected": 1}, "actual is a boolean, expected is a n"),
        ("equals", {"actual": [1, True], "expected": [1, 1]}, "the values differ"),
        ("equals", {"path": "$.json.none", "expected": False}, "actual is null, expected is a bo"),
        ("equals", {"path": "$.json.absent", "expected": None}, "no value at the path"),
        ("equals", {"path": "$.id", "expected": 7}, "no value at the path; it starts with one of"),
        ("not_equals", {"path": "$.json.id", "expected": 7.0}, "the values are equal"),
        ("not_equals", {"path": "$.json.absent", "expected": 7}, "no value at the path"),
        ("contains", {"path": "$.json.name", "expected": "x"}, "actual does not contain expected"),
        ("contains", {"path": "$.json.name", "expected": 1}, "actual is a text, so expected must"),
        ("contains", {"path": "$.json.id", "expected": 7}, "actual is a number, which contains n"),
        ("contains", {"actual": [1], "expected": True}, "actual does not contain expected"),
        ("not_contains", {"path": "$.json.tags", "expected": "a"}, "actual contains expected"),
        ("not_contains", {"path": "$.json.id", "expected": 1}, "actual is a number, which contai"),
        ("not_contains", {"path": "$.json.absent", "expected": 1}, "no value at the path"),
        *(
            (
                tool,
                {"path": "$.json.items[?@.n > 99]", "expected": expected},
                "no value at the path",
            )
            for tool, expected in (
                ("equals", []),
                ("not_equals", 7),
                ("contains", 7),
                ("not_contains", 7),
                ("length", 0),
            )
        ),
        ("matches", {"path": "$.json.name", "pattern": "^d"}, "the pattern is not found"),
        ("matches", {"path": "$.json.id", "pattern": "7"}, "actual is a number; only a text can"),
        ("less_than", {"path": "$.json.id", "expected": 7}, "actual is not less than expected"),
        ("less_than", {"path": "$.json.yes", "expected": 7}, "actual is a boolean, not a number"),
        ("greater_than", {"actual": "8", "expected": 7}, "actual is a text, not a number"),
        ("greater_than", {"actual": 7, "expected": 7}, "actual is not greater than expected"),
        ("length", {"path": "$.json.tags", "expected": 3}, "the length is 2"),
        ("length", {"path": "$.json.none", "expected": 0}, "actual is null, which has no length"),
        ("status", {"expected": 200}, "the status differs"),
        ("status", {"expected": ["4xx", 200]}, "the status differs"),
        ("status", {"expected": []}, "the status differs"),
        ("header", {"name": "etag"}, "the response has no such header"),
        ("header", {"name": "etag", "matches": ""}, "the response has no such header"),
        ("header", {"name": "content-type", "expected": "application"}, "the values differ"),
        ("header", {"name": "content-type", "matches": "xml"}, "the pattern is not found"),
        ("json_path", {"path": "$.absent"}, "no value at the path"),
        ("json_path", {"path": "$.absent", "expected": None}, "no value at the path"),
        ("json_path", {"path": "$.json.id", "expected": 7}, "no value at the path; it starts at t"),
        ("json_path", {"path": "$.items[?@.id == 9]"}, "no value at the path"),
        ("json_path", {"path": "$.items[?@.id == 9]", "expected": []}, "no value at the path"),
        ("json_path", {"path": "$.id", "expected": 8}, "the values differ"),
        ("json_path", {"path": "$.id", "exists": False}, "there is such a value"),
        ("schema", {"schema": False}, "the value does not match the schema"),
        ("schema", {"schema": {}, "path": "$.absent"}, "no value at the path"),
        ("schema", {"schema": {}, "path": "$.items[?@.id == 9]"}, "no value at the path"),
    ],
)
async def test_it_fails(tool: str, arguments: dict[str, Json], problem: str) -> None:
    failed = await result(tool, **arguments)
    assert failed["passed"] is False
    assert failed["problem"].startswith(problem)


async def test_response_time_fails_with_its_duration() -> None:
    assert await result("response_time", max_ms=12) == {
        "passed": False, "elapsed_ms": 12.3, "max_ms": 12, "response": "r1",
    }  # fmt: skip


@each_row(
    "tool, arguments, error",
    [
        ("equals", {"expected": 1}, "set either path or actual; use path for a value of a respon"),
        ("equals", {"expected": 1, "path": "$", "actual": 1}, "set either path or actual; use pa"),
        ("equals", {"path": "$.id"}, "ValidationError: Object missing required field `expected`"),
        ("equals", {"expected": 1, "path": "json.id"}, "json.id is not a valid JSONPath: it must"),
        ("equals", {"expected": 1, "path": "$["}, "$[ is not a valid JSONPath: "),
        (
            "equals", {"expected": 1, "path": "$[?match(@, 'a')]"},
            "$[?match(@, 'a')] is not a valid JSONPath: regular expressions are not supported",
        ),
        (
            "equals", {"expected": 1, "path": "$.status", "response": "r9"},
            "unknown response 'r9'; the latest is r1",
        ),
        ("matches", {"actual": "a", "pattern": "("}, "the pattern ( is not a valid RE2 pattern: "),
        ("matches", {"actual": "a", "pattern": "(?=a)"}, "the pattern (?=a) is not a valid RE2 "),
        ("matches", {"actual": "a", "pattern": "a" * 901}, "the pattern aaaa"),
        ("status", {"expected": "ok"}, "ok is not a status; use 200, 2xx or a list of them"),
        ("status", {"expected": [200, "6xx"]}, "6xx is not a status; use 200, 2xx or a list of"),
        ("header", {"name": "a", "expected": "b", "matches": "c"}, "set only one of expected and"),
        ("header", {"name": "a", "matches": "("}, "the pattern ( is not a valid RE2 pattern"),
        ("json_path", {"path": "$.a", "exists": False, "expected": 1}, "set expected only if exi"),
        ("schema", {"schema": {"type": "strange"}}, "the schema is not valid at $.type"),
        ("schema", {"schema": {"$schema": "http://a/b"}}, "the schema's $schema http://a/b is un"),
        ("schema", {"schema": {"$schema": "http://["}}, "the schema's $schema http://[ is unknow"),
        ("schema", {"schema": {"$schema": ["a"]}}, "the schema's $schema ['a'] is unknown"),
        ("schema", {"schema": {"$ref": "#/$defs/a"}}, "cannot resolve the reference /$defs/a; "),
    ],
)  # fmt: skip
async def test_a_wrong_call_is_an_error_and_a_failed_assertion(
    tool: str, arguments: dict[str, Json], error: str
) -> None:
    record = await run(tool, **arguments)
    assert isinstance(record.result, dict)
    assert str(record.result["error"]).startswith(error)
    assert (record.has_passed, record.is_error) == (False, True)


async def test_an_assertion_before_the_first_response_is_an_error() -> None:
    toolset = ToolSet([AssertTools(ResponseLog())])
    record = await toolset.call("assert_status", {"expected": 200})
    assert record.result == {
        "error": "there is no response yet; send a request with an http_* tool"
    }
    assert record.has_passed is False


async def test_a_body_that_is_no_json_is_an_error_of_tools_for_json() -> None:
    error = {"error": "the body of r1 is not JSON"}
    assert await result("json_path", b"<html>", path="$.id") == error
    assert await result("schema", b"", schema=True) == error
    failed = await result("equals", b"<html>", path="$.json.id", expected=1)
    assert failed["problem"] == "no value at the path"


@each_row("body", [b"7", b'"a"', b"null", b"[]"])
async def test_a_body_of_any_json_type_can_be_checked(body: bytes) -> None:
    value = json.loads(body)
    assert (await result("json_path", body, path="$", expected=value))["passed"]
    assert (await result("equals", body, path="$.json", expected=value))["passed"]
    assert not (await result("json_path", body, path="$.a"))["passed"]


async def test_the_latest_response_is_checked_unless_another_is_named() -> None:
    bodies = (b'{"id": 1}', b'{"id": 2}')
    assert (await result("json_path", *bodies, path="$.id", expected=2))["response"] == "r2"
    first = await result("equals", *bodies, path="$.json.id", expected=1, response="r1")
    assert first == {
        "passed": True, "actual": 1, "expected": 1, "path": "$.json.id", "response": "r1",
    }  # fmt: skip


async def test_a_result_shows_what_was_compared_with_long_values_cut() -> None:
    failed = await result("equals", path="$.text", expected=[1, "b"])
    assert failed == {
        "passed": False,
        "problem": "actual is a text, expected is a list",
        "actual": json.dumps(BODY),
        "expected": [1, "b"],
        "path": "$.text",
        "response": "r1",
    }
    long = await result("equals", actual="a" * 5000, expected=[1] * 5000)
    assert long["actual"] == "a" * MAX_SHOWN_CHARS + "… [cut: 5,000 characters in all]"
    assert long["expected"].endswith(",1… [cut: 10,001 characters in all]")


async def test_no_result_except_of_response_time_has_a_duration() -> None:
    for tool, arguments in PASSING:
        if tool != "response_time":
            assert "12" not in json.dumps(await result(tool, **arguments)), tool


@pytest.mark.shows("003-04")
async def test_assertions_check_the_responses_of_the_http_tools() -> None:
    http = HttpTools()
    toolset = ToolSet([http, AssertTools(http.responses)])
    async with upstream(fixed_length(b'{"id": 7}', status="404 Not Found")) as server:
        await toolset.call("http_get", {"url": server.url, "step": "1"})
        passed = await toolset.call("assert_equals", {"path": "$.json.id", "expected": 7})
        failed = await toolset.call("assert_status", {"expected": "2xx", "expect_failure": True})
        fast = await toolset.call("assert_response_time", {"max_ms": 60_000})
    await toolset.call("http_get", {"url": server.url})
    gone = await toolset.call("assert_status", {"expected": 404})
    await toolset.aclose()
    assert (passed.has_passed, failed.has_passed, failed.is_as_expected) == (True, False, True)
    assert fast.has_passed
    place = server.url.removeprefix("http://")
    assert gone.result == {
        "error": f"the request r2 has no response: connection refused by {place}"
    }


# Schemas


@each_row(
    "schema, value, errors",
    [
        ({"type": "integer"}, "a", [("$", "type", "integer", "a")]),
        (
            {"properties": {"a": {"items": {"minimum": 2}}}}, {"a": [1, 2, 0]},
            [("$.a[0]", "minimum", 2, 1), ("$.a[2]", "minimum", 2, 0)],
        ),
        (
            {"additionalProperties": False, "properties": {"a": {}}}, {"a": 1, "b": 2},
            [("$", "additionalProperties", False, ["b"])],
        ),
        (False, 1, [("$", "false", False, 1)]),
        ({"pattern": "^a+$"}, "b", [("$", "pattern", "^a+$", "b")]),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": 1, "b": 1},
         [("$.ab", "type", "null", 1)]),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], [
            ("$", "uniqueItems", True, [{"a": 1}, {"a": 1.0}])]),
        *(
            ({"format": name}, "a b", [("$", "format", name, "a b")])
            for name in json_schemas._FORMATS
        ),
        ({"const": 1}, True, [("$", "const", 1, True)]),
        ({"enum": ["a"]}, "b", [("$", "enum", ["a"], "b")]),
        ({"items": {"type": "null"}}, [1] * 9, [(f"$[{n}]", "type", "null", 1) for n in range(5)]),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True,
             "minimum": 1}, 1, [("$", "minimum", 1, 1)],
        ),
    ],
)  # fmt: skip
async def test_the_errors_of_a_schema_are_shown_as_values(
    schema: Json, value: Json, errors: list[tuple[str, str, Json, Json]]
) -> None:
    failed = await result("schema", json.dumps(value).encode(), schema=schema)
    keys = ("path", "keyword", "expected", "actual")
    assert failed["errors"] == [dict(zip(keys, error, strict=True)) for error in errors]


@each_row("value", [[1, True], ["1", 1], [[], {}], [None, False, 0], [{"a": [1]}, {"a": [True]}]])
async def test_items_of_different_types_are_unique(value: Json) -> None:
    body = json.dumps(value).encode()
    assert (await result("schema", body, schema={"uniqueItems": True}))["passed"]


@each_row(
    "reference", ["http://127.0.0.1:1/a.json", "https://example.com/a", "file:///etc/passwd", "a"]
)
async def test_a_reference_to_another_document_is_not_fetched(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("network access")

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "connect", connect)
        failed = await result("schema", schema={"$ref": reference})
    assert failed["error"].startswith(f"cannot resolve the reference {reference}; a $ref leads")


async def test_a_recursive_schema_can_describe_recursive_values() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    assert (await result("schema", b"[[[], [[]]]]", schema=schema))["passed"]
    assert not (await result("schema", b"[[[], [1]]]", schema=schema))["passed"]


@each_row(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    ],
)
async def test_a_schema_that_leads_to_itself_is_an_error(schema: Json) -> None:
    failed = await result("schema", schema=schema)
    assert failed["error"] == "the schema is nested too deeply, or a $ref leads to itself"


# What could take long


MANY: Final = json.dumps([{"n": n} for n in range(70_000)]).encode()
LONG: Final = json.dumps("a" * 100_000 + "!").encode()


@each_row(
    "tool, body, arguments",
    [
        ("matches", LONG, {"path": "$.json", "pattern": "^(a+)+$"}),
        ("matches", LONG, {"path": "$.json", "pattern": "(a|a)*$b"}),
        ("header", LONG, {"name": "content-type", "matches": "^(.+)+x$"}),
        ("schema", LONG, {"schema": {"format": "uri"}}),
        ("contains", MANY, {"path": "$.json", "expected": {"n": -1}}),
        ("equals", MANY, {"path": "$.json", "expected": []}),
        ("json_path", MANY, {"path": "$..*..*..*..*"}),
        ("json_path", MANY, {"path": "$[?count($..*) > 1]"}),
        ("json_path", MANY, {"path": "$[?@.n == $[?@.n == 1].n]"}),
        ("schema", json.dumps(["a" * 2_000_000]).encode(), {"schema": True}),
        ("equals", MANY, {"path": "$" + "[0]" * 100_000, "expected": 1}),
        ("equals", MANY, {"path": "$[?" + "(" * 10_000 + "@" + ")" * 10_000 + "]", "expected": 1}),
    ],
)
async def test_no_assertion_takes_long(
    tool: str, body: bytes, arguments: Mapping[str, Any]
) -> None:
    begin = time.monotonic()
    await result(tool, body, **arguments)
    assert time.monotonic() - begin < 5


async def test_deep_arguments_are_an_error_at_most() -> None:
    deep: Json = []
    for _ in range(5000):
        deep = [deep]
    for arguments in ({"actual": deep, "expected": deep}, {"path": "$.json", "expected": deep}):
        assert "error" in await result("equals", **arguments)
    assert "error" in await result("schema", schema={"const": deep})


# The docs


def test_every_tool_and_parameter_is_in_the_docs() -> None:
    page = (Path(__file__).parents[1] / "docs/reference/llm-tests-tools.md").read_text()
    http = HttpTools()
    definitions = ToolSet([http, AssertTools(http.responses)]).definitions()
    names = {str(definition["name"]) for definition in definitions}
    parameters = {name for each in definitions for name in each["inputSchema"]["properties"]}
    first_cells = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    second_cells = set(re.findall(r"^\|(?: `\w+`)? \| `(\w+)`", page, re.MULTILINE))
    assert names <= first_cells
    assert {name for name in first_cells if name.startswith(("http_", "assert_"))} == names
    assert parameters <= first_cells | second_cells


def test_every_tool_and_parameter_is_described_briefly() -> None:
    http = HttpTools()
    for definition in ToolSet([http, AssertTools(http.responses)]).definitions():
        assert 20 < len(definition["description"]) < 260, definition["name"]
        for name, schema in definition["inputSchema"]["properties"].items():
            assert 10 < len(schema["description"]) < 180, name
