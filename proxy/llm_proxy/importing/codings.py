"""Decodes imported bodies with a content coding, or detects that they are decoded already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.exchange import Headers, header_value
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    ALREADY_DECODED,
    UNDECODABLE_CODING,
    ImportLoss,
    SourceExchange,
)

Decompress = Callable[[str, bytes], bytes | None]
"""Decodes a body with a content coding; None for an unsupported coding.  Raises `ValueError` where
the body does not have it."""

_CONTENT_ENCODING: Final = "content-encoding"


def decode_exchange_bodies(
    source_exchange: SourceExchange, decompress: Decompress
) -> SourceExchange:
    """The exchange with decoded bodies, and headers that fit them."""
    request_headers, request_body, request_coding, message_losses = _decode_http_message(
        source_exchange.request.headers, source_exchange.request.body, decompress
    )
    if request_coding:  # the length counts the encoded bytes
        request_headers = _without_coding_headers(request_headers, "content-length")
    losses = message_losses
    headers, body, coding = source_exchange.response_headers, source_exchange.response_body, ""
    if not source_exchange.reads:
        headers, body, coding, message_losses = _decode_http_message(
            source_exchange.response_headers, source_exchange.response_body, decompress
        )
        losses += message_losses
    return replace(
        source_exchange,
        request=replace(source_exchange.request, headers=request_headers, body=request_body),
        response_headers=headers,
        response_body=body,
        removed_content_coding=coding,
        losses=source_exchange.losses + losses,
    )


def _decode_http_message(
    headers: Headers, body: bytes, decompress: Decompress
) -> tuple[Headers, bytes, str, tuple[ImportLoss, ...]]:
    """Headers and body without a coding, the removed coding, and the losses."""
    coding = (header_value(headers, _CONTENT_ENCODING) or "").strip().lower()
    if not coding or not body:
        return headers, body, "", ()
    try:
        plain = decompress(coding, body)
    except ValueError:  # many tools keep the headers of a body that they have decoded
        return _without_coding_headers(headers, "content-length"), body, "", (ALREADY_DECODED,)
    if plain is not None:
        return _without_coding_headers(headers), plain, coding, ()
    if fields.is_utf8(body):
        return _without_coding_headers(headers, "content-length"), body, "", (ALREADY_DECODED,)
    return headers, body, "", (UNDECODABLE_CODING,)


def _without_coding_headers(headers: Headers, *other_names: str) -> Headers:
    return tuple(
        header for header in headers if header[0].lower() not in (_CONTENT_ENCODING, *other_names)
    )
