"""Placeholders: what stands in a cassette in place of a secret.

A placeholder names the kind of secret, never a hash of it.
"""

from __future__ import annotations

import re
from typing import Final

PLACEHOLDER: Final = "[redacted]"
"""Replaces the value of a header or query parameter, and a credential in a response."""
CLIENT_PLACEHOLDER: Final = "[redacted-client]"
"""Replaces a client's credential that its request contains a second time."""
OPERATOR_PLACEHOLDER: Final = "[redacted-operator]"
"""Replaces a secret from the operator's environment."""
POST_KEY_PLACEHOLDERS: Final = (CLIENT_PLACEHOLDER, OPERATOR_PLACEHOLDER)
"""Placeholders of values in a request that were replaced after its key was computed."""
PLACEHOLDER_PATTERN: Final = re.compile(r"\[redacted(?:-client|-operator|:[a-z0-9-]{1,60})?\]")
"""Any placeholder."""
_PLACEHOLDER_BYTES: Final = re.compile(PLACEHOLDER_PATTERN.pattern.encode())


def rule_placeholder(rule: str) -> str:
    """The placeholder of what a rule replaces: `[redacted:anthropic-key]`."""
    return f"[redacted:{rule}]"


def count_placeholders(data: bytes) -> int:
    """The number of placeholders in `data`."""
    return len(_PLACEHOLDER_BYTES.findall(data))
