"""What an Ollama response can represent, by path and streaming."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    tool_call_with_object_arguments,
    without_signature,
)
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors
from llm_proxy.dialects.ollama.line_decoder import (
    DURATION_FIELDS,
    FINISH_BY_REASON,
    METADATA_FIELDS,
)
from llm_proxy.dialects.ollama.paths import CHAT, GENERATE
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import Json, Media, Reasoning, Text, ToolCall, Turn, Usage

_RAW_OF_FINISH: Final = {finish: raw for raw, finish in reversed(FINISH_BY_REASON.items())}
"""The first reason in `FINISH_BY_REASON` of each meaning."""

_TOTAL_DURATION: Final = "total_duration"
_NS_PER_INPUT_TOKEN: Final = 1_000_000
_NS_PER_OUTPUT_TOKEN: Final = 10_000_000
_LOAD_NS: Final = 1_000_000
"""With the two rates above: the assumed speed of a machine, for turns without durations."""


def capabilities(path: str, *, stream: bool) -> Capabilities:
    """What a response on this path can hold.  Raises `NotRepresentable` where that is no turn."""
    if path not in (CHAT, GENERATE):
        raise NotRepresentable(f"ollama tells no turn on {path}")
    return Capabilities(
        dialect="ollama",
        is_streamed=stream,
        finish_by_raw_reason=FINISH_BY_REASON,
        raw_reason_by_finish=_RAW_OF_FINISH,
        stop_means_tool_calls=True,
        convert_reasoning=without_signature,
        convert_tool_call=tool_call_with_object_arguments,
        convert_media=_representable_image,
        part_order=() if stream else (Reasoning, Text, Media, ToolCall),
        required_usage_fields=("input", "output"),
        always_has_usage=True,
        metadata_names=METADATA_FIELDS,
        normalize_turn=partial(
            _normalize_turn, images=1 if path == GENERATE and not stream else None
        ),
        convert_failure=errors.as_stream_error_failure if stream else errors.as_http_error_failure,
        convert_failed_turn=_failed_stream_turn,
    )


def _representable_image(media: Media) -> Media | None:
    """An inline image; Ollama has no field for its media type.  None for other media."""
    is_image = media.media_type.startswith("image/") and media.base64
    return Media("image/*", base64=media.base64) if is_image else None


def _normalize_turn(turn: Turn, images: int | None) -> Turn:
    """The turn with durations.  Raises `NotRepresentable` for more than `images` images."""
    if images is not None and sum(isinstance(part, Media) for part in turn.parts) > images:
        raise NotRepresentable("ollama says one image in a completion that does not stream")
    if turn.failure is not None:
        return turn
    fields = dict(turn.metadata)
    durations = {**_estimated_durations_ns(turn.usage or Usage(), fields), **fields}
    return replace(turn, metadata=nonempty_metadata(tuple(durations.items()), METADATA_FIELDS))


def _estimated_durations_ns(usage: Usage, fields: Fields) -> dict[str, Json]:
    """Durations in ns, estimated from the token counts.

    The total sums the durations in `fields`, and the estimates for those that are missing.
    """
    estimates_ns = {
        "load_duration": _LOAD_NS,
        "prompt_eval_duration": max(usage.input or 0, 1) * _NS_PER_INPUT_TOKEN,
        "eval_duration": max(usage.output or 0, 1) * _NS_PER_OUTPUT_TOKEN,
    }
    durations_ns = (
        lenient_json.first_integer(fields.get(name), estimates_ns[name])
        for name in DURATION_FIELDS
        if name != _TOTAL_DURATION
    )
    return {_TOTAL_DURATION: sum(duration_ns or 0 for duration_ns in durations_ns), **estimates_ns}


def _failed_stream_turn(turn: Turn) -> Turn:
    """What a stream holds before an error line; without any part, not even the model."""
    return replace(turn, usage=None, metadata=(), model=turn.model if turn.parts else "")
