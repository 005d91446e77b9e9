"""Plays recordings with the ids and paths of the requesting client."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.matching import NormalizedDocument, RuleSet
from llm_proxy.ports import Offload
from llm_proxy.routing import RoutedRequest
from llm_proxy.value_replacement import rename_values, value_replacements

_KEPT: Final = 32 * 1024 * 1024
"""Bytes of all recordings, requests too, of which it is kept which names the rules gave."""
_LARGE: Final = 16 * 1024
"""Bytes of a request or an answer that takes a few ms."""
_MANY: Final = 50
"""Values that take a few ms."""


class ResponseRenamer:
    """Renames what the operator's rules named, where a client calls it otherwise."""

    def __init__(self, aside: Offload) -> None:
        """`aside` runs a function that may take its time, while others are answered."""
        self._offload = aside
        self._cached_documents: OrderedDict[str, tuple[Cassette, RuleSet, NormalizedDocument]] = (
            OrderedDict()
        )
        """By file."""
        self._cassette_size = 0
        """Bytes of the recordings that are kept."""

    async def rename_for(self, cassette: Cassette, routed: RoutedRequest) -> tuple[Cassette, int]:
        """The recording as this client would have had it, and how many values it took.

        The same one where no rule named anything, or nothing is called otherwise; and where the
        requests differ by more than names, for then a name may stand for one thing in the one and
        for another thing in the other.
        """
        if not routed.rules.rules or cassette.request.body == routed.stored_request.body:
            return cassette, 0
        fields = routed.normalized_document.aliases
        if not fields:
            return cassette, 0
        stored = await self._cached_document(cassette, routed.rules)
        is_large = max(cassette.end.size, len(cassette.request.body)) > _LARGE
        made = partial(_rename_values, cassette, stored, routed)
        return await self._offload(made) if is_large or len(fields) > _MANY else made()

    async def _cached_document(self, cassette: Cassette, rules: RuleSet) -> NormalizedDocument:
        kept = self._cached_documents.get(cassette.file)
        if kept is not None and kept[0] is cassette and kept[1] is rules:
            self._cached_documents.move_to_end(cassette.file)
            return kept[2]
        request = cassette.request
        made = partial(matching.normalized_document, cassette.meta.provider, request, rules)
        done = await self._offload(made) if len(request.body) > _LARGE else made()
        self._cache_document(cassette, rules, done)
        return done

    def _cache_document(self, cassette: Cassette, rules: RuleSet, done: NormalizedDocument) -> None:
        before = self._cached_documents.pop(cassette.file, None)
        self._cassette_size += _cassette_size(cassette) - (
            _cassette_size(before[0]) if before is not None else 0
        )
        self._cached_documents[cassette.file] = cassette, rules, done
        while self._cassette_size > _KEPT:
            _, (oldest, *_) = self._cached_documents.popitem(last=False)
            self._cassette_size -= _cassette_size(oldest)


def _rename_values(
    cassette: Cassette, stored: NormalizedDocument, routed: RoutedRequest
) -> tuple[Cassette, int]:
    normalized_document = routed.normalized_document
    if stored.document != normalized_document.document:
        return cassette, 0
    values = value_replacements(stored.aliases, normalized_document.aliases)
    return rename_values(cassette, values) if values else (cassette, 0)


def _cassette_size(cassette: Cassette) -> int:
    return cassette.end.size + 2 * len(cassette.request.body)
