"""What an answer of Cohere's `/v2/chat` has words for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Vocabulary, call_in_words, kept
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


def vocabulary(*, stream: bool) -> Vocabulary:
    """The words of a stream, or of a document."""
    return Vocabulary(
        dialect="cohere",
        streams=stream,
        finishes=shared_fields.FINISH,
        words=_WORDS,
        text=partial(citations_and_usage.cited, lens=_cited),
        reasoning=_thought,
        call=call_in_words,
        joined=frozenset((Text,)),
        order=() if stream else (Reasoning, Text, ToolCall),
        id_prefix="co-",
        names_model=False,
        counts=citations_and_usage.COUNTS,
        always=citations_and_usage.ALWAYS,
        counts_always=True,
        keeps=METADATA,
        arranged=partial(_arranged, stream=stream),
        failure=errors.amid if stream else errors.instead,
        failed=citations_and_usage.failed,
    )


def is_plan(part: Part) -> bool:
    """Whether it is reasoning that plans calls."""
    return isinstance(part, Reasoning) and part.metadata == PLAN


def _thought(reasoning: Reasoning) -> Reasoning | None:
    """Readable reasoning, and the plan of calls, which is told apart."""
    beside = PLAN if PLAN[0] in reasoning.metadata else ()
    return Reasoning(reasoning.text, metadata=beside) if reasoning.text else None


def _cited(cited: Citation) -> Citation:
    """A citation with the kind of its source."""
    name = citations_and_usage.source_name(cited)
    has_source = bool(cited.url or cited.title or cited.quoted or name)
    is_tool = (shared_fields.OF_SOURCE[1], TOOL) in cited.metadata
    kind = TOOL if is_tool else _DOCUMENT
    said = dict(cited.metadata) | {
        shared_fields.OF_CITATION[1]: OF_TEXT[0],
        **dict(zip(shared_fields.OF_SOURCE, (name, kind if has_source else ""), strict=True)),
    }
    beside = citations_and_usage.metadata(said)
    return Citation(cited.url, cited.title, cited.quoted, citations_and_usage.span(cited), beside)


def _arranged(turn: Turn, *, stream: bool) -> Turn:
    """With blocks numbered for their citations; a document has one plan, and that first."""
    parts = turn.parts if stream else sorted(turn.parts, key=lambda part: not is_plan(part))
    numbered = tuple(_numbered(_as_blocks(parts)))
    said = dict(citations_and_usage.paid(turn).metadata)
    said[CITATIONS] = list(_elsewhere(said.get(CITATIONS)))
    return replace(turn, parts=numbered, metadata=kept(tuple(said.items()), METADATA))


def _as_blocks(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts, with neighbours among the thoughts as one, and among the plans."""
    for kind, group in groupby(parts, lambda part: (type(part), is_plan(part))):
        if kind[0] is Reasoning:
            thoughts = [it for it in group if isinstance(it, Reasoning)]
            yield replace(thoughts[0], text="".join(it.text for it in thoughts))
        else:
            yield from group


def _numbered(parts: Iterable[Part]) -> Iterable[Part]:
    """The parts, their citations with the number of the block that they are of, if not nought."""
    at = 0
    for part in parts:
        if isinstance(part, Text):
            cited = tuple(_of_block(it, part.text, at) for it in part.citations)
            yield replace(part, citations=cited)
        else:
            yield part
        at += isinstance(part, Text | Reasoning) and not is_plan(part)


def _of_block(cited: Citation, text: str, at: int) -> Citation:
    said = citations_and_usage.with_words(cited, text) | {shared_fields.OF_CITATION[2]: at or None}
    return replace(cited, metadata=citations_and_usage.metadata(said))


def _elsewhere(value: Json) -> Iterable[Json]:
    """Citations that rest on the plan or the thoughts, and say so."""
    for each in lenient_json.objects(value):
        kind = each.get("type")
        if isinstance(kind, str) and kind not in OF_TEXT:
            yield dict(lenient_json.metadata(each, each))
