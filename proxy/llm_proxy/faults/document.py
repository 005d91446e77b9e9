"""What a file of faults may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

Spelled = str | Mapping[str, Any]
"""A rule: `reset,after=3`, or `{fault: reset, after: 3}`."""


class FaultDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of faults."""

    faults: Annotated[
        tuple[Spelled, ...],
        Meta(description="The rules: `reset,after=3`, or `{fault: reset, after: 3}`."),
    ]
