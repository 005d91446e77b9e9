"""Decodes transcriptions and translations of audio, whole or streamed.

A body is JSON with a `text`, or plain text (or subtitles).  A stream is SSE: deltas of the text,
segments with times or speakers if requested, and a final event with the whole text.  Mistral's
events have other names.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import shared_format
from llm_proxy.exchange import header_value
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn, Usage

FINAL_EVENT_TYPES: Final = ("transcript.text.done", "transcription.done")
"""Types of the event that ends a stream: OpenAI's, Mistral's."""

_TEXT_FIELD_BY_EVENT_TYPE: Final = {
    "transcript.text.delta": "delta",
    "transcription.text.delta": "text",
}
"""The field with a piece of the text, by event type."""

_SEGMENT_EVENT_TYPES: Final = ("transcript.text.segment", "transcription.segment")
_TEXT_MEDIA_TYPES: Final = ("text/plain", "text/vtt", "text/srt", "application/x-subrip")
_METADATA_FIELDS: Final = (
    "task",
    "language",
    "languages",
    "duration",
    "segments",
    "words",
    "logprobs",
)


def decode_transcription(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn with the transcript; none for a response without one, such as speech."""
    if response.codec_name == "sse":
        return _decode_stream(response)
    body = json_api.joined_body(response)
    media_type = (header_value(response.head.headers, "content-type") or "").partition(";")[0]
    if media_type.strip().lower() in _TEXT_MEDIA_TYPES:
        return (_transcript_turn({"text": body.decode("utf-8", "replace")}),)
    fields = lenient_json.parse_object(body)
    return (_transcript_turn(fields),) if isinstance(fields.get("text"), str) else ()


def _decode_stream(response: DialectResponse) -> tuple[Turn, ...]:
    """The whole text of the final event; without that event, the joined deltas."""
    pieces: list[str] = []
    segments: list[Json] = []
    final_event: Fields = {}
    failure: Failure | None = None
    for fields in map(shared_format.decode_event, response.framed_messages):
        kind = lenient_json.value_as_text(fields.get("type"))
        if error := fields.get("error"):
            failure = failure or json_api.decode_failure(error)
        elif kind in FINAL_EVENT_TYPES:
            final_event = fields
        elif kind in _SEGMENT_EVENT_TYPES:
            segments.append(dict(fields))
        elif kind in _TEXT_FIELD_BY_EVENT_TYPE:
            pieces.append(lenient_json.str_or_empty(fields.get(_TEXT_FIELD_BY_EVENT_TYPE[kind])))
    if not (pieces or segments or final_event or failure):
        return ()
    transcript: Fields = {
        "text": lenient_json.join_pieces(pieces),
        "segments": segments,
        **final_event,
    }
    return (_transcript_turn(transcript, is_finished=bool(final_event), failure=failure),)


def _transcript_turn(
    transcript: Fields, *, is_finished: bool = True, failure: Failure | None = None
) -> Turn:
    text = lenient_json.join_pieces([lenient_json.str_or_empty(transcript.get("text"))])
    counts = lenient_json.object_fields(transcript.get("usage"))
    return Turn(
        (Text(text),) if text else (),
        finish=FinishReason.STOP if is_finished else None,
        finish_raw=lenient_json.value_as_text(transcript.get("type")),
        usage=_decode_usage(counts),
        failure=failure,
        model=lenient_json.value_as_text(transcript.get("model")),
        metadata=(
            *lenient_json.select_metadata(transcript, _METADATA_FIELDS),
            *lenient_json.select_metadata(counts, ("seconds",)),
        ),
    )


def _decode_usage(counts: Fields) -> Usage | None:
    """None where usage counts seconds instead of tokens."""
    usage = Usage(
        input=lenient_json.first_integer(counts.get("input_tokens"), counts.get("prompt_tokens")),
        output=lenient_json.first_integer(
            counts.get("output_tokens"), counts.get("completion_tokens")
        ),
        total=lenient_json.first_integer(counts.get("total_tokens")),
    )
    return None if usage == Usage() else usage
