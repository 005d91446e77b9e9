"""Answers of InvokeModel as they go out: the maker's own, and what the service puts beside them.

The service adds its metrics to the last event of a stream, whoever made the model; of a document
it tells the counts in headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.invoke_decoder import PREFIX
from llm_proxy.dialects.bedrock.model_format import Maker
from llm_proxy.dialects.bedrock.usage import METRICS
from llm_proxy.dialects.capabilities import Vocabulary, kept, uncounted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.framing import eventstream
from llm_proxy.turns import Json, Metadata, Turn

_OF_GUARDRAIL: Final = (f"{PREFIX}guardrailAction", f"{PREFIX}trace")
_BESIDE: Final = (METRICS, *_OF_GUARDRAIL)
"""The metadata of an answer that the service itself adds, in the order in which it is told."""


def vocabulary(maker: Maker, *, streams: bool, delivery: Delivery) -> Vocabulary:
    """The words of this maker's models, and the service's."""
    words = maker.vocabulary(streams=streams, delivery=delivery)
    counts = words.counts_always
    if not counts:
        always = ("input", "output")
        words = replace(words, counts=usage.OF_SERVICE, always=always, counts_always=True)
    if not streams:
        arranged = partial(_arranged, words=words)
        keeps = (*words.keeps, *_OF_GUARDRAIL)
        return replace(words, arranged=arranged, keeps=keeps, failure=errors.instead)
    return replace(
        words,
        arranged=partial(_arranged_stream, words=words, counts=counts),
        keeps=(*words.keeps, *_BESIDE),
        failure=partial(errors.in_stream, known=errors.IN_INVOKE),
    )


def response(maker: Maker, turn: Turn, delivery: Delivery, *, streams: bool) -> Response:
    """The answer that tells a turn that fits."""
    if streams:
        headers = (*errors.headers(delivery), ("X-Amzn-Bedrock-Content-Type", "application/json"))
        messages = _frames(maker, turn, delivery)
        return response_encoding.streamed(frames.CODEC, eventstream.CONTENT_TYPE, messages, headers)
    told = {**maker.document(turn, delivery), **dict(kept(turn.metadata, _OF_GUARDRAIL))}
    return response_encoding.document(told, (*errors.headers(delivery), *usage.headers(turn.usage)))


def _frames(maker: Maker, turn: Turn, delivery: Delivery) -> Iterator[bytes]:
    """A frame an event, or the error that ends them."""
    events = maker.events(turn, delivery)
    if turn.failure is not None:
        yield from map(frames.chunk, events)
        yield frames.exception(turn.failure)
        return
    *begun, last = events
    yield from map(frames.chunk, begun)
    yield frames.chunk({**last, **dict(kept(turn.metadata, _BESIDE))})


def _arranged(turn: Turn, words: Vocabulary) -> Turn:
    own = words.arranged(_apart(turn))
    return replace(own, metadata=(*own.metadata, *kept(turn.metadata, _OF_GUARDRAIL)))


def _arranged_stream(turn: Turn, words: Vocabulary, *, counts: bool) -> Turn:
    """The turn with the service's metrics; `counts` where the model counts tokens itself."""
    own = words.arranged(_apart(turn))
    if own.failure is not None:
        return own if counts else uncounted(own)
    said: dict[str, Json] = dict(turn.metadata)
    given = lenient_json.fields(said.get(METRICS))
    said[METRICS] = dict(given) if given and counts else usage.metrics(own.usage, given)
    beside = kept(tuple(said.items()), _BESIDE)
    return replace(own, metadata=(*own.metadata, *beside))


def _apart(turn: Turn) -> Turn:
    """The turn without what the service adds."""
    own: Metadata = tuple(pair for pair in turn.metadata if pair[0] not in _BESIDE)
    return replace(turn, metadata=own)
