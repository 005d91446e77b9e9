"""Routes a request: session, provider, dialect and key.

A path prefix `/@NAME/...` selects session NAME; `/~NAME/...` after that selects the provider.
Nothing else is ever stripped: `/openai/v1/...` is Groq's own path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from propcache.api import cached_property

from llm_proxy import dialects, matching, redaction
from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import Dialect
from llm_proxy.errors import RequestRefused, printable_excerpt
from llm_proxy.exchange import Request, header_value
from llm_proxy.matching import NO_RULES, NormalizedDocument, RuleSet
from llm_proxy.providers import provider_of_request
from llm_proxy.take_numbers import LogicalRequest

SESSION_HEADER: Final = "x-llm-proxy-session"
SCENARIO_HEADER: Final = "x-llm-proxy-scenario"
PACE_HEADER: Final = "x-llm-proxy-pace"
FAULT_HEADER: Final = "x-llm-proxy-fault"
ERROR_HEADER: Final = "x-llm-proxy-error"
"""On an error response of this proxy: the type of the error."""
RETRY_COUNT_HEADER: Final = "x-stainless-retry-count"
"""The SDKs of OpenAI and Anthropic send the number of previous attempts in it."""
OUR_HEADER_PREFIX: Final = "x-llm-proxy-"
"""Headers with this prefix are for the proxy and are not forwarded."""

LARGE_BODY_BYTES: Final = 16 * 1024
"""The size of a body above which computations on it take so long that they run in a thread."""
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RETRY_COUNT: Final = re.compile("[0-9]{1,4}")
_MAX_NAME_CHARS: Final = 100
"""The most characters of a session or provider name."""
_PATH_PREFIXES: Final = ("/@", "/~")
_PREFIXED_PATH: Final = re.compile(
    r"(?:/@(?P<session>[^/]*))?(?:/~(?P<provider>[^/]*))?(?P<path>/.*|)"
)


@dataclass(frozen=True)
class RoutedRequest:
    """A request in the proxy, with everything that its response depends on.

    Two threads that need a cached property at once may both compute it, and neither waits for the
    other: `functools.cached_property` has one lock for all instances before Python 3.12, so the
    recorder's thread, busy with a large request, would block the event loop.
    """

    request: Request
    """The request as it is forwarded to the provider."""
    decompressed_request: Request
    """The same without content coding: it is decoded, stored, and keyed."""
    session: str
    provider: str
    dialect: Dialect
    arrived_at_s: float
    """When the request was read in full, in seconds of the loop's clock."""
    clock: Callable[[], float]
    """The loop's clock: returns seconds."""
    requested_scenario: str = ""
    """The scenario that the client names in a header; empty if none."""
    requested_pace: str = ""
    """The pace that the client requests in a header; empty if none."""
    requested_faults: tuple[str, ...] = ()
    """The faults that the client requests in headers."""
    match_rules: RuleSet = NO_RULES
    """The operator's match rules for the key."""
    environment_secrets: frozenset[bytes] = frozenset()
    """The secrets of the proxy's environment, in every spelling."""
    logical_request: LogicalRequest | None = None
    """The logical request that this is an attempt at; None if attempts are not grouped."""

    def elapsed_ms(self) -> float:
        """ms since the request was read in full."""
        return (self.clock() - self.arrived_at_s) * 1000

    @property
    def is_large(self) -> bool:
        """Whether computations on this request must not block the event loop."""
        return len(self.decompressed_request.body) > LARGE_BODY_BYTES

    @property
    def sdk_retry_count(self) -> int | None:
        """The SDK's count of previous attempts; None if the header is missing or invalid."""
        count = header_value(self.decompressed_request.headers, RETRY_COUNT_HEADER) or ""
        return int(count) if _RETRY_COUNT.fullmatch(count) else None

    @cached_property
    def credentials(self) -> frozenset[bytes]:
        """The client's credentials in every spelling: they must not be stored anywhere."""
        return redaction.request_credential_spellings(self.decompressed_request)

    @cached_property
    def request_for_key(self) -> StoredRequest:
        """The request from which the key is computed: redacted by rules that need no environment.

        It may still contain the credentials elsewhere, so it is neither stored nor displayed.
        """
        request = self.decompressed_request
        query, count = redaction.redact_query(request.query)
        headers = redaction.storable_request_headers(request.headers)
        return redaction.redact_request(
            StoredRequest(request.method, request.path, query, headers, request.body, count),
            self.match_rules.redaction,
        )

    @cached_property
    def stored_request(self) -> StoredRequest:
        """The redacted request; the same object as `request_for_key` if that has no secrets."""
        finder = redaction.NO_REDACTION.finder(self.known_secrets)
        return redaction.redact_known(self.request_for_key, finder)

    @cached_property
    def known_secrets(self) -> Mapping[bytes, redaction.KnownSecret]:
        """The client's credentials and the secrets of the environment, for a finder."""
        operator_secrets = redaction.operator_secrets(self.environment_secrets)
        return operator_secrets | redaction.client_secrets(self.credentials)

    @cached_property
    def conversation(self) -> Conversation | None:
        """The decoded request for a turn; None if it is another kind of request."""
        return self.dialect.decode_request(self.decompressed_request)

    @cached_property
    def model(self) -> str:
        """The requested model, from the stored request: a client may send anything there."""
        return self.dialect.model(self.stored_request)

    @cached_property
    def normalized_document(self) -> NormalizedDocument:
        """The stored request's document after the rules, for comparison and display."""
        return self._normalize(self.stored_request)

    @cached_property
    def key(self) -> str:
        """The hash by which its takes are found, independent of its credentials."""
        if self.request_for_key is self.stored_request:
            return self.normalized_document.document.compute_key()
        return self._normalize(self.request_for_key).document.compute_key()

    def _normalize(self, redacted: StoredRequest) -> NormalizedDocument:
        return self.match_rules.normalize_document(matching.key_document(self.provider, redacted))


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """The operator's settings for routing requests."""

    default_session: str = DEFAULT_SESSION
    """The session of a request that names none."""
    match_rules: RuleSet = NO_RULES
    """The match rules for keys, and the redaction."""
    environment_secrets: frozenset[bytes] = frozenset()
    """The secrets of the proxy's environment, in every spelling."""


def route_request(
    request: Request,
    arrived_at_s: float,
    clock: Callable[[], float],
    decompressed: Request | None = None,
    settings: RoutingSettings = RoutingSettings(),
) -> RoutedRequest:
    """Route a request; `decompressed` is the same request without its content coding.

    Raises `RequestRefused` for an invalid session or provider name.
    """
    readable = decompressed or request
    our_headers = tuple(
        pair for pair in request.headers if pair[0].lower().startswith(OUR_HEADER_PREFIX)
    )
    session: str | None = None
    provider: str | None = None
    if our_headers or request.path.startswith(_PATH_PREFIXES):  # few requests
        match = _PREFIXED_PATH.fullmatch(request.path)
        assert match is not None  # noqa: S101 # the pattern matches every path
        session, provider = match["session"], match["provider"]
        if session is None:
            session = header_value(our_headers, SESSION_HEADER)
        request, readable = (
            replace(
                sent,
                path=match["path"] or "/",
                headers=tuple(pair for pair in sent.headers if pair not in our_headers),
            )
            for sent in (request, readable)
        )
    return RoutedRequest(
        request,
        readable,
        checked_name("session", settings.default_session if session is None else session),
        checked_name("provider", provider_of_request(readable) if provider is None else provider),
        dialects.dialect_of_request(readable),
        arrived_at_s,
        clock,
        requested_scenario=(header_value(our_headers, SCENARIO_HEADER) or "").strip(),
        requested_pace=(header_value(our_headers, PACE_HEADER) or "").strip(),
        requested_faults=tuple(
            value for name, value in our_headers if name.lower() == FAULT_HEADER
        ),
        match_rules=settings.match_rules,
        environment_secrets=settings.environment_secrets,
    )


def is_control_path(path: str) -> bool:
    """Whether the path is a control page's, in every mode."""
    return path == "/_proxy" or path.startswith("/_proxy/")


def is_valid_name(text: str) -> bool:
    """Whether a text is a valid session or provider name: one safe path segment."""
    return _NAME_PATTERN.fullmatch(text) is not None


def checked_name(label: str, name: str) -> str:
    """The name of a session or provider.  Raises `RequestRefused` for an invalid one."""
    if not is_valid_name(name):
        raise RequestRefused(
            400,
            f"'{printable_excerpt(name, _MAX_NAME_CHARS)}' is not a valid {label} name: use "
            f"at most {_MAX_NAME_CHARS} letters, digits, dots, dashes and underscores",
        )
    if spans := redaction.DEFAULT_REDACTION.finder().find(name.encode()):
        raise RequestRefused(
            400, f"the {label} name looks like a secret ({spans[0].rule}); use another name"
        )
    return name
