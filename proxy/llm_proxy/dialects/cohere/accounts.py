"""What both versions of Cohere's API tell of an answer's cost, and of whom it cites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.dialects import reading
from llm_proxy.dialects.cohere import terms
from llm_proxy.dialects.speech import Document
from llm_proxy.dialects.vocabulary import kept
from llm_proxy.turns import Citation, Finish, Json, Metadata, Text, Turn

COUNTS: Final = (*terms.COUNTS, "cache_read")
"""The counts that an answer tells."""

ALWAYS: Final = ("input", "output")
"""Those that every answer tells."""


def paid(turn: Turn) -> Turn:
    """The turn with what is paid for it, which is what it counts, where it does not say."""
    if turn.usage is None:
        return turn
    said = dict(turn.metadata)
    if not isinstance(said.get(terms.PAID), dict):
        said[terms.PAID] = {terms.COUNTS[name]: getattr(turn.usage, name) for name in ALWAYS}
    return replace(turn, metadata=tuple(said.items()))


def failed(turn: Turn) -> Turn:
    """What a stream tells of a turn that an error breaks off."""
    return replace(turn, usage=None, metadata=(), finish=Finish.ERROR, finish_raw=terms.ERROR)


def account(turn: Turn) -> Document:
    """The counts of a turn, and what stands beside them."""
    usage = turn.usage
    if usage is None:
        return {}
    tokens: Document = {
        name: count
        for field, name in terms.COUNTS.items()
        if (count := getattr(usage, field)) is not None
    }
    cached = {} if usage.cache_read is None else {terms.CACHED: usage.cache_read}
    beside: Document = dict(kept(turn.metadata, terms.ACCOUNT))
    among: Document = dict(kept(turn.metadata, terms.ACCOUNT_OF_TOKENS))
    return {**beside, "tokens": {**tokens, **among}, **cached}


def cited(text: Text, lens: Callable[[Citation], Citation]) -> Text:
    """A text with its citations as this version tells them: no words, no citations."""
    return Text(text.text, tuple(map(lens, text.citations)) if text.text else ())


def span(cited: Citation) -> tuple[int, int] | None:
    """The characters that rest on a source, if there are any."""
    return cited.span if cited.span and cited.span[0] < cited.span[1] else None


def with_words(cited: Citation, text: str) -> dict[str, Json]:
    """The metadata of a citation of this text, with the words that it is for."""
    name = terms.OF_CITATION[0]
    said = dict(cited.metadata)
    given = said.get(name)
    if isinstance(given, str) and given:
        return said
    within = span(cited)
    return {**said, name: text[slice(*within)] if within else ""}


def source_name(cited: Citation) -> str:
    """What the source of a citation is known by."""
    name = dict(cited.metadata).get(terms.OF_SOURCE[0])
    return name if isinstance(name, str) else ""


def citation_fields(cited: Citation) -> Document:
    """A citation, but for its sources."""
    within = {} if cited.span is None else {"start": cited.span[0], "end": cited.span[1]}
    return {**within, "text": "", **dict(kept(cited.metadata, terms.OF_CITATION))}


def by_span(citations: Sequence[Citation]) -> Iterator[list[Citation]]:
    """Those that one citation on the wire tells, since they are of the same words."""
    for has_source, group in groupby(citations, _same):
        alike = list(group)
        yield from [alike] if has_source[-1] else ([it] for it in alike)


def _same(cited: Citation) -> tuple[tuple[int, int] | None, bytes, bool]:
    has_source = any(name in terms.OF_SOURCE for name, _ in cited.metadata)
    said: dict[str, Json] = dict(kept(cited.metadata, terms.OF_CITATION))
    return cited.span, reading.compact(said).encode("utf-8", "replace"), has_source


def metadata(said: dict[str, Json]) -> Metadata:
    """The metadata of a citation."""
    return reading.metadata(said, (*terms.OF_CITATION, *terms.OF_SOURCE))
