"""Tools: the schema of a function, the arguments of a call, time limits and failures."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import functools
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Literal

import msgspec
import pytest

from case_tables import each_row
from llm_chat import Tool, ToolCallResult, ToolDefinition
from llm_chat.tools import ToolRunner, as_tools
from llm_proxy.turns import Json, ToolCall
from mock_providers import all_of, make_call, pending_tasks

# Schemas


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


@dataclass
class Place:
    """Where it is."""

    city: str
    country: str = "NO"


def schema_of(function: Callable[..., Any]) -> Json:
    """The schema of a function's parameters."""
    return Tool.from_function(function, name="tool").definition.parameters_schema


def annotated(annotation: Any, *default: Any) -> Callable[..., Any]:
    """A function with one parameter `x`, which it returns."""

    def tool(x: Any) -> Any:
        return x

    tool.__annotations__["x"] = annotation
    tool.__defaults__ = default
    return tool


UNIT_REFERENCE: Final = {"$ref": "#/$defs/Unit"}
UNIT: Final = {"title": "Unit", "enum": ["c", "f"]}


@pytest.mark.shows("002-05")
@each_row(
    "annotation, schema",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (date, {"type": "string", "format": "date"}),
        (Any, {}),
        (
            Annotated[str, msgspec.Meta(description="A city.", min_length=1)],
            {"type": "string", "description": "A city.", "minLength": 1},
        ),
        ("int", {"type": "integer"}),
    ],
)
def test_a_parameter_has_the_schema_of_its_type(annotation: Any, schema: Json) -> None:
    assert schema_of(annotated(annotation)) == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }


def test_types_with_a_name_are_definitions() -> None:
    def tool(unit: Unit, place: Place) -> None: ...

    assert schema_of(tool) == {
        "type": "object",
        "properties": {"unit": UNIT_REFERENCE, "place": {"$ref": "#/$defs/Place"}},
        "required": ["unit", "place"],
        "additionalProperties": False,
        "$defs": {
            "Unit": UNIT,
            "Place": {
                "title": "Place",
                "description": "Where it is.",
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "country": {"type": "string", "default": "NO"},
                },
                "required": ["city"],
            },
        },
    }


@each_row(
    "default, schema",
    [
        ("Oslo", {"default": "Oslo"}),
        (None, {"default": None}),
        ([], {"default": []}),
        ({}, {"default": {}}),
        (Unit.CELSIUS, {"default": "c"}),
        ([1], {}),
        ({"a": 1}, {}),
        ({1}, {}),
    ],
)
def test_a_parameter_with_a_default_is_optional(default: Any, schema: dict[str, Json]) -> None:
    parameters = schema_of(annotated(Any, default))

    assert isinstance(parameters, dict)
    assert (parameters["properties"], parameters["required"]) == ({"x": schema}, [])


class Thermometer:
    """Measures."""

    unit = Unit.CELSIUS

    def read(self, place: str) -> str:
        """Read it."""
        return f"{place}: 3"

    async def __call__(self, place: str) -> str:
        return f"{place}: 4"


async def read_later(place: str) -> str:
    """Read it later."""
    return f"{place}: 5"


def read_here(key: str, place: str, *, unit: str = "c") -> str:
    """Read it here."""
    return f"{key} {place}: 6 {unit}"


def call_through(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function that wraps another, as decorators do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def run_to_its_end(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function that runs a coroutine function in an event loop of its own."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return wrapper


@each_row(
    "function, name, description, result",
    [
        (Thermometer().read, "read", "Read it.", "Oslo: 3"),
        (Thermometer(), "thermometer", "Measures.", "Oslo: 4"),
        (read_later, "read_later", "Read it later.", "Oslo: 5"),
        (call_through(read_later), "read_later", "Read it later.", "Oslo: 5"),
        (run_to_its_end(read_later), "read_later", "Read it later.", "Oslo: 5"),
        (functools.partial(read_later), "read_later", "Read it later.", "Oslo: 5"),
        (functools.partial(read_here, "a"), "read_here", "Read it here.", "a Oslo: 6 c"),
        (functools.partial(read_here, key="a"), "read_here", "Read it here.", "a Oslo: 6 c"),
        (
            functools.partial(functools.partial(read_here, "a"), unit="f"),
            "read_here",
            "Read it here.",
            "a Oslo: 6 f",
        ),
        (lambda place: f"{place}: 7", "lambda", "", "Oslo: 7"),
    ],
)
async def test_every_kind_of_callable_can_be_a_tool(
    function: Callable[..., Any], name: str, description: str, result: str
) -> None:
    is_named = getattr(function, "__name__", "") == name or isinstance(function, functools.partial)
    tool = Tool.from_function(function, name="" if is_named else name)

    assert (tool.name, tool.definition.description) == (name, description)
    assert await results_of([tool], make_call(name, place="Oslo")) == [result]


def test_arguments_that_are_given_are_no_parameters() -> None:
    """A key that an application gives with `partial` is not shown to the model."""
    tool = Tool.from_function(functools.partial(read_here, key="canary", unit="canary"))

    assert tool.definition.parameters_schema == {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    }


def test_a_name_and_a_description_can_be_set() -> None:
    tool = Tool.from_function(read_later, name="read-it", description="Reads.", time_limit_s=5)

    assert tool.definition == ToolDefinition(
        "read-it", "Reads.", Tool.from_function(read_later).definition.parameters_schema
    )
    assert tool.time_limit_s == 5


def positional(x: int, /) -> None: ...


def variable(*x: int) -> None: ...


def keywords(**x: int) -> None: ...


NAME_RULE: Final = "a name has 1 to 128 letters, digits, '_', '-' and '.'; set name"


@each_row(
    "function, message",
    [
        (positional, "tool positional: parameter x: int cannot be passed by name"),
        (variable, "tool variable: parameter *x: int cannot be passed by name"),
        (keywords, "tool keywords: parameter **x: int cannot be passed by name"),
        (annotated(complex), "tool tool: type <class 'complex'> is not supported"),
        (annotated("Missing"), "tool tool: name 'Missing' is not defined"),
        (annotated(Any, object()), "tool tool: Encoding objects of type object is unsupported"),
        (int, "tool int: no signature found for builtin type <class 'int'>"),
        (lambda: None, f"tool '<lambda>': {NAME_RULE}"),
        (Thermometer(), f"tool '': {NAME_RULE}"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 # the message is compared below
        Tool.from_function(function)
    assert str(caught.value) == message


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^two tools have the name read_later$"):
        as_tools([read_later, Tool.from_function(read_here, name="read_later")])


# Calls


async def run_calls(
    tools: Sequence[Tool | Callable[..., Any]],
    calls: Sequence[ToolCall],
    concurrency: int | None = None,
    time_limit_s: float = 20.0,
) -> list[ToolCallResult]:
    """Run calls and return their results."""
    return await all_of(ToolRunner(as_tools(tools), concurrency, time_limit_s).run(calls))


async def results_of(
    tools: Sequence[Tool | Callable[..., Any]], *calls: ToolCall, **options: Any
) -> list[Json]:
    """The results of calls."""
    return [event.result for event in await run_calls(tools, calls, **options)]


def failed(message: str) -> Json:
    """The result of a call that failed."""
    return {"error": f"Tool execution failed: {message}"}


@each_row(
    "annotation, value, result",
    [
        (int, "5", 5),
        (int, 5.0, 5),
        (float, 5, 5.0),
        (bool, "true", True),
        (str, "5", "5"),
        (date, "2026-07-02", "2026-07-02"),
        (Unit, "c", "c"),
        (Place, {"city": "Oslo", "country": "N"}, {"city": "Oslo", "country": "N"}),
        (list[Place], [{"city": "Oslo", "country": "N"}], [{"city": "Oslo", "country": "N"}]),
        (Any, {"a": [None]}, {"a": [None]}),
        (int, "five", failed("Expected `int`, got `str` - at `$.x`")),
        (int, None, failed("Expected `int`, got `null` - at `$.x`")),
        (Unit, "k", failed("Invalid enum value 'k' - at `$.x`")),
        (Place, {}, failed("Object missing required field `city` - at `$.x`")),
        (
            Annotated[str, msgspec.Meta(min_length=1)],
            "",
            failed("Expected `str` of length >= 1 - at `$.x`"),
        ),
    ],
)
async def test_arguments_are_converted(annotation: Any, value: Json, result: Json) -> None:
    assert await results_of([annotated(annotation)], make_call("tool", x=value)) == [result]


@each_row(
    "arguments, message",
    [
        ("{}", "Object missing required field `x`"),
        ('{"x": 1, "y": 2}', "Object contains unknown field `y`"),
        ("[1]", "the arguments are not a JSON object"),
        ('{"x": ', "the arguments are not a JSON object"),
        ("null", "the arguments are not a JSON object"),
        ("", "Object missing required field `x`"),
    ],
)
async def test_arguments_that_do_not_fit_are_reported(arguments: str, message: str) -> None:
    call = ToolCall("call-1", "tool", arguments)

    assert await results_of([annotated(int)], call) == [failed(message)]


async def test_a_default_is_not_shared_by_calls() -> None:
    def collect(item: int, items: list[int] = [0]) -> list[int]:  # noqa: B006 # the case
        items.append(item)
        return items

    calls = [make_call("collect", item=item) for item in (1, 2)]

    assert await results_of([collect], *calls) == [[0, 1], [0, 2]]


class Opaque:
    """A value that is not JSON."""


def cyclic() -> list[Any]:
    """A list that contains itself."""
    values: list[Any] = []
    values.append(values)
    return values


def generate() -> Iterator[int]:
    yield 1


async def generate_later() -> AsyncIterator[int]:
    yield 1


@each_row(
    "value, result",
    [
        (None, None),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (Unit.CELSIUS, "c"),
        (Place("Oslo"), {"city": "Oslo", "country": "NO"}),
        (date(2026, 7, 2), "2026-07-02"),
        ({1: "a"}, {"1": "a"}),
        (b"\x00\xff", "AP8="),
        (float("nan"), None),
        ("a\u2028é😀", "a\u2028é😀"),
        (Opaque(), failed("Encoding objects of type Opaque is unsupported")),
        (object, failed("Encoding objects of type type is unsupported")),
        (ValueError("x"), failed("Encoding objects of type ValueError is unsupported")),
    ],
)
async def test_a_result_is_made_json(value: Any, result: Json) -> None:
    async def tool() -> Any:
        return value

    assert await results_of([tool], make_call("tool")) == [result]


@each_row(
    "function, message",
    [
        (cyclic, "maximum recursion depth exceeded"),
        (generate, "Encoding objects of type generator is unsupported"),
        (generate_later, "Encoding objects of type async_generator is unsupported"),
        (lambda: 10**5000, "Exceeds the limit"),
        (lambda: "\ud800", "can't encode character"),
    ],
)
async def test_a_result_that_is_not_json_is_a_failure(
    function: Callable[..., Any], message: str
) -> None:
    [result] = await results_of([Tool.from_function(function, name="tool")], make_call("tool"))

    assert isinstance(result, dict)
    assert message in str(result["error"])


async def test_a_huge_result_is_kept_whole() -> None:
    def huge() -> list[str]:
        return ["x" * 1000] * 20_000

    assert await results_of([huge], make_call("huge")) == [huge()]


# Failures


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@each_row(
    "error, message",
    [
        (ValueError("bad"), "bad"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "'x'"),
        (UnprintableError(), "UnprintableError"),
        (ValueError("\ud800"), "\\ud800"),
        (SystemExit(3), "it called sys.exit(3)"),
        (SystemExit(), "it called sys.exit(None)"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "it was cancelled"),
        (TimeoutError("own limit"), "own limit"),
        (BaseExceptionGroup("many", [ValueError("bad")]), "many (1 sub-exception)"),
        (RecursionError("deep"), "deep"),
    ],
)
@each_row("is_async", [True, False])
async def test_whatever_a_tool_raises_is_its_result(
    error: BaseException, message: str, is_async: bool
) -> None:
    assert await results_with_failure(error, is_async=is_async) == [failed(message), "works"]


async def results_with_failure(error: BaseException, *, is_async: bool) -> list[Json]:
    """The results of a tool that raises this, and of one that works."""

    def fail() -> None:
        raise error

    async def fail_later() -> None:
        raise error

    tool = Tool.from_function(fail_later if is_async else fail, name="fail")
    works = Tool.from_function(lambda: "works", name="works")
    return await results_of([tool, works], make_call("fail"), make_call("works", "call-2"))


@each_row(
    "error, is_async, message",
    [
        (StopIteration("x"), True, "coroutine raised StopIteration"),
        (StopIteration("x"), False, "StopIteration: x"),
        (StopAsyncIteration("x"), True, "x"),
        (KeyboardInterrupt(), False, "KeyboardInterrupt: "),
    ],
)
async def test_exceptions_that_asyncio_treats_differently_are_results_too(
    error: BaseException, is_async: bool, message: str
) -> None:
    """A `KeyboardInterrupt` in the event loop's own thread is the user's, and ends the program."""
    assert await results_with_failure(error, is_async=is_async) == [failed(message), "works"]


async def test_a_call_of_an_unknown_tool_names_it() -> None:
    assert await results_of([read_later], make_call("read_sooner")) == [
        {"error": 'Tool "read_sooner" not found'}
    ]


# Time limits


async def test_an_async_tool_is_cancelled_at_its_limit() -> None:
    cancelled = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert await results_of([hang], make_call("hang"), time_limit_s=0.01) == [
        failed("no result within 0.01 s")
    ]
    assert cancelled.is_set()
    assert pending_tasks() == set()


async def test_a_tool_that_ignores_its_cancellation_is_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = asyncio.Event()

    async def ignore() -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("too late")

    assert await results_of([ignore], make_call("ignore"), time_limit_s=0.01) == [
        failed("no result within 0.01 s")
    ]
    [abandoned] = pending_tasks()
    released.set()
    await asyncio.wait([abandoned])
    del abandoned
    assert caplog.records == []


async def test_a_tool_that_fails_when_it_is_cancelled_has_exceeded_its_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("cannot clean up")

    assert await results_of([fail_late], make_call("fail_late"), time_limit_s=0.01) == [
        failed("no result within 0.01 s")
    ]
    assert caplog.records == []


async def test_a_sync_tool_is_abandoned_at_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "asyncio")
    released, ended = threading.Event(), threading.Event()

    def hang() -> str:
        released.wait()
        ended.set()
        return "too late"

    def work() -> str:
        return "works"

    calls = [make_call("hang"), make_call("work", "call-2")]
    assert await results_of([hang, work], *calls, time_limit_s=0.01) == [
        failed("no result within 0.01 s"),
        "works",
    ]
    assert pending_tasks() == set()
    assert not ended.is_set()
    released.set()
    assert await asyncio.to_thread(ended.wait, 20)
    assert caplog.records == []


async def test_a_tool_may_have_a_limit_of_its_own() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    tool = Tool.from_function(hang, time_limit_s=0.01)

    assert await results_of([tool], make_call("hang"), time_limit_s=60.0) == [
        failed("no result within 0.01 s")
    ]


def test_an_abandoned_thread_does_not_keep_python_from_ending() -> None:
    program = """
import asyncio, threading
from llm_chat.tools import ToolRunner, as_tools
from llm_proxy.turns import ToolCall

def hang():
    threading.Event().wait()

async def main():
    async for event in ToolRunner(as_tools([hang]), time_limit_s=0.01).run(
        [ToolCall("call-1", "hang", "{}")]
    ):
        print(event.result)

asyncio.run(main())
print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines() == [str(failed("no result within 0.01 s")), "ended"]
    assert done.stderr == ""


# Concurrency


@each_row("concurrency, most_at_once", [(1, 1), (2, 2), (3, 3), (9, 5), (None, 5)])
@each_row("is_async", [True, False])
async def test_no_more_calls_run_at_the_same_time_than_allowed(
    concurrency: int | None, most_at_once: int, is_async: bool
) -> None:
    """Those that are allowed all run; they begin in the order of the calls."""
    running: set[int] = set()
    begun: list[int] = []
    counts: list[int] = []
    gate = threading.Barrier(most_at_once, timeout=20) if 5 % most_at_once == 0 else None
    async_gate = asyncio.Barrier(most_at_once) if gate else None

    def begin(number: int) -> None:
        running.add(number)
        begun.append(number)
        counts.append(len(running))

    async def work_later(number: int) -> int:
        begin(number)
        await (async_gate.wait() if async_gate else asyncio.sleep(0))
        running.remove(number)
        return number

    def work(number: int) -> int:
        begin(number)
        if gate:
            gate.wait()
        running.remove(number)
        return number

    tool = Tool.from_function(work_later if is_async else work, name="work")
    calls = [make_call("work", f"call-{number}", number=number) for number in range(5)]

    assert await results_of([tool], *calls, concurrency=concurrency) == [0, 1, 2, 3, 4]
    assert max(counts) <= most_at_once
    assert max(counts) == most_at_once or not gate
    if is_async or most_at_once == 1:
        assert begun == [0, 1, 2, 3, 4]


async def test_a_call_that_waits_for_its_turn_does_not_use_up_its_time() -> None:
    first_is_late = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            first_is_late.set()

    async def work() -> bool:
        return first_is_late.is_set()

    calls = [make_call("hang"), make_call("work", "call-2")]

    assert await results_of([hang, work], *calls, concurrency=1, time_limit_s=0.02) == [
        failed("no result within 0.02 s"),
        True,
    ]


@each_row("is_async", [True, False])
async def test_a_tool_sees_the_context_of_the_chat(is_async: bool) -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    def read() -> str:
        return user.get()

    async def read_it_later() -> str:
        return user.get()

    user.set("alice")
    tool = Tool.from_function(read_it_later if is_async else read, name="read")

    assert await results_of([tool], make_call("read")) == ["alice"]


async def test_closing_the_results_cancels_the_calls() -> None:
    running: set[str] = set()
    begun = asyncio.Event()

    async def hang() -> None:
        running.add("hang")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            running.remove("hang")

    async def work() -> str:
        await begun.wait()
        return "works"

    calls = [make_call("work"), make_call("hang", "call-2")]
    results = ToolRunner(as_tools([hang, work])).run(calls)
    assert (await anext(results)).result == "works"
    await results.aclose()

    assert running == set()
    assert pending_tasks() == set()
