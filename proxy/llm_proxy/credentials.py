"""Collects a request's credentials in every spelling in which they may occur.

What can be a secret is decided by name, length and shape: the word `accepted` of a cookie is none,
and it stands in many an answer.
"""

from __future__ import annotations

import re
from base64 import b64decode
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote_to_bytes

from llm_proxy.exchange import Headers, Request
from llm_proxy.secret_names import is_credential_name, is_secret_parameter

_PAIRS: Final = re.compile("[&;]")
"""Between the parameters of a query."""
_HEX: Final = re.compile(b"%[0-9A-F]{2}")
_CREDENTIAL_HEADERS: Final = re.compile(
    r".*(auth|token|secret|key|passw|passcode|pwd|cred|jwt|bearer|signature|assertion|csrf|xsrf"
    r"|session).*|(?:.*[-_])?(?:sid|pat)",
    re.IGNORECASE,
)
"""The request headers that may hold a credential, beside cookies."""
_SCHEME: Final = re.compile(rb"(?:[A-Za-z][A-Za-z-]{1,20}:?\s+)+")
"""What stands in front of a credential: `Bearer`, `OAuth`, `Api-Key:`."""
_NAMED: Final = re.compile(rb'(?<![\w-])([\w-]++)\s*=\s*(?:"([^"]*)"|([^\s",;]+))')
"""A value behind its name in a credential: `Token token=abc`, `Digest response="abc"`."""
_OF_SIGNATURE: Final = re.compile(rb"\b(?:Credential=(([^\s,/]+)[^\s,]*)|Signature=([^\s,]+))")
"""What is secret in a signature of AWS's: a scope, the key's id that it begins with, and the
signature.  It names headers too, which stand in many an answer."""
_SHORTEST_SECRET: Final = 8
"""Bytes: anything shorter is no credential, and would be found everywhere."""
_LEAST_ODD: Final = 4
"""Letters and digits of a value that are neither words nor numbers, if it can be a secret."""
_NO_SECRETS: Final = frozenset(
    {b"anonymous", b"disabled", b"dummy-key", b"lm-studio", b"no-key-required", b"not-needed",
     b"not-required", b"optional", b"placeholder", b"redacted", b"[redacted]", b"<redacted>",
     b"required", b"sk-no-key-required", b"undefined", b"your-api-key", b"your_api_key"}
)  # fmt: skip
"""What is sent in place of a credential where none is needed, in lower case."""
_RUN: Final = re.compile(rb"[A-Za-z0-9]+")
_ORDINARY: Final = re.compile(
    rb"[A-Za-z]?[a-z]{1,14}|[A-Z]{1,15}"  # a word
    rb"|[A-Za-z0-9]{1,3}|[0-9]{3}[A-Za-z]"  # a number, `32b`, `135m`
    rb"|(?=.{1,20}$)[A-Za-z][a-z]{2,}(?:[A-Z][a-z]{2,})+"  # words in camel case
    rb"|[A-Za-z][a-z]{2,14}[0-9]{1,2}"  # `llama3`
    rb"|(?:19|20)[0-9]{2}(?:[0-9]{4})?|1[0-9]{9}(?:[0-9]{3})?"  # a year, a day, a Unix time
    rb"|[0-9]{1,4}x[0-9]{1,4}"  # the size of a screen
)
"""Runs of letters and digits that random values have by accident alone."""
_ORDINARY_NUMBER: Final = re.compile(
    rb"[0-9]{1,9}"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]{5,15}(?:Z|[+-][0-9:]{4,5})?)?"  # ISO 8601
)


def credential_spellings(request: Request) -> frozenset[bytes]:
    """The credentials that this request carries in its headers and its query."""
    return _find_credentials(request.headers, request.query)


@lru_cache(64)  # asked for several times of a request, and clients send the same headers again
def _find_credentials(headers: Headers, query: str) -> frozenset[bytes]:
    found: set[bytes] = set()
    for name, value in headers:
        sent = value.encode("latin-1", "replace")
        if name.lower() == "cookie":
            for crumb in sent.split(b";"):
                called, cookie = map(bytes.strip, crumb.partition(b"=")[::2])
                if is_credential_name(called.decode("latin-1")) or has_secret_shape(cookie):
                    found.update((cookie, unquote_to_bytes(cookie)))
        elif _CREDENTIAL_HEADERS.fullmatch(name):
            named = is_credential_name(name)
            found.update(
                header_credential
                for header_credential in _header_credentials(sent)
                if named or has_secret_shape(header_credential)
            )
    for pair in _PAIRS.split(query):
        name, _, value = pair.partition("=")
        sent = value.encode()
        if is_secret_parameter(name) and (is_credential_name(name) or has_secret_shape(sent)):
            found.update((sent, unquote_to_bytes(sent), unquote_to_bytes(sent.replace(b"+", b" "))))
    bare = {secret.strip(b"\"'") for secret in found}  # quotes are the document's, not the secret's
    long = (
        secret
        for secret in bare
        if len(secret) >= _SHORTEST_SECRET and secret.lower() not in _NO_SECRETS
    )
    return frozenset(spelling for secret in long for spelling in _spellings_of(secret))


def has_secret_shape(value: bytes) -> bool:
    """Whether a value can be a secret whatever it is called: too much of it is no word or number.

    `accepted`, `us-east-1`, `gpt-4o-mini` and `2026-11-22T10:30:00Z` can not; what is random can,
    in hexadecimal, base64 or any other spelling.
    """
    plain = unquote_to_bytes(value)
    if _ORDINARY_NUMBER.fullmatch(plain):
        return False
    odd = sum(len(run) for run in _RUN.findall(plain) if not _ORDINARY.fullmatch(run))
    return odd >= _LEAST_ODD


def _header_credentials(value: bytes) -> set[bytes]:
    """The credentials in a header: without its scheme, behind names, in HTTP Basic's base64."""
    secret = _SCHEME.sub(b"", value, count=1).strip()
    if secret.startswith(b"AWS4-"):
        return {secret}.union(*_OF_SIGNATURE.findall(secret))
    found = {secret, *([value.strip()] if value.strip().count(b" ") > 1 else ())}
    for name, quoted, bare in _NAMED.findall(secret):
        if is_credential_name(name.decode()) or has_secret_shape(quoted or bare):
            found.add(quoted or bare)
    try:
        padded = secret + b"=" * (-len(secret) % 4)  # which many servers do without
        user, colon, password = b64decode(padded, validate=True).partition(b":")
    except ValueError:
        return found
    if not colon:
        return found
    if not password or has_secret_shape(user):  # else it is a name: `postgres`
        found.add(user)
    return found | {password}


def _spellings_of(secret: bytes) -> frozenset[bytes]:
    """A secret as it is, as JSON writes it (also within JSON), and percent-encoded."""
    escaped = _json_escaped(secret)
    slashed = escaped.replace(b"/", b"\\/")
    percent = {quote(secret, safe=safe).encode() for safe in ("", "/")}
    percent |= {quote_plus(secret).encode()}
    lower = {_HEX.sub(lambda match: match[0].lower(), data) for data in percent}
    return frozenset((secret, escaped, slashed, _json_escaped(escaped), *percent, *lower))


def _json_escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
