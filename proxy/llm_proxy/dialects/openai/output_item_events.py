"""The events that tell one output item of OpenAI's Responses.

    added ( progress | part added | delta+ | annotation* | done | part done )* progress done

What begins empty grows by deltas, at the places that `output_deltas` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.openai.output_item_decoder import ANSWERED, OF_IMAGE
from llm_proxy.dialects.openai.output_items_decoder import PLACES, WHOLE, Place
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

_GROWN: Final = frozenset(it.field for it in PLACES.values() if not it.entry)
_LISTED: Final = ("content", "summary", "queries", *ANSWERED)
_DRAWN: Final = ("result", "prompt", "revised_prompt", *OF_IMAGE)

_PART: Final = "response.content_part"
_SUMMARY: Final = "response.reasoning_summary_part"
_OUTPUT: Final = "response.shell_call_output_content"
_IMAGE: Final = "response.image_generation_call"

_STEMS: Final = {place.entry: stem for stem, place in PLACES.items() if place.entry}
"""The events of each type of text."""


@dataclass(frozen=True, slots=True)
class ItemSpeech:
    """Tells items."""

    cut: Callable[[str], Iterable[str]]
    partial_images: int
    """How many images in the making are told before one that is drawn."""

    def events(self, item: Document, *, closed: bool = True) -> Iterator[Event]:
        """The events of an item; one that is not `closed` breaks off."""
        for kind, fields in self._events(item):
            if closed or not kind.endswith((".done", ".completed")):
                yield kind, fields

    def _events(self, item: Document) -> Iterator[Event]:
        kind = item["type"]
        about = {"item_id": item["id"]}
        before, behind = _PROGRESS.get(kind, ((), ()))
        if _failed(item):
            last = ("failed",) if kind in _FAILS else ()
            behind = (*(it for it in behind if it != "completed"), *last)
        yield "response.output_item.added", {"item": _begun(item)}
        yield from ((f"response.{kind}.{step}", about) for step in before)
        yield from self._body(item, about)
        yield from ((f"response.{kind}.{step}", about) for step in behind)
        yield "response.output_item.done", {"item": item}

    def _body(self, item: Document, about: Document) -> Iterator[Event]:
        """What grows in an item."""
        match item["type"]:
            case "message" | "reasoning":
                for at, block in enumerate(item.get("summary", ())):
                    yield from self._block(_SUMMARY, block, {**about, "summary_index": at})
                for at, block in enumerate(item.get("content", ())):
                    yield from self._block(_PART, block, {**about, "content_index": at})
            case "image_generation_call":
                yield from self._images(item, about)
            case "shell_call_output":
                yield from _outputs(item, about)
            case kind:
                for stem, place in PLACES.items():
                    if place.item == kind:
                        yield from self._fields(stem, place, item, about)

    def _block(self, stem: str, block: Document, where: Document) -> Iterator[Event]:
        """A text in a list of texts."""
        text = _STEMS[block["type"]]
        field = PLACES[text].field
        empty = {name: [] if isinstance(it, list) else "" for name, it in block.items()}
        yield f"{stem}.added", {**where, "part": {**empty, "type": block["type"]}}
        likely = block.get("logprobs")
        for piece, entries in self._pieces(block[field], likely):
            beside = {} if likely is None else {"logprobs": entries}
            yield f"{text}.delta", {**where, "delta": piece, **beside}
        for at, cited in enumerate(block.get("annotations", ())):
            numbered = {**where, "annotation_index": at, "annotation": cited}
            yield f"{text}.annotation.added", numbered
        beside = {} if likely is None else {"logprobs": likely}
        yield f"{text}.done", {**where, field: block[field], **beside}
        yield f"{stem}.done", {**where, "part": block}

    def _pieces(
        self, text: str, likely: list[Document] | None
    ) -> Iterator[tuple[str, list[Document]]]:
        """The pieces of a text: its tokens, where it is known what they are."""
        tokens = [lenient_json.text(it.get("token")) for it in likely or ()]
        if likely and all(tokens) and "".join(tokens) == text:
            yield from ((token, [entry]) for token, entry in zip(tokens, likely, strict=True))
            return
        for at, piece in enumerate(self.cut(text)):
            yield piece, (likely or []) if at == 0 else []

    def _fields(self, stem: str, place: Place, item: Document, about: Document) -> Iterator[Event]:
        """A text that is a field of the item, or of an object in it; or several."""
        holder = lenient_json.fields(item.get(place.within)) if place.within else item
        said = holder.get(place.field)
        if not place.index:
            if isinstance(said, str):
                named = {"name": item["name"]} if "name" in item else {}
                yield from self._growing(stem, place.field, said, about, named)
            return
        for at, text in enumerate(lenient_json.array(said)):
            where: Document = {place.index: at}
            whole = WHOLE[stem]
            yield f"{stem}.added", {**where, whole: ""}
            yield from self._growing(stem, whole, lenient_json.text(text), where, {})

    def _growing(
        self, stem: str, field: str, text: str, where: Document, named: Document
    ) -> Iterator[Event]:
        for piece in self.cut(text):
            yield f"{stem}.delta", {**where, "delta": piece}
        yield f"{stem}.done", {**where, **named, field: text}

    def _images(self, item: Document, about: Document) -> Iterator[Event]:
        """An image in the making, which is the one that is drawn."""
        if drawn := item.get("result"):
            how: Document = {name: item[name] for name in OF_IMAGE if name in item}
            for at in range(self.partial_images):
                shown = {"partial_image_index": at, "partial_image_b64": drawn}
                yield f"{_IMAGE}.partial_image", {**about, **shown, **how}


def _outputs(item: Document, about: Document) -> Iterator[Event]:
    """What the commands of a shell gave."""
    for at, gave in enumerate(lenient_json.objects(item.get("output"))):
        where = {**about, "command_index": at}
        said = {name: gave[name] for name in ("stdout", "stderr") if gave.get(name)}
        yield f"{_OUTPUT}.delta", {**where, "delta": said}
    yield f"{_OUTPUT}.done", {**about, "command_index": 0, "output": item.get("output")}


def _failed(item: Document) -> bool:
    return item.get("status") == "failed" or bool(item.get("error"))


def _begun(item: Document) -> Document:
    """An item as it begins: nothing is said in it yet."""
    begun = {name: _empty(name, it) for name, it in item.items() if name not in _DRAWN}
    if "status" in item:
        begun["status"] = "in_progress"
    return begun


def _empty(name: str, value: object) -> object:
    """A field of an item that begins."""
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
            return {key: [] if isinstance(it, list) else it for key, it in value.items()}
        case _:
            return value
