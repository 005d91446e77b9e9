"""What a `/v2/chat` response can represent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata, text_argument_call
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.v2_decoder import CITATIONS, METADATA, OF_TEXT, PLAN
from llm_proxy.turns import Citation, Finish, Json, Part, Reasoning, Text, ToolCall, Turn

_WORDS: Final = {
    Finish.STOP: "COMPLETE",
    Finish.STOP_SEQUENCE: "STOP_SEQUENCE",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.TOOL_CALLS: "TOOL_CALL",
    Finish.CONTENT_FILTER: shared_fields.ERROR,
    Finish.ERROR: shared_fields.ERROR,
}

TOOL: Final = "tool"
_DOCUMENT: Final = "document"
"""The kinds of sources."""


def capabilities(*, stream: bool) -> Capabilities:
    """The words of a stream, or of a document."""
    return Capabilities(
        dialect="cohere",
        streams=stream,
        finish_of_raw=shared_fields.FINISH,
        raw_of_finish=_WORDS,
        convert_text=partial(
            citations_and_usage.convert_cited_text, convert_citation=_convert_citation
        ),
        convert_reasoning=_convert_reasoning,
        convert_tool_call=text_argument_call,
        merged_kinds=frozenset((Text,)),
        part_order=() if stream else (Reasoning, Text, ToolCall),
        id_prefix="co-",
        names_model=False,
        usage_fields=citations_and_usage.COUNTS,
        required_usage_fields=citations_and_usage.ALWAYS,
        always_has_usage=True,
        metadata_names=METADATA,
        arrange=partial(_arrange, stream=stream),
        convert_failure=errors.as_stream_error if stream else errors.as_whole_error,
        convert_failed_turn=citations_and_usage.as_failed_stream,
    )


def is_tool_plan(part: Part) -> bool:
    """Whether it is reasoning that plans calls."""
    return isinstance(part, Reasoning) and part.metadata == PLAN


def _convert_reasoning(reasoning: Reasoning) -> Reasoning | None:
    metadata = PLAN if PLAN[0] in reasoning.metadata else ()
    return Reasoning(reasoning.text, metadata=metadata) if reasoning.text else None


def _convert_citation(cited: Citation) -> Citation:
    name = citations_and_usage.citation_source_name(cited)
    has_source = bool(cited.url or cited.title or cited.quoted or name)
    is_tool = (shared_fields.OF_SOURCE[1], TOOL) in cited.metadata
    kind = TOOL if is_tool else _DOCUMENT
    fields = dict(cited.metadata) | {
        shared_fields.OF_CITATION[1]: OF_TEXT[0],
        **dict(zip(shared_fields.OF_SOURCE, (name, kind if has_source else ""), strict=True)),
    }
    metadata = citations_and_usage.citation_metadata(fields)
    return Citation(
        cited.url, cited.title, cited.quoted, citations_and_usage.cited_span(cited), metadata
    )


def _arrange(turn: Turn, *, stream: bool) -> Turn:
    """With blocks numbered for their citations; a document has one plan, and that first."""
    parts = turn.parts if stream else sorted(turn.parts, key=lambda part: not is_tool_plan(part))
    numbered = tuple(_number_citations(_merge_into_blocks(parts)))
    fields = dict(citations_and_usage.with_billed_units(turn).metadata)
    fields[CITATIONS] = list(_decode_non_text_citations(fields.get(CITATIONS)))
    return replace(
        turn, parts=numbered, metadata=nonempty_metadata(tuple(fields.items()), METADATA)
    )


def _merge_into_blocks(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts, with neighbours among the thoughts as one, and among the plans."""
    for kind, group in groupby(parts, lambda part: (type(part), is_tool_plan(part))):
        if kind[0] is Reasoning:
            thoughts = [item for item in group if isinstance(item, Reasoning)]
            yield replace(thoughts[0], text="".join(thought.text for thought in thoughts))
        else:
            yield from group


def _number_citations(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts, their citations with the number of the block that they are of, if not nought."""
    at = 0
    for part in parts:
        if isinstance(part, Text):
            cited = tuple(
                _citation_of_block(citation, part.text, at) for citation in part.citations
            )
            yield replace(part, citations=cited)
        else:
            yield part
        at += isinstance(part, Text | Reasoning) and not is_tool_plan(part)


def _citation_of_block(cited: Citation, text: str, at: int) -> Citation:
    fields = citations_and_usage.with_cited_words(cited, text) | {
        shared_fields.OF_CITATION[2]: at or None
    }
    return replace(cited, metadata=citations_and_usage.citation_metadata(fields))


def _decode_non_text_citations(value: Json) -> Iterable[Json]:
    for object_item in lenient_json.object_items(value):
        kind = object_item.get("type")
        if isinstance(kind, str) and kind not in OF_TEXT:
            yield dict(lenient_json.named_metadata(object_item, object_item))
