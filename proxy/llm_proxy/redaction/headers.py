"""What is stored of heads: header allow-lists, and URLs without the secrets in them."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.exchange import Headers
from llm_proxy.redaction.names import is_secret_parameter
from llm_proxy.redaction.placeholders import PLACEHOLDER

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
"""The response headers that are stored unchanged; see `docs/explanation/security.md`.

`tests/client_headers.json` lists which client reads which header.  The ids of Bedrock conversations
are stored: a client sends them back in a path or a body, and with a placeholder a replay would
miss.  `date` is not: AWS's JavaScript client sets the clock by which it signs to it.
"""

STORED_RESPONSE_PREFIXES: Final = (
    "x-ratelimit-", "ratelimit-", "x-ratelimitbysize-", "ratelimitbysize-", "anthropic-ratelimit-",
    "x-trial-endpoint-call-", "x-compute-",
)  # fmt: skip
"""The beginnings of further response headers that are stored unchanged."""
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

QUERY_SEPARATOR: Final = re.compile("([&;])")
"""Separates the parameters of a query; a group, so that splitting keeps the separators."""
_URL_USERINFO: Final = re.compile(r"(^|//)[^/?#]*@")
"""User and password in front of a URL's host."""
_QUERY_AND_FRAGMENT: Final = re.compile(r"[?#].*", re.DOTALL)


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
            or lower.startswith(STORED_RESPONSE_PREFIXES)
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
    for pair in QUERY_SEPARATOR.split(query):
        name, equals, value = pair.partition("=")
        if equals and value and is_secret_parameter(name):
            count += 1
            kept.append(f"{name}={PLACEHOLDER}")
        else:
            kept.append(pair)
    return "".join(kept), count
