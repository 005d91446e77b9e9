"""From an exchange of another tool to a cassette: routed, redacted, keyed and timed as a recording.

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
from llm_proxy.cassette.spool import Spooled, SpoolEnd, SpoolLine
from llm_proxy.errors import RequestRefused
from llm_proxy.exchange import Ending, Head, Read, header
from llm_proxy.frame_redaction import EVENTSTREAM, FrameRedactor
from llm_proxy.importing import fields
from llm_proxy.importing.hosts import below, provider_of_host
from llm_proxy.importing.source import EDITED, Loss, SourceExchange, Unfit
from llm_proxy.importing.times import Laid, as_kept, paced, spread
from llm_proxy.matching import KEY_RULES
from llm_proxy.pacing import Pace
from llm_proxy.routing import Call, Routing, route

_STREAMED: Final = frozenset(("sse", "ndjson", "json-array", EVENTSTREAM))


@dataclass(frozen=True, slots=True)
class How:
    """What an operator decides about an import."""

    routing: Routing
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
class Made:
    """A cassette that is not written yet."""

    meta: Meta
    request: StoredRequest
    head: HeadLine
    laid: Laid
    ending: Ending
    redacted: int
    losses: tuple[Loss, ...]

    @property
    def answer(self) -> tuple[int, str, str]:
        """What tells its answer from others: status, SHA-256 of the body, ending."""
        body = b"".join(read.data for read in self.laid.reads)
        return self.head.response.status, sha256(body), self.ending.value

    def spooled(self, library: str) -> Spooled:
        """It, as a finished recording for this library."""
        target = SpoolLine(1, library, 1)
        end = SpoolEnd(self.ending, self.laid.end, self.redacted)
        return Spooled(target, self.meta, self.request, self.head, iter((*self.laid.reads, end)))


def made(it: SourceExchange, how: How, source: str) -> Made:
    """The cassette of an exchange without content codings; `source` names the tool it is from.

    Raises `Unfit`.
    """
    _check_kept(it)
    call = _called(it, how)
    redactor = redaction.Redactor(call.credentials)
    head, losses = _head(it, call, redactor)
    codec = framing.by_bytes(call.dialect.codec(call.plain, head), it.body)
    head = _framed(it, head, codec)
    blank = _blank(_meta(call, it, how, source), call.stored, head, codec)
    if head.framing == "none" and it.body:
        raise Unfit(f"its answer has a body, which no {head.status} to {call.request.method} has")
    laid = _laid(it, blank, redactor, how)
    return Made(
        meta=blank.meta,
        request=blank.request,
        head=HeadLine.of(head, laid.head, codec, it.decoded),
        laid=laid,
        ending=it.ending,
        redacted=redactor.count,
        losses=(*it.losses, *losses),
    )


def _check_kept(it: SourceExchange) -> None:
    """Raises `Unfit` for a body of which a source kept nothing but the length."""
    asked = it.request
    for what, body, head in (
        ("request", asked.body, http_heads.received(200, "", asked.headers, asked.method)),
        ("response", it.body, http_heads.received(it.status, "", it.headers, asked.method)),
    ):
        # what is packed to some bytes may be empty, and what broke off may have sent none
        is_packed = it.decoded or header(head.headers, "content-encoding") is not None
        is_lost = head.framing == "length" and head.length and not body and not is_packed
        if is_lost and it.ending is Ending.CLEAN:
            raise Unfit(f"the body of its {what} was not kept: {head.length} bytes by its head")


def _called(it: SourceExchange, how: How) -> Call:
    """The call that this request would have been."""
    asked = it.request
    provider = how.provider or provider_of_host(asked, it.host)
    if provider:
        asked = below(asked, provider)
        asked = replace(asked, path=f"/~{provider}{asked.path}")
    try:
        call = route(asked, 0.0, float, how=how.routing)
    except RequestRefused as error:
        raise Unfit(str(error)) from None
    if how.routing.session != DEFAULT_SESSION:  # what somebody chose is for all of them
        call = replace(call, session=how.routing.session)
    return call


def _head(
    it: SourceExchange, call: Call, redactor: redaction.Redactor
) -> tuple[Head, tuple[Loss, ...]]:
    """The head as it may be stored, and what is to be said of it."""
    received = http_heads.received(it.status, it.reason, it.headers, call.request.method)
    headers = tuple(
        (name, redactor.text(value)) for name, value in redaction.response_headers(received.headers)
    )
    reason = redactor.text(fields.word(it.reason))
    edited = received.framing == "length" and not it.decoded and received.length != len(it.body)
    head = Head(it.status, reason, headers, received.framing, received.length)
    return head, (EDITED,) if edited and it.ending is Ending.CLEAN else ()


def _framed(it: SourceExchange, head: Head, codec: str) -> Head:
    """The head, with a framing that HTTP/1.1 delimits its body by, whatever the source spoke."""
    match head.framing:
        case "close":
            is_stream = codec in _STREAMED
            length = None if is_stream else len(it.body)
            return replace(head, framing="chunked" if is_stream else "length", length=length)
        case "length" if it.ending is Ending.CLEAN and not it.decoded:
            return replace(head, length=len(it.body))
        case _:
            return head


def _laid(it: SourceExchange, blank: Cassette, redactor: redaction.Redactor, how: How) -> Laid:
    """The body without secrets, with its times."""
    codec = blank.codec
    if it.reads:
        kept = as_kept(it)
        return replace(kept, reads=tuple(_redacted(kept.reads, codec, redactor)))
    pieces = framing.messages(codec, it.body)
    laid = spread(it, pieces)
    laid = replace(laid, reads=tuple(_redacted(laid.reads, codec, redactor)))
    return laid if how.pace is None else paced(_filled(blank, laid.reads), how.pace, how.seed)


def _redacted(reads: Iterable[Read], codec: str, redactor: redaction.Redactor) -> Iterator[Read]:
    body = FrameRedactor(redactor) if codec == EVENTSTREAM else redactor
    at, data = 0.0, b""
    for piece in [*(it for read in reads for it in body.feed(read)), *body.close()]:
        if data and not piece.rest:
            yield Read(at, data)
            data = b""
        at, data = piece.read.at, data + piece.read.data
    if data:
        yield Read(at, data)


def _blank(meta: Meta, request: StoredRequest, head: Head, codec: str) -> Cassette:
    """A cassette whose answer has no body yet."""
    end = End(Ending.CLEAN, 0.0, 0, sha256(b""))
    return Cassette("", meta, request, head, 0.0, codec, "", (), (), end)


def _filled(blank: Cassette, reads: tuple[Read, ...]) -> Cassette:
    body = b"".join(read.data for read in reads)
    messages = tuple(framing.messages(blank.codec, body))
    end = End(Ending.CLEAN, 0.0, len(body), sha256(body))
    return replace(blank, messages=messages, reads=reads, end=end)


def _meta(call: Call, it: SourceExchange, how: How, source: str) -> Meta:
    paced = "" if how.pace is None or it.reads else f", its times made up by {how.pace}"
    meta = Meta(
        tool=f"{how.tool}, imported from {source}{paced}",
        recorded=it.recorded or how.now,
        dialect=call.dialect.name,
        provider=call.provider,
        model=call.model,
        session=call.session,
        key=call.key,
        key_rules=KEY_RULES,
        redaction_rules=redaction.REDACTION_RULES,
        rules=call.rules.spelled,
    )
    return MetaLine.of(meta).value()  # as it will be read: a client may call a model anything
