"""Decompresses request bodies.

The provider gets the body as the client sent it.  The stored body is decompressed: secrets cannot
be found in compressed bytes, and compressors differ in their output.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

from llm_proxy.exchange import Request
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder


async def decompress_request(request: Request, max_bytes: int) -> Request | None:
    """The request without its content coding; None if it has none.

    A body that cannot be decoded to at most `max_bytes` is replaced by one line with the error
    and a hash of the body.
    """
    codings = _content_codings(request)
    if not codings or not request.body:
        return None
    # In a thread, even for a small body: a few bytes may take a second to decompress.
    body = await asyncio.to_thread(_decompress_all, request.body, codings, max_bytes)
    headers = tuple(header for header in request.headers if header[0].lower() != "content-encoding")
    return replace(request, headers=headers, body=body)


def _content_codings(request: Request) -> list[str]:
    """The codings of the body, in the order in which they are removed."""
    header_values = (value for name, value in request.headers if name.lower() == "content-encoding")
    header_text = ",".join(header_values)
    names = (name.strip().lower() for name in reversed(header_text.split(",")))
    return [name for name in names if name not in ("", "identity")]


def _decompress_all(body: bytes, codings: list[str], max_bytes: int) -> bytes:
    try:
        for coding in codings:
            body = _decompress(body, coding, max_bytes)
    except InvalidContentCoding as error:
        digest = hashlib.sha256(body).hexdigest()
        return f"{PLACEHOLDER} body in {', '.join(codings)}: {error}; sha256 {digest}".encode()
    return body


def _decompress(body: bytes, coding: str, max_bytes: int) -> bytes:
    decoder = new_decoder(coding)
    if decoder is None:
        raise InvalidContentCoding("it cannot be decoded here")
    decompressed = bytearray()
    for piece in decoder.decode(body):
        decompressed += piece
        if len(decompressed) > max_bytes:
            raise InvalidContentCoding(f"it decodes to more than {max_bytes} bytes")
    decoder.raise_if_truncated()
    return bytes(decompressed)
