"""The tools of one test: built-in families and plugins, and a record of every call.

Built-in families are plugins too, so one rule names all tools: `{family}_{method}`.  Every tool
takes `step` besides its own parameters, and assertions take `label` and `expect_failure`: they are
recorded, and not passed on.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from llm_chat.errors import error_text
from llm_chat.tools import Tool
from llm_proxy.turns import Json
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.plugin_base import LLMPlugin, ToolError

DEFAULT_TOOL_LIMIT_S: Final = 60.0
_CANCEL_GRACE_S: Final = 0.5
_NO_TOOLS: Final = frozenset(("get_tools", "call_tool", "cleanup"))
"""Coroutine methods that are no tools.  Source: owner's document 003, "Tool Registration"."""
_STEP_SCHEMA: Final[Mapping[str, Json]] = {
    "type": "string",
    "description": "The step that the call belongs to: its number, setup or teardown.",
}
_ASSERTION_SCHEMAS: Final[Mapping[str, Mapping[str, Json]]] = {
    "label": {
        "type": "string",
        "description": "Give assertions that repeat until they pass the same label: the last one "
        "counts.",
    },
    "expect_failure": {
        "type": "boolean",
        "description": "Set to true if the assertion must fail.",
    },
}


@dataclass(frozen=True, slots=True)
class _FamilyTool:
    tool: Tool
    is_assertion: bool
    own_parameters: frozenset[str]

    @property
    def added_schemas(self) -> dict[str, Json]:
        """The parameters that are added, unless the tool has one of this name itself."""
        added = {"step": _STEP_SCHEMA, **(_ASSERTION_SCHEMAS if self.is_assertion else {})}
        return {
            name: dict(schema) for name, schema in added.items() if name not in self.own_parameters
        }


class ToolSet:
    """The tools of one test.  Used from one event loop."""

    def __init__(
        self,
        families: Sequence[LLMPlugin],
        *,
        on_call: Callable[[ToolCallRecord], None] = lambda _: None,
        time_limit_s: float = DEFAULT_TOOL_LIMIT_S,
    ) -> None:
        """`families` are those of `plugins.tool_families`.

        `on_call` gets each call after it has ended.  Raises `ValueError` for a method without a
        JSON Schema, and for two tools of the same name.
        """
        self.calls: list[ToolCallRecord] = []
        self._families = families
        self._on_call = on_call
        self._time_limit_s = time_limit_s
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
            schema["properties"] = {
                **schema.get("properties", {}), **family_tool.added_schemas,
            }  # fmt: skip
            definitions.append(
                {"name": name, "description": definition.description, "inputSchema": schema}
            )
        return definitions

    async def call(self, name: str, arguments: Mapping[str, Json]) -> ToolCallRecord:
        """Call a tool and record the call.  Never raises: a failure is a result."""
        begin = time.monotonic()
        own = dict(arguments)
        family_tool = self._tools.get(name)
        added = {
            field: own.pop(field)
            for field in (family_tool.added_schemas if family_tool else {"step": None})
            if field in own
        }
        has_passed: bool | None = None
        is_error = False
        result: Json
        if family_tool is None:
            known = ", ".join(self._tools)
            result, is_error = {"error": f"unknown tool {name}; the tools are: {known}"}, True
        else:
            if family_tool.is_assertion:
                has_passed = False
            try:
                result = await self._run(family_tool.tool, own)
                if family_tool.is_assertion:
                    has_passed = isinstance(result, dict) and result.get("passed") is True
            except AssertionError as error:
                result, has_passed = {"passed": False, "error": error_text(error)}, False
            except (Exception, SystemExit) as error:  # of the project's own plugin
                result, is_error = {"error": _failure_text(error)}, True
        record = ToolCallRecord(
            number=len(self.calls) + 1,
            tool=name,
            arguments=own,
            result=result,
            step=str(added.get("step", "")),
            is_error=is_error,
            has_passed=has_passed,
            label=str(added.get("label", "")),
            expect_failure=added.get("expect_failure") is True,
            duration_ms=(time.monotonic() - begin) * 1000,
        )
        self.calls.append(record)
        self._on_call(record)
        return record

    async def _run(self, tool: Tool, arguments: dict[str, Json]) -> Json:
        """The result of a tool as JSON.  A tool that ignores its cancellation is abandoned."""
        task = asyncio.ensure_future(tool.run(arguments))
        try:
            await asyncio.wait([task], timeout=self._time_limit_s)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=_CANCEL_GRACE_S)
        if not task.done() or task.cancelled():
            raise TimeoutError(f"no result within {self._time_limit_s:g} s")
        plain: Json = msgspec.json.decode(msgspec.json.encode(task.result()))
        return plain

    async def aclose(self) -> None:
        """Clean up every family, also if one of them fails."""
        for family in reversed(self._families):
            try:
                async with asyncio.timeout(self._time_limit_s):
                    await family.cleanup()
            except (Exception, SystemExit) as error:  # of the project's own plugin
                self._on_call(
                    ToolCallRecord(
                        len(self.calls) + 1, f"{family.name}.cleanup", {},
                        {"error": _failure_text(error)}, step="teardown", is_error=True,
                    )
                )  # fmt: skip


def _family_tools(family: LLMPlugin) -> dict[str, _FamilyTool]:
    """The public coroutine methods of a family, by the names of their tools."""
    tools: dict[str, _FamilyTool] = {}
    for method_name in dir(family):
        if method_name.startswith("_") or method_name in _NO_TOOLS:
            continue
        method = getattr(family, method_name)
        if inspect.iscoroutinefunction(method):
            tool = Tool.from_function(method, name=f"{family.name}_{method_name}")
            tools[tool.name] = _FamilyTool(
                tool,
                is_assertion=family.name == "assert",
                own_parameters=frozenset(inspect.signature(method).parameters),
            )
    return tools


def _failure_text(error: BaseException) -> str:
    """The message of an exception of a plugin, with its type unless it is a `ToolError`."""
    if isinstance(error, ToolError):
        return error_text(error)
    return f"{type(error).__name__}: {error_text(error)}"
