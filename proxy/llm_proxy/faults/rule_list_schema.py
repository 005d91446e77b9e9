"""The schema of fault lists in scenarios and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

RuleSpec = Annotated[
    str | Mapping[str, Any],
    Meta(description="A rule: `reset,after=3`, or `{fault: reset, after: 3}`."),
]
"""A rule as text or as a mapping, not yet parsed."""
RuleSpecs = tuple[RuleSpec, ...]
"""Rules in order, not yet parsed."""


class FaultRulesFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with a list of fault rules."""

    faults: Annotated[RuleSpecs, Meta(description="The rules.")]
