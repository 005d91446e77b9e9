"""Decodes Converse documents and ConverseStream events.

    messageStart
    ( contentBlockStart?  contentBlockDelta*  contentBlockStop )*    a start for tools alone
    messageStop           the stop reason
    metadata              usage, metrics, the guardrail's trace

Amazon's own models (Nova) answer InvokeModel in the same shapes, each event wrapped in its name,
and give every piece of a text a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json, output_chars
from llm_proxy.dialects.bedrock import usage
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Finish,
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

EVENTS: Final = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
)
"""The names of the events."""
DELTA: Final = EVENTS[2]

FINISH: Final = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP_SEQUENCE,
    "max_tokens": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "guardrail_intervened": Finish.CONTENT_FILTER,
    "content_filtered": Finish.CONTENT_FILTER,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
    "malformed_tool_use": Finish.ERROR,
    "malformed_model_output": Finish.ERROR,
}

OF_STOP: Final = ("additionalModelResponseFields",)
"""Metadata that stands beside the stop reason."""

OF_END: Final = ("metrics", "trace", "performanceConfig", "serviceTier")
"""Metadata that stands beside the usage."""

USAGE: Final = "usage"
"""Metadata: what is told of the cost that `Usage` has no word for."""

CALL: Final = "tool_use"
RESULT: Final = "tool_result"
"""The types of calls and results that are usual, and told by none."""

OF_CITATION: Final = ("location", "source")
"""Metadata of a citation."""

MEDIA: Final = ("image", "audio", "video")


class ConverseDecoder:
    """One message, as its document or its events come."""

    def __init__(self, *, joins_text: bool = False) -> None:
        """`joins_text` where blocks of text that follow each other are one text, as Nova's are."""
        self._merges_text = joins_text
        self._fragments = FragmentJoiner()
        self._tool_names: dict[str, str] = {}
        """The tool behind the id of each call."""
        self._response_fields: dict[str, Json] = {}
        self.is_empty = True
        """Whether nothing was read yet."""

    @property
    def stop_reason(self) -> str:
        """Why the message ended; empty where it did not say."""
        return lenient_json.printable_text(self._response_fields.get("stopReason"))

    def feed(self, event: str, fields: Fields) -> None:
        """Read one event; those of unknown names are left out."""
        if event not in EVENTS:
            return
        self.is_empty = False
        index = lenient_json.first_count(fields.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                self._add_block(index, lenient_json.object_fields(fields.get("start")))
            case "contentBlockDelta":
                self._add_block(index, lenient_json.object_fields(fields.get("delta")))
            case "messageStop" | "metadata":
                self._response_fields.update(fields)
            case _:
                pass  # beginnings and ends that hold nothing

    def feed_document(self, document: Fields) -> None:
        """Read the one document of a response that does not stream."""
        self.is_empty = False
        self._response_fields.update(document)
        message = lenient_json.object_fields(
            lenient_json.object_fields(document.get("output")).get("message")
        )
        for index, block in enumerate(lenient_json.object_items(message.get("content"))):
            self._add_block(index, block)

    def result(self) -> Turn:
        """What was said."""
        raw = self.stop_reason
        counts = lenient_json.object_fields(self._response_fields.get("usage"))
        return Turn(
            self._fragments.joined_parts(),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.decode_usage(counts),
            model=routed_model(self._response_fields),
            metadata=(
                *lenient_json.named_metadata(self._response_fields, (*OF_STOP, *OF_END)),
                *lenient_json.named_metadata({USAGE: usage.extra_usage_fields(counts)}, (USAGE,)),
            ),
        )

    def _add_block(self, index: int | None, block: Fields) -> None:
        """Read a block, or a piece of one: the beginning and the deltas have its shape too."""
        for part in decode_parts(block):
            match part:
                case Text() if self._merges_text:
                    self._fragments.add(part, "text")
                case ToolResult(call_id=call_id):
                    name = self._tool_names.get(call_id, "")
                    self._fragments.add(replace(part, name=name), index)
                case ToolCall(id=call_id, name=name) if name:
                    self._tool_names[call_id] = name
                    self._fragments.add(part, index)
                case _:
                    self._fragments.add(part, index)


def event_output_chars(event: str, fields: Fields) -> int:
    """How many characters an event adds to what was said: deltas do, but for seals, citations."""
    return (
        sum(
            map(
                output_chars.fragment_output_chars,
                decode_parts(lenient_json.object_fields(fields.get("delta"))),
            )
        )
        if event == DELTA
        else 0
    )


def routed_model(fields: Fields) -> str:
    """The model that a router chose, which is all that an answer says of models."""
    router = lenient_json.object_fields(
        lenient_json.object_fields(fields.get("trace")).get("promptRouter")
    )
    return lenient_json.printable_text(router.get("invokedModelId"))


def decode_parts(block: Fields) -> Iterator[Part]:
    """What a block, its beginning or its delta holds; other kinds of blocks are left out."""
    for kind, value in block.items():
        if kind == "text" and isinstance(value, str) and value:
            yield Text(value)
        elif kind == "toolResult":
            yield _decode_tool_result(value)
        elif kind in MEDIA:
            yield _decode_media(kind, lenient_json.object_fields(value))
        elif kind in _BLOCKS and isinstance(value, dict):
            yield from _BLOCKS[kind](value)


def _decode_reasoning(fields: Fields) -> Iterator[Part]:
    """Whole in `reasoningText`, in deltas bare; what is sealed is base64."""
    spelled = lenient_json.object_fields(fields.get("reasoningText")) or fields
    text, signature = (
        lenient_json.str_or_empty(spelled.get("text")),
        lenient_json.str_or_empty(spelled.get("signature")),
    )
    sealed = lenient_json.str_or_empty(fields.get("redactedContent"))
    if text or signature or sealed:
        yield Reasoning(text, signature or None, sealed or None)


def _decode_tool_call(fields: Fields) -> Iterator[Part]:
    spelled = fields.get("input")
    yield ToolCall(
        id=lenient_json.printable_text(fields.get("toolUseId")),
        name=lenient_json.printable_text(fields.get("name")),
        arguments=spelled if isinstance(spelled, str) else lenient_json.printable_text(spelled),
        metadata=_type_metadata(fields, CALL),
    )


def _decode_tool_result(value: Json) -> ToolResult:
    """What a tool of the provider's gave back; its contents are a bare list in deltas."""
    fields = lenient_json.object_fields(value)
    contents = value if isinstance(value, list) else fields.get("content")
    return ToolResult(
        call_id=lenient_json.printable_text(fields.get("toolUseId")),
        content="".join(map(_content_text, lenient_json.object_items(contents))),
        failed=fields.get("status") == "error",
        metadata=_type_metadata(fields, RESULT),
    )


def _content_text(content: Fields) -> str:
    """Text as it is, JSON as its text, and anything else whole."""
    return lenient_json.printable_text(content.get("text", content.get("json", dict(content))))


def _type_metadata(fields: Fields, usual: str) -> Metadata:
    return () if fields.get("type") == usual else lenient_json.named_metadata(fields, ("type",))


def _decode_cited_text(fields: Fields) -> Iterator[Part]:
    pieces = (
        lenient_json.str_or_empty(object_item.get("text"))
        for object_item in lenient_json.object_items(fields.get("content"))
    )
    citations = tuple(map(_decode_citation, lenient_json.object_items(fields.get("citations"))))
    yield Text(lenient_json.join_pieces(pieces), citations)


def _decode_citation_delta(fields: Fields) -> Iterator[Part]:
    """A source, as streams give it: apart from the text that rests on it."""
    yield Text("", citations=(_decode_citation(fields),))


def _decode_citation(fields: Fields) -> Citation:
    """A page or a document; its places are counted in the source, so there is no span."""
    sources = lenient_json.object_items(fields.get("sourceContent"))
    return Citation(
        url=citation_url(fields.get("location")),
        title=lenient_json.printable_text(fields.get("title")),
        quoted=lenient_json.join_pieces(
            lenient_json.str_or_empty(source.get("text")) for source in sources
        ),
        metadata=lenient_json.named_metadata(fields, OF_CITATION),
    )


def citation_url(location: Json) -> str:
    """The address of a cited page; documents have none."""
    web = lenient_json.object_fields(lenient_json.object_fields(location).get("web"))
    return lenient_json.printable_text(web.get("url"))


_BLOCKS: Final[Mapping[str, Callable[[Fields], Iterator[Part]]]] = {
    "reasoningContent": _decode_reasoning,
    "toolUse": _decode_tool_call,
    "citationsContent": _decode_cited_text,
    "citation": _decode_citation_delta,
}


def _decode_media(kind: str, fields: Fields) -> Media:
    """A picture, a sound or a film: its format comes first, its bytes may come in deltas."""
    source = lenient_json.object_fields(fields.get("source"))
    form = lenient_json.printable_text(fields.get("format"))
    return Media(
        f"{kind}/{form}" if form else "",
        url=lenient_json.printable_text(
            lenient_json.object_fields(source.get("s3Location")).get("uri")
        ),
        base64=lenient_json.str_or_empty(source.get("bytes")),
    )
