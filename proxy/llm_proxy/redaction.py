"""What never reaches the disk.

Headers are kept by allow-list: what is not known to be harmless is not stored at all.  Secret
query parameters are replaced.  The credentials that a request carries in its headers or query
are replaced wherever else they turn up: in its body, and in the response, also where a read
boundary falls inside them.

A placeholder carries what kind of thing stood there, never a hash of it.  A key is made from a
request that was redacted by rules that need no environment, because CI has other secrets than the
machine that recorded; what is the operator's is replaced after that.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus, unquote_to_bytes

from llm_proxy.exchange import Headers, Read, Request
from llm_proxy.secret_names import is_secret_parameter

REDACTION_RULES: Final = 1
"""The version of the rules in this module, stored in every cassette."""

PLACEHOLDER: Final = "[redacted]"
OF_OPERATOR: Final = "[redacted-operator]"
"""For what is secret by the operator's environment: a key was made before it was replaced."""

REQUEST_HEADERS: Final = frozenset(
    {"accept", "content-type", "content-encoding", "anthropic-version", "anthropic-beta",
     "openai-beta"}
)  # fmt: skip
"""The request headers that are stored, and nothing else."""

RESPONSE_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "content-disposition",
     "cache-control", "www-authenticate", "etag", "allow", "content-range", "accept-ranges",
     "retry-after", "retry-after-ms", "x-should-retry", "openai-version", "openai-processing-ms",
     "openai-model", "anthropic-version", "x-amzn-errortype", "x-amz-retry-after",
     "x-amzn-bedrock-content-type", "x-amzn-bedrock-input-token-count",
     "x-amzn-bedrock-output-token-count", "x-amzn-bedrock-cache-read-input-token-count",
     "x-amzn-bedrock-cache-write-input-token-count", "x-amzn-bedrock-invocation-latency",
     "x-endpoint-monthly-call-limit", "num_chars", "num_tokens", "x-accel-buffering",
     "access-control-allow-origin", "access-control-expose-headers"}
)  # fmt: skip
"""The response headers that are stored as they came."""

_RESPONSE_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-", "x-trial-endpoint-call-")

REQUEST_IDS: Final = frozenset(
    {"x-request-id", "request-id", "x-amzn-requestid", "x-debug-trace-id",
     "openai-organization", "openai-project", "anthropic-organization-id"}
)  # fmt: skip
"""Response headers that clients read, but whose value says whose account it was."""

_PAIRS: Final = re.compile("([&;])")
"""Between the parameters of a query; splitting keeps them."""
_HEX: Final = re.compile(b"%[0-9A-F]{2}")
_CREDENTIAL_HEADERS: Final = re.compile(
    r".*(auth|token|secret|key|passw|credential|jwt|bearer|signature|assertion|csrf|xsrf).*",
    re.IGNORECASE,
)
_SCHEME: Final = re.compile(rb"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_NAMED: Final = re.compile(rb'=\s*(?:"([^"]*)"|([^\s",;]+))')
"""A credential's value behind its name: `Token token=abc`, `Digest response="abc"`."""
_OF_SIGNATURE: Final = re.compile(rb"\b(?:Credential=(([^\s,/]+)[^\s,]*)|Signature=([^\s,]+))")
"""What is secret in a signature of AWS's: a scope, the key's id that it begins with, and the
signature.  It names headers too, which stand in many an answer."""
_SHORTEST_SECRET: Final = 8
"""Bytes: anything shorter is no credential, and would be found everywhere."""


def request_headers(headers: Headers) -> Headers:
    """The request headers that may be stored, their names in lower case."""
    lower = ((name.lower(), value) for name, value in headers)
    return tuple(pair for pair in lower if pair[0] in REQUEST_HEADERS)


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
    count, kept = 0, list[str]()
    for pair in _PAIRS.split(raw):
        name, equals, value = pair.partition("=")
        if equals and value and is_secret_parameter(name):
            count += 1
            kept.append(f"{name}={PLACEHOLDER}")
        else:
            kept.append(pair)
    return "".join(kept), count


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
        if is_secret_parameter(name):
            found.update((value.encode(), unquote_to_bytes(value)))
            found.add(unquote_to_bytes(value.replace("+", " ")))
    bare = {secret.strip(b"\"'") for secret in found}  # quotes are the document's, not the secret's
    long = (secret for secret in bare if len(secret) >= _SHORTEST_SECRET)
    return frozenset(spelling for secret in long for spelling in _spellings(secret))


def _of_header(value: bytes) -> set[bytes]:
    """The credentials in a header: without its scheme, behind names, in HTTP Basic's base64."""
    secret = _SCHEME.sub(b"", value, count=1).strip()
    if secret.startswith(b"AWS4-"):
        return {secret}.union(*_OF_SIGNATURE.findall(secret))
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

    def __init__(self, secrets: Iterable[bytes], mark: str = PLACEHOLDER) -> None:
        """`mark` takes the place of each."""
        ordered = sorted(set(secrets), key=len, reverse=True)
        self._secrets = ordered
        self._pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None
        self._mark = mark.encode()
        self._held: list[Piece] = []
        self._is_gone = False
        """Whether nothing is left of what was settled last, so that a rest begins its read."""
        self.count = 0
        """How many secrets were replaced so far."""

    def whole(self, data: bytes) -> bytes:
        """All of `data` with its secrets replaced."""
        if self._pattern is None:
            return data
        replaced, count = self._pattern.subn(self._mark, data)
        self.count += count
        return replaced

    @property
    def has_secrets(self) -> bool:
        """Whether there is anything to replace."""
        return self._pattern is not None

    @property
    def holds_back(self) -> bool:
        """Whether something was fed that is not settled."""
        return bool(self._held)

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where in `data` secrets stand, from left to right."""
        return [it.span() for it in self._pattern.finditer(data)] if self._pattern else []

    def text(self, value: str) -> str:
        """A header's value with its secrets replaced."""
        return self.whole(value.encode("latin-1", "replace")).decode("latin-1")

    def feed(self, read: Read, *, rest: bool = False) -> list[Piece]:
        """What is settled after this read, or `rest` of one, in order, without secrets."""
        if self._pattern is None:
            return [Piece(read, rest)]
        self._held.append(Piece(read, rest))
        data = b"".join(held.read.data for held in self._held)
        return self._release(data, self._open_at(data))

    def skip(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces that are known to hold no secret, where nothing is held back."""
        if pieces:
            pieces[0] = Piece(pieces[0].read, pieces[0].rest and not self._is_gone)
            self._is_gone = False
        return pieces

    def close(self) -> list[Piece]:
        """What was held back; more may follow."""
        data = b"".join(held.read.data for held in self._held)
        return self._release(data, len(data))

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
        spans = [(begin, end) for begin, end in self.spans(data) if begin < until]
        until = max([until, *(end for _, end in spans)])
        self.count += len(spans)
        settled, kept = list[Piece](), list[Piece]()
        position = 0
        for held in self._held:
            begin, position = position, position + len(held.read.data)
            if begin >= until:
                kept.append(held)
                continue
            rest = held.rest and not self._is_gone
            piece = _without(data, begin, min(position, until), spans, self._mark)
            if piece:
                settled.append(Piece(Read(held.read.at, piece), rest))
                rest = True
            if position > until:
                kept.append(Piece(Read(held.read.at, data[until:position]), rest))
            self._is_gone = position <= until and not rest
        self._held = kept
        return settled


def _without(data: bytes, begin: int, end: int, spans: list[tuple[int, int]], mark: bytes) -> bytes:
    """`data[begin:end]` with `mark` for the spans, each where it begins."""
    pieces: list[bytes] = []
    at = begin
    for first, last in spans:
        if last <= at or first >= end:
            continue
        pieces.append(data[at : max(at, first)])
        if first >= begin:
            pieces.append(mark)
        at = min(last, end)
    pieces.append(data[at:end])
    return b"".join(pieces)
