"""What Amazon's own models (Nova) say of their own: Converse's shapes, in other words for counts.

In a stream each event is wrapped in its name, and each piece of a text has a block of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.bedrock import (
    converse_capabilities,
    converse_encoder,
    converse_request_decoder,
    usage,
)
from llm_proxy.dialects.bedrock.converse_decoder import USAGE
from llm_proxy.dialects.capabilities import Vocabulary, plain_text
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Text, Turn


class Nova:
    """Nova's documents and streams."""

    def conversation(self, body: Fields) -> Conversation:
        """As of Converse."""
        return converse_request_decoder.read(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """The words of a document, or of a stream, whose texts cite nothing and flow together."""
        words = converse_capabilities.vocabulary(streams=streams)
        words = replace(words, keeps=(USAGE,), arranged=_arranged)
        if not streams:
            return words
        return replace(
            words,
            text=plain_text,
            joined=frozenset((Text,)),
            counts=tuple(it for it in usage.COUNTS if it != "total"),
            always=("input", "output"),
        )

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """What was said, and what it cost."""
        return {**converse_encoder.message(turn), "usage": _counts(turn)}

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """Each event under its name."""
        for name, said in converse_encoder.message_events(turn, delivery.cut, apart=True):
            yield {name: said}
        if turn.failure is None:
            yield {"messageStop": {"stopReason": turn.finish_raw}}
            yield {"metadata": {"usage": _counts(turn), "metrics": {}, "trace": {}}}


def _counts(turn: Turn) -> Document:
    return {**usage.told_by_model(turn.usage), **converse_encoder.uncounted(turn)}


def _arranged(turn: Turn) -> Turn:
    about = converse_capabilities.with_counts(dict(turn.metadata))
    return replace(converse_capabilities.laid_out(turn), metadata=about)
