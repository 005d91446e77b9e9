"""What Ollama's answers say, a line at a time; an answer that does not stream is one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json, output_chars
from llm_proxy.dialects.fragments import Fragments
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


def turn(lines: Sequence[Fields]) -> Turn:
    """The turn that these lines tell.

    Ollama says `stop` also where the model stops for its tools; the turn says `TOOL_CALLS`.
    """
    fragments = Fragments()
    for line in lines:
        _take(line, fragments)
    parts = fragments.parts()
    end = next((line for line in reversed(lines) if line.get("done") is True), None)
    failed = next((line for line in lines if line.get("error")), None)
    raw = _finish_raw(lines[-1] if end is None else end)
    finish = _finish(raw)
    calls = any(isinstance(part, ToolCall) for part in parts)
    return Turn(
        parts,
        finish=Finish.TOOL_CALLS if calls and finish is Finish.STOP else finish,
        finish_raw=raw or "",
        usage=_usage(end or {}),
        failure=_failure(failed) if failed else None,
        model=next(filter(None, (lenient_json.words(line.get("model")) for line in lines)), ""),
        metadata=lenient_json.metadata(end or {}, METADATA),
    )


def says(line: Fields) -> int:
    """How many characters a line adds to what was said."""
    fragments = Fragments()
    _take(line, fragments)
    return sum(map(output_chars.says, fragments.parts()))


def _take(line: Fields, fragments: Fragments) -> None:
    """Read one line; of a response that does not stream it is the only one."""
    message = lenient_json.fields(line.get("message")) or line
    if thought := lenient_json.text(message.get("thinking")):
        fragments.add(Reasoning(thought))
    if said := lenient_json.text(message.get("content")) or lenient_json.text(line.get("response")):
        fragments.add(Text(said))
    for image in (line.get("image"), *lenient_json.array(message.get("images"))):
        if drawn := lenient_json.text(image):
            fragments.add(Media("image/*", base64=drawn), key=None)
    for call in lenient_json.objects(message.get("tool_calls")):
        function = lenient_json.fields(call.get("function"))
        arguments = function.get("arguments")
        fragments.add(
            ToolCall(
                id=lenient_json.words(call.get("id")),
                name=lenient_json.words(function.get("name")),
                arguments=lenient_json.words(arguments),
            ),
            key=None,  # each call comes whole
        )


def _failure(line: Fields) -> Failure:
    """An error line; Ollama's cloud gives the HTTP status beside it."""
    failure = json_api.failure(line["error"])
    return replace(failure, code=failure.code or lenient_json.words(line.get("status")))


def _finish_raw(end: Fields) -> str | None:
    """The word of the line that ends the stream; None where the line ends nothing."""
    if end.get("done") is True:
        return lenient_json.words(end.get("done_reason"))
    return SUCCESS if end.get("status") == SUCCESS else None


def _finish(raw: str | None) -> Finish | None:
    return None if raw is None else FINISH.get(raw, Finish.OTHER)


def _usage(end: Fields) -> Usage | None:
    counts = {field: lenient_json.count(end.get(name)) for field, name in COUNTS.items()}
    return Usage(**counts) if any(count is not None for count in counts.values()) else None
