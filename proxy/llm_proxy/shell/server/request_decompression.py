"""Decompresses request bodies.

The provider is asked as the client asked.  What is kept is plain: in compressed bytes no secret
could be found, and no two compressors make the same ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

from llm_proxy.exchange import Request
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder


async def decompress_request(request: Request, max_size: int) -> Request | None:
    """The request without its content coding, of at most so many bytes; None where it has none.

    A body that cannot be decoded here is one line that says so, and tells it from others.
    """
    codings = _content_codings(request)
    if not codings or not request.body:
        return None
    # Aside, however small: what a few bytes unpack to may take a second.
    body = await asyncio.to_thread(_decompress_all, request.body, codings, max_size)
    headers = tuple(header for header in request.headers if header[0].lower() != "content-encoding")
    return replace(request, headers=headers, body=body)


def _content_codings(request: Request) -> list[str]:
    """The codings that the body is in, the last one first."""
    each = (value for name, value in request.headers if name.lower() == "content-encoding")
    text = ",".join(each)
    names = (name.strip().lower() for name in reversed(text.split(",")))
    return [name for name in names if name not in ("", "identity")]


def _decompress_all(body: bytes, codings: list[str], max_size: int) -> bytes:
    try:
        for coding in codings:
            body = _decompress(body, coding, max_size)
    except InvalidContentCoding as error:
        digest = hashlib.sha256(body).hexdigest()
        return f"{PLACEHOLDER} body in {', '.join(codings)}: {error}; sha256 {digest}".encode()
    return body


def _decompress(body: bytes, coding: str, max_size: int) -> bytes:
    undo = new_decoder(coding)
    if undo is None:
        raise InvalidContentCoding("it cannot be decoded here")
    plain = bytearray()
    for piece in undo.decode(body):
        plain += piece
        if len(plain) > max_size:
            raise InvalidContentCoding(f"it decodes to more than {max_size} bytes")
    undo.close()
    return bytes(plain)
