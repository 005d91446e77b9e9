"""Writes cassettes with exactly the reads, the ending and the file name that a test needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from llm_proxy import framing, matching, redaction
from llm_proxy.cassette import CassetteMeta
from llm_proxy.cassette.encoder import CassetteEncoder
from llm_proxy.exchange import Ending, Read, Request, ResponseHead, header_value
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.routing import RoutedRequest, route_request
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request

DONE_EVENT: Final = b"data: [DONE]\n\n"
SSE_HEAD: Final = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")


def raw_chat_request(
    content: str = "hi", *headers: str, path: str = "/v1/chat/completions"
) -> bytes:
    """A streaming chat completion request, in the form that `raw_http.send_request` takes."""
    body = f'{{"model":"m","stream":true,"messages":[{{"role":"user","content":"{content}"}}]}}'
    return build_http_request(path, body.encode(), "Content-Type: application/json", *headers)


def chat_event(text: str) -> bytes:
    """One chunk of a chat completion stream."""
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response that a cassette written by a test replays."""

    reads: tuple[tuple[float, bytes], ...]
    """Offset in milliseconds, and bytes."""
    ending: Ending = Ending.CLEAN
    end_at: float | None = None
    """Milliseconds; if None, the time of the last read."""
    head: ResponseHead = SSE_HEAD
    head_at: float = 0.0


def text_response(*texts: str, gap: float = 0.0) -> StoredResponse:
    """A complete stream of these texts, with `gap` ms between its reads."""
    pieces = [*map(chat_event, texts), DONE_EVENT]
    return StoredResponse(tuple((gap * number, piece) for number, piece in enumerate(pieces, 1)))


def route_raw_request(request: bytes) -> RoutedRequest:
    """Parse and route a raw request."""
    head, _, body = request.partition(b"\r\n\r\n")
    request_line, *header_lines = head.decode("latin-1").split("\r\n")
    method, target, _ = request_line.split(" ")
    path, _, query = target.partition("?")
    pairs = (field.partition(":") for field in header_lines)
    headers = tuple((name, value.strip()) for name, _, value in pairs)
    return route_request(Request(method, path, query, headers, body), 0.0, lambda: 0.0)


def write_cassettes(
    folder: Path,
    request: bytes,
    *responses: StoredResponse,
    first_take: int = 1,
    name: str = "",
    key_rules: int = KEY_RULES_VERSION,
) -> list[Path]:
    """Write cassettes of these responses, as takes of the request's key from `first_take` on.

    `name` replaces the file name of the only response; the folder stays the same.
    """
    library = Library(folder / "cassettes")
    paths: list[Path] = []
    for take, response in enumerate(responses, first_take):
        routed_request = route_raw_request(request)
        meta = msgspec.structs.replace(
            meta_for_request(routed_request), key_rules_version=key_rules
        )
        if key_rules != KEY_RULES_VERSION:
            meta = msgspec.structs.replace(meta, key="0" * 64)
        path = library.path_for_take(meta, routed_request.stored_request, take)
        path = path.with_name(name) if name else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_encode_cassette(routed_request, meta, response))
        paths.append(path)
    return paths


def key_of_request(request: bytes) -> str:
    """Return the key of a raw request."""
    routed_request = route_raw_request(request)
    return matching.request_key(routed_request.provider, routed_request.stored_request)


def response_bodies(responses: Sequence[StoredResponse]) -> list[bytes]:
    """Return the bodies that a client receives from these responses."""
    return [b"".join(data for _, data in response.reads) for response in responses]


def meta_for_request(routed_request: RoutedRequest) -> CassetteMeta:
    return CassetteMeta(
        recording_tool="by hand",
        recorded_at="2026-01-01T00:00:00.000Z",
        dialect=routed_request.dialect.name,
        provider=routed_request.provider,
        model=routed_request.dialect.model(routed_request.request),
        session=routed_request.session,
        key=routed_request.key,
        key_rules_version=KEY_RULES_VERSION,
        redaction_rules_version=redaction.REDACTION_RULES_VERSION,
    )


def _encode_cassette(
    routed_request: RoutedRequest, meta: CassetteMeta, response: StoredResponse
) -> bytes:
    writer = CassetteEncoder(
        framing.codec_name_for_content_type(header_value(response.head.headers, "content-type"))
    )
    lines = [
        writer.encode_opening(meta, routed_request.stored_request),
        writer.encode_head(response.head, response.head_at),
    ]
    lines += [writer.encode_completed_messages(Read(at, data)) for at, data in response.reads]
    last_at = response.reads[-1][0] if response.reads else response.head_at
    lines.append(writer.encode_ending(response.ending, response.end_at or last_at))
    return b"".join(lines)
