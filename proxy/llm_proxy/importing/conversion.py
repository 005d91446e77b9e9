"""Converts a foreign exchange into a cassette: decoded, routed, redacted, keyed and timed.

The result is what recording the exchange would have stored; line 1 names its source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy import framing, redaction
from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette, CassetteEnd, CassetteMeta, StoredRequest
from llm_proxy.cassette.model import (
    DEFAULT_SESSION,
    MAX_OFFSET_MS,
    StoredHead,
    printable_model,
    sha256_hex,
)
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, SpoolTargetLine
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Ending, Headers, Read, ResponseHead, header_value, response_head
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    ALREADY_DECODED,
    LENGTH_MISMATCH,
    UNDECODABLE_CODING,
    ImportLoss,
    NotImportable,
    SourceExchange,
)
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.pacing import Pace
from llm_proxy.pacing.cassette_player import replay_actions
from llm_proxy.pacing.timing import make_seeded_draw
from llm_proxy.providers import provider_of_host, strip_base_path
from llm_proxy.redaction.frames import redact_reads
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request

Decompress = Callable[[str, bytes], bytes | None]
"""Decodes a body with a content coding; None for an unsupported coding.  Raises `ValueError` where
the body does not have it."""

_CONTENT_ENCODING: Final = "content-encoding"


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """The options of an import."""

    routing_settings: RoutingSettings
    importer: str
    """Name and version of the importing tool: `llm-proxy 1.0`."""
    imported_at: str
    """The time of the import (ISO 8601), for exchanges without a recording time."""
    pace: Pace | None = None
    """The pace of responses without read times; None: the source's times, else all at once."""
    seed: int = 0
    provider: str = ""
    """The provider of all requests; empty derives it from the host, else from the path."""


@dataclass(frozen=True, slots=True)
class ImportedCassette:
    """A converted exchange, not yet written as a cassette."""

    meta: CassetteMeta
    request: StoredRequest
    head: StoredHead
    reads: tuple[Read, ...]
    """The response body, redacted, with times in ms after the request."""
    end_at_ms: float
    """When the response ends, in ms after the request."""
    ending: Ending
    redaction_count: int
    """How many secrets were redacted."""
    response_redaction: redaction.ResponseRedaction
    """Redacts the joined texts of the response when it is filed."""
    losses: tuple[ImportLoss, ...]

    @property
    def response_identity(self) -> tuple[int, str, str]:
        """Status, SHA-256 of the body, and ending: what distinguishes its response."""
        body = b"".join(read.received_bytes for read in self.reads)
        return self.head.status, sha256_hex(body), self.ending.value

    def to_spool_content(self, library: str) -> SpoolContent:
        """A finished recording for this library."""
        target = SpoolTargetLine(1, library, 1)
        end = SpoolEnd(self.ending, self.end_at_ms, self.redaction_count)
        return SpoolContent(target, self.meta, self.request, self.head, iter((*self.reads, end)))


def decode_exchange_bodies(exchange: SourceExchange, decompress: Decompress) -> SourceExchange:
    """The exchange with decoded bodies, and headers that fit them."""
    request = exchange.request
    request_headers, request_body, request_coding, losses = _decode_body(
        request.headers, request.body, decompress
    )
    if request_coding:  # the length counts the encoded bytes
        request_headers = fields.without_coding_headers(request_headers)
    exchange = replace(
        exchange,
        request=replace(request, headers=request_headers, body=request_body),
        losses=exchange.losses + losses,
    )
    if exchange.reads:
        return exchange
    headers, body, coding, losses = _decode_body(
        exchange.response_headers, exchange.response_body, decompress
    )
    return replace(
        exchange,
        response_headers=headers,
        response_body=body,
        removed_content_coding=coding,
        losses=exchange.losses + losses,
    )


def _decode_body(
    headers: Headers, body: bytes, decompress: Decompress
) -> tuple[Headers, bytes, str, tuple[ImportLoss, ...]]:
    """Headers and body without a coding, the removed coding, and the losses."""
    coding = (header_value(headers, _CONTENT_ENCODING) or "").strip().lower()
    if not coding or not body:
        return headers, body, "", ()
    try:
        plain = decompress(coding, body)
        is_decoded = plain is None and fields.is_utf8(body)
    except ValueError:  # many tools keep the headers of a body that they have decoded
        plain, is_decoded = None, True
    if is_decoded:
        return fields.without_coding_headers(headers), body, "", (ALREADY_DECODED,)
    if plain is None:
        return headers, body, "", (UNDECODABLE_CODING,)
    kept = tuple(header for header in headers if header[0].lower() != _CONTENT_ENCODING)
    return kept, plain, coding, ()


def convert_to_cassette(
    exchange: SourceExchange, settings: ImportSettings, source_tool: str
) -> ImportedCassette:
    """The cassette of an exchange without content codings; `source_tool` wrote the file.

    Raises `NotImportable`.
    """
    request, is_clean = exchange.request, exchange.ending is Ending.CLEAN
    received = response_head(
        exchange.status, exchange.reason_phrase, exchange.response_headers, request.method
    )
    if is_clean:
        request_head = response_head(200, "", request.headers, request.method)
        _check_body_kept("request", request_head, request.body)
        if not exchange.removed_content_coding:
            _check_body_kept("response", received, exchange.response_body)
    routed = _routed_request(exchange, settings)
    rules = routed.match_rules.redaction
    finder = rules.finder(routed.known_secrets)
    redactor = redaction.Redactor(finder)
    headers = tuple(
        (name, redactor.redact_latin1(value))
        for name, value in redaction.storable_response_headers(received.headers)
    )
    reason = redactor.redact_latin1(fields.clean_header_text(exchange.reason_phrase))
    head = ResponseHead(exchange.status, reason, headers, received.framing, received.content_length)
    body_size, losses = len(exchange.response_body), exchange.losses
    if is_clean and head.framing == "length" and not exchange.removed_content_coding:
        losses += (LENGTH_MISMATCH,) if head.content_length != body_size else ()
    codec = framing.codec_name_for_body(
        routed.dialect.codec_name(routed.decompressed_request, head), exchange.response_body
    )
    # A body framing of HTTP/1.1, whichever HTTP version the source had.
    if head.framing == "close" and codec != "whole":
        head = replace(head, framing="chunked", content_length=None)
    elif head.framing == "close" or (
        head.framing == "length" and is_clean and not exchange.removed_content_coding
    ):
        head = replace(head, framing="length", content_length=body_size)
    if head.framing == "none" and exchange.response_body:
        raise NotImportable(
            f"the response has a body, but a {head.status} response to {routed.request.method} "
            "cannot have one"
        )
    meta = _make_meta(routed, exchange, settings, source_tool)
    head_at_ms = min(exchange.head_at_ms or 0.0, MAX_OFFSET_MS)
    end_at_ms = min(max(exchange.end_at_ms or 0.0, head_at_ms), MAX_OFFSET_MS)
    if exchange.reads:
        times_and_data = [(read.at_ms, read.received_bytes) for read in exchange.reads]
    else:  # one read for each message, at equal intervals between head and end
        messages = tuple(framing.split_messages(codec, exchange.response_body))
        step_ms = (end_at_ms - head_at_ms) / len(messages) if messages else 0.0
        times_and_data = [
            (head_at_ms + step_ms * number, data) for number, data in enumerate(messages, 1)
        ]
    unredacted_reads = [
        Read(min(max(head_at_ms, at_ms), MAX_OFFSET_MS), data) for at_ms, data in times_and_data
    ]
    end_at_ms = max([end_at_ms, *(read.at_ms for read in unredacted_reads[-1:])])
    reads = tuple(redact_reads(unredacted_reads, codec, redactor))
    if settings.pace is not None and not exchange.reads:
        body = b"".join(read.received_bytes for read in reads)
        messages = tuple(framing.split_messages(codec, body))
        end = CassetteEnd(Ending.CLEAN, 0.0, len(body), sha256_hex(body))
        cassette = Cassette(
            "", meta, routed.stored_request, head, 0.0, codec, "", messages, reads, end
        )
        head_at_ms, reads, end_at_ms = _paced_reads(cassette, settings.pace, settings.seed)
    return ImportedCassette(
        meta=meta,
        request=routed.stored_request,
        head=StoredHead.from_response_head(
            head, head_at_ms, codec, exchange.removed_content_coding
        ),
        reads=reads,
        end_at_ms=end_at_ms,
        ending=exchange.ending,
        redaction_count=redactor.replaced_count,
        response_redaction=redaction.ResponseRedaction(rules, finder, follows_stream=True),
        losses=losses,
    )


def _check_body_kept(label: str, head: ResponseHead, body: bytes) -> None:
    """Raises `NotImportable` for a body of which the source kept only the length."""
    # A compressed body may be empty when decoded.
    is_compressed = header_value(head.headers, _CONTENT_ENCODING) is not None
    if head.framing == "length" and head.content_length and not body and not is_compressed:
        raise NotImportable(
            f"the {label} body is empty, but content-length is {head.content_length}"
        )


def _routed_request(exchange: SourceExchange, settings: ImportSettings) -> RoutedRequest:
    request = exchange.request
    if provider := settings.provider or provider_of_host(exchange.host, request.path):
        path = strip_base_path(provider, request.path)
        request = replace(request, path=f"/~{provider}{path}")
    try:
        routed = route_request(request, 0.0, float, settings=settings.routing_settings)
    except RequestRefused as error:
        raise NotImportable(str(error)) from None
    # A session that the operator chose applies to all exchanges.
    if settings.routing_settings.default_session != DEFAULT_SESSION:
        routed = replace(routed, session=settings.routing_settings.default_session)
    return routed


def _make_meta(
    routed: RoutedRequest, exchange: SourceExchange, settings: ImportSettings, source_tool: str
) -> CassetteMeta:
    is_paced = settings.pace is not None and not exchange.reads
    pace_note = f", with generated times ({settings.pace})" if is_paced else ""
    return CassetteMeta(
        recording_tool=f"{settings.importer}, imported from {source_tool}{pace_note}",
        recorded_at=exchange.recorded_at or settings.imported_at,
        dialect=routed.dialect.name,
        provider=routed.provider,
        model=printable_model(routed.model),
        session=routed.session,
        key=routed.key,
        key_rules_version=KEY_RULES_VERSION,
        redaction_rules_version=redaction.REDACTION_RULES_VERSION,
        match_rules=routed.match_rules.rule_texts,
    )


def _paced_reads(
    cassette: Cassette, pace: Pace, seed: int
) -> tuple[float, tuple[Read, ...], float]:
    """Head, reads and end of a cassette at the times of a pace: deterministic for a seed."""
    meta = cassette.meta
    chance = make_seeded_draw(seed, meta.session, meta.key, cassette.response_end.sha256)
    head_at_ms = at_ms = 0.0
    reads: list[Read] = []
    for action in replay_actions(cassette, pace, chance):
        match action:
            case Wait(due):
                at_ms = min(max(at_ms, due), MAX_OFFSET_MS)
            case Begin():
                head_at_ms = at_ms
            case Send(data) if data:
                reads.append(Read(at_ms, data))
            case _:
                continue
    return head_at_ms, tuple(reads), at_ms
