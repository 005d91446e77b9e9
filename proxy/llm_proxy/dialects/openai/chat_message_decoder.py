"""A chat message, whole or in deltas, as OpenAI and those who followed it spell one.

The same thing has several spellings.  Reasoning alone comes as `reasoning_content` (DeepSeek,
xAI, llama.cpp), `reasoning` (Groq, vLLM, Ollama), `reasoning_details` beside it (OpenRouter),
`thinking_blocks` beside it (LiteLLM), or as blocks inside `content` (Mistral, Databricks).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from llm_proxy.dialects import data_urls, lenient_json, output_chars
from llm_proxy.dialects.fragments import Fragments
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)

_OF_CALL: Final = ("index", "id", "type", "function", "custom")
_READABLE: Final = ("text", "summary", "thinking")
"""Where entries of `reasoning_details` and `thinking_blocks` keep their text."""

Keyed = Iterator[tuple[Hashable, Part]]
"""Fragments, each with the key that joins it to others of its kind."""


class Message:
    """One message, as its deltas come."""

    def __init__(self) -> None:
        self._fragments = Fragments()
        self._call_ids: dict[int, str] = {}
        """For each index of a tool call, the id of the call that is open there."""

    def take(self, delta: Fields, *, streamed: bool) -> None:
        """Read one delta, or the whole message, whose tool calls are whole too."""
        for key, fragment in fragments(delta):
            self._fragments.add(fragment, key)
        for position, call in enumerate(lenient_json.objects(delta.get("tool_calls"))):
            key = self._call_key(position, call) if streamed else None
            self._fragments.add(tool_call(call), key)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        return self._fragments.parts()

    def _call_key(self, position: int, call: Fields) -> Hashable:
        """Calls go by index; Gemini gives all of them index 0, and ids that tell them apart."""
        index = lenient_json.count(call.get("index"))
        index = position if index is None else index
        call_id = lenient_json.words(call.get("id"))
        known = self._call_ids.setdefault(index, call_id)
        begins = bool(call_id) and bool(lenient_json.fields(call.get("function")).get("name"))
        if begins and known and known != call_id:
            self._call_ids[index] = known = call_id
        return index, known


def says(delta: Fields) -> int:
    """How many characters a delta adds to what was said: the opening of a call does too."""
    calls = map(tool_call, lenient_json.objects(delta.get("tool_calls")))
    return sum(map(output_chars.says, (*(it for _, it in fragments(delta)), *calls)))


def fragments(delta: Fields) -> Keyed:
    """What a delta or a message holds besides tool calls, in the order in which it is said."""
    yield from _reasoning(delta)
    yield from _content(delta.get("content"))
    if refusal := lenient_json.text(delta.get("refusal")):
        yield "", Refusal(refusal)
    function = lenient_json.fields(delta.get("function_call"))
    if function.get("name") or function.get("arguments"):
        yield "function_call", _call(function, "arguments", metadata=(("type", "function_call"),))
    sound = lenient_json.fields(delta.get("audio"))
    if sound.get("data") or sound.get("transcript") or sound.get("id"):
        yield "audio", _sound(sound)
    for image in lenient_json.objects(delta.get("images")):
        yield None, _image(image)
    for annotation in lenient_json.objects(delta.get("annotations")):
        yield "", Text("", citations=(_citation(annotation),))


def _reasoning(delta: Fields) -> Keyed:
    """Details repeat the text of `reasoning`, which is read only where they have none."""
    details = lenient_json.objects(delta.get("reasoning_details") or delta.get("thinking_blocks"))
    alone = lenient_json.text(delta.get("reasoning_content")) or lenient_json.text(
        delta.get("reasoning")
    )
    if alone and not any(detail.get(key) for detail in details for key in _READABLE):
        yield "", Reasoning(alone)
    for detail in details:
        said = "".join(lenient_json.text(detail.get(key)) for key in _READABLE)
        signature = lenient_json.text(detail.get("signature"))
        sealed = lenient_json.text(detail.get("data"))
        beside = lenient_json.metadata(detail, ("type", "format", "id", "index"))
        kind = (lenient_json.words(detail.get("type")), lenient_json.count(detail.get("index")))
        if said or signature or sealed:
            yield None if sealed else kind, Reasoning(said, signature, sealed, beside)


def _content(content: Json) -> Keyed:
    """A string; blocks, as of Mistral and Databricks; or a document, as of Cloudflare."""
    if isinstance(content, str) and content:
        yield "", Text(content)
    elif isinstance(content, list):
        for block in content:
            yield from (
                _content(block) if isinstance(block, str) else _block(lenient_json.fields(block))
            )
    elif isinstance(content, dict) and content:
        yield "", Text(lenient_json.compact(content))


def _block(block: Fields) -> Keyed:
    """One typed block of a message; blocks of other types are left out."""
    kind = block.get("type")
    if kind == "text" and (said := lenient_json.text(block.get("text"))):
        yield "", Text(said)
    elif kind in ("thinking", "reasoning"):
        yield from _thoughts(block.get("thinking") or block.get("summary"))
    elif kind == "refusal" and (declined := lenient_json.text(block.get("refusal"))):
        yield "", Refusal(declined)
    elif kind == "image_url":
        yield None, _image(block)
    elif kind == "input_audio":
        yield from _recording(lenient_json.fields(block.get("input_audio")))
    elif kind == "file" and (data := lenient_json.fields(block.get("file")).get("file_data")):
        yield None, data_urls.media(lenient_json.words(data), "*/*")


def _thoughts(value: Json) -> Keyed:
    """The text of a typed block: a string, or blocks once more."""
    blocks = [{"text": value}] if isinstance(value, str) else lenient_json.objects(value)
    for block in blocks:
        said, signature = (
            lenient_json.text(block.get("text")),
            lenient_json.text(block.get("signature")),
        )
        if said or signature:
            yield "", Reasoning(said, signature)


def tool_call(call: Fields) -> ToolCall:
    """A call or its fragment; what stands beside it (Gemini's signatures) is kept."""
    call_id = lenient_json.words(call.get("id"))
    beside = lenient_json.metadata(call, (name for name in call if name not in _OF_CALL))
    if call.get("type") == "custom":
        return _call(
            lenient_json.fields(call.get("custom")), "input", call_id, (("type", "custom"), *beside)
        )
    return _call(lenient_json.fields(call.get("function")), "arguments", call_id, beside)


def _call(function: Fields, arguments: str, call_id: str = "", metadata: Metadata = ()) -> ToolCall:
    """Arguments are JSON text already, or an object (Mistral allows both)."""
    spelled = function.get(arguments)
    return ToolCall(
        id=call_id,
        name=lenient_json.words(function.get("name")),
        arguments=spelled if isinstance(spelled, str) else lenient_json.words(spelled),
        metadata=metadata,
    )


def _sound(sound: Fields) -> Media:
    """Spoken output; the request alone knows its format."""
    return Media(
        media_type="audio/*",
        base64=lenient_json.text(sound.get("data")),
        transcript=lenient_json.text(sound.get("transcript")),
        metadata=lenient_json.metadata(sound, ("id", "expires_at")),
    )


def _recording(sound: Fields) -> Keyed:
    """Spoken input, which says its format."""
    if data := lenient_json.words(sound.get("data")):
        yield None, Media(f"audio/{lenient_json.words(sound.get('format')) or '*'}", base64=data)


def _image(block: Fields) -> Media:
    """An image by its URL, which may hold the image itself."""
    url = lenient_json.words(lenient_json.fields(block.get("image_url")).get("url"))
    return data_urls.media(url, "image/*")


def _citation(annotation: Fields) -> Citation:
    """A cited page; any other annotation is kept as it is."""
    if annotation.get("type") != "url_citation":
        return Citation(metadata=lenient_json.metadata(annotation, annotation))
    cited = lenient_json.fields(annotation.get("url_citation"))
    start, end = (
        lenient_json.count(cited.get("start_index")),
        lenient_json.count(cited.get("end_index")),
    )
    return Citation(
        url=lenient_json.words(cited.get("url")),
        title=lenient_json.words(cited.get("title")),
        quoted=lenient_json.words(cited.get("content")),
        span=None if start is None or end is None or start >= end else (start, end),
    )
