"""Validates responses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from llm_proxy.scenario.documents.document import (
    PartsResponse,
    ReActResponse,
    ReasoningPartSpec,
    ReasoningSpec,
    ToolCallPartSpec,
    ToolCallsResponse,
)
from llm_proxy.scenario.documents.findings import StructFinding, warning_finding

_GEMINI_METADATA_KEYS: Final = ("google", "gemini", "vertex")
_SIGNATURE_FIELDS: Final = ("thoughtSignature", "thought_signature", "signature")


def check_call_ids(tool_calls_response: ToolCallsResponse) -> Iterator[StructFinding]:
    """Find calls with the same id, whose results could not be distinguished."""
    yield from _duplicate_id_findings(
        "tool_calls", ((i, call.call_id) for i, call in enumerate(tool_calls_response.tool_calls))
    )


def check_part_call_ids(parts_response: PartsResponse) -> Iterator[StructFinding]:
    """Find call parts with the same id, whose results could not be distinguished."""
    calls = (
        (i, part.call_id)
        for i, part in enumerate(parts_response.parts)
        if isinstance(part, ToolCallPartSpec)
    )
    yield from _duplicate_id_findings("parts", calls)


def check_react_action(react_response: ReActResponse) -> Iterator[StructFinding]:
    """Find a ReAct response with neither an action nor a final answer."""
    if not react_response.action and not react_response.final_answer:
        yield StructFinding((), "the answer does nothing: give it an action, or a final_answer")


def check_gemini_signature(
    reasoning_spec: ReasoningSpec | ReasoningPartSpec,
) -> Iterator[StructFinding]:
    """Find signatures that are not base64, which Gemini's clients cannot decode."""
    for provider in _GEMINI_METADATA_KEYS:
        fields: Mapping[str, Any] = reasoning_spec.provider_metadata.get(provider, {})
        for name in _SIGNATURE_FIELDS:
            signature = fields.get(name)
            if isinstance(signature, str) and not _is_base64(signature):
                yield warning_finding(
                    ("provider_metadata", provider, name),
                    "Gemini's clients take a signature only as base64, and this is none",
                )


def _duplicate_id_findings(field: str, calls: Iterable[tuple[int, str]]) -> Iterator[StructFinding]:
    """A warning per repeated id; a call without an id has the id `call-N` by its position."""
    seen: set[str] = set()
    for index, call_id in calls:
        effective_id = call_id or f"call-{index + 1}"
        if effective_id in seen:
            yield warning_finding(
                (field, index),
                f"two calls of this answer have the id {effective_id}, so their results "
                "cannot be told apart",
            )
        seen.add(effective_id)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return False
    return True
