"""Assembles the output items of a streamed response from its events.

An item is sent up to three times: in deltas, whole when it is done, and again in the response that
ends the stream.  Later copies take precedence, so deltas count only where the stream broke off (or
was joined midway, by `starting_after`), and are assembled into an item of the same form.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai.output_item_decoder import IMAGE_FIELDS
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """The field of an item that a delta extends."""

    item_type: str
    """The type of the item."""
    field: str
    parent_field: str = ""
    """The list or object of the item that holds the field; empty where the item does."""
    index_field: str = ""
    """The event's field that holds the index in that list; empty where there is no list."""
    entry_type: str = ""
    """The type of the list's entries; empty where they are strings."""


DELTA_TARGET_BY_EVENT: Final = {
    "response.output_text": DeltaTarget(
        "message", "text", "content", "content_index", "output_text"
    ),
    "response.refusal": DeltaTarget("message", "refusal", "content", "content_index", "refusal"),
    "response.reasoning_text": DeltaTarget(
        "reasoning", "text", "content", "content_index", "reasoning_text"
    ),
    "response.reasoning_summary_text": DeltaTarget(
        "reasoning", "text", "summary", "summary_index", "summary_text"
    ),
    "response.function_call_arguments": DeltaTarget("function_call", "arguments"),
    "response.custom_tool_call_input": DeltaTarget("custom_tool_call", "input"),
    "response.mcp_call_arguments": DeltaTarget("mcp_call", "arguments"),
    "response.code_interpreter_call_code": DeltaTarget("code_interpreter_call", "code"),
    "response.shell_call_command": DeltaTarget("shell_call", "commands", "action", "command_index"),
    "response.apply_patch_call_operation_diff": DeltaTarget(
        "apply_patch_call", "diff", "operation"
    ),
}
"""The target by event type without `.delta` (which holds a piece) or `.done` (the whole)."""

DONE_FIELD_BY_EVENT: Final = {"response.shell_call_command": "command"}
"""The field of `.done` that holds the whole value, where not named as in the item."""


class OutputItemsAssembler:
    """Assembles the items of one stream from its events, in linear time."""

    def __init__(self) -> None:
        self._items: list[_OutputItemAssembler] = []
        self._latest_item_by_key: dict[Hashable, _OutputItemAssembler] = {}
        """The latest item at each output index, or by ID where events have no index."""

    def feed(self, event_type: str, event: Fields) -> None:
        """Apply one event; progress events of tools are ignored."""
        stem, _, step = event_type.rpartition(".")
        if stem == "response.output_item":
            self._store_item_snapshot(event, lenient_json.object_fields(event.get("item")), step)
        elif target := DELTA_TARGET_BY_EVENT.get(stem):
            full_value = (
                event.get(DONE_FIELD_BY_EVENT.get(stem, target.field)) if step == "done" else None
            )
            item = self._item_of_event(event, target.item_type)
            item.append_text(
                target, event, full_value or event.get("delta"), replaces=full_value is not None
            )
        elif event_type == "response.output_text.annotation.added":
            self._item_of_event(event, "message").append_annotation(event)
        elif event_type == "response.image_generation_call.partial_image":
            self._item_of_event(event, "image_generation_call").set_partial_image(event)
        elif event_type == "response.shell_call_output_content.done":
            self._item_of_event(event, "shell_call_output").fields["output"] = event.get("output")

    def assembled_items(self) -> list[Fields]:
        """The items so far, in output order."""
        return [item.assembled_item() for item in self._items]

    def _store_item_snapshot(self, event: Fields, fields: Fields, step: str) -> None:
        """Store the item of an `added` or `done` event; some servers reuse an index."""
        item = self._item_of_event(event, lenient_json.str_or_empty(fields.get("type")))
        if step in item.received_snapshots or "done" in item.received_snapshots:
            item = self._begin_item(event, "")
        item.received_snapshots.add(step)
        item.fields.update(fields)

    def _item_of_event(self, event: Fields, kind: str) -> _OutputItemAssembler:
        """The item of an event; a new one where the stream was joined midway."""
        key = _item_key(event)
        return (
            self._latest_item_by_key[key]
            if key in self._latest_item_by_key
            else self._begin_item(event, kind)
        )

    def _begin_item(self, event: Fields, kind: str) -> _OutputItemAssembler:
        item = self._latest_item_by_key[_item_key(event)] = _OutputItemAssembler(kind)
        self._items.append(item)
        return item


def _item_key(event: Fields) -> Hashable:
    index = lenient_json.first_integer(event.get("output_index"))
    return lenient_json.value_as_text(event.get("item_id")) if index is None else index


class _OutputItemAssembler:
    """Assembles one item from its events."""

    def __init__(self, item_type: str) -> None:
        self.fields: dict[str, Json] = {}
        self._item_type = item_type
        """The item type according to its delta events; the item's own `type` takes precedence."""
        self.received_snapshots: set[str] = set()
        """The events received that hold the whole item: `added`, `done`."""
        self._text_pieces: dict[tuple[DeltaTarget, int], list[str]] = {}
        self._annotations: dict[int, list[Json]] = {}

    def append_text(
        self, target: DeltaTarget, event: Fields, piece: Json, *, replaces: bool = False
    ) -> None:
        """Append a piece of a text, or with `replaces` set the whole text."""
        if text := lenient_json.str_or_empty(piece):
            pieces = self._text_pieces.setdefault(
                (target, lenient_json.first_integer(event.get(target.index_field)) or 0), []
            )
            if replaces:
                pieces.clear()
            pieces.append(text)

    def append_annotation(self, event: Fields) -> None:
        """Append an annotation to a text block."""
        index = lenient_json.first_integer(event.get("content_index")) or 0
        self._annotations.setdefault(index, []).append(event.get("annotation"))

    def set_partial_image(self, event: Fields) -> None:
        """Store a partial image, in place of the previous one."""
        self.fields["result"] = event.get("partial_image_b64")
        self.fields.update(lenient_json.select_metadata(event, IMAGE_FIELDS))

    def assembled_item(self) -> Fields:
        """The item so far; fields of the `done` event take precedence over deltas."""
        assembled = self._assemble_list_entries() | self._assemble_text_fields()
        final_fields = self.fields if "done" in self.received_snapshots else {}
        fields = {
            **self.fields,
            **{name: value for name, value in assembled.items() if not final_fields.get(name)},
        }
        fields.setdefault("type", self._item_type)
        return fields

    def _assemble_text_fields(self) -> dict[str, Json]:
        texts: dict[DeltaTarget, list[Json]] = {}
        for (target, _), pieces in sorted(
            self._text_pieces.items(), key=lambda values: values[0][1]
        ):
            if not target.entry_type:
                texts.setdefault(target, []).append(lenient_json.join_pieces(pieces))
        assembled: dict[str, Json] = {}
        for target, items in texts.items():
            value = items if target.index_field else items[0]
            fields = lenient_json.object_fields(self.fields.get(target.parent_field))
            parent: Json = {**fields, target.field: value}
            assembled[target.parent_field or target.field] = (
                parent if target.parent_field else value
            )
        return assembled

    def _assemble_list_entries(self) -> dict[str, Json]:
        entries: dict[tuple[str, int], dict[str, Json]] = {}
        for (target, index), pieces in self._text_pieces.items():
            if target.entry_type:
                entry = entries.setdefault((target.parent_field, index), {})
                entry.update(
                    {"type": target.entry_type, target.field: lenient_json.join_pieces(pieces)}
                )
        for index, item_annotations in self._annotations.items():
            entries.setdefault(("content", index), {})["annotations"] = item_annotations
        lists: dict[str, list[Json]] = {}
        for (parent_field, _), entry in sorted(entries.items(), key=lambda values: values[0]):
            lists.setdefault(parent_field, []).append(entry)
        return {**lists}
