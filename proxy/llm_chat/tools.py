"""Tools: functions that the model may call, and how the calls of a turn run.

The JSON Schema of a function's parameters comes from its signature, and the model's arguments are
converted to the types there: a type that msgspec can convert from JSON will do, also a dataclass.

A function that is not a coroutine function runs in a thread of its own, which nothing can stop: if
it exceeds its time limit it is abandoned, and the model gets an error as its result.

Source: owner's document 002, "Turn"; JSON Schema 2020-12.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import copy
import functools
import inspect
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from llm_chat.errors import error_text
from llm_chat.events import ToolCallResult, call_args
from llm_proxy.conversation import ToolDefinition
from llm_proxy.turns import Json, ToolCall

DEFAULT_TIME_LIMIT_S: Final = 60.0
_DEFAULT_CONCURRENCY: Final = 100
"""More threads than this would stall the event loop."""
_CANCEL_GRACE_S: Final = 0.05
"""Seconds that a cancelled tool may take to clean up before it is abandoned."""
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""What providers accept; some allow fewer characters."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its definition, and the function that runs it."""

    definition: ToolDefinition
    run: Callable[[dict[str, Json]], Any]
    """Takes the arguments, returns the result or an awaitable of it."""
    is_async: bool = True
    """Whether `run` returns at once, with an awaitable; else it runs in a thread."""
    time_limit_s: float | None = None
    """Seconds that a call may take; None for the limit of the chat."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.definition.name

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        time_limit_s: float | None = None,
    ) -> Tool:
        """The tool of a function.

        By default it has the function's name, and its docstring as description; a parameter is
        described by `Annotated[str, msgspec.Meta(description="...")]`.  The arguments that a
        `functools.partial` has are not parameters.  Raises `ValueError` for a signature without a
        JSON Schema, and for a name that providers refuse.
        """
        inner = function.func if isinstance(function, functools.partial) else function
        name = name or getattr(inner, "__name__", "")
        if not _TOOL_NAME.fullmatch(name):
            allowed = "1 to 128 letters, digits, '_', '-' and '.'"
            raise ValueError(f"tool {name!r}: a name has {allowed}; set name")
        try:
            parameters = _parameters_struct(function)
            [reference], schemas = msgspec.json.schema_components(
                [parameters], ref_template="#/$defs/{name}"
            )
        except (TypeError, ValueError, NameError) as error:
            raise ValueError(f"tool {name}: {str(error).splitlines()[-1]}") from None
        schema = schemas.pop(reference["$ref"].removeprefix("#/$defs/"))
        del schema["title"]
        if schemas:
            schema["$defs"] = schemas
        description = description or inspect.getdoc(inner) or ""

        def run(args: dict[str, Json]) -> Any:
            converted = msgspec.convert(args, parameters, strict=False)
            return function(
                **{field: getattr(converted, field) for field in converted.__struct_fields__}
            )

        return cls(
            ToolDefinition(name, description, schema),
            run,
            is_async=inspect.iscoroutinefunction(function)
            or inspect.iscoroutinefunction(getattr(function, "__call__", None)),  # noqa: B004 # of an object with `async __call__`
            time_limit_s=time_limit_s,
        )


def _parameters_struct(function: Callable[..., Any]) -> type[msgspec.Struct]:
    """A type whose fields are the function's parameters.  Raises an error for other parameters."""
    given = function.keywords if isinstance(function, functools.partial) else {}
    fields: list[Any] = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.name in given:
            continue
        if parameter.kind in (
            parameter.POSITIONAL_ONLY,
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise ValueError(f"parameter {parameter} cannot be passed by name")
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        field = (parameter.name, annotation)
        default = parameter.default
        if isinstance(default, list | dict | set | bytearray) and default:  # a copy for each call
            default = msgspec.field(default_factory=functools.partial(copy.copy, default))
        fields.append(field if default is parameter.empty else (*field, default))
    return msgspec.defstruct("Parameters", fields, kw_only=True, forbid_unknown_fields=True)


def as_tools(tools: Sequence[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Tools and functions, by name.  Raises `ValueError` for two of the same name."""
    by_name: dict[str, Tool] = {}
    for given in tools:
        tool = given if isinstance(given, Tool) else Tool.from_function(given)
        if tool.name in by_name:
            raise ValueError(f"two tools have the name {tool.name}")
        by_name[tool.name] = tool
    return by_name


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs the calls of a turn."""

    tools: Mapping[str, Tool]
    concurrency: int | None = None
    """How many calls run at the same time; None for all of them, up to `_DEFAULT_CONCURRENCY`."""
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    """Seconds that a call may take, if its tool has no limit of its own."""

    async def run(
        self, calls: Sequence[ToolCall], *, is_cut_off: bool = False
    ) -> AsyncGenerator[ToolCallResult, None]:
        """Run the calls and yield their results in the order of the calls.

        If the response is cut off at its token limit, the last call does not run without arguments:
        they may be what is missing.  Never raises: a failure is a result.  Closing the generator
        cancels the calls.
        """
        slots = asyncio.Semaphore(self.concurrency or _DEFAULT_CONCURRENCY)

        async def run_one(call: ToolCall) -> ToolCallResult:
            if is_cut_off and call is calls[-1] and not call_args(call):
                return _failed_execution(call, "the response was cut off at its token limit")
            async with slots:
                return await self._run_call(call)

        tasks = [asyncio.create_task(run_one(call)) for call in calls]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _run_call(self, call: ToolCall) -> ToolCallResult:
        if (tool := self.tools.get(call.name)) is None:
            return _failure(call, f'Tool "{call.name}" not found')
        if (args := call_args(call)) is None:
            return _failed_execution(call, "the arguments are not a JSON object")
        limit_s = self.time_limit_s if tool.time_limit_s is None else tool.time_limit_s
        task = asyncio.create_task(invoke(tool, args))
        try:
            await asyncio.wait([task], timeout=limit_s)
        finally:
            if is_late := not task.done():
                task.cancel()
                task.add_done_callback(_retrieve_exception)
                await asyncio.wait([task], timeout=_CANCEL_GRACE_S)
        if is_late:
            return _failed_execution(call, f"no result within {limit_s:g} s")
        if task.cancelled():
            return _failed_execution(call, "it was cancelled")
        if (error := task.exception()) is not None:
            return _failed_execution(call, error_text(error))
        return ToolCallResult(call, task.result())


async def invoke(tool: Tool, args: dict[str, Json]) -> Json:
    """The result of a tool as JSON.  An exit is a `RuntimeError`."""
    try:
        result = tool.run(args) if tool.is_async else await _run_in_thread(tool.run, args)
        if inspect.isawaitable(result):
            result = await result
    except SystemExit as error:  # would end the event loop
        raise RuntimeError(f"it called sys.exit({error.code!r})") from None
    plain: Json = msgspec.json.decode(msgspec.json.encode(result))
    return plain


async def _run_in_thread(function: Callable[[dict[str, Json]], Any], args: dict[str, Json]) -> Any:
    """Run a function in a daemon thread, for which neither the event loop nor Python waits."""
    outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(function, args))
        except (StopIteration, KeyboardInterrupt) as error:  # would end the event loop
            outcome.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
        except BaseException as error:  # the thread's outermost frame
            outcome.set_exception(error)

    outcome.set_running_or_notify_cancel()
    threading.Thread(target=work, name="llm-chat tool", daemon=True).start()
    return await asyncio.wrap_future(outcome)


def _retrieve_exception(task: asyncio.Task[Json]) -> None:
    """Keep asyncio from logging the exception of a task that nothing waits for."""
    if not task.cancelled():
        task.exception()


def _failed_execution(call: ToolCall, reason: str) -> ToolCallResult:
    return _failure(call, f"Tool execution failed: {reason}")


def _failure(call: ToolCall, message: str) -> ToolCallResult:
    return ToolCallResult(call, {"error": message}, failed=True)
