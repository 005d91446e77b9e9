"""Encodes tool calls and results as output items of the Responses API."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import output_capabilities
from llm_proxy.dialects.openai.output_item_decoder import ARGUMENT_FIELDS, OUTPUT_TYPE_SUFFIXES
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, ToolCall, ToolResult

FUNCTION_CALL_TYPE: Final = "function_call"
"""A call that waits for the client."""
MCP_CALL_TYPE: Final = "mcp_call"
"""A call from another dialect that has a result."""

_TEXT_ARGUMENT_FIELD_BY_TYPE: Final = {
    FUNCTION_CALL_TYPE: "arguments",
    MCP_CALL_TYPE: "arguments",
    "mcp_approval_request": "arguments",
    "custom_tool_call": "input",
}
"""The field that holds the arguments as text."""
_OBJECT_ARGUMENT_FIELD_BY_TYPE: Final = {
    "tool_search_call": "arguments",
    "web_search_call": "action",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""The field that holds the arguments as an object."""
_TYPES_WITH_INLINE_ARGUMENTS: Final = frozenset(
    (
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "program",
    )
)
"""Items that hold the arguments as separate fields."""

_RESULT_LIST_FIELD_BY_TYPE: Final = {
    "code_interpreter_call": "outputs",
    "file_search_call": "results",
    "mcp_list_tools": "tools",
    "tool_search_output": "tools",
    "additional_tools": "tools",
}
"""The field for a result that is a list of objects; any other result is in `output`."""
_RESULT_TEXT_FIELD_BY_TYPE: Final = {"program_output": "result"}
"""The field for a result that is text."""

_TYPES_WITHOUT_CALL_ID: Final = _TYPES_WITH_INLINE_ARGUMENTS - {"program"} | {
    MCP_CALL_TYPE,
    "web_search_call",
    "mcp_approval_request",
}
"""Items without a `call_id`, whose `id` is the call's ID."""
_TYPES_WITH_NAME: Final = frozenset(_TEXT_ARGUMENT_FIELD_BY_TYPE)
_TYPES_WITHOUT_STATUS: Final = frozenset(("mcp_list_tools", "mcp_approval_request", "program"))
"""Items without a `status`."""

_DEFAULT_SERVER_LABEL: Final = "tools"
"""The MCP server of a tool that names none."""
_DEFAULT_FIELDS_BY_TYPE: Final[dict[str, Document]] = {
    MCP_CALL_TYPE: {
        "approval_request_id": None,
        "error": None,
        "output": None,
        "server_label": _DEFAULT_SERVER_LABEL,
    },
    "mcp_list_tools": {"tools": [], "server_label": _DEFAULT_SERVER_LABEL},
    "mcp_approval_request": {"server_label": _DEFAULT_SERVER_LABEL},
    "file_search_call": {"queries": [], "results": None},
    "code_interpreter_call": {"outputs": []},
}
"""The fields that an item must have, with their defaults."""


def encode_call_item(call: ToolCall, result: ToolResult | None) -> Document:
    """The item of a call, with its result if there is one."""
    kind = output_capabilities.original_item_type(call) or (
        FUNCTION_CALL_TYPE if result is None else MCP_CALL_TYPE
    )
    extra_fields: Document = {name: value for name, value in call.metadata if name != "type"}
    failed = None if result is None else result.failed or bool(_error_field(result))
    item = _pop_item_header(kind, extra_fields, failed=failed)
    if kind in _TYPES_WITHOUT_CALL_ID:
        item["id"] = call.id
    else:
        item["call_id"] = call.id
    if kind in _TYPES_WITH_NAME or call.name not in ("", kind.removesuffix("_call")):
        item["name"] = call.name or kind.removesuffix("_call")
    result_fields = {} if result is None else _result_fields(kind, result)
    return {
        **item,
        **_DEFAULT_FIELDS_BY_TYPE.get(kind, {}),
        **_argument_fields(kind, call.arguments),
        **result_fields,
        **extra_fields,
    }


def encode_result_item(result: ToolResult) -> Document:
    """The item of a result that is separate from its call."""
    kind = output_capabilities.original_item_type(result) or f"{FUNCTION_CALL_TYPE}_output"
    extra_fields: Document = {
        name: value for name, value in result.metadata if name not in ("type", "error")
    }
    error = {"error": _error_field(result)} if _error_field(result) else {}
    has_reported_error = bool(error) and extra_fields.get("status") != "failed"
    item = _pop_item_header(kind, extra_fields, failed=result.failed and not has_reported_error)
    item["call_id"] = result.call_id or None
    default_name = kind.removesuffix("_output").removesuffix("_call")
    if result.name not in ("", default_name):
        item["name"] = lenient_json.join_pieces([result.name])
    return {**item, **_encode_output(kind, result.content), **error, **extra_fields}


def _pop_item_header(kind: str, extra_fields: Document, *, failed: bool | None) -> Document:
    """An item's `id`, `type` and `status`, the first and last popped from `extra_fields`.

    `failed` is None where only the status shows whether the call failed.
    """
    value = extra_fields.pop("status", None)
    status = "failed" if failed else (None if value == "failed" and failed is False else value)
    item: Document = {"id": extra_fields.pop("id", None), "type": kind}
    if status or kind not in _TYPES_WITHOUT_STATUS:
        item["status"] = status or "completed"
    return item


def _argument_fields(kind: str, arguments: str) -> Document:
    if kind in _TEXT_ARGUMENT_FIELD_BY_TYPE:
        return {_TEXT_ARGUMENT_FIELD_BY_TYPE[kind]: arguments}
    if arguments in ("", "{}"):
        return {}
    parsed = _parse_object_text(arguments)
    if kind in _OBJECT_ARGUMENT_FIELD_BY_TYPE and (
        metadata := lenient_json.select_metadata(
            {_OBJECT_ARGUMENT_FIELD_BY_TYPE[kind]: parsed}, (_OBJECT_ARGUMENT_FIELD_BY_TYPE[kind],)
        )
    ):
        return dict(metadata)
    if kind in _TYPES_WITH_INLINE_ARGUMENTS and parsed.keys() <= set(ARGUMENT_FIELDS):
        metadata = lenient_json.select_metadata(parsed, parsed)
        if len(metadata) == len(parsed):
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
    """The result field: a list of objects where the item has one, else text."""
    if kind in _RESULT_TEXT_FIELD_BY_TYPE:
        return {_RESULT_TEXT_FIELD_BY_TYPE[kind]: content}
    if kind not in _RESULT_LIST_FIELD_BY_TYPE and not kind.endswith(OUTPUT_TYPE_SUFFIXES):
        return {"output": content}
    parsed = _parse_json_text(content)
    objects: list[Json] = [dict(object_item) for object_item in lenient_json.array_objects(parsed)]
    is_list = objects and objects == parsed and lenient_json.compact_json(objects) == content
    return (
        {_RESULT_LIST_FIELD_BY_TYPE.get(kind, "output"): objects}
        if is_list
        else {"output": content}
    )


def _error_field(result: ToolResult) -> Json:
    return dict(result.metadata).get("error")


def _parse_object_text(text: str) -> dict[str, Json]:
    """The JSON object in a text; empty where it holds none."""
    value: Fields = lenient_json.object_fields(_parse_json_text(text))
    return dict(value)


def _parse_json_text(text: str) -> Json:
    try:
        return lenient_json.parse_json(text.encode())
    except ValueError:
        return None
