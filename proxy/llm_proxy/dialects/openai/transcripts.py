"""What was heard: transcriptions and translations of sound, whole or as they are made.

A body is JSON with a `text`, or the text alone (also as subtitles).  A stream is SSE: pieces of
the text, segments with their times or speakers where they were asked for, and one event that has
all of the text and ends it.  Mistral's events have other names.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api
from llm_proxy.exchange import header
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


def turns(response: Response) -> tuple[Turn, ...]:
    """One turn; none where nothing was heard, as where a text was spoken."""
    if response.codec == "sse":
        return _of_stream(response)
    body = json_api.body(response)
    essence = (header(response.head.headers, "content-type") or "").partition(";")[0]
    if essence.strip().lower() in _TEXTS:
        return (_turn({"text": body.decode("utf-8", "replace")}),)
    said = lenient_json.document(body)
    return (_turn(said),) if isinstance(said.get("text"), str) else ()


def _of_stream(response: Response) -> tuple[Turn, ...]:
    """The text of the event that ends it, which is whole; else its pieces."""
    pieces: list[str] = []
    segments: list[Json] = []
    end: Fields = {}
    failure: Failure | None = None
    for said in map(api.said, response.messages):
        kind = lenient_json.words(said.get("type"))
        if error := said.get("error"):
            failure = failure or json_api.failure(error)
        elif kind in ENDS:
            end = said
        elif kind in _SEGMENTS:
            segments.append(dict(said))
        elif kind in _PIECES:
            pieces.append(lenient_json.text(said.get(_PIECES[kind])))
    if not (pieces or segments or end or failure):
        return ()
    heard: Fields = {"text": lenient_json.joined(pieces), "segments": segments, **end}
    return (_turn(heard, ended=bool(end), failure=failure),)


def _turn(heard: Fields, *, ended: bool = True, failure: Failure | None = None) -> Turn:
    text = lenient_json.joined([lenient_json.text(heard.get("text"))])
    counts = lenient_json.fields(heard.get("usage"))
    return Turn(
        (Text(text),) if text else (),
        finish=Finish.STOP if ended else None,
        finish_raw=lenient_json.words(heard.get("type")),
        usage=_usage(counts),
        failure=failure,
        model=lenient_json.words(heard.get("model")),
        metadata=(
            *lenient_json.metadata(heard, _METADATA),
            *lenient_json.metadata(counts, ("seconds",)),
        ),
    )


def _usage(counts: Fields) -> Usage | None:
    """None where seconds are counted, and not tokens."""
    usage = Usage(
        input=lenient_json.count(counts.get("input_tokens"), counts.get("prompt_tokens")),
        output=lenient_json.count(counts.get("output_tokens"), counts.get("completion_tokens")),
        total=lenient_json.count(counts.get("total_tokens")),
    )
    return None if usage == Usage() else usage
