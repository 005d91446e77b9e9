"""What a `/v1/chat` response can represent: one text, then tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata, object_argument_call
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.shared_fields import CitedSource
from llm_proxy.dialects.cohere.v1_decoder import METADATA, RESPONSE_ID, RESULTS
from llm_proxy.turns import Citation, Finish, Json, Part, Text, ToolCall, Turn

_WORDS: Final = {
    Finish.STOP: "COMPLETE",
    Finish.STOP_SEQUENCE: "STOP_SEQUENCE",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.CONTEXT_FULL: "ERROR_LIMIT",
    Finish.CONTENT_FILTER: "ERROR_TOXIC",
    Finish.ERROR: shared_fields.ERROR,
}
"""It completes also where it stops for its tools."""

_DOCUMENTS: Final = RESULTS[-1]
_SOURCE: Final = shared_fields.OF_SOURCE[0]


def capabilities(response_id: str, *, stream: bool) -> Capabilities:
    """The words of a stream, or of a document; `response_id` is for a turn that has none."""
    return Capabilities(
        dialect="cohere",
        streams=stream,
        finish_of_raw=shared_fields.FINISH,
        raw_of_finish=_WORDS,
        stop_means_tool_calls=True,
        convert_text=partial(
            citations_and_usage.convert_cited_text, convert_citation=_convert_citation
        ),
        convert_tool_call=_convert_tool_call,
        merged_kinds=frozenset((Text,)),
        part_order=(Text, ToolCall),
        id_prefix="co-",
        names_model=False,
        usage_fields=citations_and_usage.COUNTS,
        required_usage_fields=citations_and_usage.ALWAYS,
        always_has_usage=True,
        metadata_names=METADATA,
        arrange=partial(_arrange, response_id=response_id),
        convert_failure=errors.as_stream_error if stream else errors.as_whole_error,
        convert_failed_turn=citations_and_usage.as_failed_stream,
    )


def _convert_tool_call(call: ToolCall) -> ToolCall | None:
    """A call whose parameters are an object; it has no id."""
    tool_call = object_argument_call(call)
    return None if tool_call is None else replace(tool_call, id="")


def _convert_citation(cited: Citation) -> Citation:
    fields = {**dict(cited.metadata), _SOURCE: citations_and_usage.citation_source_name(cited)}
    metadata = nonempty_metadata(tuple(fields.items()), (shared_fields.OF_CITATION[0], _SOURCE))
    return Citation(
        cited.url, cited.title, cited.quoted, citations_and_usage.cited_span(cited), metadata
    )


def _arrange(turn: Turn, response_id: str) -> Turn:
    """With what is paid, an id of the response, and the documents that citations name."""
    fields = dict(citations_and_usage.with_billed_units(turn).metadata)
    library = _CitedDocuments(fields.get(_DOCUMENTS))
    named = [*library.name_cited_documents(turn.parts)]
    parts = tuple(
        library.name_cited_documents(named)
    )  # a citation may name what a later one describes
    fields[_DOCUMENTS] = library.documents
    fields[RESPONSE_ID] = lenient_json.printable_text(fields.get(RESPONSE_ID)) or response_id
    return replace(turn, parts=parts, metadata=nonempty_metadata(tuple(fields.items()), METADATA))


class _CitedDocuments:
    """The documents of an answer, each under a name of its own."""

    def __init__(self, documents: Json) -> None:
        self.documents: list[Json] = [
            dict(object_item) for object_item in lenient_json.object_items(documents)
        ]
        named = (
            (lenient_json.printable_text(object_item.get("id")), object_item)
            for object_item in lenient_json.object_items(documents)
        )
        self._known = {name: shared_fields.decode_source(fields) for name, fields in named if name}

    def name_cited_documents(self, parts: Iterable[Part]) -> Iterable[Part]:
        """The parts, whose citations name the documents that they are of."""
        for part in parts:
            if isinstance(part, Text):
                cited = tuple(
                    self._name_cited_document(citation, part.text) for citation in part.citations
                )
                yield replace(part, citations=cited)
            else:
                yield part

    def _name_cited_document(self, cited: Citation, text: str) -> Citation:
        name = citations_and_usage.citation_source_name(cited)
        cited_source = CitedSource(cited.url, cited.title, cited.quoted)
        if cited_source == CitedSource():
            cited_source = self._known.get(name, cited_source)
        else:
            name = self._document_name_for(name, cited_source)
        metadata = citations_and_usage.citation_metadata(
            {**citations_and_usage.with_cited_words(cited, text), _SOURCE: name}
        )
        return Citation(
            cited_source.url, cited_source.title, cited_source.quoted, cited.span, metadata
        )

    def _document_name_for(self, name: str, cited_source: CitedSource) -> str:
        """The name of a document like this, which is added where there is none."""
        if name and self._known.get(name, cited_source) == cited_source:
            return name if name in self._known else self._add_document(name, cited_source)
        alike = next((text for text, known in self._known.items() if known == cited_source), "")
        return alike or self._add_document(self._unused_name(), cited_source)

    def _unused_name(self) -> str:
        names = (f"doc_{number}" for number in range(len(self._known) + 1))
        return next(name for name in names if name not in self._known)

    def _add_document(self, name: str, cited_source: CitedSource) -> str:
        fields = {
            "title": cited_source.title,
            "snippet": cited_source.quoted,
            "url": cited_source.url,
        }
        document: dict[str, Json] = {field: value for field, value in fields.items() if value}
        self.documents.append({"id": name, **document})
        self._known[name] = cited_source
        return name
