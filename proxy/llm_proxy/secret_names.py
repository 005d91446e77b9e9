"""Decides by name whether a parameter, field, header or cookie holds a secret."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

_SECRET_PARAMETERS: Final = re.compile(
    r"(?:.*[-_.]|api|access|auth|client|session|subscription)?"
    r"(?:key|token|secret|password|passwd|pwd|auth|authorization|credentials?|bearer|jwt)"
    r"|(?:.*[-_.])?access[-_]?key[-_]?id|sig|signature|sas|code|x-(?:amz|goog)-.*",
    re.IGNORECASE,
)
_OF_PAGES: Final = re.compile(
    r"(?:.*[-_.])?(?:page|next|prev|previous|continuation|sync|resume|start|cursor|sort|order|group"
    r"|partition|range|row|object|cache|idempotency)[-_]?(?:token|key)",
    re.IGNORECASE,
)
"""What is called like a secret, and says which page of a list is meant, or how it is sorted."""
_CREDENTIALS: Final = re.compile(
    r"(?:x[-_])?(?:api[-_]?key|key|access[-_]?token|auth[-_]?token|subscription[-_]?key|token|auth"
    r"|authorization|bearer|jwt|password|passwd|pwd|secret|client[-_]?secret|sig|signature|sas)"
    r"|x-(?:amz|goog)-.*",
    re.IGNORECASE,
)
"""What a client may as well send in a header."""
_CALLED: Final = (
    r"(?:.*[-_.])?(?:api|access|auth|client|private|secret|session|subscription)?"
    r"(?:key|token|secret|password|passwd|passphrase|pwd|auth|authorization|credentials?|bearer|jwt"
    r"|signature|sig|assertion{more})"
)
_SECRET_FIELDS: Final = re.compile(_CALLED.format(more=""), re.IGNORECASE)
_OF_HEADERS: Final = re.compile(
    _CALLED.format(
        more=r"|[cx]srf|(?:.*sess(?:ion)?[-_]?|[a-z]*s)id|session|clearance|cf[-_]bm"
        r"|authentication|authorisation|(?:.*[-_])?auth[-_]code|[a-z]*pass|passcode"
        r"|x?api[-_]?keys?|keys|tokens|secrets|remember(?:[-_]?(?:me|token))?"
    )
    + r"(?:[-_.]?v?[0-9]{1,2})?(?:[-_]header)?",
    re.IGNORECASE,
)
_HUMP: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_BRACKETS: Final = re.compile(r"[\[\]]+")
"""What some frameworks write around the parts of a parameter's name: `filter[token]`."""


def is_secret_parameter(name: str) -> bool:
    """Whether a query parameter is called like a secret, or a part of its name is."""
    return _matches_name(_SECRET_PARAMETERS, name)


def is_credential_parameter(name: str) -> bool:
    """Whether a query parameter holds what a client may as well send in a header."""
    return any(_CREDENTIALS.fullmatch(part) for part in _name_parts(name))


def is_secret_field(name: str) -> bool:
    """Whether a field of a body is called like a secret: `api_key`, `authorizationToken`."""
    return _matches_name(_SECRET_FIELDS, name)


@lru_cache(256)  # clients send the same names again and again
def is_credential_name(name: str) -> bool:
    """Whether a header or a cookie is called like what it authenticates with: `x-api-key`, `sid`.

    Not one that only has such a word within its name: `x-auth-mode`.
    """
    return _matches_name(_OF_HEADERS, name)


def _matches_name(pattern: re.Pattern[str], name: str) -> bool:
    return any(
        pattern.fullmatch(part) is not None and _OF_PAGES.fullmatch(part) is None
        for part in _name_parts(name)
    )


def _name_parts(name: str) -> list[str]:
    """The parts of a parameter's name, `camelCase` with dashes between its words."""
    return [_HUMP.sub("-", part) for part in _BRACKETS.split(unquote(name)) if part]
