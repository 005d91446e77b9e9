"""Decodes Converse documents and ConverseStream events.

    messageStart
    ( contentBlockStart?  contentBlockDelta*  contentBlockStop )*    start for tools only
    messageStop           the stop reason
    metadata              usage, metrics, the guardrail's trace

Amazon's own models (Nova) have the same format in InvokeModel responses, with each event wrapped in
its name, and with a block for every piece of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.bedrock import usage
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

EVENT_NAMES: Final = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
)
DELTA_EVENT: Final = EVENT_NAMES[2]

FINISH_BY_STOP_REASON: Final = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "max_tokens": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "malformed_tool_use": FinishReason.ERROR,
    "malformed_model_output": FinishReason.ERROR,
}

STOP_METADATA: Final = ("additionalModelResponseFields",)
"""Metadata next to the stop reason."""

END_METADATA: Final = ("metrics", "trace", "performanceConfig", "serviceTier")
"""Metadata next to the usage."""

USAGE: Final = "usage"
"""Metadata: the usage fields that `Usage` does not have."""

TOOL_USE: Final = "tool_use"
TOOL_RESULT: Final = "tool_result"
"""The default types of calls and results, which are not sent."""

CITATION_METADATA: Final = ("location", "source")
"""Metadata of a citation."""

MEDIA_KINDS: Final = ("image", "audio", "video")


class ConverseDecoder:
    """Decodes one message from its document or its events."""

    def __init__(self, *, joins_text: bool = False) -> None:
        """`joins_text` joins the blocks of text, of which Nova sends one per piece."""
        self._merges_text = joins_text
        self._fragments = FragmentJoiner()
        self._tool_names: dict[str, str] = {}
        """The tool of each call id."""
        self._response_fields: dict[str, Json] = {}
        self.is_empty = True
        """Whether nothing was fed yet."""

    @property
    def stop_reason(self) -> str:
        """The stop reason; empty if there is none yet."""
        return lenient_json.value_as_text(self._response_fields.get("stopReason"))

    def feed(self, event: str, fields: Fields) -> None:
        """Decode one event; those of unknown names are ignored."""
        if event not in EVENT_NAMES:
            return
        self.is_empty = False
        index = lenient_json.first_integer(fields.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                self._add_block(index, lenient_json.object_fields(fields.get("start")))
            case "contentBlockDelta":
                self._add_block(index, lenient_json.object_fields(fields.get("delta")))
            case "messageStop" | "metadata":
                self._response_fields.update(fields)
            case _:
                pass  # starts and stops without content

    def feed_whole_response(self, document: Fields) -> None:
        """Decode the one document of a response that does not stream."""
        self.is_empty = False
        self._response_fields.update(document)
        message = lenient_json.object_fields(
            lenient_json.object_fields(document.get("output")).get("message")
        )
        for index, block in enumerate(lenient_json.array_objects(message.get("content"))):
            self._add_block(index, block)

    def turn(self) -> Turn:
        """The turn so far."""
        raw = self.stop_reason
        counts = lenient_json.object_fields(self._response_fields.get("usage"))
        return Turn(
            self._fragments.joined_parts(),
            finish=FINISH_BY_STOP_REASON.get(raw, FinishReason.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.decode_usage(counts),
            model=routed_model(self._response_fields),
            metadata=(
                *lenient_json.select_metadata(
                    self._response_fields, (*STOP_METADATA, *END_METADATA)
                ),
                *lenient_json.select_metadata({USAGE: usage.extra_usage_fields(counts)}, (USAGE,)),
            ),
        )

    def _add_block(self, index: int | None, block: Fields) -> None:
        """Add a block, its start or its delta, all of which have the same format."""
        for part in decode_parts(block):
            match part:
                case Text() if self._merges_text:
                    self._fragments.add_fragment(part, "text")
                case ToolResult(call_id=call_id):
                    name = self._tool_names.get(call_id, "")
                    self._fragments.add_fragment(replace(part, name=name), index)
                case ToolCall(id=call_id, name=name) if name:
                    self._tool_names[call_id] = name
                    self._fragments.add_fragment(part, index)
                case _:
                    self._fragments.add_fragment(part, index)


def event_output_chars(event: str, fields: Fields) -> int:
    """How many output characters an event adds; signatures and citations count nothing."""
    return (
        sum(
            map(
                fragment_output_chars,
                decode_parts(lenient_json.object_fields(fields.get("delta"))),
            )
        )
        if event == DELTA_EVENT
        else 0
    )


def routed_model(fields: Fields) -> str:
    """The model that a prompt router chose; responses name no other model."""
    router = lenient_json.object_fields(
        lenient_json.object_fields(fields.get("trace")).get("promptRouter")
    )
    return lenient_json.value_as_text(router.get("invokedModelId"))


def decode_parts(block: Fields) -> Iterator[Part]:
    """The parts of a block, its start or its delta; unknown kinds are left out."""
    for kind, value in block.items():
        if kind == "text" and isinstance(value, str) and value:
            yield Text(value)
        elif kind == "toolResult":
            yield _decode_tool_result(value)
        elif kind in MEDIA_KINDS:
            yield _decode_media(kind, lenient_json.object_fields(value))
        elif kind in _BLOCK_DECODERS and isinstance(value, dict):
            yield from _BLOCK_DECODERS[kind](value)


def _decode_reasoning(fields: Fields) -> Iterator[Part]:
    """Text is in `reasoningText`, but in deltas at the top level; redacted content is base64."""
    text_fields = lenient_json.object_fields(fields.get("reasoningText")) or fields
    text, signature = (
        lenient_json.str_or_empty(text_fields.get("text")),
        lenient_json.str_or_empty(text_fields.get("signature")),
    )
    redacted = lenient_json.str_or_empty(fields.get("redactedContent"))
    if text or signature or redacted:
        yield Reasoning(text, signature or None, redacted or None)


def _decode_tool_call(fields: Fields) -> Iterator[Part]:
    input_value = fields.get("input")
    yield ToolCall(
        id=lenient_json.value_as_text(fields.get("toolUseId")),
        name=lenient_json.value_as_text(fields.get("name")),
        arguments=input_value
        if isinstance(input_value, str)
        else lenient_json.value_as_text(input_value),
        metadata=_nondefault_type_metadata(fields, TOOL_USE),
    )


def _decode_tool_result(value: Json) -> ToolResult:
    """The result of a provider's tool; in deltas, a bare list of its contents."""
    fields = lenient_json.object_fields(value)
    contents = value if isinstance(value, list) else fields.get("content")
    return ToolResult(
        call_id=lenient_json.value_as_text(fields.get("toolUseId")),
        content="".join(map(_content_text, lenient_json.array_objects(contents))),
        failed=fields.get("status") == "error",
        metadata=_nondefault_type_metadata(fields, TOOL_RESULT),
    )


def _content_text(content: Fields) -> str:
    """The text or the JSON of a content item; another item whole, as JSON."""
    return lenient_json.value_as_text(content.get("text", content.get("json", dict(content))))


def _nondefault_type_metadata(fields: Fields, default_type: str) -> Metadata:
    return (
        ()
        if fields.get("type") == default_type
        else lenient_json.select_metadata(fields, ("type",))
    )


def _decode_cited_text(fields: Fields) -> Iterator[Part]:
    pieces = (
        lenient_json.str_or_empty(content.get("text"))
        for content in lenient_json.array_objects(fields.get("content"))
    )
    citations = tuple(map(_decode_citation, lenient_json.array_objects(fields.get("citations"))))
    yield Text(lenient_json.join_pieces(pieces), citations)


def _decode_citation_delta(fields: Fields) -> Iterator[Part]:
    """A citation in a stream, which sends it separately from the cited text."""
    yield Text("", citations=(_decode_citation(fields),))


def _decode_citation(fields: Fields) -> Citation:
    """A page or a document; locations are in the source, not in the text: there is no span."""
    sources = lenient_json.array_objects(fields.get("sourceContent"))
    return Citation(
        url=citation_url(fields.get("location")),
        title=lenient_json.value_as_text(fields.get("title")),
        quoted=lenient_json.join_pieces(
            lenient_json.str_or_empty(source.get("text")) for source in sources
        ),
        metadata=lenient_json.select_metadata(fields, CITATION_METADATA),
    )


def citation_url(location: Json) -> str:
    """The URL of a cited page; empty for documents."""
    web = lenient_json.object_fields(lenient_json.object_fields(location).get("web"))
    return lenient_json.value_as_text(web.get("url"))


_BLOCK_DECODERS: Final[Mapping[str, Callable[[Fields], Iterator[Part]]]] = {
    "reasoningContent": _decode_reasoning,
    "toolUse": _decode_tool_call,
    "citationsContent": _decode_cited_text,
    "citation": _decode_citation_delta,
}


def _decode_media(kind: str, fields: Fields) -> Media:
    """An image, audio or video: a stream starts with the format, the bytes come in deltas."""
    source = lenient_json.object_fields(fields.get("source"))
    format_name = lenient_json.value_as_text(fields.get("format"))
    return Media(
        f"{kind}/{format_name}" if format_name else "",
        url=lenient_json.value_as_text(
            lenient_json.object_fields(source.get("s3Location")).get("uri")
        ),
        base64=lenient_json.str_or_empty(source.get("bytes")),
    )
