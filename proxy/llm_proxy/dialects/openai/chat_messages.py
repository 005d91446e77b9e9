"""The messages of chats: of responses, whole or as deltas, and the parts of those of requests.

Servers use different fields for the same thing.  Reasoning comes as `reasoning_content`
(DeepSeek, xAI, llama.cpp), `reasoning` (Groq, vLLM, Ollama), `reasoning_details` beside
`reasoning` (OpenRouter), `thinking_blocks` beside `reasoning_content` (LiteLLM), or as blocks
inside `content` (Mistral, Databricks).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.dialects import json_api, turn_parts
from llm_proxy.dialects.encoding import one_piece
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    compact_json,
    get_integer,
    get_object,
    get_objects,
    get_span,
    get_string,
    get_text,
    metadata_except,
    object_fields,
    select_metadata,
    selected_fields,
    str_or_empty,
    value_as_text,
)
from llm_proxy.dialects.openai.family import ProviderVariant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.errors import NotRepresentable
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
    ToolResult,
    Turn,
)

MESSAGE_METADATA_FIELDS: Final = ("extra_content",)
"""The metadata fields of a turn that are in its message, and those of a call: Gemini's
signatures."""

_PLAIN_FIELDS: Final = frozenset(("role", "content"))
"""The fields of a delta with nothing but text."""
_REASONING_FIELDS: Final = frozenset(
    ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
)
_REASONING_TEXT_FIELDS: Final = ("text", "summary", "thinking")
"""The text fields of entries of `reasoning_details` and `thinking_blocks`."""
_REASONING_METADATA_FIELDS: Final = (
    "type", "format", "id", "index", "tool_name", "tool_call_id", "arguments", "result"
)  # fmt: skip
"""The others; the last four are of a tool that OpenRouter runs."""
_THINKING: Final = ("type", "thinking")
"""The metadata of a signed block of `content`."""

_AUDIO_METADATA_FIELDS: Final = ("id", "expires_at")
_AUDIO: Final = "audio/*"
"""The media type of audio output: only the request names its format."""
_IMAGE: Final = "image/*"

_CUSTOM_CALL: Final = ("type", "custom")
_LEGACY_CALL: Final = ("type", "function_call")
"""The metadata of calls of other types than `function`."""
_STANDARD_CALL_FIELDS: Final = ("index", "id", "type", "function", "custom")

_WHOLE_MESSAGE_ORDER: Final = (Reasoning, Text, Refusal, Media, ToolCall)
"""The order of the fields of a message that does not stream, audio before images."""

KeyedFragments = Iterator[tuple[Hashable, Part]]
"""Pairs of a key and a fragment; `FragmentJoiner` joins fragments of one kind and key."""


class ChatMessageDecoder:
    """Decodes one message from its deltas, or from the whole message."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._call_ids: dict[int, str] = {}
        """The ID of the latest tool call at each index."""

    def feed(self, delta: Fields, *, streamed: bool) -> list[Part]:
        """Decode one delta, or the whole message, whose tool calls are never joined.

        Returns its pieces of text, reasoning and refusals.
        """
        pieces: list[Part] = []
        for key, fragment in _decode_fragments(delta):
            self._fragments.add_fragment(fragment, key)
            if not isinstance(fragment, ToolCall) and json_api.is_piece(fragment):
                pieces.append(fragment)
        for position, call in enumerate(get_objects(delta, "tool_calls")):
            key = self._tool_call_key(position, call) if streamed else None
            self._fragments.add_fragment(_decode_tool_call(call), key)
        return pieces

    def decoded_parts(self) -> tuple[Part, ...]:
        """The parts of the message so far."""
        return self._fragments.joined_parts()

    def _tool_call_key(self, position: int, call: Fields) -> Hashable:
        """Index and ID: Gemini gives every call index 0, so the ID must distinguish them."""
        index = get_integer(call, "index")
        index = position if index is None else index
        call_id = get_text(call, "id")
        open_call_id = self._call_ids.setdefault(index, call_id)
        starts_call = call_id and get_object(call, "function").get("name")
        if starts_call and open_call_id not in ("", call_id):
            self._call_ids[index] = open_call_id = call_id
        return index, open_call_id


def delta_output_chars(delta: Fields) -> int:
    """How many output characters a delta adds, the start of a tool call included."""
    return sum(map(fragment_output_chars, decode_parts(delta)))


def decode_parts(message: Fields) -> Iterator[Part]:
    """The parts of a message, or the fragments of a delta."""
    yield from (fragment for _, fragment in _decode_fragments(message))
    yield from map(_decode_tool_call, get_objects(message, "tool_calls"))


def _decode_fragments(delta: Fields) -> KeyedFragments:
    """The fragments of a delta or a message in output order, without its `tool_calls`."""
    if _PLAIN_FIELDS.issuperset(delta):  # most deltas of most responses
        yield from _decode_content(delta.get("content"))
        return
    if not _REASONING_FIELDS.isdisjoint(delta):
        yield from _decode_reasoning(delta)
    yield from _decode_content(delta.get("content"))
    if refusal := get_string(delta, "refusal"):
        yield "", Refusal(refusal)
    function = get_object(delta, "function_call")
    if function.get("name") or function.get("arguments"):
        call = _decode_call(function, "arguments", metadata=(_LEGACY_CALL,))
        yield "function_call", call
    audio = get_object(delta, "audio")
    if audio.get("data") or audio.get("transcript") or audio.get("id"):
        media = Media(
            _AUDIO,
            base64=get_string(audio, "data"),
            transcript=get_string(audio, "transcript"),
            metadata=select_metadata(audio, _AUDIO_METADATA_FIELDS),
        )
        yield "audio", media
    for image in get_objects(delta, "images"):
        yield None, _decode_image(image)
    for annotation in get_objects(delta, "annotations"):
        yield "", Text("", citations=(_decode_citation(annotation),))


def _decode_reasoning(delta: Fields) -> KeyedFragments:
    """Details repeat the text of `reasoning`, which counts only where they have no text."""
    details = array_objects(delta.get("reasoning_details") or delta.get("thinking_blocks"))
    plain_text = get_string(delta, "reasoning_content") or get_string(delta, "reasoning")
    details_have_text = any(detail.get(key) for detail in details for key in _REASONING_TEXT_FIELDS)
    if plain_text and not details_have_text:
        yield "", Reasoning(plain_text)
    for position, detail in enumerate(details):
        text = "".join(get_string(detail, key) for key in _REASONING_TEXT_FIELDS)
        signature = get_string(detail, "signature")
        encrypted = get_string(detail, "data")
        index = get_integer(detail, "index")
        key = get_text(detail, "type"), position if index is None else index
        if text or signature or encrypted or detail.get("tool_name"):
            metadata = select_metadata(detail, _REASONING_METADATA_FIELDS)
            yield None if encrypted else key, Reasoning(text, signature, encrypted, metadata)


def _decode_content(content: Json) -> KeyedFragments:
    """A string, a list of blocks (Mistral, Databricks), or an object (Cloudflare)."""
    if isinstance(content, str) and content:
        yield "", Text(content)
    elif isinstance(content, list):
        for block in content:
            yield from (
                _decode_content(block)
                if isinstance(block, str)
                else _decode_block(object_fields(block))
            )
    elif isinstance(content, dict) and content:
        yield "", Text(compact_json(content))


def _decode_block(block: Fields) -> KeyedFragments:
    """One typed block of a message; unknown types are skipped."""
    match block.get("type"):
        case "text":
            if text := get_string(block, "text"):
                yield "", Text(text)
        case "thinking" | "reasoning":
            summary = block.get("thinking") or block.get("summary")
            for item in [{"text": summary}] if isinstance(summary, str) else array_objects(summary):
                text = get_string(item, "text")
                signature = get_string(item, "signature")
                if text or signature:
                    yield "", Reasoning(text, signature)
            if signature := get_string(block, "signature"):
                yield "", Reasoning("", signature, metadata=(_THINKING,))
        case "refusal":
            if refusal := get_string(block, "refusal"):
                yield "", Refusal(refusal)
        case "image_url":
            yield None, _decode_image(block)
        case "video_url":
            yield None, json_api.decode_media_url(_url_of_block(block, "video_url"), "video/*")
        case "document_url":
            yield None, json_api.decode_media_url(get_text(block, "document_url"), "*/*")
        case "input_audio":
            audio = _decode_input_audio(block.get("input_audio"))
            if audio.base64 or audio.url:
                yield None, audio
        case "file":
            if file_data := get_object(block, "file").get("file_data"):
                yield None, json_api.decode_media_url(value_as_text(file_data), "*/*")
        case _:
            pass


def _decode_tool_call(call: Fields) -> ToolCall:
    """A call or its fragment; unknown fields (Gemini's signatures) become metadata."""
    call_id = get_text(call, "id")
    metadata = metadata_except(call, _STANDARD_CALL_FIELDS)
    custom = get_object(call, "custom")
    is_custom = custom.get("name") or custom.get("input")
    # only the first fragment has the type, and some gateways send empty fields of the other type
    if (call.get("type") or (is_custom and "custom")) == "custom":
        return _decode_call(custom, "input", call_id, (_CUSTOM_CALL, *metadata))
    return _decode_call(get_object(call, "function"), "arguments", call_id, metadata)


def _decode_call(
    function: Fields, arguments_field: str, call_id: str = "", metadata: Metadata = ()
) -> ToolCall:
    arguments = function.get(arguments_field)
    return ToolCall(
        id=call_id,
        name=get_text(function, "name"),
        arguments=arguments if isinstance(arguments, str) else value_as_text(arguments),
        metadata=metadata,
    )


def _decode_image(block: Fields) -> Media:
    return json_api.decode_media_url(_url_of_block(block, "image_url"), _IMAGE)


def _decode_input_audio(audio: Json) -> Media:
    """Base64 in an object, with its format; or a string with base64 or a URL (Mistral)."""
    text, fields = str_or_empty(audio), object_fields(audio)
    if text.startswith(("https:", "http:", "data:")):
        return json_api.decode_media_url(text, _AUDIO)
    media_type = f"audio/{get_text(fields, 'format') or '*'}"
    return Media(media_type, base64=get_text(fields, "data") or text)


def _url_of_block(block: Fields, name: str) -> str:
    """The URL in a field: in an object, or itself (Mistral)."""
    return get_text(get_object(block, name), "url") or get_string(block, name)


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page; any other annotation is kept verbatim in `metadata`."""
    if annotation.get("type") != "url_citation":
        return Citation(metadata=select_metadata(annotation, annotation))
    page = get_object(annotation, "url_citation")
    return Citation(
        url=get_text(page, "url"),
        title=get_text(page, "title"),
        quoted=get_text(page, "content"),
        span=get_span(page, "start_index", "end_index"),
    )


def representable_part(part: Part) -> Part | None:
    """A part as a message has it; None for media that is neither audio nor an image."""
    if not isinstance(part, Media):
        return part
    if part.media_type.startswith("audio/"):
        metadata = select_metadata(dict(part.metadata), _AUDIO_METADATA_FIELDS)
        return replace(part, media_type=_AUDIO, url="", metadata=metadata)
    if part.media_type.startswith("image/") and part.base64:
        return Media(part.media_type, base64=part.base64)
    return Media(_IMAGE, url=part.url) if part.url else None


def has_reasoning_details(variant: ProviderVariant) -> bool:
    """Whether reasoning has its type, its boundaries and a signature."""
    return variant.reasoning_field == "details"


def merged_kinds(variant: ProviderVariant) -> frozenset[type[Part]]:
    """The kinds of parts whose neighbours are merged, since no boundary is between them."""
    return frozenset(
        (Text, Refusal) if has_reasoning_details(variant) else (Text, Refusal, Reasoning)
    )


@dataclass(frozen=True, slots=True)
class ChatMessageEncoder:
    """Encodes messages of prepared turns in one provider's variant of the format.

    Raises `NotRepresentable` for a second audio, or a second legacy call.
    """

    variant: ProviderVariant
    split_text: Callable[[str], Iterable[str]]
    uses_functions: bool = False
    """Whether a call is a legacy `function_call`."""

    def encode_message(self, turn: Turn) -> Document:
        """The whole message of a turn, its parts sorted by field."""
        parts = turn_parts.merge_neighbours(
            sorted(turn.parts, key=_place_in_message), merged_kinds(self.variant)
        )
        message: Document = {"role": "assistant", "content": None, "refusal": None}
        for fields in self._encode_parts(parts, streamed=False):
            for name, value in fields.items():
                message[name] = _merge_field_values(message.get(name), value)
        if not parts:
            message["content"] = ""
        return message

    def encode_deltas(self, turn: Turn) -> Iterator[Document]:
        """The message of a turn as deltas, tool calls one after the other.

        The first delta holds the role.
        """
        has_text = not turn.parts or any(isinstance(part, Text) for part in turn.parts)
        yield {"role": "assistant", "content": "" if has_text else None, "refusal": None}
        yield from self._encode_parts(turn.parts, streamed=True)

    def _encode_parts(self, parts: Sequence[Part], *, streamed: bool) -> Iterator[Document]:
        split_text = self.split_text if streamed else one_piece
        call_count = audio_count = 0
        for position, part in enumerate(parts):
            match part:
                case Text():
                    for piece in split_text(part.text):
                        yield {"content": piece}
                    if part.citations:
                        yield _encode_citations(part)
                case Reasoning():
                    is_sealed = has_reasoning_details(self.variant) and part.redacted
                    pieces = [] if is_sealed else list(split_text(part.text))
                    for at, piece in enumerate(pieces or [""], 1):
                        is_last = at >= len(pieces)
                        yield self._encode_reasoning(part, piece, position, is_last=is_last)
                case Refusal():
                    for piece in split_text(part.text):
                        yield {"refusal": piece}
                case ToolCall() if self.uses_functions:
                    call_count += 1
                    yield {"function_call": {"name": part.name, "arguments": part.arguments}}
                case ToolCall():
                    index = {"index": call_count} if streamed else {}
                    call_count += 1
                    is_whole = not streamed or self.variant.sends_whole_tool_calls
                    call = encode_call(part, part.arguments if is_whole else "")
                    yield {"tool_calls": [{**index, **call}]}
                    kind, arguments_field = _call_fields(part)
                    for piece in () if is_whole else split_text(part.arguments):
                        yield {"tool_calls": [{**index, kind: {arguments_field: piece}}]}
                case Media():
                    audio_count += part.media_type == _AUDIO
                    yield _encode_media(part, "" if streamed else part.transcript)
                    for piece in split_text(part.transcript) if streamed else ():
                        yield {"audio": {"transcript": piece}}
                case ToolResult():
                    pass  # a response has none
            if (self.uses_functions and call_count > 1) or audio_count > 1:
                raise NotRepresentable(
                    "openai-chat supports only one function_call and one audio output per message"
                )

    def _encode_reasoning(
        self, part: Reasoning, text: str, position: int, *, is_last: bool
    ) -> Document:
        """A piece of reasoning; of an entry of `reasoning_details`, the last has the signature."""
        match self.variant.reasoning_field:
            case "blocks":
                return {"content": [encode_thinking_block(Reasoning(text))]}
            case "details":
                piece = replace(part, text=text, signature=part.signature if is_last else None)
                detail = encode_detail(piece) | {"index": position}
                return {"reasoning": text or None, "reasoning_details": [detail]}
            case name:
                return {name: text}


def is_reasoning_detail(part: Reasoning) -> bool:
    """Whether it is an entry of `reasoning_details`."""
    return get_text(dict(part.metadata), "type").startswith("reasoning.")


def encode_detail(part: Reasoning) -> Document:
    """The entry of `reasoning_details` with this reasoning."""
    detail: Document = {
        "type": "reasoning.encrypted" if part.redacted else "reasoning.text",
        **selected_fields(part.metadata, _REASONING_METADATA_FIELDS),
    }
    if part.redacted:
        return {**detail, "data": part.redacted}
    if part.text:
        detail["summary" if detail["type"] == "reasoning.summary" else "text"] = part.text
    if part.signature:
        detail["signature"] = part.signature
    return detail


def fits_block(part: Reasoning) -> bool:
    """Whether a block of `content` can hold it: a text, or what such a block had without one."""
    return bool(part.text) or _THINKING in part.metadata


def encode_thinking_block(part: Reasoning) -> Document:
    """The block of `content` with this reasoning, and with the signature if such a block had it."""
    texts: list[Json] = [{"type": "text", "text": part.text}] if part.text else []
    block: Document = {"type": "thinking", "thinking": texts}
    return {**block, "signature": part.signature} if _THINKING in part.metadata else block


def _place_in_message(part: Part) -> tuple[int, bool]:
    is_image = isinstance(part, Media) and part.media_type != _AUDIO
    return _WHOLE_MESSAGE_ORDER.index(type(part)), is_image


def _merge_field_values(existing: Json, value: Json) -> Json:
    match existing, value:
        case list(), list():
            return [*existing, *value]
        case list(), str():
            return [*existing, {"type": "text", "text": value}]
        case str(), str():
            return existing + value
        case _:
            return value


def _call_fields(call: ToolCall) -> tuple[str, str]:
    """The type of a call, and its field for the arguments."""
    return ("custom", "input") if _CUSTOM_CALL in call.metadata else ("function", "arguments")


def encode_call(call: ToolCall, arguments: str) -> Document:
    """A call with these arguments; the metadata that clients send back is included."""
    kind, arguments_field = _call_fields(call)
    return {
        "id": call.id,
        "type": kind,
        kind: {"name": call.name, arguments_field: arguments},
        **selected_fields(call.metadata, MESSAGE_METADATA_FIELDS),
    }


def _encode_media(media: Media, transcript: str) -> Document:
    if media.media_type == _AUDIO:
        audio = {**dict(media.metadata), "data": media.base64, "transcript": transcript}
        return {"audio": audio}
    url = f"data:{media.media_type};base64,{media.base64}" if media.base64 else media.url
    return {"images": [{"type": "image_url", "image_url": {"url": url}}]}


def _encode_citations(text: Text) -> Document:
    annotations = []
    for citation in text.citations:
        page: Document = {"url": citation.url, "title": citation.title}
        if citation.quoted:
            page["content"] = citation.quoted
        if citation.span and citation.span[0] < citation.span[1]:
            page["start_index"], page["end_index"] = citation.span
        annotations.append({"type": "url_citation", "url_citation": page})
    return {"annotations": annotations}
