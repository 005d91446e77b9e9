"""What a recording means: the dialect that understands it, and its response as that one sees it.

A cassette says which dialect was recognised when it was recorded.  Where that was none, the
dialects are asked again: they are learned over time, and files stay as they are.
"""

from __future__ import annotations

from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.dialects import OPAQUE, Dialect, Response
from llm_proxy.exchange import Request
from llm_proxy.turns import Turn


def dialect_of(cassette: Cassette) -> Dialect:
    """The dialect that it speaks; `OPAQUE` where none knows it, or only a later version does."""
    if cassette.meta.dialect == OPAQUE.name:
        return dialects.find(asked(cassette))
    return dialects.named(cassette.meta.dialect)


def response_of(cassette: Cassette) -> Response:
    """The response, cut as its dialect wants it."""
    codec, messages = cassette.codec, cassette.messages
    if cassette.meta.dialect == OPAQUE.name:
        label = dialect_of(cassette).codec(asked(cassette), cassette.head)
        codec = framing.by_bytes(label, cassette.body)
        if codec != cassette.codec:
            messages = tuple(framing.messages(codec, cassette.body))
    return Response(cassette.head, codec, messages)


def turns_of(cassette: Cassette) -> tuple[Turn, ...]:
    """What was said, as far as its dialect can read it."""
    return dialect_of(cassette).turns(response_of(cassette))


def asked(cassette: Cassette) -> Request:
    """The request as it was stored."""
    it = cassette.request
    return Request(it.method, it.path, it.query, it.headers, it.body)
