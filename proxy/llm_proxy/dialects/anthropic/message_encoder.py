"""Messages as they are told: the events of a stream, or one document.

Nothing here knows what carries them: events of SSE, or the frames of Bedrock.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_encoder, usage
from llm_proxy.dialects.anthropic.block_encoder import Cut
from llm_proxy.dialects.anthropic.message_capabilities import OF_DELTA, OF_END, OF_START, laid_out
from llm_proxy.dialects.anthropic.message_decoder import DETAILS, REFUSAL, USAGE
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Part, Refusal, Turn, Usage


def events(turn: Turn, cut: Cut) -> Iterator[tuple[str, Document]]:
    """The events of a turn that fits, each with its type.

    Of one that failed there is no end: the error is told as the carrier tells errors.
    """
    for event in _events(turn, cut):
        yield event["type"], event


def document(turn: Turn) -> Document:
    """The whole message of a turn that fits."""
    return {
        **_message(turn),
        "content": [block_encoder.whole(it) for it in laid_out(turn)],
        **_ended(turn),
        **_beside(turn, *OF_END),
        USAGE: usage.told(turn.usage or Usage(), _extra(turn)),
    }


def _events(turn: Turn, cut: Cut) -> Iterator[Document]:
    yield {"type": "message_start", "message": _begun(turn)}
    for index, block in enumerate(laid_out(turn)):
        yield from _block(index, block, cut)
    if turn.failure is None:
        late = {name: it for name, it in _extra(turn).items() if name in usage.AT_END}
        yield {
            "type": "message_delta",
            "delta": _ended(turn),
            USAGE: usage.told(turn.usage or Usage(), late),
            **_beside(turn, *OF_END),
        }
        yield {"type": "message_stop"}


def _block(index: int, block: Part | Fields, cut: Cut) -> Iterator[Document]:
    begun = block_encoder.begun(block)
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in block_encoder.deltas(block, cut):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _begun(turn: Turn) -> Document:
    """The message before anything is said."""
    early = {name: it for name, it in _extra(turn).items() if name not in usage.AT_END}
    return {
        **_message(turn),
        "stop_reason": None,
        "stop_sequence": None,
        USAGE: usage.told(usage.begun(turn.usage or Usage()), early),
    }


def _message(turn: Turn) -> Document:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [],
        **_beside(turn, *OF_START),
    }


def _ended(turn: Turn) -> Document:
    """Why the message ended."""
    declined = next((it for it in turn.parts if isinstance(it, Refusal)), None)
    ended: Document = {"stop_reason": turn.finish_raw, "stop_sequence": None}
    if declined is not None:
        details = {"category": None, **dict(declined.metadata), "explanation": declined.text}
        ended[DETAILS] = {"type": REFUSAL, **details}
    return {**ended, **_beside(turn, *OF_DELTA)}


def _beside(turn: Turn, *names: str) -> Document:
    return dict(kept(turn.metadata, names))


def _extra(turn: Turn) -> Fields:
    """What is told of the cost that `Usage` has no word for."""
    return lenient_json.fields(dict(turn.metadata).get(USAGE))
