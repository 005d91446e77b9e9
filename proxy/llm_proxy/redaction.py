"""What never reaches the disk.

Headers are kept by allow-list: what is not known to be harmless is not stored at all.  Secret
query parameters are replaced.  The credentials that a request carries in its headers or query
are replaced wherever else they turn up: in its body, and in the response, also where a read
boundary falls inside them.

A placeholder carries what kind of thing stood there, never a hash of it.  Only rules that need
no environment are used, because the key is made from the redacted request and CI has other
secrets than the machine that recorded.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_to_bytes

from llm_proxy.exchange import Headers, Read, Request

REDACTION_RULES: Final = 1
"""The version of the rules in this module, stored in every cassette."""

PLACEHOLDER: Final = "[redacted]"

REQUEST_HEADERS: Final = frozenset(
    {"accept", "content-type", "content-encoding", "anthropic-version", "anthropic-beta",
     "openai-beta"}
)  # fmt: skip
"""The request headers that are stored, and nothing else."""

RESPONSE_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "content-disposition",
     "cache-control", "www-authenticate", "etag", "allow", "content-range", "accept-ranges",
     "retry-after", "retry-after-ms", "x-should-retry", "openai-version", "openai-processing-ms",
     "openai-model", "anthropic-version", "x-amzn-errortype",
     "x-amzn-bedrock-content-type", "x-amzn-bedrock-input-token-count",
     "x-amzn-bedrock-output-token-count",
     "access-control-allow-origin", "access-control-expose-headers", "x-accel-buffering"}
)  # fmt: skip
"""The response headers that are stored as they came."""

_RESPONSE_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")

REQUEST_IDS: Final = frozenset(
    {"x-request-id", "request-id", "x-amzn-requestid", "openai-organization", "openai-project",
     "anthropic-organization-id"}
)  # fmt: skip
"""Response headers that clients read, but whose value says whose account it was."""

_SECRET_PARAMETERS: Final = re.compile(
    r"(?:.*[-_.]|api|access|auth|client|session|subscription)?"
    r"(?:key|token|secret|password|passwd|pwd|auth|authorization|credentials?|bearer|jwt)"
    r"|sig|signature|sas|code|x-(?:amz|goog)-.*",
    re.IGNORECASE,
)
_PAIRS: Final = re.compile("([&;])")
"""Between the parameters of a query; splitting keeps them."""
_HEX: Final = re.compile(b"%[0-9A-F]{2}")
_BRACKETS: Final = re.compile(r"[\[\]]+")
"""What some frameworks write around the parts of a parameter's name: `filter[token]`."""
_CREDENTIAL_HEADERS: Final = re.compile(
    r".*(auth|token|secret|key|passw|credential|jwt|bearer|signature|assertion|csrf|xsrf).*",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(rb"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_NAMED: Final = re.compile(rb'=\s*(?:"([^"]*)"|([^\s",;]+))')
"""A credential's value behind its name: `Token token=abc`, `Digest response="abc"`."""
_SHORTEST_SECRET: Final = 8
"""Bytes: anything shorter is no credential, and would be found everywhere."""


def request_headers(headers: Headers) -> Headers:
    """The request headers that may be stored, their names in lower case."""
    return tuple(
        (name.lower(), value) for name, value in headers if name.lower() in REQUEST_HEADERS
    )


def response_headers(headers: Headers) -> Headers:
    """The response headers that may be stored; ids are replaced, so that readers find one."""
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        lower = name.lower()
        if lower == "location":
            kept.append((name, _location(value)))
        elif lower in RESPONSE_HEADERS or lower.startswith(_RESPONSE_PREFIXES):
            kept.append((name, value))
        elif lower in REQUEST_IDS:
            kept.append((name, PLACEHOLDER))
    return tuple(kept)


def _location(url: str) -> str:
    """A redirect's target without the secrets of its query and its fragment."""
    rest, hash_mark, fragment = url.partition("#")
    target, mark, parameters = rest.partition("?")
    return target + mark + query(parameters)[0] + hash_mark + query(fragment)[0]


def query(raw: str) -> tuple[str, int]:
    """The query with its secret parameters replaced, and how many there were."""
    if not raw:
        return raw, 0
    count = 0
    kept: list[str] = []
    for pair in _PAIRS.split(raw):
        name, equals, value = pair.partition("=")
        if equals and value and _is_secret(name):
            count += 1
            kept.append(f"{name}={PLACEHOLDER}")
        else:
            kept.append(pair)
    return "".join(kept), count


def _is_secret(name: str) -> bool:
    """Whether a query parameter is called like a secret, or a part of its name is."""
    parts = _BRACKETS.split(unquote(name))
    return any(_SECRET_PARAMETERS.fullmatch(part) for part in parts if part)


def credentials(request: Request) -> frozenset[bytes]:
    """The credentials that this request carries in its headers and its query."""
    found: set[bytes] = set()
    for name, value in request.headers:
        sent = value.encode("latin-1", "replace")
        if name.lower() == "cookie":
            for crumb in sent.split(b";"):
                cookie = crumb.partition(b"=")[2].strip()
                found.update((cookie, unquote_to_bytes(cookie)))
        elif _CREDENTIAL_HEADERS.fullmatch(name):
            found.update(_of_header(sent))
    for pair in _PAIRS.split(request.query):
        name, _, value = pair.partition("=")
        if _is_secret(name):
            found.update((value.encode(), unquote_to_bytes(value)))
            found.add(unquote_to_bytes(value.replace("+", " ")))
    bare = {secret.strip(b"\"'") for secret in found}  # quotes are the document's, not the secret's
    return frozenset(
        spelling
        for secret in bare
        if len(secret) >= _SHORTEST_SECRET
        for spelling in _spellings(secret)
    )


def _of_header(value: bytes) -> set[bytes]:
    """The credentials in a header: without its scheme, behind names, in HTTP Basic's base64."""
    secret = _SCHEME.sub(b"", value, count=1).strip()
    found = {secret, *(quoted or bare for quoted, bare in _NAMED.findall(secret))}
    try:
        user, colon, password = b64decode(secret, validate=True).partition(b":")
    except ValueError:
        return found
    return found | {user, password} if colon else found


def _spellings(secret: bytes) -> frozenset[bytes]:
    """A secret as it is, as JSON writes it (also within JSON), and percent-encoded."""
    escaped = _as_json(secret)
    slashed = escaped.replace(b"/", b"\\/")
    percent = {quote(secret, safe=safe).encode() for safe in ("", "/")}
    percent |= {quote_plus(secret).encode()}
    lower = {_HEX.sub(lambda match: match[0].lower(), it) for it in percent}
    return frozenset((secret, escaped, slashed, _as_json(escaped), *percent, *lower))


def _as_json(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


@dataclass(frozen=True, slots=True)
class Piece:
    """A read without secrets, or a part of one."""

    read: Read
    rest: bool = False
    """Whether it goes on with the read of the piece before, of which it was held back."""


class Redactor:
    """Replaces secrets in bytes: in one piece, or in reads as they arrive.

    While reads arrive, bytes that may be the beginning of a secret are held back from the disk
    until the next read decides; the client has them long since.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        ordered = sorted(set(secrets), key=len, reverse=True)
        self._secrets = ordered
        self._pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
        self._held: list[Piece] = []
        self.count = 0
        """How many secrets were replaced so far."""

    def whole(self, data: bytes) -> bytes:
        """All of `data` with its secrets replaced."""
        if self._pattern is None:
            return data
        replaced, count = self._pattern.subn(PLACEHOLDER.encode(), data)
        self.count += count
        return replaced

    def text(self, value: str) -> str:
        """A header's value with its secrets replaced."""
        return self.whole(value.encode("latin-1", "replace")).decode("latin-1")

    def feed(self, read: Read) -> list[Piece]:
        """What is settled after this read, in order, without secrets."""
        if self._pattern is None:
            return [Piece(read)]
        self._held.append(Piece(read))
        data = b"".join(held.read.data for held in self._held)
        return self._release(data, self._open_at(data))

    def close(self) -> list[Piece]:
        """What was held back."""
        data = b"".join(held.read.data for held in self._held)
        return self._release(data, len(data)) if data else []

    def _open_at(self, data: bytes) -> int:
        """Where a secret may have begun that has not ended; the length of `data` if nowhere."""
        first = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while start != -1 and start < first:
                if secret.startswith(data[start:]):
                    first = start
                start = data.find(secret[:1], start + 1)
        return first

    def _release(self, data: bytes, until: int) -> list[Piece]:
        """Give the reads up to `until`; a placeholder goes to the read in which it began."""
        assert self._pattern is not None  # noqa: S101 # only called with secrets
        spans = [match.span() for match in self._pattern.finditer(data, 0, len(data))]
        spans = [(begin, end) for begin, end in spans if begin < until]
        until = max([until, *(end for _, end in spans)])
        self.count += len(spans)
        settled: list[Piece] = []
        kept: list[Piece] = []
        position = 0
        for held in self._held:
            begin, position = position, position + len(held.read.data)
            rest = held.rest
            if begin < until:
                piece = _without(data, begin, min(position, until), spans)
                if piece:
                    settled.append(Piece(Read(held.read.at, piece), rest))
                    rest = True
            if position > until:
                left = Read(held.read.at, data[max(begin, until) : position])
                kept.append(Piece(left, rest))
        self._held = kept
        return settled


def _without(data: bytes, begin: int, end: int, spans: list[tuple[int, int]]) -> bytes:
    """`data[begin:end]` with the spans replaced, each where it begins."""
    pieces: list[bytes] = []
    at = begin
    for first, last in spans:
        if last <= at or first >= end:
            continue
        pieces.append(data[at : max(at, first)])
        if first >= begin:
            pieces.append(PLACEHOLDER.encode())
        at = min(last, end)
    pieces.append(data[at:end])
    return b"".join(pieces)
