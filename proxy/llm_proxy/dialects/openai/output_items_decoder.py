"""The output items of a streamed response, put together from its events.

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
class Place:
    """Where in an item a delta belongs."""

    item: str
    """The type of the item."""
    field: str
    within: str = ""
    """The list or object of the item that holds the field; empty where the item does."""
    index: str = ""
    """The event's field that counts the entries of that list."""
    entry: str = ""
    """The type of such an entry; empty where the entries are the texts themselves."""


PLACES: Final = {
    "response.output_text": Place("message", "text", "content", "content_index", "output_text"),
    "response.refusal": Place("message", "refusal", "content", "content_index", "refusal"),
    "response.reasoning_text": Place(
        "reasoning", "text", "content", "content_index", "reasoning_text"
    ),
    "response.reasoning_summary_text": Place(
        "reasoning", "text", "summary", "summary_index", "summary_text"
    ),
    "response.function_call_arguments": Place("function_call", "arguments"),
    "response.custom_tool_call_input": Place("custom_tool_call", "input"),
    "response.mcp_call_arguments": Place("mcp_call", "arguments"),
    "response.code_interpreter_call_code": Place("code_interpreter_call", "code"),
    "response.shell_call_command": Place("shell_call", "commands", "action", "command_index"),
    "response.apply_patch_call_operation_diff": Place("apply_patch_call", "diff", "operation"),
}
"""What grows by deltas: `.delta` brings a piece, `.done` the whole."""

WHOLE: Final = {"response.shell_call_command": "command"}
"""Where the field that brings the whole is not named as in the item."""


class Items:
    """The items of one stream, as its events come; time is linear in what it is given."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._open: dict[Hashable, _Item] = {}
        """The item begun last at each index of the output."""

    def take(self, kind: str, event: Fields) -> None:
        """Read one event of that type; those about the progress of a tool say nothing new."""
        stem, _, step = kind.rpartition(".")
        if stem == "response.output_item":
            self._whole(event, lenient_json.fields(event.get("item")), step)
        elif place := PLACES.get(stem):
            whole = event.get(WHOLE.get(stem, place.field)) if step == "done" else None
            item = self._at(event, place.item)
            item.say(place, event, whole or event.get("delta"), anew=whole is not None)
        elif kind == "response.output_text.annotation.added":
            self._at(event, "message").cite(event)
        elif kind == "response.image_generation_call.partial_image":
            self._at(event, "image_generation_call").draw(event)
        elif kind == "response.shell_call_output_content.done":
            self._at(event, "shell_call_output").fields["output"] = event.get("output")

    def documents(self) -> list[Fields]:
        """The items as they stand."""
        return [item.document() for item in self._items]

    def _whole(self, event: Fields, fields: Fields, step: str) -> None:
        """An item that begins or ends; servers that count badly begin several at one index."""
        item = self._at(event, lenient_json.text(fields.get("type")))
        if step in item.steps or "done" in item.steps:
            item = self._begin(event, "")
        item.steps.add(step)
        item.fields.update(fields)

    def _at(self, event: Fields, kind: str) -> _Item:
        """The item that an event is about; a new one, where the stream was joined midway."""
        key = _key(event)
        return self._open[key] if key in self._open else self._begin(event, kind)

    def _begin(self, event: Fields, kind: str) -> _Item:
        item = self._open[_key(event)] = _Item(kind)
        self._items.append(item)
        return item


def _key(event: Fields) -> Hashable:
    index = lenient_json.count(event.get("output_index"))
    return lenient_json.words(event.get("item_id")) if index is None else index


class _Item:
    """One item, as its events come."""

    def __init__(self, kind: str) -> None:
        self.fields: dict[str, Json] = {}
        self._kind = kind
        """Its type, as far as its events tell; the item itself knows better."""
        self.steps: set[str] = set()
        """Which tellings of the whole item there were."""
        self._said: dict[tuple[Place, int], list[str]] = {}
        self._cited: dict[int, list[Json]] = {}

    def say(self, place: Place, event: Fields, piece: Json, *, anew: bool = False) -> None:
        """Take a piece of a text; `anew` where it is all of the text."""
        if said := lenient_json.text(piece):
            pieces = self._said.setdefault(
                (place, lenient_json.count(event.get(place.index)) or 0), []
            )
            if anew:
                pieces.clear()
            pieces.append(said)

    def cite(self, event: Fields) -> None:
        """Take an annotation of a text."""
        index = lenient_json.count(event.get("content_index")) or 0
        self._cited.setdefault(index, []).append(event.get("annotation"))

    def draw(self, event: Fields) -> None:
        """Take an image in the making; each is better than the one before."""
        self.fields["result"] = event.get("partial_image_b64")
        self.fields.update(lenient_json.metadata(event, OF_IMAGE))

    def document(self) -> Fields:
        """The item, whole or as far as it came."""
        grown = self._lists() | self._texts()
        whole = self.fields if "done" in self.steps else {}
        told = {**self.fields, **{name: it for name, it in grown.items() if not whole.get(name)}}
        told.setdefault("type", self._kind)
        return told

    def _texts(self) -> dict[str, Json]:
        """The texts that are fields of the item, or of an object in it."""
        texts: dict[Place, list[Json]] = {}
        for (place, _), pieces in sorted(self._said.items(), key=lambda it: it[0][1]):
            if not place.entry:
                texts.setdefault(place, []).append(lenient_json.joined(pieces))
        grown: dict[str, Json] = {}
        for place, each in texts.items():
            said = each if place.index else each[0]
            beside = lenient_json.fields(self.fields.get(place.within))
            holder: Json = {**beside, place.field: said}
            grown[place.within or place.field] = holder if place.within else said
        return grown

    def _lists(self) -> dict[str, Json]:
        """The texts that are entries of a list, and what they cite."""
        entries: dict[tuple[str, int], dict[str, Json]] = {}
        for (place, index), pieces in self._said.items():
            if place.entry:
                entry = entries.setdefault((place.within, index), {})
                entry.update({"type": place.entry, place.field: lenient_json.joined(pieces)})
        for index, cited in self._cited.items():
            entries.setdefault(("content", index), {})["annotations"] = cited
        lists: dict[str, list[Json]] = {}
        for (within, _), entry in sorted(entries.items(), key=lambda it: it[0]):
            lists.setdefault(within, []).append(entry)
        return {**lists}
