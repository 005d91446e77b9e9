"""Usage and citations, as both versions of Cohere's API encode them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.cohere import shared_fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Finish, Json, Metadata, Text, Turn

COUNTS: Final = (*shared_fields.COUNTS, "cache_read")
"""The counts that an answer tells."""

ALWAYS: Final = ("input", "output")
"""Those that every answer tells."""


def with_billed_units(turn: Turn) -> Turn:
    """The turn with what is paid for it, which is what it counts, where it does not say."""
    if turn.usage is None:
        return turn
    fields = dict(turn.metadata)
    if not isinstance(fields.get(shared_fields.PAID), dict):
        fields[shared_fields.PAID] = {
            shared_fields.COUNTS[name]: getattr(turn.usage, name) for name in ALWAYS
        }
    return replace(turn, metadata=tuple(fields.items()))


def as_failed_stream(turn: Turn) -> Turn:
    """What a stream tells of a turn that an error breaks off."""
    return replace(
        turn, usage=None, metadata=(), finish=Finish.ERROR, finish_raw=shared_fields.ERROR
    )


def usage_account(turn: Turn) -> Document:
    """The counts of a turn, and what stands beside them."""
    usage = turn.usage
    if usage is None:
        return {}
    tokens: Document = {
        name: count
        for field, name in shared_fields.COUNTS.items()
        if (count := getattr(usage, field)) is not None
    }
    cached = {} if usage.cache_read is None else {shared_fields.CACHED: usage.cache_read}
    document: Document = dict(nonempty_metadata(turn.metadata, shared_fields.ACCOUNT))
    among: Document = dict(nonempty_metadata(turn.metadata, shared_fields.ACCOUNT_OF_TOKENS))
    return {**document, "tokens": {**tokens, **among}, **cached}


def convert_cited_text(text: Text, convert_citation: Callable[[Citation], Citation]) -> Text:
    """A text with its citations as this version tells them: no words, no citations."""
    return Text(text.text, tuple(map(convert_citation, text.citations)) if text.text else ())


def cited_span(cited: Citation) -> tuple[int, int] | None:
    """The characters that rest on a source, if there are any."""
    return cited.span if cited.span and cited.span[0] < cited.span[1] else None


def with_cited_words(cited: Citation, text: str) -> dict[str, Json]:
    """The metadata of a citation of this text, with the words that it is for."""
    name = shared_fields.OF_CITATION[0]
    fields = dict(cited.metadata)
    value = fields.get(name)
    if isinstance(value, str) and value:
        return fields
    within = cited_span(cited)
    return {**fields, name: text[slice(*within)] if within else ""}


def citation_source_name(cited: Citation) -> str:
    """What the source of a citation is known by."""
    name = dict(cited.metadata).get(shared_fields.OF_SOURCE[0])
    return name if isinstance(name, str) else ""


def encode_citation_span(cited: Citation) -> Document:
    """A citation, but for its sources."""
    within = {} if cited.span is None else {"start": cited.span[0], "end": cited.span[1]}
    return {
        **within,
        "text": "",
        **dict(nonempty_metadata(cited.metadata, shared_fields.OF_CITATION)),
    }


def group_by_span(citations: Sequence[Citation]) -> Iterator[list[Citation]]:
    """Those that one citation on the wire tells, since they are of the same words."""
    for has_source, group in groupby(citations, _span_identity):
        alike = list(group)
        yield from [alike] if has_source[-1] else ([citation] for citation in alike)


def _span_identity(cited: Citation) -> tuple[tuple[int, int] | None, bytes, bool]:
    has_source = any(name in shared_fields.OF_SOURCE for name, _ in cited.metadata)
    fields: dict[str, Json] = dict(nonempty_metadata(cited.metadata, shared_fields.OF_CITATION))
    return cited.span, lenient_json.compact_json(fields).encode("utf-8", "replace"), has_source


def citation_metadata(fields: dict[str, Json]) -> Metadata:
    """The metadata of a citation."""
    return lenient_json.named_metadata(
        fields, (*shared_fields.OF_CITATION, *shared_fields.OF_SOURCE)
    )
