"""The blocks of Converse's messages: decoded whole or as deltas, encoded whole or as events."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import orjson

from llm_proxy.dialects import encoding
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    get_text,
    join_pieces,
    object_fields,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
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
)

_TOOL_USE: Final = "tool_use"
_TOOL_RESULT: Final = "tool_result"
"""The default types of calls and results, which are not sent."""
PROVIDER_TOOL_USE: Final = "server_tool_use"
"""The type of a call that the provider runs itself."""

_CITATION_METADATA: Final = ("location", "source")

_MEDIA_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "image": frozenset(("png", "jpeg", "gif", "webp")),
    "audio": frozenset(
        ("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg",
         "mpga", "pcm", "webm")
    ),
    "video": frozenset(
        ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp")
    ),
}  # fmt: skip
S3_PREFIX: Final = "s3://"
"""The beginning of the only URLs that the API has."""


def decode_parts(block: Fields) -> Iterator[Part]:
    """The parts of a block, its start or its delta; unknown kinds are left out."""
    for kind, value in block.items():
        fields = object_fields(value)
        match kind, value:
            case "text", str() if value:
                yield Text(value)
            case "reasoningContent", dict():
                # text is in `reasoningText`, but in deltas at the top level
                content = get_object(fields, "reasoningText") or fields
                text = get_string(content, "text")
                signature = get_string(content, "signature")
                redacted = get_string(fields, "redactedContent")
                if text or signature or redacted:
                    yield Reasoning(text, signature or None, redacted or None)
            case "toolUse", dict():
                arguments = fields.get("input")
                yield ToolCall(
                    get_text(fields, "toolUseId"),
                    get_text(fields, "name"),
                    arguments if isinstance(arguments, str) else value_as_text(arguments),
                    _decode_type(fields, _TOOL_USE),
                )
            case "toolResult", _:
                # in deltas, a bare list of its contents
                contents = array_objects(
                    value if isinstance(value, list) else fields.get("content")
                )
                yield ToolResult(
                    get_text(fields, "toolUseId"),
                    "".join(map(_content_text, contents)),
                    failed=fields.get("status") == "error",
                    metadata=_decode_type(fields, _TOOL_RESULT),
                )
            case "citationsContent", dict():
                pieces = (get_string(content, "text") for content in get_objects(fields, "content"))
                citations = map(_decode_citation, get_objects(fields, "citations"))
                yield Text(join_pieces(pieces), tuple(citations))
            case "citation", dict():  # in a stream, apart from the cited text
                yield Text("", citations=(_decode_citation(fields),))
            case (("image" | "audio" | "video"), _):
                yield _decode_media(kind, fields)
            case _:
                pass


def _content_text(content: Fields) -> str:
    """The text or the JSON of a content item; another item whole, as JSON."""
    return value_as_text(content.get("text", content.get("json", dict(content))))


def _decode_type(fields: Fields, default: str) -> Metadata:
    return () if fields.get("type") == default else select_metadata(fields, ("type",))


def _decode_citation(fields: Fields) -> Citation:
    """A page or a document; locations are in the source, not in the text: there is no span."""
    sources = get_objects(fields, "sourceContent")
    return Citation(
        url=_citation_url(fields.get("location")),
        title=get_text(fields, "title"),
        quoted=join_pieces(get_string(source, "text") for source in sources),
        metadata=select_metadata(fields, _CITATION_METADATA),
    )


def _citation_url(location: Json) -> str:
    """The URL of a cited page; empty for documents."""
    return get_text(get_object(object_fields(location), "web"), "url")


def _decode_media(kind: str, fields: Fields) -> Media:
    """An image, audio or video: a stream starts with the format, the bytes come in deltas."""
    source = get_object(fields, "source")
    format_name = get_text(fields, "format")
    return Media(
        f"{kind}/{format_name}" if format_name else "",
        url=get_text(get_object(source, "s3Location"), "uri"),
        base64=get_string(source, "bytes"),
    )


def representable_part(part: Part, *, stream: bool) -> Part | None:
    """The part with the metadata that a block has; None for media that no block can hold.

    Those are media of other formats, and what is neither inline nor in S3.  A stream has no other
    media than images.
    """
    match part:
        case ToolCall():
            return replace(part, metadata=_sent_type(part.metadata, _TOOL_USE))
        case ToolResult():
            return replace(part, metadata=_sent_type(part.metadata, _TOOL_RESULT))
        case Media(media_type=media_type):
            kind, _, format_name = media_type.partition("/")
            if format_name not in _MEDIA_FORMATS.get(kind, ()) or (stream and kind != "image"):
                return None
            if is_base64(part.base64):
                return Media(media_type, base64=part.base64)
            return Media(media_type, url=part.url) if part.url.startswith(S3_PREFIX) else None
        case _:
            return part


def _sent_type(metadata: Metadata, default: str) -> Metadata:
    """The type of a call or a result, if this format has it and it is not the default."""
    kind = dict(metadata).get("type")
    is_type = isinstance(kind, str) and kind.endswith(default.removeprefix("tool"))
    return (("type", kind),) if is_type and kind != default else ()


def is_base64(text: str) -> bool:
    """Whether the text is base64 of at least one byte."""
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def encode_block(part: Part, answered_calls: Collection[str]) -> Document:
    """The whole block; `answered_calls` are the ids of the calls that the provider ran."""
    match part:
        case Text() if part.citations:
            citations = [_encode_citation(citation) for citation in part.citations]
            return {"citationsContent": {"content": [{"text": part.text}], "citations": citations}}
        case Text() | Refusal():  # a prepared turn has no refusal
            return {"text": part.text}
        case Reasoning():
            redacted = _encode_redacted(part)
            signature = {"signature": part.signature} if part.signature else {}
            text = {"reasoningText": {"text": part.text, **signature}}
            return {"reasoningContent": redacted or text}
        case ToolCall() | ToolResult() | Media():
            [(kind, fields)] = encode_start(part, answered_calls).items()
            return {kind: {**fields, **_encode_content(part)}}


def _encode_content(part: ToolCall | ToolResult | Media) -> Document:
    """What a block of a tool or of media has besides its start."""
    match part:
        case ToolCall():
            return {"input": orjson.Fragment(part.arguments)}
        case ToolResult():
            return {"content": encode_result_contents(part)}
        case Media():
            return {"source": encode_source(part)}


def encode_source(media: Media) -> Document:
    """Where the bytes of media are: inline or in S3."""
    return {"bytes": media.base64} if media.base64 else {"s3Location": {"uri": media.url}}


def encode_start(part: Part, answered_calls: Collection[str]) -> Document:
    """The start of a block in a stream; empty for kinds without a start event."""
    match part:
        case ToolCall():
            is_unmarked = part.id in answered_calls and not part.metadata
            kind = {"type": PROVIDER_TOOL_USE} if is_unmarked else dict(part.metadata)
            return {"toolUse": {"toolUseId": part.id, "name": part.name, **kind}}
        case ToolResult():
            status = "error" if part.failed else "success"
            fields = {"toolUseId": part.call_id, "status": status, **dict(part.metadata)}
            return {"toolResult": fields}
        case Media():
            media_kind, _, format_name = part.media_type.partition("/")
            return {media_kind: {"format": format_name}}
        case _:
            return {}


def encode_deltas(part: Part, split_text: Callable[[str], Iterable[str]]) -> Iterator[Document]:
    """The content of a block as deltas."""
    match part:
        case Text():
            yield from ({"text": piece} for piece in split_text(part.text))
            yield from ({"citation": _encode_citation(citation)} for citation in part.citations)
        case Reasoning():
            if redacted := _encode_redacted(part):
                yield {"reasoningContent": redacted}
                return
            for piece in split_text(part.text):
                yield {"reasoningContent": {"text": piece}}
            if part.signature:
                yield {"reasoningContent": {"signature": part.signature}}
        case ToolCall():
            yield from ({"toolUse": {"input": piece}} for piece in split_text(part.arguments))
        case ToolResult():
            yield {"toolResult": encode_result_contents(part)}
        case Media():
            yield {part.media_type.partition("/")[0]: _encode_content(part)}
        case Refusal():
            pass  # a prepared turn has none


def _encode_redacted(reasoning: Reasoning) -> Document:
    """The content of redacted reasoning, as base64; empty if there is other content."""
    redacted = reasoning.redacted
    if reasoning.text or reasoning.signature or not redacted:
        return {}
    if not is_base64(redacted):
        redacted = base64.b64encode(redacted.encode()).decode()
    return {"redactedContent": redacted}


def encode_result_contents(result: ToolResult) -> list[Document]:
    """The contents of a result: `json` if it is an object in normalized form, else `text`."""
    if encoding.normalized_object_json(result.content) == result.content:
        return [{"json": orjson.Fragment(result.content)}]
    return [{"text": result.content}] if result.content else []


def _encode_citation(citation: Citation) -> Document:
    """A citation of a page or a document; it applies to the whole block."""
    metadata = selected_fields(citation.metadata, _CITATION_METADATA)
    location = dict(object_fields(metadata.pop("location", None)))
    if citation.url and citation.url != _citation_url(location):
        location = {"web": {"url": citation.url}}
    document: Document = {"title": citation.title} if citation.title else {}
    if citation.quoted:
        document["sourceContent"] = [{"text": citation.quoted}]
    if location:
        document["location"] = location
    return {**document, **metadata}
