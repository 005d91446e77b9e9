"""The content blocks of Anthropic's messages, whole or in deltas, as parts of a turn.

Deltas grow the block that `content_block_start` opened; grown, it is the same object that a
response which does not stream holds, so both are read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

_GROWS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""What a delta grows: the type of the block, where its start is missing, and the field."""

_REPLACES: Final = {
    "signature_delta": ("thinking", ("signature",)),
    "compaction_delta": ("compaction", ("content", "encrypted_content")),
}
"""What a delta gives whole; where it comes twice, the second counts."""

OF_CALL: Final = ("id", "name", "input", "partial_json")
OF_RESULT: Final = ("tool_use_id", "content", "is_error")
OF_COMPACTION: Final = ("content", "signature", "encrypted_content")
OF_CITATION: Final = ("cited_text", "url", "source", "title", "document_title")
"""The fields of a block or a citation that have words of their own."""

CALL: Final = "tool_use"
MCP_CALL: Final = "mcp_tool_use"
MCP_RESULT: Final = "mcp_tool_result"
RESULT: Final = "_tool_result"
"""How the types of results end."""

COMPACTION: Final = "compaction"
UPLOAD: Final = "container_upload"


def says(delta: Fields) -> int:
    """How many characters a delta adds to what was said; a piece of a call counts as one at least.

    Seals and citations add none.
    """
    kind = lenient_json.words(delta.get("type"))
    if kind in _GROWS:
        of, name = _GROWS[kind]
        return max(len(lenient_json.text(delta.get(name))), int(of == CALL))
    return max(len(lenient_json.text(delta.get("content"))), 1) if kind == "compaction_delta" else 0


class Block:
    """One content block, as its deltas come."""

    def __init__(self, start: Fields, *, closed: bool = False) -> None:
        self._fields: dict[str, Json] = dict(start)
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self.closed = closed
        """Whether it was said that nothing more would come."""

    def take(self, delta: Fields) -> None:
        """Read one delta; those of unknown types are left out."""
        kind = lenient_json.words(delta.get("type"))
        if kind in _GROWS:
            of, name = _GROWS[kind]
            self._pieces.setdefault(name, []).append(lenient_json.text(delta.get(name)))
        elif kind in _REPLACES:
            of, names = _REPLACES[kind]
            self._fields.update((name, delta.get(name)) for name in names)
        elif kind == "citations_delta":
            of = "text"
            self._citations.append(delta.get("citation"))
        else:
            return
        self._fields.setdefault("type", of)

    def content(self) -> Fields:
        """The block as it stands; of a tool call, the JSON as it was written is `partial_json`."""
        grown: dict[str, Json] = {
            name: lenient_json.joined([lenient_json.text(self._fields.get(name)), *pieces])
            for name, pieces in self._pieces.items()
        }
        if self._citations:
            grown["citations"] = [
                *lenient_json.array(self._fields.get("citations")),
                *self._citations,
            ]
        if is_call(self._fields) and not grown.get("partial_json"):
            grown["partial_json"] = self._unwritten()
        return {**self._fields, **grown}

    def _unwritten(self) -> str:
        """The arguments of a call without deltas: an open one may not have begun to write."""
        given = self._fields.get("input")
        return lenient_json.compact(given) if given or (self.closed and given is not None) else ""


def is_call(block: Fields) -> bool:
    """Whether it is a call: `tool_use`, `server_tool_use`, `mcp_tool_use`."""
    return lenient_json.words(block.get("type")).endswith(CALL)


def part(block: Fields, names: Mapping[str, str]) -> Part | None:
    """What a block says; None for the types that no part has a word for.

    `names` tells the tool behind each id, since a result gives its call's id alone.
    """
    match block.get("type"):
        case "text":
            return _text(block)
        case "thinking":
            return Reasoning(
                lenient_json.words(block.get("thinking")),
                lenient_json.words(block.get("signature")) or None,
            )
        case "redacted_thinking":
            return Reasoning(redacted=lenient_json.words(block.get("data")) or None)
        case it if it == COMPACTION:
            return _compaction(block)
        case it if it == UPLOAD:
            return Media("*/*", metadata=lenient_json.metadata(block, block))
        case str(kind) if kind.endswith(CALL):
            return _tool_call(block)
        case str(kind) if kind.endswith(RESULT):
            return _tool_result(block, names)
        case _:
            return None


def _text(block: Fields) -> Text:
    citations = tuple(_citation(it) for it in lenient_json.objects(block.get("citations")))
    return Text(lenient_json.words(block.get("text")), citations)


def _citation(cited: Fields) -> Citation:
    """A page or a document; its places are counted in the source, so there is no span."""
    return Citation(
        url=lenient_json.words(cited.get("url") or cited.get("source")),
        title=lenient_json.words(cited.get("title") or cited.get("document_title")),
        quoted=lenient_json.words(cited.get("cited_text")),
        metadata=_beside(cited, OF_CITATION),
    )


def _compaction(block: Fields) -> Reasoning:
    """A summary that stands for the conversation so far, to be handed back like reasoning."""
    return Reasoning(
        lenient_json.words(block.get("content")),
        signature=lenient_json.words(block.get("signature")) or None,
        redacted=lenient_json.words(block.get("encrypted_content")) or None,
        metadata=_beside(block, OF_COMPACTION),
    )


def _tool_call(block: Fields) -> ToolCall:
    """A call of the client's tool; of the provider's own tools, the type stands beside it."""
    is_plain = block.get("type") == CALL
    return ToolCall(
        id=lenient_json.words(block.get("id")),
        name=lenient_json.words(block.get("name")),
        arguments=lenient_json.words(block.get("partial_json")),
        metadata=_beside(block, (*OF_CALL, "type") if is_plain else OF_CALL),
    )


def _tool_result(block: Fields, names: Mapping[str, str]) -> ToolResult:
    """What a tool that the provider ran gave back; anything but plain text as JSON."""
    call_id = lenient_json.words(block.get("tool_use_id"))
    return ToolResult(
        call_id,
        content=content_of_result(block.get("content")),
        name=names.get(call_id, name_of_tool(lenient_json.words(block.get("type")))),
        failed=has_failed(block),
        metadata=_beside(block, OF_RESULT),
    )


def name_of_tool(kind: str) -> str:
    """The tool that gives results of this type; an MCP server has tools of any name."""
    return "" if kind == MCP_RESULT else kind.removesuffix(RESULT)


def has_failed(result: Fields) -> bool:
    """Whether a result says that the tool failed, in a flag or by the type of what it holds."""
    kind = lenient_json.words(lenient_json.fields(result.get("content")).get("type"))
    return result.get("is_error") is True or kind.endswith("_error")


def content_of_result(content: Json) -> str:
    """What a result holds, in words or as JSON; one block of text is its text."""
    match content:
        case [{"type": "text", "text": str(text)}]:
            return lenient_json.joined([text])
        case _:
            return lenient_json.words(content)


def _beside(source: Fields, known: tuple[str, ...]) -> Metadata:
    return lenient_json.metadata(source, (name for name in source if name not in known))
