"""Redaction: recognises secrets, and keeps them off the disk.

    request, head, reads ─▶ names (headers, query, fields) ─▶ finder ─▶ placeholders

`headers` keeps heads by allow-list: a header that is not known to be harmless is not stored.
`names` knows what fields of secrets are called, `credentials` collects those of a request,
`patterns` is the table of shapes, `finder` finds both in all `encodings`, `stream` and `frames`
replace them in reads as they arrive, `documents` in a request and in a finished cassette, where a
secret may be spread over messages.

A key is computed from a request that was redacted by rules that need no environment, because CI
has other credentials than the machine that recorded; the values of the client's and the operator's
credentials are replaced after that.
"""

from llm_proxy.redaction.credentials import (
    environment_secret_spellings,
    has_secret_shape,
    request_credential_spellings,
)
from llm_proxy.redaction.documents import (
    ResponseRedaction,
    keyed_secret_places,
    may_be_redacted,
    redact_known,
    redact_request,
    redact_text,
)
from llm_proxy.redaction.encodings import SecretSpan
from llm_proxy.redaction.finder import KnownSecret, SecretFinder
from llm_proxy.redaction.headers import (
    REDACTED_RESPONSE_HEADERS,
    STORED_REQUEST_HEADERS,
    STORED_RESPONSE_HEADERS,
    displayable_target,
    redact_query,
    storable_request_headers,
    storable_response_headers,
)
from llm_proxy.redaction.names import (
    is_credential_name,
    is_credential_parameter,
    is_secret_field,
    is_secret_parameter,
)
from llm_proxy.redaction.placeholders import (
    CLIENT_PLACEHOLDER,
    OPERATOR_PLACEHOLDER,
    PLACEHOLDER,
    POST_KEY_PLACEHOLDERS,
    count_placeholders,
)
from llm_proxy.redaction.rules import (
    DEFAULT_REDACTION,
    NO_REDACTION,
    REDACTION_RULES_VERSION,
    RedactionRules,
    client_secrets,
    has_older_rules,
    operator_secrets,
    parse_redaction_rules,
    split_rule_texts,
)
from llm_proxy.redaction.stream import RedactedPiece, Redactor

__all__ = [
    "CLIENT_PLACEHOLDER",
    "DEFAULT_REDACTION",
    "NO_REDACTION",
    "OPERATOR_PLACEHOLDER",
    "PLACEHOLDER",
    "POST_KEY_PLACEHOLDERS",
    "REDACTED_RESPONSE_HEADERS",
    "REDACTION_RULES_VERSION",
    "STORED_REQUEST_HEADERS",
    "STORED_RESPONSE_HEADERS",
    "KnownSecret",
    "RedactedPiece",
    "RedactionRules",
    "Redactor",
    "ResponseRedaction",
    "SecretFinder",
    "SecretSpan",
    "client_secrets",
    "count_placeholders",
    "displayable_target",
    "environment_secret_spellings",
    "has_older_rules",
    "has_secret_shape",
    "is_credential_name",
    "is_credential_parameter",
    "is_secret_field",
    "is_secret_parameter",
    "keyed_secret_places",
    "may_be_redacted",
    "operator_secrets",
    "parse_redaction_rules",
    "redact_known",
    "redact_query",
    "redact_request",
    "redact_text",
    "request_credential_spellings",
    "split_rule_texts",
    "storable_request_headers",
    "storable_response_headers",
]
