"""Redacts a stored cassette by the rules of today, so that it still answers its request."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from llm_proxy import framing, matching
from llm_proxy.cassette import Cassette, CassetteMeta, StoredRequest
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.cassette_consistency import was_redacted_after_keying
from llm_proxy.cassette_views import cassette_dialect
from llm_proxy.errors import CassetteError, SecretNotReplaced, UsageError
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.redaction import (
    NO_REDACTION,
    REDACTION_RULES_VERSION,
    KnownSecret,
    RedactionRules,
    Redactor,
    ResponseRedaction,
    count_placeholders,
    has_older_rules,
    redact_known,
    redact_query,
    redact_request,
    split_rule_texts,
    storable_request_headers,
    storable_response_headers,
)
from llm_proxy.redaction.frames import redact_reads
from llm_proxy.scanning import SecretScan

_NOT_REPLACED: Final = "cannot replace a secret in this cassette; delete the cassette"


@dataclass(frozen=True, slots=True)
class Scrubbing:
    """Redacts stored cassettes by some rules, and replaces known secrets."""

    rules: RedactionRules
    known_secrets: Mapping[bytes, KnownSecret]

    @property
    def scan(self) -> SecretScan:
        """Finds what is replaced."""
        return SecretScan(self.rules, self.rules.finder(self.known_secrets))

    def scrub(self, cassette: Cassette) -> Cassette:
        """The cassette without secrets, with the key of its new request.

        The same object if it has none, and was not redacted by older rules.  Raises
        `CassetteError` for one with a secret that cannot be replaced.
        """
        has_secrets = any(True for _ in self.scan.scan_cassette(cassette))
        if not has_secrets and not has_older_rules(cassette.meta.redaction_rules_version):
            return cassette
        scrubbed = cassette
        if has_secrets:
            meta, request = self._scrub_request(cassette)
            try:
                scrubbed = replace(self._scrub_response(cassette), meta=meta, request=request)
            except SecretNotReplaced:
                raise CassetteError(cassette.file, None, _NOT_REPLACED) from None
        model = Redactor(self.scan.finder).redact(cassette.meta.model.encode()).decode()
        meta = msgspec.structs.replace(
            scrubbed.meta,
            model=model,
            redaction_rules_version=REDACTION_RULES_VERSION,
            match_rules=(*split_rule_texts(scrubbed.meta.match_rules)[0], *self.rules.texts),
        )
        scrubbed = replace(scrubbed, meta=meta)
        if (finding := next(self.scan.scan_cassette(scrubbed), None)) is not None:
            raise CassetteError(cassette.file, finding.line, _NOT_REPLACED)
        return scrubbed

    def _scrub_request(self, cassette: Cassette) -> tuple[CassetteMeta, StoredRequest]:
        meta, request = cassette.meta, cassette.request
        storable, query = storable_request_headers(request.headers), redact_query(request.query)[0]
        redacted = request
        if (storable, query) != (request.headers, request.query):
            count = count_placeholders(query.encode()) - count_placeholders(request.query.encode())
            redacted = replace(
                request,
                headers=storable,
                query=query,
                redacted_count=request.redacted_count + count,
            )
        redacted = redact_request(redacted, self.rules)
        if redacted is not request and not was_redacted_after_keying(request):
            with suppress(UsageError):  # keyed by rules of another version: its key stays
                match_rules = replace(parse_rules(meta.match_rules), redaction=self.rules)
                meta = msgspec.structs.replace(
                    meta,
                    key=matching.request_key(meta.provider, redacted, match_rules),
                    key_rules_version=KEY_RULES_VERSION,
                    match_rules=match_rules.rule_texts,
                )
        return meta, redact_known(redacted, NO_REDACTION.finder(self.known_secrets))

    def _scrub_response(self, cassette: Cassette) -> Cassette:
        """Raises `SecretNotReplaced`."""
        finder, head = self.rules.finder(self.known_secrets), cassette.response_head
        # The joined texts first: what is found in one read may go on in the next.
        counted_texts = cassette_dialect(cassette).counted_texts
        cassette = ResponseRedaction(self.rules, finder).redact(cassette, counted_texts)
        redactor = Redactor(finder)
        headers = tuple(
            (name, redactor.redact_latin1(value))
            for name, value in storable_response_headers(head.headers)
        )
        reason = redactor.redact_latin1(head.reason)
        reads = tuple(redact_reads(cassette.reads, cassette.codec_name, redactor))
        if redactor.replaced_count or headers != head.headers:
            body = b"".join(read.received_bytes for read in reads)
            end, length = cassette.response_end, cassette.response_head.content_length
            cassette = replace(
                cassette,
                response_head=replace(
                    cassette.response_head,
                    headers=headers,
                    reason=reason,
                    content_length=length and length + len(body) - end.size_bytes,
                ),
                reads=reads,
                framed_messages=tuple(framing.split_messages(cassette.codec_name, body)),
                response_end=msgspec.structs.replace(
                    end,
                    size_bytes=len(body),
                    sha256=sha256_hex(body),
                    redacted_count=end.redacted_count + redactor.replaced_count,
                ),
            )
        return cassette
