"""What an answer of Anthropic's Messages API has words for, on whatever path it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import (
    block_capabilities,
    block_decoder,
    errors,
    message_decoder,
    usage,
)
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.anthropic.message_decoder import DETAILS, OTHER_BLOCKS, USAGE
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Finish,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

OF_START: Final = ("diagnostics", "input_transformations")
"""Metadata that a message has when it begins."""

OF_DELTA: Final = ("stop_sequence", DETAILS, "container")
"""Metadata that stands beside the reason to stop."""

OF_END: Final = ("context_management",)
"""Metadata that stands beside the usage at the end."""

_KEEPS: Final = (*OF_START, *OF_DELTA, *OF_END, REQUEST_ID, USAGE, OTHER_BLOCKS)
_UNTIL_FAILURE: Final = (*OF_START, REQUEST_ID, USAGE, OTHER_BLOCKS)

_WORDS: Final = {
    Finish.STOP: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.REFUSAL: message_decoder.REFUSAL,
    Finish.CONTENT_FILTER: message_decoder.REFUSAL,
    Finish.CONTEXT_FULL: "model_context_window_exceeded",
    Finish.PAUSED: "pause_turn",
}
_SIGNATURE: Final = 52
"""Characters of a made signature, behind the four that it begins with."""


def vocabulary(*, streams: bool, delivery: Delivery, id_prefix: str = "msg_") -> Vocabulary:
    """The words of a message that is streamed or whole."""
    return Vocabulary(
        dialect="anthropic",
        streams=streams,
        finishes=message_decoder.FINISH,
        words=_WORDS,
        text=block_capabilities.text,
        reasoning=block_capabilities.reasoning,
        refusal=block_capabilities.refusal,
        call=block_capabilities.call if streams else block_capabilities.call_of_object,
        result=block_capabilities.result,
        media=block_capabilities.media,
        joined=frozenset(),
        lasting=frozenset((Media, Reasoning)),
        id_prefix=id_prefix,
        call_prefix="toolu_",
        counts=usage.COUNTS,
        always=("input", "output"),
        counts_always=True,
        keeps=_KEEPS,
        arranged=partial(_arranged, delivery=delivery),
        failure=errors.instead,
        failed=partial(_failed, delivery=delivery),
        refused=partial(errors.known, delivery=delivery),
    )


def laid_out(turn: Turn) -> list[Part | Fields]:
    """The blocks of a message: its parts, and between them those that no part has a word for.

    These stand where they stood, or as near to it as can be.
    """
    said: list[Part | Fields] = [it for it in turn.parts if not isinstance(it, Refusal)]
    least = 0
    for index, block in sorted(_others(turn), key=lambda it: it[0]):
        at = min(max(index, least), len(said))
        said.insert(at, block)
        least = at + 1
    return said


def _others(turn: Turn) -> Iterator[tuple[int, Fields]]:
    """The blocks that no part has a word for, and where each stood."""
    for entry in lenient_json.objects(dict(turn.metadata).get(OTHER_BLOCKS)):
        block = lenient_json.fields(entry.get("content_block"))
        if block and block_decoder.part(block, {}) is None:
            yield lenient_json.count(entry.get("index")) or 0, block


def _arranged(turn: Turn, delivery: Delivery) -> Turn:
    """What the wire says in a place of its own does stand there."""
    turn = _declined(turn)
    parts = _named(_provided(turn.parts))
    others: list[Json] = [
        {"index": index, "content_block": dict(block)}
        for index, block in enumerate(laid_out(turn))
        if isinstance(block, dict)
    ]
    beside: dict[str, Json] = {
        **dict(turn.metadata),
        USAGE: usage.beside(lenient_json.fields(dict(turn.metadata).get(USAGE))),
        OTHER_BLOCKS: others,
    }
    if turn.failure is None:
        beside.pop(REQUEST_ID, None)
    return replace(
        _waiting(turn, parts),
        parts=tuple(_signed(parts, delivery)),
        model=message_decoder.handed_on(others) or turn.model,
        metadata=lenient_json.metadata(beside, _KEEPS),
    )


def _declined(turn: Turn) -> Turn:
    """A refusal ends a message, and is why it stopped."""
    refusals = [it for it in turn.parts if isinstance(it, Refusal)]
    if not refusals and turn.finish_raw == message_decoder.REFUSAL:
        found = message_decoder.refusal(dict(turn.metadata).get(DETAILS))
        refusals = [block_capabilities.refusal(it) for it in found]
    if not refusals:
        return turn
    said: Metadata = tuple(pair for it in refusals for pair in it.metadata)
    one = block_capabilities.refusal(Refusal("".join(it.text for it in refusals), said))
    return replace(
        turn,
        parts=(*(it for it in turn.parts if not isinstance(it, Refusal)), one),
        finish=Finish.REFUSAL,
        finish_raw=message_decoder.REFUSAL,
        metadata=tuple(pair for pair in turn.metadata if pair[0] != DETAILS),
    )


def _provided(parts: tuple[Part, ...]) -> list[Part]:
    """Calls that the provider answered are told as calls of its own tools."""
    answered = {it.call_id for it in parts if isinstance(it, ToolResult)}
    return [
        block_capabilities.run_elsewhere(it)
        if isinstance(it, ToolCall) and it.id in answered
        else it
        for it in parts
    ]


def _waiting(turn: Turn, parts: list[Part]) -> Turn:
    """Only a call of the client's own tools is waited for."""
    calls = [it for it in parts if isinstance(it, ToolCall)]
    if (
        turn.finish is not Finish.TOOL_CALLS
        or not calls
        or any(map(block_capabilities.waits, calls))
    ):
        return turn
    return replace(turn, finish=Finish.STOP, finish_raw=_WORDS[Finish.STOP])


def _named(parts: list[Part]) -> list[Part]:
    """Results bear the names of their calls, which is all that the wire tells of them."""
    names = {it.id: it.name for it in parts if isinstance(it, ToolCall)}
    return [
        block_capabilities.named(it, names) if isinstance(it, ToolResult) else it for it in parts
    ]


def _signed(parts: Iterable[Part], delivery: Delivery) -> Iterator[Part]:
    """Thoughts in words with signatures, which clients hand back, if they are to be made."""
    for at, part in enumerate(parts):
        match part:
            case Reasoning(signature=None, redacted=None, metadata=()) if delivery.seals:
                yield replace(part, signature=delivery.identifier("sign", at, _SIGNATURE))
            case _:
                yield part


def _failed(turn: Turn, delivery: Delivery) -> Turn:
    """What a stream tells before its end: neither a refusal nor what the output cost."""
    beside = dict(turn.metadata)
    cost = lenient_json.fields(beside.get(USAGE))
    beside[USAGE] = {name: it for name, it in cost.items() if name not in usage.AT_END}
    beside[REQUEST_ID] = errors.request_id(turn, delivery)
    return replace(
        turn,
        parts=tuple(it for it in turn.parts if not isinstance(it, Refusal)),
        usage=usage.begun(turn.usage or Usage()),
        metadata=lenient_json.metadata(beside, _UNTIL_FAILURE),
    )
