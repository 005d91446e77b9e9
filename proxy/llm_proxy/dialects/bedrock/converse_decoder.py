"""What Amazon Bedrock's Converse says, as one document or as the events of ConverseStream.

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
from llm_proxy.dialects.fragments import Fragments
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


class Converse:
    """One message, as its document or its events come."""

    def __init__(self, *, joins_text: bool = False) -> None:
        """`joins_text` where blocks of text that follow each other are one text, as Nova's are."""
        self._joins_text = joins_text
        self._fragments = Fragments()
        self._names: dict[str, str] = {}
        """The tool behind the id of each call."""
        self._about: dict[str, Json] = {}
        self.is_empty = True
        """Whether nothing was read yet."""

    @property
    def stop_reason(self) -> str:
        """Why the message ended; empty where it did not say."""
        return lenient_json.words(self._about.get("stopReason"))

    def take(self, event: str, said: Fields) -> None:
        """Read one event; those of unknown names are left out."""
        if event not in EVENTS:
            return
        self.is_empty = False
        index = lenient_json.count(said.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                self._add(index, lenient_json.fields(said.get("start")))
            case "contentBlockDelta":
                self._add(index, lenient_json.fields(said.get("delta")))
            case "messageStop" | "metadata":
                self._about.update(said)
            case _:
                pass  # beginnings and ends that hold nothing

    def take_document(self, document: Fields) -> None:
        """Read the one document of a response that does not stream."""
        self.is_empty = False
        self._about.update(document)
        message = lenient_json.fields(lenient_json.fields(document.get("output")).get("message"))
        for index, block in enumerate(lenient_json.objects(message.get("content"))):
            self._add(index, block)

    def turn(self) -> Turn:
        """What was said."""
        raw = self.stop_reason
        counts = lenient_json.fields(self._about.get("usage"))
        return Turn(
            self._fragments.parts(),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.read(counts),
            model=routed(self._about),
            metadata=(
                *lenient_json.metadata(self._about, (*OF_STOP, *OF_END)),
                *lenient_json.metadata({USAGE: usage.beside(counts)}, (USAGE,)),
            ),
        )

    def _add(self, index: int | None, block: Fields) -> None:
        """Read a block, or a piece of one: the beginning and the deltas have its shape too."""
        for part in parts(block):
            match part:
                case Text() if self._joins_text:
                    self._fragments.add(part, "text")
                case ToolResult(call_id=call_id):
                    name = self._names.get(call_id, "")
                    self._fragments.add(replace(part, name=name), index)
                case ToolCall(id=call_id, name=name) if name:
                    self._names[call_id] = name
                    self._fragments.add(part, index)
                case _:
                    self._fragments.add(part, index)


def says(event: str, said: Fields) -> int:
    """How many characters an event adds to what was said: deltas do, but for seals, citations."""
    return (
        sum(map(output_chars.says, parts(lenient_json.fields(said.get("delta")))))
        if event == DELTA
        else 0
    )


def routed(about: Fields) -> str:
    """The model that a router chose, which is all that an answer says of models."""
    router = lenient_json.fields(lenient_json.fields(about.get("trace")).get("promptRouter"))
    return lenient_json.words(router.get("invokedModelId"))


def parts(block: Fields) -> Iterator[Part]:
    """What a block, its beginning or its delta holds; other kinds of blocks are left out."""
    for kind, value in block.items():
        if kind == "text" and isinstance(value, str) and value:
            yield Text(value)
        elif kind == "toolResult":
            yield _result(value)
        elif kind in MEDIA:
            yield _media(kind, lenient_json.fields(value))
        elif kind in _BLOCKS and isinstance(value, dict):
            yield from _BLOCKS[kind](value)


def _reasoning(said: Fields) -> Iterator[Part]:
    """Whole in `reasoningText`, in deltas bare; what is sealed is base64."""
    spelled = lenient_json.fields(said.get("reasoningText")) or said
    text, signature = (
        lenient_json.text(spelled.get("text")),
        lenient_json.text(spelled.get("signature")),
    )
    sealed = lenient_json.text(said.get("redactedContent"))
    if text or signature or sealed:
        yield Reasoning(text, signature or None, sealed or None)


def _call(said: Fields) -> Iterator[Part]:
    """Arguments are text in deltas, an object in a whole block."""
    spelled = said.get("input")
    yield ToolCall(
        id=lenient_json.words(said.get("toolUseId")),
        name=lenient_json.words(said.get("name")),
        arguments=spelled if isinstance(spelled, str) else lenient_json.words(spelled),
        metadata=_kind(said, CALL),
    )


def _result(value: Json) -> ToolResult:
    """What a tool of the provider's gave back; its contents are a bare list in deltas."""
    said = lenient_json.fields(value)
    contents = value if isinstance(value, list) else said.get("content")
    return ToolResult(
        call_id=lenient_json.words(said.get("toolUseId")),
        content="".join(map(_content, lenient_json.objects(contents))),
        failed=said.get("status") == "error",
        metadata=_kind(said, RESULT),
    )


def _content(content: Fields) -> str:
    """Text as it is, JSON as its text, and anything else whole."""
    return lenient_json.words(content.get("text", content.get("json", dict(content))))


def _kind(said: Fields, usual: str) -> Metadata:
    return () if said.get("type") == usual else lenient_json.metadata(said, ("type",))


def _cited(said: Fields) -> Iterator[Part]:
    """A text with the sources that it rests on."""
    pieces = (lenient_json.text(it.get("text")) for it in lenient_json.objects(said.get("content")))
    citations = tuple(map(_citation, lenient_json.objects(said.get("citations"))))
    yield Text(lenient_json.joined(pieces), citations)


def _cites(said: Fields) -> Iterator[Part]:
    """A source, as streams give it: apart from the text that rests on it."""
    yield Text("", citations=(_citation(said),))


def _citation(said: Fields) -> Citation:
    """A page or a document; its places are counted in the source, so there is no span."""
    sources = lenient_json.objects(said.get("sourceContent"))
    return Citation(
        url=page(said.get("location")),
        title=lenient_json.words(said.get("title")),
        quoted=lenient_json.joined(lenient_json.text(it.get("text")) for it in sources),
        metadata=lenient_json.metadata(said, OF_CITATION),
    )


def page(location: Json) -> str:
    """The address of a cited page; documents have none."""
    web = lenient_json.fields(lenient_json.fields(location).get("web"))
    return lenient_json.words(web.get("url"))


_BLOCKS: Final[Mapping[str, Callable[[Fields], Iterator[Part]]]] = {
    "reasoningContent": _reasoning,
    "toolUse": _call,
    "citationsContent": _cited,
    "citation": _cites,
}


def _media(kind: str, said: Fields) -> Media:
    """A picture, a sound or a film: its format comes first, its bytes may come in deltas."""
    source = lenient_json.fields(said.get("source"))
    form = lenient_json.words(said.get("format"))
    return Media(
        f"{kind}/{form}" if form else "",
        url=lenient_json.words(lenient_json.fields(source.get("s3Location")).get("uri")),
        base64=lenient_json.text(source.get("bytes")),
    )
