"""Decodes chat messages, whole or from deltas, of OpenAI and compatible servers.

The same thing has several spellings.  Reasoning alone comes as `reasoning_content` (DeepSeek,
xAI, llama.cpp), `reasoning` (Groq, vLLM, Ollama), `reasoning_details` beside it (OpenRouter),
`thinking_blocks` beside it (LiteLLM), or as blocks inside `content` (Mistral, Databricks).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from llm_proxy.dialects import data_urls, lenient_json, output_chars
from llm_proxy.dialects.fragments import FragmentJoiner
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


class ChatMessageDecoder:
    """One message, as its deltas come."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._call_ids: dict[int, str] = {}
        """For each index of a tool call, the id of the call that is open there."""

    def feed(self, delta: Fields, *, streamed: bool) -> None:
        """Read one delta, or the whole message, whose tool calls are whole too."""
        for key, fragment in decode_fragments(delta):
            self._fragments.add(fragment, key)
        for position, call in enumerate(lenient_json.object_items(delta.get("tool_calls"))):
            key = self._tool_call_key(position, call) if streamed else None
            self._fragments.add(decode_tool_call(call), key)

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        return self._fragments.joined_parts()

    def _tool_call_key(self, position: int, call: Fields) -> Hashable:
        """Calls go by index; Gemini gives all of them index 0, and ids that tell them apart."""
        index = lenient_json.first_count(call.get("index"))
        index = position if index is None else index
        call_id = lenient_json.printable_text(call.get("id"))
        known = self._call_ids.setdefault(index, call_id)
        begins = bool(call_id) and bool(
            lenient_json.object_fields(call.get("function")).get("name")
        )
        if begins and known and known != call_id:
            self._call_ids[index] = known = call_id
        return index, known


def delta_output_chars(delta: Fields) -> int:
    """How many characters a delta adds to what was said: the opening of a call does too."""
    calls = map(decode_tool_call, lenient_json.object_items(delta.get("tool_calls")))
    return sum(
        map(
            output_chars.fragment_output_chars,
            (*(part for _, part in decode_fragments(delta)), *calls),
        )
    )


def decode_fragments(delta: Fields) -> Keyed:
    """What a delta or a message holds besides tool calls, in the order in which it is said."""
    yield from _decode_reasoning(delta)
    yield from _decode_content(delta.get("content"))
    if refusal := lenient_json.str_or_empty(delta.get("refusal")):
        yield "", Refusal(refusal)
    function = lenient_json.object_fields(delta.get("function_call"))
    if function.get("name") or function.get("arguments"):
        yield (
            "function_call",
            _decode_call(function, "arguments", metadata=(("type", "function_call"),)),
        )
    sound = lenient_json.object_fields(delta.get("audio"))
    if sound.get("data") or sound.get("transcript") or sound.get("id"):
        yield "audio", _decode_output_audio(sound)
    for image in lenient_json.object_items(delta.get("images")):
        yield None, _decode_image(image)
    for annotation in lenient_json.object_items(delta.get("annotations")):
        yield "", Text("", citations=(_decode_citation(annotation),))


def _decode_reasoning(delta: Fields) -> Keyed:
    """Details repeat the text of `reasoning`, which is read only where they have none."""
    details = lenient_json.object_items(
        delta.get("reasoning_details") or delta.get("thinking_blocks")
    )
    alone = lenient_json.str_or_empty(delta.get("reasoning_content")) or lenient_json.str_or_empty(
        delta.get("reasoning")
    )
    if alone and not any(detail.get(key) for detail in details for key in _READABLE):
        yield "", Reasoning(alone)
    for detail in details:
        text = "".join(lenient_json.str_or_empty(detail.get(key)) for key in _READABLE)
        signature = lenient_json.str_or_empty(detail.get("signature"))
        sealed = lenient_json.str_or_empty(detail.get("data"))
        metadata = lenient_json.named_metadata(detail, ("type", "format", "id", "index"))
        kind = (
            lenient_json.printable_text(detail.get("type")),
            lenient_json.first_count(detail.get("index")),
        )
        if text or signature or sealed:
            yield None if sealed else kind, Reasoning(text, signature, sealed, metadata)


def _decode_content(content: Json) -> Keyed:
    """A string; blocks, as of Mistral and Databricks; or a document, as of Cloudflare."""
    if isinstance(content, str) and content:
        yield "", Text(content)
    elif isinstance(content, list):
        for block in content:
            yield from (
                _decode_content(block)
                if isinstance(block, str)
                else _decode_block(lenient_json.object_fields(block))
            )
    elif isinstance(content, dict) and content:
        yield "", Text(lenient_json.compact_json(content))


def _decode_block(block: Fields) -> Keyed:
    """One typed block of a message; blocks of other types are left out."""
    kind = block.get("type")
    if kind == "text" and (text := lenient_json.str_or_empty(block.get("text"))):
        yield "", Text(text)
    elif kind in ("thinking", "reasoning"):
        yield from _reasoning_text(block.get("thinking") or block.get("summary"))
    elif kind == "refusal" and (declined := lenient_json.str_or_empty(block.get("refusal"))):
        yield "", Refusal(declined)
    elif kind == "image_url":
        yield None, _decode_image(block)
    elif kind == "input_audio":
        yield from _decode_input_audio(lenient_json.object_fields(block.get("input_audio")))
    elif kind == "file" and (
        data := lenient_json.object_fields(block.get("file")).get("file_data")
    ):
        yield None, data_urls.decode_media_url(lenient_json.printable_text(data), "*/*")


def _reasoning_text(value: Json) -> Keyed:
    """The text of a typed block: a string, or blocks once more."""
    blocks = [{"text": value}] if isinstance(value, str) else lenient_json.object_items(value)
    for block in blocks:
        text, signature = (
            lenient_json.str_or_empty(block.get("text")),
            lenient_json.str_or_empty(block.get("signature")),
        )
        if text or signature:
            yield "", Reasoning(text, signature)


def decode_tool_call(call: Fields) -> ToolCall:
    """A call or its fragment; what stands beside it (Gemini's signatures) is kept."""
    call_id = lenient_json.printable_text(call.get("id"))
    metadata = lenient_json.named_metadata(call, (name for name in call if name not in _OF_CALL))
    if call.get("type") == "custom":
        return _decode_call(
            lenient_json.object_fields(call.get("custom")),
            "input",
            call_id,
            (("type", "custom"), *metadata),
        )
    return _decode_call(
        lenient_json.object_fields(call.get("function")), "arguments", call_id, metadata
    )


def _decode_call(
    function: Fields, arguments: str, call_id: str = "", metadata: Metadata = ()
) -> ToolCall:
    spelled = function.get(arguments)
    return ToolCall(
        id=call_id,
        name=lenient_json.printable_text(function.get("name")),
        arguments=spelled if isinstance(spelled, str) else lenient_json.printable_text(spelled),
        metadata=metadata,
    )


def _decode_output_audio(sound: Fields) -> Media:
    """Spoken output; the request alone knows its format."""
    return Media(
        media_type="audio/*",
        base64=lenient_json.str_or_empty(sound.get("data")),
        transcript=lenient_json.str_or_empty(sound.get("transcript")),
        metadata=lenient_json.named_metadata(sound, ("id", "expires_at")),
    )


def _decode_input_audio(sound: Fields) -> Keyed:
    if data := lenient_json.printable_text(sound.get("data")):
        yield (
            None,
            Media(f"audio/{lenient_json.printable_text(sound.get('format')) or '*'}", base64=data),
        )


def _decode_image(block: Fields) -> Media:
    url = lenient_json.printable_text(lenient_json.object_fields(block.get("image_url")).get("url"))
    return data_urls.decode_media_url(url, "image/*")


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page; any other annotation is kept as it is."""
    if annotation.get("type") != "url_citation":
        return Citation(metadata=lenient_json.named_metadata(annotation, annotation))
    cited = lenient_json.object_fields(annotation.get("url_citation"))
    start, end = (
        lenient_json.first_count(cited.get("start_index")),
        lenient_json.first_count(cited.get("end_index")),
    )
    return Citation(
        url=lenient_json.printable_text(cited.get("url")),
        title=lenient_json.printable_text(cited.get("title")),
        quoted=lenient_json.printable_text(cited.get("content")),
        span=None if start is None or end is None or start >= end else (start, end),
    )
