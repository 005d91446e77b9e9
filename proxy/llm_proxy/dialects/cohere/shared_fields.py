"""What both versions of Cohere's API spell alike: finish reasons, counts, sources, errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Citation, Failure, Finish, Metadata, Usage

FINISH: Final = {
    "COMPLETE": Finish.STOP,
    "STOP_SEQUENCE": Finish.STOP_SEQUENCE,
    "MAX_TOKENS": Finish.LENGTH,
    "TOOL_CALL": Finish.TOOL_CALLS,
    "ERROR": Finish.ERROR,
    "ERROR_LIMIT": Finish.CONTEXT_FULL,
    "ERROR_TOXIC": Finish.CONTENT_FILTER,
    "TIMEOUT": Finish.ERROR,
}
"""`USER_CANCEL` is `OTHER`."""

ERROR: Final = "ERROR"
"""Why an answer ends that an error breaks off."""

PAID: Final = "billed_units"
ACCOUNT: Final = (PAID, "warnings")
ACCOUNT_OF_TOKENS: Final = ("image_tokens",)
"""The metadata that stands beside the counts, and among them."""

COUNTS: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_tokens",
}
"""What the fields of `Usage` are called among the tokens."""

CACHED: Final = "cached_tokens"

OF_CITATION: Final = ("text", "type", "content_index")
OF_SOURCE: Final = ("source", "source_type")
"""The metadata of a citation: what it says itself, and what its source does."""

_QUOTED: Final = ("text", "snippet", "content", "output")
"""Where documents and the results of tools keep their words."""


def finish(raw: str) -> Finish | None:
    """The shared word for one of Cohere's; None where it said nothing."""
    return FINISH.get(raw, Finish.OTHER) if raw else None


def usage(said: Fields) -> Usage | None:
    """The counts in `usage` (version 2) or `meta` (version 1).

    `tokens` counts what the model read and wrote, `billed_units` what is paid for, which is
    less; `/v1/generate` says only the latter.
    """
    tokens = lenient_json.fields(said.get("tokens"))
    counts = tokens or lenient_json.fields(said.get(PAID))
    if not counts:
        return None
    return Usage(
        input=lenient_json.count(counts.get(COUNTS["input"])),
        output=lenient_json.count(counts.get(COUNTS["output"])),
        cache_read=lenient_json.count(said.get(CACHED)),
        reasoning=lenient_json.count(tokens.get(COUNTS["reasoning"])),
    )


def account(said: Fields) -> Metadata:
    """What stands beside the counts, in the same place."""
    tokens = lenient_json.fields(said.get("tokens"))
    return (
        *lenient_json.metadata(said, ACCOUNT),
        *lenient_json.metadata(tokens, ACCOUNT_OF_TOKENS),
    )


def failure(said: Fields) -> Failure | None:
    """The error that an event or a document reports: a message, with its type beside it.

    `message` is an object in an answer, and a string in an error.
    """
    message = said.get("message")
    alone = message if isinstance(message, str) else None
    candidates = (said.get("error"), said.get("err"), alone)
    error = next((it for it in candidates if it and it is not True), None)
    if error is None:
        return None
    read = json_api.failure(error)
    return replace(read, type=lenient_json.words(said.get("error_type")) or read.type)


@dataclass(frozen=True, slots=True)
class Source:
    """A document, or the result of a tool, that a citation may name."""

    url: str = ""
    title: str = ""
    quoted: str = ""
    metadata: Metadata = ()


def source(about: Fields, metadata: Metadata = ()) -> Source:
    """A source as its fields describe it; applications choose most of their names."""
    return Source(
        url=lenient_json.words(about.get("url")),
        title=lenient_json.words(about.get("title")),
        quoted=next(filter(None, (lenient_json.words(about.get(name)) for name in _QUOTED)), ""),
        metadata=metadata,
    )


def citations(said: Fields, documents: Mapping[str, Source]) -> Iterator[Citation]:
    """One citation for each source that a span of the text rests on.

    Version 2 spells the sources out, version 1 names documents.  The span's own words are the
    answer's, not the source's: they are kept as `text`.
    """
    start, end = lenient_json.count(said.get("start")), lenient_json.count(said.get("end"))
    span = None if start is None or end is None or start >= end else (start, end)
    beside = lenient_json.metadata(said, OF_CITATION)
    for it in [*_sources(said, documents)] or [Source()]:
        yield Citation(it.url, it.title, it.quoted, span, (*beside, *it.metadata))


def _sources(said: Fields, documents: Mapping[str, Source]) -> Iterator[Source]:
    for each in lenient_json.objects(said.get("sources")):
        about = lenient_json.fields(each.get("document") or each.get("tool_output"))
        named = zip(OF_SOURCE, (each.get("id"), each.get("type")), strict=True)
        yield source(about, lenient_json.metadata(dict(named), OF_SOURCE))
    for name in map(lenient_json.words, lenient_json.array(said.get("document_ids"))):
        known = documents.get(name, Source())
        yield replace(known, metadata=((OF_SOURCE[0], name),))
