"""What an `openai-responses` response can represent, and its response options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import (
    errors,
    output_capabilities,
    output_item_decoder,
    output_item_encoder,
)
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.provider_variants import family_member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.errors import NotRepresentable
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
_STREAM: Final = {word: finish for word, finish in _WHOLE.items() if word not in read.PAUSES}


@dataclass(frozen=True, slots=True)
class ResponsesOptions:
    """What a request asks of the manner of its answer."""

    stream: bool
    body: Fields
    id: str = ""
    """The id of the response that is fetched or cancelled; empty where a new one is asked for."""
    resume_after: int = -1
    """The number of the event after which a stream goes on."""
    is_compaction: bool = False
    """Whether a conversation is to be made shorter."""

    @property
    def is_background(self) -> bool:
        """Whether the client comes back for the answer."""
        return bool(self.id) or self.body.get("background") is True

    @property
    def partial_image_count(self) -> int:
        """How many images in the making are told before one that is drawn."""
        asked = (
            object_item.get("partial_images")
            for object_item in lenient_json.object_items(self.body.get("tools"))
        )
        return min(max((lenient_json.first_count(value) or 0 for value in asked), default=0), 3)


def responses_options(request: Request, *, stream: bool, after: int) -> ResponsesOptions:
    """What this request asks for."""
    path = request.path
    compact = path.endswith(COMPACT)
    stored = None if compact else STORED.search(path)
    body = lenient_json.parse_object(request.body)
    return ResponsesOptions(
        stream and not compact, body, stored["id"] if stored else "", after, compact
    )


def capabilities(
    options: ResponsesOptions, context: EncodeContext, turns: Sequence[Turn]
) -> Capabilities:
    """The words for such a request, and these turns: who refuses in words, completes."""
    refuses = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    kind = output_capabilities.THOUGHT if context.provider in _OPEN else output_capabilities.SUMMARY
    pauses = options.is_background and not options.stream
    return Capabilities(
        dialect="openai-responses",
        streams=options.stream,
        finish_of_raw=_STREAM if options.stream else _WHOLE,
        raw_of_finish={**_WORDS, **(_REFUSED if refuses else {}), **(_PAUSED if pauses else {})},
        stop_means_tool_calls=True,
        awaits_client=_awaits_client,
        convert_text=output_capabilities.convert_text,
        convert_reasoning=partial(output_capabilities.convert_reasoning, kind=kind),
        convert_refusal=output_capabilities.convert_refusal,
        convert_tool_call=output_capabilities.convert_tool_call,
        convert_tool_result=output_capabilities.convert_tool_result,
        convert_media=output_capabilities.convert_image_or_audio
        if options.stream
        else output_capabilities.convert_image,
        merged_kinds=frozenset(),
        kinds_kept_empty=frozenset((Reasoning,)),
        id_prefix="resp_",
        names_model=not options.is_compaction,
        usage_fields=_COUNTS,
        required_usage_fields=_COUNTS,
        always_has_usage=True,
        metadata_names=() if options.is_compaction else read.METADATA,
        arrange=partial(_arrange, options=options, context=context),
        convert_failure=partial(
            _convert_failure if options.stream else _as_whole_error, context=context
        ),
        convert_failed_turn=_as_failed_stream,
    )


def status_and_incomplete_reason(turn: Turn) -> tuple[str, str]:
    """The status that tells why a turn finished, and the reason of an incomplete response."""
    raw = turn.finish_raw or _WORDS[Finish.STOP]
    is_status = raw in read.STATUSES and (raw not in read.PAUSES or turn.finish is Finish.PAUSED)
    return (raw, "") if is_status else ("incomplete", raw)


def encode_turn_items(turn: Turn, context: EncodeContext) -> list[Document]:
    """The items of a turn; the last one is not completed where the turn is not."""
    made = output_item_encoder.encode_items(turn.parts, context)
    status, _ = status_and_incomplete_reason(turn)
    if made and status != "completed" and made[-1].get("status") == "completed":
        made[-1]["status"] = "in_progress" if status in read.PAUSES else "incomplete"
    return made


def audio_parts(parts: Sequence[Part]) -> list[Media]:
    """Speech, which is told beside the items."""
    return [part for part in parts if isinstance(part, Media) and part.media_type == "audio/*"]


def _awaits_client(parts: Sequence[Part]) -> bool:
    return read.awaits_client(list(output_item_encoder.encode_item_documents(parts)))


def _arrange(turn: Turn, options: ResponsesOptions, context: EncodeContext) -> Turn:
    """The turn as its items are read, each with an id of its own, and its speech behind them."""
    items = audio_parts(turn.parts)
    if len(items) > 1:
        raise NotRepresentable("openai-responses says one sound in an answer")
    if options.is_compaction:
        turn = replace(turn, finish=None, finish_raw="")
    parts = [
        part
        for item in encode_turn_items(turn, context)
        for part in output_item_decoder.decode_item(item)
    ]
    return replace(
        turn,
        parts=(*parts, *items),
        id=options.id or turn.id,
        metadata=()
        if options.is_compaction
        else _extra_response_fields(turn.metadata, options.body),
    )


def _extra_response_fields(metadata: Metadata, body: Fields) -> Metadata:
    """What a response says beside its output, part of which the request says first."""
    tier = body.get("service_tier")
    conversation = body.get("conversation")
    is_id = isinstance(conversation, str) and conversation
    first: Document = {
        "service_tier": "default" if tier == "auto" else tier,
        "previous_response_id": body.get("previous_response_id"),
        "conversation": {"id": conversation} if is_id else conversation,
    }
    return nonempty_metadata((*first.items(), *metadata), read.METADATA)


def _convert_failure(failure: Failure, context: EncodeContext) -> Failure:
    """An error with a type and a code, as clients expect; that it is an error says no type."""
    said = _as_whole_error(
        replace(failure, type="" if failure.type == "error" else failure.type), context
    )
    return replace(said, code=said.code or said.type)


def _as_whole_error(failure: Failure, context: EncodeContext) -> Failure:
    return errors.as_whole_error(failure, family_member(context.provider))


def _as_failed_stream(turn: Turn) -> Turn:
    return replace(turn, finish=Finish.ERROR, finish_raw="failed", usage=None)
