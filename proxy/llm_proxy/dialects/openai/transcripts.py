"""Decodes transcriptions and translations of audio, whole or streamed.

A body is JSON with a `text`, or the text alone (also as subtitles).  A stream is SSE: pieces of
the text, segments with their times or speakers where they were asked for, and one event that has
all of the text and ends it.  Mistral's events have other names.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api
from llm_proxy.exchange import header_value
from llm_proxy.turns import Failure, Finish, Json, Text, Turn, Usage

ENDS: Final = ("transcript.text.done", "transcription.done")
"""Events after which nothing more is heard: OpenAI's, Mistral's."""

_PIECES: Final = {"transcript.text.delta": "delta", "transcription.text.delta": "text"}
"""Events that give a piece of the text, and the field that it stands in."""

_SEGMENTS: Final = ("transcript.text.segment", "transcription.segment")
_TEXTS: Final = ("text/plain", "text/vtt", "text/srt", "application/x-subrip")
_METADATA: Final = (
    "task",
    "language",
    "languages",
    "duration",
    "segments",
    "words",
    "logprobs",
)


def decode_turns(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn; none where nothing was heard, as where a text was spoken."""
    if response.codec == "sse":
        return _decode_stream(response)
    body = json_api.joined_body(response)
    essence = (header_value(response.head.headers, "content-type") or "").partition(";")[0]
    if essence.strip().lower() in _TEXTS:
        return (_transcript_turn({"text": body.decode("utf-8", "replace")}),)
    fields = lenient_json.parse_object(body)
    return (_transcript_turn(fields),) if isinstance(fields.get("text"), str) else ()


def _decode_stream(response: DialectResponse) -> tuple[Turn, ...]:
    """The text of the event that ends it, which is whole; else its pieces."""
    pieces: list[str] = []
    segments: list[Json] = []
    end: Fields = {}
    failure: Failure | None = None
    for fields in map(api.decode_event, response.messages):
        kind = lenient_json.printable_text(fields.get("type"))
        if error := fields.get("error"):
            failure = failure or json_api.decode_failure(error)
        elif kind in ENDS:
            end = fields
        elif kind in _SEGMENTS:
            segments.append(dict(fields))
        elif kind in _PIECES:
            pieces.append(lenient_json.str_or_empty(fields.get(_PIECES[kind])))
    if not (pieces or segments or end or failure):
        return ()
    transcript: Fields = {"text": lenient_json.join_pieces(pieces), "segments": segments, **end}
    return (_transcript_turn(transcript, ended=bool(end), failure=failure),)


def _transcript_turn(
    transcript: Fields, *, ended: bool = True, failure: Failure | None = None
) -> Turn:
    text = lenient_json.join_pieces([lenient_json.str_or_empty(transcript.get("text"))])
    counts = lenient_json.object_fields(transcript.get("usage"))
    return Turn(
        (Text(text),) if text else (),
        finish=Finish.STOP if ended else None,
        finish_raw=lenient_json.printable_text(transcript.get("type")),
        usage=_decode_usage(counts),
        failure=failure,
        model=lenient_json.printable_text(transcript.get("model")),
        metadata=(
            *lenient_json.named_metadata(transcript, _METADATA),
            *lenient_json.named_metadata(counts, ("seconds",)),
        ),
    )


def _decode_usage(counts: Fields) -> Usage | None:
    """None where seconds are counted, and not tokens."""
    usage = Usage(
        input=lenient_json.first_count(counts.get("input_tokens"), counts.get("prompt_tokens")),
        output=lenient_json.first_count(
            counts.get("output_tokens"), counts.get("completion_tokens")
        ),
        total=lenient_json.first_count(counts.get("total_tokens")),
    )
    return None if usage == Usage() else usage
