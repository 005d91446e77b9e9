"""The schema of fault lists in scenarios and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

Spelled = Annotated[
    str | Mapping[str, Any],
    Meta(description="A rule: `reset,after=3`, or `{fault: reset, after: 3}`."),
]
"""A rule, as a text or as a mapping."""
Faults = tuple[Spelled, ...]
"""Rules, in their order."""


class FaultDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of faults."""

    faults: Annotated[Faults, Meta(description="The rules.")]
