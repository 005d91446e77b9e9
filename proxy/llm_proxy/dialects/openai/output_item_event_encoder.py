"""Encodes one output item of the Responses API as events.

    added ( progress | part added | delta+ | annotation* | done | part done )* progress done

Fields that start empty are filled by deltas: see `DELTA_TARGET_BY_EVENT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.openai.output_item_decoder import IMAGE_FIELDS, RESULT_FIELDS
from llm_proxy.dialects.openai.output_items_assembler import (
    DELTA_TARGET_BY_EVENT,
    DONE_FIELD_BY_EVENT,
    DeltaTarget,
)
from llm_proxy.dialects.response_encoding import Document

TypedEvent = tuple[str, Document]
"""The type of an event, and its fields without the type, index and sequence number."""

_PROGRESS_STEPS: Final = {
    "web_search_call": (("in_progress", "searching"), ("completed",)),
    "file_search_call": (("in_progress", "searching"), ("completed",)),
    "code_interpreter_call": (("in_progress",), ("interpreting", "completed")),
    "image_generation_call": (("in_progress", "generating"), ("completed",)),
    "mcp_call": (("in_progress",), ("completed",)),
    "mcp_list_tools": (("in_progress",), ("completed",)),
}
"""The progress events of a tool before and after its arguments, by item type."""
_TYPES_WITH_FAILED_EVENT: Final = ("mcp_call", "mcp_list_tools")
"""Item types that have a `.failed` event."""

_DELTA_FIELDS: Final = frozenset(
    target.field for target in DELTA_TARGET_BY_EVENT.values() if not target.entry_type
)
_LIST_FIELDS: Final = ("content", "summary", "queries", *RESULT_FIELDS)
_LATE_IMAGE_FIELDS: Final = ("result", "prompt", "revised_prompt", *IMAGE_FIELDS)

_CONTENT_PART_EVENT: Final = "response.content_part"
_SUMMARY_PART_EVENT: Final = "response.reasoning_summary_part"
_SHELL_OUTPUT_EVENT: Final = "response.shell_call_output_content"
_IMAGE_CALL_EVENT: Final = "response.image_generation_call"

_TEXT_EVENT_BY_BLOCK_TYPE: Final = {
    place.entry_type: stem for stem, place in DELTA_TARGET_BY_EVENT.items() if place.entry_type
}
"""The event type without its last segment, by the type of the text block."""


@dataclass(frozen=True, slots=True)
class OutputItemEventEncoder:
    """Encodes output items as events."""

    text_splitter: Callable[[str], Iterable[str]]
    partial_image_count: int
    """How many partial images precede an image."""

    def encode_events(self, item: Document, *, is_complete: bool = True) -> Iterator[TypedEvent]:
        """The events of an item; without `is_complete`, those that end it are left out."""
        for kind, fields in self._encode_item_events(item):
            if is_complete or not kind.endswith((".done", ".completed")):
                yield kind, fields

    def _encode_item_events(self, item: Document) -> Iterator[TypedEvent]:
        kind = item["type"]
        item_id_field = {"item_id": item["id"]}
        steps_before, steps_after = _PROGRESS_STEPS.get(kind, ((), ()))
        if _has_failed(item):
            last = ("failed",) if kind in _TYPES_WITH_FAILED_EVENT else ()
            steps_after = (*(value for value in steps_after if value != "completed"), *last)
        yield "response.output_item.added", {"item": _initial_item(item)}
        yield from ((f"response.{kind}.{step}", item_id_field) for step in steps_before)
        yield from self._encode_item_content_events(item, item_id_field)
        yield from ((f"response.{kind}.{step}", item_id_field) for step in steps_after)
        yield "response.output_item.done", {"item": item}

    def _encode_item_content_events(
        self, item: Document, item_id_field: Document
    ) -> Iterator[TypedEvent]:
        match item["type"]:
            case "message" | "reasoning":
                for at, block in enumerate(item.get("summary", ())):
                    yield from self._encode_block_events(
                        _SUMMARY_PART_EVENT, block, {**item_id_field, "summary_index": at}
                    )
                for at, block in enumerate(item.get("content", ())):
                    yield from self._encode_block_events(
                        _CONTENT_PART_EVENT, block, {**item_id_field, "content_index": at}
                    )
            case "image_generation_call":
                yield from self._encode_partial_images(item, item_id_field)
            case "shell_call_output":
                yield from _encode_shell_output_events(item, item_id_field)
            case kind:
                for stem, place in DELTA_TARGET_BY_EVENT.items():
                    if place.item_type == kind:
                        yield from self._encode_field_events(stem, place, item, item_id_field)

    def _encode_block_events(
        self, part_event: str, block: Document, location: Document
    ) -> Iterator[TypedEvent]:
        text_event = _TEXT_EVENT_BY_BLOCK_TYPE[block["type"]]
        field = DELTA_TARGET_BY_EVENT[text_event].field
        empty_block = {name: [] if isinstance(value, list) else "" for name, value in block.items()}
        yield f"{part_event}.added", {**location, "part": {**empty_block, "type": block["type"]}}
        token_logprobs = block.get("logprobs")
        for piece, entries in self._split_with_logprobs(block[field], token_logprobs):
            fields = {} if token_logprobs is None else {"logprobs": entries}
            yield f"{text_event}.delta", {**location, "delta": piece, **fields}
        for at, cited in enumerate(block.get("annotations", ())):
            numbered = {**location, "annotation_index": at, "annotation": cited}
            yield f"{text_event}.annotation.added", numbered
        fields = {} if token_logprobs is None else {"logprobs": token_logprobs}
        yield f"{text_event}.done", {**location, field: block[field], **fields}
        yield f"{part_event}.done", {**location, "part": block}

    def _split_with_logprobs(
        self, text: str, token_logprobs: list[Document] | None
    ) -> Iterator[tuple[str, list[Document]]]:
        """The pieces of a text with their log probabilities: its tokens, where these are known."""
        tokens = [lenient_json.str_or_empty(entry.get("token")) for entry in token_logprobs or ()]
        if token_logprobs and all(tokens) and "".join(tokens) == text:
            yield from (
                (token, [entry]) for token, entry in zip(tokens, token_logprobs, strict=True)
            )
            return
        for at, piece in enumerate(self.text_splitter(text)):
            yield piece, (token_logprobs or []) if at == 0 else []

    def _encode_field_events(
        self, text_event: str, target: DeltaTarget, item: Document, item_id_field: Document
    ) -> Iterator[TypedEvent]:
        """The events of a text field (or list of texts) of the item or of an object in it."""
        parent = (
            lenient_json.object_fields(item.get(target.parent_field))
            if target.parent_field
            else item
        )
        value = parent.get(target.field)
        if not target.index_field:
            if isinstance(value, str):
                name_field = {"name": item["name"]} if "name" in item else {}
                yield from self._encode_text_deltas(
                    text_event, target.field, value, item_id_field, name_field
                )
            return
        for at, text in enumerate(lenient_json.array_items(value)):
            location: Document = {target.index_field: at}
            full_field = DONE_FIELD_BY_EVENT[text_event]
            yield f"{text_event}.added", {**location, full_field: ""}
            yield from self._encode_text_deltas(
                text_event, full_field, lenient_json.str_or_empty(text), location, {}
            )

    def _encode_text_deltas(
        self,
        text_event: str,
        field: str,
        text: str,
        location: Document,
        extra_done_fields: Document,
    ) -> Iterator[TypedEvent]:
        for piece in self.text_splitter(text):
            yield f"{text_event}.delta", {**location, "delta": piece}
        yield f"{text_event}.done", {**location, **extra_done_fields, field: text}

    def _encode_partial_images(
        self, item: Document, item_id_field: Document
    ) -> Iterator[TypedEvent]:
        if image_base64 := item.get("result"):
            image_fields: Document = {name: item[name] for name in IMAGE_FIELDS if name in item}
            for at in range(self.partial_image_count):
                partial_fields = {"partial_image_index": at, "partial_image_b64": image_base64}
                yield (
                    f"{_IMAGE_CALL_EVENT}.partial_image",
                    {**item_id_field, **partial_fields, **image_fields},
                )


def _encode_shell_output_events(item: Document, item_id_field: Document) -> Iterator[TypedEvent]:
    for at, output in enumerate(lenient_json.array_objects(item.get("output"))):
        location = {**item_id_field, "command_index": at}
        fields = {name: output[name] for name in ("stdout", "stderr") if output.get(name)}
        yield f"{_SHELL_OUTPUT_EVENT}.delta", {**location, "delta": fields}
    yield (
        f"{_SHELL_OUTPUT_EVENT}.done",
        {**item_id_field, "command_index": 0, "output": item.get("output")},
    )


def _has_failed(item: Document) -> bool:
    return item.get("status") == "failed" or bool(item.get("error"))


def _initial_item(item: Document) -> Document:
    """An item as `output_item.added` holds it: in progress, its delta fields empty."""
    started_item = {
        name: _initial_field_value(name, value)
        for name, value in item.items()
        if name not in _LATE_IMAGE_FIELDS
    }
    if "status" in item:
        started_item["status"] = "in_progress"
    return started_item


def _initial_field_value(name: str, value: object) -> object:
    match value:
        case str() if name in _DELTA_FIELDS:
            return ""
        case list() if name in _LIST_FIELDS:
            return []
        case str() if name in RESULT_FIELDS:
            return None
        case dict() if name in RESULT_FIELDS:
            return None
        case dict():
            return {
                key: [] if isinstance(content, list) else content for key, content in value.items()
            }
        case _:
            return value
