"""Converts a fixture's response into a scenario step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.aimock.losses import (
    COSTS,
    ENDLESS_ERROR,
    RESPONSE_ENVELOPE,
    UNKNOWN_FIELDS,
    WEB_SEARCHES,
)
from llm_proxy.importing.fields import nonnegative_number
from llm_proxy.importing.source import ImportLoss, NotImportable
from llm_proxy.scenario.engine.turns import json_stringify
from llm_proxy.turns import Json

Fields = dict[str, Json]

_MAX_QUOTE_CHARS: Final = 80
_ENDLESS_FAILURE_COUNT: Final = 1_000_000
"""Failures of a fixture that always fails."""
_RATE_LIMIT_STATUS: Final = 429
_DEFAULT_ERROR_STATUS: Final = 500
_ERROR_STATUSES: Final = range(400, 600)
_UNSUPPORTED_CONTENT: Final[Mapping[str, str]] = {
    "embedding": "an embedding",
    "image": "a picture",
    "images": "pictures",
    "audio": "sound",
    "transcription": "a transcript",
    "video": "a film",
    "json": "JSON of its own",
    "live": "a live session",
}
"""Response fields that no scenario can represent, with their description."""
_ERROR_FIELDS: Final = ("type", "code", "param")
"""Fields of an error beside its message."""
_CONVERTED_FIELDS: Final = (
    "content", "toolCalls", "blocks", "reasoning", "reasoningSignature", "redactedThinking",
    "usage", "finishReason",
)  # fmt: skip
_ENVELOPE_FIELDS: Final = ("id", "created", "model", "role", "systemFingerprint", "provider")
_ENVELOPE_FINISH_FIELD: Final = "nativeFinishReason"
_USAGE_NAME_BY_FIELD: Final[Mapping[str, str]] = {
    "prompt_tokens": "input",
    "input_tokens": "input",
    "promptTokenCount": "input",
    "completion_tokens": "output",
    "output_tokens": "output",
    "candidatesTokenCount": "output",
    "total_tokens": "total",
    "totalTokenCount": "total",
}
_USAGE_NAME_BY_DETAIL_FIELD: Final[Mapping[str, Mapping[str, str]]] = {
    "prompt_tokens_details": {"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    "completion_tokens_details": {"reasoning_tokens": "reasoning"},
}


def convert_response(response: Json) -> tuple[Fields, list[ImportLoss]]:
    """A scenario step without `turn`, and the losses.  Raises `NotImportable`."""
    if not isinstance(response, dict):
        raise NotImportable("it has no response")
    if isinstance(response.get("error"), dict):
        return _failure_step(response), [ENDLESS_ERROR]
    if unsupported := next(
        (text for name, text in _UNSUPPORTED_CONTENT.items() if name in response), ""
    ):
        raise NotImportable(
            f"it answers with {unsupported}, and a scenario with what a model says or calls"
        )
    fields = _response_fields(response) | _reasoning_fields(response)
    if isinstance(finish := response.get("finishReason"), str) and finish:
        fields["finish_reason"] = finish
    usage, is_complete_usage = _usage_fields(response.get("usage"))
    losses = [*([] if is_complete_usage else [COSTS]), *_field_losses(response)]
    return {"response": fields | ({"usage": usage} if usage else {})}, losses


def _field_losses(response: Fields) -> Iterator[ImportLoss]:
    names = [
        text
        for text, value in response.items()
        if value is not None and text not in _CONVERTED_FIELDS
    ]
    envelope_names = [
        name for name in names if name in _ENVELOPE_FIELDS or name == _ENVELOPE_FINISH_FIELD
    ]
    if envelope_names:
        yield RESPONSE_ENVELOPE
    if "webSearches" in names:
        yield WEB_SEARCHES
    if len(names) > len(envelope_names) + ("webSearches" in names):
        yield UNKNOWN_FIELDS


def _failure_step(response: Fields) -> Fields:
    error = lenient_json.object_fields(response["error"])
    value = response.get("status")
    status = _DEFAULT_ERROR_STATUS if value is None else lenient_json.first_integer(value)
    if status is None or status not in _ERROR_STATUSES:
        raise NotImportable("its status is none of an error: from 400 to 599")
    fields: Fields = {item: error[item] for item in _ERROR_FIELDS if error.get(item) is not None}
    step: Fields = {
        "failures_before_success": _ENDLESS_FAILURE_COUNT,
        "failure_status": "model_error",
    }
    if status == _RATE_LIMIT_STATUS:
        retry_after_s = nonnegative_number(response.get("retryAfter"))
        step["failure_status"] = "rate_limit"
        step["failure_retry_after_ms"] = 1000 if retry_after_s is None else retry_after_s * 1000
    else:
        fields = {"status": status, **fields}
    if message := lenient_json.str_or_empty(error.get("message")):
        step["failure_message"] = message
    if fields:
        step["failure_error"] = fields
    return {**step, "response": {"kind": "text", "assistant_text": ""}}


def _response_fields(response: Fields) -> Fields:
    """Parts in order, tool calls after an optional text, or a text."""
    blocks, calls = (
        lenient_json.array_items(response.get(item)) for item in ("blocks", "toolCalls")
    )
    content = response.get("content")
    text = content if content is None or isinstance(content, str) else json_stringify(content)
    if blocks:
        return {"kind": "parts", "parts": [_content_part(block) for block in blocks]}
    if calls:
        leading_text: Fields = {"assistant_text": text} if text else {}
        return {
            "kind": "tool-call",
            **leading_text,
            "tool_calls": [_tool_call(value) for value in calls],
        }
    if text is None:
        raise NotImportable("its response has none of content, toolCalls, blocks and error")
    return {"kind": "text", "assistant_text": text}


def _content_part(block: Json) -> Fields:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"part": "text", "text": text}
        case {"type": "toolCall"}:
            return {"part": "tool-call", **_tool_call(block)}
        case _:
            raise NotImportable("one of its blocks is neither a text nor a toolCall")


def _tool_call(call: Json) -> Fields:
    fields = lenient_json.object_fields(call)
    name, call_id = fields.get("name"), fields.get("id")
    if not isinstance(name, str) or not name:
        raise NotImportable("one of its calls has no name")
    arguments = fields.get("arguments")
    if isinstance(arguments, str):
        arguments = _parse_json_text(arguments)
    if not isinstance(arguments, dict):
        raise NotImportable(
            f"the arguments of {printable_excerpt(name, _MAX_QUOTE_CHARS)} are no JSON object"
        )
    id_field: Fields = {"call_id": call_id} if isinstance(call_id, str) and call_id else {}
    return {"tool_name": name, "arguments": arguments, **id_field}


def _parse_json_text(text: str) -> Json:
    """The JSON value in a text; None where it is none."""
    try:
        value: Json = orjson.loads(text.strip() or "{}")
    except ValueError:
        return None
    return value


def _reasoning_fields(response: Fields) -> Fields:
    redacted_texts = (
        lenient_json.str_or_empty(array_item)
        for array_item in lenient_json.array_items(response.get("redactedThinking"))
    )
    reasoning_blocks: list[Json] = [
        {"provider_metadata": {"anthropic": {"redactedData": content}}}
        for content in redacted_texts
        if content
    ]
    if text := lenient_json.str_or_empty(response.get("reasoning")):
        signature = lenient_json.str_or_empty(response.get("reasoningSignature"))
        signature_metadata: Fields = {"provider_metadata": {"anthropic": {"signature": signature}}}
        reasoning_blocks.append({"text": text, **(signature_metadata if signature else {})})
    return {"reasoning": reasoning_blocks} if reasoning_blocks else {}


def _usage_fields(usage: Json) -> tuple[Fields, bool]:
    """The token counts, and whether the usage has no other fields."""
    usage_fields: Fields = {}
    is_complete = True
    for name, value in lenient_json.object_fields(usage).items():
        counts = {_USAGE_NAME_BY_FIELD[name]: value} if name in _USAGE_NAME_BY_FIELD else {}
        for detail, meaning in _USAGE_NAME_BY_DETAIL_FIELD.get(name, {}).items():
            counts[meaning] = lenient_json.object_fields(value).get(detail)
        fields = {
            text: count
            for text, one in counts.items()
            if (count := lenient_json.first_integer(one)) is not None
        }
        usage_fields |= {name: count for name, count in fields.items() if count >= 0}
        is_complete = is_complete and bool(counts)
    return usage_fields, is_complete
