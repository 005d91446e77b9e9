"""Encodes tool calls and results as output items of the Responses API."""

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


def encode_call_item(call: ToolCall, result: ToolResult | None) -> Document:
    """The item of a call, with what came of it where that stands in the same item."""
    kind = output_capabilities.original_item_type(call) or (
        FUNCTION if result is None else PROVIDED
    )
    document: Document = {name: value for name, value in call.metadata if name != "type"}
    failed = None if result is None else result.failed or bool(_error_field(result))
    item = _initial_item(kind, document, failed=failed)
    if kind in _NAMED_BY_ID:
        item["id"] = call.id
    else:
        item["call_id"] = call.id
    if kind in _HAS_NAME or call.name not in ("", kind.removesuffix("_call")):
        item["name"] = call.name or kind.removesuffix("_call")
    answered = {} if result is None else _result_fields(kind, result)
    return {
        **item,
        **_FILLED.get(kind, {}),
        **_argument_fields(kind, call.arguments),
        **answered,
        **document,
    }


def encode_result_item(result: ToolResult) -> Document:
    """The item of a result that stands beside its call."""
    kind = output_capabilities.original_item_type(result) or f"{FUNCTION}_output"
    document: Document = {
        name: value for name, value in result.metadata if name not in ("type", "error")
    }
    error = {"error": _error_field(result)} if _error_field(result) else {}
    is_told = bool(error) and document.get("status") != "failed"
    item = _initial_item(kind, document, failed=result.failed and not is_told)
    item["call_id"] = result.call_id or None
    named_so = kind.removesuffix("_output").removesuffix("_call")
    if result.name not in ("", named_so):
        item["name"] = lenient_json.join_pieces([result.name])
    return {**item, **_encode_output(kind, result.content), **error, **document}


def _initial_item(kind: str, document: Document, *, failed: bool | None) -> Document:
    """An item's id, type and status, which are taken from what stands beside it.

    `failed` is None where nothing but the status says.
    """
    value = document.pop("status", None)
    status = "failed" if failed else (None if value == "failed" and failed is False else value)
    item: Document = {"id": document.pop("id", None), "type": kind}
    if status or kind not in _NO_STATUS:
        item["status"] = status or "completed"
    return item


def _argument_fields(kind: str, arguments: str) -> Document:
    if kind in _SPELLED:
        return {_SPELLED[kind]: arguments}
    if arguments in ("", "{}"):
        return {}
    fields = _parse_object_text(arguments)
    if kind in _OBJECTS and (
        metadata := lenient_json.named_metadata({_OBJECTS[kind]: fields}, (_OBJECTS[kind],))
    ):
        return dict(metadata)
    if kind in _FIELDS and fields.keys() <= set(ASKED):
        metadata = lenient_json.named_metadata(fields, fields)
        if len(metadata) == len(fields):
            return dict(metadata)
    return {"arguments": arguments}


def _result_fields(kind: str, result: ToolResult) -> Document:
    if error := _error_field(result):
        return {**_encode_output(kind, result.content), "error": error}
    if result.failed and result.content:
        fields = _parse_object_text(result.content)
        is_object = fields and lenient_json.compact_json(dict(fields)) == result.content
        return {"error": dict(fields) if is_object else result.content}
    return _encode_output(kind, result.content)


def _encode_output(kind: str, content: str) -> Document:
    """What came back: a list where the item has one, else the text."""
    if kind in _TEXTS:
        return {_TEXTS[kind]: content}
    if kind not in _LISTS and not kind.endswith(OUTPUTS):
        return {"output": content}
    spelled = _parse_json_text(content)
    objects: list[Json] = [dict(object_item) for object_item in lenient_json.object_items(spelled)]
    is_list = objects and objects == spelled and lenient_json.compact_json(objects) == content
    return {_LISTS.get(kind, "output"): objects} if is_list else {"output": content}


def _error_field(result: ToolResult) -> Json:
    return dict(result.metadata).get("error")


def _parse_object_text(text: str) -> dict[str, Json]:
    """The object that a text spells; empty where it spells none."""
    value: Fields = lenient_json.object_fields(_parse_json_text(text))
    return dict(value)


def _parse_json_text(text: str) -> Json:
    try:
        return lenient_json.parse_json(text.encode())
    except ValueError:
        return None
