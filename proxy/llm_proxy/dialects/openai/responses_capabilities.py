"""What an answer of `openai-responses` has words for, by what was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Vocabulary, kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import (
    errors,
    output_capabilities,
    output_item_decoder,
    output_item_encoder,
)
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.family import member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Finish, Media, Metadata, Part, Reasoning, Refusal, Turn

STORED: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel)?\Z")
"""The end of the path of a response that was given before."""
COMPACT: Final = "/responses/compact"
"""The end of the path on which a conversation is made shorter."""

_OPEN: Final = frozenset(("bedrock", "deepseek", "ollama", "openrouter", "vllm"))
"""Providers of models whose thoughts are told as they are, and not in summaries."""
_COUNTS: Final = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
_WORDS: Final = {
    Finish.STOP: "completed",
    Finish.LENGTH: "max_output_tokens",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.ERROR: "failed",
}
_REFUSED: Final = {Finish.REFUSAL: _WORDS[Finish.STOP]}
_PAUSED: Final = {Finish.PAUSED: "in_progress"}
_WHOLE: Final = {**read.STATUSES, **read.REASONS}
_STREAM: Final = {word: it for word, it in _WHOLE.items() if word not in read.PAUSES}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the manner of its answer."""

    stream: bool
    body: Fields
    id: str = ""
    """The id of the response that is fetched or cancelled; empty where a new one is asked for."""
    after: int = -1
    """The number of the event after which a stream goes on."""
    compact: bool = False
    """Whether a conversation is to be made shorter."""

    @property
    def background(self) -> bool:
        """Whether the client comes back for the answer."""
        return bool(self.id) or self.body.get("background") is True

    @property
    def partial_images(self) -> int:
        """How many images in the making are told before one that is drawn."""
        asked = (it.get("partial_images") for it in lenient_json.objects(self.body.get("tools")))
        return min(max((lenient_json.count(it) or 0 for it in asked), default=0), 3)


def asked(request: Request, *, stream: bool, after: int) -> Asked:
    """What this request asks for."""
    path = request.path
    compact = path.endswith(COMPACT)
    stored = None if compact else STORED.search(path)
    body = lenient_json.document(request.body)
    return Asked(stream and not compact, body, stored["id"] if stored else "", after, compact)


def vocabulary(manner: Asked, delivery: Delivery, turns: Sequence[Turn]) -> Vocabulary:
    """The words for such a request, and these turns: who refuses in words, completes."""
    refuses = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    kind = (
        output_capabilities.THOUGHT if delivery.provider in _OPEN else output_capabilities.SUMMARY
    )
    pauses = manner.background and not manner.stream
    return Vocabulary(
        dialect="openai-responses",
        streams=manner.stream,
        finishes=_STREAM if manner.stream else _WHOLE,
        words={**_WORDS, **(_REFUSED if refuses else {}), **(_PAUSED if pauses else {})},
        calls_stop=True,
        waits=_waits,
        text=output_capabilities.text,
        reasoning=partial(output_capabilities.reasoning, kind=kind),
        refusal=output_capabilities.refusal,
        call=output_capabilities.call,
        result=output_capabilities.result,
        media=output_capabilities.picture_or_sound
        if manner.stream
        else output_capabilities.picture,
        joined=frozenset(),
        lasting=frozenset((Reasoning,)),
        id_prefix="resp_",
        names_model=not manner.compact,
        counts=_COUNTS,
        always=_COUNTS,
        counts_always=True,
        keeps=() if manner.compact else read.METADATA,
        arranged=partial(_arranged, manner=manner, delivery=delivery),
        failure=partial(_failure if manner.stream else _instead, delivery=delivery),
        failed=_failed,
    )


def told_as(turn: Turn) -> tuple[str, str]:
    """The status that tells why a turn finished, and the reason of an incomplete response."""
    raw = turn.finish_raw or _WORDS[Finish.STOP]
    is_status = raw in read.STATUSES and (raw not in read.PAUSES or turn.finish is Finish.PAUSED)
    return (raw, "") if is_status else ("incomplete", raw)


def items(turn: Turn, delivery: Delivery) -> list[Document]:
    """The items of a turn; the last one is not completed where the turn is not."""
    made = output_item_encoder.items(turn.parts, delivery)
    status, _ = told_as(turn)
    if made and status != "completed" and made[-1].get("status") == "completed":
        made[-1]["status"] = "in_progress" if status in read.PAUSES else "incomplete"
    return made


def sounds(parts: Sequence[Part]) -> list[Media]:
    """Speech, which is told beside the items."""
    return [it for it in parts if isinstance(it, Media) and it.media_type == "audio/*"]


def _waits(parts: Sequence[Part]) -> bool:
    return read.waits(list(output_item_encoder.documents(parts)))


def _arranged(turn: Turn, manner: Asked, delivery: Delivery) -> Turn:
    """The turn as its items are read, each with an id of its own, and its speech behind them."""
    heard = sounds(turn.parts)
    if len(heard) > 1:
        raise CannotSay("openai-responses says one sound in an answer")
    if manner.compact:
        turn = replace(turn, finish=None, finish_raw="")
    parts = [part for item in items(turn, delivery) for part in output_item_decoder.parts(item)]
    return replace(
        turn,
        parts=(*parts, *heard),
        id=manner.id or turn.id,
        metadata=() if manner.compact else _beside(turn.metadata, manner.body),
    )


def _beside(metadata: Metadata, body: Fields) -> Metadata:
    """What a response says beside its output, part of which the request says first."""
    tier = body.get("service_tier")
    conversation = body.get("conversation")
    is_id = isinstance(conversation, str) and conversation
    first: Document = {
        "service_tier": "default" if tier == "auto" else tier,
        "previous_response_id": body.get("previous_response_id"),
        "conversation": {"id": conversation} if is_id else conversation,
    }
    return kept((*first.items(), *metadata), read.METADATA)


def _failure(failure: Failure, delivery: Delivery) -> Failure:
    """An error with a type and a code, as clients expect; that it is an error says no type."""
    said = _instead(
        replace(failure, type="" if failure.type == "error" else failure.type), delivery
    )
    return replace(said, code=said.code or said.type)


def _instead(failure: Failure, delivery: Delivery) -> Failure:
    """An error that stands in place of an answer."""
    return errors.instead(failure, member(delivery.provider))


def _failed(turn: Turn) -> Turn:
    """A turn that breaks off, which its response says again."""
    return replace(turn, finish=Finish.ERROR, finish_raw="failed", usage=None)
