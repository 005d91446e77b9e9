"""Routes a request: session, provider, dialect and key.

`/@NAME/...` in front scopes a request to session NAME, `/~NAME/...` after that names the
provider.  Nothing else is ever stripped: `/openai/v1/...` is Groq's own path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Generic, Self, TypeVar, overload

from llm_proxy import dialects, matching, redaction
from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.conversation import Conversation
from llm_proxy.credentials import credential_spellings
from llm_proxy.dialects import Dialect, lenient_json
from llm_proxy.errors import RequestRefused, printable
from llm_proxy.exchange import Request, header_value
from llm_proxy.matching import PLAIN, NormalizedDocument, RuleSet
from llm_proxy.providers import provider_of_request
from llm_proxy.take_numbers import LogicalRequest

T = TypeVar("T")

SESSION_HEADER: Final = "x-llm-proxy-session"
SCENARIO_HEADER: Final = "x-llm-proxy-scenario"
PACE_HEADER: Final = "x-llm-proxy-pace"
FAULT_HEADER: Final = "x-llm-proxy-fault"
ERROR_HEADER: Final = "x-llm-proxy-error"
"""On an answer that is an error of ours: its type."""
OUR_HEADERS: Final = "x-llm-proxy-"
"""Headers with this prefix are for us and go no further."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST: Final = 100
"""Characters of a name."""
_PREFIXES: Final = ("/@", "/~")
_PREFIX: Final = re.compile(r"(?:/@(?P<session>[^/]*))?(?:/~(?P<provider>[^/]*))?(?P<path>/.*|)")


class _CachedProperty(Generic[T]):
    """A property that is computed when it is first asked for.

    Two threads that ask at once may both compute it, and neither waits for the other: that of
    `functools` has one lock for all instances before Python 3.12, and the recorder's thread, busy
    with a large request, would hold up the event loop.
    """

    def __init__(self, compute: Callable[[RoutedRequest], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, routed: None, _owner: type[RoutedRequest]) -> Self: ...

    @overload
    def __get__(self, routed: RoutedRequest, _owner: type[RoutedRequest]) -> T: ...

    def __get__(self, routed: RoutedRequest | None, _owner: type[RoutedRequest]) -> Self | T:
        if routed is None:  # asked of the class
            return self
        value = self._compute(routed)
        routed.__dict__[self._name] = value  # which is found before this descriptor from then on
        return value


@dataclass(frozen=True)
class RoutedRequest:
    """A request on its way through us, with everything that its answer depends on."""

    request: Request
    """As the provider is asked."""
    decompressed: Request
    """The same without a content coding: what is read, stored, and keyed."""
    session: str
    provider: str
    dialect: Dialect
    arrived_at: float
    """The moment the request was read in full, in seconds of the loop's clock."""
    received_time: Callable[[], float]
    """The loop's clock, in seconds."""
    scenario: str = ""
    """The scenario that the client names in a header."""
    requested_pace: str = ""
    """The pace that the client asks for in a header; empty where it asks for none."""
    requested_faults: tuple[str, ...] = ()
    """The faults that the client asks for in headers."""
    rules: RuleSet = PLAIN
    """What its key is loosened by."""
    logical_request: LogicalRequest | None = None
    """What it is an attempt at; None where each request stands for itself."""

    def elapsed_ms(self) -> float:
        """ms since the request was read in full."""
        return (self.received_time() - self.arrived_at) * 1000

    @_CachedProperty
    def credentials(self) -> frozenset[bytes]:
        """What must not be stored of this request, wherever it turns up."""
        return credential_spellings(self.decompressed)

    @_CachedProperty
    def request_for_key(self) -> StoredRequest:
        """The request as its key is made from it: without what is secret by its name.

        What its credentials spell may stand in it elsewhere: it is neither stored nor shown.
        """
        request = self.decompressed
        query, count = redaction.redact_query(request.query)
        headers = redaction.storable_request_headers(request.headers)
        return StoredRequest(request.method, request.path, query, headers, request.body, count)

    @_CachedProperty
    def stored_request(self) -> StoredRequest:
        """The request as it may be stored; the same object as `keyed` where that may be."""
        return without_secrets(self.request_for_key, self.credentials, redaction.OF_CLIENT)

    @_CachedProperty
    def conversation(self) -> Conversation | None:
        """What it asks for a turn; None where it asks for none."""
        return self.dialect.decode_request(self.decompressed)

    @_CachedProperty
    def model(self) -> str:
        """The model that is asked for, of the stored request: a client may put anything there."""
        stored = self.stored_request
        return self.dialect.model(
            Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
        )

    @_CachedProperty
    def normalized_document(self) -> NormalizedDocument:
        """The stored request, by the rules: what others are held against, and may be shown."""
        return matching.normalized_document(self.provider, self.stored_request, self.rules)

    @_CachedProperty
    def key(self) -> str:
        """The hash under which it finds its takes, whatever its credentials are."""
        if self.request_for_key is self.stored_request:
            return matching.document_key(self.normalized_document.document)
        return matching.request_key(self.provider, self.request_for_key, self.rules)


def without_secrets(request: StoredRequest, secrets: Iterable[bytes], mark: str) -> StoredRequest:
    """The request with `mark` for these; the same object where it holds none of them."""
    redactor = redaction.Redactor(secrets, mark)
    clean = StoredRequest(
        method=request.method,
        path=redactor.redact_text(request.path),
        query=redactor.redact_text(request.query),
        headers=tuple((name, redactor.redact_text(value)) for name, value in request.headers),
        body=_redact_body(request.body, redactor),
        redacted=request.redacted + redactor.count,
    )
    return clean if redactor.count else request


def _redact_body(body: bytes, redactor: redaction.Redactor) -> bytes:
    r"""The body as it may be stored; a secret may also stand in it as JSON's `\u` spells it."""
    plain = redactor.redact(body)
    if b"\\u" not in plain or not redactor.has_secrets:
        return plain
    try:
        written = lenient_json.compact_json(lenient_json.parse_json(plain)).encode()
    except ValueError:
        return plain
    before = redactor.count
    again = redactor.redact(written)
    return again if redactor.count > before else plain


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """What an operator decides about calls."""

    session: str = DEFAULT_SESSION
    """That of a request that names none."""
    rules: RuleSet = PLAIN
    """What keys are loosened by."""


def route(
    request: Request,
    arrived: float,
    now: Callable[[], float],
    decompressed: Request | None = None,
    settings: RoutingSettings = RoutingSettings(),
) -> RoutedRequest:
    """The call that this request makes; `uncoded` is the same without its content coding.

    Raises `RequestRefused` for a session or provider name that is no name.
    """
    sent = decompressed or request
    ours = [pair for pair in request.headers if pair[0].lower().startswith(OUR_HEADERS)]
    if not ours and not request.path.startswith(_PREFIXES):  # nearly all of them
        provider = provider_of_request(sent)
        dialect = dialects.find_dialect(sent)
        return RoutedRequest(
            request, sent, settings.session, provider, dialect, arrived, now, rules=settings.rules
        )
    match = _PREFIX.fullmatch(request.path)
    assert match is not None  # noqa: S101 # the pattern matches every path
    named = header_value(tuple(ours), SESSION_HEADER)
    session = _checked_name("session", _first_given_name(match["session"], named, settings.session))
    theirs, plain = (
        replace(
            sent,
            path=match["path"] or "/",
            headers=tuple(pair for pair in sent.headers if pair not in ours),
        )
        for sent in (request, sent)
    )
    provider = _checked_name(
        "provider", _first_given_name(match["provider"], provider_of_request(plain))
    )
    routed = RoutedRequest(
        theirs, plain, session, provider, dialects.find_dialect(plain), arrived, now
    )
    return replace(
        routed,
        scenario=(header_value(tuple(ours), SCENARIO_HEADER) or "").strip(),
        requested_pace=(header_value(tuple(ours), PACE_HEADER) or "").strip(),
        requested_faults=tuple(value for name, value in ours if name.lower() == FAULT_HEADER),
        rules=settings.rules,
    )


def _first_given_name(*names: str | None) -> str:
    """The first name that was given; an empty one was, and is refused."""
    return next(name for name in names if name is not None)


def is_valid_name(text: str) -> bool:
    """Whether a session or a provider can be called so: one safe segment of a path."""
    return _NAME.fullmatch(text) is not None


def _checked_name(label: str, name: str) -> str:
    if not is_valid_name(name):
        raise RequestRefused(
            400,
            f"'{printable(name, _LONGEST)}' is no {label} name: use letters, digits, dot, dash and "
            f"underscore, at most {_LONGEST} of them",
        )
    return name
