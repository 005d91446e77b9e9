"""Decodes Anthropic messages, whole or from events, and legacy completions.

    message_start
    ( content_block_start  content_block_delta*  content_block_stop )*
    message_delta            stop reason and usage, as totals
    message_stop

`ping` may occur anywhere, and `error` in place of the rest.  A message that continues after a tool
of the provider called one of the client's comes whole in its `message_start`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.anthropic import block_decoder, usage
from llm_proxy.dialects.anthropic.block_decoder import (
    ContentBlockDecoder,
    decode_block,
    is_tool_call_block,
)
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    Turn,
)

FINISH_BY_STOP_REASON: Final = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "max_tokens": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSED,
    "compaction": FinishReason.PAUSED,
    "refusal": FinishReason.REFUSAL,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
}
"""The `FinishReason` of each stop reason."""

REFUSAL: Final = "refusal"
"""The stop reason of a refusal, and the type of its `stop_details`."""

STOP_DETAILS: Final = "stop_details"
OTHER_BLOCKS: Final = "other_blocks"
USAGE: Final = "usage"
"""Metadata of a turn: the details of a refusal, the blocks that no part can represent, and
the usage fields that `Usage` does not have."""

_DECODED_FIELDS: Final = (
    "type", "id", "role", "model", "content", "stop_reason", "usage",
    "delta", "completion", "log_id",
)  # fmt: skip
"""Fields that do not become metadata, since the turn holds them; `log_id` repeats the id."""

_EMPTY_PARTS: Final = (Text(""), Reasoning())


def response_payload_kind(document: Fields) -> str:
    """The kind of a document: the type of its event, `message`, `completion`, or `error`.

    Empty if it is no message (token counts, lists of models).
    """
    if document.get("error"):
        return "error"
    if named := lenient_json.value_as_text(document.get("type")):
        return named
    return "message" if isinstance(document.get("content"), list) else ""


def stop_reason(document: Fields) -> str:
    """The stop reason in this event or document; empty if it has none."""
    is_delta = response_payload_kind(document) == "message_delta"
    fields = lenient_json.object_fields(document.get("delta")) if is_delta else document
    return lenient_json.value_as_text(fields.get("stop_reason"))


def event_output_chars(document: Fields) -> int:
    """How many output characters an event adds; signatures and citations count nothing."""
    match response_payload_kind(document):
        case "content_block_delta":
            return block_decoder.delta_output_chars(
                lenient_json.object_fields(document.get("delta"))
            )
        case "completion":
            return len(lenient_json.str_or_empty(document.get("completion")))
        case _:
            return 0


def decode_failure(document: Fields) -> Failure:
    """Decodes an error; its code defaults to `details.error_code`."""
    error = document.get("error") or dict(document)
    failure = json_api.decode_failure(error)
    details = lenient_json.object_fields(lenient_json.object_fields(error).get("details"))
    return replace(
        failure, code=failure.code or lenient_json.value_as_text(details.get("error_code"))
    )


class MessagesResponseDecoder:
    """Decodes the documents of a response to turns: one, except for spliced streams."""

    def __init__(self) -> None:
        self._message_decoders: list[_MessageDecoder] = []

    def feed(self, document: Fields) -> None:
        """Decode one event, or the one document of a response that does not stream."""
        match response_payload_kind(document):
            case "message_start":
                self._message_decoders.append(_MessageDecoder())
                self._message_decoders[-1].start_message(
                    lenient_json.object_fields(document.get("message"))
                )
            case "message":
                self._message_decoders.append(_MessageDecoder())
                self._message_decoders[-1].start_message(document)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._current_message().feed_block_event(document)
            case "message_delta":
                self._current_message().feed_message_delta(document)
            case "completion":
                self._current_message().feed_legacy_completion(document)
            case "error":
                self._current_message().feed_error(document)
            case _:
                pass  # a ping, or no part of a message

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, one per message."""
        return tuple(message.turn() for message in self._message_decoders)

    def _current_message(self) -> _MessageDecoder:
        if not self._message_decoders:
            self._message_decoders.append(_MessageDecoder())
        return self._message_decoders[-1]


class _MessageDecoder:
    """Decodes the events of one message."""

    def __init__(self) -> None:
        self._message_fields: dict[str, Json] = {}
        self._usage: dict[str, Json] = {}
        self._blocks: list[tuple[int, ContentBlockDecoder]] = []
        self._latest_blocks: dict[int, ContentBlockDecoder] = {}
        """For each index, the block that started there last."""
        self._failure: Failure | None = None

    def start_message(self, message: Fields) -> None:
        """Decode a message object, whose blocks are complete."""
        self._store_message_fields(message)
        for index, content in enumerate(lenient_json.array_objects(message.get("content"))):
            self._begin_block(index, ContentBlockDecoder(content, closed=True))

    def feed_block_event(self, event: Fields) -> None:
        event_index = lenient_json.first_integer(event.get("index"))
        is_start = event.get("type") == "content_block_start"
        index = len(self._blocks) - (not is_start) if event_index is None else event_index
        if is_start:
            self._begin_block(
                index, ContentBlockDecoder(lenient_json.object_fields(event.get("content_block")))
            )
            return
        if event.get("type") == "content_block_delta":
            self._block_at(index).feed(lenient_json.object_fields(event.get("delta")))
        elif index in self._latest_blocks:
            self._latest_blocks[index].is_closed = True

    def feed_message_delta(self, event: Fields) -> None:
        """Decode a `message_delta`: stop reason and usage."""
        self._store_message_fields(lenient_json.object_fields(event.get("delta")))
        self._store_message_fields(event)

    def feed_legacy_completion(self, completion: Fields) -> None:
        """Decode a legacy completion, or its next piece."""
        self._store_message_fields(completion)
        delta = {"type": "text_delta", "text": completion.get("completion")}
        self._block_at(0).feed(delta)

    def feed_error(self, document: Fields) -> None:
        """Decode an error; only the first is kept."""
        self._failure = self._failure or decode_failure(document)
        self._store_message_fields({REQUEST_ID: document.get(REQUEST_ID)})

    def turn(self) -> Turn:
        """The turn so far."""
        raw = lenient_json.value_as_text(self._message_fields.get("stop_reason"))
        parts, undecoded_blocks = self._decoded_parts()
        refusals = decode_refusal(self._message_fields.get(STOP_DETAILS)) if raw == REFUSAL else ()
        return Turn(
            (*parts, *refusals),
            finish=FINISH_BY_STOP_REASON.get(raw, FinishReason.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.decode_usage(self._usage),
            failure=self._failure,
            id=lenient_json.value_as_text(self._message_fields.get("id")),
            model=responding_fallback_model(undecoded_blocks)
            or lenient_json.value_as_text(self._message_fields.get("model")),
            metadata=self._turn_metadata(
                undecoded_blocks, decoded_names=(STOP_DETAILS,) if refusals else ()
            ),
        )

    def _store_message_fields(self, fields: Fields) -> None:
        """Merge fields: null is skipped, later values win."""
        self._message_fields.update(
            (name, value) for name, value in fields.items() if value is not None
        )
        counts = lenient_json.object_fields(fields.get("usage"))
        self._usage.update((name, value) for name, value in counts.items() if value is not None)

    def _begin_block(self, index: int, block: ContentBlockDecoder) -> None:
        self._blocks.append((index, block))
        self._latest_blocks[index] = block

    def _block_at(self, index: int) -> ContentBlockDecoder:
        """The latest block at this index; a new one if its start is missing."""
        if index not in self._latest_blocks:
            self._begin_block(index, ContentBlockDecoder({}))
        return self._latest_blocks[index]

    def _decoded_parts(self) -> tuple[list[Part], list[Json]]:
        blocks = [(index, block.block_fields()) for index, block in self._blocks]
        tool_names = {
            lenient_json.value_as_text(fields.get("id")): lenient_json.value_as_text(
                fields.get("name")
            )
            for _, fields in blocks
            if is_tool_call_block(fields)
        }
        parts: list[Part] = []
        undecoded_blocks: list[Json] = []
        for index, block in blocks:
            part = decode_block(block, tool_names)
            if part is None and block:
                undecoded_blocks.append({"index": index, "content_block": dict(block)})
            elif part is not None and part not in _EMPTY_PARTS:
                parts.append(part)
        return parts, undecoded_blocks

    def _turn_metadata(
        self, undecoded_blocks: list[Json], decoded_names: tuple[str, ...]
    ) -> Metadata:
        known = (*_DECODED_FIELDS, *decoded_names)
        fields = {name: value for name, value in self._message_fields.items() if name not in known}
        fields[USAGE] = usage.extra_usage_fields(self._usage)
        fields[OTHER_BLOCKS] = undecoded_blocks
        return lenient_json.select_metadata(fields, fields)


def responding_fallback_model(undecoded_blocks: list[Json]) -> str:
    """The model that responded after another declined: that of the last `fallback` block."""
    blocks = [
        lenient_json.object_fields(lenient_json.object_fields(other).get("content_block"))
        for other in undecoded_blocks
    ]
    targets = [
        lenient_json.object_fields(block.get("to"))
        for block in blocks
        if block.get("type") == "fallback"
    ]
    models = [lenient_json.value_as_text(fields.get("model")) for fields in targets]
    return next(filter(None, reversed(models)), "")


def decode_refusal(value: Json) -> tuple[Refusal, ...]:
    """The refusal in `stop_details`, its other fields as metadata; none without explanation."""
    details = lenient_json.object_fields(value)
    explanation = lenient_json.value_as_text(details.get("explanation"))
    extra_names = (name for name in details if name not in ("type", "explanation"))
    return (
        (Refusal(explanation, lenient_json.select_metadata(details, extra_names)),)
        if explanation
        else ()
    )
