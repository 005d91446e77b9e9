"""Converts a fixture's response into a scenario step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
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
_RESPONSE_ENVELOPE: Final = ImportLoss(
    "envelope", "ids, models, roles and fingerprints of answers are made by each dialect"
)
_COSTS: Final = ImportLoss("costs", "of its usage tokens are told, and nothing else")
_WEB_SEARCHES: Final = ImportLoss(
    "searches", "its webSearches are left out: a scenario has no word for them"
)
_ENDLESS_ERROR: Final = ImportLoss(
    "error without end",
    "its error comes a million times, in the words of the dialect that is asked, and an empty "
    "answer after that",
)
UNKNOWN_FIELDS: Final = ImportLoss(
    "fields", "it has fields that are unknown here: they are left out"
)
_LOSS_ORDER: Final = (_COSTS, _RESPONSE_ENVELOPE, _WEB_SEARCHES, UNKNOWN_FIELDS)
_LOSS_BY_FIELD: Final[Mapping[str, ImportLoss]] = {
    **dict.fromkeys(
        ("id", "created", "model", "role", "systemFingerprint", "provider", "nativeFinishReason"),
        _RESPONSE_ENVELOPE,
    ),
    "webSearches": _WEB_SEARCHES,
}
"""The losses of fields that are not converted; other ones are unknown."""


def convert_response(response: Json) -> tuple[Fields, list[ImportLoss]]:
    """A scenario step without `turn`, and the losses.  Raises `NotImportable`."""
    if not isinstance(response, dict):
        raise NotImportable("it has no response")
    if isinstance(response.get("error"), dict):
        return _failure_step(response), [_ENDLESS_ERROR]
    for name, description in _UNSUPPORTED_CONTENT.items():
        if name in response:
            raise NotImportable(
                f"it answers with {description}, and a scenario with what a model says or calls"
            )
    fields = _response_fields(response) | _reasoning_fields(response)
    if isinstance(finish := response.get("finishReason"), str) and finish:
        fields["finish_reason"] = finish
    usage, is_complete_usage = _usage_fields(response.get("usage"))
    if usage:
        fields["usage"] = usage
    losses = set() if is_complete_usage else {_COSTS}
    for name, value in response.items():
        if value is not None and name not in _CONVERTED_FIELDS:
            losses.add(_LOSS_BY_FIELD.get(name, UNKNOWN_FIELDS))
    return {"response": fields}, sorted(losses, key=_LOSS_ORDER.index)


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
    blocks = lenient_json.array_items(response.get("blocks"))
    calls = lenient_json.array_items(response.get("toolCalls"))
    content = response.get("content")
    text = content if content is None or isinstance(content, str) else json_stringify(content)
    if blocks:
        return {"kind": "parts", "parts": [_content_part(block) for block in blocks]}
    if calls:
        leading_text: Fields = {"assistant_text": text} if text else {}
        tool_calls: list[Json] = [_tool_call(call) for call in calls]
        return {"kind": "tool-call", **leading_text, "tool_calls": tool_calls}
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
        try:
            arguments = orjson.loads(arguments.strip() or "{}")
        except ValueError:
            arguments = None
    if not isinstance(arguments, dict):
        raise NotImportable(
            f"the arguments of {printable_excerpt(name, _MAX_QUOTE_CHARS)} are no JSON object"
        )
    id_field: Fields = {"call_id": call_id} if isinstance(call_id, str) and call_id else {}
    return {"tool_name": name, "arguments": arguments, **id_field}


def _reasoning_fields(response: Fields) -> Fields:
    reasoning_blocks: list[Json] = [
        {"provider_metadata": {"anthropic": {"redactedData": item}}}
        for item in lenient_json.array_items(response.get("redactedThinking"))
        if isinstance(item, str) and item
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
        for meaning, count in counts.items():
            number = lenient_json.first_integer(count)
            if number is not None and number >= 0:
                usage_fields[meaning] = number
        is_complete = is_complete and bool(counts)
    return usage_fields, is_complete
