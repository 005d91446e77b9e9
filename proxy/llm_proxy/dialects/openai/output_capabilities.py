"""What the items of OpenAI's Responses have words for, part by part: lenses for a vocabulary.

A call or a result that was read from an item keeps the item's type beside it, and all that stood
there.  A call of anybody else's is a function's, and waits for its caller; one that came with its
result was run by the provider, and is told as that of an MCP server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.lenient_json import joined
from llm_proxy.dialects.openai import output_item_decoder
from llm_proxy.dialects.openai.output_item_decoder import OF_IMAGE, OF_PAGE
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

SUMMARY: Final = "summary_text"
THOUGHT: Final = "reasoning_text"
COMPACTION: Final = "compaction"

_OF_MESSAGE: Final = ("id", "status", "phase")
_OF_REASONING: Final = ("id", "status", "format")
_OF_FUNCTION: Final = ("id", "status", "namespace")
_STATUSES: Final = frozenset(
    ("in_progress", "incomplete", "failed", "searching", "generating", "interpreting", "calling")
)
"""Of an item; that it is completed goes without saying."""
_OF_FILES: Final = ("file_citation", "container_file_citation", "file_path")
_NOT_OF_FILES: Final = ("type", "url", "title", "filename", "content", "start_index", "end_index")


def text(part: Text) -> Text:
    """Words, what they rest on, and how likely they were."""
    likely = dict(part.metadata).get("logprobs")
    entries: list[Json] = [dict(entry) for entry in lenient_json.objects(likely)]
    said = (*_strings(part.metadata, _OF_MESSAGE), ("logprobs", entries))
    return Text(part.text, tuple(map(_citation, part.citations)), kept(said, (*dict(said),)))


def refusal(part: Refusal) -> Refusal:
    """A refusal, and what its message says of itself."""
    return Refusal(part.text, _strings(part.metadata, _OF_MESSAGE))


def reasoning(part: Reasoning, kind: str) -> Reasoning:
    """A summary, a thought, or what is sealed; one of neither type is of this `kind`."""
    beside = _strings(part.metadata, _OF_REASONING)
    told = dict(part.metadata).get("type")
    if part.text:
        known = told if told in (SUMMARY, THOUGHT) else kind
        return Reasoning(part.text, redacted=part.redacted, metadata=(*beside, ("type", known)))
    if part.redacted and told == COMPACTION:
        return Reasoning(redacted=part.redacted, metadata=(*beside, ("type", told)))
    named = part.redacted or "id" in dict(beside)
    return Reasoning(redacted=part.redacted, metadata=beside if named else ())


def call(part: ToolCall) -> ToolCall:
    """A call with all that is told of it."""
    kind = kind_of(part)
    if not kind:
        caller = kept(part.metadata, ("caller",))
        return replace(part, metadata=(*_strings(part.metadata, _OF_FUNCTION), *caller))
    return replace(part, metadata=_open(part.metadata, (*output_item_decoder.KNOWN, "result")))


def result(part: ToolResult) -> ToolResult:
    """What came of a call, in the call's own item or in one beside it."""
    said = replace(part, call_id=joined([part.call_id]), content=joined([part.content]))
    error = kept(part.metadata, ("error",)) if said.content else ()
    if not kind_of(part):
        return replace(said, metadata=error)
    known = (*output_item_decoder.KNOWN, "result")
    return replace(said, metadata=(*_open(part.metadata, known), *error))


def picture(part: Media) -> Media | None:
    """An image that the model drew; there is no word for where one lies."""
    if not part.media_type.startswith("image/") or not part.base64:
        return None
    media_type = "image/*" if part.media_type == "image/" else joined([part.media_type])
    beside = _strings(part.metadata, ("id", *OF_IMAGE[1:]))
    return Media(media_type, base64=part.base64, metadata=beside)


def picture_or_sound(part: Media) -> Media | None:
    """An image, or speech, for which only streams have words."""
    if part.media_type.startswith("audio/") and (part.base64 or part.transcript):
        return Media("audio/*", base64=part.base64, transcript=joined([part.transcript]))
    return picture(part)


def kind_of(part: ToolCall | ToolResult) -> str:
    """The type of the item that a part was read from, where it is more than a function's call."""
    kind = dict(part.metadata).get("type")
    if not isinstance(kind, str) or kind == "function_call":
        return ""
    if isinstance(part, ToolResult):
        return kind if kind.endswith(output_item_decoder.OUTPUTS) else ""
    return kind if kind.endswith("_call") or kind in output_item_decoder.TOOLS else ""


def _strings(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    """What stands in words under these names."""
    said = ((name, it) for name, it in kept(metadata, names) if isinstance(it, str))
    return tuple((name, it) for name, it in said if name != "status" or it in _STATUSES)


def _open(metadata: Metadata, known: tuple[str, ...]) -> Metadata:
    """All that stands there but for `known`: an item may have any field."""
    said = {name: it for name, it in metadata if name not in (*known, "id", "status")}
    return (*_strings(metadata, ("id", "status")), *lenient_json.metadata(said, said))


def _citation(cited: Citation) -> Citation:
    """A page or a file, and where it is cited."""
    span = cited.span if cited.span and cited.span[0] < cited.span[1] else None
    told = Citation(joined([cited.url]), joined([cited.title]), joined([cited.quoted]), span)
    said = dict(cited.metadata)
    if said.get("type") not in _OF_FILES:
        return told
    others = {name: it for name, it in said.items() if name not in _NOT_OF_FILES}
    return replace(told, metadata=(("type", said["type"]), *lenient_json.metadata(others, others)))


def annotation(cited: Citation) -> dict[str, Json]:
    """A citation as it stands beside its text."""
    start, end = cited.span or (0, 0)
    of_file = dict(cited.metadata)
    if not of_file:
        page: dict[str, Json] = {"type": OF_PAGE, "start_index": start, "end_index": end}
        quoted: dict[str, Json] = {"content": cited.quoted} if cited.quoted else {}
        return {**page, "url": cited.url, "title": cited.title, **quoted}
    said = {"filename": cited.title, "url": cited.url, "content": cited.quoted}
    where: dict[str, Json] = {"start_index": start, "end_index": end} if cited.span else {}
    return {**of_file, **{name: it for name, it in said.items() if it}, **where}
