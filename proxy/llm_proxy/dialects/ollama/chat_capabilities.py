"""What an Ollama response can represent, by path and streaming."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    object_argument_call,
    unsigned_reasoning,
)
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors
from llm_proxy.dialects.ollama.line_decoder import DURATIONS, FINISH, METADATA
from llm_proxy.dialects.ollama.paths import CHAT, GENERATE
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import Json, Media, Reasoning, Text, ToolCall, Turn, Usage

_WORDS: Final = {finish: word for word, finish in reversed(FINISH.items())}
"""The first word of each meaning."""

_TOTAL: Final = "total_duration"
_READ: Final = 1_000_000
_WRITTEN: Final = 10_000_000
_LOAD: Final = 1_000_000
"""ns that a token takes to be read, one to be written, and the model to be there: a turn that
does not say how long it took, took as long as one of a middling machine."""


def capabilities(path: str, *, stream: bool) -> Capabilities:
    """The words on this path.  Raises `NotRepresentable` where no turn is told."""
    if path not in (CHAT, GENERATE):
        raise NotRepresentable(f"ollama tells no turn on {path}")
    return Capabilities(
        dialect="ollama",
        streams=stream,
        finish_of_raw=FINISH,
        raw_of_finish=_WORDS,
        stop_means_tool_calls=True,
        convert_reasoning=unsigned_reasoning,
        convert_tool_call=object_argument_call,
        convert_media=_convert_image,
        part_order=() if stream else (Reasoning, Text, Media, ToolCall),
        required_usage_fields=("input", "output"),
        always_has_usage=True,
        metadata_names=METADATA,
        arrange=partial(_arrange, images=1 if path == GENERATE and not stream else None),
        convert_failure=errors.as_stream_error if stream else errors.as_whole_error,
        convert_failed_turn=_as_failed_stream,
    )


def _convert_image(media: Media) -> Media | None:
    """An image that is there; of which kind, only its bytes say."""
    is_image = media.media_type.startswith("image/") and media.base64
    return Media("image/*", base64=media.base64) if is_image else None


def _arrange(turn: Turn, images: int | None) -> Turn:
    """With how long it took, and no more images than the answer has places for."""
    if images is not None and sum(isinstance(part, Media) for part in turn.parts) > images:
        raise NotRepresentable("ollama says one image in a completion that does not stream")
    if turn.failure is not None:
        return turn
    fields = dict(turn.metadata)
    took = {**_duration_fields(turn.usage or Usage(), fields), **fields}
    return replace(turn, metadata=nonempty_metadata(tuple(took.items()), METADATA))


def _duration_fields(usage: Usage, fields: Fields) -> dict[str, Json]:
    """How long it would have taken, but for what it says itself."""
    made = {
        "load_duration": _LOAD,
        "prompt_eval_duration": max(usage.input or 0, 1) * _READ,
        "eval_duration": max(usage.output or 0, 1) * _WRITTEN,
    }
    counted = (
        lenient_json.first_count(fields.get(name), made[name])
        for name in DURATIONS
        if name != _TOTAL
    )
    return {_TOTAL: sum(number or 0 for number in counted), **made}


def _as_failed_stream(turn: Turn) -> Turn:
    """What a stream tells before an error: not even a model, where it has not begun."""
    return replace(turn, usage=None, metadata=(), model=turn.model if turn.parts else "")
