"""Converts a fixture's response into a scenario step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable
from llm_proxy.importing.aimock.losses import COSTS, ENVELOPE, FAILURE, OTHERS, SEARCHES
from llm_proxy.importing.fields import parse_number
from llm_proxy.importing.source import ImportLoss, NotImportable
from llm_proxy.scenario.engine.turns import json_stringify
from llm_proxy.turns import Json

Fields = dict[str, Json]

_SHOWN: Final = 80
_ALWAYS: Final = 1_000_000
"""How often a fixture fails that always does."""
_OFTEN: Final = 429
_BROKEN: Final = 500
_ERRORS: Final = range(400, 600)
_UNSAID: Final[Mapping[str, str]] = {
    "embedding": "an embedding",
    "image": "a picture",
    "images": "pictures",
    "audio": "sound",
    "transcription": "a transcript",
    "video": "a film",
    "json": "JSON of its own",
    "live": "a live session",
}
"""What is answered under a name, and no scenario says."""
_ABOUT: Final = ("type", "code", "param")
"""Fields of an error, beside its message."""
_SAID: Final = (
    "content", "toolCalls", "blocks", "reasoning", "reasoningSignature", "redactedThinking",
    "usage", "finishReason",
)  # fmt: skip
_MADE: Final = ("id", "created", "model", "role", "systemFingerprint", "provider")
_MADE_TOO: Final = "nativeFinishReason"
_TOKENS: Final[Mapping[str, str]] = {
    "prompt_tokens": "input",
    "input_tokens": "input",
    "promptTokenCount": "input",
    "completion_tokens": "output",
    "output_tokens": "output",
    "candidatesTokenCount": "output",
    "total_tokens": "total",
    "totalTokenCount": "total",
}
_DETAILS: Final[Mapping[str, Mapping[str, str]]] = {
    "prompt_tokens_details": {"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    "completion_tokens_details": {"reasoning_tokens": "reasoning"},
}


def response_step(response: Json) -> tuple[Fields, list[ImportLoss]]:
    """A step without its turn, and what it does not say.  Raises `NotImportable`."""
    if not isinstance(response, dict):
        raise NotImportable("it has no response")
    if isinstance(response.get("error"), dict):
        return _failure_step(response), [FAILURE]
    if unsaid := next((text for name, text in _UNSAID.items() if name in response), ""):
        raise NotImportable(
            f"it answers with {unsaid}, and a scenario with what a model says or calls"
        )
    fields = _response_fields(response) | _reasoning_fields(response)
    if isinstance(finish := response.get("finishReason"), str) and finish:
        fields["finish_reason"] = finish
    usage, is_all = _usage_fields(response.get("usage"))
    losses = [*([] if is_all else [COSTS]), *_unrepresentable_fields(response)]
    return {"response": fields | ({"usage": usage} if usage else {})}, losses


def _unrepresentable_fields(response: Fields) -> Iterator[ImportLoss]:
    names = [text for text, value in response.items() if value is not None and text not in _SAID]
    made = [name for name in names if name in _MADE or name == _MADE_TOO]
    if made:
        yield ENVELOPE
    if "webSearches" in names:
        yield SEARCHES
    if len(names) > len(made) + ("webSearches" in names):
        yield OTHERS


def _failure_step(response: Fields) -> Fields:
    error = lenient_json.object_fields(response["error"])
    value = response.get("status")
    status = _BROKEN if value is None else lenient_json.first_count(value)
    if status is None or status not in _ERRORS:
        raise NotImportable("its status is none of an error: from 400 to 599")
    fields: Fields = {item: error[item] for item in _ABOUT if error.get(item) is not None}
    failed: Fields = {"failures_before_success": _ALWAYS, "failure_status": "model_error"}
    if status == _OFTEN:
        wait = parse_number(response.get("retryAfter"))
        failed["failure_status"] = "rate_limit"
        failed["failure_retry_after_ms"] = 1000 if wait is None else wait * 1000
    else:
        fields = {"status": status, **fields}
    if message := lenient_json.str_or_empty(error.get("message")):
        failed["failure_message"] = message
    if fields:
        failed["failure_error"] = fields
    return {**failed, "response": {"kind": "text", "assistant_text": ""}}


def _response_fields(response: Fields) -> Fields:
    """Parts in their order, calls with a text before them, or a text."""
    blocks, calls = (
        lenient_json.array_items(response.get(item)) for item in ("blocks", "toolCalls")
    )
    content = response.get("content")
    text = content if content is None or isinstance(content, str) else json_stringify(content)
    if blocks:
        return {"kind": "parts", "parts": [_content_part(block) for block in blocks]}
    if calls:
        before: Fields = {"assistant_text": text} if text else {}
        return {"kind": "tool-call", **before, "tool_calls": [_tool_call(value) for value in calls]}
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
        raise NotImportable(f"the arguments of {printable(name, _SHOWN)} are no JSON object")
    made: Fields = {"call_id": call_id} if isinstance(call_id, str) and call_id else {}
    return {"tool_name": name, "arguments": arguments, **made}


def _parse_json_text(text: str) -> Json:
    """What JSON in a text says; None where it is none."""
    try:
        found: Json = orjson.loads(text.strip() or "{}")
    except ValueError:
        return None
    return found


def _reasoning_fields(response: Fields) -> Fields:
    sealed = (
        lenient_json.str_or_empty(array_item)
        for array_item in lenient_json.array_items(response.get("redactedThinking"))
    )
    thoughts: list[Json] = [
        {"provider_metadata": {"anthropic": {"redactedData": content}}}
        for content in sealed
        if content
    ]
    if text := lenient_json.str_or_empty(response.get("reasoning")):
        signature = lenient_json.str_or_empty(response.get("reasoningSignature"))
        sealing: Fields = {"provider_metadata": {"anthropic": {"signature": signature}}}
        thoughts.append({"text": text, **(sealing if signature else {})})
    return {"reasoning": thoughts} if thoughts else {}


def _usage_fields(usage: Json) -> tuple[Fields, bool]:
    """The tokens, and whether it says nothing else."""
    found: Fields = {}
    is_all = True
    for name, value in lenient_json.object_fields(usage).items():
        known = {_TOKENS[name]: value} if name in _TOKENS else {}
        for detail, meaning in _DETAILS.get(name, {}).items():
            known[meaning] = lenient_json.object_fields(value).get(detail)
        fields = {
            text: count
            for text, one in known.items()
            if (count := lenient_json.first_count(one)) is not None
        }
        found |= {it: count for it, count in fields.items() if count >= 0}
        is_all = is_all and bool(known)
    return found, is_all
