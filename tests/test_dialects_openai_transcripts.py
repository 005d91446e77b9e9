from __future__ import annotations

import json

import pytest

from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai.transcripts import decode_turns
from llm_proxy.exchange import ResponseHead
from llm_proxy.turns import Failure, Finish, Json, Text, Turn, Usage

TOKENS: dict[str, Json] = {
    "type": "tokens",
    "input_tokens": 37,
    "output_tokens": 12,
    "total_tokens": 49,
}
COUNTED = Usage(input=37, output=12, total=49)


def whole(body: bytes, content_type: str = "application/json") -> DialectResponse:
    return DialectResponse(
        ResponseHead(200, "", (("Content-Type", content_type),), "length"), "whole", [body]
    )


def document(**fields: Json) -> DialectResponse:
    return whole(json.dumps(fields).encode())


def streamed(*events: dict[str, Json]) -> DialectResponse:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    head = ResponseHead(200, "", (("Content-Type", "text/event-stream"),), "chunked")
    return DialectResponse(head, "sse", framing.split_messages("sse", body + b"data: [DONE]\n\n"))


def piece(text: str) -> dict[str, Json]:
    return {"type": "transcript.text.delta", "delta": text}


def done(text: str, **more: Json) -> dict[str, Json]:
    return {"type": "transcript.text.done", "text": text, **more}


@pytest.mark.parametrize(
    ("answer", "turn"),
    [
        pytest.param(
            document(text="Hi.", usage=TOKENS), Turn((Text("Hi."),), Finish.STOP, usage=COUNTED),
            id="a document",
        ),
        pytest.param(
            document(text="Hi.", language="english", usage={"type": "duration", "seconds": 3}),
            Turn(
                (Text("Hi."),), Finish.STOP, metadata=(("language", "english"), ("seconds", 3))
            ),
            id="a document that counts seconds",
        ),
        pytest.param(document(text=""), Turn((), Finish.STOP), id="silence"),
        pytest.param(
            whole(b"Gr\xc3\xbc\xc3\x9fe\n", "text/plain; charset=utf-8"),
            Turn((Text("Grüße\n"),), Finish.STOP),
            id="the text alone",
        ),
    ],
)  # fmt: skip
def test_what_was_heard_is_one_turn(answer: DialectResponse, turn: Turn) -> None:
    assert decode_turns(answer) == (turn,)


def test_a_stream_is_the_text_of_its_last_event() -> None:
    answer = streamed(piece("Hel"), piece("lo."), done("Hello.", usage=TOKENS))
    assert decode_turns(answer) == (
        Turn((Text("Hello."),), Finish.STOP, "transcript.text.done", COUNTED),
    )


def test_a_stream_that_broke_off_is_what_came_of_it() -> None:
    assert decode_turns(streamed(piece("Hel"), piece("lo"))) == (Turn((Text("Hello"),)),)


def test_an_error_in_a_stream_is_kept_beside_what_was_heard() -> None:
    [turn] = decode_turns(streamed(piece("Hel"), {"error": {"message": "busy", "code": "503"}}))
    assert (turn.text, turn.finish, turn.failure) == ("Hel", None, Failure("busy", "", "503"))


def test_segments_are_kept_with_their_speakers() -> None:
    segment: dict[str, Json] = {"type": "transcript.text.segment", "text": "Hi.", "speaker": "A"}
    [turn] = decode_turns(streamed(segment, done("Hi.")))
    assert turn.metadata == (("segments", [segment]),)


def test_the_events_of_mistral_are_read_too() -> None:
    usage: dict[str, Json] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    answer = streamed(
        {"type": "transcription.language", "audio_language": "en"},
        {"type": "transcription.text.delta", "text": "Hi"},
        {"type": "transcription.done", "model": "voxtral", "text": "Hi.", "usage": usage},
    )
    assert decode_turns(answer) == (
        Turn(
            (Text("Hi."),), Finish.STOP, "transcription.done", Usage(1, 2, 3), model="voxtral"
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(whole(b"ID3\xff", "audio/mpeg"), id="a sound"),
        pytest.param(document(audio_data="SUQz"), id="a sound in a document"),
        pytest.param(streamed({"type": "speech.audio.delta", "audio": "SUQz"}), id="a stream"),
        pytest.param(whole(b"<html>", "text/html"), id="a page"),
        pytest.param(whole(b"[1]"), id="no object"),
    ],
)
def test_where_nothing_was_heard_there_is_no_turn(answer: DialectResponse) -> None:
    assert decode_turns(answer) == ()
