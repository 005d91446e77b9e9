"""Redaction: keeps secrets off the disk.

Headers are kept by allow-list: what is not known to be harmless is not stored at all.  Secret
query parameters are replaced.  The credentials that a request carries (`credentials`) are replaced
wherever else they turn up: in its body, and in the response, also where a read boundary falls
inside them.

A placeholder carries what kind of thing stood there, never a hash of it.  A key is made from a
request that was redacted by names alone, because CI has other credentials than the machine that
recorded; what the client's and the operator's credentials spell is replaced after that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Headers, Read
from llm_proxy.secret_names import is_secret_parameter

REDACTION_RULES: Final = 2
"""The version of the rules in this module, stored in every cassette."""

PLACEHOLDER: Final = "[redacted]"
OF_CLIENT: Final = "[redacted-client]"
"""For a credential of the client's that stands in its request a second time."""
OF_OPERATOR: Final = "[redacted-operator]"
"""For what is secret by the operator's environment."""
AFTER_KEY: Final = (OF_CLIENT, OF_OPERATOR)
"""Placeholders in a request for what was replaced after its key was made."""

REQUEST_HEADERS: Final = frozenset(
    {"accept", "content-type", "content-encoding", "anthropic-version", "anthropic-beta",
     "openai-beta"}
)  # fmt: skip
"""The request headers that are stored, and nothing else."""

RESPONSE_HEADERS: Final = frozenset(
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
"""The response headers that are stored as they came; `docs/security.md` says who reads them.

The ids of Bedrock's conversations are among them: a client sends them back in a path or a body,
so that a replay would miss by a placeholder.
"""

_RESPONSE_PREFIXES: Final = (
    "x-ratelimit-", "ratelimit-", "x-ratelimitbysize-", "ratelimitbysize-", "anthropic-ratelimit-",
    "x-trial-endpoint-call-", "x-compute-",
)  # fmt: skip
_FIREWORKS: Final = re.compile(r"fireworks-.*(?:tokens|duration|time|first-token|requests)")
"""What Fireworks measures."""
_URLS: Final = frozenset({"location", "operation-location", "azure-asyncoperation"})
"""Response headers that are stored without the secrets in their URLs."""

REQUEST_IDS: Final = frozenset(
    {"x-request-id", "request-id", "x-debug-trace-id", "openai-organization", "openai-project",
     "anthropic-organization-id", "anthropic-workspace-id", "x-goog-request-id",
     "x-amzn-requestid", "x-amzn-request-id", "x-amz-request-id", "x-amz-id-2", "x-amz-cf-id",
     "x-amzn-trace-id", "x-ms-request-id", "x-ms-client-request-id", "apim-request-id",
     "azureml-model-session", "cf-ray", "x-together-request-id",
     "x-fireworks-request-id", "x-fireworks-trace-id", "fireworks-backend-host",
     "fireworks-deployment", "fireworks-pod-template-hash", "x-goog-upload-url"}
)  # fmt: skip
"""Response headers that clients read, but whose value says whose account or request it was, or lets
anybody upload."""

_PAIRS: Final = re.compile("([&;])")
"""Between the parameters of a query; splitting keeps them."""
_USER: Final = re.compile(r"(^|//)[^/?#]*@")
"""User and password, in front of a URL's host."""
_REST: Final = re.compile(r"[?#].*", re.DOTALL)


def storable_request_headers(headers: Headers) -> Headers:
    """The request headers that may be stored, their names in lower case."""
    lower = ((name.lower(), value) for name, value in headers)
    return tuple(pair for pair in lower if pair[0] in REQUEST_HEADERS)


def storable_response_headers(headers: Headers) -> Headers:
    """The response headers that may be stored; ids are replaced, so that readers find one."""
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        lower = name.lower()
        if lower in _URLS:
            kept.append((name, _redact_url(value)))
        elif (
            lower in RESPONSE_HEADERS
            or lower.startswith(_RESPONSE_PREFIXES)
            or _FIREWORKS.fullmatch(lower)
        ):
            kept.append((name, value))
        elif lower in REQUEST_IDS:
            kept.append((name, PLACEHOLDER))
    return tuple(kept)


def _redact_url(url: str) -> str:
    rest, hash_mark, fragment = _USER.sub(r"\1", url).partition("#")
    target, mark, parameters = rest.partition("?")
    return target + mark + redact_query(parameters)[0] + hash_mark + redact_query(fragment)[0]


def displayable_target(target: str) -> str:
    """A request's target as it may be shown: without user, query and fragment."""
    return _USER.sub(r"\1", _REST.sub("", target))


def redact_query(raw: str) -> tuple[str, int]:
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


@dataclass(frozen=True, slots=True)
class RedactedPiece:
    """A read without secrets, or a part of one."""

    read: Read
    is_rest: bool = False
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
        self._held_reads: list[RedactedPiece] = []
        self._is_replaced = False
        """Whether nothing is left of what was settled last, so that a rest begins its read."""
        self.count = 0
        """How many secrets were replaced so far."""

    def redact(self, data: bytes) -> bytes:
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
    def is_holding_back(self) -> bool:
        """Whether something was fed that is not settled."""
        return bool(self._held_reads)

    def secret_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where in `data` secrets stand, from left to right."""
        return [match.span() for match in self._pattern.finditer(data)] if self._pattern else []

    def redact_text(self, value: str) -> str:
        """A header's value with its secrets replaced."""
        return self.redact(value.encode("latin-1", "replace")).decode("latin-1")

    def feed(self, read: Read, *, rest: bool = False) -> list[RedactedPiece]:
        """What is settled after this read, or `rest` of one, in order, without secrets."""
        if self._pattern is None:
            return [RedactedPiece(read, rest)]
        self._held_reads.append(RedactedPiece(read, rest))
        data = b"".join(held.read.data for held in self._held_reads)
        return self._release_until(data, self._open_secret_offset(data))

    def pass_through(self, pieces: list[RedactedPiece]) -> list[RedactedPiece]:
        """Pieces that are known to hold no secret, where nothing is held back."""
        if pieces:
            pieces[0] = RedactedPiece(pieces[0].read, pieces[0].is_rest and not self._is_replaced)
            self._is_replaced = False
        return pieces

    def close(self) -> list[RedactedPiece]:
        """What was held back; more may follow."""
        data = b"".join(held.read.data for held in self._held_reads)
        return self._release_until(data, len(data))

    def _open_secret_offset(self, data: bytes) -> int:
        """Where a secret may have begun that has not ended; the length of `data` if nowhere."""
        first = len(data)
        for secret in self._secrets:
            start = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
            while start != -1 and start < first:
                if secret.startswith(data[start:]):
                    first = start
                start = data.find(secret[:1], start + 1)
        return first

    def _release_until(self, data: bytes, until: int) -> list[RedactedPiece]:
        """Give the reads up to `until`; a placeholder goes to the read in which it began."""
        spans = [(begin, end) for begin, end in self.secret_spans(data) if begin < until]
        until = max([until, *(end for _, end in spans)])
        self.count += len(spans)
        settled, kept = list[RedactedPiece](), list[RedactedPiece]()
        position = 0
        for held in self._held_reads:
            begin, position = position, position + len(held.read.data)
            if begin >= until:
                kept.append(held)
                continue
            rest = held.is_rest and not self._is_replaced
            piece = _replace_spans(data, begin, min(position, until), spans, self._mark)
            if piece:
                settled.append(RedactedPiece(Read(held.read.at_ms, piece), rest))
                rest = True
            if position > until:
                kept.append(RedactedPiece(Read(held.read.at_ms, data[until:position]), rest))
            self._is_replaced = position <= until and not rest
        self._held_reads = kept
        return settled


def _replace_spans(
    data: bytes, begin: int, end: int, spans: list[tuple[int, int]], mark: bytes
) -> bytes:
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
