"""Converts a foreign exchange into a cassette: routed, redacted, keyed and timed.

What a proxy would have stored of it, had it stood in between; line 1 says where it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy import framing, http_heads, redaction
from llm_proxy.cassette import Cassette, End, Meta, StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION, sha256
from llm_proxy.cassette.schema import HeadLine, MetaLine
from llm_proxy.cassette.spool import SpoolContent, SpoolEnd, SpoolLine
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.frame_redaction import EVENTSTREAM, FrameRedactor
from llm_proxy.importing import fields
from llm_proxy.importing.hosts import provider_of_host, relative_to_base_url
from llm_proxy.importing.source import EDITED, ImportLoss, NotImportable, SourceExchange
from llm_proxy.importing.times import TimedBody, paced_times, source_times, spread_evenly
from llm_proxy.matching import KEY_RULES
from llm_proxy.pacing import Pace
from llm_proxy.routing import RoutedRequest, RoutingSettings, route

_STREAMED: Final = frozenset(("sse", "ndjson", "json-array", EVENTSTREAM))


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What an operator decides about an import."""

    routing: RoutingSettings
    tool: str
    """What imports: `llm-proxy 1.0`."""
    now: str
    """When, for exchanges that do not say when they were recorded."""
    pace: Pace | None = None
    """That of answers whose pieces have no times; None is as their source says, else at once."""
    seed: int = 0
    provider: str = ""
    """The provider that all requests belong to; empty is by their host, else by their path."""


@dataclass(frozen=True, slots=True)
class ImportedCassette:
    """A cassette that is not written yet."""

    meta: Meta
    request: StoredRequest
    head: HeadLine
    timed_body: TimedBody
    ending: Ending
    redacted: int
    losses: tuple[ImportLoss, ...]

    @property
    def response_identity(self) -> tuple[int, str, str]:
        """What tells its answer from others: status, SHA-256 of the body, ending."""
        body = b"".join(read.data for read in self.timed_body.reads)
        return self.head.response.status, sha256(body), self.ending.value

    def to_spool_content(self, library: str) -> SpoolContent:
        """It, as a finished recording for this library."""
        target = SpoolLine(1, library, 1)
        end = SpoolEnd(self.ending, self.timed_body.end, self.redacted)
        return SpoolContent(
            target, self.meta, self.request, self.head, iter((*self.timed_body.reads, end))
        )


def make_cassette(
    source_exchange: SourceExchange, import_settings: ImportSettings, source: str
) -> ImportedCassette:
    """The cassette of an exchange without content codings; `source` names the tool it is from.

    Raises `NotImportable`.
    """
    _check_body_kept(source_exchange)
    routed = _routed_request(source_exchange, import_settings)
    redactor = redaction.Redactor(routed.credentials)
    head, losses = _stored_head(source_exchange, routed, redactor)
    codec = framing.codec_of_bytes(
        routed.dialect.codec(routed.decompressed, head), source_exchange.body
    )
    head = _with_framing(source_exchange, head, codec)
    blank = _empty_cassette(
        _make_meta(routed, source_exchange, import_settings, source),
        routed.stored_request,
        head,
        codec,
    )
    if head.framing == "none" and source_exchange.body:
        raise NotImportable(
            f"its answer has a body, which no {head.status} to {routed.request.method} has"
        )
    laid = _timed_redacted_body(source_exchange, blank, redactor, import_settings)
    return ImportedCassette(
        meta=blank.meta,
        request=blank.request,
        head=HeadLine.from_value(head, laid.head, codec, source_exchange.decoded),
        timed_body=laid,
        ending=source_exchange.ending,
        redacted=redactor.count,
        losses=(*source_exchange.losses, *losses),
    )


def _check_body_kept(source_exchange: SourceExchange) -> None:
    """Raises `NotImportable` for a body of which a source kept nothing but the length."""
    request = source_exchange.request
    for label, body, head in (
        (
            "request",
            request.body,
            http_heads.response_head(200, "", request.headers, request.method),
        ),
        (
            "response",
            source_exchange.body,
            http_heads.response_head(
                source_exchange.status, "", source_exchange.headers, request.method
            ),
        ),
    ):
        # what is packed to some bytes may be empty, and what broke off may have sent none
        is_packed = (
            source_exchange.decoded or header_value(head.headers, "content-encoding") is not None
        )
        is_lost = head.framing == "length" and head.length and not body and not is_packed
        if is_lost and source_exchange.ending is Ending.CLEAN:
            raise NotImportable(
                f"the body of its {label} was not kept: {head.length} bytes by its head"
            )


def _routed_request(
    source_exchange: SourceExchange, import_settings: ImportSettings
) -> RoutedRequest:
    request = source_exchange.request
    provider = import_settings.provider or provider_of_host(request, source_exchange.host)
    if provider:
        request = relative_to_base_url(request, provider)
        request = replace(request, path=f"/~{provider}{request.path}")
    try:
        routed = route(request, 0.0, float, settings=import_settings.routing)
    except RequestRefused as error:
        raise NotImportable(str(error)) from None
    if import_settings.routing.session != DEFAULT_SESSION:  # what somebody chose is for all of them
        routed = replace(routed, session=import_settings.routing.session)
    return routed


def _stored_head(
    source_exchange: SourceExchange, routed: RoutedRequest, redactor: redaction.Redactor
) -> tuple[ResponseHead, tuple[ImportLoss, ...]]:
    received = http_heads.response_head(
        source_exchange.status,
        source_exchange.reason,
        source_exchange.headers,
        routed.request.method,
    )
    headers = tuple(
        (name, redactor.redact_text(value))
        for name, value in redaction.storable_response_headers(received.headers)
    )
    reason = redactor.redact_text(fields.parse_header_text(source_exchange.reason))
    edited = (
        received.framing == "length"
        and not source_exchange.decoded
        and received.length != len(source_exchange.body)
    )
    head = ResponseHead(source_exchange.status, reason, headers, received.framing, received.length)
    return head, (EDITED,) if edited and source_exchange.ending is Ending.CLEAN else ()


def _with_framing(source_exchange: SourceExchange, head: ResponseHead, codec: str) -> ResponseHead:
    """The head, with a framing that HTTP/1.1 delimits its body by, whatever the source spoke."""
    match head.framing:
        case "close":
            is_stream = codec in _STREAMED
            length = None if is_stream else len(source_exchange.body)
            return replace(head, framing="chunked" if is_stream else "length", length=length)
        case "length" if source_exchange.ending is Ending.CLEAN and not source_exchange.decoded:
            return replace(head, length=len(source_exchange.body))
        case _:
            return head


def _timed_redacted_body(
    source_exchange: SourceExchange,
    blank: Cassette,
    redactor: redaction.Redactor,
    import_settings: ImportSettings,
) -> TimedBody:
    codec = blank.codec
    if source_exchange.reads:
        kept = source_times(source_exchange)
        return replace(kept, reads=tuple(_redact_reads(kept.reads, codec, redactor)))
    pieces = framing.split_messages(codec, source_exchange.body)
    laid = spread_evenly(source_exchange, pieces)
    laid = replace(laid, reads=tuple(_redact_reads(laid.reads, codec, redactor)))
    return (
        laid
        if import_settings.pace is None
        else paced_times(_with_body(blank, laid.reads), import_settings.pace, import_settings.seed)
    )


def _redact_reads(
    reads: Iterable[Read], codec: str, redactor: redaction.Redactor
) -> Iterator[Read]:
    body = FrameRedactor(redactor) if codec == EVENTSTREAM else redactor
    at, data = 0.0, b""
    for piece in [
        *(redacted_piece for read in reads for redacted_piece in body.feed(read)),
        *body.close(),
    ]:
        if data and not piece.is_rest:
            yield Read(at, data)
            data = b""
        at, data = piece.read.at_ms, data + piece.read.data
    if data:
        yield Read(at, data)


def _empty_cassette(meta: Meta, request: StoredRequest, head: ResponseHead, codec: str) -> Cassette:
    end = End(Ending.CLEAN, 0.0, 0, sha256(b""))
    return Cassette("", meta, request, head, 0.0, codec, "", (), (), end)


def _with_body(blank: Cassette, reads: tuple[Read, ...]) -> Cassette:
    body = b"".join(read.data for read in reads)
    messages = tuple(framing.split_messages(blank.codec, body))
    end = End(Ending.CLEAN, 0.0, len(body), sha256(body))
    return replace(blank, messages=messages, reads=reads, end=end)


def _make_meta(
    routed: RoutedRequest,
    source_exchange: SourceExchange,
    import_settings: ImportSettings,
    source: str,
) -> Meta:
    paced = (
        ""
        if import_settings.pace is None or source_exchange.reads
        else f", its times made up by {import_settings.pace}"
    )
    meta = Meta(
        tool=f"{import_settings.tool}, imported from {source}{paced}",
        recorded=source_exchange.recorded or import_settings.now,
        dialect=routed.dialect.name,
        provider=routed.provider,
        model=routed.model,
        session=routed.session,
        key=routed.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
        rules=routed.rules.serialized,
    )
    return MetaLine.from_value(
        meta
    ).to_value()  # as it will be read: a client may call a model anything
