"""What a `/v1/chat` response can represent: one text, then tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    tool_call_with_object_arguments,
)
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.shared_fields import CitedSource
from llm_proxy.dialects.cohere.v1_decoder import (
    METADATA_FIELDS,
    RESPONSE_ID,
    SEARCH_RESULT_METADATA,
)
from llm_proxy.turns import Citation, FinishReason, Json, Part, Text, ToolCall, Turn

_RAW_OF_FINISH: Final = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.STOP_SEQUENCE: "STOP_SEQUENCE",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTEXT_FULL: "ERROR_LIMIT",
    FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
    FinishReason.ERROR: shared_fields.ERROR_FINISH,
}
"""`TOOL_CALLS` is sent as `COMPLETE`, too."""

_DOCUMENTS_FIELD: Final = SEARCH_RESULT_METADATA[-1]
_SOURCE_ID: Final = shared_fields.SOURCE_METADATA[0]


def capabilities(response_id: str, *, stream: bool) -> Capabilities:
    """What a stream or a document can hold; `response_id` is for a turn that has none."""
    return Capabilities(
        dialect="cohere",
        is_streamed=stream,
        finish_by_raw_reason=shared_fields.FINISH_BY_REASON,
        raw_reason_by_finish=_RAW_OF_FINISH,
        stop_means_tool_calls=True,
        convert_text=partial(
            citations_and_usage.convert_cited_text, convert_citation=_convert_citation
        ),
        convert_tool_call=_convert_tool_call,
        merged_kinds=frozenset((Text,)),
        part_order=(Text, ToolCall),
        id_prefix="co-",
        includes_model=False,
        usage_fields=citations_and_usage.USAGE_FIELDS,
        required_usage_fields=citations_and_usage.REQUIRED_USAGE_FIELDS,
        always_has_usage=True,
        metadata_names=METADATA_FIELDS,
        normalize_turn=partial(_normalize_turn, response_id=response_id),
        convert_failure=errors.as_stream_error_failure if stream else errors.as_http_error_failure,
        convert_failed_turn=citations_and_usage.failed_stream_turn,
    )


def _convert_tool_call(call: ToolCall) -> ToolCall | None:
    """A call whose arguments are an object, without its id; None for other arguments."""
    tool_call = tool_call_with_object_arguments(call)
    return None if tool_call is None else replace(tool_call, id="")


def _convert_citation(citation: Citation) -> Citation:
    fields = {
        **dict(citation.metadata),
        _SOURCE_ID: citations_and_usage.citation_source_id(citation),
    }
    metadata = nonempty_metadata(
        tuple(fields.items()), (shared_fields.CITATION_METADATA[0], _SOURCE_ID)
    )
    return Citation(
        citation.url,
        citation.title,
        citation.quoted,
        citations_and_usage.nonempty_span(citation),
        metadata,
    )


def _normalize_turn(turn: Turn, response_id: str) -> Turn:
    """The turn with billed units, a response id, and the documents that its citations refer to."""
    fields = dict(citations_and_usage.with_billed_units(turn).metadata)
    cited_documents = _CitedDocuments(fields.get(_DOCUMENTS_FIELD))
    parts_with_ids = [*cited_documents.assign_document_ids(turn.parts)]
    parts = tuple(
        cited_documents.assign_document_ids(parts_with_ids)
    )  # a citation may refer to a document that a later one describes
    fields[_DOCUMENTS_FIELD] = cited_documents.documents
    fields[RESPONSE_ID] = lenient_json.value_as_text(fields.get(RESPONSE_ID)) or response_id
    return replace(
        turn, parts=parts, metadata=nonempty_metadata(tuple(fields.items()), METADATA_FIELDS)
    )


class _CitedDocuments:
    """The documents of a response, each with its own id."""

    def __init__(self, documents: Json) -> None:
        self.documents: list[Json] = [
            dict(object_item) for object_item in lenient_json.array_objects(documents)
        ]
        documents_with_ids = (
            (lenient_json.value_as_text(object_item.get("id")), object_item)
            for object_item in lenient_json.array_objects(documents)
        )
        self._sources_by_id = {
            name: shared_fields.decode_source(fields) for name, fields in documents_with_ids if name
        }

    def assign_document_ids(self, parts: Iterable[Part]) -> Iterable[Part]:
        """The parts, whose citations refer to documents by id; missing documents are added."""
        for part in parts:
            if isinstance(part, Text):
                citations = tuple(
                    self._assign_document_id(citation, part.text) for citation in part.citations
                )
                yield replace(part, citations=citations)
            else:
                yield part

    def _assign_document_id(self, citation: Citation, text: str) -> Citation:
        source_id = citations_and_usage.citation_source_id(citation)
        cited_source = CitedSource(citation.url, citation.title, citation.quoted)
        if cited_source == CitedSource():
            cited_source = self._sources_by_id.get(source_id, cited_source)
        else:
            source_id = self._find_or_add_document(source_id, cited_source)
        metadata = citations_and_usage.citation_metadata(
            {**citations_and_usage.metadata_with_cited_text(citation, text), _SOURCE_ID: source_id}
        )
        return Citation(
            cited_source.url, cited_source.title, cited_source.quoted, citation.span, metadata
        )

    def _find_or_add_document(self, document_id: str, cited_source: CitedSource) -> str:
        """The id of the document that equals this source, preferably `document_id`."""
        if document_id and self._sources_by_id.get(document_id, cited_source) == cited_source:
            return (
                document_id
                if document_id in self._sources_by_id
                else self._add_document(document_id, cited_source)
            )
        existing_id = next(
            (known_id for known_id, known in self._sources_by_id.items() if known == cited_source),
            "",
        )
        return existing_id or self._add_document(self._unused_document_id(), cited_source)

    def _unused_document_id(self) -> str:
        document_ids = (f"doc_{number}" for number in range(len(self._sources_by_id) + 1))
        return next(name for name in document_ids if name not in self._sources_by_id)

    def _add_document(self, document_id: str, cited_source: CitedSource) -> str:
        fields = {
            "title": cited_source.title,
            "snippet": cited_source.quoted,
            "url": cited_source.url,
        }
        document: dict[str, Json] = {field: value for field, value in fields.items() if value}
        self.documents.append({"id": document_id, **document})
        self._sources_by_id[document_id] = cited_source
        return document_id
