"""Cassettes made by hand, with exactly the reads, the ending and the name that a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from llm_proxy import framing, matching, redaction
from llm_proxy.cassette import Meta
from llm_proxy.cassette.writer import CassetteWriter
from llm_proxy.exchange import Ending, Read, Request, ResponseHead, header_value
from llm_proxy.matching import KEY_RULES
from llm_proxy.routing import RoutedRequest, route
from llm_proxy.shell.library.library import Library
from raw_http import post

DONE: Final = b"data: [DONE]\n\n"
STREAM: Final = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")


def chat(content: str = "hi", *headers: str, path: str = "/v1/chat/completions") -> bytes:
    """A streaming chat completion request, as `raw.ask` sends it."""
    body = f'{{"model":"m","stream":true,"messages":[{{"role":"user","content":"{content}"}}]}}'
    return post(path, body.encode(), "Content-Type: application/json", *headers)


def event(text: str) -> bytes:
    """One chunk of a chat completion stream."""
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a hand-made cassette replays."""

    reads: tuple[tuple[float, bytes], ...]
    """Offset in ms, and bytes."""
    ending: Ending = Ending.CLEAN
    end_at: float | None = None
    """ms; with the last read where None."""
    head: ResponseHead = STREAM
    head_at: float = 0.0


def says(*texts: str, gap: float = 0.0) -> Answer:
    """A whole stream that says this, `gap` ms between its reads."""
    pieces = [*map(event, texts), DONE]
    return Answer(tuple((gap * number, piece) for number, piece in enumerate(pieces, 1)))


def call(request: bytes) -> RoutedRequest:
    """The call that a raw request makes."""
    head, _, body = request.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    method, target, _ = line.split(" ")
    path, _, query = target.partition("?")
    pairs = (field.partition(":") for field in fields)
    headers = tuple((name, value.strip()) for name, _, value in pairs)
    return route(Request(method, path, query, headers, body), 0.0, lambda: 0.0)


def put(
    folder: Path,
    request: bytes,
    *answers: Answer,
    first: int = 1,
    name: str = "",
    key_rules: int = KEY_RULES,
) -> list[Path]:
    """Put these answers on the shelf, as takes of the request's key from `first` on.

    With a `name`, the one answer's file is called that, wherever it should lie.
    """
    library = Library(folder / "cassettes")
    placed: list[Path] = []
    for number, answer in enumerate(answers, first):
        of = call(request)
        meta = replace(meta_of(of), key_rules=key_rules)
        if key_rules != KEY_RULES:
            meta = replace(meta, key="0" * 64)
        path = library.path_for_take(meta, of.stored_request, number)
        path = path.with_name(name) if name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_content(of, meta, answer))
        placed.append(path)
    return placed


def key_of(request: bytes) -> str:
    """The key of a raw request."""
    of = call(request)
    return matching.request_key(of.provider, of.stored_request)


def bodies(answers: Sequence[Answer]) -> list[bytes]:
    """What a client gets of these answers."""
    return [b"".join(data for _, data in answer.reads) for answer in answers]


def meta_of(of: RoutedRequest) -> Meta:
    return Meta(
        tool="by hand",
        recorded="2026-01-01T00:00:00.000Z",
        dialect=of.dialect.name,
        provider=of.provider,
        model=of.dialect.model(of.request),
        session=of.session,
        key=of.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
    )


def _content(of: RoutedRequest, meta: Meta, answer: Answer) -> bytes:
    writer = CassetteWriter(
        framing.codec_of_content_type(header_value(answer.head.headers, "content-type"))
    )
    lines = [
        writer.encode_opening(meta, of.stored_request),
        writer.encode_head(answer.head, answer.head_at),
    ]
    lines += [writer.encode_read(Read(at, data)) for at, data in answer.reads]
    last = answer.reads[-1][0] if answer.reads else answer.head_at
    lines.append(writer.encode_ending(answer.ending, answer.end_at or last))
    return b"".join(lines)
