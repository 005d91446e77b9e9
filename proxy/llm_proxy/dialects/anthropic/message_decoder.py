"""Decodes Anthropic messages, whole or from events, and legacy completions.

    message_start
    ( content_block_start  content_block_delta*  content_block_stop )*
    message_delta            stop reason and usage, as totals
    message_stop

`ping` may stand anywhere, and `error` in place of the rest.  A message that goes on where a tool
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
    Finish,
    Json,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    Turn,
)

FINISH: Final = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP_SEQUENCE,
    "max_tokens": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "pause_turn": Finish.PAUSED,
    "compaction": Finish.PAUSED,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
}
"""What each reason to stop means."""

REFUSAL: Final = "refusal"
"""The reason to stop, and the type of the details, of an answer that was declined."""

DETAILS: Final = "stop_details"
OTHER_BLOCKS: Final = "other_blocks"
USAGE: Final = "usage"
"""Metadata of a turn: why it was declined, blocks that no part has a word for, and what `Usage`
has no word for."""

_HAVE_WORDS: Final = (
    "type", "id", "role", "model", "content", "stop_reason", "usage",
    "delta", "completion", "log_id",
)  # fmt: skip
"""Fields of messages and completions that need no place beside the turn; `log_id` is the id."""

_SILENT: Final = (Text(""), Reasoning())


def document_kind(document: Fields) -> str:
    """What a document is: the type of its event, `message`, `completion`, or `error`.

    Empty where it is none of Anthropic's (counts of tokens, lists of models).
    """
    if document.get("error"):
        return "error"
    if named := lenient_json.printable_text(document.get("type")):
        return named
    return "message" if isinstance(document.get("content"), list) else ""


def stop_reason(document: Fields) -> str:
    """Why the message ended, where this event or document says so."""
    is_delta = document_kind(document) == "message_delta"
    says = lenient_json.object_fields(document.get("delta")) if is_delta else document
    return lenient_json.printable_text(says.get("stop_reason"))


def event_output_chars(document: Fields) -> int:
    """How many characters an event adds to what was said: deltas do, but for seals, citations."""
    match document_kind(document):
        case "content_block_delta":
            return block_decoder.delta_output_chars(
                lenient_json.object_fields(document.get("delta"))
            )
        case "completion":
            return len(lenient_json.str_or_empty(document.get("completion")))
        case _:
            return 0


def decode_failure(document: Fields) -> Failure:
    """What an error says; its `error_code` stands among the details."""
    error = document.get("error") or dict(document)
    failure = json_api.decode_failure(error)
    details = lenient_json.object_fields(lenient_json.object_fields(error).get("details"))
    return replace(
        failure, code=failure.code or lenient_json.printable_text(details.get("error_code"))
    )


class MessagesDecoder:
    """The turns of a response, as its documents come: one, but for streams that were spliced."""

    def __init__(self) -> None:
        self._message_decoders: list[_MessageDecoder] = []

    def feed(self, document: Fields) -> None:
        """Read one event, or the one document of a response that does not stream."""
        match document_kind(document):
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
                self._current_message().feed_completion(document)
            case "error":
                self._current_message().feed_error(document)
            case _:
                pass  # a ping, or nothing of a message

    def result(self) -> tuple[Turn, ...]:
        """What was said."""
        return tuple(message.result() for message in self._message_decoders)

    def _current_message(self) -> _MessageDecoder:
        if not self._message_decoders:
            self._message_decoders.append(_MessageDecoder())
        return self._message_decoders[-1]


class _MessageDecoder:
    """One message, as its events come."""

    def __init__(self) -> None:
        self._message_fields: dict[str, Json] = {}
        self._usage: dict[str, Json] = {}
        self._blocks: list[tuple[int, ContentBlockDecoder]] = []
        self._open_blocks: dict[int, ContentBlockDecoder] = {}
        """For each index, the block that began there last."""
        self._failure: Failure | None = None

    def start_message(self, message: Fields) -> None:
        """Read a message object, whose blocks are whole."""
        self._store_message_fields(message)
        for index, content in enumerate(lenient_json.object_items(message.get("content"))):
            self._begin_block(index, ContentBlockDecoder(content, closed=True))

    def feed_block_event(self, event: Fields) -> None:
        """Read an event of one block."""
        number = lenient_json.first_count(event.get("index"))
        started = event.get("type") == "content_block_start"
        index = len(self._blocks) - (not started) if number is None else number
        if started:
            self._begin_block(
                index, ContentBlockDecoder(lenient_json.object_fields(event.get("content_block")))
            )
            return
        if event.get("type") == "content_block_delta":
            self._open_block(index).feed(lenient_json.object_fields(event.get("delta")))
        elif index in self._open_blocks:
            self._open_blocks[index].is_closed = True

    def feed_message_delta(self, event: Fields) -> None:
        """Read a `message_delta`: why the message ends, and what it cost."""
        self._store_message_fields(lenient_json.object_fields(event.get("delta")))
        self._store_message_fields(event)

    def feed_completion(self, completion: Fields) -> None:
        """Read a legacy completion, whole or the next piece of it."""
        self._store_message_fields(completion)
        written = {"type": "text_delta", "text": completion.get("completion")}
        self._open_block(0).feed(written)

    def feed_error(self, document: Fields) -> None:
        """Read an error; the first counts."""
        self._failure = self._failure or decode_failure(document)
        self._store_message_fields({REQUEST_ID: document.get(REQUEST_ID)})

    def result(self) -> Turn:
        """What was said."""
        raw = lenient_json.printable_text(self._message_fields.get("stop_reason"))
        parts, others = self._decoded_parts()
        declined = decode_refusal(self._message_fields.get(DETAILS)) if raw == REFUSAL else ()
        return Turn(
            (*parts, *declined),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.decode_usage(self._usage),
            failure=self._failure,
            id=lenient_json.printable_text(self._message_fields.get("id")),
            model=fallback_model(others)
            or lenient_json.printable_text(self._message_fields.get("model")),
            metadata=self._turn_metadata(others, values=(DETAILS,) if declined else ()),
        )

    def _store_message_fields(self, fields: Fields) -> None:
        """Keep what is said; null says nothing, and what is said later counts."""
        self._message_fields.update(
            (name, value) for name, value in fields.items() if value is not None
        )
        counts = lenient_json.object_fields(fields.get("usage"))
        self._usage.update((name, value) for name, value in counts.items() if value is not None)

    def _begin_block(self, index: int, block: ContentBlockDecoder) -> None:
        self._blocks.append((index, block))
        self._open_blocks[index] = block

    def _open_block(self, index: int) -> ContentBlockDecoder:
        """The block that is open there; its start may be missing."""
        if index not in self._open_blocks:
            self._begin_block(index, ContentBlockDecoder({}))
        return self._open_blocks[index]

    def _decoded_parts(self) -> tuple[list[Part], list[Json]]:
        contents = [(index, block.content()) for index, block in self._blocks]
        names = {
            lenient_json.printable_text(fields.get("id")): lenient_json.printable_text(
                fields.get("name")
            )
            for _, fields in contents
            if is_tool_call_block(fields)
        }
        parts: list[Part] = []
        others: list[Json] = []
        for index, content in contents:
            part = decode_block(content, names)
            if part is None and content:
                others.append({"index": index, "content_block": dict(content)})
            elif part is not None and part not in _SILENT:
                parts.append(part)
        return parts, others

    def _turn_metadata(self, others: list[Json], values: tuple[str, ...]) -> Metadata:
        known = (*_HAVE_WORDS, *values)
        fields = {name: value for name, value in self._message_fields.items() if name not in known}
        fields[USAGE] = usage.extra_usage_fields(self._usage)
        fields[OTHER_BLOCKS] = others
        return lenient_json.named_metadata(fields, fields)


def fallback_model(others: list[Json]) -> str:
    """The model that answered where one declined: the last `fallback` block names it."""
    blocks = [
        lenient_json.object_fields(lenient_json.object_fields(other).get("content_block"))
        for other in others
    ]
    to = [
        lenient_json.object_fields(block.get("to"))
        for block in blocks
        if block.get("type") == "fallback"
    ]
    named = [lenient_json.printable_text(fields.get("model")) for fields in to]
    return next(filter(None, reversed(named)), "")


def decode_refusal(value: Json) -> tuple[Refusal, ...]:
    """The explanation of a refusal, with its category beside it; none where none is given."""
    details = lenient_json.object_fields(value)
    explanation = lenient_json.printable_text(details.get("explanation"))
    beside = (name for name in details if name not in ("type", "explanation"))
    return (
        (Refusal(explanation, lenient_json.named_metadata(details, beside)),) if explanation else ()
    )
