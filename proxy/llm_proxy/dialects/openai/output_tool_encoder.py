"""The items of tools among the output of OpenAI's Responses, made from calls and their results."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import output_capabilities
from llm_proxy.dialects.openai.output_item_decoder import ASKED, OUTPUTS
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, ToolCall, ToolResult

FUNCTION: Final = "function_call"
"""A call that waits for its caller."""
PROVIDED: Final = "mcp_call"
"""A call of anybody's tool that came with its result."""

_SPELLED: Final = {
    FUNCTION: "arguments",
    PROVIDED: "arguments",
    "mcp_approval_request": "arguments",
    "custom_tool_call": "input",
}
"""Where the text stands that the model wrote."""
_OBJECTS: Final = {
    "tool_search_call": "arguments",
    "web_search_call": "action",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""Where the object stands that the text spells."""
_FIELDS: Final = frozenset(
    (
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "program",
    )
)
"""Items whose own fields are those of the object."""

_LISTS: Final = {
    "code_interpreter_call": "outputs",
    "file_search_call": "results",
    "mcp_list_tools": "tools",
    "tool_search_output": "tools",
    "additional_tools": "tools",
}
"""Where a list of what came back stands; anything else is in `output`."""
_TEXTS: Final = {"program_output": "result"}
"""Where its text stands."""

_NAMED_BY_ID: Final = _FIELDS - {"program"} | {PROVIDED, "web_search_call", "mcp_approval_request"}
"""Items without a `call_id`, whose own id is that of the call."""
_HAS_NAME: Final = frozenset(_SPELLED)
_NO_STATUS: Final = frozenset(("mcp_list_tools", "mcp_approval_request", "program"))
"""Tools whose items don't say how far they are."""

_SERVER: Final = "tools"
"""The MCP server of a tool that says of none."""
_FILLED: Final[dict[str, Document]] = {
    PROVIDED: {
        "approval_request_id": None,
        "error": None,
        "output": None,
        "server_label": _SERVER,
    },
    "mcp_list_tools": {"tools": [], "server_label": _SERVER},
    "mcp_approval_request": {"server_label": _SERVER},
    "file_search_call": {"queries": [], "results": None},
    "code_interpreter_call": {"outputs": []},
}
"""What stands in an item that says nothing of it."""


def called(call: ToolCall, result: ToolResult | None) -> Document:
    """The item of a call, with what came of it where that stands in the same item."""
    kind = output_capabilities.kind_of(call) or (FUNCTION if result is None else PROVIDED)
    beside: Document = {name: it for name, it in call.metadata if name != "type"}
    failed = None if result is None else result.failed or bool(_error(result))
    item = _begun(kind, beside, failed=failed)
    if kind in _NAMED_BY_ID:
        item["id"] = call.id
    else:
        item["call_id"] = call.id
    if kind in _HAS_NAME or call.name not in ("", kind.removesuffix("_call")):
        item["name"] = call.name or kind.removesuffix("_call")
    answered = {} if result is None else _answered(kind, result)
    return {**item, **_FILLED.get(kind, {}), **_asked(kind, call.arguments), **answered, **beside}


def resulted(result: ToolResult) -> Document:
    """The item of a result that stands beside its call."""
    kind = output_capabilities.kind_of(result) or f"{FUNCTION}_output"
    beside: Document = {name: it for name, it in result.metadata if name not in ("type", "error")}
    error = {"error": _error(result)} if _error(result) else {}
    is_told = bool(error) and beside.get("status") != "failed"
    item = _begun(kind, beside, failed=result.failed and not is_told)
    item["call_id"] = result.call_id or None
    named_so = kind.removesuffix("_output").removesuffix("_call")
    if result.name not in ("", named_so):
        item["name"] = lenient_json.joined([result.name])
    return {**item, **_gave(kind, result.content), **error, **beside}


def _begun(kind: str, beside: Document, *, failed: bool | None) -> Document:
    """An item's id, type and status, which are taken from what stands beside it.

    `failed` is None where nothing but the status says.
    """
    said = beside.pop("status", None)
    status = "failed" if failed else (None if said == "failed" and failed is False else said)
    item: Document = {"id": beside.pop("id", None), "type": kind}
    if status or kind not in _NO_STATUS:
        item["status"] = status or "completed"
    return item


def _asked(kind: str, arguments: str) -> Document:
    """The fields that say what a tool was asked."""
    if kind in _SPELLED:
        return {_SPELLED[kind]: arguments}
    if arguments in ("", "{}"):
        return {}
    asked = _object(arguments)
    if kind in _OBJECTS and (
        told := lenient_json.metadata({_OBJECTS[kind]: asked}, (_OBJECTS[kind],))
    ):
        return dict(told)
    if kind in _FIELDS and asked.keys() <= set(ASKED):
        told = lenient_json.metadata(asked, asked)
        if len(told) == len(asked):
            return dict(told)
    return {"arguments": arguments}


def _answered(kind: str, result: ToolResult) -> Document:
    """The fields of a call that say what came of it."""
    if error := _error(result):
        return {**_gave(kind, result.content), "error": error}
    if result.failed and result.content:
        about = _object(result.content)
        is_object = about and lenient_json.compact(dict(about)) == result.content
        return {"error": dict(about) if is_object else result.content}
    return _gave(kind, result.content)


def _gave(kind: str, content: str) -> Document:
    """What came back: a list where the item has one, else the text."""
    if kind in _TEXTS:
        return {_TEXTS[kind]: content}
    if kind not in _LISTS and not kind.endswith(OUTPUTS):
        return {"output": content}
    spelled = _parsed(content)
    objects: list[Json] = [dict(it) for it in lenient_json.objects(spelled)]
    is_list = objects and objects == spelled and lenient_json.compact(objects) == content
    return {_LISTS.get(kind, "output"): objects} if is_list else {"output": content}


def _error(result: ToolResult) -> Json:
    return dict(result.metadata).get("error")


def _object(text: str) -> dict[str, Json]:
    """The object that a text spells; empty where it spells none."""
    value: Fields = lenient_json.fields(_parsed(text))
    return dict(value)


def _parsed(text: str) -> Json:
    try:
        return lenient_json.parse(text.encode())
    except ValueError:
        return None
