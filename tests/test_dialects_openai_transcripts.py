from __future__ import annotations

import json

import pytest

from case_tables import each_row
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai.other_endpoints import decode_transcription
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn, Usage

TOKEN_USAGE: dict[str, Json] = {
    "type": "tokens",
    "input_tokens": 37,
    "output_tokens": 12,
    "total_tokens": 49,
}
USAGE = Usage(input=37, output=12, total=49)


def whole_response(body: bytes, content_type: str = "application/json") -> DialectResponse:
    return DialectResponse(
        ResponseHead(200, "", (("Content-Type", content_type),), "length"), "whole", [body]
    )


def document(**fields: Json) -> DialectResponse:
    return whole_response(json.dumps(fields).encode())


def stream_response(*events: dict[str, Json]) -> DialectResponse:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    head = ResponseHead(200, "", (("Content-Type", "text/event-stream"),), "chunked")
    return DialectResponse(head, "sse", framing.split_messages("sse", body + b"data: [DONE]\n\n"))


def delta_event(text: str) -> dict[str, Json]:
    return {"type": "transcript.text.delta", "delta": text}


def done_event(text: str, **more: Json) -> dict[str, Json]:
    return {"type": "transcript.text.done", "text": text, **more}


@each_row(
    ("response", "turn"),
    [
        pytest.param(
            document(text="Hi.", usage=TOKEN_USAGE),
            Turn((Text("Hi."),), FinishReason.STOP, usage=USAGE),
            id="a document",
        ),
        pytest.param(
            document(text="Hi.", language="english", usage={"type": "duration", "seconds": 3}),
            Turn(
                (Text("Hi."),),
                FinishReason.STOP,
                metadata=(("language", "english"), ("seconds", 3)),
            ),
            id="a document that counts seconds",
        ),
        pytest.param(document(text=""), Turn((), FinishReason.STOP), id="silence"),
        pytest.param(
            whole_response(b"Gr\xc3\xbc\xc3\x9fe\n", "text/plain; charset=utf-8"),
            Turn((Text("Grüße\n"),), FinishReason.STOP),
            id="the text alone",
        ),
    ],
)
def test_a_transcript_is_one_turn(response: DialectResponse, turn: Turn) -> None:
    assert decode_transcription(response) == (turn,)


def test_a_stream_is_the_text_of_its_last_event() -> None:
    response = stream_response(
        delta_event("Hel"), delta_event("lo."), done_event("Hello.", usage=TOKEN_USAGE)
    )
    assert decode_transcription(response) == (
        Turn((Text("Hello."),), FinishReason.STOP, "transcript.text.done", USAGE),
    )


def test_a_truncated_stream_keeps_its_deltas() -> None:
    assert decode_transcription(stream_response(delta_event("Hel"), delta_event("lo"))) == (
        Turn((Text("Hello"),)),
    )


def test_an_error_in_a_stream_keeps_the_preceding_text() -> None:
    [turn] = decode_transcription(
        stream_response(delta_event("Hel"), {"error": {"message": "busy", "code": "503"}})
    )
    assert (turn.text, turn.finish, turn.failure) == ("Hel", None, Failure("busy", "", "503"))


def test_segments_are_kept_with_their_speakers() -> None:
    segment: dict[str, Json] = {"type": "transcript.text.segment", "text": "Hi.", "speaker": "A"}
    [turn] = decode_transcription(stream_response(segment, done_event("Hi.")))
    assert turn.metadata == (("segments", [segment]),)


def test_the_events_of_mistral_are_decoded() -> None:
    usage: dict[str, Json] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    response = stream_response(
        {"type": "transcription.language", "audio_language": "en"},
        {"type": "transcription.text.delta", "text": "Hi"},
        {"type": "transcription.done", "model": "voxtral", "text": "Hi.", "usage": usage},
    )
    assert decode_transcription(response) == (
        Turn(
            (Text("Hi."),), FinishReason.STOP, "transcription.done", Usage(1, 2, 3), model="voxtral"
        ),
    )  # fmt: skip


@each_row(
    "response",
    [
        pytest.param(whole_response(b"ID3\xff", "audio/mpeg"), id="a sound"),
        pytest.param(document(audio_data="SUQz"), id="a sound in a document"),
        pytest.param(
            stream_response({"type": "speech.audio.delta", "audio": "SUQz"}), id="a stream"
        ),
        pytest.param(whole_response(b"<html>", "text/html"), id="a page"),
        pytest.param(whole_response(b"[1]"), id="no object"),
    ],
)
def test_other_responses_have_no_turn(response: DialectResponse) -> None:
    assert decode_transcription(response) == ()
