"""Decodes chat messages, whole or from deltas, of OpenAI and compatible servers.

Servers use different fields for the same thing.  Reasoning comes as `reasoning_content`
(DeepSeek, xAI, llama.cpp), `reasoning` (Groq, vLLM, Ollama), `reasoning_details` beside
`reasoning` (OpenRouter), `thinking_blocks` beside `reasoning_content` (LiteLLM), or as blocks
inside `content` (Mistral, Databricks).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
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

_STANDARD_CALL_FIELDS: Final = ("index", "id", "type", "function", "custom")
_REASONING_TEXT_FIELDS: Final = ("text", "summary", "thinking")
"""The text fields of entries of `reasoning_details` and `thinking_blocks`."""

KeyedFragments = Iterator[tuple[Hashable, Part]]
"""Pairs of a key and a fragment; `FragmentJoiner` joins fragments of one kind and key."""


class ChatMessageDecoder:
    """Decodes one message from its deltas, or from the whole message."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._call_ids: dict[int, str] = {}
        """The ID of the latest tool call at each index."""

    def feed(self, delta: Fields, *, streamed: bool) -> None:
        """Decode one delta, or the whole message, whose tool calls are never joined."""
        for key, fragment in decode_fragments(delta):
            self._fragments.add_fragment(fragment, key)
        for position, call in enumerate(lenient_json.array_objects(delta.get("tool_calls"))):
            key = self._tool_call_key(position, call) if streamed else None
            self._fragments.add_fragment(decode_tool_call(call), key)

    def decoded_parts(self) -> tuple[Part, ...]:
        """The parts of the message so far."""
        return self._fragments.joined_parts()

    def _tool_call_key(self, position: int, call: Fields) -> Hashable:
        """Index and ID: Gemini gives every call index 0, so the ID must distinguish them."""
        index = lenient_json.first_integer(call.get("index"))
        index = position if index is None else index
        call_id = lenient_json.value_as_text(call.get("id"))
        open_call_id = self._call_ids.setdefault(index, call_id)
        starts_call = bool(call_id) and bool(
            lenient_json.object_fields(call.get("function")).get("name")
        )
        if starts_call and open_call_id and open_call_id != call_id:
            self._call_ids[index] = open_call_id = call_id
        return index, open_call_id


def delta_output_chars(delta: Fields) -> int:
    """How many output characters a delta adds, the start of a tool call included."""
    calls = map(decode_tool_call, lenient_json.array_objects(delta.get("tool_calls")))
    return sum(
        map(
            fragment_output_chars,
            (*(part for _, part in decode_fragments(delta)), *calls),
        )
    )


def decode_fragments(delta: Fields) -> KeyedFragments:
    """The fragments of a delta or a message in output order, without its `tool_calls`."""
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
    audio = lenient_json.object_fields(delta.get("audio"))
    if audio.get("data") or audio.get("transcript") or audio.get("id"):
        yield "audio", _decode_output_audio(audio)
    for image in lenient_json.array_objects(delta.get("images")):
        yield None, _decode_image(image)
    for annotation in lenient_json.array_objects(delta.get("annotations")):
        yield "", Text("", citations=(_decode_citation(annotation),))


def _decode_reasoning(delta: Fields) -> KeyedFragments:
    """Details repeat the text of `reasoning`, which counts only where they have no text."""
    details = lenient_json.array_objects(
        delta.get("reasoning_details") or delta.get("thinking_blocks")
    )
    plain_text = lenient_json.str_or_empty(
        delta.get("reasoning_content")
    ) or lenient_json.str_or_empty(delta.get("reasoning"))
    if plain_text and not any(
        detail.get(key) for detail in details for key in _REASONING_TEXT_FIELDS
    ):
        yield "", Reasoning(plain_text)
    for detail in details:
        text = "".join(lenient_json.str_or_empty(detail.get(key)) for key in _REASONING_TEXT_FIELDS)
        signature = lenient_json.str_or_empty(detail.get("signature"))
        encrypted = lenient_json.str_or_empty(detail.get("data"))
        metadata = lenient_json.select_metadata(detail, ("type", "format", "id", "index"))
        fragment_key = (
            lenient_json.value_as_text(detail.get("type")),
            lenient_json.first_integer(detail.get("index")),
        )
        if text or signature or encrypted:
            yield (
                None if encrypted else fragment_key,
                Reasoning(text, signature, encrypted, metadata),
            )


def _decode_content(content: Json) -> KeyedFragments:
    """A string, a list of blocks (Mistral, Databricks), or an object (Cloudflare)."""
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


def _decode_block(block: Fields) -> KeyedFragments:
    """One typed block of a message; unknown types are skipped."""
    kind = block.get("type")
    if kind == "text" and (text := lenient_json.str_or_empty(block.get("text"))):
        yield "", Text(text)
    elif kind in ("thinking", "reasoning"):
        yield from _decode_reasoning_block(block.get("thinking") or block.get("summary"))
    elif kind == "refusal" and (refusal := lenient_json.str_or_empty(block.get("refusal"))):
        yield "", Refusal(refusal)
    elif kind == "image_url":
        yield None, _decode_image(block)
    elif kind == "input_audio":
        yield from _decode_input_audio(lenient_json.object_fields(block.get("input_audio")))
    elif kind == "file" and (
        data := lenient_json.object_fields(block.get("file")).get("file_data")
    ):
        yield None, json_api.decode_media_url(lenient_json.value_as_text(data), "*/*")


def _decode_reasoning_block(value: Json) -> KeyedFragments:
    """The text of a reasoning block: a string, or a list of text blocks."""
    blocks = [{"text": value}] if isinstance(value, str) else lenient_json.array_objects(value)
    for block in blocks:
        text, signature = (
            lenient_json.str_or_empty(block.get("text")),
            lenient_json.str_or_empty(block.get("signature")),
        )
        if text or signature:
            yield "", Reasoning(text, signature)


def decode_tool_call(call: Fields) -> ToolCall:
    """A call or its fragment; unknown fields (Gemini's signatures) become metadata."""
    call_id = lenient_json.value_as_text(call.get("id"))
    metadata = lenient_json.select_metadata(
        call, (name for name in call if name not in _STANDARD_CALL_FIELDS)
    )
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
    function: Fields, arguments_field: str, call_id: str = "", metadata: Metadata = ()
) -> ToolCall:
    raw_arguments = function.get(arguments_field)
    return ToolCall(
        id=call_id,
        name=lenient_json.value_as_text(function.get("name")),
        arguments=raw_arguments
        if isinstance(raw_arguments, str)
        else lenient_json.value_as_text(raw_arguments),
        metadata=metadata,
    )


def _decode_output_audio(audio: Fields) -> Media:
    """Audio output; only the request names its format."""
    return Media(
        media_type="audio/*",
        base64=lenient_json.str_or_empty(audio.get("data")),
        transcript=lenient_json.str_or_empty(audio.get("transcript")),
        metadata=lenient_json.select_metadata(audio, ("id", "expires_at")),
    )


def _decode_input_audio(audio: Fields) -> KeyedFragments:
    if data := lenient_json.value_as_text(audio.get("data")):
        yield (
            None,
            Media(f"audio/{lenient_json.value_as_text(audio.get('format')) or '*'}", base64=data),
        )


def _decode_image(block: Fields) -> Media:
    url = lenient_json.value_as_text(lenient_json.object_fields(block.get("image_url")).get("url"))
    return json_api.decode_media_url(url, "image/*")


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page; any other annotation is kept verbatim in `metadata`."""
    if annotation.get("type") != "url_citation":
        return Citation(metadata=lenient_json.select_metadata(annotation, annotation))
    url_citation = lenient_json.object_fields(annotation.get("url_citation"))
    start, end = (
        lenient_json.first_integer(url_citation.get("start_index")),
        lenient_json.first_integer(url_citation.get("end_index")),
    )
    return Citation(
        url=lenient_json.value_as_text(url_citation.get("url")),
        title=lenient_json.value_as_text(url_citation.get("title")),
        quoted=lenient_json.value_as_text(url_citation.get("content")),
        span=None if start is None or end is None or start >= end else (start, end),
    )
