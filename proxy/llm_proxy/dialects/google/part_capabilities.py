"""The parts of an answer of Gemini's as it can tell them: a lens for each kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import as_object, kept
from llm_proxy.dialects.google import source_encoder
from llm_proxy.dialects.google.content_decoder import CODE, OF_PART, WENT_WELL
from llm_proxy.turns import Json, Media, Metadata, Part, Reasoning, Text, ToolCall, ToolResult

CODE_CALL: Final = "executableCode"
CODE_RESULT: Final = "codeExecutionResult"
TOOL_CALL: Final = "toolCall"
TOOL_RESULT: Final = "toolResponse"
"""The kinds of calls that Google runs itself, and of what they give."""

OF_MEDIA: Final = ("thought",)
SEAL: Final = OF_PART[0]
_SEALED: Final = re.compile("[A-Za-z0-9+/_-]+={0,2}")
"""Clients refuse a signature that is no base64."""

_RUN: Final = (CODE_CALL, TOOL_CALL)
_RESULTS: Final = (TOOL_RESULT, "functionResponse")
_OUTCOMES: Final = {False: "OUTCOME_OK", True: "OUTCOME_FAILED"}


def text(it: Text) -> Text:
    """Words, what they rest on, and their seal."""
    citations = tuple(filter(None, map(source_encoder.told, it.citations)))
    return Text(it.text, citations, kept(_beside(it.metadata), (SEAL,)))


def reasoning(it: Reasoning) -> Reasoning | None:
    """Readable thoughts, and their seal."""
    told = Reasoning(it.text, it.signature if _is_seal(it.signature) else None)
    return told if told.text or told.signature else None


def call(it: ToolCall) -> ToolCall | None:
    """A call of an object; one of Google's own is marked by its type."""
    arguments = as_object(it.arguments)
    if not arguments:
        return None
    kind = dict(it.metadata).get("type")
    marked: Metadata = (("type", kind),) if kind in _RUN else ()
    told = ToolCall(it.id, it.name, arguments, (*marked, *_beside(it.metadata)))
    return replace(told, name=CODE, arguments=_anonymous(arguments)) if kind == CODE_CALL else told


def provided(it: ToolCall) -> ToolCall | None:
    """A call that the provider's own tool answered."""
    about = dict(it.metadata)
    kind = about.get("type")
    own = CODE_CALL if it.name == CODE else TOOL_CALL
    about["type"] = kind if kind in _RUN else own
    return call(replace(it, metadata=tuple(about.items())))


def awaits(part: Part) -> bool:
    """Whether it is a call that waits for the client."""
    return isinstance(part, ToolCall) and dict(part.metadata).get("type") not in _RUN


def waits(parts: Sequence[Part]) -> bool:
    """Whether one of the parts does."""
    return any(map(awaits, parts))


def result(it: ToolResult) -> ToolResult:
    """What came of code; of another tool, as an object if anything came of it."""
    about = dict(it.metadata)
    beside = _beside(it.metadata)
    kind = about.get("type")
    if kind == CODE_RESULT or (kind not in _RESULTS and it.name == CODE):
        outcome = about.get("outcome")
        if not outcome or (outcome not in WENT_WELL) is not it.failed:
            outcome = _OUTCOMES[it.failed]
        marked: Metadata = (("type", CODE_RESULT), *beside, ("outcome", outcome))
        return ToolResult(it.call_id, it.content, CODE, it.failed, marked)
    marked = (("type", kind if kind in _RESULTS else TOOL_RESULT), *beside)
    wrapped: Json = {"error" if it.failed else "result": it.content}
    said = bool(it.content or it.failed)
    content = (as_object(it.content) or lenient_json.compact(wrapped)) if said else ""
    return ToolResult(it.call_id, content, it.name, metadata=marked)


def media(it: Media) -> Media | None:
    """Inline where it is there, else by reference; None where there is but a transcript."""
    if it.transcript and not (it.base64 or it.url):
        return None
    about = {**dict(it.metadata), **dict(_beside(it.metadata))}
    if about.get("thought") is not True:
        about.pop("thought", None)
    beside = kept(tuple(about.items()), ("displayName", *OF_PART, *OF_MEDIA))
    return Media(it.media_type, "" if it.base64 else it.url, it.base64, metadata=beside)


def is_sealed(part: Part) -> bool:
    """Whether the part has a signature, after which another begins."""
    match part:
        case Reasoning():
            return bool(part.signature)
        case _:
            return bool(dict(part.metadata).get(SEAL))


def _beside(metadata: Metadata) -> Metadata:
    """What stands beside a part; a seal only if it is one."""
    return tuple(it for it in kept(metadata, OF_PART) if it[0] != SEAL or _is_seal(it[1]))


def _is_seal(value: Json) -> bool:
    return isinstance(value, str) and bool(_SEALED.fullmatch(value))


def _anonymous(arguments: str) -> str:
    """The code that is run, without an id, which stands beside it."""
    said = lenient_json.document(arguments.encode())
    return lenient_json.compact({name: value for name, value in said.items() if name != "id"})
