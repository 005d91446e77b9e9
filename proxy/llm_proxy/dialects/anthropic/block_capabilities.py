"""What Anthropic's content blocks have words for: each part as a block would tell it.

What came from this wire says so by its type (`server_tool_use`, `web_search_tool_result`,
`char_location`) and keeps all that stands beside it; what came from elsewhere keeps what has a
word here.  Tools of another provider's are told as an MCP server's, whose words fit any tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_decoder import (
    CALL,
    COMPACTION,
    MCP_CALL,
    MCP_RESULT,
    OF_CALL,
    OF_CITATION,
    OF_COMPACTION,
    OF_RESULT,
    RESULT,
    UPLOAD,
    content_of_result,
)
from llm_proxy.dialects.capabilities import as_object, kept
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

_PAGE: Final = "web_search_result_location"
_DOCUMENT: Final = "char_location"

_LOCATIONS: Final[Mapping[str, Mapping[str, Json]]] = {
    _PAGE: {},
    "search_result_location": {
        "search_result_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
    _DOCUMENT: {"document_index": 0, "start_char_index": 0, "end_char_index": 0},
    "page_location": {"document_index": 0, "start_page_number": 1, "end_page_number": 1},
    "content_block_location": {
        "document_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
}  # fmt: skip
"""What each type of citation must say of where the words stand, or clients refuse it."""

LINKS: Final = {_PAGE: "url", "search_result_location": "source"}
"""The field of a source's address, by the type of the citation; documents have none."""

_OF_CALL: Final = ("caller", "toolset_name")
_OF_REFUSAL: Final = (
    "category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim",
)  # fmt: skip
_SERVER: Final = "server"
"""The name of an MCP server that nobody named."""


def text(said: Text) -> Text:
    """A text, and what it rests on."""
    return Text(said.text, tuple(map(_citation, said.citations)))


def _citation(cited: Citation) -> Citation:
    """A page or a document; the whole block rests on it, so there is no span."""
    kind = _type(cited.metadata)
    if not kind.endswith("_location"):
        kind = _PAGE if cited.url else _DOCUMENT
        own: Metadata = ()
    else:
        own = _beside(kind, cited.metadata, OF_CITATION)
    known = dict(own)
    needed = _LOCATIONS.get(kind, {}).items()
    return Citation(
        url=lenient_json.words(cited.url) if kind in LINKS else "",
        title=lenient_json.words(cited.title),
        quoted=lenient_json.words(cited.quoted),
        metadata=(
            *(own or (("type", kind),)),
            *((name, value) for name, value in needed if name not in known),
        ),
    )


def reasoning(thought: Reasoning) -> Reasoning:
    """A thought that can be read, one that is sealed, or a summary of the conversation."""
    if _type(thought.metadata) == COMPACTION:
        return replace(thought, metadata=_beside(COMPACTION, thought.metadata, OF_COMPACTION))
    if thought.redacted and not thought.text:
        return Reasoning(redacted=thought.redacted)
    return Reasoning(thought.text, thought.signature)


def refusal(declined: Refusal) -> Refusal:
    """An explanation, and its category."""
    return Refusal(declined.text, kept(declined.metadata, _OF_REFUSAL))


def call(asked: ToolCall) -> ToolCall:
    """A call whose arguments stand on the wire as they were written."""
    kind = _type(asked.metadata)
    if kind != CALL and kind.endswith(CALL):
        return replace(asked, metadata=_beside(kind, asked.metadata, OF_CALL))
    return replace(asked, metadata=kept(asked.metadata, _OF_CALL))


def call_of_object(asked: ToolCall) -> ToolCall | None:
    """A call whose arguments stand there as an object; None where they are none."""
    arguments = as_object(asked.arguments)
    return None if arguments is None else call(replace(asked, arguments=arguments))


def waits(asked: ToolCall) -> bool:
    """Whether a call waits for the client, who runs those without a type of their own."""
    return not _type(asked.metadata)


def run_elsewhere(asked: ToolCall) -> ToolCall:
    """A call that the provider answered itself, as such; one of this wire's is one already."""
    if not waits(asked):
        return asked
    about = (("type", MCP_CALL), ("server_name", _SERVER))
    return replace(asked, metadata=(*about, *asked.metadata))


def result(given: ToolResult) -> ToolResult:
    """What a tool of the provider's gave back."""
    kind = _type(given.metadata)
    own = _beside(kind, given.metadata, OF_RESULT)
    metadata = own if kind.endswith(RESULT) else (("type", MCP_RESULT),)
    said = replace(given, call_id=lenient_json.words(given.call_id), metadata=metadata)
    value = as_value(said)
    if value is None:
        return replace(said, content=lenient_json.words(given.content))
    has_failed = given.failed or block_decoder.has_failed({"content": value})
    return replace(said, content=lenient_json.compact(value), failed=has_failed)


def named(given: ToolResult, names: Mapping[str, str]) -> ToolResult:
    """The result with the name that it is read with; `names` tells the tool of each call's id."""
    tool = block_decoder.name_of_tool(_type(given.metadata))
    return replace(given, name=names.get(given.call_id, tool))


def as_value(given: ToolResult) -> Json:
    """What a result holds where that is no text: an object, or a list of blocks; else None."""
    try:
        value = lenient_json.parse(given.content.encode("utf-8", "replace"))
    except ValueError:
        return None
    spelled = lenient_json.compact(value)
    is_itself = spelled and spelled == content_of_result(value)
    of_mcp = _type(given.metadata) == MCP_RESULT
    fits = _is_texts(value) if of_mcp else isinstance(value, dict | list)
    return value if fits and is_itself else None


def _is_texts(value: Json) -> bool:
    """Whether it is a list of blocks of text, which is all that MCP servers give."""
    said = lenient_json.array(value)
    return bool(said) and all(lenient_json.fields(it).get("type") == "text" for it in said)


def media(shown: Media) -> Media | None:
    """A file that a tool made; this model shows nothing else."""
    if _type(shown.metadata) != UPLOAD:
        return None
    return Media("*/*", metadata=_beside(UPLOAD, shown.metadata, ()))


def _type(metadata: Metadata) -> str:
    """What the part says that it is, in the words of the wire that it came from."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) else ""


def _beside(kind: str, metadata: Metadata, known: Iterable[str]) -> Metadata:
    """The type, and what else stands beside a part and has no place of its own."""
    said = {"type": kind, **{name: it for name, it in metadata if name not in known}}
    return lenient_json.metadata(said, said)
