"""One step of an interaction with Gemini, whole or growing."""

from __future__ import annotations

from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.google.citations import Cited, cite
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

MEDIA: Final = ("image", "audio", "video", "document")
OF_CALL: Final = ("server_name", "signature", "search_type", "retrieval_type")
OF_MEDIA: Final = ("resolution", "sample_rate", "channels")
_OF_CITATION: Final = (
    *("type", "url", "document_uri", "title", "file_name", "name", "source"),
    *("start_index", "end_index"),
)
_DEPTH: Final = 2
"""Steps hold contents, and thoughts hold contents; nothing holds more."""


class Step:
    """The parts of one step: the step itself, its contents, and its deltas are told alike."""

    def __init__(self) -> None:
        self._fragments = Fragments()
        self._cited: list[Cited] = []
        self._calls = False
        self._arguments: Json = None
        """Arguments as a whole, which deltas replace."""
        self._spelled: list[str] = []
        """Arguments as JSON text, in pieces."""

    def take(self, said: Fields, depth: int = 0) -> None:
        """Read a step, one of its contents or a delta; unknown ones are left out."""
        match lenient_json.text(said.get("type")):
            case "text" | "text_annotation_delta" | "text_annotation":
                self._say(said)
            case "thought" | "thought_summary" | "thought_signature":
                self._think(said)
            case "model_output" if depth < _DEPTH:
                for content in lenient_json.objects(said.get("content")):
                    self.take(content, depth + 1)
            case "arguments_delta":
                self._spelled.append(lenient_json.text(said.get("arguments")))
            case kind:
                self._act(kind, said)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        if self._calls:
            whole = lenient_json.joined(self._spelled) or lenient_json.compact(
                self._arguments or {}
            )
            self._fragments.add(ToolCall("", "", whole))
            self._calls = False
        return cite(self._fragments.parts(), self._cited)

    def _say(self, said: Fields) -> None:
        """Text, and what it rests on, which comes after it."""
        if text := lenient_json.text(said.get("text")):
            self._fragments.add(Text(text))
        self._cited += map(_citation, lenient_json.objects(said.get("annotations")))

    def _think(self, said: Fields) -> None:
        """A seal, and a summary where one was asked for: whole, or a content at a time."""
        contents = [said.get("content"), *lenient_json.array(said.get("summary"))]
        readable = (lenient_json.text(lenient_json.fields(it).get("text")) for it in contents)
        signature = lenient_json.text(said.get("signature"))
        for text in filter(None, readable):
            self._fragments.add(Reasoning(text))
        if signature:
            self._fragments.add(Reasoning("", signature))

    def _act(self, kind: str, said: Fields) -> None:
        """What is neither text nor thought."""
        if kind in MEDIA:
            media = _media(kind, said)
            self._fragments.add(media, "audio" if kind == "audio" and not media.url else None)
        elif kind.endswith("_call"):
            self._call(kind, said)
        elif kind.endswith("_result"):
            self._fragments.add(_result(kind, said))

    def _call(self, kind: str, said: Fields) -> None:
        """A call of the client's tool, or of one that Google runs."""
        arguments = said.get("arguments")
        if isinstance(arguments, str):
            self._spelled.append(arguments)
        else:
            self._arguments = arguments or self._arguments
        self._calls = True
        name = lenient_json.words(said.get("name")) or kind.removesuffix("_call")
        own: Metadata = () if kind == "function_call" else (("type", kind),)
        beside = lenient_json.metadata(said, OF_CALL)
        call = ToolCall(lenient_json.words(said.get("id")), name, "", (*own, *beside))
        self._fragments.add(call)


def _result(kind: str, said: Fields) -> ToolResult:
    return ToolResult(
        call_id=lenient_json.words(said.get("call_id")),
        content=lenient_json.words(said.get("result")),
        name=lenient_json.words(said.get("name")) or kind.removesuffix("_result"),
        failed=said.get("is_error") is True,
        metadata=(("type", kind), *lenient_json.metadata(said, OF_CALL)),
    )


def _media(kind: str, said: Fields) -> Media:
    """Inline, or by reference."""
    return Media(
        media_type=lenient_json.words(said.get("mime_type")) or f"{kind}/*",
        url=lenient_json.words(said.get("uri")),
        base64=lenient_json.text(said.get("data")),
        metadata=lenient_json.metadata(said, OF_MEDIA),
    )


def _citation(annotation: Fields) -> Cited:
    """A page, a file or a place; its passage is in bytes of the step's text."""
    title = annotation.get("title") or annotation.get("file_name") or annotation.get("name")
    kind = lenient_json.metadata(annotation, ("type",))
    rest = lenient_json.metadata(
        annotation, (name for name in annotation if name not in _OF_CITATION)
    )
    citation = Citation(
        url=lenient_json.words(annotation.get("url") or annotation.get("document_uri")),
        title=lenient_json.words(title),
        quoted=lenient_json.words(annotation.get("source")),
        metadata=rest if annotation.get("type") == "url_citation" else (*kind, *rest),
    )
    start, end = (
        lenient_json.count(annotation.get("start_index")),
        lenient_json.count(annotation.get("end_index")),
    )
    return Cited(citation, start, end)
