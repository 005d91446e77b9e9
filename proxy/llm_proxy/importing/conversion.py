"""Converts a foreign exchange into a cassette: routed, redacted, keyed and timed.

The result is what recording the exchange would have stored; line 1 names its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy import framing, http_heads, redaction
from llm_proxy.cassette import Cassette, CassetteEnd, CassetteMeta, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION, StoredHead, printable_model, sha256_hex
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, SpoolTargetLine
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.frame_redaction import EVENTSTREAM_CODEC, FrameRedactor
from llm_proxy.importing import fields
from llm_proxy.importing.arrival_times import (
    TimedBody,
    evenly_timed_body,
    paced_timed_body,
    source_timed_body,
)
from llm_proxy.importing.hosts import provider_of_host, strip_provider_base_path
from llm_proxy.importing.source import LENGTH_MISMATCH, ImportLoss, NotImportable, SourceExchange
from llm_proxy.matching import KEY_RULES_VERSION
from llm_proxy.pacing import Pace
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request

_STREAM_CODECS: Final = frozenset(("sse", "ndjson", "json-array", EVENTSTREAM_CODEC))


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
    timed_body: TimedBody
    ending: Ending
    redaction_count: int
    """How many secrets were redacted."""
    losses: tuple[ImportLoss, ...]

    @property
    def response_identity(self) -> tuple[int, str, str]:
        """Status, SHA-256 of the body, and ending: what distinguishes its response."""
        body = b"".join(read.received_bytes for read in self.timed_body.reads)
        return self.head.status, sha256_hex(body), self.ending.value

    def to_spool_content(self, library: str) -> SpoolContent:
        """A finished recording for this library."""
        target = SpoolTargetLine(1, library, 1)
        end = SpoolEnd(self.ending, self.timed_body.end_at_ms, self.redaction_count)
        return SpoolContent(
            target, self.meta, self.request, self.head, iter((*self.timed_body.reads, end))
        )


def convert_to_cassette(
    source_exchange: SourceExchange, import_settings: ImportSettings, source_tool: str
) -> ImportedCassette:
    """The cassette of an exchange without content codings; `source_tool` wrote the file.

    Raises `NotImportable`.
    """
    _check_body_kept(source_exchange)
    routed = _routed_request(source_exchange, import_settings)
    redactor = redaction.Redactor(routed.credentials)
    head, losses = _stored_head(source_exchange, routed, redactor)
    codec = framing.codec_name_for_body(
        routed.dialect.codec_name(routed.decompressed_request, head), source_exchange.response_body
    )
    head = _with_framing(source_exchange, head, codec)
    empty_cassette = _empty_cassette(
        _make_meta(routed, source_exchange, import_settings, source_tool),
        routed.stored_request,
        head,
        codec,
    )
    if head.framing == "none" and source_exchange.response_body:
        raise NotImportable(
            f"its answer has a body, which no {head.status} to {routed.request.method} has"
        )
    timed_body = _timed_redacted_body(source_exchange, empty_cassette, redactor, import_settings)
    return ImportedCassette(
        meta=empty_cassette.meta,
        request=empty_cassette.request,
        head=StoredHead.from_response_head(
            head, timed_body.head_at_ms, codec, source_exchange.removed_content_coding
        ),
        timed_body=timed_body,
        ending=source_exchange.ending,
        redaction_count=redactor.replaced_count,
        losses=(*source_exchange.losses, *losses),
    )


def _check_body_kept(source_exchange: SourceExchange) -> None:
    """Raises `NotImportable` for a body of which the source kept only the length."""
    request = source_exchange.request
    for label, body, head in (
        (
            "request",
            request.body,
            http_heads.response_head(200, "", request.headers, request.method),
        ),
        (
            "response",
            source_exchange.response_body,
            http_heads.response_head(
                source_exchange.status, "", source_exchange.response_headers, request.method
            ),
        ),
    ):
        # a compressed body may be empty when decoded, and a broken-off response may have no body
        is_packed = (
            source_exchange.removed_content_coding
            or header_value(head.headers, "content-encoding") is not None
        )
        is_lost = head.framing == "length" and head.content_length and not body and not is_packed
        if is_lost and source_exchange.ending is Ending.CLEAN:
            raise NotImportable(
                f"the body of its {label} was not kept: {head.content_length} bytes by its head"
            )


def _routed_request(
    source_exchange: SourceExchange, import_settings: ImportSettings
) -> RoutedRequest:
    request = source_exchange.request
    provider = import_settings.provider or provider_of_host(request, source_exchange.host)
    if provider:
        request = strip_provider_base_path(request, provider)
        request = replace(request, path=f"/~{provider}{request.path}")
    try:
        routed = route_request(request, 0.0, float, settings=import_settings.routing_settings)
    except RequestRefused as error:
        raise NotImportable(str(error)) from None
    # a session that the operator chose applies to all exchanges
    if import_settings.routing_settings.default_session != DEFAULT_SESSION:
        routed = replace(routed, session=import_settings.routing_settings.default_session)
    return routed


def _stored_head(
    source_exchange: SourceExchange, routed: RoutedRequest, redactor: redaction.Redactor
) -> tuple[ResponseHead, tuple[ImportLoss, ...]]:
    received = http_heads.response_head(
        source_exchange.status,
        source_exchange.reason_phrase,
        source_exchange.response_headers,
        routed.request.method,
    )
    headers = tuple(
        (name, redactor.redact_latin1(value))
        for name, value in redaction.storable_response_headers(received.headers)
    )
    reason = redactor.redact_latin1(fields.clean_header_text(source_exchange.reason_phrase))
    has_wrong_length = (
        received.framing == "length"
        and not source_exchange.removed_content_coding
        and received.content_length != len(source_exchange.response_body)
    )
    head = ResponseHead(
        source_exchange.status, reason, headers, received.framing, received.content_length
    )
    return head, (
        LENGTH_MISMATCH,
    ) if has_wrong_length and source_exchange.ending is Ending.CLEAN else ()


def _with_framing(source_exchange: SourceExchange, head: ResponseHead, codec: str) -> ResponseHead:
    """The head with an HTTP/1.1 body framing, whichever HTTP version the source had."""
    match head.framing:
        case "close":
            is_stream = codec in _STREAM_CODECS
            length = None if is_stream else len(source_exchange.response_body)
            return replace(
                head, framing="chunked" if is_stream else "length", content_length=length
            )
        case "length" if (
            source_exchange.ending is Ending.CLEAN and not source_exchange.removed_content_coding
        ):
            return replace(head, content_length=len(source_exchange.response_body))
        case _:
            return head


def _timed_redacted_body(
    source_exchange: SourceExchange,
    empty_cassette: Cassette,
    redactor: redaction.Redactor,
    import_settings: ImportSettings,
) -> TimedBody:
    codec = empty_cassette.codec_name
    if source_exchange.reads:
        source_body = source_timed_body(source_exchange)
        return replace(source_body, reads=tuple(_redact_reads(source_body.reads, codec, redactor)))
    pieces = framing.split_messages(codec, source_exchange.response_body)
    timed_body = evenly_timed_body(source_exchange, pieces)
    timed_body = replace(timed_body, reads=tuple(_redact_reads(timed_body.reads, codec, redactor)))
    return (
        timed_body
        if import_settings.pace is None
        else paced_timed_body(
            _with_response_body(empty_cassette, timed_body.reads),
            import_settings.pace,
            import_settings.seed,
        )
    )


def _redact_reads(
    reads: Iterable[Read], codec: str, redactor: redaction.Redactor
) -> Iterator[Read]:
    body_redactor = FrameRedactor(redactor) if codec == EVENTSTREAM_CODEC else redactor
    at_ms, data = 0.0, b""
    for piece in [
        *(redacted_piece for read in reads for redacted_piece in body_redactor.feed(read)),
        *body_redactor.flush(),
    ]:
        if data and not piece.is_continuation:
            yield Read(at_ms, data)
            data = b""
        at_ms, data = piece.redacted_read.at_ms, data + piece.redacted_read.received_bytes
    if data:
        yield Read(at_ms, data)


def _empty_cassette(
    meta: CassetteMeta, request: StoredRequest, head: ResponseHead, codec: str
) -> Cassette:
    end = CassetteEnd(Ending.CLEAN, 0.0, 0, sha256_hex(b""))
    return Cassette("", meta, request, head, 0.0, codec, "", (), (), end)


def _with_response_body(empty_cassette: Cassette, reads: tuple[Read, ...]) -> Cassette:
    body = b"".join(read.received_bytes for read in reads)
    messages = tuple(framing.split_messages(empty_cassette.codec_name, body))
    end = CassetteEnd(Ending.CLEAN, 0.0, len(body), sha256_hex(body))
    return replace(empty_cassette, framed_messages=messages, reads=reads, response_end=end)


def _make_meta(
    routed: RoutedRequest,
    source_exchange: SourceExchange,
    import_settings: ImportSettings,
    source_tool: str,
) -> CassetteMeta:
    pace_note = (
        ""
        if import_settings.pace is None or source_exchange.reads
        else f", its times made up by {import_settings.pace}"
    )
    return CassetteMeta(
        recording_tool=f"{import_settings.importer}, imported from {source_tool}{pace_note}",
        recorded_at=source_exchange.recorded_at or import_settings.imported_at,
        dialect=routed.dialect.name,
        provider=routed.provider,
        model=printable_model(routed.model),
        session=routed.session,
        key=routed.key,
        key_rules_version=KEY_RULES_VERSION,
        redaction_rules_version=redaction.REDACTION_RULES_VERSION,
        match_rules=routed.match_rules.rule_texts,
    )
