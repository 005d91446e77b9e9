"""Decodes Ollama's responses line by line; an unstreamed response is one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json, output_chars
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Failure, Finish, Media, Reasoning, Text, ToolCall, Turn, Usage

SUCCESS: Final = "success"
"""The status that ends a transfer."""

FINISH: Final = {"stop": Finish.STOP, "length": Finish.LENGTH, SUCCESS: Finish.STOP}
"""`load` and `unload` are `OTHER`; so is the silence of old servers."""

PLACES: Final = ("remote_model", "remote_host")
"""Where the model ran, if not here."""

DURATIONS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
"""How long it took, in ns."""

COUNTS: Final = {"input": "prompt_eval_count", "output": "eval_count"}
"""What the fields of `Usage` are called."""

METADATA: Final = (*PLACES, *DURATIONS)


def decode_turn(lines: Sequence[Fields]) -> Turn:
    """The turn that these lines tell.

    Ollama says `stop` also where the model stops for its tools; the turn says `TOOL_CALLS`.
    """
    fragments = FragmentJoiner()
    for line in lines:
        _feed_line(line, fragments)
    parts = fragments.joined_parts()
    end = next((line for line in reversed(lines) if line.get("done") is True), None)
    failed = next((line for line in lines if line.get("error")), None)
    raw = _raw_finish(lines[-1] if end is None else end)
    finish = _finish_of(raw)
    calls = any(isinstance(part, ToolCall) for part in parts)
    return Turn(
        parts,
        finish=Finish.TOOL_CALLS if calls and finish is Finish.STOP else finish,
        finish_raw=raw or "",
        usage=_decode_usage(end or {}),
        failure=_decode_failure(failed) if failed else None,
        model=next(
            filter(None, (lenient_json.printable_text(line.get("model")) for line in lines)), ""
        ),
        metadata=lenient_json.named_metadata(end or {}, METADATA),
    )


def line_output_chars(line: Fields) -> int:
    """How many characters a line adds to what was said."""
    fragments = FragmentJoiner()
    _feed_line(line, fragments)
    return sum(map(output_chars.fragment_output_chars, fragments.joined_parts()))


def _feed_line(line: Fields, fragments: FragmentJoiner) -> None:
    """Read one line; of a response that does not stream it is the only one."""
    message = lenient_json.object_fields(line.get("message")) or line
    if thought := lenient_json.str_or_empty(message.get("thinking")):
        fragments.add(Reasoning(thought))
    if text := lenient_json.str_or_empty(message.get("content")) or lenient_json.str_or_empty(
        line.get("response")
    ):
        fragments.add(Text(text))
    for image in (line.get("image"), *lenient_json.array_items(message.get("images"))):
        if drawn := lenient_json.str_or_empty(image):
            fragments.add(Media("image/*", base64=drawn), key=None)
    for call in lenient_json.object_items(message.get("tool_calls")):
        function = lenient_json.object_fields(call.get("function"))
        arguments = function.get("arguments")
        fragments.add(
            ToolCall(
                id=lenient_json.printable_text(call.get("id")),
                name=lenient_json.printable_text(function.get("name")),
                arguments=lenient_json.printable_text(arguments),
            ),
            key=None,  # each call comes whole
        )


def _decode_failure(line: Fields) -> Failure:
    """An error line; Ollama's cloud gives the HTTP status beside it."""
    failure = json_api.decode_failure(line["error"])
    return replace(failure, code=failure.code or lenient_json.printable_text(line.get("status")))


def _raw_finish(end: Fields) -> str | None:
    """The word of the line that ends the stream; None where the line ends nothing."""
    if end.get("done") is True:
        return lenient_json.printable_text(end.get("done_reason"))
    return SUCCESS if end.get("status") == SUCCESS else None


def _finish_of(raw: str | None) -> Finish | None:
    return None if raw is None else FINISH.get(raw, Finish.OTHER)


def _decode_usage(end: Fields) -> Usage | None:
    counts = {field: lenient_json.first_count(end.get(name)) for field, name in COUNTS.items()}
    return Usage(**counts) if any(count is not None for count in counts.values()) else None
