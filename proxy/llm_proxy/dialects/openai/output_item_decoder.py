"""Decodes an output item of the Responses API into parts.

Messages, reasoning and function calls have their own fields.  The tools that OpenAI runs follow
one pattern and are decoded by it, so that a future tool is decoded too:

    {"type": "K_call", arguments, result, other fields}      ->  ToolCall K, ToolResult K
    {"type": "K_call_output", "call_id": ..., result, ...}   ->  ToolResult K
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

_TEXT_ARGUMENT_FIELDS: Final = ("arguments", "input")
"""Arguments as text that the model wrote."""
_OBJECT_ARGUMENT_FIELDS: Final = ("action", "operation")
"""Arguments as one object."""
ARGUMENT_FIELDS: Final = ("actions", "queries", "code", "prompt", "revised_prompt")
"""Arguments as separate fields of the item."""
RESULT_FIELDS: Final = ("output", "outputs", "results", "tools", "error")
"""The result of a call; `error` where it failed."""
UNSUFFIXED_CALL_TYPES: Final = ("program", "mcp_list_tools", "mcp_approval_request")
"""Types of calls that do not end in `_call`."""
OUTPUT_TYPE_SUFFIXES: Final = ("_call_output", "_output", "additional_tools")
KNOWN_CALL_FIELDS: Final = frozenset(
    (
        "call_id",
        "name",
        *_TEXT_ARGUMENT_FIELDS,
        *_OBJECT_ARGUMENT_FIELDS,
        *ARGUMENT_FIELDS,
        *RESULT_FIELDS,
    )
)
"""The fields of a call that do not go into its metadata."""

IMAGE_FIELDS: Final = ("output_format", "size", "quality", "background")
"""Metadata fields of a generated image."""

URL_CITATION_TYPE: Final = "url_citation"
"""The type of a citation of a page; others are of files."""
_CITATION_FIELDS: Final = ("url", "title", "content", "start_index", "end_index")


def decode_item(item: Fields) -> Iterator[Part]:
    """The parts of an output item; none for an unknown type."""
    kind = lenient_json.value_as_text(item.get("type"))
    if kind == "message" or (not kind and "content" in item):
        yield from _decode_message(item)
    elif kind == "reasoning":
        yield from _decode_reasoning(item)
    elif kind == "compaction":
        yield Reasoning(
            redacted=_encrypted_content(item), metadata=_extra_fields(item, ("encrypted_content",))
        )
    elif kind.endswith(OUTPUT_TYPE_SUFFIXES):
        yield _decode_tool_output(item, kind)
    elif kind == "image_generation_call":
        yield from _decode_image(item)
    elif kind.endswith("_call") or kind in UNSUFFIXED_CALL_TYPES:
        yield from _decode_tool_item(item, kind)


def _decode_message(item: Fields) -> Iterator[Part]:
    """Texts and refusals; block types are ignored, since other servers rename them."""
    metadata = _extra_fields(item, ("type", "role", "content"))
    content = item.get("content")
    blocks = (
        [{"text": content}] if isinstance(content, str) else lenient_json.array_objects(content)
    )
    for block in blocks:
        citations = tuple(
            map(_decode_citation, lenient_json.array_objects(block.get("annotations")))
        )
        text, refusal = (
            lenient_json.str_or_empty(block.get("text")),
            lenient_json.str_or_empty(block.get("refusal")),
        )
        if text or citations:
            logprobs = lenient_json.select_metadata(block, ("logprobs",))
            yield Text(lenient_json.join_pieces([text]), citations, (*metadata, *logprobs))
        if refusal:
            yield Refusal(lenient_json.join_pieces([refusal]), metadata)


def _decode_reasoning(item: Fields) -> Iterator[Part]:
    """One part per summary and reasoning text; the last one holds the encrypted content."""
    metadata = _extra_fields(item, ("type", "summary", "content", "encrypted_content"))
    blocks = [
        *lenient_json.array_objects(item.get("summary")),
        *lenient_json.array_objects(item.get("content")),
    ]
    texts = [block for block in blocks if lenient_json.str_or_empty(block.get("text"))] or [{}]
    for number, block in enumerate(texts, start=1):
        yield Reasoning(
            lenient_json.join_pieces([lenient_json.str_or_empty(block.get("text"))]),
            redacted=_encrypted_content(item) if number == len(texts) else None,
            metadata=(*metadata, *lenient_json.select_metadata(block, ("type",))),
        )


def _encrypted_content(item: Fields) -> str | None:
    return (
        lenient_json.join_pieces([lenient_json.str_or_empty(item.get("encrypted_content"))]) or None
    )


def _decode_tool_item(item: Fields, kind: str) -> Iterator[Part]:
    """A call, and its result where the provider ran it."""
    call_id = lenient_json.value_as_text(item.get("call_id")) or lenient_json.value_as_text(
        item.get("id")
    )
    name = lenient_json.value_as_text(item.get("name")) or kind.removesuffix("_call")
    excluded = ("type",) if kind == "function_call" else ()
    yield ToolCall(
        call_id, name, _arguments_text(item), _extra_fields(item, (*KNOWN_CALL_FIELDS, *excluded))
    )
    if any(item.get(field) for field in RESULT_FIELDS) or item.get("output") == "":
        yield ToolResult(
            call_id,
            _result_text(item),
            name,
            failed=_has_failed(item),
            metadata=_error_beside_result(item),
        )


def _decode_tool_output(item: Fields, kind: str) -> ToolResult:
    return ToolResult(
        call_id=lenient_json.value_as_text(item.get("call_id")),
        content=_result_text(item) or lenient_json.value_as_text(item.get("result")),
        name=lenient_json.value_as_text(item.get("name"))
        or kind.removesuffix("_output").removesuffix("_call"),
        failed=_has_failed(item),
        metadata=(
            *_extra_fields(item, ("call_id", "name", "result", *RESULT_FIELDS)),
            *_error_beside_result(item),
        ),
    )


def _decode_image(item: Fields) -> Iterator[Part]:
    call_id = lenient_json.value_as_text(item.get("id"))
    yield ToolCall(
        call_id,
        "image_generation",
        _arguments_text(item),
        _extra_fields(item, (*KNOWN_CALL_FIELDS, "result", *IMAGE_FIELDS)),
    )
    if image_base64 := lenient_json.str_or_empty(item.get("result")):
        media_type = f"image/{lenient_json.value_as_text(item.get('output_format')) or '*'}"
        metadata = (("id", call_id), *lenient_json.select_metadata(item, IMAGE_FIELDS[1:]))
        yield Media(
            lenient_json.join_pieces([media_type]),
            base64=lenient_json.join_pieces([image_base64]),
            metadata=metadata,
        )
    elif error := item.get("error"):
        yield ToolResult(
            call_id, lenient_json.value_as_text(error), "image_generation", failed=True
        )


def _arguments_text(item: Fields) -> str:
    """The arguments as JSON text; the input of a custom tool as it is."""
    for field in _TEXT_ARGUMENT_FIELDS:
        if field in item:
            return lenient_json.value_as_text(item[field])
    for field in _OBJECT_ARGUMENT_FIELDS:
        if item.get(field):
            return lenient_json.compact_json(item[field])
    fields = {field: item[field] for field in ARGUMENT_FIELDS if item.get(field)}
    return lenient_json.compact_json(fields) if fields else ""


def _result_text(item: Fields) -> str:
    """The first result field that is set: a string as it is, any other value as JSON text."""
    return next(
        (lenient_json.value_as_text(item[field]) for field in RESULT_FIELDS if item.get(field)), ""
    )


def _error_beside_result(item: Fields) -> Metadata:
    has_result = any(item.get(field) for field in RESULT_FIELDS if field != "error")
    return lenient_json.select_metadata(item, ("error",)) if has_result else ()


def _has_failed(item: Fields) -> bool:
    return bool(item.get("error")) or item.get("status") == "failed"


def _extra_fields(item: Fields, known: Iterable[str]) -> Metadata:
    """The fields that are not known, as metadata; without the status `completed`."""
    excluded = {*known, *(["status"] if item.get("status") == "completed" else [])}
    return lenient_json.select_metadata(item, (name for name in item if name not in excluded))


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page or file; the position in a file goes into the metadata."""
    start = lenient_json.first_integer(annotation.get("start_index"))
    end = lenient_json.first_integer(annotation.get("end_index"))
    is_page = annotation.get("type") == URL_CITATION_TYPE
    known = (*_CITATION_FIELDS, "type") if is_page else (*_CITATION_FIELDS, "filename")
    title: Json = annotation.get("title") or annotation.get("filename")
    return Citation(
        url=lenient_json.value_as_text(annotation.get("url")),
        title=lenient_json.value_as_text(title),
        quoted=lenient_json.value_as_text(annotation.get("content")),
        span=None if start is None or end is None or start >= end else (start, end),
        metadata=lenient_json.select_metadata(
            annotation, (name for name in annotation if name not in known)
        ),
    )
