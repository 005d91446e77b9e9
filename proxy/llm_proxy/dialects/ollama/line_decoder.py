"""Decodes Ollama's responses line by line; an unstreamed response is one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json, output_chars
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, FinishReason, Media, Reasoning, Text, ToolCall, Turn, Usage

SUCCESS: Final = "success"
"""The status that ends a transfer."""

FINISH_BY_REASON: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    SUCCESS: FinishReason.STOP,
}
"""`load` and `unload` are `OTHER`; so is a missing reason, as old servers send none."""

REMOTE_FIELDS: Final = ("remote_model", "remote_host")
"""The metadata that names a remote model and its host."""

DURATION_FIELDS: Final = (
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)
"""The metadata that holds durations, in ns."""

USAGE_WIRE_NAMES: Final = {"input": "prompt_eval_count", "output": "eval_count"}
"""Fields of `Usage` -> fields of the last line."""

METADATA_FIELDS: Final = (*REMOTE_FIELDS, *DURATION_FIELDS)


def decode_turn(lines: Sequence[Fields]) -> Turn:
    """The turn of a response's lines.

    Ollama sends `stop` also where the model waits for tools; the turn has `TOOL_CALLS` then.
    """
    fragments = FragmentJoiner()
    for line in lines:
        _feed_line(line, fragments)
    parts = fragments.joined_parts()
    done_line = next((line for line in reversed(lines) if line.get("done") is True), None)
    error_line = next((line for line in lines if line.get("error")), None)
    raw = _raw_finish_reason(lines[-1] if done_line is None else done_line)
    finish = _parse_finish_reason(raw)
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return Turn(
        parts,
        finish=FinishReason.TOOL_CALLS if has_calls and finish is FinishReason.STOP else finish,
        finish_raw=raw or "",
        usage=_decode_usage(done_line or {}),
        failure=_decode_failure(error_line) if error_line else None,
        model=next(
            filter(None, (lenient_json.value_as_text(line.get("model")) for line in lines)), ""
        ),
        metadata=lenient_json.select_metadata(done_line or {}, METADATA_FIELDS),
    )


def line_output_chars(line: Fields) -> int:
    """The output characters that a line adds to a response."""
    fragments = FragmentJoiner()
    _feed_line(line, fragments)
    return sum(map(output_chars.fragment_output_chars, fragments.joined_parts()))


def _feed_line(line: Fields, fragments: FragmentJoiner) -> None:
    """Add the parts of one line; an unstreamed response is one line."""
    message = lenient_json.object_fields(line.get("message")) or line
    if thought := lenient_json.str_or_empty(message.get("thinking")):
        fragments.add_fragment(Reasoning(thought))
    if text := lenient_json.str_or_empty(message.get("content")) or lenient_json.str_or_empty(
        line.get("response")
    ):
        fragments.add_fragment(Text(text))
    for image in (line.get("image"), *lenient_json.array_items(message.get("images"))):
        if image_base64 := lenient_json.str_or_empty(image):
            fragments.add_fragment(Media("image/*", base64=image_base64), key=None)
    for call in lenient_json.array_objects(message.get("tool_calls")):
        function = lenient_json.object_fields(call.get("function"))
        arguments = function.get("arguments")
        fragments.add_fragment(
            ToolCall(
                id=lenient_json.value_as_text(call.get("id")),
                name=lenient_json.value_as_text(function.get("name")),
                arguments=lenient_json.value_as_text(arguments),
            ),
            key=None,  # a call is never split
        )


def _decode_failure(line: Fields) -> Failure:
    """The failure of an error line, to which Ollama's cloud adds the HTTP status."""
    failure = json_api.decode_failure(line["error"])
    return replace(failure, code=failure.code or lenient_json.value_as_text(line.get("status")))


def _raw_finish_reason(last_line: Fields) -> str | None:
    """The wire's finish reason in the last line; None where that does not end the response."""
    if last_line.get("done") is True:
        return lenient_json.value_as_text(last_line.get("done_reason"))
    return SUCCESS if last_line.get("status") == SUCCESS else None


def _parse_finish_reason(raw: str | None) -> FinishReason | None:
    return None if raw is None else FINISH_BY_REASON.get(raw, FinishReason.OTHER)


def _decode_usage(done_line: Fields) -> Usage | None:
    counts = {
        field: lenient_json.first_integer(done_line.get(name))
        for field, name in USAGE_WIRE_NAMES.items()
    }
    return Usage(**counts) if any(count is not None for count in counts.values()) else None
