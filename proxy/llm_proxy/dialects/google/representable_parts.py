"""Converts parts to what Gemini responses can represent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.google import citation_encoder
from llm_proxy.dialects.google.content_decoder import CODE_TOOL, PART_METADATA, SUCCESS_OUTCOMES
from llm_proxy.turns import Json, Media, Metadata, Part, Reasoning, Text, ToolCall, ToolResult

CODE_CALL: Final = "executableCode"
CODE_RESULT: Final = "codeExecutionResult"
TOOL_CALL: Final = "toolCall"
TOOL_RESULT: Final = "toolResponse"
"""The part kinds of the tools that Google runs: calls and their results."""

MEDIA_METADATA: Final = ("thought",)
SIGNATURE_FIELD: Final = PART_METADATA[0]
_SIGNATURE_PATTERN: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
"""Clients reject a signature that is not base64."""

_SERVER_CALL_KINDS: Final = (CODE_CALL, TOOL_CALL)
_RESULT_KINDS: Final = (TOOL_RESULT, "functionResponse")
_OUTCOME_BY_FAILED: Final = {False: "OUTCOME_OK", True: "OUTCOME_FAILED"}


def representable_text(text: Text) -> Text:
    """The text with its citations and its signature."""
    citations = tuple(filter(None, map(citation_encoder.representable_citation, text.citations)))
    return Text(
        text.text, citations, nonempty_metadata(_part_metadata(text.metadata), (SIGNATURE_FIELD,))
    )


def representable_reasoning(reasoning: Reasoning) -> Reasoning | None:
    """The text and signature of reasoning; None where both are missing."""
    converted = Reasoning(
        reasoning.text, reasoning.signature if _is_signature(reasoning.signature) else None
    )
    return converted if converted.text or converted.signature else None


def representable_tool_call(tool_call: ToolCall) -> ToolCall | None:
    """A call whose arguments are an object; None for other arguments.

    The metadata field `type` marks a call of a tool that Google runs.
    """
    arguments = normalized_object_json(tool_call.arguments)
    if not arguments:
        return None
    kind = dict(tool_call.metadata).get("type")
    kind_metadata: Metadata = (("type", kind),) if kind in _SERVER_CALL_KINDS else ()
    converted = ToolCall(
        tool_call.id,
        tool_call.name,
        arguments,
        (*kind_metadata, *_part_metadata(tool_call.metadata)),
    )
    return (
        replace(converted, name=CODE_TOOL, arguments=_without_code_id(arguments))
        if kind == CODE_CALL
        else converted
    )


def representable_provider_tool_call(tool_call: ToolCall) -> ToolCall | None:
    """A call that a tool of the provider answered."""
    fields = dict(tool_call.metadata)
    kind = fields.get("type")
    default_kind = CODE_CALL if tool_call.name == CODE_TOOL else TOOL_CALL
    fields["type"] = kind if kind in _SERVER_CALL_KINDS else default_kind
    return representable_tool_call(replace(tool_call, metadata=tuple(fields.items())))


def is_client_tool_call(part: Part) -> bool:
    """Whether the part is a call of a client's tool."""
    return isinstance(part, ToolCall) and dict(part.metadata).get("type") not in _SERVER_CALL_KINDS


def has_client_tool_call(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call of a client's tool."""
    return any(map(is_client_tool_call, parts))


def representable_tool_result(tool_result: ToolResult) -> ToolResult:
    """A result of code, with its outcome, or of another tool, whose content is an object.

    Other content is wrapped in `result` or `error`; empty content stays empty.
    """
    fields = dict(tool_result.metadata)
    metadata = _part_metadata(tool_result.metadata)
    kind = fields.get("type")
    if kind == CODE_RESULT or (kind not in _RESULT_KINDS and tool_result.name == CODE_TOOL):
        outcome = fields.get("outcome")
        if not outcome or (outcome not in SUCCESS_OUTCOMES) is not tool_result.failed:
            outcome = _OUTCOME_BY_FAILED[tool_result.failed]
        kind_metadata: Metadata = (("type", CODE_RESULT), *metadata, ("outcome", outcome))
        return ToolResult(
            tool_result.call_id, tool_result.content, CODE_TOOL, tool_result.failed, kind_metadata
        )
    kind_metadata = (("type", kind if kind in _RESULT_KINDS else TOOL_RESULT), *metadata)
    wrapped: Json = {"error" if tool_result.failed else "result": tool_result.content}
    has_content = bool(tool_result.content or tool_result.failed)
    content = (
        (normalized_object_json(tool_result.content) or lenient_json.compact_json(wrapped))
        if has_content
        else ""
    )
    return ToolResult(tool_result.call_id, content, tool_result.name, metadata=kind_metadata)


def representable_media(media: Media) -> Media | None:
    """Media, inline if possible, else by reference; None where there is only a transcript."""
    if media.transcript and not (media.base64 or media.url):
        return None
    fields = {**dict(media.metadata), **dict(_part_metadata(media.metadata))}
    if fields.get("thought") is not True:
        fields.pop("thought", None)
    metadata = nonempty_metadata(
        tuple(fields.items()), ("displayName", *PART_METADATA, *MEDIA_METADATA)
    )
    return Media(
        media.media_type, "" if media.base64 else media.url, media.base64, metadata=metadata
    )


def has_signature(part: Part) -> bool:
    """Whether the part has a signature, which ends it: text that follows is another part."""
    match part:
        case Reasoning():
            return bool(part.signature)
        case _:
            return bool(dict(part.metadata).get(SIGNATURE_FIELD))


def _part_metadata(metadata: Metadata) -> Metadata:
    """The wire fields beside a part's content, without an invalid signature."""
    return tuple(
        pair
        for pair in nonempty_metadata(metadata, PART_METADATA)
        if pair[0] != SIGNATURE_FIELD or _is_signature(pair[1])
    )


def _is_signature(value: Json) -> bool:
    return isinstance(value, str) and bool(_SIGNATURE_PATTERN.fullmatch(value))


def _without_code_id(arguments: str) -> str:
    fields = lenient_json.parse_object(arguments.encode())
    return lenient_json.compact_json(
        {name: value for name, value in fields.items() if name != "id"}
    )
