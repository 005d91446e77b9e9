"""The output items of OpenAI's Responses, made from the parts of a turn.

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
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai import output_capabilities
from llm_proxy.dialects.openai.output_capabilities import COMPACTION, SUMMARY, THOUGHT
from llm_proxy.dialects.openai.output_item_decoder import OF_IMAGE, OUTPUTS
from llm_proxy.dialects.openai.output_tool_encoder import called, resulted
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


def items(parts: Sequence[Part], delivery: Delivery) -> list[Document]:
    """The items that say this, each with an id of its own, which is no other call's either."""
    made = list(documents(parts))
    calls = {it["call_id"] for it in made if "call_id" in it and not _is_output(it)}
    used: set[object] = set()
    for ordinal, item in enumerate(made):
        is_taken = item["id"] in used or ("call_id" not in item and item["id"] in calls)
        if not item["id"] or is_taken:
            prefix = _PREFIXES.get(item["type"], "item_")
            item["id"] = delivery.identifier(prefix, ordinal)
        used.add(item["id"])
    return made


def _is_output(item: Document) -> bool:
    return bool(item["type"].endswith(OUTPUTS))


def documents(parts: Sequence[Part]) -> Iterable[Document]:
    """The items; the id of one that has none is None.  Sounds are no item."""
    for group in _groups(parts):
        match group[0]:
            case Text() | Refusal():
                yield _message(group)
            case Reasoning():
                yield _reasoning([it for it in group if isinstance(it, Reasoning)])
            case ToolCall() as call:
                yield _tool(call, group[1:])
            case ToolResult() as result:
                yield resulted(result)
            case Media() as media:
                yield _drawn(media)


def _groups(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts that belong to one item, together."""
    groups: list[list[Part]] = []
    placed = _answers(parts)
    answers = set(placed.values())
    for at, part in enumerate(parts):
        if at in answers or (isinstance(part, Media) and _is_sound(part)):
            continue
        if groups and _goes_on(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            groups.append([part, *([parts[placed[at]]] if at in placed else [])])
    return groups


def _answers(parts: Sequence[Part]) -> dict[int, int]:
    """For each call that holds what came of it: where the two stand."""
    found: dict[int, int] = {}
    calls = {it.id: at for at, it in enumerate(parts) if isinstance(it, ToolCall)}
    for at, part in enumerate(parts):
        match part:
            case ToolResult() if not output_capabilities.kind_of(part):
                call = calls.get(part.call_id)
            case Media():
                call = calls.get(lenient_json.words(dict(part.metadata).get("id")))
            case _:
                continue
        if call is not None and call not in found and _holds(parts[call], part):
            found[call] = at
    return found


def _holds(call: Part, answer: Part) -> bool:
    """Whether the item of a call has a place for this; that of an image has one for its error."""
    draws = isinstance(call, ToolCall) and output_capabilities.kind_of(call) == IMAGE
    if isinstance(answer, Media):
        return draws and not _is_sound(answer)
    is_error = isinstance(answer, ToolResult) and answer.failed and bool(answer.content)
    return is_error if draws else True


def _is_sound(media: Media) -> bool:
    return media.media_type.startswith("audio/")


def _goes_on(last: Part, part: Part) -> bool:
    """Whether a part stands in the item of the one before it."""
    match last, part:
        case ((Text() | Refusal()), (Text() | Refusal())):
            return _beside(last.metadata, "logprobs") == _beside(part.metadata, "logprobs")
        case Reasoning(), Reasoning():
            kinds = [dict(it.metadata).get("type") for it in (last, part)]
            return (
                bool(last.text and part.text)
                and not last.redacted
                and kinds != [THOUGHT, SUMMARY]
                and _beside(last.metadata, "type") == _beside(part.metadata, "type")
            )
        case _:
            return False


def _beside(metadata: Metadata, *known: str) -> Document:
    return {name: it for name, it in metadata if name not in known}


def _message(blocks: Sequence[Part]) -> Document:
    beside = _beside(blocks[0].metadata, "logprobs")
    identity = {"id": beside.pop("id", None), "type": "message"}
    status = beside.pop("status", "completed")
    content = [_block(block) for block in blocks]
    return {**identity, "status": status, "role": "assistant", "content": content, **beside}


def _block(part: Part) -> Document:
    """A block of a message."""
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    assert isinstance(part, Text)  # noqa: S101 # a message has no other blocks
    return {
        "type": "output_text",
        "text": part.text,
        "annotations": [output_capabilities.annotation(it) for it in part.citations],
        "logprobs": dict(part.metadata).get("logprobs", []),
    }


def _reasoning(thoughts: Sequence[Reasoning]) -> Document:
    first, last = thoughts[0], thoughts[-1]
    beside = _beside(first.metadata, "type")
    identity: Document = {"id": beside.pop("id", None)}
    sealed = {"encrypted_content": last.redacted} if last.redacted else {}
    if dict(first.metadata).get("type") == COMPACTION:
        return {**identity, "type": COMPACTION, **sealed, **beside}
    said = [{"type": dict(it.metadata)["type"], "text": it.text} for it in thoughts if it.text]
    summaries = [it for it in said if it["type"] == SUMMARY]
    told: Document = {**identity, "type": "reasoning", "summary": summaries}
    if len(summaries) < len(said):
        told["content"] = [it for it in said if it["type"] == THOUGHT]
    return {**told, **sealed, **beside}


def _tool(call: ToolCall, answer: Sequence[Part]) -> Document:
    match answer:
        case [Media() as media]:
            return _drawn(media, call)
        case [ToolResult() as result]:
            return called(call, result)
        case _:
            return called(call, None)


def _drawn(media: Media, call: ToolCall | None = None) -> Document:
    """An image, in the item of the call that asked for it."""
    name = dict(media.metadata).get("id")
    asked = call or ToolCall(lenient_json.words(name), "", "", (("type", IMAGE),))
    form = media.media_type.removeprefix("image/")
    shown: Document = {} if form == "*" else {OF_IMAGE[0]: form}
    how = {name: it for name, it in media.metadata if name in OF_IMAGE}
    return {**called(asked, None), **shown, **how, "result": media.base64}
