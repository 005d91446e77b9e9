"""Decodes imported bodies with a content coding, or detects that they are decoded already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import DECODED, STILL_CODED, ImportLoss, SourceExchange

Undo = Callable[[str, bytes], bytes | None]
"""A body without this coding; None where nobody here can undo it.  Raises `ValueError` for what is
not coded so."""

_ENCODING: Final = "content-encoding"


def without_content_codings(source_exchange: SourceExchange, decompress: Undo) -> SourceExchange:
    """The same with plain bodies, and heads that fit them."""
    sent, data, undone, lost = _decode_message(
        source_exchange.request.headers, source_exchange.request.body, decompress
    )
    if undone:  # a length is of the bytes that were sent
        sent = _without_coding_headers(sent, "content-length")
    losses = lost
    headers, body, coding = source_exchange.headers, source_exchange.body, ""
    if not source_exchange.reads:
        headers, body, coding, lost = _decode_message(
            source_exchange.headers, source_exchange.body, decompress
        )
        losses += lost
    return replace(
        source_exchange,
        request=replace(source_exchange.request, headers=sent, body=data),
        headers=headers,
        body=body,
        decoded=coding,
        losses=source_exchange.losses + losses,
    )


def _decode_message(
    headers: Headers, body: bytes, decompress: Undo
) -> tuple[Headers, bytes, str, tuple[ImportLoss, ...]]:
    """Head and body without a coding, the coding that was undone, and what is to be said."""
    coding = (header_value(headers, _ENCODING) or "").strip().lower()
    if not coding or not body:
        return headers, body, "", ()
    try:
        plain = decompress(coding, body)
    except ValueError:  # many tools keep the head of a body that they have decoded
        return _without_coding_headers(headers, "content-length"), body, "", (DECODED,)
    if plain is not None:
        return _without_coding_headers(headers), plain, coding, ()
    if fields.is_utf8(body):
        return _without_coding_headers(headers, "content-length"), body, "", (DECODED,)
    return headers, body, "", (STILL_CODED,)


def _without_coding_headers(headers: Headers, *more: str) -> Headers:
    return tuple(header for header in headers if header[0].lower() not in (_ENCODING, *more))
