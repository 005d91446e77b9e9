"""Converts parts to what output items of the Responses API can represent.

A call or a result that was read from an item keeps the item's type beside it, and all that stood
there.  A call of anybody else's is a function's, and waits for its caller; one that came with its
result was run by the provider, and is told as that of an MCP server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.dialects.openai import output_item_decoder
from llm_proxy.dialects.openai.output_item_decoder import OF_IMAGE, OF_PAGE
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

SUMMARY: Final = "summary_text"
THOUGHT: Final = "reasoning_text"
COMPACTION: Final = "compaction"

_OF_MESSAGE: Final = ("id", "status", "phase")
_OF_REASONING: Final = ("id", "status", "format")
_OF_FUNCTION: Final = ("id", "status", "namespace")
_STATUSES: Final = frozenset(
    ("in_progress", "incomplete", "failed", "searching", "generating", "interpreting", "calling")
)
"""Of an item; that it is completed goes without saying."""
_OF_FILES: Final = ("file_citation", "container_file_citation", "file_path")
_NOT_OF_FILES: Final = ("type", "url", "title", "filename", "content", "start_index", "end_index")


def convert_text(part: Text) -> Text:
    """Words, what they rest on, and how likely they were."""
    likely = dict(part.metadata).get("logprobs")
    entries: list[Json] = [dict(entry) for entry in lenient_json.object_items(likely)]
    values = (*_string_metadata(part.metadata, _OF_MESSAGE), ("logprobs", entries))
    return Text(
        part.text,
        tuple(map(_convert_citation, part.citations)),
        nonempty_metadata(values, (*dict(values),)),
    )


def convert_refusal(part: Refusal) -> Refusal:
    """A refusal, and what its message says of itself."""
    return Refusal(part.text, _string_metadata(part.metadata, _OF_MESSAGE))


def convert_reasoning(part: Reasoning, kind: str) -> Reasoning:
    """A summary, a thought, or what is sealed; one of neither type is of this `kind`."""
    metadata = _string_metadata(part.metadata, _OF_REASONING)
    value = dict(part.metadata).get("type")
    if part.text:
        known = value if value in (SUMMARY, THOUGHT) else kind
        return Reasoning(part.text, redacted=part.redacted, metadata=(*metadata, ("type", known)))
    if part.redacted and value == COMPACTION:
        return Reasoning(redacted=part.redacted, metadata=(*metadata, ("type", value)))
    named = part.redacted or "id" in dict(metadata)
    return Reasoning(redacted=part.redacted, metadata=metadata if named else ())


def convert_tool_call(part: ToolCall) -> ToolCall:
    """A call with all that is told of it."""
    kind = original_item_type(part)
    if not kind:
        caller = nonempty_metadata(part.metadata, ("caller",))
        return replace(part, metadata=(*_string_metadata(part.metadata, _OF_FUNCTION), *caller))
    return replace(
        part, metadata=_unknown_metadata(part.metadata, (*output_item_decoder.KNOWN, "result"))
    )


def convert_tool_result(part: ToolResult) -> ToolResult:
    """What came of a call, in the call's own item or in one beside it."""
    tool_result = replace(
        part, call_id=join_pieces([part.call_id]), content=join_pieces([part.content])
    )
    error = nonempty_metadata(part.metadata, ("error",)) if tool_result.content else ()
    if not original_item_type(part):
        return replace(tool_result, metadata=error)
    known = (*output_item_decoder.KNOWN, "result")
    return replace(tool_result, metadata=(*_unknown_metadata(part.metadata, known), *error))


def convert_image(part: Media) -> Media | None:
    """An image that the model drew; there is no word for where one lies."""
    if not part.media_type.startswith("image/") or not part.base64:
        return None
    media_type = "image/*" if part.media_type == "image/" else join_pieces([part.media_type])
    metadata = _string_metadata(part.metadata, ("id", *OF_IMAGE[1:]))
    return Media(media_type, base64=part.base64, metadata=metadata)


def convert_image_or_audio(part: Media) -> Media | None:
    """An image, or speech, for which only streams have words."""
    if part.media_type.startswith("audio/") and (part.base64 or part.transcript):
        return Media("audio/*", base64=part.base64, transcript=join_pieces([part.transcript]))
    return convert_image(part)


def original_item_type(part: ToolCall | ToolResult) -> str:
    """The type of the item that a part was read from, where it is more than a function's call."""
    kind = dict(part.metadata).get("type")
    if not isinstance(kind, str) or kind == "function_call":
        return ""
    if isinstance(part, ToolResult):
        return kind if kind.endswith(output_item_decoder.OUTPUTS) else ""
    return kind if kind.endswith("_call") or kind in output_item_decoder.TOOLS else ""


def _string_metadata(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    said = (
        (name, value)
        for name, value in nonempty_metadata(metadata, names)
        if isinstance(value, str)
    )
    return tuple((name, it) for name, it in said if name != "status" or it in _STATUSES)


def _unknown_metadata(metadata: Metadata, known: tuple[str, ...]) -> Metadata:
    """All that stands there but for `known`: an item may have any field."""
    fields = {name: value for name, value in metadata if name not in (*known, "id", "status")}
    return (
        *_string_metadata(metadata, ("id", "status")),
        *lenient_json.named_metadata(fields, fields),
    )


def _convert_citation(cited: Citation) -> Citation:
    """A page or a file, and where it is cited."""
    span = cited.span if cited.span and cited.span[0] < cited.span[1] else None
    citation = Citation(
        join_pieces([cited.url]), join_pieces([cited.title]), join_pieces([cited.quoted]), span
    )
    fields = dict(cited.metadata)
    if fields.get("type") not in _OF_FILES:
        return citation
    others = {name: value for name, value in fields.items() if name not in _NOT_OF_FILES}
    return replace(
        citation, metadata=(("type", fields["type"]), *lenient_json.named_metadata(others, others))
    )


def encode_annotation(cited: Citation) -> dict[str, Json]:
    """A citation as it stands beside its text."""
    start, end = cited.span or (0, 0)
    of_file = dict(cited.metadata)
    if not of_file:
        page: dict[str, Json] = {"type": OF_PAGE, "start_index": start, "end_index": end}
        quoted: dict[str, Json] = {"content": cited.quoted} if cited.quoted else {}
        return {**page, "url": cited.url, "title": cited.title, **quoted}
    fields = {"filename": cited.title, "url": cited.url, "content": cited.quoted}
    where: dict[str, Json] = {"start_index": start, "end_index": end} if cited.span else {}
    return {**of_file, **{name: text for name, text in fields.items() if text}, **where}
