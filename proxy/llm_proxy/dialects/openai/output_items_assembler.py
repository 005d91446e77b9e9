"""Assembles the output items of a streamed response from its events.

An item comes up to three times: in deltas, whole when it is done, and once more in the response
that ends the stream.  The later telling is the better one, so deltas count only where the stream
broke off (or was joined midway, by `starting_after`), and make an item like those that come whole.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai.output_item_decoder import OF_IMAGE
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """Where in an item a delta belongs."""

    item: str
    """The type of the item."""
    field: str
    parent_field: str = ""
    """The list or object of the item that holds the field; empty where the item does."""
    index: str = ""
    """The event's field that counts the entries of that list."""
    entry_type: str = ""
    """The type of such an entry; empty where the entries are the texts themselves."""


PLACES: Final = {
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
"""What grows by deltas: `.delta` brings a piece, `.done` the whole."""

WHOLE: Final = {"response.shell_call_command": "command"}
"""Where the field that brings the whole is not named as in the item."""


class OutputItemsDecoder:
    """The items of one stream, as its events come; time is linear in what it is given."""

    def __init__(self) -> None:
        self._items: list[_OutputItemDecoder] = []
        self._open: dict[Hashable, _OutputItemDecoder] = {}
        """The item begun last at each index of the output."""

    def feed(self, kind: str, event: Fields) -> None:
        """Read one event of that type; those about the progress of a tool say nothing new."""
        stem, _, step = kind.rpartition(".")
        if stem == "response.output_item":
            self._store_whole_item(event, lenient_json.object_fields(event.get("item")), step)
        elif place := PLACES.get(stem):
            whole = event.get(WHOLE.get(stem, place.field)) if step == "done" else None
            item = self._item_of_event(event, place.item)
            item.append_text(place, event, whole or event.get("delta"), replaces=whole is not None)
        elif kind == "response.output_text.annotation.added":
            self._item_of_event(event, "message").append_annotation(event)
        elif kind == "response.image_generation_call.partial_image":
            self._item_of_event(event, "image_generation_call").set_partial_image(event)
        elif kind == "response.shell_call_output_content.done":
            self._item_of_event(event, "shell_call_output").fields["output"] = event.get("output")

    def item_documents(self) -> list[Fields]:
        """The items as they stand."""
        return [item.item_document() for item in self._items]

    def _store_whole_item(self, event: Fields, fields: Fields, step: str) -> None:
        """An item that begins or ends; servers that count badly begin several at one index."""
        item = self._item_of_event(event, lenient_json.str_or_empty(fields.get("type")))
        if step in item.progress_steps or "done" in item.progress_steps:
            item = self._begin_item(event, "")
        item.progress_steps.add(step)
        item.fields.update(fields)

    def _item_of_event(self, event: Fields, kind: str) -> _OutputItemDecoder:
        """The item that an event is about; a new one, where the stream was joined midway."""
        key = _item_key(event)
        return self._open[key] if key in self._open else self._begin_item(event, kind)

    def _begin_item(self, event: Fields, kind: str) -> _OutputItemDecoder:
        item = self._open[_item_key(event)] = _OutputItemDecoder(kind)
        self._items.append(item)
        return item


def _item_key(event: Fields) -> Hashable:
    index = lenient_json.first_count(event.get("output_index"))
    return lenient_json.printable_text(event.get("item_id")) if index is None else index


class _OutputItemDecoder:
    """One item, as its events come."""

    def __init__(self, kind: str) -> None:
        self.fields: dict[str, Json] = {}
        self._kind = kind
        """Its type, as far as its events tell; the item itself knows better."""
        self.progress_steps: set[str] = set()
        """Which tellings of the whole item there were."""
        self._text_pieces: dict[tuple[DeltaTarget, int], list[str]] = {}
        self._annotations: dict[int, list[Json]] = {}

    def append_text(
        self, place: DeltaTarget, event: Fields, piece: Json, *, replaces: bool = False
    ) -> None:
        """Take a piece of a text; `anew` where it is all of the text."""
        if text := lenient_json.str_or_empty(piece):
            pieces = self._text_pieces.setdefault(
                (place, lenient_json.first_count(event.get(place.index)) or 0), []
            )
            if replaces:
                pieces.clear()
            pieces.append(text)

    def append_annotation(self, event: Fields) -> None:
        """Take an annotation of a text."""
        index = lenient_json.first_count(event.get("content_index")) or 0
        self._annotations.setdefault(index, []).append(event.get("annotation"))

    def set_partial_image(self, event: Fields) -> None:
        """Take an image in the making; each is better than the one before."""
        self.fields["result"] = event.get("partial_image_b64")
        self.fields.update(lenient_json.named_metadata(event, OF_IMAGE))

    def item_document(self) -> Fields:
        """The item, whole or as far as it came."""
        grown = self._with_list_texts() | self._with_field_texts()
        whole = self.fields if "done" in self.progress_steps else {}
        fields = {
            **self.fields,
            **{name: value for name, value in grown.items() if not whole.get(name)},
        }
        fields.setdefault("type", self._kind)
        return fields

    def _with_field_texts(self) -> dict[str, Json]:
        texts: dict[DeltaTarget, list[Json]] = {}
        for (place, _), pieces in sorted(
            self._text_pieces.items(), key=lambda values: values[0][1]
        ):
            if not place.entry_type:
                texts.setdefault(place, []).append(lenient_json.join_pieces(pieces))
        grown: dict[str, Json] = {}
        for place, items in texts.items():
            value = items if place.index else items[0]
            fields = lenient_json.object_fields(self.fields.get(place.parent_field))
            holder: Json = {**fields, place.field: value}
            grown[place.parent_field or place.field] = holder if place.parent_field else value
        return grown

    def _with_list_texts(self) -> dict[str, Json]:
        entries: dict[tuple[str, int], dict[str, Json]] = {}
        for (place, index), pieces in self._text_pieces.items():
            if place.entry_type:
                entry = entries.setdefault((place.parent_field, index), {})
                entry.update(
                    {"type": place.entry_type, place.field: lenient_json.join_pieces(pieces)}
                )
        for index, cited in self._annotations.items():
            entries.setdefault(("content", index), {})["annotations"] = cited
        lists: dict[str, list[Json]] = {}
        for (within, _), entry in sorted(entries.items(), key=lambda values: values[0]):
            lists.setdefault(within, []).append(entry)
        return {**lists}
