"""What a `/v2/chat` response can represent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    tool_call_with_text_arguments,
)
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.v2_decoder import (
    CITATIONS,
    METADATA_FIELDS,
    TEXT_CITATION_TYPES,
    TOOL_PLAN_METADATA,
)
from llm_proxy.turns import Citation, FinishReason, Json, Part, Reasoning, Text, ToolCall, Turn

_RAW_OF_FINISH: Final = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.STOP_SEQUENCE: "STOP_SEQUENCE",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.TOOL_CALLS: "TOOL_CALL",
    FinishReason.CONTENT_FILTER: shared_fields.ERROR_FINISH,
    FinishReason.ERROR: shared_fields.ERROR_FINISH,
}

TOOL_SOURCE: Final = "tool"
_DOCUMENT_SOURCE: Final = "document"
"""The types of sources."""


def capabilities(*, stream: bool) -> Capabilities:
    """What a stream or a document can hold."""
    return Capabilities(
        dialect="cohere",
        is_streamed=stream,
        finish_by_raw_reason=shared_fields.FINISH_BY_REASON,
        raw_reason_by_finish=_RAW_OF_FINISH,
        convert_text=partial(
            citations_and_usage.convert_cited_text, convert_citation=_convert_citation
        ),
        convert_reasoning=_convert_reasoning,
        convert_tool_call=tool_call_with_text_arguments,
        merged_kinds=frozenset((Text,)),
        part_order=() if stream else (Reasoning, Text, ToolCall),
        id_prefix="co-",
        includes_model=False,
        usage_fields=citations_and_usage.USAGE_FIELDS,
        required_usage_fields=citations_and_usage.REQUIRED_USAGE_FIELDS,
        always_has_usage=True,
        metadata_names=METADATA_FIELDS,
        normalize_turn=partial(_normalize_turn, stream=stream),
        convert_failure=errors.as_stream_error_failure if stream else errors.as_http_error_failure,
        convert_failed_turn=citations_and_usage.failed_stream_turn,
    )


def is_tool_plan(part: Part) -> bool:
    """Whether it is reasoning from `tool_plan`, which announces tool calls."""
    return isinstance(part, Reasoning) and part.metadata == TOOL_PLAN_METADATA


def _convert_reasoning(reasoning: Reasoning) -> Reasoning | None:
    metadata = TOOL_PLAN_METADATA if TOOL_PLAN_METADATA[0] in reasoning.metadata else ()
    return Reasoning(reasoning.text, metadata=metadata) if reasoning.text else None


def _convert_citation(citation: Citation) -> Citation:
    source_id = citations_and_usage.citation_source_id(citation)
    has_source = bool(citation.url or citation.title or citation.quoted or source_id)
    is_tool = (shared_fields.SOURCE_METADATA[1], TOOL_SOURCE) in citation.metadata
    source_type = TOOL_SOURCE if is_tool else _DOCUMENT_SOURCE
    fields = dict(citation.metadata) | {
        shared_fields.CITATION_METADATA[1]: TEXT_CITATION_TYPES[0],
        **dict(
            zip(
                shared_fields.SOURCE_METADATA,
                (source_id, source_type if has_source else ""),
                strict=True,
            )
        ),
    }
    metadata = citations_and_usage.citation_metadata(fields)
    return Citation(
        citation.url,
        citation.title,
        citation.quoted,
        citations_and_usage.nonempty_span(citation),
        metadata,
    )


def _normalize_turn(turn: Turn, *, stream: bool) -> Turn:
    """The turn with merged blocks and indexed citations; in a document, tool plans come first."""
    parts = turn.parts if stream else sorted(turn.parts, key=lambda part: not is_tool_plan(part))
    numbered = tuple(_set_content_indices(_merge_adjacent_reasoning(parts)))
    fields = dict(citations_and_usage.with_billed_units(turn).metadata)
    fields[CITATIONS] = list(_keep_non_text_citations(fields.get(CITATIONS)))
    return replace(
        turn, parts=numbered, metadata=nonempty_metadata(tuple(fields.items()), METADATA_FIELDS)
    )


def _merge_adjacent_reasoning(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts; neighbouring thoughts become one, and so do neighbouring tool plans."""
    for key, group in groupby(parts, lambda part: (type(part), is_tool_plan(part))):
        if key[0] is Reasoning:
            thoughts = [item for item in group if isinstance(item, Reasoning)]
            yield replace(thoughts[0], text="".join(thought.text for thought in thoughts))
        else:
            yield from group


def _set_content_indices(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts; each citation has the `content_index` of its block, which is left out for 0."""
    content_index = 0
    for part in parts:
        if isinstance(part, Text):
            citations = tuple(
                _with_content_index(citation, part.text, content_index)
                for citation in part.citations
            )
            yield replace(part, citations=citations)
        else:
            yield part
        content_index += isinstance(part, Text | Reasoning) and not is_tool_plan(part)


def _with_content_index(citation: Citation, text: str, content_index: int) -> Citation:
    fields = citations_and_usage.metadata_with_cited_text(citation, text) | {
        shared_fields.CITATION_METADATA[2]: content_index or None
    }
    return replace(citation, metadata=citations_and_usage.citation_metadata(fields))


def _keep_non_text_citations(value: Json) -> Iterable[Json]:
    for object_item in lenient_json.array_objects(value):
        kind = object_item.get("type")
        if isinstance(kind, str) and kind not in TEXT_CITATION_TYPES:
            yield dict(lenient_json.select_metadata(object_item, object_item))
