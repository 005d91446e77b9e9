"""Encodes the parts of a turn as output items of the Responses API.

    Text, Refusal        blocks of one message, as long as they share what stands beside them
    Reasoning            summaries, then thoughts, then what is sealed: blocks of one item
    ToolCall             an item; what its own tool gave, or drew, stands in it
    ToolResult, Media    items of their own where there is no call to stand in

What an item is made of, it is read as: see `output_item`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import output_capabilities
from llm_proxy.dialects.openai.output_capabilities import COMPACTION, SUMMARY, THOUGHT
from llm_proxy.dialects.openai.output_item_decoder import OF_IMAGE, OUTPUTS
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

IMAGE: Final = "image_generation_call"

_PREFIXES: Final = {
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
    IMAGE: "ig_",
    COMPACTION: "cmp_",
}
"""What the ids of items begin with."""


def encode_items(parts: Sequence[Part], context: EncodeContext) -> list[Document]:
    """The items that say this, each with an id of its own, which is no other call's either."""
    made = list(encode_item_documents(parts))
    calls = {
        document["call_id"]
        for document in made
        if "call_id" in document and not _is_output_part(document)
    }
    used: set[object] = set()
    for ordinal, item in enumerate(made):
        is_taken = item["id"] in used or ("call_id" not in item and item["id"] in calls)
        if not item["id"] or is_taken:
            prefix = _PREFIXES.get(item["type"], "item_")
            item["id"] = context.identifier(prefix, ordinal)
        used.add(item["id"])
    return made


def _is_output_part(item: Document) -> bool:
    return bool(item["type"].endswith(OUTPUTS))


def encode_item_documents(parts: Sequence[Part]) -> Iterable[Document]:
    """The items; the id of one that has none is None.  Sounds are no item."""
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
    placed = _result_positions(parts)
    answers = set(placed.values())
    for at, part in enumerate(parts):
        if at in answers or (isinstance(part, Media) and _is_audio(part)):
            continue
        if groups and _continues_item(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            groups.append([part, *([parts[placed[at]]] if at in placed else [])])
    return groups


def _result_positions(parts: Sequence[Part]) -> dict[int, int]:
    """For each call that holds what came of it: where the two stand."""
    found: dict[int, int] = {}
    calls = {it.id: at for at, it in enumerate(parts) if isinstance(it, ToolCall)}
    for at, part in enumerate(parts):
        match part:
            case ToolResult() if not output_capabilities.original_item_type(part):
                call = calls.get(part.call_id)
            case Media():
                call = calls.get(lenient_json.printable_text(dict(part.metadata).get("id")))
            case _:
                continue
        if call is not None and call not in found and _can_hold_result(parts[call], part):
            found[call] = at
    return found


def _can_hold_result(call: Part, answer: Part) -> bool:
    """Whether the item of a call has a place for this; that of an image has one for its error."""
    draws = isinstance(call, ToolCall) and output_capabilities.original_item_type(call) == IMAGE
    if isinstance(answer, Media):
        return draws and not _is_audio(answer)
    is_error = isinstance(answer, ToolResult) and answer.failed and bool(answer.content)
    return is_error if draws else True


def _is_audio(media: Media) -> bool:
    return media.media_type.startswith("audio/")


def _continues_item(last: Part, part: Part) -> bool:
    match last, part:
        case ((Text() | Refusal()), (Text() | Refusal())):
            return _extra_fields(last.metadata, "logprobs") == _extra_fields(
                part.metadata, "logprobs"
            )
        case Reasoning(), Reasoning():
            kinds = [dict(reasoning.metadata).get("type") for reasoning in (last, part)]
            return (
                bool(last.text and part.text)
                and not last.redacted
                and kinds != [THOUGHT, SUMMARY]
                and _extra_fields(last.metadata, "type") == _extra_fields(part.metadata, "type")
            )
        case _:
            return False


def _extra_fields(metadata: Metadata, *known: str) -> Document:
    return {name: value for name, value in metadata if name not in known}


def _encode_message_item(blocks: Sequence[Part]) -> Document:
    document = _extra_fields(blocks[0].metadata, "logprobs")
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


def _encode_reasoning_item(thoughts: Sequence[Reasoning]) -> Document:
    first, last = thoughts[0], thoughts[-1]
    document = _extra_fields(first.metadata, "type")
    identity: Document = {"id": document.pop("id", None)}
    sealed = {"encrypted_content": last.redacted} if last.redacted else {}
    if dict(first.metadata).get("type") == COMPACTION:
        return {**identity, "type": COMPACTION, **sealed, **document}
    items = [
        {"type": dict(thought.metadata)["type"], "text": thought.text}
        for thought in thoughts
        if thought.text
    ]
    summaries = [fields for fields in items if fields["type"] == SUMMARY]
    told: Document = {**identity, "type": "reasoning", "summary": summaries}
    if len(summaries) < len(items):
        told["content"] = [fields for fields in items if fields["type"] == THOUGHT]
    return {**told, **sealed, **document}


def _encode_tool_item(call: ToolCall, answer: Sequence[Part]) -> Document:
    match answer:
        case [Media() as media]:
            return _encode_image_item(media, call)
        case [ToolResult() as result]:
            return encode_call_item(call, result)
        case _:
            return encode_call_item(call, None)


def _encode_image_item(media: Media, call: ToolCall | None = None) -> Document:
    name = dict(media.metadata).get("id")
    tool_call = call or ToolCall(lenient_json.printable_text(name), "", "", (("type", IMAGE),))
    form = media.media_type.removeprefix("image/")
    shown: Document = {} if form == "*" else {OF_IMAGE[0]: form}
    fields = {name: value for name, value in media.metadata if name in OF_IMAGE}
    return {**encode_call_item(tool_call, None), **shown, **fields, "result": media.base64}
