"""Decodes an output item of the Responses API into parts.

A message, a reasoning and a function call have words of their own.  The tools that OpenAI runs
itself follow one pattern, and are read by it, so that a tool of tomorrow is read too:

    {"type": "K_call", what is asked, what came back, and the rest}  ->  ToolCall K, ToolResult K
    {"type": "K_call_output", "call_id": ..., what came back, ...}   ->  ToolResult K
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

_SPELLED: Final = ("arguments", "input")
"""What is asked, as the model wrote it."""
_ACTION: Final = ("action", "operation")
"""What is asked, as one object."""
ASKED: Final = ("actions", "queries", "code", "prompt", "revised_prompt")
"""What is asked, field by field."""
ANSWERED: Final = ("output", "outputs", "results", "tools", "error")
"""What came back; an error where it failed."""
TOOLS: Final = ("program", "mcp_list_tools", "mcp_approval_request")
"""Calls whose type does not end in `_call`."""
OUTPUTS: Final = ("_call_output", "_output", "additional_tools")
KNOWN: Final = frozenset(("call_id", "name", *_SPELLED, *_ACTION, *ASKED, *ANSWERED))
"""The fields of a call that have words of their own."""

OF_IMAGE: Final = ("output_format", "size", "quality", "background")
"""How an image was drawn."""

OF_PAGE: Final = "url_citation"
"""The type of a citation of a page; others are of files."""
_OF_CITATION: Final = ("url", "title", "content", "start_index", "end_index")


def decode_item(item: Fields) -> Iterator[Part]:
    """What an item says; one that nobody knows says nothing."""
    kind = lenient_json.printable_text(item.get("type"))
    if kind == "message" or (not kind and "content" in item):
        yield from _decode_message(item)
    elif kind == "reasoning":
        yield from _decode_reasoning(item)
    elif kind == "compaction":
        yield Reasoning(
            redacted=_encrypted_content(item), metadata=_extra_fields(item, ("encrypted_content",))
        )
    elif kind.endswith(OUTPUTS):
        yield _decode_tool_output(item, kind)
    elif kind == "image_generation_call":
        yield from _decode_image(item)
    elif kind.endswith("_call") or kind in TOOLS:
        yield from _decode_tool_item(item, kind)


def _decode_message(item: Fields) -> Iterator[Part]:
    """Texts and refusals; servers that are not OpenAI's call their texts otherwise."""
    metadata = _extra_fields(item, ("type", "role", "content"))
    content = item.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else lenient_json.object_items(content)
    for block in blocks:
        citations = tuple(
            map(_decode_citation, lenient_json.object_items(block.get("annotations")))
        )
        text, refused = (
            lenient_json.str_or_empty(block.get("text")),
            lenient_json.str_or_empty(block.get("refusal")),
        )
        if text or citations:
            own = lenient_json.named_metadata(block, ("logprobs",))
            yield Text(lenient_json.join_pieces([text]), citations, (*metadata, *own))
        if refused:
            yield Refusal(lenient_json.join_pieces([refused]), metadata)


def _decode_reasoning(item: Fields) -> Iterator[Part]:
    """Each summary and each thought by itself; what is sealed goes with the last of them."""
    metadata = _extra_fields(item, ("type", "summary", "content", "encrypted_content"))
    blocks = [
        *lenient_json.object_items(item.get("summary")),
        *lenient_json.object_items(item.get("content")),
    ]
    texts = [block for block in blocks if lenient_json.str_or_empty(block.get("text"))] or [{}]
    for number, block in enumerate(texts, start=1):
        yield Reasoning(
            lenient_json.join_pieces([lenient_json.str_or_empty(block.get("text"))]),
            redacted=_encrypted_content(item) if number == len(texts) else None,
            metadata=(*metadata, *lenient_json.named_metadata(block, ("type",))),
        )


def _encrypted_content(item: Fields) -> str | None:
    return (
        lenient_json.join_pieces([lenient_json.str_or_empty(item.get("encrypted_content"))]) or None
    )


def _decode_tool_item(item: Fields, kind: str) -> Iterator[Part]:
    """A call, and what came of it where the provider ran it."""
    call_id = lenient_json.printable_text(item.get("call_id")) or lenient_json.printable_text(
        item.get("id")
    )
    name = lenient_json.printable_text(item.get("name")) or kind.removesuffix("_call")
    hidden = ("type",) if kind == "function_call" else ()
    yield ToolCall(call_id, name, _arguments_text(item), _extra_fields(item, (*KNOWN, *hidden)))
    if any(item.get(field) for field in ANSWERED) or item.get("output") == "":
        yield ToolResult(
            call_id,
            _result_text(item),
            name,
            failed=_has_failed(item),
            metadata=_unreported_error(item),
        )


def _decode_tool_output(item: Fields, kind: str) -> ToolResult:
    return ToolResult(
        call_id=lenient_json.printable_text(item.get("call_id")),
        content=_result_text(item) or lenient_json.printable_text(item.get("result")),
        name=lenient_json.printable_text(item.get("name"))
        or kind.removesuffix("_output").removesuffix("_call"),
        failed=_has_failed(item),
        metadata=(
            *_extra_fields(item, ("call_id", "name", "result", *ANSWERED)),
            *_unreported_error(item),
        ),
    )


def _decode_image(item: Fields) -> Iterator[Part]:
    call_id = lenient_json.printable_text(item.get("id"))
    yield ToolCall(
        call_id,
        "image_generation",
        _arguments_text(item),
        _extra_fields(item, (*KNOWN, "result", *OF_IMAGE)),
    )
    if drawn := lenient_json.str_or_empty(item.get("result")):
        media_type = f"image/{lenient_json.printable_text(item.get('output_format')) or '*'}"
        values = (("id", call_id), *lenient_json.named_metadata(item, OF_IMAGE[1:]))
        yield Media(
            lenient_json.join_pieces([media_type]),
            base64=lenient_json.join_pieces([drawn]),
            metadata=values,
        )
    elif error := item.get("error"):
        yield ToolResult(
            call_id, lenient_json.printable_text(error), "image_generation", failed=True
        )


def _arguments_text(item: Fields) -> str:
    """As JSON text, but for the free text of custom tools."""
    for field in _SPELLED:
        if field in item:
            return lenient_json.printable_text(item[field])
    for field in _ACTION:
        if item.get(field):
            return lenient_json.compact_json(item[field])
    fields = {field: item[field] for field in ASKED if item.get(field)}
    return lenient_json.compact_json(fields) if fields else ""


def _result_text(item: Fields) -> str:
    """In the tool's own words where it has some, else as JSON text."""
    return next(
        (lenient_json.printable_text(item[field]) for field in ANSWERED if item.get(field)), ""
    )


def _unreported_error(item: Fields) -> Metadata:
    gave = any(item.get(field) for field in ANSWERED if field != "error")
    return lenient_json.named_metadata(item, ("error",)) if gave else ()


def _has_failed(item: Fields) -> bool:
    return bool(item.get("error")) or item.get("status") == "failed"


def _extra_fields(item: Fields, known: Iterable[str]) -> Metadata:
    """What has no word of its own; that an item is completed goes without saying."""
    left_out = {*known, *(["status"] if item.get("status") == "completed" else [])}
    return lenient_json.named_metadata(item, (name for name in item if name not in left_out))


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page or file; where it lies in a file has no word of its own."""
    start = lenient_json.first_count(annotation.get("start_index"))
    end = lenient_json.first_count(annotation.get("end_index"))
    of_page = annotation.get("type") == OF_PAGE
    known = (*_OF_CITATION, "type") if of_page else (*_OF_CITATION, "filename")
    title: Json = annotation.get("title") or annotation.get("filename")
    return Citation(
        url=lenient_json.printable_text(annotation.get("url")),
        title=lenient_json.printable_text(title),
        quoted=lenient_json.printable_text(annotation.get("content")),
        span=None if start is None or end is None or start >= end else (start, end),
        metadata=lenient_json.named_metadata(
            annotation, (name for name in annotation if name not in known)
        ),
    )
