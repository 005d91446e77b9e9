"""What an answer of Cohere's `/v1/chat` has words for: one text, then calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Vocabulary, call_of_object, kept
from llm_proxy.dialects.cohere import citations_and_usage, errors, shared_fields
from llm_proxy.dialects.cohere.shared_fields import Source
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


def vocabulary(response_id: str, *, stream: bool) -> Vocabulary:
    """The words of a stream, or of a document; `response_id` is for a turn that has none."""
    return Vocabulary(
        dialect="cohere",
        streams=stream,
        finishes=shared_fields.FINISH,
        words=_WORDS,
        calls_stop=True,
        text=partial(citations_and_usage.cited, lens=_cited),
        call=_call,
        joined=frozenset((Text,)),
        order=(Text, ToolCall),
        id_prefix="co-",
        names_model=False,
        counts=citations_and_usage.COUNTS,
        always=citations_and_usage.ALWAYS,
        counts_always=True,
        keeps=METADATA,
        arranged=partial(_arranged, response_id=response_id),
        failure=errors.amid if stream else errors.instead,
        failed=citations_and_usage.failed,
    )


def _call(call: ToolCall) -> ToolCall | None:
    """A call whose parameters are an object; it has no id."""
    told = call_of_object(call)
    return None if told is None else replace(told, id="")


def _cited(cited: Citation) -> Citation:
    """A citation with its words and the name of its document."""
    said = {**dict(cited.metadata), _SOURCE: citations_and_usage.source_name(cited)}
    beside = kept(tuple(said.items()), (shared_fields.OF_CITATION[0], _SOURCE))
    return Citation(cited.url, cited.title, cited.quoted, citations_and_usage.span(cited), beside)


def _arranged(turn: Turn, response_id: str) -> Turn:
    """With what is paid, an id of the response, and the documents that citations name."""
    said = dict(citations_and_usage.paid(turn).metadata)
    library = _Library(said.get(_DOCUMENTS))
    named = [*library.catalogued(turn.parts)]
    parts = tuple(library.catalogued(named))  # a citation may name what a later one describes
    said[_DOCUMENTS] = library.documents
    said[RESPONSE_ID] = lenient_json.words(said.get(RESPONSE_ID)) or response_id
    return replace(turn, parts=parts, metadata=kept(tuple(said.items()), METADATA))


class _Library:
    """The documents of an answer, each under a name of its own."""

    def __init__(self, documents: Json) -> None:
        self.documents: list[Json] = [dict(it) for it in lenient_json.objects(documents)]
        named = ((lenient_json.words(it.get("id")), it) for it in lenient_json.objects(documents))
        self._known = {name: shared_fields.source(it) for name, it in named if name}

    def catalogued(self, parts: Iterable[Part]) -> Iterable[Part]:
        """The parts, whose citations name the documents that they are of."""
        for part in parts:
            if isinstance(part, Text):
                cited = tuple(self._catalogued(it, part.text) for it in part.citations)
                yield replace(part, citations=cited)
            else:
                yield part

    def _catalogued(self, cited: Citation, text: str) -> Citation:
        name = citations_and_usage.source_name(cited)
        about = Source(cited.url, cited.title, cited.quoted)
        if about == Source():
            about = self._known.get(name, about)
        else:
            name = self._named(name, about)
        beside = citations_and_usage.metadata(
            {**citations_and_usage.with_words(cited, text), _SOURCE: name}
        )
        return Citation(about.url, about.title, about.quoted, cited.span, beside)

    def _named(self, name: str, about: Source) -> str:
        """The name of a document like this, which is added where there is none."""
        if name and self._known.get(name, about) == about:
            return name if name in self._known else self._added(name, about)
        alike = next((it for it, known in self._known.items() if known == about), "")
        return alike or self._added(self._unused(), about)

    def _unused(self) -> str:
        names = (f"doc_{number}" for number in range(len(self._known) + 1))
        return next(name for name in names if name not in self._known)

    def _added(self, name: str, about: Source) -> str:
        fields = {"title": about.title, "snippet": about.quoted, "url": about.url}
        said: dict[str, Json] = {field: value for field, value in fields.items() if value}
        self.documents.append({"id": name, **said})
        self._known[name] = about
        return name
