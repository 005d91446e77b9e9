"""Replaces ids and paths in recordings by those of the requesting client."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.matching import NormalizedDocument, RuleSet
from llm_proxy.ports import Offload
from llm_proxy.routing import RoutedRequest
from llm_proxy.value_replacement import replace_recorded_values, value_replacements

_CACHE_BYTES: Final = 32 * 1024 * 1024
"""The limit of the cache: bytes of the recordings, with requests, whose documents it keeps."""
_SLOW_BODY_BYTES: Final = 16 * 1024
"""The size of a request or a response that takes a few ms."""
_SLOW_ALIAS_COUNT: Final = 50
"""The number of aliases that takes a few ms."""


class CassetteValueReplacer:
    """Replaces recorded values that have an alias by those of the requesting client."""

    def __init__(self, offload: Offload) -> None:
        """`offload` runs a slow function without blocking other requests."""
        self._offload = offload
        self._cached_documents: OrderedDict[str, tuple[Cassette, RuleSet, NormalizedDocument]] = (
            OrderedDict()
        )
        """The documents of recorded requests, by cassette file, with the rules they result from."""
        self._cached_bytes = 0
        """Bytes of the recordings whose documents are cached."""

    async def replace_values_for_request(
        self, cassette: Cassette, routed: RoutedRequest
    ) -> tuple[Cassette, int]:
        """The recording with the values of this client, and how many values were replaced.

        The recording is unchanged where the rules set no aliases or no value differs; and where the
        requests differ by more than such values, since then an alias may mean different things in
        the two requests.
        """
        if not routed.match_rules.rules or cassette.request.body == routed.stored_request.body:
            return cassette, 0
        aliases = routed.normalized_document.value_by_alias
        if not aliases:
            return cassette, 0
        cassette_document = await self._normalized_document_of(cassette, routed.match_rules)
        is_large = (
            max(cassette.response_end.size_bytes, len(cassette.request.body)) > _SLOW_BODY_BYTES
        )
        rename = partial(_replace_values, cassette, cassette_document, routed)
        return (
            await self._offload(rename)
            if is_large or len(aliases) > _SLOW_ALIAS_COUNT
            else rename()
        )

    async def _normalized_document_of(
        self, cassette: Cassette, rules: RuleSet
    ) -> NormalizedDocument:
        cached = self._cached_documents.get(cassette.file)
        if cached is not None and cached[0] is cassette and cached[1] is rules:
            self._cached_documents.move_to_end(cassette.file)
            return cached[2]
        request = cassette.request
        normalize = partial(matching.normalized_document, cassette.meta.provider, request, rules)
        document = (
            await self._offload(normalize) if len(request.body) > _SLOW_BODY_BYTES else normalize()
        )
        self._cache_document(cassette, rules, document)
        return document

    def _cache_document(
        self, cassette: Cassette, rules: RuleSet, document: NormalizedDocument
    ) -> None:
        replaced = self._cached_documents.pop(cassette.file, None)
        self._cached_bytes += _cassette_size_bytes(cassette) - (
            _cassette_size_bytes(replaced[0]) if replaced is not None else 0
        )
        self._cached_documents[cassette.file] = cassette, rules, document
        while self._cached_bytes > _CACHE_BYTES:
            _, (oldest_cassette, *_) = self._cached_documents.popitem(last=False)
            self._cached_bytes -= _cassette_size_bytes(oldest_cassette)


def _replace_values(
    cassette: Cassette, cassette_document: NormalizedDocument, routed: RoutedRequest
) -> tuple[Cassette, int]:
    request_document = routed.normalized_document
    if cassette_document.document != request_document.document:
        return cassette, 0
    replacements = value_replacements(
        cassette_document.value_by_alias, request_document.value_by_alias
    )
    return replace_recorded_values(cassette, replacements) if replacements else (cassette, 0)


def _cassette_size_bytes(cassette: Cassette) -> int:
    return cassette.response_end.size_bytes + 2 * len(cassette.request.body)
