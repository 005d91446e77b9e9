"""Converts parts to what Gemini responses can represent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata, normalized_object_text
from llm_proxy.dialects.google import source_encoder
from llm_proxy.dialects.google.content_decoder import CODE, OF_PART, WENT_WELL
from llm_proxy.turns import Json, Media, Metadata, Part, Reasoning, Text, ToolCall, ToolResult

CODE_CALL: Final = "executableCode"
CODE_RESULT: Final = "codeExecutionResult"
TOOL_CALL: Final = "toolCall"
TOOL_RESULT: Final = "toolResponse"
"""The kinds of calls that Google runs itself, and of what they give."""

OF_MEDIA: Final = ("thought",)
SEAL: Final = OF_PART[0]
_SEALED: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
"""Clients refuse a signature that is no base64."""

_RUN: Final = (CODE_CALL, TOOL_CALL)
_RESULTS: Final = (TOOL_RESULT, "functionResponse")
_OUTCOMES: Final = {False: "OUTCOME_OK", True: "OUTCOME_FAILED"}


def convert_text(text: Text) -> Text:
    """Words, what they rest on, and their seal."""
    citations = tuple(filter(None, map(source_encoder.convert_citation, text.citations)))
    return Text(text.text, citations, nonempty_metadata(_extra_fields(text.metadata), (SEAL,)))


def convert_reasoning(reasoning: Reasoning) -> Reasoning | None:
    """Readable thoughts, and their seal."""
    told = Reasoning(
        reasoning.text, reasoning.signature if _is_signature(reasoning.signature) else None
    )
    return told if told.text or told.signature else None


def convert_tool_call(tool_call: ToolCall) -> ToolCall | None:
    """A call of an object; one of Google's own is marked by its type."""
    arguments = normalized_object_text(tool_call.arguments)
    if not arguments:
        return None
    kind = dict(tool_call.metadata).get("type")
    marked: Metadata = (("type", kind),) if kind in _RUN else ()
    told = ToolCall(
        tool_call.id, tool_call.name, arguments, (*marked, *_extra_fields(tool_call.metadata))
    )
    return (
        replace(told, name=CODE, arguments=_without_code_id(arguments))
        if kind == CODE_CALL
        else told
    )


def convert_provider_tool_call(tool_call: ToolCall) -> ToolCall | None:
    """A call that the provider's own tool answered."""
    fields = dict(tool_call.metadata)
    kind = fields.get("type")
    own = CODE_CALL if tool_call.name == CODE else TOOL_CALL
    fields["type"] = kind if kind in _RUN else own
    return convert_tool_call(replace(tool_call, metadata=tuple(fields.items())))


def is_client_tool_call(part: Part) -> bool:
    """Whether it is a call that waits for the client."""
    return isinstance(part, ToolCall) and dict(part.metadata).get("type") not in _RUN


def awaits_client(parts: Sequence[Part]) -> bool:
    """Whether one of the parts does."""
    return any(map(is_client_tool_call, parts))


def convert_tool_result(tool_result: ToolResult) -> ToolResult:
    """What came of code; of another tool, as an object if anything came of it."""
    fields = dict(tool_result.metadata)
    metadata = _extra_fields(tool_result.metadata)
    kind = fields.get("type")
    if kind == CODE_RESULT or (kind not in _RESULTS and tool_result.name == CODE):
        outcome = fields.get("outcome")
        if not outcome or (outcome not in WENT_WELL) is not tool_result.failed:
            outcome = _OUTCOMES[tool_result.failed]
        marked: Metadata = (("type", CODE_RESULT), *metadata, ("outcome", outcome))
        return ToolResult(
            tool_result.call_id, tool_result.content, CODE, tool_result.failed, marked
        )
    marked = (("type", kind if kind in _RESULTS else TOOL_RESULT), *metadata)
    wrapped: Json = {"error" if tool_result.failed else "result": tool_result.content}
    flag = bool(tool_result.content or tool_result.failed)
    content = (
        (normalized_object_text(tool_result.content) or lenient_json.compact_json(wrapped))
        if flag
        else ""
    )
    return ToolResult(tool_result.call_id, content, tool_result.name, metadata=marked)


def convert_media(media: Media) -> Media | None:
    """Inline where it is there, else by reference; None where there is but a transcript."""
    if media.transcript and not (media.base64 or media.url):
        return None
    fields = {**dict(media.metadata), **dict(_extra_fields(media.metadata))}
    if fields.get("thought") is not True:
        fields.pop("thought", None)
    metadata = nonempty_metadata(tuple(fields.items()), ("displayName", *OF_PART, *OF_MEDIA))
    return Media(
        media.media_type, "" if media.base64 else media.url, media.base64, metadata=metadata
    )


def has_signature(part: Part) -> bool:
    """Whether the part has a signature, after which another begins."""
    match part:
        case Reasoning():
            return bool(part.signature)
        case _:
            return bool(dict(part.metadata).get(SEAL))


def _extra_fields(metadata: Metadata) -> Metadata:
    """What stands beside a part; a seal only if it is one."""
    return tuple(
        values
        for values in nonempty_metadata(metadata, OF_PART)
        if values[0] != SEAL or _is_signature(values[1])
    )


def _is_signature(value: Json) -> bool:
    return isinstance(value, str) and bool(_SEALED.fullmatch(value))


def _without_code_id(arguments: str) -> str:
    fields = lenient_json.parse_object(arguments.encode())
    return lenient_json.compact_json(
        {name: value for name, value in fields.items() if name != "id"}
    )
