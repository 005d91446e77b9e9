"""Redaction: recognises secrets, and keeps them off the disk.

Headers are kept by allow-list: a header that is not known to be harmless is not stored.  Secret
query parameters are replaced.  The credentials of a request are replaced wherever else they occur,
in every spelling: in its body, and in the response, even across a read boundary.

Name, length and shape decide what can be a credential: the cookie value `accepted` is none, and
occurs in many responses.

A placeholder names the kind of secret, never a hash of it.  A key is computed from a request that
was redacted by names alone, because CI has other credentials than the machine that recorded; the
values of the client's and the operator's credentials are replaced after that.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_to_bytes

from llm_proxy.exchange import Headers, Read, Request

REDACTION_RULES_VERSION: Final = 2
"""The version of the rules in this module, stored in every cassette."""

PLACEHOLDER: Final = "[redacted]"
CLIENT_PLACEHOLDER: Final = "[redacted-client]"
"""Replaces a client's credential that its request contains a second time."""
OPERATOR_PLACEHOLDER: Final = "[redacted-operator]"
"""Replaces a secret from the operator's environment."""
POST_KEY_PLACEHOLDERS: Final = (CLIENT_PLACEHOLDER, OPERATOR_PLACEHOLDER)
"""Placeholders of values in a request that were replaced after its key was computed."""

STORED_REQUEST_HEADERS: Final = frozenset(
    {"accept", "content-type", "content-encoding", "anthropic-version", "anthropic-beta",
     "openai-beta"}
)  # fmt: skip
"""The request headers that are stored, and no others."""

STORED_RESPONSE_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "content-disposition",
     "cache-control", "www-authenticate", "etag", "allow", "content-range", "accept-ranges",
     "retry-after", "retry-after-ms", "x-should-retry", "x-ms-retry-after-ms", "x-amz-retry-after",
     "openai-version", "openai-processing-ms", "openai-model", "openai-poll-after-ms",
     "anthropic-version", "ratelimit", "proxy-status",
     "x-gemini-service-tier", "x-goog-upload-status",
     "x-amzn-errortype", "x-amzn-query-error", "x-amzn-bedrock-content-type",
     "x-amzn-bedrock-input-token-count", "x-amzn-bedrock-output-token-count",
     "x-amzn-bedrock-cache-read-input-token-count", "x-amzn-bedrock-cache-write-input-token-count",
     "x-amzn-bedrock-invocation-latency", "x-amzn-bedrock-performanceconfig-latency",
     "x-amzn-bedrock-service-tier", "x-amzn-bedrock-agent-content-type",
     "x-amz-bedrock-agent-session-id", "x-amz-bedrock-agent-memory-id",
     "x-amz-bedrock-flow-execution-id", "x-amzn-bedrock-knowledge-base-session-id",
     "x-ms-error-code", "x-ms-region", "azureml-model-group",
     "x-endpoint-monthly-call-limit", "num_chars", "num_tokens", "x-model-deprecation-timestamp",
     "x-error-message", "x-error-code", "x-hf-warning", "x-repo-commit", "x-linked-size",
     "x-linked-etag", "x-together-file-id", "x-envoy-upstream-service-time",
     "x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token",
     "x-tokenization-time", "x-prompt-tokens", "x-generated-tokens", "x-litellm-response-cost",
     "logfire-ai-gateway-cost", "x-accel-buffering",
     "access-control-allow-origin", "access-control-expose-headers"}
)  # fmt: skip
"""The response headers that are stored unchanged; `docs/security.md` lists who reads them.

They include the ids of Bedrock conversations: a client sends them back in a path or a body, and
with a placeholder a replay would miss.
"""

_STORED_RESPONSE_PREFIXES: Final = (
    "x-ratelimit-", "ratelimit-", "x-ratelimitbysize-", "ratelimitbysize-", "anthropic-ratelimit-",
    "x-trial-endpoint-call-", "x-compute-",
)  # fmt: skip
_FIREWORKS_METRICS: Final = re.compile(r"fireworks-.*(?:tokens|duration|time|first-token|requests)")
"""Headers in which Fireworks reports measurements."""
_URL_HEADERS: Final = frozenset({"location", "operation-location", "azure-asyncoperation"})
"""Response headers that are stored without the secrets in their URLs."""

REDACTED_RESPONSE_HEADERS: Final = frozenset(
    {"x-request-id", "request-id", "x-debug-trace-id", "openai-organization", "openai-project",
     "anthropic-organization-id", "anthropic-workspace-id", "x-goog-request-id",
     "x-amzn-requestid", "x-amzn-request-id", "x-amz-request-id", "x-amz-id-2", "x-amz-cf-id",
     "x-amzn-trace-id", "x-ms-request-id", "x-ms-client-request-id", "apim-request-id",
     "azureml-model-session", "cf-ray", "x-together-request-id",
     "x-fireworks-request-id", "x-fireworks-trace-id", "fireworks-backend-host",
     "fireworks-deployment", "fireworks-pod-template-hash", "x-goog-upload-url"}
)  # fmt: skip
"""Response headers that clients read, but whose value identifies an account or a request, or lets
anybody upload: the value is replaced."""

_QUERY_SEPARATOR: Final = re.compile("([&;])")
"""Separates the parameters of a query; a group, so that splitting keeps the separators."""
_URL_USERINFO: Final = re.compile(r"(^|//)[^/?#]*@")
"""User and password in front of a URL's host."""
_QUERY_AND_FRAGMENT: Final = re.compile(r"[?#].*", re.DOTALL)
_SECRET_PARAMETERS: Final = re.compile(
    r"(?:.*[-_.]|api|access|auth|client|session|subscription)?"
    r"(?:key|token|secret|password|passwd|pwd|auth|authorization|credentials?|bearer|jwt)"
    r"|(?:.*[-_.])?access[-_]?key[-_]?id|sig|signature|sas|code|x-(?:amz|goog)-.*",
    re.IGNORECASE,
)
_PAGINATION_NAMES: Final = re.compile(
    r"(?:.*[-_.])?(?:page|next|prev|previous|continuation|sync|resume|start|cursor|sort|order|group"
    r"|partition|range|row|object|cache|idempotency)[-_]?(?:token|key)",
    re.IGNORECASE,
)
"""Names that look like secrets but are for pagination, sorting or caching: `page_token`."""
_CREDENTIAL_PARAMETERS: Final = re.compile(
    r"(?:x[-_])?(?:api[-_]?key|key|access[-_]?token|auth[-_]?token|subscription[-_]?key|token|auth"
    r"|authorization|bearer|jwt|password|passwd|pwd|secret|client[-_]?secret|sig|signature|sas)"
    r"|x-(?:amz|goog)-.*",
    re.IGNORECASE,
)
"""Names of query parameters for credentials that a client may also send in a header."""
_NAME_TEMPLATE: Final = (
    r"(?:.*[-_.])?(?:api|access|auth|client|private|secret|session|subscription)?"
    r"(?:key|token|secret|password|passwd|passphrase|pwd|auth|authorization|credentials?|bearer|jwt"
    r"|signature|sig|assertion{more})"
)
_SECRET_FIELDS: Final = re.compile(_NAME_TEMPLATE.format(more=""), re.IGNORECASE)
_CREDENTIAL_NAMES: Final = re.compile(
    _NAME_TEMPLATE.format(
        more=r"|[cx]srf|(?:.*sess(?:ion)?[-_]?|[a-z]*s)id|session|clearance|cf[-_]bm"
        r"|authentication|authorisation|(?:.*[-_])?auth[-_]code|[a-z]*pass|passcode"
        r"|x?api[-_]?keys?|keys|tokens|secrets|remember(?:[-_]?(?:me|token))?"
    )
    + r"(?:[-_.]?v?[0-9]{1,2})?(?:[-_]header)?",
    re.IGNORECASE,
)
_CAMEL_CASE_BOUNDARY: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_BRACKETS: Final = re.compile(r"[\[\]]+")
"""Brackets around parts of a parameter's name, as some frameworks write: `filter[token]`."""
_PERCENT_ESCAPE: Final = re.compile(b"%[0-9A-F]{2}")
_CREDENTIAL_HEADER_NAME: Final = re.compile(
    r".*(auth|token|secret|key|passw|passcode|pwd|cred|jwt|bearer|signature|assertion|csrf|xsrf"
    r"|session).*|(?:.*[-_])?(?:sid|pat)",
    re.IGNORECASE,
)
"""Names of request headers, besides cookies, that may hold a credential."""
_AUTH_SCHEME_PREFIX: Final = re.compile(rb"(?:[A-Za-z][A-Za-z-]{1,20}:?\s+)+")
"""The scheme in front of a credential: `Bearer`, `OAuth`, `Api-Key:`."""
_NAMED_VALUE: Final = re.compile(rb'(?<![\w-])([\w-]++)\s*=\s*(?:"([^"]*)"|([^\s",;]+))')
"""A name and a value within a credential: `Token token=abc`, `Digest response="abc"`."""
_AWS_SIGNATURE_SECRETS: Final = re.compile(
    rb"\b(?:Credential=(([^\s,/]+)[^\s,]*)|Signature=([^\s,]+))"
)
"""The secrets of an AWS signature: the credential scope, the key id that begins it, and the
signature.  The header names in it are none: they occur in many responses."""
_MIN_SECRET_BYTES: Final = 8
"""Anything shorter is no credential, and would be found everywhere."""
_MIN_RANDOM_CHARS: Final = 4
"""A secret has at least this many letters and digits outside of words and numbers."""
_DUMMY_CREDENTIALS: Final = frozenset(
    {b"anonymous", b"disabled", b"dummy-key", b"lm-studio", b"no-key-required", b"not-needed",
     b"not-required", b"optional", b"placeholder", b"redacted", b"[redacted]", b"<redacted>",
     b"required", b"sk-no-key-required", b"undefined", b"your-api-key", b"your_api_key"}
)  # fmt: skip
"""Values that clients send if no credential is needed, in lower case."""
_ALPHANUMERIC_RUN: Final = re.compile(rb"[A-Za-z0-9]+")
_ORDINARY_RUN: Final = re.compile(
    rb"[A-Za-z]?[a-z]{1,14}|[A-Z]{1,15}"  # a word
    rb"|[A-Za-z0-9]{1,3}|[0-9]{3}[A-Za-z]"  # a number, `32b`, `135m`
    rb"|(?=.{1,20}$)[A-Za-z][a-z]{2,}(?:[A-Z][a-z]{2,})+"  # words in camel case
    rb"|[A-Za-z][a-z]{2,14}[0-9]{1,2}"  # `llama3`
    rb"|(?:19|20)[0-9]{2}(?:[0-9]{4})?|1[0-9]{9}(?:[0-9]{3})?"  # a year, a day, a Unix time
    rb"|[0-9]{1,4}x[0-9]{1,4}"  # the size of a screen
)
"""Runs of letters and digits that random values have only by accident."""
_ORDINARY_NUMBER: Final = re.compile(
    rb"[0-9]{1,9}"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,15}(?:Z|[+-][0-9:]{4,5})?)?"  # ISO 8601
)


def is_secret_parameter(name: str) -> bool:
    """Whether the name of a query parameter, or a part of it, is that of a secret."""
    return _matches_secret_name(_SECRET_PARAMETERS, name)


def is_credential_parameter(name: str) -> bool:
    """Whether a query parameter holds a credential that a client may also send in a header."""
    return any(_CREDENTIAL_PARAMETERS.fullmatch(part) for part in _name_parts(name))


def is_secret_field(name: str) -> bool:
    """Whether the name of a body field is that of a secret: `api_key`, `authorizationToken`."""
    return _matches_secret_name(_SECRET_FIELDS, name)


@lru_cache(256)  # clients send the same names again and again
def is_credential_name(name: str) -> bool:
    """Whether the name of a header or cookie is that of a credential: `x-api-key`, `sid`.

    A name that only contains such a word is not: `x-auth-mode`.
    """
    return _matches_secret_name(_CREDENTIAL_NAMES, name)


def _matches_secret_name(pattern: re.Pattern[str], name: str) -> bool:
    return any(
        pattern.fullmatch(part) is not None and _PAGINATION_NAMES.fullmatch(part) is None
        for part in _name_parts(name)
    )


def _name_parts(name: str) -> list[str]:
    """The bracketed parts of a parameter's name, with `camelCase` split by dashes."""
    return [_CAMEL_CASE_BOUNDARY.sub("-", part) for part in _BRACKETS.split(unquote(name)) if part]


def request_credential_spellings(request: Request) -> frozenset[bytes]:
    """The credentials in a request's headers and query, in every spelling."""
    return _cached_spellings(request.headers, request.query)


@lru_cache(64)  # called several times per request, and clients send the same headers again
def _cached_spellings(headers: Headers, query: str) -> frozenset[bytes]:
    credentials: set[bytes] = set()
    for name, value in headers:
        header_bytes = value.encode("latin-1", "replace")
        if name.lower() == "cookie":
            for cookie_pair in header_bytes.split(b";"):
                cookie_name, cookie_value = map(bytes.strip, cookie_pair.partition(b"=")[::2])
                if is_credential_name(cookie_name.decode("latin-1")) or has_secret_shape(
                    cookie_value
                ):
                    credentials.update((cookie_value, unquote_to_bytes(cookie_value)))
        elif _CREDENTIAL_HEADER_NAME.fullmatch(name):
            has_credential_name = is_credential_name(name)
            credentials.update(
                header_credential
                for header_credential in _header_credentials(header_bytes)
                if has_credential_name or has_secret_shape(header_credential)
            )
    for pair in _QUERY_SEPARATOR.split(query)[::2]:
        name, _, text = pair.partition("=")
        parameter = text.encode()
        if is_secret_parameter(name) and (is_credential_name(name) or has_secret_shape(parameter)):
            with_spaces = parameter.replace(b"+", b" ")
            credentials.update(
                (parameter, unquote_to_bytes(parameter), unquote_to_bytes(with_spaces))
            )
    # Quotes are the document's, not the secret's.
    unquoted = {secret.strip(b"\"'") for secret in credentials}
    long_enough = (
        secret
        for secret in unquoted
        if len(secret) >= _MIN_SECRET_BYTES and secret.lower() not in _DUMMY_CREDENTIALS
    )
    return frozenset(spelling for secret in long_enough for spelling in _secret_spellings(secret))


def has_secret_shape(value: bytes) -> bool:
    """Whether a value can be a secret, whatever its name: enough of it is no word or number.

    `accepted`, `us-east-1`, `gpt-4o-mini` and `2026-11-22T10:30:00Z` cannot; random values can, in
    hexadecimal, base64 or any other spelling.
    """
    decoded = unquote_to_bytes(value)
    if _ORDINARY_NUMBER.fullmatch(decoded):
        return False
    random_char_count = sum(
        len(run) for run in _ALPHANUMERIC_RUN.findall(decoded) if not _ORDINARY_RUN.fullmatch(run)
    )
    return random_char_count >= _MIN_RANDOM_CHARS


def _header_credentials(value: bytes) -> set[bytes]:
    """The credentials in a header: without its scheme, after names, in HTTP Basic's base64."""
    secret = _AUTH_SCHEME_PREFIX.sub(b"", value, count=1).strip()
    if secret.startswith(b"AWS4-"):
        return {secret}.union(*_AWS_SIGNATURE_SECRETS.findall(secret))
    credentials = {secret, *([value.strip()] if value.strip().count(b" ") > 1 else ())}
    for name, quoted, unquoted in _NAMED_VALUE.findall(secret):
        if is_credential_name(name.decode()) or has_secret_shape(quoted or unquoted):
            credentials.add(quoted or unquoted)
    try:
        padded = secret + b"=" * (-len(secret) % 4)  # many servers accept it without padding
        user, colon, password = b64decode(padded, validate=True).partition(b":")
    except ValueError:
        return credentials
    if not colon:
        return credentials
    if not password or has_secret_shape(user):  # else it is a user name: `postgres`
        credentials.add(user)
    return credentials | {password}


def _secret_spellings(secret: bytes) -> frozenset[bytes]:
    """A secret as it is, JSON-escaped (once and twice), and percent-encoded."""
    escaped = _escape_json_text(secret)
    slashed = escaped.replace(b"/", b"\\/")
    percent = {quote(secret, safe=safe).encode() for safe in ("", "/")}
    percent |= {quote_plus(secret).encode()}
    lower_case_percent = {
        _PERCENT_ESCAPE.sub(lambda match: match[0].lower(), data) for data in percent
    }
    return frozenset(
        (secret, escaped, slashed, _escape_json_text(escaped), *percent, *lower_case_percent)
    )


def _escape_json_text(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def storable_request_headers(headers: Headers) -> Headers:
    """The request headers that may be stored, their names in lower case."""
    lower_case = ((name.lower(), value) for name, value in headers)
    return tuple(pair for pair in lower_case if pair[0] in STORED_REQUEST_HEADERS)


def storable_response_headers(headers: Headers) -> Headers:
    """The response headers that may be stored; the values of ids are replaced."""
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        lower = name.lower()
        if lower in _URL_HEADERS:
            kept.append((name, _redact_url(value)))
        elif (
            lower in STORED_RESPONSE_HEADERS
            or lower.startswith(_STORED_RESPONSE_PREFIXES)
            or _FIREWORKS_METRICS.fullmatch(lower)
        ):
            kept.append((name, value))
        elif lower in REDACTED_RESPONSE_HEADERS:
            kept.append((name, PLACEHOLDER))
    return tuple(kept)


def _redact_url(url: str) -> str:
    before_fragment, hash_mark, fragment = _URL_USERINFO.sub(r"\1", url).partition("#")
    target, question_mark, parameters = before_fragment.partition("?")
    return (
        target + question_mark + redact_query(parameters)[0] + hash_mark + redact_query(fragment)[0]
    )


def displayable_target(target: str) -> str:
    """A request target without user, query and fragment, so that it may be displayed."""
    return _URL_USERINFO.sub(r"\1", _QUERY_AND_FRAGMENT.sub("", target))


def redact_query(query: str) -> tuple[str, int]:
    """The query with its secret parameters replaced, and their number."""
    count, kept = 0, list[str]()
    for pair in _QUERY_SEPARATOR.split(query):
        name, equals, value = pair.partition("=")
        if equals and value and is_secret_parameter(name):
            count += 1
            kept.append(f"{name}={PLACEHOLDER}")
        else:
            kept.append(pair)
    return "".join(kept), count


@dataclass(frozen=True, slots=True)
class RedactedPiece(Read):
    """A read without secrets, or a part of one."""

    is_continuation: bool = False
    """Whether it continues the read of the previous piece: it had been held back."""


class Redactor:
    """Replaces secrets in bytes: all at once, or in reads as they arrive.

    While reads arrive, bytes that may begin a secret are held back from the disk until the next
    read decides; the client has received them already.
    """

    def __init__(self, secrets: Iterable[bytes], placeholder: str = PLACEHOLDER) -> None:
        """Each of `secrets` is replaced by `placeholder`."""
        longest_first = sorted(set(secrets), key=len, reverse=True)
        self._secrets = longest_first
        self._pattern = (
            re.compile(b"|".join(map(re.escape, longest_first))) if longest_first else None
        )
        self._placeholder = placeholder.encode()
        self._held_pieces: list[RedactedPiece] = []
        self._is_read_start_dropped = False
        """Whether the last returned part of a read was empty, so that its rest begins the read."""
        self.replaced_count = 0
        """The number of secrets replaced so far."""

    def redact(self, data: bytes) -> bytes:
        """`data` with its secrets replaced."""
        if self._pattern is None:
            return data
        replaced, count = self._pattern.subn(self._placeholder, data)
        self.replaced_count += count
        return replaced

    @property
    def has_secrets(self) -> bool:
        """Whether there are secrets to replace."""
        return self._pattern is not None

    @property
    def is_holding_back(self) -> bool:
        """Whether bytes are held back."""
        return bool(self._held_pieces)

    def secret_spans(self, data: bytes) -> list[tuple[int, int]]:
        """The start and end offsets of secrets in `data`, from left to right."""
        return [match.span() for match in self._pattern.finditer(data)] if self._pattern else []

    def redact_latin1(self, value: str) -> str:
        """Text that is decoded as Latin-1, such as a header value, with its secrets replaced."""
        return self.redact(value.encode("latin-1", "replace")).decode("latin-1")

    def feed(self, read: Read) -> list[RedactedPiece]:
        """Take a read, or a piece of one; return the pieces that are final now.

        They are in order and without secrets.
        """
        piece = (
            read
            if isinstance(read, RedactedPiece)
            else RedactedPiece(read.at_ms, read.received_bytes)
        )
        if self._pattern is None:
            return [piece]
        self._held_pieces.append(piece)
        data = b"".join(held.received_bytes for held in self._held_pieces)
        return self._release_until(data, self._partial_secret_offset(data))

    def pass_clean_pieces(self, pieces: list[RedactedPiece]) -> list[RedactedPiece]:
        """Return pieces without secrets unchanged; only valid while nothing is held back."""
        if pieces:
            is_continuation = pieces[0].is_continuation and not self._is_read_start_dropped
            pieces[0] = replace(pieces[0], is_continuation=is_continuation)
            self._is_read_start_dropped = False
        return pieces

    def flush(self) -> list[RedactedPiece]:
        """Return the pieces that were held back; more reads may follow."""
        data = b"".join(held.received_bytes for held in self._held_pieces)
        return self._release_until(data, len(data))

    def _partial_secret_offset(self, data: bytes) -> int:
        """The offset at which an incomplete secret may begin; the length of `data` if none does."""
        first = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while start != -1 and start < first:
                if secret.startswith(data[start:]):
                    first = start
                start = data.find(secret[:1], start + 1)
        return first

    def _release_until(self, data: bytes, until_offset: int) -> list[RedactedPiece]:
        """Return the pieces up to an offset; a placeholder goes to the read that it begins in."""
        spans = [(begin, end) for begin, end in self.secret_spans(data) if begin < until_offset]
        until_offset = max([until_offset, *(end for _, end in spans)])
        self.replaced_count += len(spans)
        settled, kept = list[RedactedPiece](), list[RedactedPiece]()
        position = 0
        for held in self._held_pieces:
            begin, position = position, position + len(held.received_bytes)
            if begin >= until_offset:
                kept.append(held)
                continue
            is_continuation = held.is_continuation and not self._is_read_start_dropped
            piece = _replace_spans(
                data, begin, min(position, until_offset), spans, self._placeholder
            )
            if piece:
                settled.append(RedactedPiece(held.at_ms, piece, is_continuation))
                is_continuation = True
            if position > until_offset:
                rest = data[until_offset:position]
                kept.append(RedactedPiece(held.at_ms, rest, is_continuation))
            self._is_read_start_dropped = position <= until_offset and not is_continuation
        self._held_pieces = kept
        return settled


def _replace_spans(
    data: bytes, begin: int, end: int, spans: list[tuple[int, int]], placeholder: bytes
) -> bytes:
    """`data[begin:end]` with `placeholder` at the beginning of each span."""
    pieces: list[bytes] = []
    offset = begin
    for first, last in spans:
        if last <= offset or first >= end:
            continue
        pieces.append(data[offset : max(offset, first)])
        if first >= begin:
            pieces.append(placeholder)
        offset = min(last, end)
    pieces.append(data[offset:end])
    return b"".join(pieces)
