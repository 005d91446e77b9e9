"""The names of secrets: query parameters, headers, cookies, and fields of bodies."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import unquote

BodyFieldKind = Literal["secret", "ambiguous", "other"]
"""Whether the name of a body field is that of a secret, may be, or is not."""

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
_BODY_SECRETS: Final = re.compile(
    r"(?:.*[-_.])?(?:"
    r"(?:x[-_])?(?:api|access|secret|private|subscription|master|signing|encryption|account|shared"
    r"|service|auth|client|admin|functions?)[-_]?(?:key|secret)s?"
    r"|(?:access|refresh|id|auth|authorization|bearer|session|security|api|bot|oauth|personal)"
    r"[-_]?token"
    r"|(?:proxy[-_])?authorization|password|passwd|passphrase|passcode|pwd|cookie"
    r"|(?:app|consumer|webhook|jwt)[-_]?secret|credentials?"
    r"|(?:database|connection|conn)[-_]?(?:string|url|uri))",
    re.IGNORECASE,
)
"""Names of body fields that hold secrets.  `signature`, `key` and `token` are none: answers have
signatures that conversations need, and the tokens of a text."""
_AMBIGUOUS_SECRETS: Final = re.compile(
    r"(?:.*[-_.])?(?:token|secret|auth|jwt|bearer)", re.IGNORECASE
)
"""Names of body fields that hold a secret if their value looks random."""
_CAMEL_CASE_BOUNDARY: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_BRACKETS: Final = re.compile(r"[\[\]]+")
"""Brackets around parts of a parameter's name, as some frameworks write: `filter[token]`."""


def is_secret_parameter(name: str) -> bool:
    """Whether the name of a query parameter, or a part of it, is that of a secret."""
    return _matches_secret_name(_SECRET_PARAMETERS, name)


def is_credential_parameter(name: str) -> bool:
    """Whether a query parameter holds a credential that a client may also send in a header."""
    return any(_CREDENTIAL_PARAMETERS.fullmatch(part) for part in _name_parts(name))


def is_secret_field(name: str) -> bool:
    """Whether the name of a body field is that of a secret: `api_key`, `authorizationToken`."""
    return _matches_secret_name(_SECRET_FIELDS, name)


@lru_cache(256)  # requests have the same fields again and again
def body_field_kind(name: str) -> BodyFieldKind:
    """What a string in the body field of that name is, by the name alone."""
    if _matches_secret_name(_BODY_SECRETS, name):
        return "secret"
    return "ambiguous" if _matches_secret_name(_AMBIGUOUS_SECRETS, name) else "other"


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
