"""Requests that arrive compressed, as they are read, redacted and keyed.

The provider is asked as the client asked.  What is kept is plain: in compressed bytes no secret
could be found, and no two compressors make the same ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

from llm_proxy.exchange import Request
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.shell.content_decoders import CodingError, decoder


async def uncoded(request: Request, most: int) -> Request | None:
    """The request without its content coding, of at most so many bytes; None where it has none.

    A body that cannot be decoded here is one line that says so, and tells it from others.
    """
    codings = _codings(request)
    if not codings or not request.body:
        return None
    # Aside, however small: what a few bytes unpack to may take a second.
    body = await asyncio.to_thread(_plain, request.body, codings, most)
    headers = tuple(it for it in request.headers if it[0].lower() != "content-encoding")
    return replace(request, headers=headers, body=body)


def _codings(request: Request) -> list[str]:
    """The codings that the body is in, the last one first."""
    each = (value for name, value in request.headers if name.lower() == "content-encoding")
    said = ",".join(each)
    names = (name.strip().lower() for name in reversed(said.split(",")))
    return [name for name in names if name not in ("", "identity")]


def _plain(body: bytes, codings: list[str], most: int) -> bytes:
    try:
        for coding in codings:
            body = _decoded(body, coding, most)
    except CodingError as error:
        digest = hashlib.sha256(body).hexdigest()
        return f"{PLACEHOLDER} body in {', '.join(codings)}: {error}; sha256 {digest}".encode()
    return body


def _decoded(body: bytes, coding: str, most: int) -> bytes:
    undo = decoder(coding)
    if undo is None:
        raise CodingError("it cannot be decoded here")
    plain = bytearray()
    for piece in undo.decode(body):
        plain += piece
        if len(plain) > most:
            raise CodingError(f"it decodes to more than {most} bytes")
    undo.close()
    return bytes(plain)
