"""The events of an output item of the Responses API: assembles items from them, and encodes them.

    added ( progress | part added | delta+ | annotation* | done | part done )* progress done

An item is sent up to three times: in deltas, whole when it is done, and again in the response that
ends the stream.  Later copies take precedence, so deltas count only where the stream broke off (or
was joined midway, by `starting_after`), and are assembled into an item of the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects.json_api import is_client_call
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_items,
    array_objects,
    get_integer,
    get_object,
    get_string,
    get_text,
    join_pieces,
    select_metadata,
    str_or_empty,
)
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.output_items import IMAGE_CALL, IMAGE_FIELDS, RESULT_FIELDS
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, Part, Reasoning, Refusal, Text

TypedEvent = tuple[str, Document]
"""The type of an event, and its fields without the type, index and sequence number."""


@dataclass(frozen=True, slots=True)
class _DeltaTarget:
    """The field of an item that a delta extends."""

    item_type: str
    field: str
    parent_field: str = ""
    """The list or object of the item that holds the field; empty where the item does."""
    index_field: str = ""
    """The event's field that holds the index in that list; empty where there is no list."""
    entry_type: str = ""
    """The type of the list's entries; empty where they are strings."""
    done_field: str = ""
    """The field of `.done` that holds the whole value, where not named as in the item."""


_TARGETS: Final = {
    "response.output_text": _DeltaTarget(
        "message", "text", "content", "content_index", "output_text"
    ),
    "response.refusal": _DeltaTarget("message", "refusal", "content", "content_index", "refusal"),
    "response.reasoning_text": _DeltaTarget(
        "reasoning", "text", "content", "content_index", output_items.REASONING_TEXT
    ),
    "response.reasoning_summary_text": _DeltaTarget(
        "reasoning", "text", "summary", "summary_index", output_items.SUMMARY
    ),
    "response.function_call_arguments": _DeltaTarget("function_call", "arguments"),
    "response.custom_tool_call_input": _DeltaTarget("custom_tool_call", "input"),
    "response.mcp_call_arguments": _DeltaTarget("mcp_call", "arguments"),
    "response.code_interpreter_call_code": _DeltaTarget("code_interpreter_call", "code"),
    "response.shell_call_command": _DeltaTarget(
        "shell_call", "commands", "action", "command_index", done_field="command"
    ),
    "response.apply_patch_call_operation_diff": _DeltaTarget(
        "apply_patch_call", "diff", "operation"
    ),
}
"""The target by event type without `.delta` (which holds a piece) or `.done` (the whole)."""

_DELTA_FIELDS: Final = frozenset(
    target.field for target in _TARGETS.values() if not target.entry_type
)
_TEXT_EVENT_BY_BLOCK_TYPE: Final = {
    target.entry_type: stem for stem, target in _TARGETS.items() if target.entry_type
}
_PART_EVENTS: Final = {
    "summary": ("response.reasoning_summary_part", "summary_index"),
    "content": ("response.content_part", "content_index"),
}
"""The event type without its last segment, and the index field, by the list of text blocks."""

_ITEM_EVENT: Final = "response.output_item"
_ITEM_DONE_EVENT: Final = f"{_ITEM_EVENT}.done"
_ANNOTATION_EVENT: Final = "response.output_text.annotation.added"
_PARTIAL_IMAGE_EVENT: Final = f"response.{IMAGE_CALL}.partial_image"
_SHELL_OUTPUT_EVENT: Final = "response.shell_call_output_content"

_LIST_FIELDS: Final = ("content", "summary", "queries", *RESULT_FIELDS)
_LATE_IMAGE_FIELDS: Final = ("result", "prompt", "revised_prompt", *IMAGE_FIELDS)


_READABLE_DELTAS: Final = {
    "response.output_text.delta": Text,
    "response.refusal.delta": Refusal,
    "response.reasoning_text.delta": Reasoning,
    "response.reasoning_summary_text.delta": Reasoning,
}
"""The kind of part whose text each delta extends."""


def readable_pieces(event_type: str, event: Fields) -> list[Part]:
    """The piece of text in a delta, or the client's call in the event that completes its item."""
    if part_type := _READABLE_DELTAS.get(event_type):
        return [part_type(piece)] if (piece := get_string(event, "delta")) else []
    if event_type == _ITEM_DONE_EVENT:
        return [*filter(is_client_call, output_items.decode_item(get_object(event, "item")))]
    return []


class OutputItemsAssembler:
    """Assembles the items of one stream from its events, in linear time."""

    def __init__(self) -> None:
        self._items: list[_ItemAssembler] = []
        self._latest_item_by_key: dict[Hashable, _ItemAssembler] = {}
        """The latest item at each output index, or by ID where events have no index."""

    def feed(self, event_type: str, event: Fields) -> None:
        """Apply one event; progress events of tools are ignored."""
        stem, _, step = event_type.rpartition(".")
        if stem == _ITEM_EVENT:
            fields = get_object(event, "item")
            item = self._item_of_event(event, get_string(fields, "type"))
            if step in item.received_snapshots or "done" in item.received_snapshots:
                item = self._begin_item(event, "")  # some servers reuse an index
            item.received_snapshots.add(step)
            item.fields.update(fields)
        elif target := _TARGETS.get(stem):
            self._item_of_event(event, target.item_type).add_text(target, event, step)
        elif event_type == _ANNOTATION_EVENT:
            index = get_integer(event, "content_index") or 0
            item = self._item_of_event(event, "message")
            item.annotations.setdefault(index, []).append(event.get("annotation"))
        elif event_type == _PARTIAL_IMAGE_EVENT:
            fields = self._item_of_event(event, IMAGE_CALL).fields
            fields["result"] = event.get("partial_image_b64")
            fields.update(select_metadata(event, IMAGE_FIELDS))
        elif event_type == f"{_SHELL_OUTPUT_EVENT}.done":
            item = self._item_of_event(event, "shell_call_output")
            item.fields["output"] = event.get("output")

    def assembled_items(self) -> list[Fields]:
        """The items so far, in output order."""
        return [item.assembled_item() for item in self._items]

    def _item_of_event(self, event: Fields, kind: str) -> _ItemAssembler:
        """The item of an event; a new one where the stream was joined midway."""
        return self._latest_item_by_key.get(_item_key(event)) or self._begin_item(event, kind)

    def _begin_item(self, event: Fields, kind: str) -> _ItemAssembler:
        item = self._latest_item_by_key[_item_key(event)] = _ItemAssembler(kind)
        self._items.append(item)
        return item


def _item_key(event: Fields) -> Hashable:
    index = get_integer(event, "output_index")
    return get_text(event, "item_id") if index is None else index


class _ItemAssembler:
    """Assembles one item from its events."""

    def __init__(self, item_type: str) -> None:
        self.fields: dict[str, Json] = {}
        self.received_snapshots: set[str] = set()
        """The events received that hold the whole item: `added`, `done`."""
        self.annotations: dict[int, list[Json]] = {}
        """The annotations of each block."""
        self._item_type = item_type
        """The item type according to its delta events; the item's own `type` takes precedence."""
        self._texts: dict[tuple[_DeltaTarget, int], list[str]] = {}
        """The pieces of each text."""

    def add_text(self, target: _DeltaTarget, event: Fields, step: str) -> None:
        """Append the piece of a text in a delta; `.done` replaces the text."""
        whole = event.get(target.done_field or target.field) if step == "done" else None
        if piece := str_or_empty(whole or event.get("delta")):
            index = get_integer(event, target.index_field) or 0
            pieces = self._texts.setdefault((target, index), [])
            if whole is not None:
                pieces.clear()
            pieces.append(piece)

    def assembled_item(self) -> Fields:
        """The item so far; fields of the `done` event take precedence over deltas."""
        blocks: dict[tuple[str, int], dict[str, Json]] = {}
        strings: dict[_DeltaTarget, list[Json]] = {}
        for (target, index), pieces in sorted(self._texts.items(), key=lambda entry: entry[0][1]):
            text = join_pieces(pieces)
            if target.entry_type:
                block = blocks.setdefault((target.parent_field, index), {})
                block.update({"type": target.entry_type, target.field: text})
            else:
                strings.setdefault(target, []).append(text)
        for index, entries in self.annotations.items():
            blocks.setdefault(("content", index), {})["annotations"] = [*entries]
        lists: dict[str, list[Json]] = {}
        for name, index in sorted(blocks):
            lists.setdefault(name, []).append(blocks[name, index])
        assembled: dict[str, Json] = {**lists}
        for target, texts in strings.items():
            value: Json = texts if target.index_field else texts[0]
            if target.parent_field:
                parent = get_object(self.fields, target.parent_field)
                assembled[target.parent_field] = {**parent, target.field: value}
            else:
                assembled[target.field] = value
        final = self.fields if "done" in self.received_snapshots else {}
        item = self.fields | {name: assembled[name] for name in assembled if not final.get(name)}
        item.setdefault("type", self._item_type)
        return item


def encode_item_events(
    item: Document,
    split_text: Callable[[str], Iterable[str]],
    partial_image_count: int,
    *,
    is_complete: bool,
) -> Iterator[TypedEvent]:
    """The events of an item; if it is not complete, those that end it are left out.

    `partial_image_count` is how many partial images precede an image.
    """
    location: Document = {"item_id": item["id"]}
    steps_before, steps_after = output_items.progress_steps(item)
    prefix = f"response.{item['type']}"
    events: Iterable[TypedEvent] = (
        (f"{_ITEM_EVENT}.added", {"item": _initial_item(item)}),
        *((f"{prefix}.{step}", location) for step in steps_before),
        *_encode_content(item, location, split_text, partial_image_count),
        *((f"{prefix}.{step}", location) for step in steps_after),
        (f"{_ITEM_EVENT}.done", {"item": item}),
    )
    for kind, fields in events:
        if is_complete or not kind.endswith((".done", ".completed")):
            yield kind, fields


def _encode_content(
    item: Document,
    location: Document,
    split_text: Callable[[str], Iterable[str]],
    partial_image_count: int,
) -> Iterator[TypedEvent]:
    match item["type"]:
        case "message" | "reasoning":
            for name, (part_event, index_field) in _PART_EVENTS.items():
                for at, block in enumerate(item.get(name, ())):
                    block_location = {**location, index_field: at}
                    yield f"{part_event}.added", {**block_location, "part": _initial_block(block)}
                    yield from _encode_block(block, block_location, split_text)
                    yield f"{part_event}.done", {**block_location, "part": block}
        case kind if kind == IMAGE_CALL:
            if image_base64 := item.get("result"):
                fields: Document = {name: item[name] for name in IMAGE_FIELDS if name in item}
                for at in range(partial_image_count):
                    image = {"partial_image_index": at, "partial_image_b64": image_base64}
                    yield _PARTIAL_IMAGE_EVENT, {**location, **image, **fields}
        case "shell_call_output":
            output = item.get("output")
            for at, entry in enumerate(array_objects(output)):
                delta = {name: entry[name] for name in ("stdout", "stderr") if entry.get(name)}
                fields = {**location, "command_index": at, "delta": delta}
                yield f"{_SHELL_OUTPUT_EVENT}.delta", fields
            fields = {**location, "command_index": 0, "output": output}
            yield f"{_SHELL_OUTPUT_EVENT}.done", fields
        case kind:
            for stem, target in _TARGETS.items():
                if target.item_type == kind:
                    yield from _encode_field(stem, target, item, location, split_text)


def _encode_block(
    block: Document, location: Document, split_text: Callable[[str], Iterable[str]]
) -> Iterator[TypedEvent]:
    """The events of a text block.

    Log probabilities come with their tokens if these are the text; else all with the first piece.
    """
    text_event = _TEXT_EVENT_BY_BLOCK_TYPE[block["type"]]
    field = _TARGETS[text_event].field
    text, logprobs = block[field], block.get("logprobs")
    tokens = [get_string(entry, "token") for entry in logprobs or ()]
    if all(tokens) and "".join(tokens) == text:
        deltas = [(token, [entry]) for token, entry in zip(tokens, logprobs or (), strict=True)]
    else:
        deltas = [
            (piece, [] if at else logprobs or []) for at, piece in enumerate(split_text(text))
        ]
    for piece, entries in deltas:
        fields = {} if logprobs is None else {"logprobs": entries}
        yield f"{text_event}.delta", {**location, "delta": piece, **fields}
    for at, annotation in enumerate(block.get("annotations", ())):
        yield _ANNOTATION_EVENT, {**location, "annotation_index": at, "annotation": annotation}
    fields = {} if logprobs is None else {"logprobs": logprobs}
    yield f"{text_event}.done", {**location, field: text, **fields}


def _encode_field(
    text_event: str,
    target: _DeltaTarget,
    item: Document,
    location: Document,
    split_text: Callable[[str], Iterable[str]],
) -> Iterator[TypedEvent]:
    """The events of a text field (or list of texts) of the item or of an object in it."""
    parent = get_object(item, target.parent_field) if target.parent_field else item
    value = parent.get(target.field)
    texts = array_items(value) if target.index_field else [value] if isinstance(value, str) else []
    name = {"name": item["name"]} if "name" in item and not target.index_field else {}
    for at, text in enumerate(map(str_or_empty, texts)):
        if target.index_field:
            location = {target.index_field: at}
            yield f"{text_event}.added", {**location, target.done_field: ""}
        for piece in split_text(text):
            yield f"{text_event}.delta", {**location, "delta": piece}
        yield f"{text_event}.done", {**location, **name, target.done_field or target.field: text}


def _initial_block(block: Document) -> Document:
    empty = {name: [] if isinstance(value, list) else "" for name, value in block.items()}
    return {**empty, "type": block["type"]}


def _initial_item(item: Document) -> Document:
    """An item as `output_item.added` holds it: in progress, its delta fields empty."""
    initial = {
        name: _initial_field_value(name, value)
        for name, value in item.items()
        if name not in _LATE_IMAGE_FIELDS
    }
    return {**initial, "status": "in_progress"} if "status" in item else initial


def _initial_field_value(name: str, value: object) -> object:
    match value:
        case str() if name in _DELTA_FIELDS:
            return ""
        case list() if name in _LIST_FIELDS:
            return []
        case str() | dict() if name in RESULT_FIELDS:
            return None
        case dict():
            return {
                key: [] if isinstance(content, list) else content for key, content in value.items()
            }
        case _:
            return value
