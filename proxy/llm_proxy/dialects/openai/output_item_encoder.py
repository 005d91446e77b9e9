"""Encodes the parts of a turn as output items of the Responses API.

    Text, Refusal        blocks of one message, as long as their metadata is equal
    Reasoning            blocks of one item: summaries, then texts, then encrypted content
    ToolCall             an item, which includes its tool's result or generated image
    ToolResult, Media    separate items where no call can hold them

Decoding an item yields the parts that it was made of: see `output_item_decoder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import output_capabilities
from llm_proxy.dialects.openai.output_capabilities import (
    COMPACTION_TYPE,
    REASONING_TEXT_TYPE,
    SUMMARY_TYPE,
)
from llm_proxy.dialects.openai.output_item_decoder import IMAGE_FIELDS, OUTPUT_TYPE_SUFFIXES
from llm_proxy.dialects.openai.output_tool_encoder import encode_call_item, encode_result_item
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import (
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

IMAGE_CALL_TYPE: Final = "image_generation_call"

_ID_PREFIX_BY_TYPE: Final = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
    "computer_call": "cu_",
    "local_shell_call": "lsh_",
    "shell_call": "sh_",
    "apply_patch_call": "apc_",
    "tool_search_call": "tsc_",
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "mcp_approval_request": "mcpr_",
    "program": "cm_",
    IMAGE_CALL_TYPE: "ig_",
    COMPACTION_TYPE: "cmp_",
}
"""The prefix of item IDs, by item type."""


def encode_items_with_ids(parts: Sequence[Part], context: EncodeContext) -> list[Document]:
    """The items of these parts, each with a unique ID that is no other item's `call_id`."""
    items = list(encode_output_items(parts))
    call_ids = {
        document["call_id"]
        for document in items
        if "call_id" in document and not _is_result_item(document)
    }
    used_ids: set[object] = set()
    for ordinal, item in enumerate(items):
        is_taken = item["id"] in used_ids or ("call_id" not in item and item["id"] in call_ids)
        if not item["id"] or is_taken:
            prefix = _ID_PREFIX_BY_TYPE.get(item["type"], "item_")
            item["id"] = context.fake_identifier(prefix, ordinal)
        used_ids.add(item["id"])
    return items


def _is_result_item(item: Document) -> bool:
    return bool(item["type"].endswith(OUTPUT_TYPE_SUFFIXES))


def encode_output_items(parts: Sequence[Part]) -> Iterable[Document]:
    """The items; `id` is None where the parts have none.  Audio is left out."""
    for group in _group_by_item(parts):
        match group[0]:
            case Text() | Refusal():
                yield _encode_message_item(group)
            case Reasoning():
                yield _encode_reasoning_item(
                    [part for part in group if isinstance(part, Reasoning)]
                )
            case ToolCall() as call:
                yield _encode_tool_item(call, group[1:])
            case ToolResult() as result:
                yield encode_result_item(result)
            case Media() as media:
                yield _encode_image_item(media)


def _group_by_item(parts: Sequence[Part]) -> list[list[Part]]:
    groups: list[list[Part]] = []
    result_positions = _result_position_by_call(parts)
    merged_positions = set(result_positions.values())
    for at, part in enumerate(parts):
        if at in merged_positions or (isinstance(part, Media) and _is_audio(part)):
            continue
        if groups and _continues_item(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            groups.append(
                [part, *([parts[result_positions[at]]] if at in result_positions else [])]
            )
    return groups


def _result_position_by_call(parts: Sequence[Part]) -> dict[int, int]:
    """The position of each call whose item holds its result, and of that result."""
    positions: dict[int, int] = {}
    call_positions = {
        tool_call.id: at for at, tool_call in enumerate(parts) if isinstance(tool_call, ToolCall)
    }
    for at, part in enumerate(parts):
        match part:
            case ToolResult() if not output_capabilities.original_item_type(part):
                call_position = call_positions.get(part.call_id)
            case Media():
                call_position = call_positions.get(
                    lenient_json.value_as_text(dict(part.metadata).get("id"))
                )
            case _:
                continue
        if (
            call_position is not None
            and call_position not in positions
            and _can_hold_result(parts[call_position], part)
        ):
            positions[call_position] = at
    return positions


def _can_hold_result(call: Part, result: Part) -> bool:
    """Whether a call's item can hold this result; an image call holds an image or its error."""
    is_image_call = (
        isinstance(call, ToolCall)
        and output_capabilities.original_item_type(call) == IMAGE_CALL_TYPE
    )
    if isinstance(result, Media):
        return is_image_call and not _is_audio(result)
    is_error = isinstance(result, ToolResult) and result.failed and bool(result.content)
    return is_error if is_image_call else True


def _is_audio(media: Media) -> bool:
    return media.media_type.startswith("audio/")


def _continues_item(last: Part, part: Part) -> bool:
    match last, part:
        case ((Text() | Refusal()), (Text() | Refusal())):
            return _fields_except(last.metadata, "logprobs") == _fields_except(
                part.metadata, "logprobs"
            )
        case Reasoning(), Reasoning():
            kinds = [dict(reasoning.metadata).get("type") for reasoning in (last, part)]
            return (
                bool(last.text and part.text)
                and not last.redacted
                and kinds != [REASONING_TEXT_TYPE, SUMMARY_TYPE]
                and _fields_except(last.metadata, "type") == _fields_except(part.metadata, "type")
            )
        case _:
            return False


def _fields_except(metadata: Metadata, *names: str) -> Document:
    return {name: value for name, value in metadata if name not in names}


def _encode_message_item(blocks: Sequence[Part]) -> Document:
    document = _fields_except(blocks[0].metadata, "logprobs")
    identity = {"id": document.pop("id", None), "type": "message"}
    status = document.pop("status", "completed")
    content = [_encode_message_block(block) for block in blocks]
    return {**identity, "status": status, "role": "assistant", "content": content, **document}


def _encode_message_block(part: Part) -> Document:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    assert isinstance(part, Text)  # noqa: S101 # a message has no other blocks
    return {
        "type": "output_text",
        "text": part.text,
        "annotations": [
            output_capabilities.encode_annotation(citation) for citation in part.citations
        ],
        "logprobs": dict(part.metadata).get("logprobs", []),
    }


def _encode_reasoning_item(blocks: Sequence[Reasoning]) -> Document:
    first, last = blocks[0], blocks[-1]
    document = _fields_except(first.metadata, "type")
    identity: Document = {"id": document.pop("id", None)}
    encrypted_fields = {"encrypted_content": last.redacted} if last.redacted else {}
    if dict(first.metadata).get("type") == COMPACTION_TYPE:
        return {**identity, "type": COMPACTION_TYPE, **encrypted_fields, **document}
    text_blocks = [
        {"type": dict(block.metadata)["type"], "text": block.text} for block in blocks if block.text
    ]
    summaries = [fields for fields in text_blocks if fields["type"] == SUMMARY_TYPE]
    item: Document = {**identity, "type": "reasoning", "summary": summaries}
    if len(summaries) < len(text_blocks):
        item["content"] = [
            fields for fields in text_blocks if fields["type"] == REASONING_TEXT_TYPE
        ]
    return {**item, **encrypted_fields, **document}


def _encode_tool_item(call: ToolCall, results: Sequence[Part]) -> Document:
    match results:
        case [Media() as media]:
            return _encode_image_item(media, call)
        case [ToolResult() as result]:
            return encode_call_item(call, result)
        case _:
            return encode_call_item(call, None)


def _encode_image_item(media: Media, call: ToolCall | None = None) -> Document:
    item_id = dict(media.metadata).get("id")
    tool_call = call or ToolCall(
        lenient_json.value_as_text(item_id), "", "", (("type", IMAGE_CALL_TYPE),)
    )
    image_format = media.media_type.removeprefix("image/")
    format_fields: Document = {} if image_format == "*" else {IMAGE_FIELDS[0]: image_format}
    fields = {name: value for name, value in media.metadata if name in IMAGE_FIELDS}
    return {**encode_call_item(tool_call, None), **format_fields, **fields, "result": media.base64}
