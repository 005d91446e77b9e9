"""Encodes one output item of the Responses API as events.

    added ( progress | part added | delta+ | annotation* | done | part done )* progress done

What begins empty grows by deltas, at the places that `output_deltas` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.openai.output_item_decoder import ANSWERED, OF_IMAGE
from llm_proxy.dialects.openai.output_items_assembler import PLACES, WHOLE, DeltaTarget
from llm_proxy.dialects.response_encoding import Document

Event = tuple[str, Document]
"""The type of an event, and its fields beside the type and the numbers."""

_PROGRESS: Final = {
    "web_search_call": (("in_progress", "searching"), ("completed",)),
    "file_search_call": (("in_progress", "searching"), ("completed",)),
    "code_interpreter_call": (("in_progress",), ("interpreting", "completed")),
    "image_generation_call": (("in_progress", "generating"), ("completed",)),
    "mcp_call": (("in_progress",), ("completed",)),
    "mcp_list_tools": (("in_progress",), ("completed",)),
}
"""What is told of a tool before and behind what it is asked."""
_FAILS: Final = ("mcp_call", "mcp_list_tools")
"""Tools of which it is told that they failed."""

_GROWN: Final = frozenset(
    delta_target.field for delta_target in PLACES.values() if not delta_target.entry_type
)
_LISTED: Final = ("content", "summary", "queries", *ANSWERED)
_DRAWN: Final = ("result", "prompt", "revised_prompt", *OF_IMAGE)

_PART: Final = "response.content_part"
_SUMMARY: Final = "response.reasoning_summary_part"
_OUTPUT: Final = "response.shell_call_output_content"
_IMAGE: Final = "response.image_generation_call"

_STEMS: Final = {place.entry_type: stem for stem, place in PLACES.items() if place.entry_type}
"""The events of each type of text."""


@dataclass(frozen=True, slots=True)
class OutputItemEncoder:
    """Tells items."""

    cut: Callable[[str], Iterable[str]]
    partial_images: int
    """How many images in the making are told before one that is drawn."""

    def encode_events(self, item: Document, *, closed: bool = True) -> Iterator[Event]:
        """The events of an item; one that is not `closed` breaks off."""
        for kind, fields in self._encode_item_events(item):
            if closed or not kind.endswith((".done", ".completed")):
                yield kind, fields

    def _encode_item_events(self, item: Document) -> Iterator[Event]:
        kind = item["type"]
        fields = {"item_id": item["id"]}
        before, behind = _PROGRESS.get(kind, ((), ()))
        if _has_failed(item):
            last = ("failed",) if kind in _FAILS else ()
            behind = (*(value for value in behind if value != "completed"), *last)
        yield "response.output_item.added", {"item": _initial_item(item)}
        yield from ((f"response.{kind}.{step}", fields) for step in before)
        yield from self._encode_body_events(item, fields)
        yield from ((f"response.{kind}.{step}", fields) for step in behind)
        yield "response.output_item.done", {"item": item}

    def _encode_body_events(self, item: Document, document: Document) -> Iterator[Event]:
        match item["type"]:
            case "message" | "reasoning":
                for at, block in enumerate(item.get("summary", ())):
                    yield from self._encode_block_events(
                        _SUMMARY, block, {**document, "summary_index": at}
                    )
                for at, block in enumerate(item.get("content", ())):
                    yield from self._encode_block_events(
                        _PART, block, {**document, "content_index": at}
                    )
            case "image_generation_call":
                yield from self._encode_partial_images(item, document)
            case "shell_call_output":
                yield from _shell_outputs(item, document)
            case kind:
                for stem, place in PLACES.items():
                    if place.item == kind:
                        yield from self._encode_field_events(stem, place, item, document)

    def _encode_block_events(self, stem: str, block: Document, where: Document) -> Iterator[Event]:
        text = _STEMS[block["type"]]
        field = PLACES[text].field
        empty = {name: [] if isinstance(value, list) else "" for name, value in block.items()}
        yield f"{stem}.added", {**where, "part": {**empty, "type": block["type"]}}
        token_logprobs = block.get("logprobs")
        for piece, entries in self._split_text(block[field], token_logprobs):
            fields = {} if token_logprobs is None else {"logprobs": entries}
            yield f"{text}.delta", {**where, "delta": piece, **fields}
        for at, cited in enumerate(block.get("annotations", ())):
            numbered = {**where, "annotation_index": at, "annotation": cited}
            yield f"{text}.annotation.added", numbered
        fields = {} if token_logprobs is None else {"logprobs": token_logprobs}
        yield f"{text}.done", {**where, field: block[field], **fields}
        yield f"{stem}.done", {**where, "part": block}

    def _split_text(
        self, text: str, token_logprobs: list[Document] | None
    ) -> Iterator[tuple[str, list[Document]]]:
        """The pieces of a text: its tokens, where it is known what they are."""
        tokens = [
            lenient_json.str_or_empty(document.get("token")) for document in token_logprobs or ()
        ]
        if token_logprobs and all(tokens) and "".join(tokens) == text:
            yield from (
                (token, [entry]) for token, entry in zip(tokens, token_logprobs, strict=True)
            )
            return
        for at, piece in enumerate(self.cut(text)):
            yield piece, (token_logprobs or []) if at == 0 else []

    def _encode_field_events(
        self, stem: str, place: DeltaTarget, item: Document, document: Document
    ) -> Iterator[Event]:
        """A text that is a field of the item, or of an object in it; or several."""
        holder = (
            lenient_json.object_fields(item.get(place.parent_field)) if place.parent_field else item
        )
        value = holder.get(place.field)
        if not place.index:
            if isinstance(value, str):
                named = {"name": item["name"]} if "name" in item else {}
                yield from self._encode_growing_text(stem, place.field, value, document, named)
            return
        for at, text in enumerate(lenient_json.array_items(value)):
            where: Document = {place.index: at}
            whole = WHOLE[stem]
            yield f"{stem}.added", {**where, whole: ""}
            yield from self._encode_growing_text(
                stem, whole, lenient_json.str_or_empty(text), where, {}
            )

    def _encode_growing_text(
        self, stem: str, field: str, text: str, where: Document, named: Document
    ) -> Iterator[Event]:
        for piece in self.cut(text):
            yield f"{stem}.delta", {**where, "delta": piece}
        yield f"{stem}.done", {**where, **named, field: text}

    def _encode_partial_images(self, item: Document, document: Document) -> Iterator[Event]:
        if drawn := item.get("result"):
            how: Document = {name: item[name] for name in OF_IMAGE if name in item}
            for at in range(self.partial_images):
                shown = {"partial_image_index": at, "partial_image_b64": drawn}
                yield f"{_IMAGE}.partial_image", {**document, **shown, **how}


def _shell_outputs(item: Document, document: Document) -> Iterator[Event]:
    for at, gave in enumerate(lenient_json.object_items(item.get("output"))):
        where = {**document, "command_index": at}
        fields = {name: gave[name] for name in ("stdout", "stderr") if gave.get(name)}
        yield f"{_OUTPUT}.delta", {**where, "delta": fields}
    yield f"{_OUTPUT}.done", {**document, "command_index": 0, "output": item.get("output")}


def _has_failed(item: Document) -> bool:
    return item.get("status") == "failed" or bool(item.get("error"))


def _initial_item(item: Document) -> Document:
    """An item as it begins: nothing is said in it yet."""
    begun = {name: _empty_field(name, value) for name, value in item.items() if name not in _DRAWN}
    if "status" in item:
        begun["status"] = "in_progress"
    return begun


def _empty_field(name: str, value: object) -> object:
    match value:
        case str() if name in _GROWN:
            return ""
        case list() if name in _LISTED:
            return []
        case str() if name in ANSWERED:
            return None
        case dict() if name in ANSWERED:
            return None
        case dict():
            return {
                key: [] if isinstance(content, list) else content for key, content in value.items()
            }
        case _:
            return value
