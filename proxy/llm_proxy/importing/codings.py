"""Bodies whose heads say that they are compressed: undone, or found to be decoded already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llm_proxy.exchange import Headers, header
from llm_proxy.importing import fields
from llm_proxy.importing.source import DECODED, STILL_CODED, Loss, SourceExchange

Undo = Callable[[str, bytes], bytes | None]
"""A body without this coding; None where nobody here can undo it.  Raises `ValueError` for what is
not coded so."""

_ENCODING: Final = "content-encoding"


def uncoded(it: SourceExchange, undo: Undo) -> SourceExchange:
    """The same with plain bodies, and heads that fit them."""
    sent, asked, undone, lost = _plain(it.request.headers, it.request.body, undo)
    if undone:  # a length is of the bytes that were sent
        sent = _without(sent, "content-length")
    losses = lost
    headers, body, coding = it.headers, it.body, ""
    if not it.reads:
        headers, body, coding, lost = _plain(it.headers, it.body, undo)
        losses += lost
    return replace(
        it,
        request=replace(it.request, headers=sent, body=asked),
        headers=headers,
        body=body,
        decoded=coding,
        losses=it.losses + losses,
    )


def _plain(
    headers: Headers, body: bytes, undo: Undo
) -> tuple[Headers, bytes, str, tuple[Loss, ...]]:
    """Head and body without a coding, the coding that was undone, and what is to be said."""
    coding = (header(headers, _ENCODING) or "").strip().lower()
    if not coding or not body:
        return headers, body, "", ()
    try:
        plain = undo(coding, body)
    except ValueError:  # many tools keep the head of a body that they have decoded
        return _without(headers, "content-length"), body, "", (DECODED,)
    if plain is not None:
        return _without(headers), plain, coding, ()
    if fields.is_text(body):
        return _without(headers, "content-length"), body, "", (DECODED,)
    return headers, body, "", (STILL_CODED,)


def _without(headers: Headers, *more: str) -> Headers:
    return tuple(it for it in headers if it[0].lower() not in (_ENCODING, *more))
