"""The tools of one test: built-in families and plugins, and a record of every call.

Built-in families are plugins too, so one rule names all tools: `{family}_{method}`.  Every tool
takes `step` besides its own parameters, and assertions take `label` and `expect_failure`: they are
recorded, and not passed on.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from llm_chat.errors import error_text
from llm_chat.tools import Tool, invoke
from llm_proxy.turns import Json
from llm_pytest.errors import LLMTestError, PluginFailed
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.plugin_base import LLMPlugin, ToolError
from llm_pytest.plugins import PLUGINS_FOLDER, load_plugins
from llm_pytest.secrets import Secrets
from llm_pytest.tools.assertions import AssertTools
from llm_pytest.tools.http import HttpTools

DEFAULT_TOOL_LIMIT_S: Final = 65.0
"""Longer than the longest timeout of `http_*`, whose own error is clearer."""
_CANCEL_GRACE_S: Final = 0.5
_INTERRUPTED: Final = "interrupted at the end of the test"
_NO_TOOLS: Final = frozenset(("get_tools", "call_tool", "cleanup"))
"""Coroutine methods that are no tools.  Source: owner's document 003, "Tool Registration"."""
_STEP_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "string",
    "description": "The step that the call belongs to: its number, setup or teardown.",
}
_LABEL_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "string",
    "description": "Give checks that repeat until they pass the same label: the last one counts.",
}
_EXPECT_FAILURE_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "boolean",
    "description": "Set to true if the assertion must fail.",
}


@dataclass(frozen=True, slots=True)
class _FamilyTool:
    tool: Tool
    family: str
    own_parameters: frozenset[str]

    @property
    def is_assertion(self) -> bool:
        """Whether its result is that of an assertion."""
        return self.family == AssertTools.name

    @property
    def is_built_in(self) -> bool:
        """Whether it is no tool of a plugin."""
        return self.family in (HttpTools.name, AssertTools.name)

    @property
    def added_schemas(self) -> dict[str, Json]:
        """The parameters that are added, unless the tool has one of this name itself."""
        added = {"step": _STEP_SCHEMA}
        if self.family != HttpTools.name:  # a tool of a plugin can be a check, too
            added["label"] = _LABEL_SCHEMA
        if self.is_assertion:
            added["expect_failure"] = _EXPECT_FAILURE_SCHEMA
        return {
            name: dict(schema) for name, schema in added.items() if name not in self.own_parameters
        }


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a call ended."""

    result: Json
    is_error: bool = False
    has_passed: bool | None = None


class ToolSet:
    """The tools of one test.  Used from one event loop."""

    def __init__(
        self,
        families: Sequence[LLMPlugin],
        *,
        on_call: Callable[[ToolCallRecord], None] = lambda _: None,
        time_limit_s: float = DEFAULT_TOOL_LIMIT_S,
        secrets: Secrets | None = None,
    ) -> None:
        """`families` have the names of their tools' prefixes: those of `make_toolset`.

        `on_call` gets each call after it has ended.  Raises `ValueError` for a method without a
        JSON Schema, and for two tools of the same name.
        """
        self.calls: list[ToolCallRecord] = []
        self.running = ""
        """The tool that runs; empty if none does."""
        self._families = families
        self._on_call = on_call
        self._time_limit_s = time_limit_s
        self._secrets = secrets or Secrets()
        self._tools: dict[str, _FamilyTool] = {}
        for family in families:
            for name, tool in _family_tools(family).items():
                if name in self._tools:
                    raise ValueError(f"two tools have the name {name}")
                self._tools[name] = tool

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as MCP describes them: `name`, `description` and `inputSchema`."""
        definitions = []
        for name, family_tool in self._tools.items():
            definition = family_tool.tool.definition
            schema: dict[str, Any] = dict(cast("Any", definition.parameters_schema))
            parameters = schema.get("properties", {}) | family_tool.added_schemas
            schema["properties"] = {
                name: _without_null(parameter) for name, parameter in parameters.items()
            }
            if "step" in family_tool.added_schemas:
                schema["required"] = [*schema.get("required", []), "step"]
            definitions.append(
                {"name": name, "description": definition.description, "inputSchema": schema}
            )
        return definitions

    async def call(self, name: str, arguments: Mapping[str, Json]) -> ToolCallRecord:
        """Call a tool and record the call.  A failure is a result."""
        family_tool = self._tools.get(name)
        own = dict(arguments)
        added_names = ("step",) if family_tool is None else family_tool.added_schemas
        added = {field: own.pop(field) for field in added_names if field in own}
        begin = time.monotonic()
        self.running = name
        try:
            outcome = await self._outcome(name, family_tool, own)
        except asyncio.CancelledError:
            self._record(name, own, added, _Outcome({"error": _INTERRUPTED}, is_error=True), begin)
            raise
        return self._record(name, own, added, outcome, begin)

    async def _outcome(
        self, name: str, family_tool: _FamilyTool | None, arguments: dict[str, Json]
    ) -> _Outcome:
        if family_tool is None:
            known = ", ".join(self._tools)
            return _Outcome(
                {"error": f"unknown tool {name}; the tools are: {known}"}, is_error=True
            )
        try:
            result = await self._run(family_tool.tool, self._secrets.insert(arguments))
            result = _in_order(result, keeps_members=family_tool.is_built_in)
        except asyncio.CancelledError:
            raise
        except AssertionError as error:
            return _Outcome({"passed": False, "error": error_text(error)}, has_passed=False)
        except BaseException as error:  # of the project's own plugin
            # `pytest.fail`, for example, is no `Exception`.
            is_check = family_tool.is_assertion or not isinstance(error, Exception)
            has_passed = False if is_check else None
            return _Outcome({"error": _failure_text(error)}, is_error=True, has_passed=has_passed)
        if not family_tool.is_assertion:
            return _Outcome(result)
        return _Outcome(
            result, has_passed=isinstance(result, dict) and result.get("passed") is True
        )

    def record_refusal(self, name: str, result: Json) -> None:
        """Record a call that was refused before it came here: of an unknown tool, for example."""
        self._record(name, {}, {}, _Outcome(result, is_error=True), time.monotonic())

    def _record(
        self,
        name: str,
        arguments: dict[str, Json],
        added: Mapping[str, Json],
        outcome: _Outcome,
        begin: float,
    ) -> ToolCallRecord:
        label = str(added.get("label") or "")
        has_passed = outcome.has_passed
        if label and has_passed is None and not outcome.is_error:
            has_passed = True  # of a plugin, whose assertions only fail
        record = ToolCallRecord(
            number=len(self.calls) + 1,
            tool=name,
            arguments=self._secrets.hide_known(arguments),
            result=self._secrets.hide(outcome.result),
            step=str(added.get("step") or ""),
            is_error=outcome.is_error,
            has_passed=has_passed,
            label=label,
            expect_failure=added.get("expect_failure") is True,
            duration_ms=(time.monotonic() - begin) * 1000,
        )
        self.running = ""
        self.calls.append(record)
        self._on_call(record)
        return record

    async def _run(self, tool: Tool, arguments: dict[str, Json]) -> Json:
        """The result of a tool as JSON.  A tool that ignores its cancellation is abandoned."""
        task = asyncio.ensure_future(_invoked(tool, arguments))
        try:
            await asyncio.wait([task], timeout=self._time_limit_s)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=_CANCEL_GRACE_S)
        if not task.done() or task.cancelled():
            raise TimeoutError(f"no result within {self._time_limit_s:g} s")
        return task.result()

    async def aclose(self) -> None:
        """Clean up every family, also if one of them fails."""
        for family in reversed(self._families):
            begin = time.monotonic()
            try:
                async with asyncio.timeout(self._time_limit_s):
                    await family.cleanup()
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # of the project's own plugin
                outcome = _Outcome({"error": _failure_text(error)}, is_error=True)
                self._record(f"{family.name}.cleanup", {}, {"step": "teardown"}, outcome, begin)


def make_toolset(
    root: Path,
    allowed_hosts: Sequence[str] = (),
    on_call: Callable[[ToolCallRecord], None] = lambda _: None,
    secrets: Secrets | None = None,
) -> ToolSet:
    """The tools of one test in a project.

    Raises `PluginFailed`, and `LLMTestError` for an allowed host that is invalid.
    """
    secrets = secrets or Secrets()
    try:
        http = HttpTools(allowed_hosts, secrets)
    except ValueError as error:
        raise LLMTestError(f"allowed_hosts: {error}") from None
    families = [http, AssertTools(http.responses), *load_plugins(root)]
    try:
        return ToolSet(families, on_call=on_call, secrets=secrets)
    except ValueError as error:
        raise PluginFailed(f"{root / PLUGINS_FOLDER}: {error}") from None


def _family_tools(family: LLMPlugin) -> dict[str, _FamilyTool]:
    """The public coroutine methods of a family, by the names of their tools."""
    tools: dict[str, _FamilyTool] = {}
    for method_name in dir(family):
        if method_name.startswith("_") or method_name in _NO_TOOLS:
            continue
        attribute = inspect.getattr_static(family, method_name)  # runs no property
        if inspect.iscoroutinefunction(getattr(attribute, "__func__", attribute)):
            method = getattr(family, method_name)
            tool = Tool.from_function(method, name=f"{family.name}_{method_name}")
            parameters = frozenset(inspect.signature(method).parameters)
            tools[tool.name] = _FamilyTool(tool, family.name, parameters)
    return tools


def _in_order(result: Json, *, keeps_members: bool) -> Json:
    """A result with sorted members: what a program sends may have another order in each run.

    With `keeps_members`, those of the result itself keep their order.
    """
    if keeps_members and isinstance(result, dict):
        return {name: _in_order(value, keeps_members=False) for name, value in result.items()}
    plain: Json = json.loads(json.dumps(result, sort_keys=True))
    return plain


async def _invoked(tool: Tool, arguments: dict[str, Json]) -> Json:
    try:
        return await invoke(tool, arguments)
    except KeyboardInterrupt:  # would end the event loop
        raise RuntimeError("it raised KeyboardInterrupt") from None


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be left out, without null as its value and default."""
    match schema:
        case {"anyOf": [inner, {"type": "null"}], "default": None}:
            others = [each for each in schema.items() if each[0] not in {"anyOf", "default"}]
            return {**dict(others), **inner}
        case _:
            return schema


def _failure_text(error: BaseException) -> str:
    """The message of an exception of a plugin, with its type unless it is a `ToolError`."""
    if isinstance(error, ToolError):
        return error_text(error)
    return f"{type(error).__name__}: {error_text(error)}"
