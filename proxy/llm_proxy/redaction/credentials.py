"""The credentials of a request and of the environment, in the spellings of bodies.

Name, length and shape decide what can be a credential: the cookie value `accepted` is none, and
occurs in many responses.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote_to_bytes

from llm_proxy.exchange import Headers, Request
from llm_proxy.redaction.headers import QUERY_SEPARATOR
from llm_proxy.redaction.names import is_credential_name, is_secret_parameter

_UNICODE_ESCAPE: Final = re.compile(rb"\\u([0-9a-f]{4})")
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
_MIN_ENVIRONMENT_BYTES: Final = 12
"""The shortest secret of the environment: a shorter one may be an ordinary word of an answer."""
_MAX_ENVIRONMENT_BYTES: Final = 4096
"""The longest: of a longer one, such as a private key, the shape decides."""
_MIN_RANDOM_CHARS: Final = 4
"""A secret has at least this many letters and digits outside of words and numbers."""
_DUMMY_CREDENTIALS: Final = frozenset(
    {b"anonymous", b"disabled", b"dummy-key", b"llm-proxy-replay", b"lm-studio",
     b"no-key-required", b"not-needed", b"not-required", b"optional", b"placeholder", b"redacted",
     b"[redacted]", b"<redacted>", b"required", b"sk-no-key-required", b"undefined",
     b"your-api-key", b"your_api_key"}
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
    for pair in QUERY_SEPARATOR.split(query)[::2]:
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


def environment_secret_spellings(environ: Mapping[str, str]) -> frozenset[bytes]:
    """The secrets of an environment, in every spelling: by name, length and shape."""
    return frozenset(
        spelling
        for name, value in environ.items()
        if is_credential_name(name) and not is_dummy_credential(value)
        for secret in (value.encode("utf-8", "surrogateescape").strip(),)
        if _MIN_ENVIRONMENT_BYTES <= len(secret) <= _MAX_ENVIRONMENT_BYTES
        and has_secret_shape(secret)
        for spelling in _secret_spellings(secret)
    )


def is_dummy_credential(value: str) -> bool:
    """Whether clients send this value where no credential is needed."""
    return value.strip().lower().encode("utf-8", "replace") in _DUMMY_CREDENTIALS


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
    ascii_json = json.dumps(secret.decode("utf-8", "replace"))[1:-1].encode()
    upper_case_json = _UNICODE_ESCAPE.sub(lambda match: b"\\u" + match[1].upper(), ascii_json)
    return frozenset(
        (
            secret,
            escaped,
            slashed,
            ascii_json,
            upper_case_json,
            _escape_json_text(escaped),
            _escape_json_text(ascii_json),
            *percent,
            *lower_case_percent,
        )
    )


def _escape_json_text(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
